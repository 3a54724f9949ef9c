"""The wiring of one machine: every environment acts, the learner learns, and again."""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
from rich.console import Console

from discern.agent.learner import Learner
from discern.agent.relabel import relabel
from discern.config import Config
from discern.envs import Env, is_host, make_env, make_host_env
from discern.run.actor import Collector, DeviceCollector, HostCollector, Memory
from discern.run.folder import new_folder, resumed_folder
from discern.run.replay import empty_replay, refuse_if_too_large, sample
from discern.run.session import Session
from discern.run.state import TrainState, restore_state
from discern.types import LearnerState, PRNGKey


class Loop:
    """The parts of a run, compiled, and how they take turns."""

    def __init__(self, config: Config):
        self.config = config
        self.env = make_env(config.env, config.actor.environments)
        self.replay_size = (config.replay_capacity, config.actor.environments, config.actor.horizon)
        refuse_if_too_large(*self.replay_size, self.env.spec.image_shape)
        self.learner = Learner(config, self.env.spec)
        self.collector = make_collector(config, self.env, self.learner)
        self.updates_per_call = config.learner.updates_per_call or (1 if jax.default_backend() == "cpu" else 8)
        self.trained_per_update = config.learner.batch * config.actor.horizon
        self.learn = jax.jit(self._learn, donate_argnums=0)

    def start(self) -> TrainState:
        """A fresh state: random play fills the goal buffer."""
        key = jax.random.key(self.config.seed)
        collecting, goals, steps = self.collector.start(
            jax.random.fold_in(key, 0), first_slot=self.config.replay_capacity
        )
        learner = jax.jit(self.learner.init)(jax.random.fold_in(key, 1), goals.images)
        replay = jax.jit(empty_replay, static_argnums=range(4))(*self.replay_size, self.env.spec.image_shape)
        return TrainState(learner, collecting, Memory(replay, goals), steps=steps)

    def turn(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """Every environment acts; then the learner makes the updates that the replay ratio asks for."""
        key = jax.random.fold_in(jax.random.key(self.config.seed), 2 + state.turn)
        act_key, learn_key = jax.random.split(key)
        collecting, memory = self.collector.turn(state.learner.params, state.collecting, state.memory, act_key)
        learning = state.learning or int(memory.replay.filled) >= self.config.learner.batch
        learner, owed, metrics = state.learner, state.updates_owed, {}
        if learning:
            owed += self.collector.steps_per_turn * self.config.learner.replay_ratio / self.trained_per_update
            for call in range(int(owed / self.updates_per_call)):
                learner, metrics = self.learn(learner, memory, jax.random.fold_in(learn_key, call))
                owed -= self.updates_per_call
        state = state._replace(
            learner=learner,
            collecting=collecting,
            memory=memory,
            turn=state.turn + 1,
            steps=state.steps + self.collector.steps_per_turn,
            updates_owed=owed,
            learning=learning,
        )
        return state, metrics

    def parameter_lag(self) -> int:
        """The most updates that the learner is ahead of the parameters an action was chosen by."""
        owed = self.collector.steps_per_turn * self.config.learner.replay_ratio / self.trained_per_update
        return math.ceil(owed / self.updates_per_call) * self.updates_per_call

    def _learn(self, state: LearnerState, memory: Memory, key: PRNGKey) -> tuple[LearnerState, dict[str, jax.Array]]:
        def one(state: LearnerState, key: PRNGKey) -> tuple[LearnerState, dict[str, jax.Array]]:
            sample_key, relabel_key = jax.random.split(key)
            trajectories = sample(memory.replay, sample_key, self.config.learner.batch)
            batch = relabel(relabel_key, trajectories, memory.goals, self.config.relabel, self.config.reward.decoys)
            return self.learner.update(state, batch)

        if self.updates_per_call == 1:  # a convolution's gradient is slow inside a loop on a CPU
            return one(state, key)
        state, metrics = jax.lax.scan(one, state, jax.random.split(key, self.updates_per_call))
        return state, jax.tree.map(jnp.mean, metrics)


def make_collector(config: Config, env: Env, learner: Learner) -> Collector:
    """Inside jit where the world can live there; else two groups of environments that take turns."""
    if not is_host(env) and not config.actor.host:
        return DeviceCollector(config, env, learner.imitator)
    n = config.actor.environments
    sizes = [n - n // 2, n // 2] if n > 1 else [n]
    return HostCollector(config, [make_host_env(config.env, size) for size in sizes], learner.imitator)


def train(config: Config, run: str | Path | None = None, console: Console | None = None) -> Path:
    """Trains a new agent and returns its run folder."""
    loop = Loop(config)
    folder = new_folder(run, config)
    return Session(loop, loop.start(), folder, console or Console()).spend()


def resume(
    run: str | Path, steps: int | None = None, minutes: float | None = None, console: Console | None = None
) -> Path:
    """Goes on from the newest checkpoint of a run, if wanted with another budget."""
    folder, config = resumed_folder(run, steps, minutes)
    loop = Loop(config)
    state = restore_state(folder, loop.start())
    return Session(loop, state, folder, console or Console(), resumed=True).spend()
