"""Gymnasium environments with one property each, for the processes that the tests start."""

import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv


class Dot(gymnasium.Env):
    """A white dot on 16×16 that four actions move by two pixels; an episode lasts `length` steps."""

    def __init__(self, length: int = 12):
        self.observation_space = spaces.Box(0, 255, (16, 16, 3), np.uint8)
        self.action_space = spaces.Discrete(4, start=1)
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 2 * self.np_random.integers(0, 8, 2), 0
        return self.see(), {"x": self.place[0]}

    def step(self, action):
        moves = {1: (2, 0), 2: (-2, 0), 3: (0, 2), 4: (0, -2)}
        self.place, self.steps = (self.place + moves[action]) % 16, self.steps + 1
        info = {"x": self.place[0], "y": np.float32(self.place[1]), "steps": self.steps}
        return self.see(), 0.0, self.steps >= self.length, False, info

    def see(self):
        image = np.zeros((16, 16, 3), np.uint8)
        image[self.place[1] : self.place[1] + 2, self.place[0] : self.place[0] + 2] = 255
        return image


class Rendered(Dot):
    """It observes nothing of use and shows a grey that tells its steps."""

    def __init__(self, render_mode=None):
        super().__init__()
        self.observation_space = spaces.Box(-1.0, 1.0, (2,))
        self.render_mode = render_mode

    def see(self):
        return np.array([0.25, -0.5], np.float32)

    def render(self):
        return np.full((20, 30, 3), self.steps, np.uint8) if self.render_mode == "rgb_array" else None


class Crashing(Dot):
    def step(self, action):
        if self.steps == 5:
            raise ValueError("the wheel\ncame off")
        return super().step(action)


class Dying(Dot):
    def step(self, action):
        if self.steps == 5:
            os._exit(7)
        return super().step(action)


class Hanging(Dot):
    def step(self, action):
        if self.steps == 5:
            time.sleep(1000)
        return super().step(action)


class Talking(Dot):
    """It prints, and asks questions."""

    def step(self, action):
        print("step")
        assert os.read(0, 1) == b""
        return super().step(action)


def with_actions(space):
    env = Dot()
    env.action_space = space
    return env


def many_buttons():
    return with_actions(spaces.MultiBinary(3))


def two_levers():
    return with_actions(spaces.MultiDiscrete([3, 2]))


def named_actions():
    return with_actions(spaces.Dict({"gas": spaces.Discrete(2)}))


def several_actions():
    return with_actions(spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))))


def arm():
    return with_actions(spaces.Box(-1.0, 1.0, (8,)))


def dots(num_envs, mode="NextStep", render=False):
    """A vector of dots, of its own making."""
    make = (lambda: Rendered("rgb_array")) if render else (lambda: Dot(3))
    return SyncVectorEnv([make] * num_envs, autoreset_mode=mode)


def three_dots():
    return dots(3)


def dots_that_reset_somehow(num_envs):
    env = dots(num_envs)
    env.metadata = {}
    return env


def unbounded():
    return with_actions(spaces.Box(-np.inf, np.inf, (2,)))


def blind():
    return Rendered(render_mode="ansi")


def raising():
    raise RuntimeError("no licence found")


def sleeping():
    time.sleep(1000)


def something_else():
    return [1, 2, 3]


def nothing_at_all():
    return None


class Shrinking(Dot):
    """Its observations are smaller than its space says."""

    def see(self):
        return super().see()[:8]


class Empty(Dot):
    """Its observations have no pixels."""

    def see(self):
        return super().see()[:0]


class Bright(Dot):
    """Its observations are floats, whatever its space says."""

    def see(self):
        return super().see() / 255


class OldReset(Dot):
    """It resets as gym did before Gymnasium."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class OldStep(Dot):
    """It steps as gym did before Gymnasium."""

    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class Stuck(Dot):
    def reset(self, *, seed=None, options=None):
        raise ZeroDivisionError("no floor to stand on")


def needs(floor):
    return Dot(floor)


not_a_factory = 3
