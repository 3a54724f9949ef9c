import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from discern.agent.rewards import make_reward
from discern.agent.rewards.autoencoder import AutoencoderReward, reconstruction_error
from discern.agent.rewards.discern import DiscernReward, decoy_curriculum, embed, goal_log_likelihood, similarity
from discern.agent.rewards.oracle import closeness, distances
from discern.agent.rewards.pairs import draw_pairs, temporal_similarities, twin_similarities
from discern.agent.rewards.pixels import PixelReward, squared_distance
from discern.agent.rewards.wgan import WganReward, pair, wasserstein
from discern.config import Config, RewardConfig, replace
from discern.envs.base import Dimension
from discern.types import Frames, UserError

IDENTITY = {"kernel": jnp.eye(2), "bias": jnp.zeros(2)}


def no_decoys(height: int = 1, width: int = 1) -> Frames:
    return Frames(jnp.zeros((0, 2)), jnp.zeros((0, height, width, 3), jnp.uint8))


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
    np.testing.assert_allclose(teacher.reward(IDENTITY, achieved, goal, no_decoys()), [1.0, 0.0, 0.0], atol=1e-5)


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
    assert make_reward(Config(reward=RewardConfig(decoys=4))).inverse_temperature == 5.0
    assert make_reward(Config(reward=RewardConfig(inverse_temperature=7.0))).inverse_temperature == 7.0


def test_pixel_reward_by_hand():
    black, grey = jnp.zeros((1, 2, 1, 3), jnp.uint8), jnp.full((1, 2, 1, 3), 51, jnp.uint8)
    assert squared_distance(black, grey)[0] == pytest.approx(6 * 0.04, rel=1e-5)
    features = jnp.zeros((1, 2))
    params = {"sigma": jnp.float32(0.48)}
    reward = PixelReward().reward(params, Frames(features, black), Frames(features, grey), no_decoys(2, 1))
    assert reward[0] == pytest.approx(np.exp(-0.5), rel=1e-5)


def test_sigma_is_the_median_distance_of_goal_pairs():
    levels = jnp.array([0, 0, 0, 51, 102, 255], jnp.uint8)
    images = jnp.broadcast_to(levels[:, None, None, None], (6, 1, 1, 3))
    params = PixelReward(sigma_scale=0.5).calibrate({}, images)
    # pairs (0, 51), (0, 102), (0, 255): squared distances 0.12, 0.48, 3
    assert params["sigma"] == pytest.approx(0.24, rel=1e-5)


def test_log_likelihood_as_a_reward_by_hand():
    teacher = make_reward(Config(reward=RewardConfig(kind="log_likelihood", embedding=2, inverse_temperature=2.0)))
    achieved = Frames(jnp.array([[[100.0, 0.0]]]), jnp.zeros((1, 1, 1, 1, 3), jnp.uint8))  # [B=1, 1]
    goals = Frames(jnp.array([[[100.0, 0.0], [0.0, 100.0]]]), jnp.zeros((1, 2, 1, 1, 3), jnp.uint8))  # [B, G=2]
    decoys = Frames(jnp.array([[[[0.0, 100.0]]]]), jnp.zeros((1, 1, 1, 1, 1, 3), jnp.uint8))  # [B, 1, K=1]
    right, wrong = np.log(np.exp(2) / (np.exp(2) + 1)), np.log(1 / 2)
    rewards = teacher.reward(IDENTITY, achieved, goals, decoys)
    np.testing.assert_allclose(rewards, [[right, wrong]], rtol=1e-4)
    assert teacher.hindsight == 0.0  # log q̂ of what is certain


def test_reconstruction_error_by_hand():
    # ξ of (100, 0) is (1, 0); a decoder that doubles gives (2, 0) back
    params = {"encoder": IDENTITY, "decoder": {"kernel": 2 * jnp.eye(2), "bias": jnp.zeros(2)}}
    errors = reconstruction_error(params, jnp.array([[100.0, 0.0], [0.0, 100.0]]))
    np.testing.assert_allclose(errors, [98.0**2, 98.0**2], rtol=1e-5)


