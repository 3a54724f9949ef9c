import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from discern.agent.lstm import initial_lstm, lstm_cell, lstm_unroll
from discern.agent.networks import Conv, Core, Imitator, LstmState, Torso, patches
from discern.config import NetworkConfig

SMALL = NetworkConfig(channels=(4,), kernels=(4,), strides=(4,), features=8, lstm=6, time_units=3)


def make(config: NetworkConfig, size: int = 12) -> tuple[Imitator, dict]:
    imitator = Imitator(config, (size, size, 3), actions=3, horizon=5)
    return imitator, jax.jit(imitator.init)(jax.random.key(0))


def inputs(batch: int = 2, goals: int = 3, length: int = 5, features: int = 8):
    keys = jax.random.split(jax.random.key(1), 3)
    return (
        jax.random.normal(keys[0], (batch, length, features)),
        jax.random.normal(keys[1], (batch, goals, features)),
        jax.random.randint(keys[2], (batch, length), 0, 3),
    )


@pytest.mark.parametrize("layer_norm", [False, True])
def test_unrolling_many_goals_equals_stepping_one(layer_norm):
    """What the learner sees of a trajectory is what the actor computed, goal by goal and step by step."""
    imitator, params = make(NetworkConfig(**{**SMALL.__dict__, "layer_norm": layer_norm}))
    observations, goals, actions = inputs()
    unrolled = jax.jit(imitator.unroll)(params, observations, goals, actions)
    assert unrolled.shape == (2, 3, 5, 3)
    for goal in range(3):
        lstm, previous = initial_lstm((2,), 6), jnp.full(2, -1)
        for t in range(5):
            lstm, q_values = imitator.step(params, lstm, observations[:, t], goals[:, goal], jnp.full(2, t), previous)
            np.testing.assert_allclose(q_values, unrolled[:, goal, t], rtol=1e-4, atol=1e-5)
            previous = actions[:, t]


def test_the_split_input_matrix_is_an_lstm_over_the_concatenation():
    imitator, params = make(SMALL)
    observations, goals, actions = inputs(goals=1)
    core = params["core"]
    angle = 2 * np.pi * 2 / 5
    ticks = nn.relu(jnp.array([np.sin(angle), np.cos(angle)]) @ core["clock"]["kernel"] + core["clock"]["bias"])
    whole = jnp.concatenate([observations[0, 2], goals[0, 0], ticks, jax.nn.one_hot(actions[0, 1], 3)])
    parts = ("observation_share", "goal_share", "clock_share", "action_share")
    matrix = jnp.concatenate([core[part]["kernel"] for part in parts])
    before = LstmState(jnp.full(6, 0.3), jnp.full(6, -0.2))
    gates = whole @ matrix + core["observation_share"]["bias"]
    after = lstm_cell(before, gates + before.hidden @ core["recurrent_share"]["kernel"])
    stepped, _ = imitator.step(
        params,
        jax.tree.map(lambda x: x[None], before),
        observations[:1, 2],
        goals[:1, 0],
        jnp.array([2]),
        actions[:1, 1],
    )
    np.testing.assert_allclose(stepped.hidden[0], after.hidden, rtol=1e-4, atol=1e-6)


def test_the_unrolled_lstm_and_its_gradient_are_those_of_a_scan():
    gates_key, kernel_key, weight_key = jax.random.split(jax.random.key(0), 3)
    gates, kernel = jax.random.normal(gates_key, (7, 2, 3, 20)), 0.5 * jax.random.normal(kernel_key, (5, 20))
    weight = jax.random.normal(weight_key, (7, 2, 3, 5))

    def scanned(gates, kernel):
        def walk(lstm, of_inputs):
            lstm = lstm_cell(lstm, of_inputs + lstm.hidden @ kernel)
            return lstm, lstm.hidden

        return jax.lax.scan(walk, initial_lstm((2, 3), 5), gates)[1]

    np.testing.assert_allclose(lstm_unroll(gates, kernel), scanned(gates, kernel), rtol=1e-6)
    ours, theirs = (
        jax.grad(lambda *inputs, unroll=unroll: (unroll(*inputs) * weight).sum(), argnums=(0, 1))(gates, kernel)
        for unroll in (lstm_unroll, scanned)
    )
    for mine, yours in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, yours, rtol=1e-4, atol=1e-5)


def test_lstm_cell_by_hand():
    # all gates at 0: forget σ(1) = 0.7311, write and read σ(0) = 0.5, new tanh(0) = 0
    after = lstm_cell(LstmState(jnp.array([2.0]), jnp.array([0.0])), jnp.zeros(4))
    np.testing.assert_allclose(after.cell, [1.4621], atol=1e-4)
    np.testing.assert_allclose(after.hidden, [0.5 * np.tanh(1.4621)], atol=1e-4)


def test_dueling_head_by_hand():
    core = Core(NetworkConfig(features=2, lstm=2, time_units=2), actions=2, horizon=5)
    params = {
        "value": {"kernel": jnp.array([[1.0], [2.0]]), "bias": jnp.array([0.5])},
        "advantage": {"kernel": jnp.array([[1.0, 3.0], [0.0, 2.0]])},
    }
    # ψ = (1, 2): value 5 + 0.5; advantages (1, 7), mean 4
    q_values = core.apply({"params": params}, jnp.array([1.0, 2.0]), method="q_values")
    np.testing.assert_allclose(q_values, [2.5, 8.5])


