"""One loop, whoever acts: environments act, the learner learns, and again."""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import cast

import jax
import numpy as np
from rich.console import Console

from discern.agent.learner import shared_learner
from discern.config import Config
from discern.evaluation.final import forget_final
from discern.storage.run_folder import free_folder, new_folder, resumed_folder
from discern.storage.state import TrainState, budget_spent, refuse_if_not_resumable, restore_state
from discern.training.actors import Actors, LocalActors
from discern.training.boards import wandb_mode
from discern.training.live import Phases, View
from discern.training.scoring import FixedGoals, Scoring, fixed_goals
from discern.training.session import Session
from discern.training.update import Update, learning_rate, make_update
from discern.types import Batch, LearnerState, LostError, Metrics, WandbMode

Learned = tuple[LearnerState, Metrics]


class Loop:
    """A learner and whoever acts for it, and how they take turns."""

    def __init__(self, actors: Actors, phases: Phases | None = None):
        self.actors, self.config, self.phases = actors, actors.config, phases or Phases()
        self.learner = shared_learner(self.config, actors.spec)
        self.update = make_update(self.learner, tuple(jax.local_devices()[: actors.shards]), actors.updates_per_call)
        self.trained_per_update = self.config.learner.batch * self.config.actor.horizon
        self.thread = ThreadPoolExecutor(1, "learner")

    def start(self) -> TrainState:
        """A fresh state: random play fills the goal buffer, while the programs of new networks and of an update are
        compiled."""
        key = jax.random.fold_in(jax.random.key(self.config.seed), 1)
        goals = jax.ShapeDtypeStruct((self.config.goal_buffer.capacity, *self.actors.spec.image_shape), np.uint8)
        init = jax.jit(self.learner.init)
        with ThreadPoolExecutor(1, "networks") as beside:
            networks = beside.submit(lambda: init.lower(key, goals).compile())
            compiling = self.thread.submit(self.compile_ahead, goals)
            with self.phases("random play, which fills the goal buffer"):
                collecting, memory, steps = self.actors.start()
            with self.phases("new networks"):
                learner = networks.result()(key, memory.goals.images)
            compiling.result()
        return TrainState(learner, collecting, memory, steps=steps)

    def compile_ahead(self, goals: jax.ShapeDtypeStruct) -> None:
        """Compiles what draws a batch and what learns from it, so that their first calls find it compiled."""
        if self.actors.shards > 1:
            return  # the update also moves what it gets to its devices
        state = jax.eval_shape(self.learner.init, jax.random.key(0), goals)
        with self.phases("compiling the update"):
            cast(jax.stages.Wrapped, self.update).lower(
                state, self.actors.batch_shapes(), learning_rate(0.0, 0.0)
            ).compile()

    def turn(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """Environments act, and the learner makes the updates that the replay ratio asks for.

        An update is some thousand small launches, which a thread of its own makes: no environment waits for them.
        """
        rate = learning_rate(round(budget_spent(self.config, state), 2), self.config.learner.anneal)
        newest: Future[Learned] = Future()
        newest.set_result((state.learner, {}))

        def learn(batch: Batch) -> None:
            nonlocal newest
            newest = self.thread.submit(go_on, self.update, newest, batch, rate)

        acted = self.actors.turn(state, learn)
        try:
            learner, metrics = newest.result()
        except jax.errors.JaxRuntimeError as error:
            raise LostError(f"the learner failed: {str(error).splitlines()[0]}", acted) from error
        return acted._replace(learner=learner), metrics

    def close(self) -> None:
        self.actors.close()
        self.thread.shutdown()


def go_on(update: Update, before: Future[Learned], batch: Batch, rate: jax.Array) -> Learned:
    """One more update after those before."""
    return update(before.result()[0], batch, rate)


@contextmanager
def make_loop(config: Config, view: View, cluster: str | None, actors: int | None) -> Iterator[Loop]:
    """The loop of this machine; or, where a cluster is named, with actors there."""
    from discern.training.cluster.actors import RayActors
    from discern.training.cluster.connect import connect

    with connect(cluster, actors) if cluster else nullcontext(0) as count:
        by_whom = f"{count} actors with" if cluster else "making"
        view.console.print(f"{by_whom} {config.actor.environments} environments of {config.env} …")
        with view.phases("making environments"):
            acting = RayActors(config, count, view.console) if cluster else LocalActors(config)
        with closing(Loop(acting, view.phases)) as loop:
            yield loop


@contextmanager
def scoring_beside(loop: Loop) -> Iterator[tuple[Future[FixedGoals], Future[Scoring]]]:
    """The fixed goals, and who scores the run's agents, made by a thread of its own while the loop begins to learn."""
    with ThreadPoolExecutor(1, "scoring") as thread:
        goals = thread.submit(fixed_goals, loop.config, loop.phases)
        scoring = thread.submit(lambda: Scoring(loop.config, loop.learner, goals.result(), loop.phases))
        try:
            yield goals, scoring
        finally:
            wait([scoring])
            if goals.exception() is None:
                goals.result().close()


def train(
    config: Config,
    run: str | Path | None = None,
    console: Console | None = None,
    cluster: str | None = None,
    actors: int | None = None,
    wandb: WandbMode | None = None,
) -> Path:
    """Trains a new agent and returns its run folder; actors play on this machine alone, or on the Ray cluster `local`,
    `auto` or HOST:PORT. `wandb` logs to Weights & Biases too."""
    began = time.monotonic()
    folder = free_folder(run, config)
    wandb = wandb_mode(folder, wandb)
    with (
        View(console or Console()) as view,
        make_loop(config, view, cluster, actors) as loop,
        scoring_beside(loop) as (goals, scoring),
    ):
        state = loop.start()
        session = Session(loop, state, goals.result(), scoring, folder, view, began, wandb=wandb)
        new_folder(folder.path, config)
        return session.spend()


def resume(
    run: str | Path,
    steps: int | None = None,
    minutes: float | None = None,
    console: Console | None = None,
    cluster: str | None = None,
    actors: int | None = None,
    wandb: WandbMode | None = None,
) -> Path:
    """Goes on from the newest checkpoint of a run, wherever it was trained, if wanted with another budget; and with its
    run of Weights & Biases, if it has one."""
    began = time.monotonic()
    folder, config = resumed_folder(run, steps, minutes)
    refuse_if_not_resumable(folder)
    wandb = wandb_mode(folder, wandb)
    with (
        View(console or Console()) as view,
        make_loop(config, view, cluster, actors) as loop,
        scoring_beside(loop) as (goals, scoring),
    ):
        state = restore_state(folder, loop.start())
        session = Session(loop, state, goals.result(), scoring, folder, view, began, True, wandb)
        folder.keep(config)
        forget_final(folder)
        return session.spend()
