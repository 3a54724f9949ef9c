"""N games whose memory can be read, played in turn by one emulator: in this process, or in one of their own.

An emulator holds Python's lock while it runs, so a process for each core is what plays several at once.
"""

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from ale_py import ALEState

from discern.envs.ale import Emulator, Look, shrink_on_host


class Played(NamedTuple):
    """One step of N games; after `is_last` comes the first step of a new game."""

    looks: Look  # leading axis N
    is_first: np.ndarray  # bool [N]
    is_last: np.ndarray  # bool [N]


class Games:
    """Games that start over when they end."""

    def __init__(self, game: str, n: int, sticky: float, shrinks: bool):
        self._emulator = Emulator(game, sticky)
        self._shrinks = shrinks
        self._games: list[ALEState] = [self._emulator.starts[0][0]] * n
        self._over = np.ones(n, bool)
        self._chances: list[np.random.Generator] = []
        self._played: Played | None = None

    def reset(self, seeds: np.ndarray) -> None:
        """Starts every game anew, each with chances of its own: int [N, any]."""
        self._chances = [np.random.default_rng(seed) for seed in seeds]
        self._over = np.ones(len(seeds), bool)
        self.send(np.zeros(len(seeds), np.int32))

    def send(self, actions: np.ndarray) -> None:
        """Plays a step with int32 [N]; a game that is over, or reset, ignores its action and starts."""
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
        together = Look(np.stack([look.screen for look in looks]), np.stack([look.ram for look in looks]))
        self._played = Played(together, is_first, self._over)

    def recv(self) -> Played:
        assert self._played is not None, "recv() before reset()"
        return self._played

    def close(self) -> None:
        self._games = []


class RemoteGames:
    """The same in a process of its own, which ends when its input does."""

    def __init__(self, *arguments: Any):
        inherited = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", "from discern.envs.atari_games import serve; serve()"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=inherited)
        self._call("__init__", *arguments)

    def _call(self, method: str, *arguments: Any) -> None:
        assert self._process.stdin is not None
        pickle.dump((method, arguments), self._process.stdin)
        self._process.stdin.flush()

    def reset(self, seeds: np.ndarray) -> None:
        self._call("reset", seeds)

    def send(self, actions: np.ndarray) -> None:
        self._call("send", actions)

    def recv(self) -> Played:
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except EOFError:
            raise RuntimeError(f"a process of emulators died with exit code {self._process.wait()}") from None

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._process.communicate()


def serve() -> None:
    """What a process of emulators does: plays what it is told to, until its input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    games: Games | None = None
    while True:
        try:
            method, arguments = pickle.load(requests)
        except (EOFError, KeyboardInterrupt):
            return
        if games is None:
            games = Games(*arguments)
            continue
        getattr(games, method)(*arguments)
        pickle.dump(games.recv(), answers, protocol=5)
        answers.flush()
