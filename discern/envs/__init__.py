"""Worlds to act in; `make_env` is the one place that knows them all."""

from collections.abc import Callable

from typing_extensions import TypeIs

from discern.config import Config
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


def make_env(name: str, n: int = 1, config: Config | None = None) -> Env:
    """The world called `name`; worlds that run on the host come as `n` environments."""
    suite, _, game = name.partition("/")
    if suite == "atari" and game:
        from discern.envs.atari import Atari

        return Atari(game, n, (config or Config()).atari)
    if suite == "lab" and game:
        from discern.envs.lab import Lab

        return Lab(game, n)
    return _device_env(name)


def make_scored_env(name: str, n: int = 1, config: Config | None = None) -> ScoredEnv:
    """The same world with the same pixels, in which it can be measured what was achieved."""
    suite, _, game = name.partition("/")
    if suite == "atari" and game:
        from discern.envs.atari import ScoredAtari

        return ScoredAtari(game, n, (config or Config()).atari)
    if suite == "lab" and game:
        from discern.envs.lab import ScoredLab

        return ScoredLab(game, n)
    return _device_env(name)


def make_host_env(name: str, n: int, config: Config | None = None) -> HostEnv:
    """`n` environments on the host, whatever kind of world it is."""
    env = make_env(name, n, config)
    return env if is_host(env) else Hosted(env, n)


def _device_env(name: str) -> DeviceEnv:
    if name not in WORLDS:
        known = [*sorted(WORLDS), "atari/seaquest", "atari/montezuma_revenge", "atari/…", "lab/rooms_watermaze"]
        raise UserError(f"there is no world '{name}'; there are: {', '.join(known)}")
    return WORLDS[name]()


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
    "ScoredEnv",
    "is_host",
    "make_env",
    "make_host_env",
    "make_scored_env",
]
