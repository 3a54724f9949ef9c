"""The Atari games' fixed goal sets: how they are made, and the sheets of pictures that ship.

`even` is spread over what an attempt can reach: every goal was reached in T steps from a start of an attempt, and
the avatar is controllable there. `paper` is frames of random play in which it is controllable. `strip` is frames of
random play of a game whose avatar is not known: something to look at, nothing to score.

The halves of a set differ in their seed, and of `even` besides: in Seaquest the `tune` half lies in the middle of each
cell of a grid and the `test` half anywhere in it; in Montezuma's Revenge `test` is spread over what `tune` has left.
"""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from discern.envs.atari.avatars import ACTIONS, AVATARS, DOWN, LEFT, RIGHT, UP, Emulator
from discern.envs.atari.games import NOOP, SIDE, shrink_on_host
from discern.envs.base import GOAL_SEEDS, Half, far_apart
from discern.types import UserError

SHIPPED = Path(__file__).with_name("goal_sets")
COUNT = 100  # of a half
COLUMNS = 10
STEPS = 50  # T of an attempt
FIRE, RIGHTFIRE, LEFTFIRE = 1, 11, 12
TOWARDS = {(0, 0): NOOP, (1, 0): RIGHT, (-1, 0): LEFT, (0, 1): DOWN, (0, -1): UP}
TOWARDS |= {(1, -1): 6, (-1, -1): 7, (1, 1): 8, (-1, 1): 9}
SEARCHED = "montezuma_revenge"  # the game whose even goals come from a search, which knows how far they are
FLOORS, CLIMBS = (148, 192, 235), (21, 77, 109, 133)  # Montezuma's first room: heights of floors, x of ladders and rope

DIGESTS = {
    "seaquest/even/tune": "b440bc44a3ae79a9",
    "seaquest/even/test": "dceb38129d7a8ac2",
    "seaquest/paper/tune": "75b8daaf34954fcb",
    "seaquest/paper/test": "4a9f1f0f597303ca",
    "montezuma_revenge/even/tune": "04306ce87f9101da",
    "montezuma_revenge/even/test": "4e016d45f2f99488",
    "montezuma_revenge/paper/tune": "dfc9c96285805b77",
    "montezuma_revenge/paper/test": "4a5acdc3073885c0",
}


def goal_sets(game: str) -> tuple[str, ...]:
    return ("even", "paper") if game in AVATARS else ("strip",)


