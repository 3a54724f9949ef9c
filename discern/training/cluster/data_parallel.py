"""One learner on several devices: each takes a shard of the batch, and all step along the mean gradient."""

from collections.abc import Callable, Sequence

import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from discern.agent.learner import Learner
from discern.types import Batch, LearnerState, Params, UserError

Metrics = dict[str, jax.Array]


def shards_of(batch: int, devices: Sequence[jax.Device]) -> int:
    """In how many shards a batch is drawn: one for each device."""
    if batch % len(devices) or batch < 2 * len(devices):
        raise UserError(f"{len(devices)} devices cannot share a batch of {batch}: set --learner.batch to a multiple")
    return len(devices)


def make_update(
    learner: Learner, devices: Sequence[jax.Device]
) -> Callable[[LearnerState, Batch], tuple[LearnerState, Metrics]]:
    """`learner.update`, compiled; on D devices it takes batches whose leading axis is D shards."""
    if len(devices) == 1:
        return jax.jit(learner.update)
    mesh = Mesh(np.array(devices), ("shard",))
    everywhere, one_each = NamedSharding(mesh, P()), NamedSharding(mesh, P("shard"))

    def mean_gradient(state: LearnerState, batch: Batch) -> tuple[Params, Metrics]:
        return jax.lax.pmean(learner.gradient(state, jax.tree.map(lambda x: x[0], batch)), "shard")

    # check_vma would sum the replicated parameters' gradient over the devices by itself, and pmean once more
    shared = jax.shard_map(mean_gradient, mesh=mesh, in_specs=(P(), P("shard")), out_specs=P(), check_vma=False)

    @jax.jit
    def update(state: LearnerState, batch: Batch) -> tuple[LearnerState, Metrics]:
        gradient, metrics = shared(state, batch)
        return learner.apply(state, gradient), metrics | {"gradient_norm": optax.tree.norm(gradient)}

    return lambda state, batch: update(jax.device_put(state, everywhere), jax.device_put(batch, one_each))
