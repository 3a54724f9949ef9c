"""One DeepMind Lab level as a process of its own serves it; nothing of discern is imported here."""

import deepmind_lab
import numpy as np


class Level:
    """A level that plays every action for some frames, and starts over when it ends."""

    def __init__(self, name: str, observations: list[str], settings: dict[str, str], frames: int):
        self._lab = deepmind_lab.Lab(name, observations, config=settings)
        self._names, self._frames = observations, frames
        self._chance = np.random.default_rng(0)
        self._over = True
        self._seen: dict[str, np.ndarray] = {}

    def reset(self, seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        """Starts anew with the chances of int [1, any]."""
        self._chance = np.random.default_rng(seeds[0])
        self._over = True
        return self.step(np.zeros((1, 7), np.intc))

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, ...]:
        """Plays int [1, 7] → the observations, is_first and is_last, each [1, ...].

        A level that is over, or reset, ignores its action and starts.
        """
        is_first = self._over
        if is_first:
            self._lab.reset(seed=int(self._chance.integers(2**31 - 1)))
        else:
            self._lab.step(actions[0], num_steps=self._frames)
        self._over = not self._lab.is_running()
        if not self._over:  # Lab has nothing to show once an episode is over: its last image is shown again
            self._seen = self._lab.observations()
        return *(self._seen[name][None] for name in self._names), np.array([is_first]), np.array([self._over])

    def close(self) -> None:
        self._lab.close()
