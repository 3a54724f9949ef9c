"""A learner on several devices takes the step that it takes on one."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.learner import Learner
from discern.agent.relabel import draw
from discern.agent.replay import Memory, empty_replay
from discern.envs import make_env
from discern.training.collect import make_collector, make_worlds
from discern.training.update import make_update, shards_of
from discern.types import UserError


def learner_state_and_batch(config, shards):
    """A learner and a batch of real play in four shards."""
    learner = Learner(config, make_env(config.env).spec)
    collector = make_collector(config, make_worlds(config), learner.imitator)
    collecting, goals, _ = collector.start(jax.random.key(0), first_slot=config.replay_capacity)
    state = jax.jit(learner.init)(jax.random.key(1), goals.images)
    sizes = (config.replay_capacity, config.actor.environments, config.actor.horizon)
    memory = Memory(empty_replay(*sizes, learner.imitator.image_shape, goals.measures.shape[-1]), goals)
    for turn in range(3):
        collecting, memory = collector.turn(state.params, collecting, memory, jax.random.key(turn))
    return learner, state, jax.jit(draw, static_argnums=(2, 3))(memory, jax.random.key(9), config, shards)


def compare(config) -> None:
    """Run where there are four devices."""
    devices = jax.local_devices()
    assert len(devices) == 4
    learner, state, batch = learner_state_and_batch(config, shards_of(config.learner.batch, devices))
    assert batch.trajectories.actions.shape == (4, 2, config.actor.horizon)
    shards = [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(4)]
    gradients = [jax.jit(learner.gradient)(state, shard)[0] for shard in shards]
    mean = jax.tree.map(lambda *parts: sum(parts) / 4, *gradients)
    rate = jnp.float32(0.5)
    alone = jax.jit(learner.apply)(state, mean, rate)
    together, metrics = make_update(learner, tuple(devices))(state, jax.device_get(batch), rate)
    for ours, theirs in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)
    assert np.isfinite(metrics["gradient_norm"])
    spread = make_update(learner, tuple(devices))(together, jax.device_get(batch), rate)[0].params
    assert all(len(leaf.sharding.device_set) == 4 for leaf in jax.tree.leaves(spread))
    stacked = jax.tree.map(lambda x: np.stack([x, x]), jax.device_get(batch))
    twice, _ = make_update(learner, tuple(devices), updates_per_call=2)(state, stacked, rate)
    for ours, theirs in zip(jax.tree.leaves(twice.params), jax.tree.leaves(spread), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-6)


def test_four_devices_take_the_step_of_one():
    program = (
        "from tests.conftest import TINY; from tests.test_data_parallel import compare;"
        "from discern.config import replace;"
        "from discern.presets import preset;"
        "compare(replace(preset('arena'), TINY | {'learner.batch': 8, 'learner.optimiser': 'rmsprop'}))"
    )
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_shards_are_a_batch_of_their_own(tiny):
    """Goals are rows of the shard's own table, so no frame travels between devices."""
    _, _, batch = learner_state_and_batch(tiny, 2)
    rows = 2 * (tiny.actor.horizon + 1) + batch.extra_goals[0, :, :, 0, 0, 0].size
    assert batch.goal_row.shape[:2] == (2, 2)
    assert int(batch.goal_row.max()) < rows


def test_a_batch_that_cannot_be_shared_is_refused():
    with pytest.raises(UserError, match="3 devices cannot share a batch of 8"):
        shards_of(8, [jax.devices()[0]] * 3)
