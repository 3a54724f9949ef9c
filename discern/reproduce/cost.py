"""What a programme of runs will cost, before any of it is begun."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from discern.agent.learner import Learner
from discern.config import Config
from discern.envs import spec_of
from discern.evaluation.final import is_finished
from discern.storage.run_folder import RunFolder

STEPS_A_SECOND = 8_000.0  # of the arena on two CPU cores: results/arena_default_cpu.json; elsewhere budgets are minutes
PICTURES = 5e6  # bytes of a run's figures, metrics and events


class Cost(NamedTuple):
    """Of the runs that are not finished."""

    runs: int
    finished: int
    hours: float
    bytes: float

    def __str__(self) -> str:
        done = f", {self.finished} more are finished" if self.finished else ""
        return f"{self.runs} runs{done}: about {self.hours:.1f} hours here and {self.bytes / 1e9:.1f} GB"


def cost_of(runs: Iterable[tuple[Config, Path]]) -> Cost:
    """The cost of runs with the given configs and folders; a run that was stopped costs what is left of it."""
    unfinished = finished = 0
    seconds = size = 0.0
    checkpoints: dict[str, float] = {}
    for config, folder in runs:
        if is_finished(folder):
            finished += 1
            continue
        unfinished += 1
        seconds += max(0.0, _seconds(config) - _seconds_so_far(folder))
        if config.env not in checkpoints:
            checkpoints[config.env] = _checkpoint_bytes(config)
        size += 2 * checkpoints[config.env] + PICTURES  # the newest two checkpoints are kept
    return Cost(unfinished, finished, seconds / 3600, size)


def _seconds(config: Config) -> float:
    """By the tighter of the two budgets."""
    budgets = []
    if config.minutes:
        budgets.append(60 * config.minutes)
    if config.steps:
        budgets.append(config.steps / STEPS_A_SECOND)
    return min(budgets, default=0.0)


def _seconds_so_far(folder: Path) -> float:
    run = RunFolder(folder)
    rows = run.metrics() if run.metrics_file.exists() else []
    return rows[-1]["seconds"] if rows else 0.0


def _checkpoint_bytes(config: Config) -> float:
    """The goal buffer's images, and of each parameter its EMA in float32 and its second moment in bfloat16."""
    spec = spec_of(config)
    goals = jax.ShapeDtypeStruct((config.goal_buffer.capacity, *spec.image_shape), jnp.uint8)
    params = jax.eval_shape(Learner(config, spec).init, jax.random.key(0), goals).params
    return goals.size + 6.0 * sum(leaf.size for leaf in jax.tree.leaves(params))