def test_the_autoencoder_learns_to_reconstruct_and_rewards_the_cosine():
    reward = AutoencoderReward(embedding=2)
    params = reward.init(jax.random.key(0), 2, (1, 1, 3))
    assert params["decoder"]["kernel"].shape == (2, 2)
    seen = frames((1.0, 0.0), (0.0, 1.0))
    decoys = Frames(jnp.array([[[-1.0, 0.0]], [[0.0, -1.0]]]), jnp.zeros((2, 1, 1, 1, 3), jnp.uint8))
    loss = jax.jit(jax.value_and_grad(lambda p: reward.loss(p, seen, seen, decoys, jnp.array([False, True]))[0]))
    first = float(loss(params)[0])
    for _ in range(300):
        params = jax.tree.map(lambda p, g: p - 0.05 * g, params, loss(params)[1])
    assert float(loss(params)[0]) < 0.05 * first
    exact = {"encoder": IDENTITY, "decoder": params["decoder"]}
    achieved, goal = frames((100.0, 0.0), (100.0, 0.0)), frames((100.0, 0.0), (0.0, 100.0))
    np.testing.assert_allclose(reward.reward(exact, achieved, goal, no_decoys()), [1.0, 0.0], atol=1e-5)


def test_wasserstein_loss_by_hand():
    # D(x) = 3·x₀ + 4·x₁ has a gradient of norm 5 everywhere
    critic = lambda x: 3 * x[0] + 4 * x[1]  # noqa: E731
    real, fake = jnp.array([[1.0, 0.0], [0.0, 1.0]]), jnp.array([[0.0, 0.0], [1.0, 1.0]])
    loss, gap = wasserstein(critic, real, fake, jnp.array([0.2, 0.9]), penalty=10.0)
    assert gap == pytest.approx((0 + 7) / 2 - (3 + 4) / 2)
    assert loss == pytest.approx(0.0 + 10 * 16)


def test_the_penalty_is_taken_between_real_and_fake():
    # D(x) = x₀² has gradient 2·x₀: 0.5 of the way from 0 to 1 its norm is 1, and nothing is to be paid
    loss, gap = wasserstein(lambda x: x[0] ** 2, jnp.array([[0.0]]), jnp.array([[1.0]]), jnp.array([0.5]), 10.0)
    assert loss == pytest.approx(float(gap), abs=1e-5)


@pytest.mark.usefixtures("optimised")
def test_the_critic_learns_to_tell_what_was_achieved_from_the_goal():
    reward = WganReward()
    params = reward.init(jax.random.key(0), 2, (8, 8, 3))
    white, black = jnp.full((4, 8, 8, 3), 255, jnp.uint8), jnp.zeros((4, 8, 8, 3), jnp.uint8)
    assert pair(black, white).shape == (4, 8, 8, 6)
    achieved, goal = Frames(jnp.zeros((4, 2)), black), Frames(jnp.zeros((4, 2)), white)
    optimiser = reward.optimiser
    state = optimiser.init(params)

    @jax.jit
    def step(params, state):
        gradient = jax.grad(lambda p: reward.loss(p, achieved, goal, no_decoys(8, 8), jnp.zeros(4, bool))[0])(params)
        updates, state = optimiser.update(gradient, state)
        return jax.tree.map(jnp.add, params, updates), state

    for _ in range(200):
        params, state = step(params, state)
    done = reward.reward(params, goal, goal, no_decoys(8, 8))
    missed = reward.reward(params, achieved, goal, no_decoys(8, 8))
    assert (done > missed + 0.5).all()
    many = reward.reward(
        params, Frames(None, black[:, None]), Frames(None, jnp.stack([white, black], 1)), no_decoys(8, 8)
    )
    assert many.shape == (4, 2)


def test_a_hidden_layer_comes_before_the_embedding():
    params = IDENTITY | {"hidden_kernel": -jnp.eye(2), "hidden_bias": jnp.array([0.0, 1.0])}
    expected = np.tanh([0.0, 3.0])  # relu(−0.3), relu(1 + 2)
    np.testing.assert_allclose(embed(params, jnp.array([0.3, -2.0])), expected / np.linalg.norm(expected), atol=1e-6)
    drawn = make_reward(Config(reward=RewardConfig(hidden=7))).init(jax.random.key(0), 5, (1, 1, 3))
    assert drawn["hidden_kernel"].shape == (5, 7)
    assert drawn["kernel"].shape == (7, 32)


