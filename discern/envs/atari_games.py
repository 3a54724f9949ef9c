"""N games whose memory can be read, played in turn by one emulator, as a process of their own serves them.

An emulator holds Python's lock while it runs, so a process for each core is what plays several at once.
"""

import numpy as np
from ale_py import ALEState

from discern.envs.ale import Emulator, shrink_on_host

Played = tuple[np.ndarray, ...]  # screens uint8 [N, ...], memory uint8 [N, 128], is_first and is_last bool [N]


class Games:
    """Games that start over when they end."""

    def __init__(self, game: str, sticky: float, shrinks: bool):
        self._emulator = Emulator(game, sticky)
        self._shrinks = shrinks
        self._games: list[ALEState] = []
        self._over = np.zeros(0, bool)
        self._chances: list[np.random.Generator] = []

    def reset(self, seeds: np.ndarray) -> Played:
        """Starts every game anew, each with chances of its own: int [N, any]."""
        self._chances = [np.random.default_rng(seed) for seed in seeds]
        self._games = [self._emulator.starts[0][0]] * len(seeds)
        self._over = np.ones(len(seeds), bool)
        return self.step(np.zeros(len(seeds), np.int32))

    def step(self, actions: np.ndarray) -> Played:
        """Plays int32 [N]; a game that is over, or reset, ignores its action and starts."""
        emulator, is_first, looks = self._emulator, self._over, []
        self._over = np.zeros(len(self._games), bool)
        for i, action in enumerate(actions):
            if is_first[i]:
                look = emulator.start(self._chances[i])
            else:
                emulator.restore(self._games[i])
                look = emulator.step(int(action))
            looks.append(look._replace(screen=shrink_on_host(look.screen)) if self._shrinks else look)
            self._games[i] = emulator.clone()
            self._over[i] = emulator.game_over
        screens, memory = (np.stack(parts) for parts in zip(*looks, strict=True))
        return screens, memory, is_first, self._over
