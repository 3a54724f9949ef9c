"""Peng's Q(λ) and the TD loss; no networks, no state."""

import jax
import jax.numpy as jnp


def peng_q_lambda(rewards: jax.Array, discounts: jax.Array, next_values: jax.Array, lambda_: float) -> jax.Array:
    """G_t = r_{t+1} + γ_{t+1} [(1 − λ) max_a Q(s_{t+1}, a) + λ G_{t+1}]; all float32 [T] → [T] (sec. 4).

    After the last step G is taken to be the last of `next_values`.
    """
    assert rewards.ndim == 1 and rewards.shape == discounts.shape == next_values.shape, rewards.shape

    def backwards(following_return, step):
        reward, discount, value = step
        mixed = (1.0 - lambda_) * value + lambda_ * following_return
        this_return = reward + discount * mixed
        return this_return, this_return

    _, returns = jax.lax.scan(backwards, next_values[-1], (rewards, discounts, next_values), reverse=True)
    return returns


def goal_returns(
    final_reward: jax.Array, values: jax.Array, end: jax.Array, discount: float, lambda_: float
) -> jax.Array:
    """Q(λ) returns of a trajectory rewarded once, after its `end`-th action; values [T] are max_a Q(s_t, a) → [T].

    What is returned of later actions means nothing.
    """
    at_end = jnp.arange(values.shape[0]) == end - 1
    return peng_q_lambda(
        rewards=jnp.where(at_end, final_reward, 0.0),
        discounts=jnp.where(at_end, 0.0, discount),
        next_values=jnp.append(values[1:], 0.0),
        lambda_=lambda_,
    )


def td_loss(q_values: jax.Array, actions: jax.Array, returns: jax.Array, end: jax.Array) -> jax.Array:
    """½ Σ_{t < end} (G_t − Q(s_t, a_t))²; q_values [T, A], actions [T], returns [T], end [] → []."""
    assert q_values.ndim == 2 and actions.shape == returns.shape == q_values.shape[:1], q_values.shape
    taken = jnp.take_along_axis(q_values, actions[:, None], axis=1)[:, 0]
    errors = jnp.where(jnp.arange(returns.shape[0]) < end, jax.lax.stop_gradient(returns) - taken, 0.0)
    return 0.5 * jnp.sum(jnp.square(errors))
