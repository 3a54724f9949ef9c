"""Gymnasium environments as a process of their own serves them; nothing of discern is imported here."""

import contextlib
import enum
import importlib
import inspect
import itertools
import os
import re
import sys
from typing import Any, cast

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces

STEP = "observation, reward, terminated, truncated, info"
ELEMENT = re.compile(r"observation\[(\d+)\]")  # a scored dimension that is not in `info`
PUSHES = {-1: "−", 1: "+"}
NAMES = {  # of the actions and, where they are continuous, of what they are made of; as the environment's page has them
    "CartPole": "left, right",
    "MountainCar": "left, none, right",
    "Acrobot": "torque −, none, torque +",
    "LunarLander": "none, left engine, main engine, right engine",
    "CarRacing": "none, right, left, gas, brake",
    "FrozenLake": "left, down, right, up",
    "CliffWalking": "up, right, down, left",
    "Taxi": "down, up, right, left, pick up, drop off",
}
PARTS = {"CarRacing": ["steer", "gas", "brake"], "Pendulum": ["torque"], "MountainCarContinuous": ["force"]}
Shown = tuple[np.ndarray, np.ndarray, bool, bool]  # uint8 [S, S, 3], float32 [D], is_first, is_last


class RefusedError(Exception):
    """Why an environment cannot be acted in; its text goes to the user."""

    as_it_is = True


class World:
    """One environment that plays every action for some frames, and starts over when it ends."""

    def __init__(self, name: str, settings: dict[str, Any]):
        self._env = make(name, settings["make_args"])
        self.actions = action_list(self._env.action_space)
        self.names = action_names(self._env, len(self.actions))
        self._from_observation = is_image(self._env.observation_space) and not settings["render"]
        self._frame_skip, self._size, self._scored = settings["frame_skip"], settings["size"], settings["score"]
        self._over = True
        self._seed: int | None = None

    def prove(self) -> None:
        """One step, so that what cannot work is known before a run begins."""
        self.reset(0)
        self.step(0)
        _, measures, _, _ = self.step(0)
        said, seen = self._env.observation_space.shape or (), np.shape(self._observation)
        if self._from_observation and said != seen:
            raise RefusedError(f"observes {list(seen)}, but its observation space says {list(said)}: mend one of them")
        if not np.isfinite(measures).all():
            name = self._scored[int(np.isnan(measures).argmax())]
            known = ", ".join(map(str, self._info)) or "nothing"
            raise RefusedError(f"has no number '{name}' to score: its info holds {known}")

    def reset(self, seed: int) -> None:
        """The next step starts an episode, whatever its action."""
        self._seed, self._over = seed, True

    def step(self, action: int) -> Shown:
        """Plays an action; an environment that is over, or reset, ignores it and starts."""
        is_first = self._over
        if is_first:
            observation, self._info = parts(self._env.reset(seed=self._seed), "reset", "observation, info")
            self._seed, self._over = None, False
        for _ in range(0 if is_first else self._frame_skip):
            answer = self._env.step(self.actions[action])
            observation, _, terminated, truncated, self._info = parts(answer, "step", STEP)
            self._over = bool(terminated or truncated)
            if self._over:
                break
        self._observation = observation
        return self._image(observation), self._measures(observation), is_first, self._over

    def _image(self, observation: Any) -> np.ndarray:
        image = observation if self._from_observation else self._rendered()
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.shape[2:] != (3,) or not image.size:
            got = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else repr(image)[:40]
            raise RefusedError(
                f"shows no pixels: it must observe uint8 [height, width, 3] or render it in the mode rgb_array, but "
                f"it {'observed' if self._from_observation else 'rendered'} {got}"
            )
        if image.shape[:2] == (self._size, self._size):
            return image.copy()
        return cv2.resize(image, (self._size, self._size), interpolation=cv2.INTER_AREA)

    def _rendered(self) -> Any:
        try:
            return self._env.render()
        except NotImplementedError:
            return None

    def _measures(self, observation: Any) -> np.ndarray:
        values = [measure(name, observation, self._info) for name in self._scored]
        return np.array(values, np.float32)

    def close(self) -> None:
        self._env.close()


