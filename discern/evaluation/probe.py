"""What an agent lacks, said by the program: sight, reward, timing or control."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from discern.agent.learner import Learner
from discern.agent.policy import act, begin_pursuit
from discern.envs import Hosted, is_host, opened
from discern.envs.base import Dimension, ScoredHostEnv
from discern.evaluation.achievement import Score, score
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.evaluation.probes import Reward, left_of_reward, pairs_of_frames, sight, verdict
from discern.evaluation.report import machine, refuse_unscored
from discern.inference import Agent, load
from discern.types import Params, Trajectories, UserError

GOALS = 100
KEPT = 12  # frames of a trajectory
FEWEST_FRAMES = 100  # to fit a probe to, and to test it on
BATCH = 200  # images the network sees at once
REWARDS = {"match": "all match", "match_at_other_moments": "other moments", "everything_off": "all off"}

Choose = Callable[[Any], np.ndarray]  # what N environments look like, raw → int32 [N] actions


class Played(NamedTuple):
    """A trajectories, with what was measured after each step and a few of their frames."""

    frames: np.ndarray  # uint8 [A, K, H, W, 3]
    measures: np.ndarray  # float32 [A, T, D]


def probe(run: str | Path, seed: int = 0) -> dict[str, Any]:
    """Plays a run's agent and random actions in its world, and says what can be seen, what is rewarded, what is reached
    and what is missing first."""
    if seed < 0:
        raise UserError("the seed must not be below 0")
    began = time.monotonic()
    agent = load(run)
    refuse_unscored(agent)
    rng = np.random.default_rng(seed)
    dimensions, horizon = agent.spec.dimensions, agent.horizon
    kept = min(KEPT, horizon)
    moments = np.linspace(horizon / kept, horizon, kept).round().astype(int)
    goals, plays = _play_all(agent, moments, seed, rng)
    frames, measures, trajectory, moment = _gather(plays, moments)
    is_train = trajectory % 2 == 0
    if min(is_train.sum(), (~is_train).sum()) < FEWEST_FRAMES:
        raise UserError(f"too little of {agent.config.env} can be measured to say what the agent lacks")
    of_h, of_teacher = (_in_batches(see, frames) for see in (agent.features, agent.embed))
    seen = sight(of_h, measures, is_train, dimensions)
    seen_in_halves = sight(of_h, measures, is_train, dimensions, cycles=2) if any(d.wraps for d in dimensions) else {}
    seen_by_teacher = sight(of_teacher, measures, is_train, dimensions)
    pairs = pairs_of_frames(measures, trajectory, moment, dimensions, horizon, rng)
    rewards, lowest = _rewards(agent, frames, pairs)
    left = left_of_reward(rewards, lowest)
    reached, by_chance = (_score(played, goals, agent) for played in plays[:2])
    return {
        "env": agent.config.env,
        "verdict": verdict(reached, by_chance, seen, left, seen_in_halves)._asdict(),
        "success": reached.success,
        "at_some_step": reached.at_some_step,
        "random": by_chance.success,
        "random_at_some_step": by_chance.at_some_step,
        "dimensions": {
            name: {
                "r2_h": _rounded(seen[name]),
                "r2_teacher": _rounded(seen_by_teacher[name]),
                "r2_h_half_range": _rounded(seen_in_halves.get(name)),
                "reward_off": _plain(rewards[f"off:{name}"]),
                "reward_left": _rounded(left.get(name)),
                "success": share,
                "random": by_chance.per_dimension[name],
            }
            for name, share in reached.per_dimension.items()
        },
        "reward": {
            **{kind: _plain(reward) for kind, reward in rewards.items() if not kind.startswith("off:")},
            "lowest": _rounded(lowest),
        },
        "frames": len(frames),
        "trajectories": len(np.unique(trajectory)),
        "steps": horizon,
        "goals": {"set": goals.name, "count": GOALS, "digest": goals.digest},
        "seed": seed,
        "seconds": round(time.monotonic() - began, 2),
        "machine": machine(),
    }


def trajectory_probe(learner: Learner) -> Callable[[Params, Trajectories], tuple[jax.Array, ...]]:
    """What `sight_in_trajectories` looks at, compiled: features, embeddings and measures, [B, K, …] each."""

    @jax.jit
    def look(params: Params, trajectories: Trajectories) -> tuple[jax.Array, ...]:
        frames = trajectories.measures.shape[1]
        some = np.linspace(0, frames - 1, min(8, frames)).round().astype(int)
        features = learner.imitator.features(params, trajectories.observations[:, some])
        return features, learner.embed(params, features), trajectories.measures[:, some]

    return look


def sight_in_trajectories(seen: tuple[jax.Array, ...], dimensions: tuple[Dimension, ...]) -> dict[str, float]:
    """How well each dimension can be read from h and from the teacher's embedding: probe/h/NAME, probe/teacher/NAME.

    The probes are of three quarters of the trajectories, and tested on the others.
    """
    of_h, of_teacher, measures = (x.reshape((-1, x.shape[-1])) for x in jax.device_get(seen))
    is_train = np.arange(len(measures)) < 3 * len(measures) // 4
    known = np.isfinite(measures).all(-1)
    if min((known & is_train).sum(), (known & ~is_train).sum()) < FEWEST_FRAMES:
        return {}
    report: dict[str, float] = {}
    for who, features in (("h", of_h), ("teacher", of_teacher)):
        r2 = sight(features[known], measures[known], is_train[known], dimensions)
        report |= {f"probe/{who}/{name}": value for name, value in r2.items() if np.isfinite(value)}
    return report


def _play_all(agent: Agent, moments: np.ndarray, seed: int, rng: np.random.Generator) -> tuple[GoalSet, list[Played]]:
    """The fixed goals, and: an attempt at each, random actions from the same starts, and twice random held actions."""
    with opened(agent.make_scored_env(GOALS)) as env:
        goals = goal_set(env, "tune", GOALS)
        world = cast(ScoredHostEnv, env if is_host(env) else Hosted(env, GOALS))
        longest = max(2, agent.horizon // 4)
        plays = [_play(world, _pursuing(agent, world, goals), moments, seed)]
        plays += [_play(world, _random(agent, 1, rng), moments, seed)]
        plays += [_play(world, _random(agent, longest, rng), moments, seed + 1 + i) for i in range(2)]
    return goals, plays


def _play(world: ScoredHostEnv, make_choice: Callable[[np.ndarray], Choose], moments: np.ndarray, seed: int) -> Played:
    """GOALS trajectories of T steps from fresh starts, as many at once as the world has; frames at the moments [K]."""
    rounds = []
    for start in range(0, GOALS, world.size):
        choose = make_choice(np.arange(start, start + world.size) % GOALS)
        step, frames, measures = world.reset((seed * GOALS + start) % 2**31), [], []
        for t in range(1, moments[-1] + 1):
            world.send(choose(step.raw))
            step = world.recv()
            measures.append(np.array(world.measure(step.raw)))  # copies: the next step may write over it
            if t in moments:
                frames.append(np.array(world.observe(step.raw)))
        rounds.append(Played(np.stack(frames, 1), np.stack(measures, 1)))
    return Played(*(np.concatenate(parts)[:GOALS] for parts in zip(*rounds, strict=True)))


def _pursuing(agent: Agent, world: ScoredHostEnv, goals: GoalSet) -> Callable[[np.ndarray], Choose]:
    """The agent's policy, for the goals with the given numbers [N]."""
    imitator, nothing = agent.learner.imitator, jnp.zeros(world.size)

    @jax.jit
    def decide(params, pursuit, raw):
        return act(imitator, params, pursuit, world.observe(raw), nothing, jax.random.key(0))[:2]

    def begin(index: np.ndarray) -> Choose:
        features = agent.features(goals.images[index])
        pursuit = begin_pursuit(jnp.asarray(features), agent.config.network.lstm)

        def choose(raw: Any) -> np.ndarray:
            nonlocal pursuit
            pursuit, actions = decide(agent.params, pursuit, raw)
            return np.asarray(actions)

        return choose

    return begin


