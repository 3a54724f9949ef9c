"""Ways to far goals over near ones, from the agent's own attempts and values (SoRB, Eysenbach et al. 2019), and when
to stop."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from discern.agent.lstm import initial_lstm
from discern.agent.networks import Imitator
from discern.types import Array, Params

WIDTH = 0.2  # of cosines, over which what was seen of one place says something of another
DOUBT = 2.0  # how many attempts what Q promises weighs
LEAST_CHANCE = 0.5  # what fails more often is no way to go
CAUTION = 3  # 1 would be the steps that attempts take on average; values promise too much, walls are not seen from afar
MOST_LOST = 0.01  # of the reward gained, by stopping early
ROWS = 32  # observations at once, against all goals


class Chance(NamedTuple):
    """How likely a pursuit is to arrive, 1 / (1 + exp(−slope · r̂ − intercept)), from the reward r̂ that Q promises."""

    slope: float
    intercept: float


def promised_rewards(
    imitator: Imitator,
    params: Params,
    observations: Float[Array, "M F"],
    goals: Float[Array, "N F"],
    budgets: tuple[int, ...],
    discount: float,
) -> Float[Array, "budgets M N"]:
    """r̂ = max_a Q / γ^(n−1): what Q, at the first of n steps, says the reward after the last one will be."""
    count = goals.shape[0]

    def from_here(budget: int, observation: Float[Array, " F"]) -> Float[Array, " N"]:
        clock, no_action = jnp.full(1, imitator.core.horizon - budget), jnp.full(1, -1)
        start = initial_lstm((count,), imitator.config.lstm)
        _, q_values = imitator.step(params, start, observation[None], goals, clock, no_action)
        return q_values.max(-1) / discount ** (budget - 1)

    rows = [jax.lax.map(partial(from_here, budget), observations, batch_size=ROWS) for budget in budgets]
    return jnp.stack(rows)


def promised_chances(promised: Float[np.ndarray, "..."], chance: Chance) -> Float[np.ndarray, "..."]:
    """What r̂ makes likely; no reward is above 1, so what Q promises beyond says no more."""
    p: np.ndarray = 1 / (1 + np.exp(-chance.slope * np.minimum(promised, 1.0) - chance.intercept))
    return p


def practised_chances(
    promised: Float[np.ndarray, "budgets M N"],
    starts: Float[np.ndarray, "M K"],
    goals: Float[np.ndarray, "N K"],
    arrived: np.ndarray,
) -> Float[np.ndarray, "budgets M N"]:
    """The share of K attempts that arrived, bool [budgets, K], by how alike (cosine) their starts and goals are to
    these, beside what Q promised as if of `DOUBT` attempts (Nadaraya and Watson 1964)."""
    from_here, to_there = np.exp((starts - 1) / WIDTH), np.exp((goals - 1) / WIDTH)
    found = np.stack([(from_here * hits) @ to_there.T for hits in arrived])
    shares: np.ndarray = (DOUBT * promised + found) / (DOUBT + from_here @ to_there.T)
    return shares


def expected_steps(
    chances: Float[np.ndarray, "budgets ..."], budgets: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """min_n n / p_n³, what reaching a goal in attempts of n steps costs, and that n; ∞ where no p_n is 1/2."""
    each = np.reshape(budgets, (-1,) + (1,) * (chances.ndim - 1))
    steps = np.where(chances >= LEAST_CHANCE, each / np.maximum(chances, LEAST_CHANCE) ** CAUTION, np.inf)
    best = steps.argmin(0)
    return steps.min(0), np.where(np.isfinite(steps.min(0)), np.array(budgets)[best], max(budgets))


def shortest_ways(steps: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """The least sum of steps from each node to each other, over any others (Floyd and Warshall 1962)."""
    ways = np.array(steps)
    np.fill_diagonal(ways, 0.0)
    for middle in range(len(ways)):
        np.minimum(ways, ways[:, middle, None] + ways[middle], out=ways)
    return ways


def fit_chance(promised: Float[np.ndarray, " A"], arrived: np.ndarray) -> Chance:
    """Platt's logistic regression (1999) of whether attempts arrived, by Newton's method; it never falls with r̂."""
    yes = int(arrived.sum())
    target = np.where(arrived, (yes + 1) / (yes + 2), 1 / (len(arrived) - yes + 2))  # his prior: never quite 0 or 1
    x = np.stack([promised, np.ones(len(promised))], 1).astype(np.float64)
    weights = np.zeros(2)
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + 1e-3 * np.eye(2)
        weights += np.clip(np.linalg.solve(hessian, x.T @ (target - p) - 1e-3 * weights), -5, 5)
    if weights[0] < 0:
        return Chance(0.0, float(np.log(target.mean() / (1 - target.mean()))))
    return Chance(float(weights[0]), float(weights[1]))


def stopping_steps(rewards: Float[np.ndarray, "A frames"], threshold: float) -> Int[np.ndarray, " A"]:
    """The first frame of each attempt with at least this reward, or else the last one."""
    near = rewards >= threshold
    steps: np.ndarray = np.where(near.any(1), near.argmax(1), rewards.shape[1] - 1)
    return steps


def arrival_threshold(rewards: Float[np.ndarray, "A frames"], most_lost: float = MOST_LOST) -> float:
    """The lowest reward to stop at by which attempts lose, on average, at most this share of what they gain by T."""
    final = rewards[:, -1]
    most = most_lost * max(0.0, float((final - rewards[:, 0]).mean()))
    for threshold in np.unique(np.quantile(final, np.linspace(0, 1, 101))):
        stopped = rewards[np.arange(len(rewards)), stopping_steps(rewards, threshold)]
        if np.maximum(0.0, final - stopped).mean() <= most:
            break
    return float(threshold)
