"""Timing the parts of a run apart: world, acting, sampling, learning, and the whole loop."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from discern.config import Config, replace
from discern.envs import HostEnv, HostStep
from discern.envs.base import reset_worlds, step_worlds
from discern.evaluation.report import machine
from discern.training.actors import LocalActors
from discern.training.collect import HostCollector
from discern.training.loop import Loop
from discern.types import UserError

ROUNDS = 4  # of the whole loop beside host environments, timed alone before, between and after: machines drift


def bench(config: Config, seconds: float = 2.0) -> dict[str, Any]:
    """Rates of each part, measured for about `seconds` each, one after the other in one process.

    Actors play at random, as the world alone does: how fast a world is depends on what happens in it.
    """
    if not 0 < seconds < float("inf"):
        raise UserError(f"seconds must be above 0, not {seconds}")
    actors = LocalActors(replace(config, {"actor.epsilon_base": 1.0, "actor.ez_greedy": None}))
    loop = Loop(actors)
    state = loop.start()
    world = [_world_rate(actors, seconds)]
    while not state.learning:
        state, _ = loop.turn(state)
    owned = [state]

    def act() -> Any:
        now = owned[0]
        collecting, memory = actors.collector.turn(now.learner.params, now.collecting, now.memory, jax.random.key(0))
        owned[0] = now._replace(collecting=collecting, memory=memory)
        return memory.replay.head

    def learn() -> Any:
        now = owned[0]
        _, batch = actors.draw(now.memory, jax.random.key(0))
        learner, _ = loop.update(now.learner, batch, jnp.float32(1))
        owned[0] = owned[0]._replace(learner=learner)
        return learner.updates

    def turn() -> Any:
        owned[0], _ = loop.turn(owned[0])
        return owned[0].learner.updates

    memory = owned[0].memory
    on_host = isinstance(actors.collector, HostCollector)
    sampling = _rate(lambda: actors.draw(memory, jax.random.key(0)), seconds) * actors.updates_per_call
    acting = _rate(act, seconds) * actors.collector.steps_per_turn
    updates = _rate(learn, seconds) * actors.updates_per_call
    whole = []
    for _ in range(ROUNDS if on_host else 1):
        whole.append(_rate(turn, 2 * seconds, wait_every=0 if on_host else 8) * actors.collector.steps_per_turn)
        if on_host:
            world.append(_world_rate(actors, seconds))
    loop.close()
    return {
        "env": config.env,
        "environments": config.actor.environments,
        "batch": config.learner.batch,
        "horizon": config.actor.horizon,
        "replay_ratio": config.learner.replay_ratio,
        "world_steps_per_second": round(np.mean(world)),
        "acting_steps_per_second": round(acting),
        "sampled_batches_per_second": round(sampling, 1),
        "updates_per_second": round(updates, 1),
        "trained_steps_per_second": round(updates * loop.trained_per_update),
        "whole_steps_per_second": round(np.mean(whole)),
        "whole_over_world": round(float(np.mean(whole) / np.mean(world)), 4),
        "rounds": {"world": np.round(world).tolist(), "whole": np.round(whole).tolist()},
        "parameter_lag": actors.parameter_lag(),
        "machine": machine(),
    }


def _world_rate(actors: LocalActors, seconds: float) -> float:
    """Steps a second of the world alone under random actions, nobody looking; inside jit with its pixels."""
    if isinstance(actors.collector, HostCollector):
        return _host_world_rate(actors.collector, seconds)
    env, n, length = actors.collector.env, actors.config.actor.environments, 32

    @jax.jit
    def play(worlds, key):
        def one(worlds, key):
            actions = jax.random.randint(key, (n,), 0, env.spec.actions)
            worlds = step_worlds(env, worlds, actions, key)
            return worlds, jax.vmap(env.observe)(worlds.state).sum(dtype=jnp.uint32)

        return jax.lax.scan(one, worlds, jax.random.split(key, length))

    worlds = reset_worlds(env, jax.random.key(0), n)
    return _rate(lambda: play(worlds, jax.random.key(0)), seconds) * n * length


def _host_world_rate(collector: HostCollector, seconds: float) -> float:
    """The run's own groups from where they are, each as fast as it can beside the others."""
    collector.finish()
    began = time.perf_counter()

    def play(group: HostEnv) -> tuple[int, HostStep]:
        chance, steps = np.random.default_rng(0), 0
        while True:
            group.send(chance.integers(0, group.spec.actions, group.size, dtype=np.int32))
            step = group.recv()
            steps += group.size
            if time.perf_counter() - began > seconds:
                return steps, step

    played = list(collector.threads.map(play, collector.groups))
    rate = sum(steps for steps, _ in played) / (time.perf_counter() - began)
    collector.enter([step for _, step in played])
    return rate


def _rate(call: Callable[[], Any], seconds: float, wait_every: int = 8) -> float:
    """Calls a second, compiling left out; what was called is waited for now and then, and at the end."""
    jax.block_until_ready(call())
    jax.block_until_ready(call())
    began, calls, result = time.perf_counter(), 0, None
    while time.perf_counter() - began < seconds:
        result = call()
        calls += 1
        if wait_every and calls % wait_every == 0:
            jax.block_until_ready(result)
    jax.block_until_ready(result)
    return calls / (time.perf_counter() - began)
