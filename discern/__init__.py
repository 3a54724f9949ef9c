"""Learn to bring about any goal image, with no reward and no demonstration: DISCERN in JAX."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discern.config import Config
    from discern.envs import make_env
    from discern.evaluation.report import evaluate
    from discern.inference import Agent, load
    from discern.presets import preset
    from discern.training.loop import resume, train
    from discern.types import UserError

__all__ = ["Agent", "Config", "UserError", "evaluate", "load", "make_env", "preset", "resume", "train"]

HOME = {
    "Agent": "inference",
    "Config": "config",
    "UserError": "types",
    "evaluate": "evaluation.report",
    "load": "inference",
    "make_env": "envs",
    "preset": "presets",
    "resume": "training.loop",
    "train": "training.loop",
}


def __getattr__(name: str) -> Any:
    """What is asked for is imported then: JAX takes seconds, and --help has no use for it."""
    if name not in HOME:
        raise AttributeError(f"module 'discern' has no attribute '{name}'")
    found = getattr(importlib.import_module(f"discern.{HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
