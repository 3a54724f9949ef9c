"""The conditioned autoencoder: DISCERN's embedding, learned by reconstruction instead of discrimination (sec. 6)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, UInt8

from discern.agent.networks import fan_in_normal
from discern.agent.rewards.discern import embed, similarity
from discern.types import Array, Frames, Metrics, Params, PRNGKey


def reconstruction_error(params: Params, features: Float[Array, "*frames F"]) -> Float[Array, "*frames"]:
    """‖h − ξ⁻¹(ξ(h))‖², with a linear ξ⁻¹."""
    decoder = params["decoder"]
    back = embed(params["encoder"], features) @ decoder["kernel"] + decoder["bias"]
    return jnp.sum(jnp.square(features - back), axis=-1)


@dataclass(frozen=True)
class AutoencoderReward:
    """max(0, ℓ_g), with ξ trained to keep what h says of the achieved state, of its goal and of the decoys."""

    embedding: int
    optimiser: None = None
    hindsight: float = 1.0

    def init(self, key: PRNGKey, features: int, image_shape: tuple[int, int, int]) -> Params:
        del image_shape
        encoder_key, decoder_key = jax.random.split(key)
        return {
            "encoder": _dense(encoder_key, features, self.embedding),
            "decoder": _dense(decoder_key, self.embedding, features),
        }

    def calibrate(self, params: Params, goal_images: UInt8[Array, "C H W 3"]) -> Params:
        del goal_images
        return params

    def reward(self, params: Params, achieved: Frames, goal: Frames, decoys: Frames) -> Float[Array, "..."]:
        del decoys
        encoder = params["encoder"]
        return jnp.maximum(0.0, similarity(embed(encoder, achieved.features), embed(encoder, goal.features)))

    def loss(
        self, params: Params, achieved: Frames, goal: Frames, decoys: Frames, is_hindsight: Bool[Array, " B"]
    ) -> tuple[Float[Array, ""], Metrics]:
        del is_hindsight
        width = achieved.features.shape[-1]
        seen = [frames.features.reshape((-1, width)) for frames in (achieved, goal, decoys)]
        loss = reconstruction_error(params, jnp.concatenate(seen)).mean()
        return loss, {"teacher_loss": loss}


def _dense(key: PRNGKey, inputs: int, outputs: int) -> Params:
    return {"kernel": fan_in_normal(key, (inputs, outputs), jnp.float32), "bias": jnp.zeros(outputs)}
