import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.goal_buffer import GoalBuffer
from discern.agent.learner import Learner, end_rows, random_erasing
from discern.agent.policy import begin_pursuit
from discern.agent.relabel import relabel, rows
from discern.config import Config, replace
from discern.envs import make_env
from discern.types import Frames, LearnerState, Trajectories

RELABEL = jax.jit(relabel, static_argnums=(3, 4))
NOT_OF_INIT = {"relabel.ends": True, "learner.learning_rate": 1e-3}  # settings that no first state depends on


@functools.cache
def noise() -> tuple[Trajectories, GoalBuffer]:
    shape = make_env("arena").spec.image_shape
    keys = jax.random.split(jax.random.key(0), 4)
    images = lambda key, *lead: jax.random.randint(key, (*lead, *shape), 0, 256).astype(jnp.uint8)  # noqa: E731
    trajectories = Trajectories(
        images(keys[0], 4, 6),
        jax.random.randint(keys[1], (4, 5), 0, 5),
        images(keys[2], 4),
        jnp.arange(4),
        jnp.ones(4, bool),
        jax.random.uniform(keys[0], (4, 6, 2)),
        jax.random.uniform(keys[2], (4, 2)),
    )
    return trajectories, GoalBuffer(images(keys[3], 16), jax.random.uniform(keys[3], (16, 2)))


@functools.cache
def first_state(config: Config) -> LearnerState:
    return jax.jit(Learner(config, make_env("arena").spec).init)(jax.random.key(2), noise()[1].images)


@pytest.fixture
def setting(tiny):
    """A learner, its state and a batch of noise."""

    def make(**changes):
        config = replace(tiny, {"relabel.goals": ("draw", "random", "hindsight", "other"), **changes})
        batch = RELABEL(jax.random.key(1), *noise(), config.relabel, config.reward)
        learner = Learner(config, make_env("arena").spec)
        return learner, first_state(replace(config, NOT_OF_INIT)), batch

    return make


def changed(tree, other=None) -> bool:
    """Whether any number differs from the other tree's, or from zero; by numpy, which compiles nothing."""
    leaves = jax.tree.leaves(jax.device_get(tree))
    others = [0] * len(leaves) if other is None else jax.tree.leaves(jax.device_get(other))
    return any((leaf != theirs).any() for leaf, theirs in zip(leaves, others, strict=True))


@pytest.mark.parametrize("random_erasing", [0.0, 1.0])
def test_the_teacher_moves_neither_torso_nor_core(setting, random_erasing):
    learner, state, batch = setting(**{"reward.random_erasing": random_erasing})

    def teacher_loss(params):
        images = rows(batch)
        features = learner.imitator.features(params, images)
        return learner.reward_loss(params, features, images, learner.decoys(params, batch), batch)[0]

    gradient = jax.jit(jax.grad(teacher_loss))(state.params)
    assert not changed([gradient["torso"], gradient["core"]])
    assert changed(gradient["reward"])


def test_a_rectangle_of_each_image_is_hidden():
    images = jnp.arange(2 * 100 * 6 * 8 * 3).reshape((2, 100, 6, 8, 3)).astype(jnp.uint8) | 1
    behind = jnp.zeros((6, 8, 3), jnp.uint8)
    erased = jax.jit(random_erasing, static_argnums=3)
    seen = np.array(erased(jax.random.key(0), images, behind, 1.0))
    hidden = seen == 0
    np.testing.assert_array_equal(np.where(hidden, images, seen), images)
    by_row, by_column = hidden.any((3, 4)), hidden.any((2, 4))
    np.testing.assert_array_equal(hidden, (by_row[..., :, None] & by_column[..., None, :])[..., None].repeat(3, -1))
    assert 0.12 < hidden.mean() < 0.2  # (5/12)² without end pixels, half of whose surroundings lie outside
    assert by_row.mean(axis=(0, 1)).min() > 0.15 and by_column.mean(axis=(0, 1)).min() > 0.15  # every part now and then
    assert np.array(erased(jax.random.key(0), images, behind, 0.0)).all()


