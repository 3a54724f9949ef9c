"""Goals beyond one pursuit, over waypoints and straight on; and attempts that end where the agent says so."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from discern.envs import Hosted, is_host, opened
from discern.envs.base import ScoredHostEnv
from discern.evaluation.achievement import reached
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.evaluation.report import machine, refuse_unscored
from discern.inference import Agent, load
from discern.planning import Journeys
from discern.types import UserError


class Played(NamedTuple):
    """A attempts of n steps."""

    measures: np.ndarray  # float32 [A, n + 1, D]
    stopped: np.ndarray  # int [A], the step at which each would have stopped


def evaluate_far(
    run: str | Path,
    goals: str | None = None,
    trials: int = 20,
    count: int = 100,
    seed: int = 0,
    steps: int | None = None,
    plan: bool = False,
    stop_early: bool = False,
    pursuit_steps: int | None = None,
) -> dict[str, Any]:
    """Scores pursuits of T steps, one after the other until `steps` are spent, beside random actions and, if `plan`,
    journeys over waypoints; if `stop_early`, each also as if it ended where the agent says it is there.

    `steps` are T, or three times T to plan; goals that no policy reaches in T count as far, where the world knows.
    An agent with ends may have fewer `pursuit_steps` instead of T.
    """
    if min(trials, count) < 1 or seed < 0:
        raise UserError("trials and count must be at least 1, and the seed not below 0")
    began = time.monotonic()
    agent = load(run).limited(pursuit_steps)
    refuse_unscored(agent)
    steps = (3 * agent.longest if steps is None else steps) if plan else agent.budget(steps)
    arrival = agent.arrival if stop_early else None
    planners = {"plain": None, "plan": agent.planner} if plan else {"plain": None}
    begin = partial(Journeys, agent.compass, steps=steps, arrival=arrival)
    with opened(agent.make_scored_env(count)) as env:
        wanted = goal_set(env, goals, count)
        world = cast(ScoredHostEnv, env if is_host(env) else Hosted(env, count))
        starts = range(0, len(wanted.images) * trials, world.size)
        played = {
            name: _play(agent, world, wanted, starts, seed, partial(begin, planner=planner), steps)
            for name, planner in planners.items()
        }
        played["random"] = _play(agent, world, wanted, starts, seed, None, steps)
    index = np.arange(len(wanted.images) * trials) % len(wanted.images)
    is_far = _beyond(env, played["plain"].measures[: len(index), 0], wanted.measures[index], agent.longest)
    scores = {name: _score(one, wanted.measures[index], agent, is_far, stop_early) for name, one in played.items()}
    return {
        "policies": scores,
        "steps": steps,
        "horizon": agent.horizon,
        "pursuit_steps": agent.longest,
        "far_share": None if is_far is None else float(is_far.mean()),
        **({"arrival": arrival} if stop_early else {}),
        **({"waypoints": len(agent.planner.ways), "practised": len(agent.planner.practice.goals)} if plan else {}),
        "goals": {"set": wanted.name, "count": len(wanted.images), "digest": wanted.digest},
        "trials": trials,
        "env": agent.config.env,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 2),
        "machine": machine(),
    }


def _play(
    agent: Agent,
    world: ScoredHostEnv,
    goals: GoalSet,
    starts: range,
    seed: int,
    begin: Callable[[np.ndarray], Journeys] | None,
    steps: int,
) -> Played:
    """Attempts from fresh starts, as many at once as the world has; random ones where nothing begins them."""
    observe, rng, rounds = jax.jit(world.observe), np.random.default_rng(seed), []
    for first in starts:
        step = world.reset((seed * len(goals.images) + first) % 2**31)
        journeys = begin(goals.images[np.arange(first, first + world.size) % len(goals.images)]) if begin else None
        measures = [np.array(world.measure(step.raw))]  # copies: the next step may write over it
        for _ in range(steps):
            actions = rng.integers(agent.spec.actions, size=world.size).astype(np.int32)
            if journeys is not None:
                actions = journeys.act(journeys.see(observe(step.raw)))
            world.send(actions)
            step = world.recv()
            measures.append(np.array(world.measure(step.raw)))
        stopped = np.full(world.size, steps)
        if journeys is not None:
            journeys.see(observe(step.raw))
            stopped = np.where(journeys.stopped < 0, steps, journeys.stopped)
        rounds.append(Played(np.stack(measures, 1), stopped))
    return Played(*(np.concatenate(parts) for parts in zip(*rounds, strict=True)))


def _beyond(env: Any, starts: np.ndarray, goals: np.ndarray, longest: int) -> np.ndarray | None:
    """Whether these goals take more steps than that from these starts; None where the world knows it not of all."""
    if not hasattr(env, "fewest_steps"):
        return None
    fewest = env.fewest_steps(starts, goals)
    return None if np.isnan(fewest).any() else np.asarray(fewest > longest)


def _score(
    played: Played, goals: np.ndarray, agent: Agent, is_far: np.ndarray | None, stop_early: bool
) -> dict[str, float | None]:
    """Success at the end, at any step and where it would have stopped, of all attempts and of those at far goals."""
    attempts = np.arange(len(goals))
    hits = np.asarray(reached(played.measures[: len(goals)], goals[:, None], agent.spec.dimensions).all(-1))
    stopped = played.stopped[: len(goals)]
    shares: dict[str, np.ndarray] = {"success": hits[:, -1], "at_some_step": np.asarray(hits[:, 1:].any(1))}
    if stop_early:
        shares |= {"stopped_early": hits[attempts, stopped]}
    found: dict[str, float | None] = {name: float(share.mean()) for name, share in shares.items()}
    if is_far is not None:
        for name, share in shares.items():
            found[f"{name}_far"] = float(share[is_far].mean()) if is_far.any() else None
    return found | ({"mean_steps": float(stopped.mean())} if stop_early else {})


LABELS = {"success": "at the end", "at_some_step": "at some step", "stopped_early": "stopped early"}
LABELS |= {f"{name}_far": f"{label}, far" for name, label in LABELS.items()}


def as_table(report: dict[str, Any]) -> str:
    """The report of `evaluate_far` to read."""
    goals, policies = report["goals"], report["policies"]
    often = f"{report['trials']} trials, {report['steps']} steps each, T = {report['horizon']}"
    if report["pursuit_steps"] < report["horizon"]:
        often += f", pursuits of {report['pursuit_steps']}"
    lines = [f"{report['env']}: {goals['count']} goals ('{goals['set']}', {goals['digest']}) × {often}"]
    if report["far_share"] is not None:
        lines.append(f"far: {report['far_share']:.1%} of attempts, beyond T from where they begin")
    lines.append(f"{'reached':>20}" + "".join(f"{name:>9}" for name in policies))
    for key, label in LABELS.items():
        shares = [scores.get(key) for scores in policies.values()]
        if any(share is not None for share in shares):
            lines.append(
                f"{label:>20}" + "".join("        –" if share is None else f"{share:9.1%}" for share in shares)
            )
    if "mean_steps" in policies["plain"]:
        lines.append(f"{'steps until stopped':>20}" + "".join(f"{one['mean_steps']:9.1f}" for one in policies.values()))
    return "\n".join(lines)
