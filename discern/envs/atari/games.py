"""N Atari games, each on an emulator of its own, as a process serves them.

An emulator holds Python's lock while it runs, so a process for each core is what plays several at once. Nothing of
discern is imported here: that would take longer than all else that happens before the first step.
"""

import mmap
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode, roms

FRAMES_PER_STEP = 4
IDLE_FRAMES = 30
MOST_FRAMES = 108_000  # of a game, half an hour
NOOP = 0
SCREEN = (210, 160)
SIDE = 84
RAM = 128

NEVER = (False,) * FRAMES_PER_STEP

Played = tuple[np.ndarray, ...]  # is_first, is_last and controllable, bool [N]


class Look(NamedTuple):
    """What can be seen of a game after a step, or of N of them."""

    screen: np.ndarray  # uint8 [210, 160, 3] or [84, 84, 3], the brighter of the last two frames, pixel by pixel
    ram: np.ndarray  # uint8 [128]


class Kept(NamedTuple):
    """A game to go on from."""

    state: ALEState
    look: Look
    locked: int
    held: int


class Game:
    """One game, four frames a step; `look` is written over with what can be seen."""

    def __init__(
        self,
        name: str,
        look: Look,
        frames: np.ndarray,
        locked_after_loss: int = 0,
        helpless: Sequence[tuple[int, int]] = (),
    ):
        """`frames` is room to work in, uint8 [2, 210, 160, 3], which other games may share; the rest is an Avatar's."""
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self._ale = ALEInterface()
        self._ale.setFloat("repeat_action_probability", 0.0)  # chance is not the emulator's, so that twins share it
        self._ale.setInt("max_num_frames_per_episode", MOST_FRAMES)
        rom = roms.get_rom_path(name)
        assert rom is not None, name
        self._ale.loadROM(rom)
        self.look, self._frames = look, frames
        self._locked_after_loss, self._helpless = locked_after_loss, helpless
        self.controllable = False  # whether the avatar heeds actions, as far as lives tell
        self._locked = 0  # steps until it does
        self._held = NOOP

    def starts(self, skipped: int, locked: int) -> list[Kept]:
        """A game after each number of idle frames, counted after so many steps, and locked for so many more."""
        self._ale.reset_game()
        self._locked, self._held = locked, NOOP
        for _ in range(skipped):
            self.skip(NOOP)
        starts = []
        for idle in range(IDLE_FRAMES + 1):
            if idle:
                self._ale.act(NOOP)
            self._ale.getScreenRGB(self._frames[0])
            self._frames[1] = self._frames[0]
            self._show()
            starts.append(self.keep())
        return starts

    def play(self, action: int, repeats: Sequence[bool] | np.ndarray = NEVER) -> None:
        """One step; a frame that repeats plays the action of the frame before it."""
        lives = self._ale.lives()
        for frame, repeat in enumerate(repeats):
            self._held = self._held if repeat else action
            self._ale.act(self._held)
            if frame >= FRAMES_PER_STEP - 2:
                self._ale.getScreenRGB(self._frames[frame % 2])
        self._show()
        lost = self._ale.lives() < lives
        self._locked = self._locked_after_loss if lost else max(0, self._locked - 1)
        self.controllable = not lost and self._locked == 0

    def skip(self, action: int) -> None:
        """A step that nobody looks at."""
        for _ in range(FRAMES_PER_STEP):
            self._ale.act(action)

    def _show(self) -> None:
        (screen, ram), (earlier, later) = self.look, self._frames
        self._ale.getRAM(ram)
        if screen.shape[:2] == SCREEN:
            np.maximum(earlier, later, out=screen)
        else:
            screen[:] = shrink_on_host(np.maximum(earlier, later, out=earlier))

    def keep(self) -> Kept:
        return Kept(self._ale.cloneState(), Look(*(part.copy() for part in self.look)), self._locked, self._held)

    def go_on_from(self, kept: Kept) -> None:
        self._ale.restoreState(kept.state)
        for mine, theirs in zip(self.look, kept.look, strict=True):
            mine[:] = theirs
        self._locked, self._held = kept.locked, kept.held
        self.controllable = self._locked == 0

    @property
    def over(self) -> bool:
        return self._ale.game_over()

    @property
    def may_go_on(self) -> bool:
        """Whether the avatar is controllable and not about to lose a life."""
        dying = any(self.look.ram[byte] > most for byte, most in self._helpless)
        return self.controllable and not dying and not self.over


