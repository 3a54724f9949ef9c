"""Pursuing goals: the state the policy carries from step to step, and its choice of actions."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Int32, UInt8

from discern.agent.lstm import initial_lstm
from discern.agent.networks import Imitator
from discern.types import Array, LstmState, Params, PRNGKey


class Pursuit(NamedTuple):
    """N goals being pursued."""

    goal_features: Float[Array, "N F"]  # computed once for each goal
    lstm: LstmState  # [N, U]
    clock: Int32[Array, " N"]  # actions taken so far; in a shorter pursuit, T less those left
    previous_action: Int32[Array, " N"]  # −1 before the first


def begin_pursuit(goal_features: Float[Array, "N F"], units: int, clock: Int[Array, ""] | int = 0) -> Pursuit:
    """A pursuit of the goals with these features that has not acted yet.

    A clock that begins at T − n leaves n steps, to an agent that was trained with ends (`relabel.ends`).
    """
    n = goal_features.shape[0]
    return Pursuit(goal_features, initial_lstm((n,), units), jnp.full(n, clock, jnp.int32), jnp.full(n, -1, jnp.int32))


class ExtendedActions(NamedTuple):
    """N exploring actions under way."""

    action: Int32[Array, " N"]
    left: Int32[Array, " N"]  # how often it is still to be taken; 0: none is under way


def extend_actions(
    key: PRNGKey, extended: ExtendedActions, epsilon: Float[Array, " N"], actions: int, ez_greedy: float
) -> ExtendedActions:
    """Where none is under way, with probability ε a new one: any action, n ≤ 64 times, n ∝ n^−ez_greedy."""
    start_key, action_key, length_key = jax.random.split(key, 3)
    n = epsilon.shape[0]
    starts = jax.random.bernoulli(start_key, epsilon) & (extended.left == 0)
    lengths = 1 + jax.random.categorical(length_key, -ez_greedy * jnp.log(jnp.arange(1.0, 65.0)), shape=(n,))
    action = jnp.where(starts, jax.random.randint(action_key, (n,), 0, actions), extended.action)
    return ExtendedActions(action.astype(jnp.int32), jnp.where(starts, lengths, extended.left).astype(jnp.int32))


def act(
    imitator: Imitator,
    params: Params,
    pursuit: Pursuit,
    images: UInt8[Array, "N H W 3"],
    epsilon: Float[Array, " N"],
    key: PRNGKey,
    extended: ExtendedActions | None = None,
) -> tuple[Pursuit, Int32[Array, " N"], Float[Array, "N A"]]:
    """One ε-greedy step: the pursuit after it, actions and Q.

    An extended action under way goes first.
    """
    features = imitator.features(params, images)
    lstm, q_values = imitator.step(
        params, pursuit.lstm, features, pursuit.goal_features, pursuit.clock, pursuit.previous_action
    )
    actions = epsilon_greedy(key, q_values, epsilon)
    if extended is not None:
        actions = jnp.where(extended.left > 0, extended.action, actions)
    return Pursuit(pursuit.goal_features, lstm, pursuit.clock + 1, actions), actions, q_values


def epsilon_greedy(key: PRNGKey, q_values: Float[Array, "N A"], epsilon: Float[Array, " N"]) -> Int32[Array, " N"]:
    """The best action, or with probability ε any."""
    n, count = q_values.shape
    explore_key, action_key = jax.random.split(key)
    anything = jax.random.randint(action_key, (n,), 0, count)
    explores = jax.random.bernoulli(explore_key, epsilon)
    return jnp.where(explores, anything, q_values.argmax(-1)).astype(jnp.int32)
