"""Attempts at goals, and which of them succeed: every scored dimension within 10 % of its range at the end."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.agent.networks import Imitator
from discern.agent.policy import Pursuit, act, begin_pursuit
from discern.envs import ScoredEnv, is_host
from discern.envs.base import DeviceEnv, Dimension, ScoredHostEnv, reset_worlds, step_worlds
from discern.evaluation.goal_sets import GoalSet
from discern.types import Params, PRNGKey

TOLERANCE = 0.1


class Score(NamedTuple):
    success: float | None  # of all attempts, those in which every dimension was reached; None: no dimension is scored
    per_dimension: dict[str, float]
    by_goal: np.ndarray  # float32 [M], success for each goal
    final_images: np.ndarray  # uint8 [M, H, W, 3], the first trial's last frame for each goal
    average_images: np.ndarray  # uint8 [M, H, W, 3], the mean of every trial's last frame for each goal


def reached(measured: np.ndarray, goal: np.ndarray, dimensions: tuple[Dimension, ...]) -> np.ndarray:
    """Whether each dimension is within 10 % of its range of the goal's: [..., D], [..., D] → bool [..., D]."""
    low = np.array([d.low for d in dimensions])
    high = np.array([d.high for d in dimensions])
    wraps = np.array([d.wraps for d in dimensions])
    span = high - low

    def bounded(values: np.ndarray) -> np.ndarray:
        return np.where(wraps, values, np.clip(values, low, high))

    distance = np.abs(bounded(measured) - bounded(goal))
    around = np.abs((distance + span / 2) % span - span / 2)
    return np.where(wraps, around, distance) <= TOLERANCE * span + 1e-6


def evaluator(imitator: Imitator, env: ScoredEnv) -> Callable[..., Score]:
    """What scores parameters in a world, compiled once: every goal, `trials` times, each from a fresh start.

    ε = 1 is the random policy.
    """
    attempt: Callable = (
        _attempts_on_host(imitator, env) if is_host(env) else jax.jit(partial(_attempt_on_device, imitator, env))
    )

    def evaluate(params: Params, goals: GoalSet, trials: int, epsilon: float = 0.0, seed: int = 0) -> Score:
        count = len(goals.images)
        attempts = count * trials
        at_once = env.size if is_host(env) else count
        measured, first = [], np.zeros_like(goals.images)
        total = np.zeros(goals.images.shape, np.uint32)
        for start in range(0, attempts, at_once):
            index = np.arange(start, start + at_once) % count  # the last group is padded
            key = jax.random.fold_in(jax.random.key(seed), start)
            images, measures = jax.device_get(attempt(params, jnp.asarray(goals.images[index]), epsilon, key))
            measured.append(measures)
            for i, image in enumerate(images[: attempts - start]):
                total[index[i]] += image
                if start + i < count:
                    first[index[i]] = image
        average = np.round(total / trials).astype(np.uint8)
        return score(np.concatenate(measured)[:attempts], first, average, goals, env.spec.dimensions)

    return evaluate


def score(
    measured: np.ndarray, first: np.ndarray, average: np.ndarray, goals: GoalSet, dimensions: tuple[Dimension, ...]
) -> Score:
    """From what trials × M attempts ended in, trial after trial, and M images of the first ones and of the average."""
    count = len(goals.images)
    trials = len(measured) // count
    hits = reached(measured.reshape((trials, count, len(dimensions))), goals.measures[None], dimensions)
    whole = hits.all(-1)
    return Score(
        success=float(whole.mean()) if dimensions else None,
        per_dimension={d.name: float(hits[..., i].mean()) for i, d in enumerate(dimensions)},
        by_goal=whole.mean(0).astype(np.float32),
        final_images=first,
        average_images=average,
    )


def _attempt_on_device(
    imitator: Imitator, env: DeviceEnv, params: Params, goals: jax.Array, epsilon: float, key: PRNGKey
) -> tuple[jax.Array, jax.Array]:
    """One attempt at each of M goals from fresh starts → final images [M, H, W, 3], measures [M, D]."""
    count = goals.shape[0]
    reset_key, act_key = jax.random.split(key)
    worlds = reset_worlds(env, reset_key, count)
    pursuit = begin_pursuit(imitator.features(params, goals), imitator.config.lstm)

    def one(carry, key: PRNGKey):
        worlds, pursuit = carry
        choose_key, step_key = jax.random.split(key)
        images = jax.vmap(env.observe)(worlds.state)
        pursuit, actions, _ = act(imitator, params, pursuit, images, jnp.full(count, epsilon), choose_key)
        return (step_worlds(env, worlds, actions, step_key), pursuit), None

    (worlds, _), _ = jax.lax.scan(one, (worlds, pursuit), jax.random.split(act_key, imitator.core.horizon))
    return jax.vmap(env.observe)(worlds.state), jax.vmap(env.measure)(worlds.state)


def _attempts_on_host(imitator: Imitator, env: ScoredHostEnv) -> Callable:
    """The same beside host environments, with as many goals at once as there are environments."""

    @jax.jit
    def begin(params: Params, goals: jax.Array) -> Pursuit:
        return begin_pursuit(imitator.features(params, goals), imitator.config.lstm)

    @jax.jit
    def decide(params: Params, pursuit: Pursuit, raw: Any, epsilon: float, key: PRNGKey) -> tuple[Pursuit, jax.Array]:
        images, epsilons = env.observe(raw), jnp.full(env.size, epsilon)
        pursuit, actions, _ = act(imitator, params, pursuit, images, epsilons, key)
        return pursuit, actions

    def attempt(params: Params, goals: jax.Array, epsilon: float, key: PRNGKey) -> tuple[jax.Array, np.ndarray]:
        step = env.reset(int(jax.random.randint(key, (), 0, 2**31 - 1)))
        pursuit = begin(params, goals)
        for t in range(imitator.core.horizon):
            pursuit, actions = decide(params, pursuit, step.raw, epsilon, jax.random.fold_in(key, t))
            env.send(np.asarray(actions))
            step = env.recv()
        return env.observe(step.raw), env.measure(step.raw)

    return attempt
