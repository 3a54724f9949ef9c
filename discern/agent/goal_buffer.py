"""The goal buffer: a fixed number of past observations, replaced uniformly or for diversity (App. A3)."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from discern.config import GoalBufferConfig
from discern.types import PRNGKey


class GoalBuffer(NamedTuple):
    """C goals; or, with other leading axes, observations that may become goals."""

    images: jax.Array  # uint8 [C, H, W, 3]
    measures: jax.Array  # float32 [C, D], their scored dimensions, for the oracle alone


class Proposals(NamedTuple):
    """Observations on their way to a goal buffer that is kept elsewhere."""

    seen: GoalBuffer  # [P, …], of which the first `filled` are there
    filled: jax.Array  # int32 []


def propose(key: PRNGKey, eligible: jax.Array, p_replace: float) -> jax.Array:
    """Which of N observations are considered as goals: each eligible [N] one with probability p_replace, bool [N]."""
    return jax.random.bernoulli(key, p_replace, eligible.shape) & eligible


def consider(
    buffer: GoalBuffer, seen: GoalBuffer, proposed: jax.Array, key: PRNGKey, config: GoalBufferConfig
) -> GoalBuffer:
    """The buffer after the proposed [N] of N observations, one after the other."""
    n = proposed.shape[0]
    proposed_first = jnp.argsort(~proposed, stable=True)

    def one(i: jax.Array, buffer: GoalBuffer) -> GoalBuffer:
        which = proposed_first[i]
        observation = jax.tree.map(lambda x: x[which], seen)
        return substitute(buffer, observation, jax.random.fold_in(key, i), config, when=proposed[which])

    # A loop of unknown length makes the host wait for an accelerator; there, as many rounds as are ever needed.
    rounds = proposed.sum() if jax.default_backend() == "cpu" else most_proposed(n, config.p_replace)
    return jax.lax.fori_loop(0, rounds, one, buffer)


def no_proposals(steps: int, like: GoalBuffer, p_replace: float) -> Proposals:
    """Room for as many as that many steps ever propose."""
    places = most_proposed(steps, p_replace)
    return Proposals(jax.tree.map(lambda x: jnp.zeros((places, *x.shape[1:]), x.dtype), like), jnp.zeros((), jnp.int32))


def hand_over(waiting: Proposals, seen: GoalBuffer, proposed: jax.Array) -> Proposals:
    """Puts the proposed [N] of N observations behind those that wait; what finds no room is lost."""
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
    buffer: GoalBuffer, observation: GoalBuffer, key: PRNGKey, config: GoalBufferConfig, when: jax.Array | bool = True
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
    return jax.tree.map(lambda kept, new: kept.at[slot].set(jnp.where(accept, new, kept[slot])), buffer, observation)


def distance_to_rest(buffer: GoalBuffer, image: jax.Array, left_out: jax.Array, config: GoalBufferConfig) -> jax.Array:
    """Pixel-space L2 distance from an image to the entries other than `left_out`: their mean, or the least."""
    difference = (buffer.images.astype(jnp.float32) - image.astype(jnp.float32)) / 255
    distances = jnp.sqrt(jnp.sum(jnp.square(difference), axis=(1, 2, 3)))
    capacity = distances.shape[0]
    others = jnp.arange(capacity) != left_out
    if config.closeness == "nearest":
        return jnp.min(jnp.where(others, distances, jnp.inf))
    return jnp.sum(jnp.where(others, distances, 0.0)) / (capacity - 1)


def draw_decoys(key: PRNGKey, capacity: int, goal_slot: jax.Array, decoys: int) -> jax.Array:
    """K slots for each goal, without replacement and never the goal's own: int [B] → int [B, K].

    Floyd's subset of the capacity − 1 other slots: each draw comes from one slot more than the last, and one
    that was drawn before gives way to the newcomer.
    """
    count = goal_slot.shape[0]
    others = capacity - 1

    def draw(k: jax.Array, chosen: jax.Array) -> jax.Array:
        newcomer = others - decoys + k
        offset = jax.random.randint(jax.random.fold_in(key, k), (count,), 0, newcomer + 1)
        taken = (chosen == offset[:, None]).any(axis=1)
        return chosen.at[:, k].set(jnp.where(taken, newcomer, offset))

    offsets = jax.lax.fori_loop(0, decoys, draw, jnp.full((count, decoys), -1, jnp.int32))
    return (goal_slot[:, None] + 1 + offsets) % capacity
