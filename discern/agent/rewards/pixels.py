"""The pixel-distance baseline: exp(−‖s − g‖² / σ_pixel)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, UInt8

from discern.types import Array, Frames, Metrics, Params, PRNGKey


def squared_distance(
    left: UInt8[Array, "*#frames H W 3"], right: UInt8[Array, "*#frames H W 3"]
) -> Float[Array, "*frames"]:
    """‖s − g‖² of images scaled to [0, 1]."""
    difference = (left.astype(jnp.float32) - right.astype(jnp.float32)) / 255
    return jnp.sum(jnp.square(difference), axis=(-3, -2, -1))


@dataclass(frozen=True)
class PixelReward:
    """σ_pixel is the median squared distance of two goals of the first buffer, times a factor; nothing is learned."""

    sigma_scale: float = 1.0
    optimiser: None = None
    hindsight: float = 1.0

    def init(self, key: PRNGKey, features: int, image_shape: tuple[int, int, int]) -> Params:
        del key, features, image_shape
        return {"sigma": jnp.ones(())}

    def calibrate(self, params: Params, goal_images: UInt8[Array, "C H W 3"]) -> Params:
        del params
        half = goal_images.shape[0] // 2
        pairs = squared_distance(goal_images[:half], goal_images[half : 2 * half])
        return {"sigma": self.sigma_scale * jnp.median(pairs)}

    def reward(self, params: Params, achieved: Frames, goal: Frames, decoys: Frames) -> Float[Array, "..."]:
        del decoys
        sigma = jax.lax.stop_gradient(params["sigma"])
        return jnp.exp(-squared_distance(achieved.pixels, goal.pixels) / sigma)

    def loss(
        self, params: Params, achieved: Frames, goal: Frames, decoys: Frames, is_hindsight: Bool[Array, " B"]
    ) -> tuple[Float[Array, ""], Metrics]:
        del params, achieved, goal, decoys, is_hindsight
        return jnp.zeros(()), {}
