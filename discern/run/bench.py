"""Timing the parts of a run apart: world, acting, sampling, learning, and the whole loop."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from discern.agent.relabel import relabel
from discern.config import Config
from discern.envs import HostEnv, is_host, make_host_env
from discern.envs.base import DeviceEnv, reset_worlds, step_worlds
from discern.run.replay import sample
from discern.run.report import machine
from discern.run.train import Loop


def bench(config: Config, seconds: float = 2.0) -> dict[str, Any]:
    """Rates of each part, measured for about `seconds` each, one after the other in one process."""
    loop = Loop(config)
    state = loop.start()
    while not state.learning:
        state, _ = loop.turn(state)
    env_rate = _world_rate(loop, seconds)
    owned = [state]

    def act() -> Any:
        now = owned[0]
        collecting, memory = loop.collector.turn(now.learner.params, now.collecting, now.memory, jax.random.key(0))
        owned[0] = now._replace(collecting=collecting, memory=memory)
        return memory.replay.head

    def learn() -> Any:
        learner, _ = loop.learn(owned[0].learner, owned[0].memory, jax.random.key(0))
        owned[0] = owned[0]._replace(learner=learner)
        return learner.updates

    def turn() -> Any:
        owned[0], _ = loop.turn(owned[0])
        return owned[0].learner.updates

    memory = owned[0].memory
    draw = jax.jit(
        lambda key, memory: relabel(
            key, sample(memory.replay, key, config.learner.batch), memory.goals, config.relabel, config.reward.decoys
        )
    )
    sampling = _rate(lambda: draw(jax.random.key(0), memory), seconds)
    acting = _rate(act, seconds) * loop.collector.steps_per_turn
    updates = _rate(learn, seconds) * loop.updates_per_call
    whole = _rate(turn, seconds) * loop.collector.steps_per_turn
    loop.collector.close()
    return {
        "env": config.env,
        "environments": config.actor.environments,
        "batch": config.learner.batch,
        "horizon": config.actor.horizon,
        "replay_ratio": config.learner.replay_ratio,
        "world_steps_per_second": round(env_rate),
        "acting_steps_per_second": round(acting),
        "sampled_batches_per_second": round(sampling, 1),
        "updates_per_second": round(updates, 1),
        "trained_steps_per_second": round(updates * loop.trained_per_update),
        "whole_steps_per_second": round(whole),
        "whole_over_world": round(whole / env_rate, 4),
        "parameter_lag": loop.parameter_lag(),
        "machine": machine(),
    }


def _world_rate(loop: Loop, seconds: float) -> float:
    """Steps a second of the world alone, pixels included, under random actions."""
    n = loop.config.actor.environments
    if is_host(loop.env) or loop.config.actor.host:
        return _host_world_rate(make_host_env(loop.config.env, n), seconds)
    env: DeviceEnv = loop.env
    length = 32

    @jax.jit
    def play(worlds, key):
        def one(worlds, key):
            actions = jax.random.randint(key, (n,), 0, env.spec.actions)
            worlds = step_worlds(env, worlds, actions, key)
            return worlds, jax.vmap(env.observe)(worlds.state).sum(dtype=jnp.uint32)

        return jax.lax.scan(one, worlds, jax.random.split(key, length))

    worlds = reset_worlds(env, jax.random.key(0), n)
    return _rate(lambda: play(worlds, jax.random.key(0)), seconds) * n * length


def _host_world_rate(env: HostEnv, seconds: float) -> float:
    observe, chance = jax.jit(env.observe), np.random.default_rng(0)
    env.reset(0)

    def step() -> jax.Array:
        env.send(chance.integers(0, env.spec.actions, env.size, dtype=np.int32))
        return observe(env.recv().raw)

    rate = _rate(step, seconds) * env.size
    env.close()
    return rate


def _rate(call: Callable[[], Any], seconds: float) -> float:
    """Calls a second, compiling left out; each call is waited for only at the end."""
    jax.block_until_ready(call())
    jax.block_until_ready(call())
    began, calls, result = time.perf_counter(), 0, None
    while time.perf_counter() - began < seconds:
        result = call()
        calls += 1
        if calls % 8 == 0:
            jax.block_until_ready(result)
    jax.block_until_ready(result)
    return calls / (time.perf_counter() - began)