def _random(agent: Agent, longest: int, rng: np.random.Generator) -> Callable[[np.ndarray], Choose]:
    """Random actions, each held for 1 to `longest` steps."""

    def begin(index: np.ndarray) -> Choose:
        actions, left = np.zeros(len(index), np.int32), np.zeros(len(index), int)

        def choose(raw: Any) -> np.ndarray:
            nonlocal actions, left
            del raw
            new = left == 0
            actions = np.where(new, rng.integers(agent.spec.actions, size=len(index)), actions).astype(np.int32)
            left = np.where(new, rng.integers(1, longest + 1, size=len(index)), left) - 1
            return actions

        return choose

    return begin


def _gather(plays: list[Played], moments: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Frames uint8 [M, H, W, 3], measures [M, D], trajectories int [M] and moments int [M], without what could not be
    measured; trajectories with the same start have both even or both odd numbers."""
    frames, along = (np.concatenate(parts) for parts in zip(*plays, strict=True))
    measures = along[:, moments - 1]
    trajectory, moment = (grid.ravel() for grid in np.meshgrid(np.arange(len(frames)), moments, indexing="ij"))
    frames, measures = (part.reshape((-1, *part.shape[2:])) for part in (frames, measures))
    measured = np.isfinite(measures).all(-1)
    return frames[measured], measures[measured], trajectory[measured], moment[measured]


def _in_batches(compute: Callable[..., np.ndarray], *images: np.ndarray) -> np.ndarray:
    """compute(*images), a batch at a time, the last one padded: [M, …] each → [M, …]."""
    parts = []
    for start in range(0, len(images[0]), BATCH):
        index = np.arange(start, start + BATCH) % len(images[0])
        parts.append(compute(*(one[index] for one in images)))
    return np.concatenate(parts)[: len(images[0])]


def _rewards(agent: Agent, frames: np.ndarray, pairs: dict[str, np.ndarray]) -> tuple[dict[str, Reward], float]:
    """The learned reward of each kind of pairs, and the lowest of all, but for one in twenty."""
    index = np.concatenate(list(pairs.values()))
    if not len(index):
        return dict.fromkeys(pairs, Reward(None, 0)), 0.0
    rewards = _in_batches(lambda left, right: agent.reward(frames[left], frames[right]), index[:, 0], index[:, 1])
    kinds = np.split(rewards, np.cumsum([len(some) for some in pairs.values()])[:-1])
    found = {
        kind: Reward(float(some.mean()) if len(some) else None, len(some))
        for kind, some in zip(pairs, kinds, strict=True)
    }
    return found, float(np.percentile(rewards, 5))


def _score(played: Played, goals: GoalSet, agent: Agent) -> Score:
    ended = played.frames[:, -1]
    return score(played.measures, ended, ended, goals, agent.spec.dimensions)


def _rounded(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(float(value), 4)


def _plain(reward: Reward) -> dict[str, Any]:
    return {"mean": _rounded(reward.mean), "pairs": reward.pairs}


def as_table(report: dict[str, Any]) -> str:
    """The report of `probe` to read."""
    frames = f"{report['frames']} frames of {report['trajectories']} trajectories"
    wide = max(14, *(len(name) + 1 for name in report["dimensions"]))
    lines = [
        f"{report['env']}: {frames}",
        f"{'':>{wide}}{'R² h':>8}{'teacher':>9}{'reward if off':>16}{'reached':>9}{'random':>8}",
    ]
    for name, row in report["dimensions"].items():
        read = f"{_shown(row['r2_h']):>8}{_shown(row['r2_teacher']):>9}{_with_pairs(row['reward_off']):>16}"
        lines.append(f"{name:>{wide}}{read}{row['success']:>9.1%}{row['random']:>8.1%}")
    for kind, label in REWARDS.items():
        lines.append(f"{label:>{wide}}{'':>17}{_with_pairs(report['reward'][kind]):>16}")
    for label, mine, chance in (
        ("at the end", "success", "random"),
        ("at some step", "at_some_step", "random_at_some_step"),
    ):
        lines.append(f"{label:>{wide}}{'':>33}{report[mine]:>9.1%}{report[chance]:>8.1%}")
    verdict = report["verdict"]
    return "\n".join([*lines, f"missing: {verdict['missing']} ({verdict['because']})"])


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _with_pairs(reward: dict[str, Any]) -> str:
    return f"{_shown(reward['mean'])} ({reward['pairs']})"
