"""The conditioned WGAN: a critic that tells pairs (goal, goal) from pairs (achieved, goal), from pixels (sec. 6)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Bool, Float, UInt8

from discern.agent.networks import fan_in_normal
from discern.types import Array, Frames, Metrics, Params, PRNGKey


class Critic(nn.Module):
    """A word on each pair of images in [0, 1] on six channels."""

    @nn.compact
    def __call__(self, pair: Float[Array, "B H W 6"]) -> Float[Array, " B"]:
        x = pair
        for channels in (32, 64, 64):
            x = nn.Conv(channels, (4, 4), 2, "SAME", kernel_init=fan_in_normal)(x)
            x = nn.leaky_relu(x, 0.2)
        return nn.Dense(1, kernel_init=fan_in_normal)(x.reshape((x.shape[0], -1)))[:, 0]


def wasserstein(
    critic: Callable[[Array], Array],
    real: Float[Array, " B *pair"],
    fake: Float[Array, " B *pair"],
    share: Float[Array, " B"],
    penalty: float,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """E D(fake) − E D(real) + penalty · E (‖∇D(x̂)‖ − 1)², x̂ a share of the way from real to fake; and the first
    two terms alone. `critic` maps one pair to a number."""
    gap = jax.vmap(critic)(fake).mean() - jax.vmap(critic)(real).mean()

    def excess(real: Array, fake: Array, share: Array) -> Array:
        gradient = jax.grad(critic)(real + share * (fake - real))
        return jnp.square(jnp.sqrt(jnp.sum(jnp.square(gradient)) + 1e-12) - 1.0)

    return gap + penalty * jax.vmap(excess)(real, fake, share).mean(), gap


@dataclass(frozen=True)
class WganReward:
    """The critic's word on (achieved, goal), as it is; it has an optimiser of its own."""

    penalty: float = 10.0
    hindsight: float = 1.0

    @property
    def optimiser(self) -> optax.GradientTransformation:
        return optax.adam(1e-4, b1=0.5, b2=0.9)

    def init(self, key: PRNGKey, features: int, image_shape: tuple[int, int, int]) -> Params:
        del features
        return Critic().init(key, jnp.zeros((1, *image_shape[:2], 6)))["params"]

    def calibrate(self, params: Params, goal_images: UInt8[Array, "C H W 3"]) -> Params:
        del goal_images
        return params

    def reward(self, params: Params, achieved: Frames, goal: Frames, decoys: Frames) -> Float[Array, "..."]:
        del decoys
        pairs = pair(achieved.pixels, goal.pixels)
        lead = pairs.shape[:-3]
        return self._critic(params, pairs.reshape((-1, *pairs.shape[-3:]))).reshape(lead)

    def loss(
        self, params: Params, achieved: Frames, goal: Frames, decoys: Frames, is_hindsight: Bool[Array, " B"]
    ) -> tuple[Float[Array, ""], Metrics]:
        del decoys, is_hindsight
        real, fake = pair(goal.pixels, goal.pixels), pair(achieved.pixels, goal.pixels)
        count = real.shape[0]
        share = (jnp.arange(count) + 0.5) / count  # stratified: which trajectory gets which share is random already
        one = partial(self._one, params)
        loss, gap = wasserstein(one, real, fake, share, self.penalty)
        return loss, {"teacher_loss": loss, "wasserstein_estimate": -gap}

    def _critic(self, params: Params, pairs: Float[Array, "B H W 6"]) -> Float[Array, " B"]:
        return Critic().apply({"params": params}, pairs)  # type: ignore[return-value]

    def _one(self, params: Params, single: Float[Array, "H W 6"]) -> Float[Array, ""]:
        return self._critic(params, single[None])[0]


def pair(left: UInt8[Array, "*#frames H W 3"], right: UInt8[Array, "*#frames H W 3"]) -> Float[Array, "*frames H W 6"]:
    """Two images on six channels, in [0, 1]; leading axes broadcast."""
    shape = jnp.broadcast_shapes(left.shape, right.shape)
    both = [jnp.broadcast_to(image, shape).astype(jnp.float32) / 255 for image in (left, right)]
    return jnp.concatenate(both, axis=-1)
