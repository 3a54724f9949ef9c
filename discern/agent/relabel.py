"""Under which goals a batch of trajectories is replayed: the paper's draw, or several goals for each."""

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float32, Int, UInt8

from discern.agent.goal_buffer import GoalBuffer, draw_decoys
from discern.agent.replay import Memory, sample
from discern.config import Config, RelabelConfig, RewardConfig
from discern.types import Array, Batch, PRNGKey, Trajectories


def draw(memory: Memory, key: PRNGKey, config: Config, shards: int = 1) -> Batch:
    """A batch from the replay under goals drawn afresh; in several shards, each a small batch: axes [shards, B, …]."""

    def one(key: PRNGKey) -> Batch:
        sample_key, relabel_key = jax.random.split(key)
        trajectories = sample(memory.replay, sample_key, config.learner.batch // shards, config.actor.twins)
        return relabel(relabel_key, trajectories, memory.goals, config.relabel, config.reward)

    return one(key) if shards == 1 else jax.vmap(one)(jax.random.split(key, shards))


def relabel(
    key: PRNGKey, trajectories: Trajectories, buffer: GoalBuffer, config: RelabelConfig, reward: RewardConfig
) -> Batch:
    """Draws the goals of the policy's and of the teacher's update, afresh at each replay.

    The teacher always learns from the paper's draw: the intended goal, or with probability p_hindsight one of
    the trajectory's last frames; and only from trajectories at whose end the world was controllable, if there are any.
    The policy learns from one goal for each kind in `config.goals`, each with an end of its own. An intended goal was
    meant for frame T, so there the teacher compares it with frame T whatever the end.
    """
    batch, frames = trajectories.observations.shape[:2]
    last = frames - 1
    capacity = buffer.images.shape[0]
    kinds = config.goals
    randoms = kinds.count("random")
    draw_key, hindsight_key, random_key, other_key, decoy_key = jax.random.split(key, 5)

    drawn_end, end = draw_ends(jax.random.fold_in(key, 6), batch, last, config)
    own_row = jnp.arange(batch) * frames
    sooner = last - jax.random.randint(
        hindsight_key, (batch, 1 + kinds.count("hindsight")), frames - config.hindsight_window, frames
    )
    hindsight_ends = [drawn_end] + [end[:, i] for i, kind in enumerate(kinds) if kind == "hindsight"]
    hindsight_rows = own_row[:, None] + jnp.maximum(0, jnp.stack(hindsight_ends, axis=1) - sooner)
    extra_row = batch * frames + jnp.arange(batch)[:, None] * (1 + randoms) + jnp.arange(1 + randoms)
    other_rows = other_final_rows(other_key, batch, frames, kinds.count("other"))
    drawn_is_hindsight = jax.random.bernoulli(draw_key, config.p_hindsight, (batch,))
    drawn_row = jnp.where(drawn_is_hindsight, hindsight_rows[:, 0], extra_row[:, 0])

    supply = {
        "draw": iter([drawn_row] * kinds.count("draw")),
        "random": iter(extra_row[:, 1:].T),
        "hindsight": iter(hindsight_rows[:, 1:].T),
        "other": iter(other_rows.T),
    }
    certain = {"draw": drawn_is_hindsight, "hindsight": jnp.ones(batch, bool)}
    never = jnp.zeros(batch, bool)
    random_slots = jax.random.randint(random_key, (batch, randoms), 0, capacity)
    random_goals = jax.tree.map(lambda x: x[random_slots], buffer)
    taught = controllable_only(trajectories.controllable)
    own_slots = trajectories.goal_slot[:1] if reward.decoy_pool else trajectories.goal_slot[taught]
    decoy_slots = draw_decoys(decoy_key, capacity, own_slots, reward.decoy_pool or reward.decoys)
    return Batch(
        trajectories=trajectories,
        extra_goals=jnp.concatenate([trajectories.goal[:, None], random_goals.images], axis=1),
        extra_measures=jnp.concatenate([trajectories.goal_measures[:, None], random_goals.measures], axis=1),
        goal_row=jnp.stack([next(supply[kind]) for kind in kinds], axis=1),
        is_hindsight=jnp.stack([certain.get(kind, never) for kind in kinds], axis=1),
        end=end,
        achieved_row=(own_row + jnp.where(drawn_is_hindsight, drawn_end, last))[taught],
        teacher_row=drawn_row[taught],
        teacher_is_hindsight=drawn_is_hindsight[taught],
        decoys=buffer.images[decoy_slots],
        seed=jax.random.bits(jax.random.fold_in(key, 5)),
    )


def draw_ends(key: PRNGKey, batch: int, last: int, config: RelabelConfig) -> tuple[Int[Array, " B"], Int[Array, "B G"]]:
    """The ends of the paper's draw and of every kind of goal.

    An end is the last frame in half of the cases, else any from a quarter of the way on; without ends, the last one.
    """
    shape = (batch, 1 + len(config.goals))
    if not config.ends:
        return jnp.full(batch, last), jnp.full((batch, len(config.goals)), last)
    half_key, end_key = jax.random.split(key)
    sooner = jax.random.randint(end_key, shape, -(-last // 4), last + 1)
    drawn, *others = jnp.where(jax.random.bernoulli(half_key, 0.5, shape), last, sooner).T
    ends = [drawn if kind == "draw" else other for kind, other in zip(config.goals, others, strict=True)]
    return drawn, jnp.stack(ends, axis=1)


def controllable_only(controllable: Bool[Array, " B"]) -> Int[Array, " B"]:
    """Each trajectory's own number, or where it is not controllable that of one that is."""
    batch = controllable.shape[0]
    controllable_first = jnp.argsort(~controllable, stable=True)
    another = controllable_first[jnp.arange(batch) % jnp.maximum(1, controllable.sum())]
    return jnp.where(controllable, jnp.arange(batch), another)


def other_final_rows(key: PRNGKey, batch: int, frames: int, count: int) -> Int[Array, "B count"]:
    """Rows of the final frames of other trajectories of the batch."""
    other = (jnp.arange(batch)[:, None] + jax.random.randint(key, (batch, count), 1, batch)) % batch
    return other * frames + frames - 1


def rows(batch: Batch) -> UInt8[Array, "R H W 3"]:
    """The table of images that goals index: observations, then extra goals, R = B(T+1) + BE."""
    image = batch.extra_goals.shape[2:]
    return jnp.concatenate(
        [batch.trajectories.observations.reshape((-1, *image)), batch.extra_goals.reshape((-1, *image))]
    )


def measures(batch: Batch) -> Float32[Array, "R D"]:
    """The scored dimensions of `rows(batch)`."""
    return jnp.concatenate([jnp.concatenate(batch.trajectories.measures), jnp.concatenate(batch.extra_measures)])
