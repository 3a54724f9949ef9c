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


class Parts:
    """A run that learns already, and how fast each part of it is by itself; `timing` is as `_rate` takes it.

    Actors play at random, as the world alone does: how fast a world is depends on what happens in it.
    """

    def __init__(self, config: Config):
        self.actors = LocalActors(replace(config, {"actor.epsilon_base": 1.0, "actor.ez_greedy": None}))
        self.loop = Loop(self.actors)
        self.on_host = isinstance(self.actors.collector, HostCollector)
        self.state = self.loop.start()
        while not self.state.learning:
            self.state, _ = self.loop.turn(self.state)

    def world(self, seconds: float) -> float:
        """Steps a second of the world alone."""
        return _world_rate(self.actors, seconds)

    def acting(self, seconds: float, **timing: Any) -> float:
        """Steps a second without the learner."""

        def act() -> Any:
            now, collector = self.state, self.actors.collector
            collecting, memory = collector.turn(now.learner.params, now.collecting, now.memory, jax.random.key(0))
            self.state = now._replace(collecting=collecting, memory=memory)
            return memory.replay.head

        return _rate(act, seconds, **timing) * self.actors.collector.steps_per_turn

    def sampling(self, seconds: float, **timing: Any) -> float:
        """Batches a second, drawn and relabelled."""
        memory = self.state.memory

        def sample() -> Any:
            return self.actors.draw(memory, jax.random.key(0))

        return _rate(sample, seconds, **timing) * self.actors.updates_per_call

    def updates(self, seconds: float, **timing: Any) -> float:
        """Updates a second, each on a batch drawn for it."""

        def learn() -> Any:
            _, batch = self.actors.draw(self.state.memory, jax.random.key(0))
            learner, _ = self.loop.update(self.state.learner, batch, jnp.float32(1))
            self.state = self.state._replace(learner=learner)
            return learner.updates

        return _rate(learn, seconds, **timing) * self.actors.updates_per_call

    def whole(self, seconds: float, **timing: Any) -> float:
        """Steps a second of the whole loop."""

        def turn() -> Any:
            self.state, _ = self.loop.turn(self.state)
            return self.state.learner.updates

        timing = {"wait_every": 0 if self.on_host else 8} | timing
        return _rate(turn, seconds, **timing) * self.actors.collector.steps_per_turn

    def parameters(self) -> dict[str, int]:
        """How many there are in the torso, the core, and what only training needs."""
        parts = self.state.learner.params.items()
        return {name: sum(leaf.size for leaf in jax.tree.leaves(part)) for name, part in parts}

    def close(self) -> None:
        self.loop.close()


def bench(config: Config, seconds: float = 2.0) -> dict[str, Any]:
    """Rates of each part, measured for about `seconds` each, one after the other in one process."""
    if not 0 < seconds < float("inf"):
        raise UserError(f"seconds must be above 0, not {seconds}")
    parts = Parts(config)
    world, whole = [parts.world(seconds)], []
    sampling, acting, updates = parts.sampling(seconds), parts.acting(seconds), parts.updates(seconds)
    for _ in range(ROUNDS if parts.on_host else 1):
        whole.append(parts.whole(2 * seconds))
        if parts.on_host:
            world.append(parts.world(seconds))
    parts.close()
    return {
        "env": config.env,
        "environments": config.actor.environments,
        "batch": config.learner.batch,
        "horizon": config.actor.horizon,
        "replay_ratio": config.learner.replay_ratio,
        "goals_a_trajectory": len(config.relabel.goals),
        "parameters": parts.parameters(),
        "world_steps_per_second": round(np.mean(world)),
        "acting_steps_per_second": round(acting),
        "sampled_batches_per_second": round(sampling, 1),
        "updates_per_second": round(updates, 1),
        "trained_steps_per_second": round(updates * parts.loop.trained_per_update),
        "whole_steps_per_second": round(np.mean(whole)),
        "whole_over_world": round(float(np.mean(whole) / np.mean(world)), 4),
        "rounds": {"world": np.round(world).tolist(), "whole": np.round(whole).tolist()},
        "parameter_lag": parts.actors.parameter_lag(),
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


def _rate(
    call: Callable[[], Any],
    seconds: float,
    wait_every: int = 8,
    warm_up: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Calls a second, those that compile left out; what was called is waited for now and then, and at the end."""
    for _ in range(warm_up):
        jax.block_until_ready(call())
    began, calls, result = clock(), 0, None
    while clock() - began < seconds:
        result = call()
        calls += 1
        if wait_every and calls % wait_every == 0:
            jax.block_until_ready(result)
    jax.block_until_ready(result)
    return calls / (clock() - began)