def test_a_pool_of_decoys_counts_like_own_ones():
    teacher = DiscernReward(2, inverse_temperature=2.0)
    achieved, goal = frames((100.0, 0.0), (0.0, 100.0)), frames((100.0, 0.0), (100.0, 0.0))
    features = jnp.array([[[0.0, 100.0], [-100.0, 0.0]]])
    shared = Frames(features, jnp.zeros((1, 2, 1, 1, 3), jnp.uint8))
    own = Frames(jnp.tile(features, (2, 1, 1)), jnp.zeros((2, 2, 1, 1, 3), jnp.uint8))
    for decoys in (shared, own):
        loss, metrics = teacher.loss(IDENTITY, achieved, goal, decoys, jnp.array([False, False]))
        first, second = 1 + np.exp(-2) + np.exp(-4), 1 + np.exp(2) + 1
        assert loss == pytest.approx((np.log(first) + np.log(second)) / 2, rel=1e-4)
        assert metrics["teacher_accuracy"] == pytest.approx(0.5)


def test_a_decoy_may_count_for_several():
    twice = goal_log_likelihood(jnp.float32(0.5), jnp.array([0.0, 0.0]), 3.0)
    assert goal_log_likelihood(jnp.float32(0.5), jnp.array([0.0]), 3.0, 2.0) == pytest.approx(float(twice), rel=1e-5)


def test_as_many_decoys_count_as_half_of_the_goals_are_found_among():
    everyone, none_of_it = jnp.ones(3), jnp.zeros(3)
    assert decoy_curriculum(jnp.array([1.0, 1.0, 0.9]), everyone, 4, 128) == 128  # two of three are always found
    assert decoy_curriculum(jnp.full(3, 0.95), everyone, 4, 128) == 8  # 0.95^8 = 0.66, 0.95^16 = 0.44
    assert decoy_curriculum(jnp.full(3, 0.5), everyone, 4, 128) == 4  # never fewer
    assert decoy_curriculum(jnp.array([1.0, 0.5, 0.5]), jnp.array([1.0, 0.0, 0.0]), 4, 64) == 64
    assert 4 <= decoy_curriculum(jnp.full(3, 0.5), none_of_it, 4, 64) <= 64


def test_the_pool_is_weighed_by_what_the_teacher_is_ready_for():
    teacher = make_reward(Config(reward=RewardConfig(embedding=2, decoys=1, decoy_pool=4, inverse_temperature=2.0)))
    achieved = goal = frames((100.0, 0.0), (100.0, 0.0))
    pool = Frames(jnp.array([[[0.0, 100.0]] * 3 + [[100.0, 0.0]]]), jnp.zeros((1, 4, 1, 1, 3), jnp.uint8))
    loss, metrics = teacher.loss(IDENTITY, achieved, goal, pool, jnp.array([False, False]))
    assert metrics["decoys"] == 2  # 0.75² = 0.56, 0.75⁴ = 0.32
    assert metrics["teacher_accuracy"] == pytest.approx(0.75)
    expected = np.log(1 + (3 * np.exp(-2) + 1) * 2 / 4)
    assert loss == pytest.approx(expected, rel=1e-4)
    with_hindsight, _ = teacher.loss(IDENTITY, achieved, goal, pool, jnp.array([False, True]))
    assert with_hindsight == pytest.approx((expected + expected / 2) / 2, rel=1e-4)  # counts for 1 of 2 decoys


def test_pairs_lie_in_one_trajectory_and_their_gap_has_its_mean():
    first, second = map(np.asarray, draw_pairs(jax.random.key(0), 2000, 101, 5.0))
    gap = second - first
    assert first.min() == 0 and second.max() == 100
    assert gap.min() == 1
    assert gap.mean() == pytest.approx(5.0, rel=0.05)
    first, second = map(np.asarray, draw_pairs(jax.random.key(0), 200, 3, 50.0))
    assert first.min() >= 0 and second.max() <= 2 and (second > first).all()


def test_similarities_of_temporal_pairs_by_hand():
    # trajectory 0 shows a, a, b and trajectory 1 shows b, a, b, with a·b = 0
    a, b = np.eye(2, dtype=np.float32)
    embedded = jnp.array([[a, a, b], [b, a, b]])
    first, second = jnp.array([[0, 1], [0, 1]]), jnp.array([[1, 2], [2, 2]])
    similar = temporal_similarities(embedded, first, second)
    no = -np.inf
    np.testing.assert_array_equal(similar, [[no, no, 0, 0], [no, no, 0, 0], [0, 1, no, no], [1, 0, no, no]])
    reward = make_reward(Config(reward=RewardConfig(kind="temporal")))
    np.testing.assert_array_equal(reward.similarities(embedded, first, second)[:, 0], [1, 0, 1, 0])


