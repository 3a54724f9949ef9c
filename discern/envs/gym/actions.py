"""What the agent's actions are to an environment: a list, made of any space that has bounds."""

import contextlib
import itertools
import math
from enum import Enum
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from .looks import RefusedError

CORNERS = 27  # the most actions for which there is one for every combination, unless --gym.actions says otherwise
MOST = 1024  # actions that the network may have to tell apart


NAMES = {  # of Gymnasium's own worlds that do not say it themselves, as their pages have them
    "CartPole": "left, right",
    "MountainCar": "left, none, right",
    "Acrobot": "torque −, none, torque +",
    "LunarLander": "none, left engine, main engine, right engine",
    "CarRacing": "none, right, left, gas, brake",
    "FrozenLake": "left, down, right, up",
    "CliffWalking": "up, right, down, left",
    "Taxi": "down, up, right, left, pick up, drop off",
}


class Actions(NamedTuple):
    """What each action is to the environment, and is called: by its number where nobody knows a name."""

    values: list[Any]
    names: tuple[str, ...]


class Axis(NamedTuple):
    """The values that one dimension of an action takes, ascending, and its value when it is left alone."""

    values: list[Any]
    rest: Any
    labels: dict[Any, str]  # of values worth a word


def action_list(
    space: gymnasium.Space, settings: dict[str, Any], names: tuple[str, ...] = (), axes: tuple[str, ...] = ()
) -> Actions:
    """The actions of a space; `names` are those of a Discrete's actions, `axes` those of a Box's dimensions."""
    if isinstance(space, spaces.Discrete):
        values: list[Any] = [int(space.start) + i for i in range(int(space.n))]
    else:
        dimensions = axes_of(space, settings["bins"], axes)
        chosen = combinations(dimensions, settings["actions"])
        values = [np.reshape(row, space.shape or ()).astype(space.dtype) for row in chosen]
        words = [[axis.labels.get(value, "") for axis, value in zip(dimensions, row, strict=True)] for row in chosen]
        idle = "middle" if isinstance(space, spaces.Box) else "none"
        names = tuple(", ".join(filter(None, row)) or idle for row in words)
    names = tuple("".join(filter(str.isprintable, str(name)))[:40] for name in names)
    if not len(set(names)) == len(names) == len(values):
        names = tuple(map(str, range(len(values))))
    for name in settings["only"]:
        if name not in names:
            raise RefusedError(f"has no action '{name}' for --gym.only: it has {'; '.join(names)}")
    kept = settings["only"] or names
    return Actions([values[names.index(name)] for name in kept], tuple(kept))


def axes_of(space: gymnasium.Space, bins: int, names: tuple[str, ...]) -> list[Axis]:
    """The dimensions of a Box, each with `bins` values from its lower to its upper bound, or of buttons and levers."""
    if isinstance(space, spaces.MultiBinary):
        return [Axis([0, 1], 0, {1: str(i)}) for i in range(int(np.prod(space.shape)))]
    if isinstance(space, spaces.MultiDiscrete):
        starts, counts = np.ravel(space.start), np.ravel(space.nvec)
        ranges = [range(int(start), int(start + n)) for start, n in zip(starts, counts, strict=True)]
        return [Axis(list(levels), levels[0], {v: f"{i}={v}" for v in levels}) for i, levels in enumerate(ranges)]
    if not isinstance(space, spaces.Box):
        raise RefusedError(
            f"has actions that are no list to choose from: {' '.join(str(space).split())}; wrap it so that its action "
            f"space is Discrete, Box, MultiDiscrete or MultiBinary"
        )
    if not np.isfinite([space.low, space.high]).all():
        raise RefusedError(f"has actions without bounds: {space}; gymnasium.wrappers.RescaleAction gives it some")
    bounds = zip(np.ravel(space.low).astype(float), np.ravel(space.high).astype(float), strict=True)
    whole = np.issubdtype(space.dtype, np.integer)
    names = names if len(names) == int(np.prod(space.shape)) else tuple(map(str, range(int(np.prod(space.shape)))))
    return [_evenly(low, high, bins, whole, name) for (low, high), name in zip(bounds, names, strict=True)]


def _evenly(low: float, high: float, bins: int, whole: bool, name: str) -> Axis:
    """`bins` values from low to high, or as many as there are whole numbers."""
    values, rest = np.linspace(low, high, bins), (low + high) / 2
    if bins % 2:
        values[bins // 2] = rest
    if whole:
        values, rest = np.round(values), float(np.round(rest))
    values = np.unique(values)
    signs = [f"{2 * (value - low) / ((high - low) or 1) - 1:+.2g}".replace("-", "−") for value in values]
    words = [f"{name} {'+' if sign == '+1' else '−' if sign == '−1' else sign}" for sign in signs]
    labels = {value: word for value, word in zip(values.tolist(), words, strict=True) if value != rest}
    return Axis(values.tolist(), rest, labels)


def combinations(axes: list[Axis], how: str) -> list[tuple]:
    """Every combination of the values, or one dimension at a time and none; auto: the first where they are few."""
    every = math.prod(len(axis.values) for axis in axes)
    single = 1 + sum(value != axis.rest for axis in axes for value in axis.values)
    together = how == "corners" or (how == "auto" and every <= CORNERS)
    count = every if together else single
    if count > MOST:
        raise RefusedError(f"would have {count} actions, more than {MOST}: take fewer --gym.bins or one_at_a_time")
    if together:
        return list(itertools.product(*(axis.values for axis in axes)))
    rest = tuple(axis.rest for axis in axes)
    chosen = [rest]
    for rank in reversed(range(max(len(axis.values) for axis in axes))):
        for i, axis in enumerate(axes):
            if rank < len(axis.values) and axis.values[rank] != axis.rest:
                chosen.append((*rest[:i], axis.values[rank], *rest[i + 1 :]))
    return chosen


def known_names(env: Any) -> tuple[str, ...]:
    """What the environment itself calls its actions, where it does, or else its page."""
    inner = getattr(env, "unwrapped", env)
    listed = getattr(inner, "actions", None)
    with contextlib.suppress(Exception):  # it is the user's, and names are no reason to refuse it
        if callable(getattr(inner, "get_action_meanings", None)):
            return tuple(inner.get_action_meanings())
        if isinstance(listed, type) and issubclass(listed, Enum):
            return tuple(action.name for action in listed)
        return tuple(NAMES[env.spec.id.partition("-v")[0]].split(", "))
    return ()