def goals(game: str, name: str, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [M, 84, 84, 3] and measures float32 [M, D]; fewer than a half's 100 are spread over it."""
    if name == "strip":
        return make_goals(game, name, half, count)
    if count > COUNT:
        raise UserError(f"each half of the goal set '{name}' of atari/{game} has {COUNT} goals, not {count}")
    file = SHIPPED / f"{game}_{name}_{half}"
    sheet = np.asarray(Image.open(file.with_suffix(".png")).convert("RGB"))
    images = sheet.reshape((COUNT // COLUMNS, SIDE, COLUMNS, SIDE, 3)).swapaxes(1, 2).reshape((COUNT, SIDE, SIDE, 3))
    measures = np.array(json.loads(file.with_suffix(".json").read_text()), np.float32)
    if digest(images, measures) != DIGESTS[f"{game}/{name}/{half}"]:
        raise UserError(f"the goal set '{name}' of atari/{game} is not the one that ships: install discern again")
    chosen = np.linspace(0, COUNT - 1, count).round().astype(int)
    return images[chosen], measures[chosen]


def make_goals(game: str, name: str, half: Half, count: int = COUNT) -> tuple[np.ndarray, np.ndarray]:
    """The generator behind the sets that ship (tests/atari_goals.py); the same goals every time, everywhere."""
    emulator, chance = Emulator(game), np.random.default_rng(GOAL_SEEDS[half])
    if name != "even":
        found = _by_random_play(emulator, chance, count)
    elif game == "seaquest":
        found = _by_driving(emulator, chance, count, in_the_middle=half == "tune")
    else:
        found = _by_searching(emulator, half, count)
    return np.stack([image for image, _ in found]), np.stack([place for _, place in found])


def digest(images: np.ndarray, measures: np.ndarray) -> str:
    return hashlib.sha256(images.tobytes() + measures.astype(np.float32).tobytes()).hexdigest()[:16]


Goal = tuple[np.ndarray, np.ndarray]  # image, measures
Place = tuple[float, ...]


def _goal(emulator: Emulator) -> Goal:
    """What its last step showed."""
    return shrink_on_host(emulator.look.screen), emulator.position


def _by_random_play(emulator: Emulator, chance: np.random.Generator, count: int) -> list[Goal]:
    """A frame after every 25 to 50 steps of uniformly random actions, if the avatar is controllable."""
    found: list[Goal] = []
    emulator.start(chance)
    while len(found) < count:
        for left in reversed(range(chance.integers(25, 51))):
            if emulator.over:
                emulator.start(chance)
            go_on = emulator.skip if left else emulator.play  # only the last step is looked at
            go_on(int(chance.integers(ACTIONS)))
        if not emulator.avatar.dimensions or (emulator.is_controllable() and not np.isnan(emulator.position).any()):
            found.append(_goal(emulator))
    return found


def _by_driving(emulator: Emulator, chance: np.random.Generator, count: int, in_the_middle: bool) -> list[Goal]:
    """The avatar is driven to a place in each of equal cells of the playable area, shooting now and then."""
    low, high = np.array([(d.low, d.high) for d in emulator.avatar.dimensions]).T
    columns = round(count**0.5)
    cells = np.array([(i % columns, i // columns) for i in range(count)])
    inside = np.array(0.5) if in_the_middle else chance.random(cells.shape)
    targets = low + (cells + inside) / (columns, -(-count // columns)) * (high - low)
    found: list[Goal] = []
    while len(found) < count:
        target = targets[len(found)]
        emulator.start(chance)
        for _ in range(chance.integers(100)):  # so that not every goal shows the first fish
            emulator.skip(int(chance.integers(ACTIONS)))
        lives = emulator.lives
        for left in reversed(range(STEPS)):
            gap = target - emulator.position
            x, y = (int(sign) for sign in np.sign(gap) * (np.abs(gap) > 2))
            action = TOWARDS[x, y]
            if chance.random() < 0.3:
                action = FIRE if action == NOOP else action + 8
            go_on = emulator.skip if left else emulator.play
            go_on(action)
        near = (np.abs(target - emulator.position) <= 3).all()
        if near and emulator.lives == lives and emulator.is_controllable():
            found.append(_goal(emulator))
    return found


class Found(NamedTuple):
    """A place where the avatar can stay, and in how many steps the search came there first."""

    goal: Goal
    steps: int


def _by_searching(emulator: Emulator, half: Half, count: int) -> list[Goal]:
    """`count` of the places found, each as far as possible from the ones before; `test` are of those that are left."""
    found = {place: goal for place, (goal, _) in search().items()}
    first = _spread(found, emulator, count)
    if half == "tune":
        return list(first.values())
    left = {place: goal for place, goal in found.items() if place not in first}
    return list(_spread(left, emulator, count).values())


@cache
def search() -> dict[Place, Found]:
    """Breadth first over all places that T steps from a start can reach, keeping those where the avatar can stay."""
    emulator = Emulator(SEARCHED)
    emulator.start(np.random.default_rng(GOAL_SEEDS["tune"]))
    lives = emulator.lives
    frontier, seen, resting = [emulator.clone()], set(), {}
    for steps in range(1, STEPS + 1):
        reached, memories = [], set()
        for state in frontier:
            for action in (NOOP, UP, RIGHT, LEFT, DOWN, FIRE, RIGHTFIRE, LEFTFIRE):
                emulator.restore(state)
                emulator.skip(action)
                memory = emulator.ram.tobytes()
                if memory in memories:  # another action led to the same
                    continue
                memories.add(memory)
                place = tuple(emulator.position)
                if emulator.lives < lives or np.isnan(place).any():
                    continue
                next_place = tuple(emulator.after(NOOP, 1))
                if (place, next_place) in seen:
                    continue
                seen.add((place, next_place))
                if place == next_place and not _is_perch(*place):  # a flaw of the game lets him climb thin air
                    continue
                reached.append(emulator.clone())
                if place not in resting and _is_perch(*place) and emulator.stays() and emulator.is_controllable(3):
                    emulator.restore(state)
                    emulator.play(action)  # once more, to be seen
                    resting[place] = Found(_goal(emulator), steps)
        frontier = reached
    return resting


def steps_to(places: np.ndarray) -> np.ndarray:
    """In how few steps the search comes to stay within a tenth of each range of these places: [M, D] → int [M]."""
    dimensions = AVATARS[SEARCHED].dimensions
    tenth = 0.1 * np.array([d.high - d.low for d in dimensions])
    found, steps = np.array(list(search())), np.array([found.steps for found in search().values()])
    near = (np.abs(found - places[:, None]) <= tenth + 1e-4).all(-1)
    return np.where(near, steps, STEPS + 1).min(1)


def fewest_steps(game: str, goals: np.ndarray) -> np.ndarray:
    """What ships of `steps_to`, from where attempts begin: [..., D] → [...]; NaN for other places than even goals."""
    known: dict[Place, int] = {}
    for half in GOAL_SEEDS:
        file = SHIPPED / f"{game}_even_{half}"
        places = json.loads(file.with_suffix(".json").read_text())
        known |= dict(zip(map(tuple, places), json.loads(steps_file(file).read_text()), strict=True))
    flat = [known.get(tuple(place), np.nan) for place in np.reshape(goals, (-1, goals.shape[-1])).tolist()]
    return np.array(flat, np.float64).reshape(goals.shape[:-1])


def steps_file(file: Path) -> Path:
    """Where the fewest steps to a half's goals ship."""
    return file.with_name(f"{file.name}_steps.json")


def _is_perch(x: float, y: float) -> bool:
    """Whether the place is on a floor, a ladder or the rope of Montezuma's first room."""
    return y in FLOORS or min(abs(x - climb) for climb in CLIMBS) <= 2


def _spread(found: dict[Place, Goal], emulator: Emulator, count: int) -> dict[Place, Goal]:
    """`count` goals, each the one farthest from those chosen before it."""
    span = np.array([d.high - d.low for d in emulator.avatar.dimensions])
    places = list(found)
    return {places[i]: found[places[i]] for i in far_apart(np.array(places) / span, count)}
