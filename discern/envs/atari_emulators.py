"""N Atari emulators on C++ threads, as a process of their own serves them.

Making an emulator takes a tenth of a second under Python's lock, so many are made side by side only in processes; and
none waits for the lock while another copies its screens.
"""

import mmap
import os

import numpy as np
from ale_py.vector_env import AtariVectorEnv

Played = tuple[np.ndarray, ...]  # whether the game is over bool [N], lives int [N], frames since the game began int [N]


class Emulators:
    """Games that start over when they end; their screens go into memory that both processes see."""

    def __init__(self, game: str, settings: dict, memory: int, shape: tuple[int, ...]):
        """`memory` is the number of an open file for screens uint8 [N, H, W, 3] of this and other processes."""
        os.nice(10)  # what keeps the accelerator busy goes first
        self._game, self._settings = game, settings
        self._screens = np.frombuffer(mmap.mmap(memory, int(np.prod(shape))), np.uint8).reshape(shape)

    def make(self, rows: np.ndarray) -> None:
        """An emulator for each of some neighbouring rows of the screens."""
        self._screens = self._screens[rows[0] : rows[-1] + 1]
        self._emulators = AtariVectorEnv(self._game, len(rows), **self._settings)

    def reset(self, seeds: np.ndarray) -> Played:
        screens, info = self._emulators.reset(seed=seeds)
        self._screens[:] = screens[:, 0]
        return np.zeros(len(screens), bool), info["lives"], info["episode_frame_number"]

    def step(self, actions: np.ndarray) -> Played:
        """Plays int32 [N]; an emulator whose game was over ignores its action and starts a new game."""
        self._emulators.send(actions)
        screens, _, terminated, truncated, info = self._emulators.recv()
        self._screens[:] = screens[:, 0]
        return terminated | truncated, info["lives"], info["episode_frame_number"]
