"""Worlds to act in; `make_env` is the one place that knows them all."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from typing_extensions import TypeIs

from discern.checks import nearest
from discern.config import Config
from discern.envs.arena import Arena
from discern.envs.arena_maze import Maze
from discern.envs.base import Attempts, DeviceEnv, Dimension, EnvSpec, Hosted, HostEnv, HostStep, ScoredHostEnv
from discern.envs.watermaze.world import Watermaze
from discern.machine import EXTRAS, require
from discern.presets import GYMNASIUM, preset, suite_of
from discern.types import UserError

Env = DeviceEnv | HostEnv
ScoredEnv = DeviceEnv | ScoredHostEnv
AnyEnv = TypeVar("AnyEnv", Env, ScoredEnv)

WORLDS: dict[str, Callable[[], DeviceEnv]] = {
    "arena": lambda: Arena(size=24, stride=0.1, radius=0.1, distractors=2, speed=0.05, name="arena"),
    "arena/16": lambda: Arena(size=16, stride=0.12, radius=0.1, distractors=1, speed=0.06, name="arena/16"),
    "arena/84": lambda: Arena(size=84, stride=0.08, radius=0.06, distractors=3, speed=0.04, name="arena/84"),
    "arena/two": lambda: Arena(
        size=24, stride=0.1, radius=0.1, distractors=2, speed=0.05, slider=True, name="arena/two"
    ),
    "arena/maze": Maze,
    "watermaze": Watermaze,
}


def _atari(name: str, n: int, config: Config, scored: bool, attempts: Attempts | None) -> HostEnv:
    from discern.envs.atari.worlds import Atari, ScoredAtari

    game = name.removeprefix("atari/")
    return ScoredAtari(game, n, config.atari) if scored else Atari(game, n, config.atari, attempts)


def _control(name: str, n: int, config: Config, scored: bool, attempts: Attempts | None) -> HostEnv:
    try:
        from discern.envs.control.world import EPISODE, Control, OpenGLControl
    except Exception as error:  # a missing library shows in many ways
        backend = os.environ.get("MUJOCO_GL", "disabled")
        if backend == "disabled":
            raise
        raise UserError(f"MUJOCO_GL={backend} does not work here; unset it, since no OpenGL is needed") from error
    kind = OpenGLControl if config.control.pixels == "opengl" else Control
    episode = EPISODE if scored else config.control.episode
    return kind(name.removeprefix("control/"), n, episode, attempts, config.control.action_repeat)


def _lab(name: str, n: int, config: Config, scored: bool, attempts: Attempts | None) -> HostEnv:
    from discern.envs.lab.world import Lab, ScoredLab

    del config
    if attempts is not None:
        raise UserError(f"{name} cannot go back to a state: leave --actor.twins at 1 and --actor.p-restart at 0")
    return (ScoredLab if scored else Lab)(name.removeprefix("lab/"), n)


def _doom(name: str, n: int, config: Config, scored: bool, attempts: Attempts | None) -> HostEnv:
    from discern.envs.doom.world import Doom, ScoredDoom

    del config
    name = name.removeprefix("doom/")
    return ScoredDoom(name, n) if scored else Doom(name, n, attempts)


def _gym(name: str, n: int, config: Config, scored: bool, attempts: Attempts | None) -> HostEnv:
    from discern.envs.gym.world import SCORED_AT_ONCE, Gym

    return Gym(name, min(n, SCORED_AT_ONCE) if scored else n, config, attempts)


Maker = Callable[[str, int, Config, bool, Attempts | None], HostEnv]
SUITES: dict[str, Maker] = {
    "atari": _atari,
    "control": _control,
    "doom": _doom,
    "lab": _lab,
    **dict.fromkeys(GYMNASIUM, _gym),
}


def make_env(name: str, n: int = 1, config: Config | None = None, attempts: Attempts | None = None) -> Env:
    """The world called `name`; worlds that run on the host come as `n` environments, which may begin together."""
    return _make(name, n, config, False, attempts)


def make_scored_env(name: str, n: int = 1, config: Config | None = None) -> ScoredEnv:
    """The same world with the same pixels, in which it can be measured what was achieved."""
    return cast(ScoredEnv, _make(name, n, config, True, None))


def _make(name: str, n: int, config: Config | None, scored: bool, attempts: Attempts | None) -> Env:
    suite = suite_of(name)
    if suite in SUITES and suite != name:
        if suite in EXTRAS:
            require(suite, name)
        return SUITES[suite](name, n, config or preset(name), scored, attempts)
    if name not in WORLDS:
        hosted = ("atari/seaquest", "atari/montezuma_revenge", "atari/…", "control/reacher-hard", "control/…")
        modules = ("minigrid/MiniGrid-FourRooms-v0", "highway/parking-v0", "gym/CarRacing-v3", "gym/…")
        first_person = ("doom/watermaze", "doom/my_way_home", "lab/rooms_watermaze")
        known = [*sorted(WORLDS), *hosted, *first_person, *modules, "my_module:factory"]
        raise UserError(f"there is no world '{name}'" + (nearest(name, known) or f"; there are: {', '.join(known)}"))
    return WORLDS[name]()


@contextmanager
def opened(env: AnyEnv) -> Iterator[AnyEnv]:
    """The world, closed in the end where it runs on the host."""
    try:
        yield env
    finally:
        if is_host(env):
            env.close()


def spec_of(config: Config) -> EnvSpec:
    """What an agent must know of the config's world."""
    with opened(make_env(config.env, 1, config)) as env:
        return env.spec


def names_code(config: Config) -> bool:
    """Whether the config says what code to import, or what to call it with, to make its world."""
    return suite_of(config.env) in GYMNASIUM and (":" in config.env or config.gym.make_args != "{}")


def is_host(env: Env) -> TypeIs[HostEnv]:
    """Whether the world runs on the host and is stepped with send and recv."""
    return hasattr(env, "send")


__all__ = [
    "DeviceEnv",
    "Dimension",
    "Env",
    "EnvSpec",
    "HostEnv",
    "HostStep",
    "Hosted",
    "ScoredEnv",
    "is_host",
    "make_env",
    "make_scored_env",
    "names_code",
    "opened",
    "spec_of",
]
