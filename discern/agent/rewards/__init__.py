"""How achieving a goal is rewarded: one contract, one module for each way."""

from typing import Protocol

import jax

from discern.agent.rewards.discern import DiscernReward
from discern.agent.rewards.pixels import PixelReward
from discern.config import RewardConfig
from discern.types import Frames, Params, PRNGKey


class Reward(Protocol):
    """A reward with parameters of its own, trained beside the policy; pure functions of arrays."""

    def init(self, key: PRNGKey, features: int) -> Params: ...

    def calibrate(self, params: Params, goal_images: jax.Array) -> Params:
        """Sets what depends on the world's pixels, once, from the first goal buffer [C, H, W, 3]."""

    def reward(self, params: Params, achieved: Frames, goal: Frames) -> jax.Array:
        """In [0, 1], over the frames' common leading axes."""

    def loss(
        self, params: Params, achieved: Frames, goal: Frames, decoys: Frames, is_hindsight: jax.Array
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """Frames [B], [B], [B, K] and bool [B] → a scalar loss and metrics."""


def make_reward(config: RewardConfig) -> Reward:
    """The reward that the config names."""
    if config.kind == "pixels":
        return PixelReward(config.pixel_sigma_scale)
    return DiscernReward(config.embedding, config.inverse_temperature or config.decoys + 1.0, config.sharpness)
