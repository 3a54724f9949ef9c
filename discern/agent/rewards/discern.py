"""The teacher: an embedding in which the achieved frame must be closer to its goal than to decoys (eq. 4, 5)."""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, UInt8

from discern.agent.networks import fan_in_normal
from discern.types import Array, Frames, Metrics, Params, PRNGKey


def embed(params: Params, features: Float[Array, "*frames F"]) -> Float[Array, "*frames embedding"]:
    """ξ: one layer of tanh units, L2-normalised, behind a hidden layer where there is one."""
    if "hidden_kernel" in params:
        features = jax.nn.relu(features @ params["hidden_kernel"] + params["hidden_bias"])
    units = jnp.tanh(features @ params["kernel"] + params["bias"])
    return units * jax.lax.rsqrt(jnp.sum(jnp.square(units), axis=-1, keepdims=True) + 1e-12)


def similarity(
    achieved: Float[Array, "*#frames embedding"], goal: Float[Array, "*#frames embedding"]
) -> Float[Array, "*frames"]:
    """ℓ_g = ξ(h(s_T))ᵀ ξ(h(g)) (eq. 4)."""
    return jnp.sum(achieved * goal, axis=-1)


def compare(
    params: Params, achieved: Frames, goal: Frames, decoys: Frames
) -> tuple[Float[Array, "*frames"], Float[Array, "*#frames K"]]:
    """Similarities of the achieved frames to their goals and to decoys."""
    here = embed(params, achieved.features)
    of_goal = similarity(here, embed(params, goal.features))
    return of_goal, similarity(here[..., None, :], embed(params, decoys.features))


def goal_log_likelihood(
    goal: Float[Array, ""],
    decoys: Float[Array, " K"],
    inverse_temperature: float,
    weight: Float[Array, ""] | float = 1.0,
) -> Float[Array, ""]:
    """log q̂ of the goal among the goal and its decoys, from similarities (eq. 5).

    Each decoy counts for `weight` decoys.
    """
    logits = jnp.append(inverse_temperature * decoys + jnp.log(weight), inverse_temperature * goal)
    return nn.log_softmax(logits)[-1]


def decoy_curriculum(
    beaten: Float[Array, " B"], counted: Float[Array, " B"], fewest: int, most: int
) -> Float[Array, ""]:
    """How many decoys half of the goals are found among: `fewest`, doubled while that holds, up to `most`.

    `beaten` is the share of decoys that are less alike than the goal is; `counted` says which goals count.
    """
    counts = fewest * 2.0 ** jnp.arange((most // fewest).bit_length())
    found = jnp.sum(beaten ** counts[:, None] * counted, axis=1) >= 0.5 * counted.sum()
    return jnp.maximum(fewest, jnp.max(jnp.where(found, counts, 0.0)))  # what is found among more is among fewer


@dataclass(frozen=True)
class DiscernReward:
    """max(0, ℓ_g), with ξ trained to tell the goal from K decoys.

    Where `fewest_decoys` is not 0, the decoys are a pool, of which as many count as the teacher is ready for; and the
    more it is ready for, the less hindsight goals count, which are told apart by what the agent cannot change as well.
    """

    embedding: int
    inverse_temperature: float
    hidden: int | None = None
    fewest_decoys: int = 0
    optimiser: None = None
    hindsight: float = 1.0

    def init(self, key: PRNGKey, features: int, image_shape: tuple[int, int, int]) -> Params:
        del image_shape
        kernel = fan_in_normal(key, (self.hidden or features, self.embedding), jnp.float32)
        params = {"kernel": kernel, "bias": jnp.zeros(self.embedding)}
        if self.hidden:
            hidden_kernel = fan_in_normal(jax.random.fold_in(key, 1), (features, self.hidden), jnp.float32)
            params |= {"hidden_kernel": hidden_kernel, "hidden_bias": jnp.zeros(self.hidden)}
        return params

    def calibrate(self, params: Params, goal_images: UInt8[Array, "C H W 3"]) -> Params:
        del goal_images
        return params

    def reward(self, params: Params, achieved: Frames, goal: Frames, decoys: Frames) -> Float[Array, "..."]:
        del decoys
        return jnp.maximum(0.0, similarity(embed(params, achieved.features), embed(params, goal.features)))

    def loss(
        self,
        params: Params,
        achieved: Frames,
        goal: Frames,
        decoys: Frames,
        is_hindsight: Bool[Array, " B"],
        count: Float[Array, ""] | None = None,
    ) -> tuple[Float[Array, ""], Metrics]:
        """−log q̂, averaged; the accuracy that announces learning is the one on intended goals.

        `count` is how many decoys a pool counts for, where that is known.
        """
        goal_similarity, decoy_similarity = compare(params, achieved, goal, decoys)
        beaten = (goal_similarity[:, None] > decoy_similarity).mean(-1)
        intended = (~is_hindsight).astype(jnp.float32)
        drawn = decoy_similarity.shape[-1]
        ready, right = jnp.float32(drawn), jnp.floor(beaten)
        if self.fewest_decoys:
            ready, right = decoy_curriculum(beaten, intended, self.fewest_decoys, drawn), beaten**self.fewest_decoys
        count = ready if count is None else count
        log_likelihood = jax.vmap(goal_log_likelihood, (0, 0, None, None))(
            goal_similarity, decoy_similarity, self.inverse_temperature, count / drawn
        )
        weight = jnp.where(is_hindsight, self.fewest_decoys / count, 1.0) if self.fewest_decoys else 1.0
        return -(weight * log_likelihood).mean(), {
            "teacher_accuracy": jnp.sum(right * intended) / jnp.maximum(1.0, intended.sum()),
            "teacher_loss": -log_likelihood.mean(),
            "decoys": count,
        }


@dataclass(frozen=True)
class LogLikelihoodReward(DiscernReward):
    """log q̂ itself, which the objective suggests and the paper found noisier (sec. 4); 0 where the goal is certain."""

    hindsight: float = 0.0

    def reward(self, params: Params, achieved: Frames, goal: Frames, decoys: Frames) -> Float[Array, "..."]:
        of_goal, of_decoys = compare(params, achieved, goal, decoys)
        of_decoys = jnp.broadcast_to(of_decoys, (*of_goal.shape, of_decoys.shape[-1]))
        likelihood = jnp.vectorize(goal_log_likelihood, excluded=(2,), signature="(),(k)->()")
        found: Array = likelihood(of_goal, of_decoys, self.inverse_temperature)
        return found
