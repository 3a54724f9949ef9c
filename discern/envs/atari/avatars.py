"""Where Atari games keep their avatars, and an emulator that says so."""

from dataclasses import dataclass

import numpy as np
from ale_py import ALEState, roms

from discern.envs.atari.games import NOOP, RAM, SCREEN, Game, Look
from discern.envs.base import Dimension
from discern.types import UserError

WAYS = ("UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT")
ACTION_NAMES = ("NOOP", "FIRE", *WAYS, *(f"{way}FIRE" for way in WAYS))  # the emulator's own, in its order
ACTIONS = len(ACTION_NAMES)
UP, RIGHT, LEFT, DOWN = 2, 3, 4, 5


@dataclass(frozen=True)
class Avatar:
    """Where a game keeps its avatar: the RAM bytes of the scored dimensions. Of most games it is not known."""

    dimensions: tuple[Dimension, ...] = ()
    bytes: tuple[int, ...] = ()
    locked_steps: int = 0
    """Steps after the start of a game in which the avatar is not controllable."""
    locked_after_loss: int = 0
    """The same after a lost life."""
    room: tuple[int, int] | None = None
    """A RAM byte and the value it has in the room that the ranges are of."""
    helpless: tuple[tuple[int, int], ...] = ()
    """RAM bytes, each with the most it holds while the avatar is not dying or falling."""


AVATARS = {
    "seaquest": Avatar(
        dimensions=(Dimension("x", 21.0, 134.0), Dimension("y", 13.0, 108.0)),
        bytes=(70, 97),
        locked_steps=32,
        locked_after_loss=30,
        helpless=((105, 0),),
    ),
    "montezuma_revenge": Avatar(
        dimensions=(Dimension("x", 9.0, 145.0), Dimension("y", 148.0, 252.0)),
        bytes=(42, 43),
        locked_after_loss=11,
        room=(3, 1),
        helpless=((54, 1), (88, 0)),
    ),
}


def avatar_of(game: str) -> Avatar:
    return AVATARS.get(game, Avatar())


class Emulator(Game):
    """A game that knows where its avatar is, seen whole, from where the avatar becomes controllable."""

    def __init__(self, game: str):
        screen, ram = np.empty((*SCREEN, 3), np.uint8), np.empty(RAM, np.uint8)
        super().__init__(game, Look(screen, ram), np.empty((2, *SCREEN, 3), np.uint8))
        self.avatar = avatar_of(game)
        self._starts = self.starts(skipped=self.avatar.locked_steps, locked=0)

    def start(self, chance: np.random.Generator) -> None:
        """A game that begins after a random number of idle frames."""
        self.go_on_from(self._starts[chance.integers(len(self._starts))])

    def clone(self) -> ALEState:
        return self._ale.cloneState()

    def restore(self, state: ALEState) -> None:
        self._ale.restoreState(state)

    @property
    def lives(self) -> int:
        return self._ale.lives()

    @property
    def ram(self) -> np.ndarray:
        return self._ale.getRAM()

    @property
    def position(self) -> np.ndarray:
        """The avatar's scored dimensions, float32 [D]."""
        return positions(self.avatar, self.ram)

    def is_controllable(self, steps: int = 2) -> bool:
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


def positions(avatar: Avatar, ram: np.ndarray) -> np.ndarray:
    """The scored dimensions, NaN outside the avatar's room: uint8 [..., 128] → float32 [..., D]."""
    place = ram[..., list(avatar.bytes)].astype(np.float32)
    if avatar.room is not None:
        byte, room = avatar.room
        place[ram[..., byte] != room] = np.nan
    return place


def refuse_unknown_game(game: str) -> None:
    """A clear refusal of a game whose ROM is not there."""
    import difflib

    known = roms.get_all_rom_ids()
    if game not in known:
        close = difflib.get_close_matches(game, known, 3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(known)}"
        raise UserError(f"there is no Atari game '{game}': {hint}")
