"""Teachers that learn from pairs of frames of one trajectory, and see whatever changes along it.

Temporal pairs (time-contrastive learning; van den Oord et al. 2018, Eysenbach et al. 2022): a frame must be told, among
frames of other trajectories, which one came soon after it. Twins: the frames to tell it from are those of trajectories
that began in the same state with the same random numbers and differ in their actions alone, at that same moment; what
nobody can change is the same in all of them and tells nothing.
"""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp

from discern.agent.rewards.discern import DiscernReward, embed, similarity
from discern.types import Params, PRNGKey

PAIRS = 4  # of each trajectory


def draw_pairs(key: PRNGKey, trajectories: int, frames: int, mean_gap: float) -> tuple[jax.Array, jax.Array]:
    """Frames t and t + k, k geometric with the given mean, as far as the trajectory goes: int [B, P] twice."""
    gap_key, first_key = jax.random.split(key)
    gap = jnp.minimum(jax.random.geometric(gap_key, 1.0 / mean_gap, (trajectories, PAIRS)), frames - 1)
    first = jnp.floor(jax.random.uniform(first_key, gap.shape) * (frames - gap)).astype(jnp.int32)
    return first, first + gap


def temporal_similarities(embedded: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """Of each first frame to the second frames of other trajectories: [B, T+1, E], int [B, P] twice → [BP, BP].

    −∞ stands for those of its own trajectory, which are no decoys.
    """
    count, pairs = first.shape
    before, after = (jnp.take_along_axis(embedded, at[..., None], axis=1) for at in (first, second))
    similar = jnp.einsum("ipe,jqe->ipjq", before, after)
    own = jnp.eye(count, dtype=bool)[:, None, :, None]
    return jnp.where(own, -jnp.inf, similar).reshape((count * pairs, count * pairs))


def twin_similarities(embedded: jax.Array, first: jax.Array, second: jax.Array, twins: int) -> jax.Array:
    """Of each first frame to what each of its twins shows at the time of the second: → [BP, twins], −∞ for itself."""
    count, frames, width = embedded.shape
    groups = embedded.reshape((count // twins, twins, frames, width))
    before = jnp.take_along_axis(embedded, first[..., None], axis=1).reshape((count // twins, twins, -1, width))
    at = second.reshape((count // twins, twins, -1))
    after = jax.vmap(lambda group, at: group[:, at])(groups, at)  # [groups, of twin j, for twin i, P, E]
    similar = jnp.einsum("nipe,njipe->nipj", before, after)
    return jnp.where(jnp.eye(twins, dtype=bool)[:, None], -jnp.inf, similar).reshape((-1, twins))


@dataclass(frozen=True)
class PairReward(DiscernReward):
    """max(0, ξ(h(s))ᵀ ξ(h(g))), with ξ and h trained on pairs; decoys are other trajectories', a group's, or both."""

    mean_gap: float = 3.0
    temporal: bool = True
    twins: int | None = None

    def pair_loss(self, params: Params, observed: jax.Array, key: PRNGKey) -> tuple[jax.Array, dict[str, jax.Array]]:
        """InfoNCE over the pairs of trajectories with features [B, T+1, F], whole groups of twins side by side."""
        count, frames = observed.shape[:2]
        embedded = embed(params, observed)
        first, second = draw_pairs(key, count, frames, self.mean_gap)
        similar = self.similarities(embedded, first, second)
        log_likelihood = nn.log_softmax(self.inverse_temperature * similar)
        loss = -log_likelihood[:, 0].mean()
        return loss, {"teacher_loss": loss, "teacher_accuracy": (similar.argmax(-1) == 0).mean()}

    def similarities(self, embedded: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
        """Of each first frame to its second, then to its decoys: [B, T+1, E], int [B, P] twice → [BP, 1 + decoys]."""
        own = similarity(*(jnp.take_along_axis(embedded, at[..., None], axis=1) for at in (first, second)))
        columns = [own.reshape((-1, 1))]
        if self.temporal:
            columns.append(temporal_similarities(embedded, first, second))
        if self.twins is not None:
            columns.append(twin_similarities(embedded, first, second, self.twins))
        return jnp.concatenate(columns, axis=-1)