def test_similarities_to_twins_by_hand():
    a, b, c = np.eye(3, dtype=np.float32)
    embedded = jnp.array([[a, b, c], [a, c, b], [a, a, a], [b, b, b]])  # two groups of two
    first, second = jnp.array([[0], [2], [0], [1]]), jnp.array([[2], [1], [1], [2]])
    similar = twin_similarities(embedded, first, second, twins=2)
    # 0: a against c and b; 1: b (its frame 2) against b and c at frame 1; 2: a against a and b; 3: b against a and b
    no = -np.inf
    np.testing.assert_array_equal(similar, [[no, 0], [1, no], [no, 0], [0, no]])
    twins = {"actor.twins": 2, "actor.environments": 4, "learner.batch": 4}
    reward = make_reward(replace(Config(), {"reward.kind": "temporal_twins", **twins}))
    both = reward.similarities(embedded, first, second)
    np.testing.assert_array_equal(both[:, 0], [0, 0, 1, 1])
    np.testing.assert_array_equal(both[:, 1:5], temporal_similarities(embedded, first, second))
    np.testing.assert_array_equal(both[:, 5:], similar)


def test_the_loss_on_pairs_by_hand():
    """With nothing to see, every candidate is as likely."""
    seen = jnp.ones((2, 6, 5))
    temporal = make_reward(Config(reward=RewardConfig(kind="temporal")))
    params = temporal.init(jax.random.key(0), 5, (1, 1, 3))
    loss, _ = temporal.pair_loss(params, seen, jax.random.key(0))
    assert loss == pytest.approx(np.log(5), rel=1e-5)  # its own and the other trajectory's four
    twins = make_reward(
        replace(Config(), {"reward.kind": "twins", "actor.twins": 2, "actor.environments": 4, "learner.batch": 4})
    )
    assert twins.pair_loss(params, seen, jax.random.key(0))[0] == pytest.approx(np.log(2), rel=1e-5)
    both = dataclasses.replace(twins, temporal=True)
    assert both.pair_loss(params, seen, jax.random.key(0))[0] == pytest.approx(np.log(6), rel=1e-5)


def test_twins_teach_what_actions_change_and_nothing_else():
    """Of two signals that both change along a trajectory, only one differs between twins: the other stays unseen."""
    key, groups, twins, frames = jax.random.key(0), 16, 4, 10
    own = jax.random.normal(key, (groups * twins, 1, 1)) * jnp.linspace(0, 1, frames)[None, :, None]
    shared = jnp.repeat(jax.random.normal(jax.random.key(1), (groups, frames, 1)), twins, axis=0)
    seen = jnp.concatenate([own, shared], -1)
    reward = make_reward(
        replace(Config(), {"reward.kind": "twins", "actor.twins": 4, "reward.embedding": 4, "reward.hidden": 16})
    )
    params = reward.init(jax.random.key(2), 2, (1, 1, 3))
    optimiser = optax.adam(1e-2)

    @jax.jit
    def update(params, state, key):
        gradient = jax.grad(lambda p: reward.pair_loss(p, seen, key)[0])(params)
        step, state = optimiser.update(gradient, state)
        return optax.apply_updates(params, step), state

    state = optimiser.init(params)
    for i in range(300):
        params, state = update(params, state, jax.random.fold_in(key, i))
    here = jnp.array([0.0, 0.0])
    similarity_to = lambda there: float(embed(params, here) @ embed(params, jnp.array(there)))  # noqa: E731
    assert min(similarity_to([0.0, 1.0]), similarity_to([0.0, -1.0])) > 0.85
    assert max(similarity_to([1.0, 0.0]), similarity_to([-1.0, 0.0])) < 0.75


def test_the_oracle_by_hand():
    dimensions = (Dimension("x", 0.0, 10.0), Dimension("angle", -np.pi, np.pi, wraps=True))
    achieved, goal = jnp.array([2.0, 3.0]), jnp.array([3.2, -3.0])
    # x is off by 0.12 of its range; the angle by 2π − 6 = 0.2832, 0.0451 of its range, the shorter way round
    np.testing.assert_allclose(distances(achieved, goal, dimensions), [0.12, 0.0451], rtol=2e-3)
    # ½ · (e^−1 + e^−0.141)/2 + ½ e^−(0.64 + 0.0903)
    assert closeness(jnp.array([0.12, 0.0451])) == pytest.approx(0.25 * (0.3679 + 0.8683) + 0.5 * 0.4818, rel=2e-3)
    assert closeness(jnp.array([jnp.nan, 0.0])) == 0.0
    assert closeness(jnp.zeros(2)) == 1.0
    with pytest.raises(UserError, match="scored dimensions"):
        make_reward(Config(reward=RewardConfig(kind="oracle")))
