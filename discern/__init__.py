"""Learn to bring about any goal image, with no reward and no demonstration: DISCERN in JAX."""

from discern.config import Config
from discern.envs import make_env
from discern.presets import preset
from discern.run.report import evaluate
from discern.run.train import resume, train
from discern.run.trained import Agent, load
from discern.types import UserError

__all__ = ["Agent", "Config", "UserError", "evaluate", "load", "make_env", "preset", "resume", "train"]
