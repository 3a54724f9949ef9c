"""The oracle: the true distance in the scored dimensions, which no network sees; the ceiling of any learned reward."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, UInt8

from discern.envs.base import Dimension
from discern.types import Array, Frames, Metrics, Params, PRNGKey, UserError

ALONE, TOGETHER = 0.12, 0.15  # widths, in ranges, of a bell for each dimension and of one for all of them


def distances(
    achieved: Float[Array, "*#frames D"], goal: Float[Array, "*#frames D"], dimensions: tuple[Dimension, ...]
) -> Float[Array, "*frames D"]:
    """How far each dimension is from the goal's, in ranges; a dimension that wraps goes the shorter way."""
    span = np.array([d.high - d.low for d in dimensions], np.float32)
    wraps = np.array([d.wraps for d in dimensions])
    straight = jnp.abs(achieved - goal) / span
    return jnp.where(wraps, jnp.abs((straight + 0.5) % 1.0 - 0.5), straight)


def closeness(distance: Float[Array, "*frames D"]) -> Float[Array, "*frames"]:
    """½ mean_d exp(−(d / 0.12)²) + ½ exp(−Σ_d (d / 0.15)²); 0 where nothing could be measured."""
    each = jnp.exp(-jnp.square(distance / ALONE)).mean(-1)
    whole = jnp.exp(-jnp.square(distance / TOGETHER).sum(-1))
    return jnp.nan_to_num(0.5 * (each + whole))


@dataclass(frozen=True)
class OracleReward:
    """`closeness` of what was achieved to the goal; nothing is learned, and of an image alone it says 0."""

    dimensions: tuple[Dimension, ...]
    optimiser: None = None
    hindsight: float = 1.0

    def __post_init__(self) -> None:
        if not self.dimensions:
            raise UserError("--reward.kind oracle needs a world with scored dimensions")

    def init(self, key: PRNGKey, features: int, image_shape: tuple[int, int, int]) -> Params:
        del key, features, image_shape
        return {}

    def calibrate(self, params: Params, goal_images: UInt8[Array, "C H W 3"]) -> Params:
        del goal_images
        return params

    def reward(self, params: Params, achieved: Frames, goal: Frames, decoys: Frames) -> Float[Array, "..."]:
        del params, decoys
        if achieved.measures is None or goal.measures is None:
            return jnp.zeros(jnp.broadcast_shapes(achieved.features.shape, goal.features.shape)[:-1])
        return closeness(distances(achieved.measures, goal.measures, self.dimensions))

    def loss(
        self, params: Params, achieved: Frames, goal: Frames, decoys: Frames, is_hindsight: Bool[Array, " B"]
    ) -> tuple[Float[Array, ""], Metrics]:
        del params, achieved, goal, decoys, is_hindsight
        return jnp.zeros(()), {}
