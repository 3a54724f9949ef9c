"""The wiring of a cluster: actors play on Ray, each with its own replay, and one learner learns from what they send."""

import math
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from discern.agent.goal_buffer import GoalBuffer, substitute
from discern.agent.learner import Learner
from discern.agent.relabel import draw
from discern.agent.replay import Memory, empty_replay
from discern.config import Config, replace
from discern.envs import make_env, opened
from discern.envs.base import measured
from discern.evaluation.final import forget_final
from discern.storage.run_folder import free_folder, new_folder, resumed_folder
from discern.storage.state import Keys, TrainState, refuse_if_not_resumable, restore_state
from discern.training.cluster.connect import connect
from discern.training.cluster.data_parallel import make_update, shards_of
from discern.training.cluster.worker import share_of
from discern.training.session import Session
from discern.types import Batch, LearnerState, LostError, UserError

TURN_BYTES = 8_000_000


class ClusterLoop:
    """The parts of a run, and how actors and learner take turns."""

    def __init__(self, config: Config, actors: int, console: Console, supervisor: Any = None):
        from discern.training.cluster.supervisor import Supervisor  # Ray is an extra

        with opened(make_env(config.env, 1, config)) as env:
            self.spec, self.measured = env.spec, measured(env)
        self.config = config = with_turns_worth_sending(config, actors, self.spec.image_shape)
        self.learner = Learner(config, self.spec)
        devices = jax.local_devices()
        shards = shards_of(config.learner.batch, devices)
        self.update = make_update(self.learner, devices)
        self.substitute = jax.jit(lambda goals, one, key: substitute(goals, one, key, config.goal_buffer))
        self.trained_per_update = config.learner.batch * config.actor.horizon
        largest = share_of(config, actors - 1, actors).actor
        steps_per_turn = largest.environments * (largest.steps_per_turn or largest.horizon)
        most_updates = math.ceil(steps_per_turn * config.learner.replay_ratio / self.trained_per_update)
        self.supervisor = (supervisor or Supervisor)(config, actors, shards, most_updates, console)
        self.keys = Keys(config.seed)
        self.proper = self._proper_batch(shards)

    def start(self) -> TrainState:
        """A fresh state: the actors' random play fills the goal buffer."""
        openings = self.supervisor.start()
        capacity, shares = self.config.goal_buffer.capacity, [opening.goals for opening in openings]
        goals = jax.tree.map(lambda *parts: jnp.array(np.concatenate(parts)[:capacity]), *shares)
        learner = jax.jit(self.learner.init)(jax.random.fold_in(jax.random.key(self.config.seed), 1), goals.images)
        steps = sum(opening.steps for opening in openings)
        replay: Any = None  # the actors'
        return TrainState(learner, None, Memory(replay, goals), steps=steps)

    def turn(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """One actor's turn comes in, the learner makes the updates it brings, and the actor gets another turn.

        So nothing is asked of actors that the learner has no time for: it is they who wait for a slow learner.
        """
        if not self.supervisor.under_way:
            self.supervisor.begin(state.learner.params, state.memory.goals)
        number, played = self.supervisor.next()
        key, _ = self.keys.of_turn(state.turn)
        goals = self.consider(state.memory.goals, played.proposed, key)
        batches = [batch for batch in played.batches if self.accepts(batch)]
        learner, metrics = self.learn(state.learner, batches)
        self.supervisor.learned(len(batches), learner.params, goals)
        self.supervisor.ask(number)
        state = state._replace(
            learner=learner,
            memory=state.memory._replace(goals=goals),
            turn=state.turn + 1,
            steps=state.steps + played.steps,
            learning=state.learning or bool(batches),
        )
        return state, metrics

    def learn(self, learner: LearnerState, batches: list[Batch]) -> tuple[LearnerState, dict[str, jax.Array]]:
        """The updates of one turn; the state before them outlives a device that fails."""
        metrics: dict[str, jax.Array] = {}
        try:
            for batch in batches:
                learner, metrics = self.update(learner, batch)
        except jax.errors.JaxRuntimeError as error:
            raise LostError(f"the learner failed: {str(error).splitlines()[0]}") from error
        return learner, metrics

    def consider(self, goals: GoalBuffer, proposed: GoalBuffer, key: jax.Array) -> GoalBuffer:
        """The learner's goal buffer after the observations that an actor proposes."""
        kinds = [[(leaf.shape[1:], leaf.dtype) for leaf in seen] for seen in (proposed, goals)]
        if kinds[0] != kinds[1]:
            self.supervisor.refused += 1
            return goals
        for i, (image, measures) in enumerate(zip(*proposed, strict=True)):
            goals = self.substitute(goals, GoalBuffer(image, measures), jax.random.fold_in(key, i))
        self.supervisor.new_goals += len(proposed.images)
        return goals

    def accepts(self, batch: Batch) -> bool:
        """Whether the batch can be trained on; one that cannot is counted."""
        structure: Any = jax.tree.structure
        proper = structure(batch) == structure(self.proper[0]) and all(
            (leaf.shape, leaf.dtype) == (shape.shape, shape.dtype)
            and (leaf.dtype in (np.uint8, np.float32) or (leaf.min() >= 0 and leaf.max() < below))
            for leaf, shape, below in zip(*map(jax.tree.leaves, (batch, *self.proper)), strict=True)
        )
        self.supervisor.refused += not proper
        return proper

    def counts(self, _: TrainState) -> dict[str, int]:
        """Trajectories, and what was lost on the way."""
        return self.supervisor.counts()

    def close(self) -> None:
        self.supervisor.close()

    def parameter_lag(self) -> int:
        """The most updates that the learner is ahead of the parameters an action was chosen by."""
        return self.supervisor.most_lag()

    def _proper_batch(self, shards: int) -> tuple[Batch, Batch]:
        """The shapes and dtypes of a batch, and what its numbers stay below."""
        config, image = self.config, self.spec.image_shape
        capacity, dimensions = config.goal_buffer.capacity, self.measured
        goals = jax.eval_shape(
            lambda: GoalBuffer(jnp.zeros((capacity, *image), jnp.uint8), jnp.zeros((capacity, dimensions)))
        )
        replay = jax.eval_shape(lambda: empty_replay(config.learner.batch, 1, config.actor.horizon, image, dimensions))
        shapes: Any = jax.eval_shape(
            lambda goals, replay, key: draw(Memory(replay, goals), key, config, shards),
            goals,
            replay,
            jax.random.key(0),
        )
        rows = config.learner.batch // shards * (config.actor.horizon + 1 + shapes.extra_goals.shape[-4])
        below = jax.tree.map(lambda shape: 2 if shape.dtype == bool else 256, shapes)
        trajectories = below.trajectories._replace(actions=self.spec.actions, goal_slot=config.goal_buffer.capacity)
        in_table = dict.fromkeys(("goal_row", "achieved_row", "teacher_row"), rows)
        return shapes, below._replace(trajectories=trajectories, end=config.actor.horizon + 1, seed=2**32, **in_table)


def with_turns_worth_sending(config: Config, actors: int, image_shape: tuple[int, int, int]) -> Config:
    """An actor plays up to four goals in a turn, where that brings little: an order costs Ray some milliseconds."""
    environments, horizon = -(-config.actor.environments // actors), config.actor.horizon
    brought = environments * horizon * config.learner.replay_ratio * math.prod(image_shape)
    goals = max(1, min(4, int(TURN_BYTES / brought)))
    return replace(config, {"actor.steps_per_turn": config.actor.steps_per_turn or goals * horizon})


def refuse(config: Config, actors: int) -> None:
    """Mistakes that would show late."""
    if config.save_replay:
        raise UserError("--save-replay is for one machine: on a cluster the actors hold the replay")
    if config.actor.environments < actors:
        raise UserError(f"{actors} actors need an environment each: set --actor.environments to {actors} or more")
    if config.actor.environments < actors * config.actor.twins:
        raise UserError(
            f"{actors} actors need a group of {config.actor.twins} twins each: set more --actor.environments"
        )


def train(
    config: Config,
    cluster: str,
    actors: int | None = None,
    run: str | Path | None = None,
    console: Console | None = None,
) -> Path:
    """Trains a new agent on a Ray cluster, `local`, `auto` or HOST:PORT, and returns its run folder."""
    began, console = time.monotonic(), console or Console()
    folder = free_folder(run, config)
    with connect(cluster, actors) as actors:
        refuse(config, actors)
        console.print(f"{actors} actors with {config.actor.environments} environments of {config.env} …")
        with closing(ClusterLoop(config, actors, console)) as loop:
            session = Session(loop, loop.start(), folder, console, began)
            new_folder(folder.path, config)
            return session.spend()


def resume(
    run: str | Path,
    cluster: str,
    actors: int | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    console: Console | None = None,
) -> Path:
    """Goes on from the newest checkpoint of a run, whatever it was trained on, with fresh environments and replay."""
    began, console = time.monotonic(), console or Console()
    folder, config = resumed_folder(run, steps, minutes)
    refuse_if_not_resumable(folder)
    with connect(cluster, actors) as actors:
        refuse(config, actors)
        with closing(ClusterLoop(config, actors, console)) as loop:
            state = restore_state(folder, loop.start())
            session = Session(loop, state, folder, console, began, resumed=True)
            folder.keep(config)
            forget_final(folder)
            return session.spend()
