"""One DeepMind Lab level in a process of its own, run as a script: it imports Lab and NumPy and nothing of discern.

It is asked with pickled (method, argument) on its standard input and answers with plain arrays. Interrupts are for
the process that asks; this one ends when its input does.
"""

import os
import pickle
import signal
import sys
from typing import Any

import deepmind_lab
import numpy as np

Answer = tuple[dict[str, np.ndarray], bool, bool]  # what is observed, is_first, is_last


class Level:
    """A level that plays every action for some frames, and starts over when it ends."""

    def __init__(self, name: str, observations: list[str], settings: dict[str, str], frames: int):
        self._lab = deepmind_lab.Lab(name, observations, config=settings)
        self._frames = frames
        self._chance = np.random.default_rng(0)
        self._over = True
        self._seen: dict[str, np.ndarray] = {}

    def reset(self, seed: list[int]) -> Answer:
        self._chance = np.random.default_rng(seed)
        self._over = True
        return self.step(np.zeros(7, np.intc))

    def step(self, action: np.ndarray) -> Answer:
        """Plays int [7]; a level that is over, or reset, ignores it and starts."""
        is_first = self._over
        if is_first:
            self._lab.reset(seed=int(self._chance.integers(2**31 - 1)))
        else:
            self._lab.step(action, num_steps=self._frames)
        self._over = not self._lab.is_running()
        if not self._over:  # Lab has nothing to show once an episode is over: its last image is shown again
            self._seen = self._lab.observations()
        return self._seen, is_first, self._over

    def close(self) -> None:
        self._lab.close()


def serve() -> None:
    """Plays what it is told to, until its input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Lab's engine talks
    level: Any = Level(*pickle.load(requests))
    while True:
        try:
            method, argument = pickle.load(requests)
        except EOFError:
            level.close()
            return
        pickle.dump(getattr(level, method)(argument), answers, protocol=5)
        answers.flush()


if __name__ == "__main__":
    serve()
