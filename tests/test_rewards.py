import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.rewards import make_reward
from discern.agent.rewards.discern import DiscernReward, embed, goal_log_likelihood, similarity
from discern.agent.rewards.pixels import PixelReward, squared_distance
from discern.config import RewardConfig
from discern.types import Frames

IDENTITY = {"kernel": jnp.eye(2), "bias": jnp.zeros(2)}


def frames(*features: tuple[float, float]) -> Frames:
    return Frames(jnp.array(features), jnp.zeros((len(features), 1, 1, 3), jnp.uint8))


def test_the_embedding_is_tanh_on_the_unit_sphere():
    embedded = embed(IDENTITY, jnp.array([0.3, -2.0]))
    expected = np.tanh([0.3, -2.0])
    np.testing.assert_allclose(embedded, expected / np.linalg.norm(expected), rtol=1e-5)


def test_an_all_zero_feature_has_a_finite_gradient():
    gradient = jax.grad(lambda x: embed(IDENTITY, x).sum())(jnp.zeros(2))
    assert np.isfinite(gradient).all()


def test_similarity_by_hand():
    assert similarity(jnp.array([0.6, 0.8]), jnp.array([1.0, 0.0])) == pytest.approx(0.6)


def test_goal_log_likelihood_by_hand():
    # β = 3, goal 0.5, decoys 0 and −0.5: e^1.5 / (e^1.5 + 1 + e^−1.5)
    expected = np.log(np.exp(1.5) / (np.exp(1.5) + 1 + np.exp(-1.5)))
    found = goal_log_likelihood(jnp.float32(0.5), jnp.array([0.0, -0.5]), 3.0)
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_reward_is_the_positive_part_of_the_cosine():
    teacher = DiscernReward(2, 5.0)
    achieved = frames((100.0, 0.0), (100.0, 0.0), (100.0, 0.0))
    goal = frames((100.0, 0.0), (0.0, 100.0), (-100.0, 0.0))
    np.testing.assert_allclose(teacher.reward(IDENTITY, achieved, goal), [1.0, 0.0, 0.0], atol=1e-5)


def test_the_teachers_loss_and_accuracy_by_hand():
    teacher = DiscernReward(2, inverse_temperature=2.0)
    achieved = frames((100.0, 0.0), (100.0, 0.0))
    goal = frames((100.0, 0.0), (0.0, 100.0))  # the first is right, the second is not
    decoys = Frames(jnp.array([[[0.0, 100.0]], [[100.0, 0.0]]]), jnp.zeros((2, 1, 1, 1, 3), jnp.uint8))
    loss, metrics = teacher.loss(IDENTITY, achieved, goal, decoys, jnp.array([False, False]))
    right, wrong = np.log(np.exp(2) / (np.exp(2) + 1)), np.log(1 / (1 + np.exp(2)))
    assert loss == pytest.approx(-(right + wrong) / 2, rel=1e-5)
    assert metrics["teacher_accuracy"] == pytest.approx(0.5)
    _, metrics = teacher.loss(IDENTITY, achieved, goal, decoys, jnp.array([False, True]))
    assert metrics["teacher_accuracy"] == pytest.approx(1.0)  # hindsight goals do not count


def test_beta_is_one_more_than_the_decoys_unless_set():
    assert make_reward(RewardConfig(decoys=4)).inverse_temperature == 5.0
    assert make_reward(RewardConfig(inverse_temperature=7.0)).inverse_temperature == 7.0


def test_pixel_reward_by_hand():
    black, grey = jnp.zeros((1, 2, 1, 3), jnp.uint8), jnp.full((1, 2, 1, 3), 51, jnp.uint8)
    assert squared_distance(black, grey)[0] == pytest.approx(6 * 0.04, rel=1e-5)
    features = jnp.zeros((1, 2))
    params = {"sigma": jnp.float32(0.48)}
    reward = PixelReward().reward(params, Frames(features, black), Frames(features, grey))
    assert reward[0] == pytest.approx(np.exp(-0.5), rel=1e-5)


def test_sigma_is_the_median_distance_of_goal_pairs():
    levels = jnp.array([0, 0, 0, 51, 102, 255], jnp.uint8)
    images = jnp.broadcast_to(levels[:, None, None, None], (6, 1, 1, 3))
    params = PixelReward(sigma_scale=0.5).calibrate({}, images)
    # pairs (0, 51), (0, 102), (0, 255): squared distances 0.12, 0.48, 3
    assert params["sigma"] == pytest.approx(0.24, rel=1e-5)


def test_sharpness_is_a_power_of_the_similarity():
    sharp = make_reward(RewardConfig(embedding=2, sharpness=4.0))
    achieved, goal = frames((100.0, 0.0)), frames((100.0, 100.0))  # cosine √½
    np.testing.assert_allclose(sharp.reward(IDENTITY, achieved, goal), [0.25], rtol=1e-5)
