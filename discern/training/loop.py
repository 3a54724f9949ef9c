"""The wiring of one machine: every environment acts, the learner learns, and again."""

import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
from rich.console import Console

from discern.agent.learner import Learner, annealed
from discern.agent.relabel import draw
from discern.agent.replay import Memory, empty_replay, refuse_if_too_large
from discern.config import Config
from discern.envs import is_host
from discern.envs.base import measured
from discern.evaluation.final import forget_final
from discern.storage.run_folder import free_folder, new_folder, resumed_folder
from discern.storage.state import Keys, TrainState, budget_spent, refuse_if_not_resumable, restore_state
from discern.training.collect import COMPILING, HostCollector, make_collector, make_worlds
from discern.training.session import Session
from discern.types import Batch, LearnerState, PRNGKey


class Loop:
    """The parts of a run, compiled, and how they take turns."""

    def __init__(self, config: Config):
        self.config = config
        self.worlds = make_worlds(config)
        self.env = self.worlds[0]
        replay_size = (
            config.replay_capacity,
            config.actor.environments,
            config.actor.horizon,
            self.env.spec.image_shape,
        )
        refuse_if_too_large(*replay_size)
        self.empty = jax.jit(lambda: empty_replay(*replay_size, measured(self.env)))
        self.learner = Learner(config, self.env.spec)
        self.collector = make_collector(config, self.worlds, self.learner.imitator)
        one_by_one = jax.default_backend() == "cpu" or is_host(self.env)  # acting on the host waits for no long call
        self.updates_per_call = config.learner.updates_per_call or (1 if one_by_one else 8)
        self.trained_per_update = config.learner.batch * config.actor.horizon
        self.owed_per_turn = self.collector.steps_per_turn * config.learner.replay_ratio / self.trained_per_update
        self.draw = jax.jit(self._draw)
        self.update = jax.jit(self._update, compiler_options=COMPILING)
        self.keys = Keys(config.seed)
        self.thread = ThreadPoolExecutor(1, "learner")

    def start(self) -> TrainState:
        """A fresh state: random play fills the goal buffer."""
        key = jax.random.key(self.config.seed)
        collecting, goals, steps = self.collector.start(
            jax.random.fold_in(key, 0), first_slot=self.config.replay_capacity
        )
        learner = jax.jit(self.learner.init)(jax.random.fold_in(key, 1), goals.images)
        return TrainState(learner, collecting, Memory(self.empty(), goals), steps=steps)

    def turn(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """Every environment acts, and the learner makes the updates that the replay ratio asks for.

        Where environments run on the host the two happen side by side: an update is some thousand small launches,
        which a thread of its own makes, so that no environment waits for them; nor for many of them in a row.
        """
        act_key, learn_key = self.keys.of_turn(state.turn)
        learning = state.learning or int(state.memory.replay.filled) >= self.config.learner.batch
        owed = state.updates_owed + (self.owed_per_turn if learning else 0.0)
        calls = int(owed / self.updates_per_call)
        acting = (state.learner.params, state.collecting, state.memory, act_key)
        rate = learning_rate(round(budget_spent(self.config, state), 2), self.config.learner.anneal)
        if isinstance(self.collector, HostCollector):
            batches = self.batches(state.memory, learn_key, calls)
            learned = [self.thread.submit(self.learn, state.learner, [], rate)]

            def keep_up(done: float) -> None:
                for batch in batches[len(learned) - 1 : math.ceil(done * calls)]:
                    learned.append(self.thread.submit(self._go_on, learned[-1], batch, rate))

            collecting, memory = self.collector.turn(*acting, keep_up)
            learner, metrics = learned[-1].result()
        else:
            collecting, memory = self.collector.turn(*acting)
            learner, metrics = self.learn(state.learner, self.batches(memory, learn_key, calls), rate)
        state = state._replace(
            learner=learner,
            collecting=collecting,
            memory=memory,
            turn=state.turn + 1,
            steps=state.steps + self.collector.steps_per_turn,
            updates_owed=owed - calls * self.updates_per_call,
            learning=learning,
        )
        return state, metrics

    def close(self) -> None:
        self.collector.close()
        self.thread.shutdown()

    def batches(self, memory: Memory, key: PRNGKey, calls: int) -> list[Batch]:
        """What the updates of one turn train on."""
        drawn = []
        for _ in range(calls):
            key, batch = self.draw(memory, key)
            drawn.append(batch)
        return drawn

    def learn(
        self, learner: LearnerState, batches: list[Batch], rate: jax.Array
    ) -> tuple[LearnerState, dict[str, jax.Array]]:
        """The updates of one turn."""
        metrics: dict[str, jax.Array] = {}
        for batch in batches:
            learner, metrics = self.update(learner, batch, rate)
        return learner, metrics

    def _go_on(self, learned: Future, batch: Batch, rate: jax.Array) -> tuple[LearnerState, dict[str, jax.Array]]:
        return self.update(learned.result()[0], batch, rate)

    def counts(self, state: TrainState) -> dict[str, int]:
        """Trajectories finished, and partial ones dropped."""
        return self.collector.counts(state.collecting)

    def parameter_lag(self) -> int:
        """The most updates that the learner is ahead of the parameters an action was chosen by."""
        return math.ceil(self.owed_per_turn / self.updates_per_call) * self.updates_per_call

    def _draw(self, memory: Memory, key: PRNGKey) -> tuple[PRNGKey, Batch]:
        """The next key, and the batches of one call, stacked where it makes several updates."""
        key, own_key = jax.random.split(key)
        if self.updates_per_call == 1:
            return key, draw(memory, own_key, self.config)
        keys = jax.random.split(own_key, self.updates_per_call)
        return key, jax.vmap(lambda key: draw(memory, key, self.config))(keys)

    def _update(self, state: LearnerState, batch: Batch, rate: jax.Array) -> tuple[LearnerState, dict[str, jax.Array]]:
        if self.updates_per_call == 1:  # a convolution's gradient is slow inside a loop on a CPU
            return self.learner.update(state, batch, rate)
        state, metrics = jax.lax.scan(lambda state, batch: self.learner.update(state, batch, rate), state, batch)
        return state, jax.tree.map(jnp.mean, metrics)


@cache
def learning_rate(spent: float, anneal: float) -> jax.Array:
    """The share of the learning rate to learn with, on the accelerator."""
    return jnp.float32(annealed(spent, anneal))


def train(config: Config, run: str | Path | None = None, console: Console | None = None) -> Path:
    """Trains a new agent and returns its run folder."""
    began, console = time.monotonic(), console or Console()
    folder = free_folder(run, config)
    console.print(f"making {config.actor.environments} environments of {config.env} …")
    with closing(Loop(config)) as loop:
        session = Session(loop, loop.start(), folder, console, began)
        new_folder(folder.path, config)
        return session.spend()


def resume(
    run: str | Path, steps: int | None = None, minutes: float | None = None, console: Console | None = None
) -> Path:
    """Goes on from the newest checkpoint of a run, if wanted with another budget."""
    began = time.monotonic()
    folder, config = resumed_folder(run, steps, minutes)
    refuse_if_not_resumable(folder)
    with closing(Loop(config)) as loop:
        state = restore_state(folder, loop.start())
        session = Session(loop, state, folder, console or Console(), began, resumed=True)
        folder.keep(config)
        forget_final(folder)
        return session.spend()