class Worlds:
    """Several environments, stepped in turn."""

    def __init__(self, name: str, settings: dict[str, Any]):
        cv2.setNumThreads(1)  # there is a process for each core
        sys.path.insert(0, os.getcwd())  # where a module of the user's own most likely lies
        self._name, self._settings = name, settings
        self._worlds: list[World] = []

    def prove(self, _: None) -> None:
        """Makes one environment and acts in it, so that what cannot work is known before there are more."""
        self._worlds = [World(self._name, self._settings)]
        self._worlds[0].prove()

    def make(self, numbers: np.ndarray) -> set[tuple[str, ...]]:
        """Makes as many environments as there are numbers, and says what their actions are called."""
        self._worlds += [World(self._name, self._settings) for _ in numbers[len(self._worlds) :]]
        return {world.names for world in self._worlds}

    def reset(self, seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.step(np.stack([np.zeros_like(seeds), seeds], axis=1))

    def step(self, actions_and_seeds: np.ndarray) -> tuple[np.ndarray, ...]:
        """Plays int [n, 2]: an action, and the seed of an episode to start instead, or −1.

        Images uint8 [n, S, S, 3], measures float32 [n, D], is_first and is_last bool [n].
        """
        shown = []
        for world, (action, seed) in zip(self._worlds, actions_and_seeds.tolist(), strict=True):
            if seed >= 0:
                world.reset(seed)
            shown.append(world.step(action))
        images, measures, is_first, is_last = zip(*shown, strict=True)
        return np.stack(images), np.stack(measures), np.array(is_first), np.array(is_last)

    def close(self) -> None:
        for world in self._worlds:
            world.close()


def make(name: str, make_args: dict[str, Any]) -> gymnasium.Env:
    """The registered environment of `gym/…`, or what the factory of `module:factory` makes."""
    if name.startswith("gym/"):
        wanted: dict[str, Any] = {"render_mode": "rgb_array", "disable_env_checker": True} | make_args
        try:
            return gymnasium.make(name.removeprefix("gym/"), **wanted)
        except gymnasium.error.DependencyNotInstalled as error:
            raise RefusedError(f"{error}; classic control and Box2D come with `pip install 'discern[gym]'`") from None
        except TypeError as error:
            if "render_mode" not in str(error) or "render_mode" in make_args:
                raise
            return gymnasium.make(name.removeprefix("gym/"), disable_env_checker=True, **make_args)
    module, _, path = name.partition(":")
    factory: Any = importlib.import_module(module)
    for part in path.split("."):
        factory = getattr(factory, part)
    if "render_mode" in inspect.signature(factory).parameters:
        make_args = {"render_mode": "rgb_array"} | make_args
    env = factory(**make_args)
    if not isinstance(env, gymnasium.Env):
        raise RefusedError(f"gave {type(env).__module__}.{type(env).__name__}, which is no gymnasium.Env")
    return env


def parts(answer: Any, method: str, wanted: str) -> tuple:
    """What a method of the environment returned, if it is as Gymnasium has it."""
    if not isinstance(answer, tuple) or len(answer) != len(wanted.split(", ")):
        got = f"{len(answer)} values" if isinstance(answer, tuple) else type(answer).__name__
        raise RefusedError(f"is no environment of Gymnasium 1: its {method}() must return {wanted}, not {got}")
    return answer


def is_image(space: gymnasium.Space) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3 and space.shape[2] == 3


def action_list(space: gymnasium.Space) -> list[Any]:
    """What each of the agent's actions is to the environment; a Box is discretised as the paper does."""
    if isinstance(space, spaces.Discrete):
        return [int(space.start) + i for i in range(int(space.n))]
    if not isinstance(space, spaces.Box):
        raise RefusedError(
            f"has actions that are no list to choose from: {' '.join(str(space).split())}; wrap it so that its action "
            f"space is Discrete or Box"
        )
    if not np.isfinite([space.low, space.high]).all():
        raise RefusedError(f"has actions without bounds: {space}; gymnasium.wrappers.RescaleAction gives it some")
    low, high = (np.asarray(bound, np.float64).ravel() for bound in (space.low, space.high))
    values = low + (directions(low.size) + 1) / 2 * (high - low)
    if np.issubdtype(space.dtype, np.integer):
        values = np.round(values)
    return [value.reshape(space.shape).astype(space.dtype) for value in values]


def action_names(env: gymnasium.Env, count: int) -> tuple[str, ...]:
    """What people call the actions: as the environment says itself, as is known of it, or their numbers."""
    kind = (env.spec.id if env.spec else "").rpartition("/")[2].partition("-v")[0]
    space, own, named = env.action_space, cast(Any, env.unwrapped), list[str]()
    if isinstance(space, spaces.Box):
        size = int(np.prod(space.shape))
        made_of = PARTS.get(kind, [f"lever {i + 1}" for i in range(size)])
        pushed = [
            [f"{part} {PUSHES[way]}" for part, way in zip(made_of, ways, strict=False) if way]
            for ways in directions(size).tolist()
        ]
        named = [", ".join(parts) or "middle" for parts in pushed]
    elif callable(getattr(own, "get_action_meanings", None)):
        with contextlib.suppress(Exception):  # it is the user's, and names are no reason to refuse it
            named = list(own.get_action_meanings())
    elif isinstance(getattr(own, "actions", None), type) and issubclass(own.actions, enum.Enum):  # Minigrid's
        named = [member.name.replace("_", " ") for member in own.actions][:count]
    elif kind in NAMES:
        named = NAMES[kind].split(", ")
    named = ["".join(filter(str.isprintable, str(name)))[:40] for name in named]
    return tuple(named) if len(set(named)) == count == len(named) else tuple(map(str, range(count)))


def directions(dimensions: int) -> np.ndarray:
    """{-1, 0, 1}^A for up to three dimensions; beyond, none and ± one at a time: int [actions, A]."""
    if dimensions <= 3:
        return np.array(list(itertools.product((-1, 0, 1), repeat=dimensions)))
    one = np.eye(dimensions, dtype=int)
    return np.concatenate([np.zeros((1, dimensions), int), one, -one])


def measure(name: str, observation: Any, info: dict[str, Any]) -> float:
    """The number called `name` in `info`, or an element of the observation; NaN where there is none."""
    element = ELEMENT.fullmatch(name)
    try:
        if name not in info and element:
            return float(np.ravel(observation)[int(element[1])])
        return float(np.asarray(info[name]).item())
    except (KeyError, IndexError, TypeError, ValueError):
        return float("nan")
