"""One Atari emulator whose memory can be read and whose states can be kept, and where games keep their avatars."""

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from ale_py import ALEInterface, ALEState, LoggerMode, roms

from discern.envs.base import Dimension
from discern.types import UserError

FRAMES_PER_STEP = 4
IDLE_FRAMES = 30
ACTIONS = 18
NOOP, UP, RIGHT, LEFT, DOWN = 0, 2, 3, 4, 5
SCREEN = (210, 160)
SIDE = 84


@dataclass(frozen=True)
class Avatar:
    """Where a game keeps its avatar: the RAM bytes of the scored dimensions."""

    dimensions: tuple[Dimension, ...]
    bytes: tuple[int, ...]
    locked_steps: int = 0
    """Steps after the start of a game in which the avatar does not obey."""
    locked_after_loss: int = 0
    """The same after a lost life."""
    room: tuple[int, int] | None = None
    """A RAM byte and the value it has in the room that the ranges are of."""


AVATARS = {
    "seaquest": Avatar((Dimension("x", 21.0, 134.0), Dimension("y", 13.0, 108.0)), (70, 97), 32, 30),
    "montezuma_revenge": Avatar((Dimension("x", 9.0, 145.0), Dimension("y", 148.0, 252.0)), (42, 43), 0, 11, (3, 1)),
}


class Look(NamedTuple):
    """What can be seen of an emulator after a step, or of N of them."""

    screen: np.ndarray  # uint8 [210, 160, 3], the brighter of the last two frames, pixel by pixel
    ram: np.ndarray  # uint8 [128]


class Emulator:
    """The game under the settings of the vector world: four frames a step, up to 30 idle frames at the start."""

    def __init__(self, game: str, sticky: float = 0.0, seed: int = 0):
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.avatar = AVATARS.get(game)
        self._ale = ALEInterface()
        self._ale.setFloat("repeat_action_probability", sticky)
        self._ale.setInt("random_seed", seed)
        rom = roms.get_rom_path(game)
        assert rom is not None, game
        self._ale.loadROM(rom)
        self._screens = np.empty((2, *SCREEN, 3), np.uint8)
        self.starts = self._make_starts()

    def _make_starts(self) -> list[tuple[ALEState, Look]]:
        """A game after each number of idle frames, counted from where the avatar begins to obey."""
        self._ale.reset_game()
        locked = self.avatar.locked_steps if self.avatar else 0
        for _ in range(locked * FRAMES_PER_STEP):
            self._ale.act(NOOP)
        starts = []
        for idle in range(IDLE_FRAMES + 1):
            if idle:
                self._ale.act(NOOP)
            starts.append((self.clone(), Look(self._ale.getScreenRGB(), self._ale.getRAM())))
        return starts

    def start(self, chance: np.random.Generator) -> Look:
        """A game that begins after a random number of idle frames."""
        state, look = self.starts[chance.integers(len(self.starts))]
        self.restore(state)
        return look

    def step(self, action: int) -> Look:
        for frame in range(FRAMES_PER_STEP):
            self._ale.act(action)
            if frame >= FRAMES_PER_STEP - 2:
                self._ale.getScreenRGB(self._screens[frame % 2])
        return Look(self._screens.max(axis=0), self._ale.getRAM())

    def skip(self, action: int) -> None:
        """A step that nobody looks at."""
        for _ in range(FRAMES_PER_STEP):
            self._ale.act(action)

    def clone(self) -> ALEState:
        return self._ale.cloneState()

    def restore(self, state: ALEState) -> None:
        self._ale.restoreState(state)

    @property
    def game_over(self) -> bool:
        return self._ale.game_over()

    @property
    def lives(self) -> int:
        return self._ale.lives()

    @property
    def position(self) -> np.ndarray:
        """The avatar's scored dimensions, float32 [D]."""
        return positions(self.avatar, self._ale.getRAM())

    def obeys(self, steps: int = 2) -> bool:
        """Whether where the avatar goes depends on the action."""
        return len({tuple(self.after(action, steps)) for action in (UP, RIGHT, LEFT, DOWN)}) > 1

    def stays(self, steps: int = 3) -> bool:
        """Whether the avatar keeps its place when nothing is done."""
        return bool((self.after(NOOP, steps) == self.position).all())

    def after(self, action: int, steps: int) -> np.ndarray:
        """Where the avatar would be after an action held for so many steps."""
        here = self.clone()
        for _ in range(steps):
            self.skip(action)
        there = self.position
        self.restore(here)
        return there


def shrink_on_host(screen: np.ndarray) -> np.ndarray:
    """uint8 [210, 160, 3] → [84, 84, 3] by area, exactly as the vector world's C++ does it."""
    return cv2.resize(screen, (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def positions(avatar: Avatar | None, ram: np.ndarray) -> np.ndarray:
    """The scored dimensions, NaN outside the avatar's room: uint8 [..., 128] → float32 [..., D]."""
    if avatar is None:
        return np.zeros((*ram.shape[:-1], 0), np.float32)
    place = np.asarray(ram)[..., list(avatar.bytes)].astype(np.float32)
    if avatar.room is not None:
        byte, room = avatar.room
        place[np.asarray(ram)[..., byte] != room] = np.nan
    return place


def refuse_unknown_game(game: str) -> None:
    """A clear refusal of a game whose ROM is not there."""
    import difflib

    known = roms.get_all_rom_ids()
    if game not in known:
        close = difflib.get_close_matches(game, known, 3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known)}"
        raise UserError(f"there is no Atari game '{game}': {hint}")
