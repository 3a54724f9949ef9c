"""The goal buffer: a fixed number of past observations, replaced uniformly or for diversity (App. A3)."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Float32, Int, Int32, UInt8

from discern.config import GoalBufferConfig
from discern.types import Array, PRNGKey


class GoalBuffer(NamedTuple):
    """C goals; or, with other leading axes, observations that may become goals."""

    images: UInt8[Array, "... H W 3"]
    measures: Float32[Array, "... D"]  # their scored dimensions, for the oracle alone


class Proposals(NamedTuple):
    """Observations on their way to a goal buffer that is kept elsewhere."""

    seen: GoalBuffer  # [P, …], of which the first `filled` are there
    filled: Int32[Array, ""]


def propose(key: PRNGKey, eligible: Bool[Array, " N"], p_replace: float) -> Bool[Array, " N"]:
    """Which of N observations are considered as goals: each eligible one with probability p_replace."""
    return jax.random.bernoulli(key, p_replace, eligible.shape) & eligible


def consider(
    buffer: GoalBuffer, seen: GoalBuffer, proposed: Bool[Array, " N"], key: PRNGKey, config: GoalBufferConfig
) -> GoalBuffer:
    """The buffer after the proposed of N observations, one after the other."""
    n = proposed.shape[0]
    proposed_first = jnp.argsort(~proposed, stable=True)

    def one(i: Array, buffer: GoalBuffer) -> GoalBuffer:
        which = proposed_first[i]
        observation = jax.tree.map(lambda x: x[which], seen)
        return substitute(buffer, observation, jax.random.fold_in(key, i), config, when=proposed[which])

    # A loop of unknown length makes the host wait for an accelerator; there, as many rounds as are ever needed.
    rounds = proposed.sum() if jax.default_backend() == "cpu" else most_proposed(n, config.p_replace)
    after: GoalBuffer = jax.lax.fori_loop(0, rounds, one, buffer)
    return after


def no_proposals(steps: int, like: GoalBuffer, p_replace: float) -> Proposals:
    """Room for as many as that many steps ever propose."""
    places = most_proposed(steps, p_replace)
    return Proposals(jax.tree.map(lambda x: jnp.zeros((places, *x.shape[1:]), x.dtype), like), jnp.zeros((), jnp.int32))


def hand_over(waiting: Proposals, seen: GoalBuffer, proposed: Bool[Array, " N"]) -> Proposals:
    """Puts the proposed of N observations behind those that wait; what finds no room is lost."""
    nowhere = waiting.seen.images.shape[0]
    place = jnp.where(proposed, waiting.filled + jnp.cumsum(proposed, dtype=jnp.int32) - 1, nowhere)
    kept = jax.tree.map(lambda there, new: there.at[place].set(new, mode="drop"), waiting.seen, seen)
    return Proposals(kept, jnp.minimum(nowhere, waiting.filled + proposed.sum(dtype=jnp.int32)))


def most_proposed(n: int, probability: float) -> int:
    """A count that the number of proposed observations exceeds less often than once in a million calls."""
    mean = n * probability
    term, below, count = math.exp(-mean), math.exp(-mean), 0
    while count < n and 1.0 - below > 1e-6:  # the binomial lies below the Poisson of its mean
        count += 1
        term *= mean / count
        below += term
    return count


def substitute(
    buffer: GoalBuffer,
    observation: GoalBuffer,
    key: PRNGKey,
    config: GoalBufferConfig,
    when: Bool[Array, ""] | bool = True,
) -> GoalBuffer:
    """Puts the one observation in the place of a random entry; the diverse strategy may keep the entry instead."""
    slot_key, anyway_key = jax.random.split(key)
    slot = jax.random.randint(slot_key, (), 0, buffer.images.shape[0])
    accept = jnp.asarray(when)
    if config.strategy == "diverse":
        removed_is_closer = distance_to_rest(buffer, buffer.images[slot], slot, config) < distance_to_rest(
            buffer, observation.images, slot, config
        )
        accept &= removed_is_closer | jax.random.bernoulli(anyway_key, config.p_add_non_diverse)
    after: GoalBuffer = jax.tree.map(
        lambda kept, new: kept.at[slot].set(jnp.where(accept, new, kept[slot])), buffer, observation
    )
    return after


def distance_to_rest(
    buffer: GoalBuffer, image: UInt8[Array, "H W 3"], left_out: Int[Array, ""] | int, config: GoalBufferConfig
) -> Float[Array, ""]:
    """Pixel-space L2 distance from an image to the entries other than `left_out`: their mean, or the least."""
    difference = (buffer.images.astype(jnp.float32) - image.astype(jnp.float32)) / 255
    distances = jnp.sqrt(jnp.sum(jnp.square(difference), axis=(1, 2, 3)))
    capacity = distances.shape[0]
    others = jnp.arange(capacity) != left_out
    if config.closeness == "nearest":
        return jnp.min(jnp.where(others, distances, jnp.inf))
    return jnp.sum(jnp.where(others, distances, 0.0)) / (capacity - 1)


def draw_decoys(key: PRNGKey, capacity: int, goal_slot: Int[Array, " B"], decoys: int) -> Int[Array, "B K"]:
    """K slots for each goal, without replacement and never the goal's own.

    Floyd's subset of the capacity − 1 other slots: each draw comes from one slot more than the last, and one
    that was drawn before gives way to the newcomer. All draws at once, since a loop of them is many small launches.
    """
    first = capacity - 1 - decoys
    k = jnp.arange(decoys)
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, k)

    def draw(key: PRNGKey, newcomer: Array) -> Array:
        return jax.random.randint(key, goal_slot.shape, 0, newcomer + 1)

    offsets: Array = jax.vmap(draw, out_axes=1)(keys, first + k)
    given_way = ((offsets[:, :, None] == offsets[:, None]) & (k[:, None] > k)).any(-1)
    # a draw of an earlier newcomer gives way if that newcomer is there, for which another may have had to give way …
    whose = jnp.where((offsets >= first) & (offsets < first + k), offsets - first, k)
    for _ in range(decoys.bit_length()):
        given_way |= jnp.take_along_axis(given_way, whose, axis=1)
        whose = jnp.take_along_axis(whose, whose, axis=1)
    return (goal_slot[:, None] + 1 + jnp.where(given_way, first + k, offsets)) % capacity
