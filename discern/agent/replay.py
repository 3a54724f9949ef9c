"""A device-resident ring of whole trajectories that actors write into, frame by frame, without copies.

Each environment owns a slot that it fills; a whole trajectory enters the queue and pushes out the oldest one,
whose slot the environment takes over. An unfinished trajectory is never in the queue, so it is never sampled.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Int, Int32

from discern.agent.goal_buffer import GoalBuffer, Proposals
from discern.machine import available_memory_bytes, memory_bytes
from discern.types import Array, PRNGKey, Trajectories, UserError


class Replay(NamedTuple):
    stored: Trajectories  # leading axis capacity + environments
    queue: Int32[Array, " capacity"]  # slots of whole trajectories, a ring
    head: Int32[Array, ""]  # where in the queue the next one goes
    filled: Int32[Array, ""]


class Memory(NamedTuple):
    """What actors write and the learner reads."""

    replay: Replay
    goals: GoalBuffer
    proposals: Proposals | None = None  # where another process decides what becomes a goal


def empty_replay(
    capacity: int, environments: int, horizon: int, image_shape: tuple[int, int, int], dimensions: int = 0
) -> Replay:
    """Slots 0 … capacity − 1 wait in the queue; slot capacity + i is environment i's first."""
    slots = capacity + environments
    stored = Trajectories(
        observations=jnp.zeros((slots, horizon + 1, *image_shape), jnp.uint8),
        actions=jnp.zeros((slots, horizon), jnp.int32),
        goal=jnp.zeros((slots, *image_shape), jnp.uint8),
        goal_slot=jnp.zeros(slots, jnp.int32),
        controllable=jnp.zeros(slots, bool),
        measures=jnp.zeros((slots, horizon + 1, dimensions)),
        goal_measures=jnp.zeros((slots, dimensions)),
    )
    return Replay(stored, jnp.arange(capacity, dtype=jnp.int32), jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))


def refuse_if_too_large(capacity: int, environments: int, horizon: int, image_shape: tuple[int, int, int]) -> None:
    """A clear refusal before the device runs out of memory."""
    wanted = replay_bytes(capacity, environments, horizon, image_shape)
    device = jax.devices()[0]
    of_device = (device.memory_stats() or {}).get("bytes_limit")
    free = None if of_device else available_memory_bytes()  # others use main memory too
    there = of_device or free or memory_bytes()
    if there and wanted > 0.8 * there:
        fits = int(capacity * 0.8 * there / wanted) // 8 * 8  # whole groups of the presets' twins
        raise UserError(
            f"a replay of {capacity:,} trajectories takes {wanted / 2**30:.1f} GiB and {device.platform} has "
            f"{there / 2**30:.1f}{' free' if free else ''}: set --replay-capacity to {fits} or less"
        )


def replay_bytes(capacity: int, environments: int, horizon: int, image_shape: tuple[int, int, int]) -> int:
    """What `empty_replay` takes on the device."""
    shapes = jax.eval_shape(lambda: empty_replay(capacity, environments, horizon, image_shape))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))


def write_observation(
    replay: Replay, slot: Int[Array, " N"], clock: Int[Array, " N"], seen: GoalBuffer, controllable: Bool[Array, " N"]
) -> Replay:
    """Frame `clock` of the trajectories in these slots, and whether the world was controllable there."""
    stored = replay.stored
    stored = stored._replace(
        observations=stored.observations.at[slot, clock].set(seen.images, mode="drop", unique_indices=True),
        measures=stored.measures.at[slot, clock].set(seen.measures, mode="drop", unique_indices=True),
        controllable=stored.controllable.at[slot].set(controllable, mode="drop", unique_indices=True),
    )
    return replay._replace(stored=stored)


def write_action(replay: Replay, slot: Int[Array, " N"], clock: Int[Array, " N"], actions: Int[Array, " N"]) -> Replay:
    """Action `clock` of the trajectories in these slots."""
    stored = replay.stored.actions.at[slot, clock].set(actions, mode="drop", unique_indices=True)
    return replay._replace(stored=replay.stored._replace(actions=stored))


def commit(replay: Replay, slot: Int[Array, " N"], whole: Bool[Array, " N"]) -> tuple[Replay, Int[Array, " N"]]:
    """Puts the whole trajectories into the queue; their environments get the oldest slots instead."""
    capacity = replay.queue.shape[0]
    count = whole.sum(dtype=jnp.int32)
    place = (replay.head + jnp.cumsum(whole, dtype=jnp.int32) - 1) % capacity
    freed = replay.queue[place]
    queue = replay.queue.at[jnp.where(whole, place, capacity)].set(slot, mode="drop")
    replay = replay._replace(
        queue=queue, head=(replay.head + count) % capacity, filled=jnp.minimum(replay.filled + count, capacity)
    )
    return replay, jnp.where(whole, freed, slot)


def begin(
    replay: Replay,
    slot: Int[Array, " N"],
    starts: Bool[Array, " N"],
    seen: GoalBuffer,
    goal: GoalBuffer,
    goal_slot: Int[Array, " N"],
) -> Replay:
    """Where `starts`, the frame is the first of a new trajectory towards the goal."""
    stored = replay.stored
    nowhere = stored.goal_slot.shape[0]
    into = jnp.where(starts, slot, nowhere)
    return replay._replace(
        stored=stored._replace(
            observations=stored.observations.at[into, 0].set(seen.images, mode="drop"),
            measures=stored.measures.at[into, 0].set(seen.measures, mode="drop"),
            goal=stored.goal.at[into].set(goal.images, mode="drop"),
            goal_measures=stored.goal_measures.at[into].set(goal.measures, mode="drop"),
            goal_slot=stored.goal_slot.at[into].set(goal_slot, mode="drop"),
        )
    )


def sample(replay: Replay, key: PRNGKey, batch: int, twins: int = 1) -> Trajectories:
    """B whole trajectories, uniformly, with replacement, in whole groups; at least one group must be there.

    The members of a group are neighbours in the queue, because they finish together.
    """
    capacity = replay.queue.shape[0]
    age = jax.random.randint(key, (batch // twins,), 0, replay.filled // twins)
    place = replay.head - twins * (1 + age)
    slot = replay.queue[(place[:, None] + jnp.arange(twins)).reshape(-1) % capacity]
    sampled: Trajectories = jax.tree.map(lambda x: x[slot], replay.stored)
    return sampled
