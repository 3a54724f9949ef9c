"""How good is an agent, and what was it measured on."""

import platform
import time
from pathlib import Path
from typing import Any

import jax

from discern.envs import make_scored_env, opened
from discern.evaluation.achievement import evaluator
from discern.evaluation.goal_sets import goal_set
from discern.machine import available_cores
from discern.run.folder import refuse_file
from discern.run.trained import load
from discern.types import UserError


def evaluate(
    run: str | Path,
    goals: str | None = None,
    trials: int = 20,
    count: int = 100,
    seed: int = 0,
    figure: str | Path | None = None,
) -> dict[str, Any]:
    """Scores a run's newest checkpoint on a fixed goal set, the random policy beside it.

    `goals` is the world's usual set unless named; `figure` is where to draw goals above the average of what was
    achieved.
    """
    for name, number, least in (("trials", trials, 1), ("count", count, 1), ("seed", seed, 0)):
        if number < least:
            raise UserError(f"{name} must be at least {least}, not {number}")
    if figure is not None:
        refuse_file(Path(figure), "draw", (".png",))
    began = time.monotonic()
    agent = load(run)
    if not agent.spec.dimensions:
        raise UserError(
            f"{agent.spec.name} has no success rate, because {agent.spec.unscored}; "
            f"train and look at the run's goals.png"
        )
    with opened(make_scored_env(agent.config.env, count, agent.config)) as env:
        wanted = goal_set(env, goals, count)
        attempt = evaluator(agent.learner.imitator, env)
        score = attempt(agent.params, wanted, trials, seed=seed)
        random = attempt(agent.params, wanted, trials, epsilon=1.0, seed=seed)
    if figure is not None:
        from discern.evaluation.figures import draw_averages  # matplotlib is slow to import

        draw_averages(wanted, score.average_images, Path(figure))
    return {
        "success": score.success,
        "random": random.success,
        "goals": {"set": wanted.name, "count": count, "digest": wanted.digest},
        "trials": trials,
        "per_dimension": score.per_dimension,
        "random_per_dimension": random.per_dimension,
        "by_goal": [round(float(share), 4) for share in score.by_goal],
        "env": agent.config.env,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 2),
        "machine": machine(),
    }


def machine() -> dict[str, Any]:
    """What a measurement was made on."""
    device = jax.devices()[0]
    return {
        "device": device.device_kind if device.platform != "cpu" else "cpu",
        "cpu": _cpu_name(),
        "cores": available_cores(),
        "python": platform.python_version(),
        "jax": jax.__version__,
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
