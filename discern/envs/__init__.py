"""Worlds to act in; `make_env` is the one place that knows them all."""

from collections.abc import Callable
from typing import cast

from typing_extensions import TypeIs

from discern.config import Config, preset, suite_of
from discern.envs.arena import Arena
from discern.envs.base import DeviceEnv, Dimension, EnvSpec, Hosted, HostEnv, HostStep, ScoredHostEnv
from discern.envs.counting import Counting
from discern.envs.watermaze import Watermaze
from discern.types import UserError

Env = DeviceEnv | HostEnv
ScoredEnv = DeviceEnv | ScoredHostEnv

WORLDS: dict[str, Callable[[], DeviceEnv]] = {
    "arena": lambda: Arena(size=24, stride=0.1, radius=0.1, distractors=2, speed=0.05, name="arena"),
    "arena/16": lambda: Arena(size=16, stride=0.12, radius=0.1, distractors=1, speed=0.06, name="arena/16"),
    "arena/84": lambda: Arena(size=84, stride=0.08, radius=0.06, distractors=3, speed=0.04, name="arena/84"),
    "counting": Counting,
    "watermaze": Watermaze,
}


def _atari(game: str, n: int, config: Config, scored: bool) -> HostEnv:
    from discern.envs.atari import Atari, ScoredAtari

    return (ScoredAtari if scored else Atari)(game, n, config.atari)


def _control(domain: str, n: int, config: Config, scored: bool) -> HostEnv:
    from discern.envs.control import Control

    del config, scored  # the same world serves both
    return Control(domain, n)


def _lab(level: str, n: int, config: Config, scored: bool) -> HostEnv:
    from discern.envs.lab import Lab, ScoredLab

    del config
    return (ScoredLab if scored else Lab)(level, n)


SUITES: dict[str, Callable[[str, int, Config, bool], HostEnv]] = {"atari": _atari, "control": _control, "lab": _lab}


def _gym(name: str, n: int, config: Config, scored: bool) -> HostEnv:
    from discern.envs.gymnasium import Gym, scored_gym

    return (scored_gym if scored else Gym)(name, n, config)


def make_env(name: str, n: int = 1, config: Config | None = None) -> Env:
    """The world called `name`; worlds that run on the host come as `n` environments."""
    return _make(name, n, config, scored=False)


def make_scored_env(name: str, n: int = 1, config: Config | None = None) -> ScoredEnv:
    """The same world with the same pixels, in which it can be measured what was achieved."""
    return cast(ScoredEnv, _make(name, n, config, scored=True))


def _make(name: str, n: int, config: Config | None, scored: bool) -> Env:
    suite, _, which = name.partition("/")
    if which and suite in SUITES:
        return SUITES[suite](which, n, config or Config(), scored)
    if suite_of(name) == "gym":
        return _gym(name, n, config or preset(name), scored)
    if name not in WORLDS:
        hosted = ("atari/seaquest", "atari/montezuma_revenge", "atari/…", "control/reacher-hard", "control/…")
        known = [*sorted(WORLDS), *hosted, "lab/rooms_watermaze", "gym/CarRacing-v3", "gym/…", "my_module:factory"]
        raise UserError(f"there is no world '{name}'; there are: {', '.join(known)}")
    return WORLDS[name]()


def make_host_env(name: str, n: int, config: Config | None = None) -> HostEnv:
    """`n` environments on the host, whatever kind of world it is."""
    env = make_env(name, n, config)
    return env if is_host(env) else Hosted(env, n)


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
    "make_host_env",
    "make_scored_env",
]
