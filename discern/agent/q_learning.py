"""Peng's Q(λ) and the TD loss; no networks, no state."""

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from discern.types import Array

UNROLL = 20  # steps in one round of the loop on an accelerator, where every round is a few launches


def peng_q_lambda(
    rewards: Float[Array, " T"], discounts: Float[Array, " T"], next_values: Float[Array, " T"], lambda_: float
) -> Float[Array, " T"]:
    """G_t = r_{t+1} + γ_{t+1} [(1 − λ) max_a Q(s_{t+1}, a) + λ G_{t+1}] (sec. 4).

    After the last step G is taken to be the last of `next_values`.
    """

    def backwards(following_return: Array, step: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        reward, discount, value = step
        mixed = (1.0 - lambda_) * value + lambda_ * following_return
        this_return = reward + discount * mixed
        return this_return, this_return

    returns: Array
    unroll = 1 if jax.default_backend() == "cpu" else UNROLL
    _, returns = jax.lax.scan(
        backwards, next_values[-1], (rewards, discounts, next_values), reverse=True, unroll=unroll
    )
    return returns


def goal_returns(
    final_reward: Float[Array, ""],
    values: Float[Array, " T"],
    end: Int[Array, ""] | int,
    discount: float,
    lambda_: float,
) -> Float[Array, " T"]:
    """Q(λ) returns of a trajectory rewarded once, after its `end`-th action; values are max_a Q(s_t, a).

    What is returned of later actions means nothing.
    """
    at_end = jnp.arange(values.shape[0]) == end - 1
    return peng_q_lambda(
        rewards=jnp.where(at_end, final_reward, 0.0),
        discounts=jnp.where(at_end, 0.0, discount),
        next_values=jnp.append(values[1:], 0.0),
        lambda_=lambda_,
    )


def td_loss(
    q_values: Float[Array, "T A"], actions: Int[Array, " T"], returns: Float[Array, " T"], end: Int[Array, ""] | int
) -> Float[Array, ""]:
    """½ Σ_{t < end} (G_t − Q(s_t, a_t))²."""
    taken = jnp.take_along_axis(q_values, actions[:, None], axis=1)[:, 0]
    errors = jnp.where(jnp.arange(returns.shape[0]) < end, jax.lax.stop_gradient(returns) - taken, 0.0)
    return 0.5 * jnp.sum(jnp.square(errors))
