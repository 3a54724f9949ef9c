"""Attempts at goals, and which of them succeed: every scored dimension within 10 % of its range, at the end or once."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.agent.networks import Imitator
from discern.agent.policy import Pursuit, act, begin_pursuit
from discern.envs import ScoredEnv, is_host
from discern.envs.base import DeviceEnv, Dimension, ScoredHostEnv, reset_worlds, step_worlds
from discern.evaluation.goal_sets import GoalSet
from discern.types import Params, PRNGKey

if TYPE_CHECKING:
    from discern.evaluation.told_apart import Shares, ToldApart

TOLERANCE = 0.1


class Score(NamedTuple):
    success: float | None  # of all attempts, those in which every dimension was reached; None: no dimension is scored
    at_some_step: (
        float | None
    )  # of all attempts, those in which every dimension was reached at once, if only in passing
    per_dimension: dict[str, float]  # at the end
    by_goal: np.ndarray  # float32 [M], success for each goal
    final_images: np.ndarray  # uint8 [M, H, W, 3], the first trial's last frame for each goal
    average_images: np.ndarray  # uint8 [M, H, W, 3], the mean of every trial's last frame for each goal
    told_apart: "Shares | None" = None  # of all attempts, where that was asked for


def apart(measured: np.ndarray, goal: np.ndarray, dimensions: tuple[Dimension, ...]) -> np.ndarray:
    """How far each dimension is from the goal's, in ranges: [..., D], [..., D] → [..., D]."""
    low = np.array([d.low for d in dimensions])
    high = np.array([d.high for d in dimensions])
    wraps = np.array([d.wraps for d in dimensions])
    span = high - low

    def bounded(values: np.ndarray) -> np.ndarray:
        return np.where(wraps, values, np.clip(values, low, high))

    distance = np.abs(bounded(measured) - bounded(goal))
    around = np.abs((distance + span / 2) % span - span / 2)
    return np.where(wraps, around, distance) / span


def reached(measured: np.ndarray, goal: np.ndarray, dimensions: tuple[Dimension, ...]) -> np.ndarray:
    """Whether each dimension is within 10 % of its range of the goal's: [..., D], [..., D] → bool [..., D]."""
    return apart(measured, goal, dimensions) <= TOLERANCE + 1e-6


def evaluator(imitator: Imitator, env: ScoredEnv, apart_by: "ToldApart | None" = None) -> Callable[..., Score]:
    """What scores parameters in a world, compiled once: every goal, `trials` times, each from a fresh start.

    ε = 1 is the random policy. An attempt takes T steps, or `steps` of an agent that was trained with ends. Where there
    is an embedding to tell goals `apart_by`, what every attempt ends in is compared with all goals.
    """
    attempt: Callable = _attempts_on_host(imitator, env) if is_host(env) else partial(_attempt_on_device, imitator, env)

    def evaluate(
        params: Params, goals: GoalSet, trials: int, epsilon: float = 0.0, seed: int = 0, steps: int | None = None
    ) -> Score:
        steps = imitator.core.horizon if steps is None else steps
        count = len(goals.images)
        attempts = count * trials
        at_once = env.size if is_host(env) else count
        measured, rivals, first = [], [], np.zeros_like(goals.images)
        total = np.zeros(goals.images.shape, np.uint32)
        for start in range(0, attempts, at_once):
            index = np.arange(start, start + at_once) % count  # the last group is padded
            key = jax.random.fold_in(jax.random.key(seed), start)
            images, measures = jax.device_get(attempt(params, jnp.asarray(goals.images[index]), epsilon, key, steps))
            measured.append(measures)
            if apart_by is not None:
                rivals.append(apart_by.rivals(images, goals.images, index))
            for i, image in enumerate(images[: attempts - start]):
                total[index[i]] += image
                if start + i < count:
                    first[index[i]] = image
        average = np.round(total / trials).astype(np.uint8)
        scored = score(np.concatenate(measured)[:attempts], first, average, goals, env.spec.dimensions)
        if apart_by is None:
            return scored
        return scored._replace(told_apart=apart_by.shares(np.concatenate(rivals, axis=1)[:, :attempts], count))

    return evaluate


