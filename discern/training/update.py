"""The learner's update, compiled; on several devices each takes a shard of the batch, and all step along the mean
gradient."""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from discern.agent.learner import Learner, annealed
from discern.training.collect import COMPILING
from discern.types import Batch, LearnerState, Metrics, Params, UserError

Update = Callable[[LearnerState, Batch, jax.Array], tuple[LearnerState, Metrics]]  # at a share of the learning rate


def shards_of(batch: int, devices: Sequence[jax.Device]) -> int:
    """In how many shards a batch is drawn: one for each device."""
    if batch % len(devices) or batch < 2 * len(devices):
        raise UserError(f"{len(devices)} devices cannot share a batch of {batch}: set --learner.batch to a multiple")
    return len(devices)


@cache
def learning_rate(spent: float, anneal: float) -> jax.Array:
    """The share of the learning rate to learn with, on the accelerator."""
    return jnp.asarray(annealed(spent, anneal), jnp.float32)


@lru_cache(maxsize=16)
def make_update(learner: Learner, devices: tuple[jax.Device, ...], updates_per_call: int = 1) -> Update:
    """`learner.update`, compiled, or several of them on batches that are stacked; with D devices the leading axis of
    each batch is D shards."""
    mesh = Mesh(np.array(devices), ("shard",))
    one = learner.update if len(devices) == 1 else _on_shards(learner, mesh)

    def update(state: LearnerState, batch: Batch, rate: jax.Array) -> tuple[LearnerState, Metrics]:
        if updates_per_call == 1:  # a convolution's gradient is slow inside a loop on a CPU
            return one(state, batch, rate)
        state, metrics = jax.lax.scan(lambda state, batch: one(state, batch, rate), state, batch)
        return state, jax.tree.map(jnp.mean, metrics)

    compiled = jax.jit(update, compiler_options=COMPILING)
    if len(devices) == 1:
        return compiled
    everywhere = NamedSharding(mesh, P())
    one_each = NamedSharding(mesh, P("shard") if updates_per_call == 1 else P(None, "shard"))
    return lambda state, batch, rate: compiled(jax.device_put(state, everywhere), jax.device_put(batch, one_each), rate)


def _on_shards(learner: Learner, mesh: Mesh) -> Update:
    def mean_gradient(state: LearnerState, batch: Batch) -> tuple[Params, Metrics]:
        gradient, metrics = jax.lax.pmean(learner.gradient(state, jax.tree.map(lambda x: x[0], batch)), "shard")
        return gradient, metrics

    # check_vma would sum the replicated parameters' gradient over the devices by itself, and pmean once more
    shared = jax.shard_map(mean_gradient, mesh=mesh, in_specs=(P(), P("shard")), out_specs=P(), check_vma=False)

    def update(state: LearnerState, batch: Batch, rate: jax.Array) -> tuple[LearnerState, Metrics]:
        gradient, metrics = shared(state, batch)
        return learner.apply(state, gradient, rate), metrics | {"gradient_norm": optax.tree.norm(gradient)}

    return update