def test_the_clock_tells_the_steps_apart():
    imitator, params = make(SMALL)
    same = jnp.ones((1, 8))
    values = [
        imitator.step(params, initial_lstm((1,), 6), same, same, jnp.array([t]), jnp.array([-1]))[1] for t in range(5)
    ]
    assert len({round(float(v[0, 0]), 6) for v in values}) == 5


@pytest.mark.parametrize(("kernel", "stride"), [(8, 4), (4, 2), (6, 3)])
def test_a_convolution_over_tiles_is_the_strided_convolution(kernel, stride):
    images = jax.random.normal(jax.random.key(0), (2, 21, 20, 3))
    ours, theirs = Conv(5, kernel, stride, jnp.float32), nn.Conv(5, (kernel, kernel), stride, "VALID")
    params = ours.init(jax.random.key(1), images)
    assert jax.tree.map(jnp.shape, params) == jax.tree.map(jnp.shape, theirs.init(jax.random.key(1), images))
    np.testing.assert_allclose(ours.apply(params, images), theirs.apply(params, images), atol=1e-5)


def test_patches_keep_pixels_in_place():
    image = jnp.arange(2 * 5 * 4 * 3).reshape((2, 5, 4, 3))
    tiles = patches(image, 2)
    assert tiles.shape == (2, 2, 2, 12)
    np.testing.assert_array_equal(tiles[1, 1, 0], image[1, 2:4, 0:2].reshape(-1))


def test_a_torso_without_overlap_is_a_convolution():
    """The matrix product that stands for a kernel = stride convolution gives the convolution's numbers."""
    torso = Torso(SMALL)
    images = jax.random.randint(jax.random.key(0), (3, 12, 12, 3), 0, 256).astype(jnp.uint8)
    params = torso.init(jax.random.key(1), images)["params"]
    kernel = params["Dense_0"]["kernel"].reshape((4, 4, 3, 4))
    convolved = jax.lax.conv_general_dilated(
        images / 255, kernel, (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    hidden = nn.relu(convolved + params["Dense_0"]["bias"]).reshape((3, -1))
    expected = nn.relu(hidden @ params["Dense_1"]["kernel"] + params["Dense_1"]["bias"])
    np.testing.assert_allclose(torso.apply({"params": params}, images), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "config", [NetworkConfig(), NetworkConfig(bfloat16=True), NetworkConfig(torso="residual", channels=(4, 8, 8))]
)
def test_both_torsos_see_atari_frames(config):
    imitator = Imitator(config, (84, 84, 3), actions=18, horizon=50)
    params = jax.eval_shape(imitator.init, jax.random.key(0))
    images = jax.ShapeDtypeStruct((2, 5, 84, 84, 3), jnp.uint8)
    features = jax.eval_shape(imitator.features, params, images)
    assert features.shape == (2, 5, 256)
    assert features.dtype == jnp.float32


def test_weights_have_the_papers_spread():
    """Truncated normal with standard deviation 1/√fan-in, the LSTM's over its whole concatenated input."""
    _, params = make(NetworkConfig(), size=84)
    fan_in = 2 * 256 + 64 + 3 + 256
    for part in ("goal_share", "recurrent_share"):
        spread = float(params["core"][part]["kernel"].std())
        assert spread == pytest.approx(1 / np.sqrt(fan_in), rel=0.03)
    dense = params["torso"]["Dense_0"]["kernel"]
    assert float(dense.std()) == pytest.approx(1 / np.sqrt(dense.shape[0]), rel=0.03)


def test_float_images_are_refused():
    imitator, params = make(SMALL)
    with pytest.raises(TypeCheckError, match="images"):
        imitator.features(params, jnp.zeros((1, 12, 12, 3)))


def test_centring_takes_away_what_never_changes_and_is_not_trained():
    imitator = Imitator(dataclasses.replace(SMALL, subtract_mean_image=True), (12, 12, 3), actions=3, horizon=4)
    scene = jax.random.randint(jax.random.key(0), (12, 12, 3), 0, 256).astype(jnp.uint8)
    params = imitator.calibrate(imitator.init(jax.random.key(1)), jnp.stack([scene, scene]))
    np.testing.assert_allclose(params["torso"]["mean_image"], scene / 255, atol=1e-6)
    plain = Imitator(SMALL, (12, 12, 3), actions=3, horizon=4)
    rest = {"torso": {name: leaf for name, leaf in params["torso"].items() if name != "mean_image"}}
    black = jnp.zeros((1, 12, 12, 3), jnp.uint8)
    np.testing.assert_allclose(imitator.features(params, scene[None]), plain.features(rest, black), atol=1e-6)
    gradient = jax.grad(lambda params: imitator.features(params, black).sum())(params)
    assert not gradient["torso"]["mean_image"].any()
    assert gradient["torso"]["Dense_0"]["kernel"].any()