def test_hiding_changes_the_teachers_loss_alone(setting):
    def losses(**changes):
        learner, state, batch = setting(**changes)
        return jax.tree.map(float, jax.jit(learner.loss)(state.params, None, batch))

    plain, hidden = losses(), losses(**{"reward.random_erasing": 1.0})
    assert plain[0] != hidden[0]
    assert plain[1] == pytest.approx(hidden[1])  # what is reported is of whole images
    baseline = {"reward.kind": "autoencoder"}
    assert losses(**baseline)[0] == losses(**baseline, **{"reward.random_erasing": 1.0})[0]


def test_the_policy_does_not_move_the_teacher(setting):
    learner, state, batch = setting()

    def policy_loss(params):
        images = rows(batch)
        features = learner.imitator.features(params, images)
        q_values = learner.q_values(params, features, batch)
        rewards = learner.rewards(params["reward"], features, images, learner.decoys(params, batch), batch)
        return learner.policy_loss(q_values, q_values, rewards, batch)

    gradient = jax.jit(jax.grad(policy_loss))(state.params)
    assert not changed(gradient["reward"])
    assert changed(gradient["torso"])


@pytest.fixture
def telling_actions_apart(setting):
    """A learner, its state and batch, and the loss of telling which action lies between two frames."""

    def make(kind):
        weights = {"learner.inverse_dynamics": 1.0, "learner.learning_rate": 3e-3}
        learner, state, batch = setting(**weights, **{"reward.kind": kind})

        def loss(params):
            return learner.inverse_dynamics_loss(params, learner.imitator.features(params, rows(batch)), batch)

        return learner, state, batch, loss

    return make


def test_telling_actions_apart_moves_the_torso_alone_and_is_learned(setting, telling_actions_apart):
    learner, state, batch, loss = telling_actions_apart("discern")
    assert "inverse_dynamics" not in setting()[1].params
    gradient = jax.jit(jax.grad(loss))(state.params)
    assert changed(gradient["torso"])
    assert not changed([gradient["core"], gradient["reward"]])
    nothing_seen = jnp.zeros((len(rows(batch)), learner.imitator.config.features))
    loss = jax.jit(learner.inverse_dynamics_loss)(state.params, nothing_seen, batch)
    assert loss == pytest.approx(np.log(5))  # of five actions
    update = jax.jit(learner.update)
    for _ in range(60):
        state, metrics = update(state, batch)
    assert metrics["inverse_dynamics_loss"] < 0.8 * np.log(5)


def test_telling_actions_apart_is_learned_beside_a_reward_with_an_optimiser_of_its_own(telling_actions_apart):
    """Along the gradient of this loss alone: the critic's second derivatives take long to compile."""
    learner, state, _, loss = telling_actions_apart("wgan")

    @jax.jit
    def step(state):
        value, gradient = jax.value_and_grad(loss)(state.params)
        return learner.apply(state, gradient), value

    for _ in range(60):
        state, value = step(state)
    assert value < 0.8 * np.log(5)


def test_hindsight_goals_are_worth_one_and_others_what_the_teacher_says(setting):
    learner, state, batch = setting(**{"relabel.ends": False})
    features = jax.random.normal(jax.random.key(5), (32, 8))
    decoys = Frames(features[:16].reshape((4, 4, -1)), batch.decoys)
    images = jnp.zeros((32, 24, 24, 3), jnp.uint8)
    rewards = np.asarray(jax.jit(learner.rewards)(state.params["reward"], features, images, decoys, batch))
    assert (rewards[np.asarray(batch.is_hindsight)] == 1.0).all()
    others = rewards[~np.asarray(batch.is_hindsight)]
    assert (others >= 0).all()
    assert (others < 1).all()
    np.testing.assert_array_equal(end_rows(batch), np.array([[5, 11, 17, 23]] * 4).T)


def test_updates_bring_the_loss_down(setting):
    learner, state, batch = setting(**{"learner.learning_rate": 3e-3})
    update = jax.jit(learner.update)
    losses = []
    for _ in range(60):
        state, metrics = update(state, batch)
        losses.append(float(metrics["td_loss"]))
    assert np.mean(losses[-10:]) < 0.5 * np.mean(losses[:5])
    assert int(state.updates) == 60
    assert np.isfinite(losses).all()


