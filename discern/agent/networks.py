"""The imitator's network: a convolutional torso h, an LSTM core with a dueling head, and small dense parts."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Float, UInt8

from discern.agent.lstm import lstm_cell, unroll_for
from discern.config import NetworkConfig
from discern.types import Array, LstmState, Params, PRNGKey

TRUNCATED_SPREAD = 0.87962566  # standard deviation of a unit normal cut off at two
fan_in_normal = nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal")


class Conv(nn.Module):
    """nn.Conv without padding, same parameters and same values, for a kernel that is a whole number of strides.

    A stride of s over C channels is a stride of one over tiles of s·s·C channels, which a CPU and a GPU do faster.
    """

    channels: int
    kernel: int
    stride: int
    dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        size, side, depth = self.stride, self.kernel // self.stride, x.shape[-1]
        kernel = self.param("kernel", fan_in_normal, (self.kernel, self.kernel, depth, self.channels))
        bias = self.param("bias", nn.initializers.zeros, (self.channels,))
        kernel = kernel.reshape((side, size, side, size, depth, self.channels)).transpose((0, 2, 1, 3, 4, 5))
        kernel = kernel.reshape((side, side, size * size * depth, self.channels)).astype(self.dtype)
        axes = ("NHWC", "HWIO", "NHWC")
        x = jax.lax.conv_general_dilated(patches(x, size), kernel, (1, 1), "VALID", dimension_numbers=axes)
        return x + bias.astype(self.dtype)


class Torso(nn.Module):
    """h: uint8 [..., H, W, 3] → float32 [..., F]; the same network sees observations and goals (App. A2)."""

    config: NetworkConfig

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        assert images.dtype == jnp.uint8 and images.ndim >= 4, (images.dtype, images.shape)
        lead = images.shape[:-3]
        half = self.config.bfloat16 and jax.default_backend() != "cpu"  # a CPU only emulates it, slowly
        dtype = jnp.bfloat16 if half else jnp.float32
        x = images.reshape((-1, *images.shape[-3:])).astype(jnp.float32) / 255
        if self.config.subtract_mean_image:
            x -= jax.lax.stop_gradient(self.param("mean_image", nn.initializers.zeros, x.shape[1:]))
        convolve = self._shallow if self.config.torso == "shallow" else self._residual
        x = convolve(x.astype(dtype), dtype)
        x = nn.Dense(self.config.features, dtype=dtype, kernel_init=fan_in_normal)(x.reshape((x.shape[0], -1)))
        x = x.astype(jnp.float32)
        if self.config.layer_norm:
            x = nn.LayerNorm()(x)
        return nn.relu(x).reshape((*lead, -1))

    def _shallow(self, x: jax.Array, dtype: Any) -> jax.Array:
        layers = zip(self.config.channels, self.config.kernels, self.config.strides, strict=True)
        for channels, kernel, stride in layers:
            if kernel == stride:  # no overlap: a matrix product, which a CPU does several times faster
                layer = nn.Dense(channels, dtype=dtype, kernel_init=fan_in_normal)
                x = nn.relu(layer(patches(x, kernel)))
            elif kernel % stride == 0:
                x = nn.relu(Conv(channels, kernel, stride, dtype)(x))
            else:
                x = nn.relu(self._convolution(channels, kernel, stride, "VALID", dtype)(x))
        return x

    def _residual(self, x: jax.Array, dtype: Any) -> jax.Array:
        for channels in self.config.channels:
            x = self._convolution(channels, 3, 1, "SAME", dtype)(x)
            x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
            for _ in range(2):
                y = self._convolution(channels, 3, 1, "SAME", dtype)(nn.relu(x))
                x = x + self._convolution(channels, 3, 1, "SAME", dtype)(nn.relu(y))
        return nn.relu(x)

    @staticmethod
    def _convolution(channels: int, kernel: int, stride: int, padding: str, dtype: Any) -> nn.Conv:
        return nn.Conv(channels, (kernel, kernel), stride, padding, dtype=dtype, kernel_init=fan_in_normal)


def patches(images: jax.Array, size: int) -> jax.Array:
    """Tiles of s × s pixels, flattened; what does not fill a tile is cut: [B, H, W, C] → [B, h, w, s·s·C]."""
    batch, height, width, channels = images.shape
    h, w = height // size, width // size
    tiles = images[:, : h * size, : w * size].reshape((batch, h, size, w, size, channels))
    return tiles.transpose((0, 1, 3, 2, 4, 5)).reshape((batch, h, w, size * size * channels))


class Core(nn.Module):
    """LSTM over (h(s), h(g), clock, previous action), then the dueling head (App. A2).

    The LSTM's input matrix is kept as one matrix for each part of the concatenated input. The sum is the same,
    but the observation's share is computed once for all goals and the goal's share once for all steps.
    """

    config: NetworkConfig
    actions: int
    horizon: int

    def setup(self) -> None:
        c = self.config
        inputs = 2 * c.features + c.time_units + self.actions + c.lstm
        as_one = nn.initializers.truncated_normal(inputs**-0.5 / TRUNCATED_SPREAD)

        def share(bias: bool = False) -> nn.Dense:
            return nn.Dense(4 * c.lstm, use_bias=bias, kernel_init=as_one)

        self.observation_share, self.goal_share = share(bias=True), share()
        self.clock_share, self.action_share, self.recurrent_share = share(), share(), share()
        self.clock = nn.Dense(c.time_units, kernel_init=fan_in_normal)
        self.value = nn.Dense(1, kernel_init=fan_in_normal)
        self.advantage = nn.Dense(self.actions, use_bias=False, kernel_init=fan_in_normal)
        self.norm = nn.LayerNorm() if c.layer_norm else None

    def step(
        self, lstm: LstmState, observation: jax.Array, goal: jax.Array, clock: jax.Array, previous_action: jax.Array
    ) -> tuple[LstmState, jax.Array]:
        """One step of acting: [N, F], [N, F], int [N], int [N] (−1: none yet) → Q [N, A]."""
        gates = self._of_step(observation, clock, previous_action) + self.goal_share(goal)
        lstm = lstm_cell(lstm, gates + self.recurrent_share(lstm.hidden))
        return lstm, self.q_values(lstm.hidden)

    def unroll(
        self, observations: jax.Array, goals: jax.Array, actions: jax.Array, end: jax.Array | None = None
    ) -> jax.Array:
        """Whole trajectories under G goals each: [B, T, F], [B, G, F], int [B, T] → Q [B, G, T, A].

        Where goals have ends, int [B, G], the clock is as far ahead as the end is before T: it says what time is left.
        """
        length = observations.shape[1]
        previous = jnp.pad(actions[:, :-1], ((0, 0), (1, 0)), constant_values=-1)
        clock = jnp.arange(length)
        if end is None:
            of_step = self._of_step(observations, clock[None], previous)[:, None]
        else:
            ahead = clock + (length - end)[..., None]
            of_step = self._of_step(observations, None, previous)[:, None] + self._of_clock(ahead)
        gates = of_step + self.goal_share(goals)[:, :, None]
        if self.is_initializing():  # nothing to unroll, which would take long to compile
            return self.q_values(self.recurrent_share(jnp.zeros((1, self.config.lstm)))[..., : self.config.lstm])
        kernel = self.recurrent_share.variables["params"]["kernel"]
        unroll = unroll_for(self.config.lstm, self.config.bfloat16)
        hidden = unroll(jnp.moveaxis(gates, 2, 0), kernel)
        return jnp.moveaxis(self.q_values(hidden), 0, 2)

    def q_values(self, hidden: jax.Array) -> jax.Array:
        """Q = ψᵀv + (ψᵀw_a − mean_a' ψᵀw_a') + b: [..., U] → [..., A]."""
        hidden = self.norm(hidden) if self.norm is not None else hidden
        advantage = self.advantage(hidden)
        return self.value(hidden) + advantage - advantage.mean(-1, keepdims=True)

    def _of_step(self, observation: jax.Array, clock: jax.Array | None, previous_action: jax.Array) -> jax.Array:
        of_observation = self.observation_share(observation)
        if clock is not None:
            of_observation = of_observation + self._of_clock(clock)
        return of_observation + self.action_share(jax.nn.one_hot(previous_action, self.actions))

    def _of_clock(self, clock: jax.Array) -> jax.Array:
        angle = 2 * jnp.pi * clock / self.horizon
        return self.clock_share(nn.relu(self.clock(jnp.stack([jnp.sin(angle), jnp.cos(angle)], -1))))


class InverseDynamics(nn.Module):
    """Which action lies between two frames: h before and after, [..., F] twice → logits [..., A]."""

    config: NetworkConfig
    actions: int

    @nn.compact
    def __call__(self, before: jax.Array, after: jax.Array) -> jax.Array:
        both = jnp.concatenate([before, after], axis=-1)
        hidden = nn.relu(nn.Dense(self.config.features, kernel_init=fan_in_normal)(both))
        return nn.Dense(self.actions, kernel_init=fan_in_normal)(hidden)


class Imitator:
    """The torso and the core as pure functions of their parameters {"torso", "core"}."""

    def __init__(self, config: NetworkConfig, image_shape: tuple[int, int, int], actions: int, horizon: int):
        self.config = config
        self.image_shape = image_shape
        self.torso = Torso(config)
        self.core = Core(config, actions, horizon)

    def init(self, key: PRNGKey) -> Params:
        torso_key, core_key = jax.random.split(key)
        torso = self.torso.init(torso_key, jnp.zeros((1, *self.image_shape), jnp.uint8))["params"]
        features = jnp.zeros((1, 2, self.config.features))
        core = self.core.init(core_key, features, features, jnp.zeros((1, 2), jnp.int32), method="unroll")["params"]
        return {"torso": torso, "core": core}

    def calibrate(self, params: Params, images: jax.Array) -> Params:
        """Sets what is not trained but measured, on the world's own images [C, H, W, 3]."""
        if self.config.subtract_mean_image:
            params["torso"]["mean_image"] = jnp.mean(images.astype(jnp.float32), axis=0) / 255
        return params

    def features(self, params: Params, images: UInt8[Array, "*frames H W 3"]) -> Float[Array, "*frames F"]:
        """h of images."""
        return self.torso.apply({"params": params["torso"]}, images)  # type: ignore[return-value]

    def step(self, params: Params, lstm: LstmState, *inputs: jax.Array) -> tuple[LstmState, jax.Array]:
        """See Core.step."""
        return self.core.apply({"params": params["core"]}, lstm, *inputs, method="step")  # type: ignore[return-value]

    def unroll(self, params: Params, *inputs: jax.Array | None) -> jax.Array:
        """See Core.unroll."""
        return self.core.apply({"params": params["core"]}, *inputs, method="unroll")  # type: ignore[return-value]
