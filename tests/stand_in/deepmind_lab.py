"""A stand-in with the interface of DeepMind Lab's module, and as strict: an empty pool, in episodes of 40 frames."""

import os

import numpy as np

EPISODE_FRAMES = 40
SPEED, DEGREES_PER_PIXEL = 320 / 60, 6 / 57


class Lab:
    alive = False

    def __init__(self, level, observations, config={}, renderer="software", level_cache=None):  # noqa: B006
        assert not Lab.alive, "one Lab in a process"
        assert level == "contributed/dmlab30/rooms_watermaze"
        assert all(isinstance(value, str) for value in config.values())
        assert set(observations) <= {"RGB_INTERLEAVED", "DEBUG.POS.TRANS", "DEBUG.POS.ROT"}
        Lab.alive = True
        self._names, self._size = observations, (int(config["height"]), int(config["width"]))
        self._running = False
        print("the engine talks")

    def reset(self, episode=-1, seed=None):
        chance = np.random.default_rng(seed)
        self._seed, self._frames, self._running = seed, 0, True
        angle = chance.uniform(-np.pi, np.pi)
        self._place, self._yaw = 700 * np.array([np.cos(angle), np.sin(angle)]), np.rad2deg(angle) + 180
        return True

    def step(self, action, num_steps=1):
        assert self._running, "Environment in wrong status for call to step()"
        assert action.dtype == np.intc and action.shape == (7,)
        if os.environ.get("STAND_IN_DIES"):
            os._exit(7)
        look, _, strafe, forward, *_ = action
        for _ in range(num_steps):
            self._yaw = (self._yaw - look * DEGREES_PER_PIXEL + 180) % 360 - 180
            yaw = np.deg2rad(self._yaw)
            ahead, right = np.array([np.cos(yaw), np.sin(yaw)]), np.array([np.sin(yaw), -np.cos(yaw)])
            self._place = self._place + SPEED * (forward * ahead + strafe * right)
            self._frames += 1
        self._running = self._frames < EPISODE_FRAMES
        return 0.0

    def is_running(self):
        return self._running

    def observations(self):
        assert self._running, "Environment in wrong status for call to observations()"
        image = np.zeros((*self._size, 3), np.uint8)
        image[..., 0], image[..., 1] = self._frames, self._seed % 251
        values = {
            "RGB_INTERLEAVED": image,
            "DEBUG.POS.TRANS": np.array([*self._place, 40.0]),
            "DEBUG.POS.ROT": np.array([0.0, self._yaw, 0.0]),
        }
        return {name: values[name] for name in self._names}

    def close(self):
        Lab.alive = False
        return True