def test_the_target_network_is_copied_when_due(setting):
    learner, state, batch = setting(**{"learner.target_interval": 3})
    update = jax.jit(learner.update)
    first = state.target_params
    for number in range(1, 7):
        state, _ = update(state, batch)
        policy = {"torso": state.params["torso"], "core": state.params["core"]}
        assert changed(state.target_params, policy) == (number % 3 != 0)
        assert changed(state.target_params, first) == (number >= 3)


def test_the_moving_average_trails_the_parameters(setting):
    learner, state, batch = setting(**{"learner.ema_decay": 0.9})
    before = state.params["core"]["value"]["kernel"]
    state, _ = jax.jit(learner.update)(state, batch)
    after = state.params["core"]["value"]["kernel"]
    np.testing.assert_allclose(state.ema["core"]["value"]["kernel"], 0.9 * before + 0.1 * after, rtol=1e-4, atol=1e-7)
    assert state.agent is state.ema
    _, plain, _ = setting(**{"learner.ema_decay": 0.0})
    assert plain.agent is plain.params


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(
    "kind", ["discern", "log_likelihood", "temporal", "twins", "autoencoder", "wgan", "pixels", "oracle"]
)
def test_every_reward_trains(setting, kind, ends):
    twins = 2 if kind == "twins" else 1
    learner, state, batch = setting(**{"reward.kind": kind, "relabel.ends": ends, "actor.twins": twins})
    before = state.params["reward"]
    state, metrics = jax.jit(learner.update)(state, batch)
    assert changed(before, state.params["reward"]) == (kind not in ("pixels", "oracle"))
    assert np.isfinite(float(metrics["td_loss"]))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(state.params)))


@pytest.mark.parametrize("kind", ["temporal", "twins"])
def test_a_teacher_of_pairs_trains_what_is_seen_too(setting, kind):
    learner, state, batch = setting(**{"reward.kind": kind, "actor.twins": 2, "learner.learning_rate": 3e-3})

    def teacher_loss(params):
        images = rows(batch)
        features = learner.imitator.features(params, images)
        return learner.reward_loss(params, features, images, learner.decoys(params, batch), batch)[0]

    gradient = jax.jit(jax.grad(teacher_loss))(state.params)
    assert all(changed(gradient[part]) for part in ("torso", "reward"))
    assert not changed(gradient["core"])


def test_with_an_end_what_comes_after_it_does_not_count(setting):
    learner, state, batch = setting(**{"relabel.ends": True, "relabel.goals": ("hindsight",)})
    batch = batch._replace(end=jnp.full((4, 1), 3), goal_row=jnp.arange(4)[:, None] * 6 + 3)

    @jax.jit
    def policy_loss(batch):
        images = rows(batch)
        features = learner.imitator.features(state.params, images)
        return learner.policy_loss(*[learner.q_values(state.params, features, batch)] * 2, jnp.ones((4, 1)), batch)

    seen = batch.trajectories
    later = seen._replace(
        observations=seen.observations.at[:, 4:].set(0), actions=(seen.actions + (jnp.arange(5) >= 3)) % 5
    )
    assert policy_loss(batch) == pytest.approx(float(policy_loss(batch._replace(trajectories=later))))
    sooner = seen._replace(observations=seen.observations.at[:, 1].set(0))
    assert policy_loss(batch) != pytest.approx(float(policy_loss(batch._replace(trajectories=sooner))))


def test_the_clock_says_what_time_is_left(setting):
    """A trajectory that ends after three of five steps looks, from its first step, like the last three of five."""
    learner, state, _ = setting(**{"relabel.ends": True})
    keys = jax.random.split(jax.random.key(7), 2)
    observations, goals = jax.random.normal(keys[0], (1, 5, 8)), jax.random.normal(keys[1], (1, 1, 8))
    actions = jnp.array([[1, 2, 3, 0, 1]])
    unrolled = jax.jit(learner.imitator.unroll)(state.params, observations, goals, actions, jnp.array([[3]]))
    pursuit = begin_pursuit(goals[0], 8, clock=2)
    lstm, previous, step = pursuit.lstm, pursuit.previous_action, jax.jit(learner.imitator.step)
    for t in range(3):
        lstm, q_values = step(state.params, lstm, observations[:, t], goals[0], pursuit.clock + t, previous)
        np.testing.assert_allclose(q_values[0], unrolled[0, 0, t], rtol=1e-4, atol=1e-5)
        previous = actions[:, t]