def score(
    measured: np.ndarray, first: np.ndarray, average: np.ndarray, goals: GoalSet, dimensions: tuple[Dimension, ...]
) -> Score:
    """From what was measured along trials × M attempts, trial after trial, [trials × M, n, D], and M images of what the
    first ones ended in and of the average."""
    count = len(goals.images)
    trials = len(measured) // count
    hits = reached(measured.reshape((trials, count, *measured.shape[1:])), goals.measures[:, None], dimensions)
    whole = np.asarray(hits.all(-1))
    return Score(
        success=float(whole[..., -1].mean()) if dimensions else None,
        at_some_step=float(whole.any(-1).mean()) if dimensions else None,
        per_dimension={d.name: float(hits[..., -1, i].mean()) for i, d in enumerate(dimensions)},
        by_goal=whole[..., -1].mean(0).astype(np.float32),
        final_images=first,
        average_images=average,
    )


@partial(jax.jit, static_argnums=(0, 1, 6))
def _attempt_on_device(
    imitator: Imitator, env: DeviceEnv, params: Params, goals: jax.Array, epsilon: float, key: PRNGKey, steps: int
) -> tuple[jax.Array, jax.Array]:
    """One attempt of n steps at each of M goals from fresh starts → final images [M, H, W, 3], measures [M, n, D]."""
    count = goals.shape[0]
    reset_key, act_key = jax.random.split(key)
    worlds = reset_worlds(env, reset_key, count)
    clock = imitator.core.horizon - steps
    pursuit = begin_pursuit(imitator.features(params, goals), imitator.config.lstm, clock)

    def one(carry, key: PRNGKey):
        worlds, pursuit = carry
        choose_key, step_key = jax.random.split(key)
        images = jax.vmap(env.observe)(worlds.state)
        pursuit, actions, _ = act(imitator, params, pursuit, images, jnp.full(count, epsilon), choose_key)
        worlds = step_worlds(env, worlds, actions, step_key)
        return (worlds, pursuit), jax.vmap(env.measure)(worlds.state)

    (worlds, _), measures = jax.lax.scan(one, (worlds, pursuit), jax.random.split(act_key, steps))
    return jax.vmap(env.observe)(worlds.state), jnp.moveaxis(measures, 0, 1)


def _attempts_on_host(imitator: Imitator, env: ScoredHostEnv) -> Callable:
    """The same beside host environments, with as many goals at once as there are environments."""

    @jax.jit
    def begin(params: Params, goals: jax.Array, clock: int) -> Pursuit:
        return begin_pursuit(imitator.features(params, goals), imitator.config.lstm, clock)

    @jax.jit
    def decide(params: Params, pursuit: Pursuit, raw: Any, epsilon: float, key: PRNGKey) -> tuple[Pursuit, jax.Array]:
        images, epsilons = env.observe(raw), jnp.full(env.size, epsilon)
        pursuit, actions, _ = act(imitator, params, pursuit, images, epsilons, key)
        return pursuit, actions

    def attempt(
        params: Params, goals: jax.Array, epsilon: float, key: PRNGKey, steps: int
    ) -> tuple[jax.Array, np.ndarray]:
        step = env.reset(int(jax.random.randint(key, (), 0, 2**31 - 1)))
        pursuit, measures = begin(params, goals, imitator.core.horizon - steps), []
        for t in range(steps):
            pursuit, actions = decide(params, pursuit, step.raw, epsilon, jax.random.fold_in(key, t))
            env.send(np.asarray(actions))
            step = env.recv()
            measures.append(np.array(env.measure(step.raw)))  # a copy: the next step may write over it
        return env.observe(step.raw), np.stack(measures, axis=1)

    return attempt
