"""Gymnasium environments as a process of their own serves them; nothing of discern is imported here."""

import os
import sys
from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from .actions import action_list, known_names
from .looks import RESET, STEP, RefusedError, is_image, measure, numbers, parts, refuse_unmeasured, rendered, shrunk
from .making import make
from .suites import Suite
from .vectors import Vector

Shown = tuple[np.ndarray, np.ndarray, bool, bool]  # uint8 [S, S, 3], float32 [D], is_first, is_last


class World:
    """One environment that plays every action for some frames, and starts over when it ends."""

    def __init__(self, env: gymnasium.Env, settings: dict[str, Any]):
        self._env, self._size = env, settings["size"]
        known = env if isinstance(env, Suite) else Suite
        self.actions = action_list(env.action_space, settings, known.action_names or known_names(env), known.axes)
        self.dimensions = known.dimensions
        self._from_observation = is_image(env.observation_space) and not settings["render"]
        self._frame_skip = settings["frame_skip"]
        self._scored = settings["score"] or [name for name, *_ in self.dimensions]
        self._over = True
        self._seed: int | None = None
        self.ranges: dict[str, tuple[float, float]] = {}  # where nothing is scored, of what could be

    def prove(self) -> None:
        """One step, so that what cannot work is known before a run begins."""
        self.reset(0)
        self.step(0)
        _, measures, _, _ = self.step(0)
        said, seen = self._env.observation_space.shape or (), np.shape(self._observation)
        if self._from_observation and said != seen:
            raise RefusedError(f"observes {list(seen)}, but its observation space says {list(said)}: mend one of them")
        refuse_unmeasured(measures, self._scored, self._info)

    def reset(self, seed: int) -> None:
        """The next step starts an episode, whatever its action."""
        self._seed, self._over = seed, True

    def step(self, action: int) -> Shown:
        """Plays an action; an environment that is over, or reset, ignores it and starts."""
        is_first = self._over
        if is_first:
            self._observation, self._info = parts(self._env.reset(seed=self._seed), "reset", RESET)
            self._seed, self._over = None, False
        for _ in range(0 if is_first else self._frame_skip):
            answer = self._env.step(self.actions.values[action])
            self._observation, _, terminated, truncated, self._info = parts(answer, "step", STEP)
            self._over = bool(terminated or truncated)
            if self._over:
                break
        if not self._scored:
            for name, value in numbers(self._observation, self._info).items():
                low, high = self.ranges.get(name, (value, value))
                self.ranges[name] = min(low, value), max(high, value)
        seen, did = (self._observation, "observed") if self._from_observation else (rendered(self._env), "rendered")
        measures = [measure(name, self._observation, self._info) for name in self._scored]
        return shrunk(seen, self._size, did), np.array(measures, np.float32), is_first, self._over

    def close(self) -> None:
        self._env.close()


class Worlds:
    """Several environments, stepped in turn, or a vector of them."""

    def __init__(self, name: str, settings: dict[str, Any]):
        cv2.setNumThreads(1)  # there is a process for each core
        sys.path.insert(0, os.getcwd())  # where a module of the user's own most likely lies
        self._name, self._settings = name, settings
        self._worlds: list[World] = []
        self._vector: Vector | None = None

    def prove(self, _: None) -> None:
        """Makes one environment and acts in it, so that what cannot work is known before there are more."""
        self._make(1).prove()

    def make(self, numbers: np.ndarray) -> dict[str, Any]:
        """Makes as many environments as there are numbers, and says what they are."""
        if self._vector is not None:  # of one, which was proved
            self._vector.close()
            self._make(len(numbers))
        while self._vector is None and len(self._worlds) < len(numbers):
            self._make(len(numbers))
        kinds: list[World | Vector] = [self._vector] if self._vector is not None else [*self._worlds]
        return {
            "actions": {len(kind.actions.values) for kind in kinds},
            "action_names": kinds[0].actions.names,
            "dimensions": {kind.dimensions for kind in kinds},
            "vector": self._vector is not None,
        }

    def _make(self, count: int) -> World | Vector:
        """Makes one more environment, or the vector of `count`."""
        env = make(self._name, self._settings, count)
        if isinstance(env, VectorEnv):
            self._vector = Vector(env, self._settings)
            return self._vector
        self._worlds.append(World(env, self._settings))
        return self._worlds[-1]

    def reset(self, seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.step(np.stack([np.zeros_like(seeds), seeds], axis=1))

    def step(self, actions_and_seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        """Plays int [n, 2]: an action, and the seed of an episode to start instead, or −1.

        Images uint8 [n, S, S, 3], measures float32 [n, D], is_first and is_last bool [n].
        """
        if self._vector is not None:
            return self._vector.step(actions_and_seeds)
        shown = []
        for world, (action, seed) in zip(self._worlds, actions_and_seeds.tolist(), strict=True):
            if seed >= 0:
                world.reset(seed)
            shown.append(world.step(action))
        images, measures, is_first, is_last = zip(*shown, strict=True)
        return np.stack(images), np.stack(measures), np.array(is_first), np.array(is_last)

    def ranges(self, _: Any) -> list[dict[str, tuple[float, float]]]:
        """The lowest and the highest so far of every number that could be scored, in each; empty where one is."""
        return [world.ranges for world in self._worlds]

    def close(self) -> None:
        for world in self._worlds:
            world.close()
        if self._vector is not None:
            self._vector.close()
