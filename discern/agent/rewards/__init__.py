"""How achieving a goal is rewarded: one contract, one module for each way."""

from typing import Protocol, runtime_checkable

import optax
from jaxtyping import Bool, Float, UInt8

from discern.agent.rewards.autoencoder import AutoencoderReward
from discern.agent.rewards.discern import DiscernReward, LogLikelihoodReward
from discern.agent.rewards.oracle import OracleReward
from discern.agent.rewards.pairs import PairReward
from discern.agent.rewards.pixels import PixelReward
from discern.agent.rewards.wgan import WganReward
from discern.config import Config
from discern.envs.base import Dimension
from discern.types import Array, Frames, Metrics, Params, PRNGKey


@runtime_checkable
class Reward(Protocol):
    """A reward with parameters of its own, trained beside the policy; pure functions of arrays."""

    @property
    def hindsight(self) -> float:
        """What a goal earns that was achieved by its choice."""

    @property
    def optimiser(self) -> optax.GradientTransformation | None:
        """The reward's own optimiser; None: the policy's."""

    def init(self, key: PRNGKey, features: int, image_shape: tuple[int, int, int]) -> Params: ...

    def calibrate(self, params: Params, goal_images: UInt8[Array, "C H W 3"]) -> Params:
        """Sets what depends on the world's pixels, once, from the first goal buffer."""

    def reward(self, params: Params, achieved: Frames, goal: Frames, decoys: Frames) -> Float[Array, "..."]:
        """Over the common leading axes of achieved and goal frames [...]; decoys are [..., K] or shared, [1, K]."""

    def loss(
        self, params: Params, achieved: Frames, goal: Frames, decoys: Frames, is_hindsight: Bool[Array, " B"]
    ) -> tuple[Float[Array, ""], Metrics]:
        """Frames [B], [B] and [B, K] (or [1, K]) → a loss and metrics."""


def make_reward(settings: Config, dimensions: tuple[Dimension, ...] = ()) -> Reward:
    """The reward that the config names, in a world with these scored dimensions."""
    config = settings.reward
    if config.kind == "oracle":
        return OracleReward(dimensions)
    if config.kind in ("temporal", "twins", "temporal_twins"):
        return PairReward(
            embedding=config.embedding,
            inverse_temperature=config.inverse_temperature or 10.0,
            hidden=config.hidden,
            mean_gap=config.pair_gap,
            temporal=config.kind != "twins",
            twins=settings.actor.twins if "twins" in config.kind else None,
        )
    if config.kind == "pixels":
        return PixelReward(config.pixel_sigma_scale)
    if config.kind == "autoencoder":
        return AutoencoderReward(config.embedding)
    if config.kind == "wgan":
        return WganReward(config.gradient_penalty)
    teacher = LogLikelihoodReward if config.kind == "log_likelihood" else DiscernReward
    return teacher(
        embedding=config.embedding,
        inverse_temperature=config.inverse_temperature or config.decoys + 1.0,
        hidden=config.hidden,
        fewest_decoys=config.decoys if config.decoy_pool else 0,
    )
