import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from discern.agent.q_learning import goal_returns, peng_q_lambda, td_loss


@pytest.fixture(scope="module")
def rlax():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what rlax imports uses deprecated corners of JAX
        import rlax
    return rlax


def test_peng_q_lambda_by_hand():
    # G_2 = 1 + 0 · …; G_1 = 0 + ½ (½ · 4 + ½ · 1) = 1.25; G_0 = 2 + ½ (½ · 6 + ½ · 1.25) = 3.8125
    returns = peng_q_lambda(
        rewards=jnp.array([2.0, 0.0, 1.0]),
        discounts=jnp.array([0.5, 0.5, 0.0]),
        next_values=jnp.array([6.0, 4.0, 9.0]),
        lambda_=0.5,
    )
    np.testing.assert_allclose(returns, [3.8125, 1.25, 1.0])


@pytest.mark.parametrize("lambda_", [0.0, 0.65, 0.9, 1.0])
def test_peng_q_lambda_agrees_with_rlax(rlax, lambda_):
    keys = jax.random.split(jax.random.key(0), 3)
    rewards, q_values = jax.random.normal(keys[0], (7,)), jax.random.normal(keys[1], (8, 4))
    discounts, actions = jax.random.uniform(keys[2], (7,)), jnp.arange(7) % 4
    errors = rlax.q_lambda(q_values[:-1], actions, rewards, discounts, q_values[1:], jnp.full(7, lambda_))
    returns = peng_q_lambda(rewards, discounts, q_values[1:].max(-1), lambda_)
    np.testing.assert_allclose(returns - q_values[jnp.arange(7), actions], errors, rtol=1e-4, atol=1e-5)


def test_goal_returns_by_hand():
    # reward 0.8 after the third action, γ = ½, λ = ½, max Q of s_0, s_1, s_2 = 7, 2, 1
    # G_2 = 0.8; G_1 = ½ (½ · 1 + ½ · 0.8) = 0.45; G_0 = ½ (½ · 2 + ½ · 0.45) = 0.6125
    returns = goal_returns(jnp.float32(0.8), jnp.array([7.0, 2.0, 1.0]), 3, discount=0.5, lambda_=0.5)
    np.testing.assert_allclose(returns, [0.6125, 0.45, 0.8], rtol=1e-6)


def test_nothing_is_bootstrapped_past_the_horizon():
    returns = goal_returns(jnp.float32(0.3), jnp.array([5.0, 5.0]), 2, discount=1.0, lambda_=0.0)
    np.testing.assert_allclose(returns, [5.0, 0.3], rtol=1e-6)


def test_td_loss_by_hand_and_its_gradient():
    q_values = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    actions, returns = jnp.array([1, 0]), jnp.array([1.0, 5.0])
    # δ = (1 − 2, 5 − 3): ½ (1 + 4)
    assert td_loss(q_values, actions, returns, 2) == pytest.approx(2.5)
    gradient = jax.grad(td_loss)(q_values, actions, returns, 2)
    np.testing.assert_allclose(gradient, [[0.0, 1.0], [-2.0, 0.0]])
    assert not jax.grad(td_loss, argnums=2)(q_values, actions, returns, 2).any()


def test_a_trajectory_that_is_taken_to_end_sooner_by_hand():
    # reward 0.8 after the second of three actions, γ = ½, λ = ½, max Q of s_0, s_1, s_2 = 7, 2, 1
    # G_1 = 0.8; G_0 = ½ (½ · 2 + ½ · 0.8) = 0.7; what comes after does not count
    returns = goal_returns(jnp.float32(0.8), jnp.array([7.0, 2.0, 1.0]), jnp.int32(2), discount=0.5, lambda_=0.5)
    np.testing.assert_allclose(returns[:2], [0.7, 0.8], rtol=1e-6)
    q_values, actions = jnp.array([[0.5, 9.0], [0.0, 9.0], [9.0, 9.0]]), jnp.zeros(3, jnp.int32)
    # δ = (0.7 − 0.5, 0.8 − 0): ½ (0.04 + 0.64)
    assert td_loss(q_values, actions, returns, jnp.int32(2)) == pytest.approx(0.34)
    assert not jax.grad(td_loss)(q_values, actions, returns, jnp.int32(2))[2].any()


def test_wrong_shapes_are_refused():
    with pytest.raises(TypeCheckError, match="parameter 'discounts'"):
        peng_q_lambda(jnp.zeros(3), jnp.zeros(2), jnp.zeros(3), 0.9)
