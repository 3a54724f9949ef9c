"""DeepMind Lab's rooms_watermaze, where Lab is installed: the actions are the watermaze's, in the same order."""

import importlib.util
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs.base import GOAL_SEEDS, EnvSpec, Half, HostStep, far_apart
from discern.envs.processes import Process, Processes
from discern.envs.watermaze.view import INRADIUS, SIZE
from discern.envs.watermaze.world import ACTION_NAMES, ACTIONS, DIMENSIONS, FRAMES_PER_STEP, LOOK_PIXELS
from discern.types import UserError

LEVELS = {"rooms_watermaze": "contributed/dmlab30/rooms_watermaze"}
IMAGE, PLACE, ANGLES = "RGB_INTERLEAVED", "DEBUG.POS.TRANS", "DEBUG.POS.ROT"
SETTINGS = {"width": str(SIZE), "height": str(SIZE), "fps": "60"}
LAB_ACTIONS = np.zeros((len(ACTIONS), 7), np.intc)  # look right, look up, strafe right, forward, fire, jump, crouch
LAB_ACTIONS[:, [3, 2, 0]] = ACTIONS * [1, 1, LOOK_PIXELS]

SCORED_AT_ONCE = 16  # a level is a process of its own
STEPS_BETWEEN_LOOKS, LOOKS_PER_GOAL = 10, 10


class Lab:
    """N levels, each in a process of its own that is started by the first reset; raw is their images."""

    observations: tuple[str, ...] = (IMAGE,)

    def __init__(self, level: str, n: int):
        if level not in LEVELS:
            raise UserError(
                f"there is no world 'lab/{level}'; there are: {', '.join(f'lab/{name}' for name in LEVELS)}"
            )
        if importlib.util.find_spec("deepmind_lab") is None:
            raise UserError(
                f"lab/{level} needs DeepMind Lab, which no package index has: build its wheel as "
                f"https://github.com/google-deepmind/lab says (docs/users/build.md) and install it with "
                f"`uv pip install`; `watermaze` is a world like it that needs nothing"
            )
        shape = (SIZE, SIZE, 3)
        self.spec = EnvSpec(f"lab/{level}", shape, len(ACTIONS), DIMENSIONS, action_names=ACTION_NAMES)
        self.size = n
        settings = (LEVELS[level], list(self.observations), SETTINGS, FRAMES_PER_STEP)
        self._levels = Processes(partial(Process, self.spec.name, "lab/level.py", "Level", settings), [1] * n)

    def reset(self, seed: int) -> HostStep:
        self._levels.ask("reset", np.stack([np.full(self.size, seed), np.arange(self.size)], axis=1))
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        self._levels.ask("step", LAB_ACTIONS[np.asarray(actions)])

    def recv(self) -> HostStep:
        *seen, is_first, is_last = self._levels.together()
        return HostStep(self.gather(seen), is_first, is_last)

    def gather(self, seen: list[np.ndarray]) -> Any:
        """What is made of what N levels observe."""
        return seen[0]

    def observe(self, raw: Any) -> jax.Array:
        return jnp.asarray(raw)

    def close(self) -> None:
        self._levels.close()


class Look(NamedTuple):
    """What is seen of N levels, and from where."""

    image: np.ndarray  # uint8 [N, 84, 84, 3]
    pose: np.ndarray  # float32 [N, 3]: x, y, yaw


class ScoredLab(Lab):
    """The same with Lab's debug observations, which say where the player is; at most sixteen levels at once."""

    observations = (IMAGE, PLACE, ANGLES)
    goal_sets = ("even",)

    def __init__(self, level: str, n: int):
        super().__init__(level, min(n, SCORED_AT_ONCE))

    def gather(self, seen: list[np.ndarray]) -> Look:
        image, place, angles = seen
        return Look(image, np.hstack([place[:, :2], np.deg2rad(angles[:, 1:2])]).astype(np.float32))

    def observe(self, raw: Look) -> jax.Array:
        return jnp.asarray(raw.image)

    def measure(self, raw: Look) -> np.ndarray:
        return np.asarray(raw.pose)

    def goals(self, name: str, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Images and poses from a long random walk, chosen to lie far apart: Lab puts a player nowhere by name."""
        del name  # there is one set
        chance = np.random.default_rng(GOAL_SEEDS[half])
        self.reset(GOAL_SEEDS[half])
        looks = []
        for _ in range(-(-count * LOOKS_PER_GOAL // self.size)):
            actions = chance.integers(0, len(ACTIONS), self.size)
            for _ in range(STEPS_BETWEEN_LOOKS):
                self.send(actions)
                step = self.recv()
            looks.append(step.raw)
        images, poses = (np.concatenate(parts) for parts in zip(*looks, strict=True))
        turn = poses[:, 2:]
        chosen = far_apart(np.hstack([poses[:, :2] / INRADIUS, np.cos(turn), np.sin(turn)]), count)
        return images[chosen], poses[chosen]