class Group:
    """Neighbours that begin every attempt in one state and share their random numbers."""

    def __init__(self, games: list[Game], starts: list[Kept], sticky: float, horizon: int, p_restart: float):
        """A horizon of 0: only the end of a game ends an attempt."""
        self.games, self._starts = games, starts
        self._sticky, self._horizon, self._p_restart = sticky, horizon, p_restart

    def reset(self, seed: np.ndarray) -> None:
        self._chance = np.random.default_rng(seed)
        self.ended = True
        for game in self.games:
            game.controllable = False  # whatever it was doing is not gone on with

    def step(self, actions: list[int]) -> None:
        """Plays an action in each; where an attempt has ended, the next one begins instead."""
        if self.ended:
            return self._begin()
        repeats = self._chance.random(FRAMES_PER_STEP) < self._sticky if self._sticky else NEVER
        for game, action in zip(self.games, actions, strict=True):
            game.play(action, repeats)
        self._clock += 1
        self.ended = self._clock == self._horizon or any(game.over for game in self.games)

    def _begin(self) -> None:
        """At a game's start, or where one of those that may go on has come to."""
        alive = [game for game in self.games if game.may_go_on]
        restarts = not alive or self._chance.random() < self._p_restart
        kept = self._drawn(self._starts) if restarts else self._drawn(alive).keep()
        for game in self.games:
            game.go_on_from(kept)
        self._clock, self.ended = 0, False

    def _drawn(self, of: list[Any]) -> Any:
        return of[self._chance.integers(len(of))]


class Games:
    """Games whose screens and memory go where both processes see them."""

    def __init__(self, game: str, memory: int, shape: tuple[int, ...], rules: dict[str, Any]):
        """`memory` is the number of an open file for the looks of this and other processes, see `looks`.

        Rules are what a `game`, its `start` and a `group` are made with, and the `twins` of a group.
        """
        os.nice(10)  # what keeps the accelerator busy goes first
        cv2.setNumThreads(1)  # each core has a process
        self._game, self._rules = game, rules
        self._looks = looks(np.frombuffer(mmap.mmap(memory, look_bytes(shape)), np.uint8), shape)

    def make(self, rows: np.ndarray) -> None:
        """A game for each of some neighbouring rows of the looks."""
        frames, rules = np.empty((2, *SCREEN, 3), np.uint8), self._rules
        games = [Game(self._game, Look(*(part[row] for part in self._looks)), frames, **rules["game"]) for row in rows]
        starts, twins = games[0].starts(**rules["start"]), rules["twins"]
        self._groups = [Group(games[i : i + twins], starts, **rules["group"]) for i in range(0, len(games), twins)]

    def reset(self, seeds: np.ndarray) -> Played:
        """Every group begins anew, with the random numbers of its first row of int [N, any]."""
        twins = len(self._groups[0].games)
        for group, seed in zip(self._groups, seeds[::twins], strict=True):
            group.reset(seed)
        return self.step(np.zeros(len(seeds), np.int32))

    def step(self, actions: np.ndarray) -> Played:
        """Plays int32 [N]."""
        groups = self._groups
        is_first = [group.ended for group in groups]
        for group, own in zip(groups, actions.reshape((len(groups), -1)).tolist(), strict=True):
            group.step(own)
        is_last, twins = [group.ended for group in groups], len(groups[0].games)
        controllable = np.array([game.controllable for group in groups for game in group.games])
        return np.repeat(is_first, twins), np.repeat(is_last, twins), controllable


def look_bytes(shape: tuple[int, ...]) -> int:
    """How much memory the looks of N games take, screens uint8 [N, H, W, 3]."""
    return int(np.prod(shape)) + shape[0] * RAM


def looks(memory: np.ndarray, shape: tuple[int, ...]) -> Look:
    """The looks of N games as parts of flat memory: screens uint8 [N, H, W, 3], and behind them RAM uint8 [N, 128]."""
    screens, ram = np.split(memory, [int(np.prod(shape))])
    return Look(screens.reshape(shape), ram.reshape((shape[0], RAM)))


def shrink_on_host(screen: np.ndarray) -> np.ndarray:
    """uint8 [210, 160, 3] → [84, 84, 3] by area."""
    return cv2.resize(screen, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
