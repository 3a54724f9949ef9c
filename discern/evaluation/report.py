"""How good is an agent, and what was it measured on."""

import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from discern.envs import opened
from discern.evaluation.achievement import Score, evaluator
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.evaluation.told_apart import Shares, chance, told_apart_in
from discern.inference import Agent, load
from discern.machine import available_cores
from discern.storage.run_folder import refuse_file
from discern.types import UserError


def evaluate(
    run: str | Path,
    goals: str | None = None,
    trials: int = 20,
    count: int = 100,
    seed: int = 0,
    figure: str | Path | None = None,
    steps: int | None = None,
    budgets: Sequence[int] = (),
    budget_figure: str | Path | None = None,
    worst: str | Path | None = None,
) -> dict[str, Any]:
    """Scores a run's newest checkpoint on fixed goals, the random policy beside it; told apart where nothing is scored.

    `goals` is the test half of the world's usual set unless named, with `count` goals a half; `figure` is where to draw
    goals above the average of what was achieved. An attempt takes T steps, or `steps`; `budgets` are numbers of steps
    to score as well, and `budget_figure` is where to draw success over them; `worst`, where to draw the goals that were
    reached least.
    """
    _refuse_below({"trials": trials, "count": count}, 1)
    _refuse_below({"seed": seed}, 0)
    _refuse_undrawable((figure, budget_figure, worst), budget_figure, budgets)
    began, agent = time.monotonic(), load(run)
    if budgets:
        refuse_unscored(agent)
    steps, budgets = agent.budget(steps), sorted({agent.budget(budget) for budget in budgets})
    with opened(agent.make_scored_env(count)) as env:
        wanted = goal_set(env, goals, count)
        attempt = evaluator(agent.learner.imitator, env, apart_by := told_apart_in(agent.config))
        score = attempt(agent.params, wanted, trials, seed=seed, steps=steps)
        random = attempt(agent.params, wanted, trials, epsilon=1.0, seed=seed, steps=steps)
        scores = [attempt(agent.params, wanted, trials, seed=seed, steps=budget) for budget in budgets]
        ceiling = apart_by.ceiling(wanted, env.spec.dimensions)
    shares = ({"success": one.success, "at_some_step": one.at_some_step} for one in scores)
    by_budget = dict(zip(budgets, shares, strict=True))
    _draw(wanted, score, figure, worst)
    if budget_figure is not None:
        from discern.evaluation.figures import draw_budgets  # matplotlib is slow to import

        draw_budgets({Path(run).resolve().name: by_budget}, Path(budget_figure))
    return {
        "success": score.success,
        "random": random.success,
        "at_some_step": score.at_some_step,
        "random_at_some_step": random.at_some_step,
        **_told_apart({"": score.told_apart, "_random": random.told_apart, "_ceiling": ceiling}, len(wanted.images)),
        "steps": steps,
        "goals": {"set": wanted.name, "count": len(wanted.images), "digest": wanted.digest},
        "trials": trials,
        **({} if agent.spec.dimensions else {"unscored": agent.spec.unscored}),
        "per_dimension": score.per_dimension,
        "random_per_dimension": random.per_dimension,
        "by_goal": [round(float(share), 4) for share in score.by_goal],
        **({"budgets": by_budget} if budgets else {}),
        "env": agent.config.env,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 2),
        "machine": machine(),
    }


def _told_apart(shares: dict[str, Shares | None], goals: int) -> dict[str, Any]:
    """In the embedding and in pixels each, and the chance that goes with so many goals."""
    by_pixels = {f"told_apart_pixels{whose}": share and share.pixels for whose, share in shares.items()}
    return {
        **{f"told_apart{whose}": share and share.embedded for whose, share in shares.items()},
        **by_pixels,
        "told_apart_chance": chance(goals),
    }


def _draw(goals: GoalSet, score: Score, figure: str | Path | None, worst: str | Path | None) -> None:
    if figure is not None:
        from discern.evaluation.figures import draw_averages

        draw_averages(goals, score.average_images, Path(figure))
    if worst is not None:
        from discern.evaluation.figures import draw_worst

        draw_worst(goals, score, Path(worst))


def _refuse_undrawable(
    figures: Sequence[str | Path | None], budget_figure: str | Path | None, budgets: Sequence[int]
) -> None:
    for path in figures:
        if path is not None:
            refuse_file(Path(path), "draw", (".png",))
    if budget_figure is not None and not budgets:
        raise UserError("name the numbers of steps to draw success over: --budgets 5 10 20")


def _refuse_below(numbers: dict[str, int], least: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise UserError(f"{name} must be at least {least}, not {number}")


def refuse_unscored(agent: Agent) -> None:
    """A UserError where the agent's world has no success rate."""
    if not agent.spec.dimensions:
        raise UserError(
            f"{agent.spec.name} has no success rate, because {agent.spec.unscored}; "
            f"discern evaluate says how far its goals are told apart"
        )


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
