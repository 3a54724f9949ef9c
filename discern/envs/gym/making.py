"""From a name to a Gymnasium environment; nothing of discern is imported here."""

import difflib
import importlib
import importlib.util
import inspect
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from .looks import RefusedError
from .suites import SUITES

INSTALLS = "; classic control, Box2D and MuJoCo come with `pip install 'discern[gym]'`"


def make(name: str, settings: dict[str, Any], count: int) -> gymnasium.Env | VectorEnv:
    """What is registered as `gym/…`, `minigrid/…` or `highway/…`, or what the factory of `module:factory` makes: one
    environment, or a vector of `count`."""
    suite, _, registered = name.partition("/")
    if suite in SUITES and ":" not in suite:
        return _of_package(suite, registered, settings)
    if suite == "gym":
        spec = gymnasium.registry.get(registered)
        astray = (spec is None and ":" not in registered) or any(is_of(package, spec) for package, _ in SUITES.values())
        if astray and (home := home_of(registered)) not in ("gym", None):
            raise RefusedError(f"has a suite of its own: train in {home}/{registered}")
        return _registered(registered, settings, count)
    return _from_factory(name, settings["make_args"], count)


def _registered(name: str, settings: dict[str, Any], count: int) -> gymnasium.Env | VectorEnv:
    make_args: dict[str, Any] = settings["make_args"]
    wanted: dict[str, Any] = {"render_mode": "rgb_array"} | make_args
    module, _, known = name.rpartition(":")
    if module:
        importlib.import_module(module)
    spec = gymnasium.registry.get(known)
    as_vector = settings["vector"] or (spec is not None and spec.entry_point is None)
    if as_vector and spec is not None and spec.vector_entry_point is None:
        raise RefusedError("has no vectorised implementation of its own: leave --gym.vector out")
    try:
        if as_vector:
            return gymnasium.make_vec(name, count, vectorization_mode="vector_entry_point", **wanted)
        return gymnasium.make(name, disable_env_checker=True, **wanted)
    except gymnasium.error.DependencyNotInstalled as error:
        raise RefusedError(f"{error}{INSTALLS}") from None
    except TypeError as error:
        if "render_mode" not in str(error) or "render_mode" in make_args:
            raise
        return gymnasium.make(name, disable_env_checker=True, **make_args)


def _of_package(suite: str, name: str, settings: dict[str, Any]) -> gymnasium.Env:
    """An environment that a package registers, as one that tells where its avatar is."""
    package, layer = SUITES[suite]
    known = ids_of(package)
    if name not in known:
        home = home_of(name)
        close = difflib.get_close_matches(name, known, 1, cutoff=0.6)
        advice = f"train in {home}/{name}" if home else f"did you mean {suite}/{(close or [layer.example])[0]}?"
        raise RefusedError(f"is no world of {package}: {advice}")
    made: Any = _registered(name, settings, 1)
    return layer(made, name, settings)


def home_of(name: str) -> str | None:
    """The suite whose worlds one is that is registered under this name."""
    for suite, (package, _) in SUITES.items():
        if importlib.util.find_spec(package) and name in ids_of(package):
            return suite
    return "gym" if name in gymnasium.registry else None


def ids_of(package: str) -> list[str]:
    """The environments that a package registers when it is imported."""
    importlib.import_module(package)
    return [name for name, spec in gymnasium.registry.items() if is_of(package, spec)]


def is_of(package: str, spec: Any) -> bool:
    return str(getattr(spec, "entry_point", "")).startswith(f"{package}.")


def _from_factory(name: str, make_args: dict[str, Any], count: int) -> gymnasium.Env | VectorEnv:
    module, _, path = name.partition(":")
    factory: Any = importlib.import_module(module)
    for part in path.split("."):
        factory = getattr(factory, part)
    parameters = inspect.signature(factory).parameters
    given = {"render_mode": "rgb_array", "num_envs": count}
    env = factory(**{key: value for key, value in given.items() if key in parameters} | make_args)
    if isinstance(env, VectorEnv) and env.num_envs != count:
        raise RefusedError(f"gave {env.num_envs} environments where {count} were asked for by its parameter num_envs")
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise RefusedError(f"gave {type(env).__module__}.{type(env).__name__}, which is no gymnasium.Env or VectorEnv")
    return env
