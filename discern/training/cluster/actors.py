"""Actors on a Ray cluster: each has environments and a replay of its own, and sends the batches to learn from."""

import math
from collections import deque
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from discern.agent.goal_buffer import GoalBuffer, substitute
from discern.agent.replay import Memory, empty_replay
from discern.config import Config, of_programs, replace
from discern.envs import make_env, opened
from discern.envs.base import measured
from discern.storage.state import Keys, TrainState
from discern.training.actors import SAMPLED, Learn, make_draw
from discern.training.collect import Collecting
from discern.training.update import shards_of
from discern.types import Batch, PRNGKey, Trajectories, UserError

TURN_BYTES = 8_000_000


class RayActors:
    """The workers of a cluster, and the learner's side of what they send."""

    def __init__(self, config: Config, actors: int, console: Console, supervisor: Any = None):
        from discern.training.cluster.supervisor import Supervisor  # Ray is an extra

        refuse(config, actors)
        with opened(make_env(config.env, 1, config)) as env:
            self.spec, self.measured = env.spec, measured(env)
        self.updates_per_call = config.learner.updates_per_call or 1  # None is 8 on an accelerator that acts too
        self.config = config = with_turns_worth_sending(
            replace(config, {"learner.updates_per_call": self.updates_per_call}), actors, self.spec.image_shape
        )
        self.shards = shards_of(config.learner.batch, jax.local_devices())
        self.supervisor = (supervisor or Supervisor)(config, actors, self.shards, console)
        self.substitute = jax.jit(lambda goals, one, key: substitute(goals, one, key, config.goal_buffer))
        self.keys = Keys(config.seed)
        self.proper = self._proper_batch()
        self.newest: deque[Trajectories] = deque(maxlen=-(-SAMPLED // (config.learner.batch * self.updates_per_call)))

    def batch_shapes(self) -> Batch:
        return self.proper[0]

    def start(self) -> tuple[Collecting, Memory, int]:
        openings = self.supervisor.start()
        capacity, shares = self.config.goal_buffer.capacity, [opening.goals for opening in openings]
        goals = jax.tree.map(lambda *parts: jnp.array(np.concatenate(parts)[:capacity]), *shares)
        replay: Any = None  # the workers'
        return None, Memory(replay, goals), sum(opening.steps for opening in openings)

    def turn(self, state: TrainState, learn: Learn) -> TrainState:
        """One worker's turn comes in, after the one before has been learned from and its worker asked for another.

        So nothing is asked of workers that the learner has no time for: it is they who wait for a slow learner.
        """
        self.supervisor.go_on(state.learner.params, state.memory.goals)
        played = self.supervisor.next()
        key, _ = self.keys.of_turn(state.turn)
        goals = self.consider(state.memory.goals, played.proposed, key)
        batches = [batch for batch in played.batches if self.accepts(batch)]
        for batch in batches:
            learn(batch)
            self.newest.append(batch.trajectories)
        self.supervisor.updates += len(batches) * self.updates_per_call
        return state._replace(
            memory=state.memory._replace(goals=goals),
            turn=state.turn + 1,
            steps=state.steps + played.steps,
            learning=state.learning or bool(batches),
        )

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

    def counts(self, state: TrainState) -> dict[str, int]:
        del state
        return self.supervisor.counts()

    def sample(self, state: TrainState, key: PRNGKey) -> Trajectories | None:
        """Those of the newest batches, which workers drew at random."""
        del state, key
        batch_axis = (self.updates_per_call > 1) + (self.shards > 1)

        def joined(*parts: np.ndarray) -> np.ndarray:
            return np.concatenate([part.reshape((-1, *part.shape[batch_axis + 1 :])) for part in parts])[:SAMPLED]

        return jax.tree.map(joined, *self.newest) if len(self.newest) == self.newest.maxlen else None

    def parameter_lag(self) -> int:
        return self.supervisor.most_lag()

    def close(self) -> None:
        self.supervisor.close()

    def _proper_batch(self) -> tuple[Batch, Batch]:
        """The shapes and dtypes of a batch, and what its numbers stay below."""
        config, image, dimensions = self.config, self.spec.image_shape, self.measured

        def memory() -> Memory:
            replay = empty_replay(config.learner.batch, 1, config.actor.horizon, image, dimensions)
            capacity = config.goal_buffer.capacity
            return Memory(
                replay, GoalBuffer(jnp.zeros((capacity, *image), jnp.uint8), jnp.zeros((capacity, dimensions)))
            )

        draw = make_draw(of_programs(config), self.shards, self.updates_per_call)
        shapes: Any = jax.eval_shape(lambda: draw(memory(), jax.random.key(0))[1])
        rows = config.learner.batch // self.shards * (config.actor.horizon + 1 + shapes.extra_goals.shape[-4])
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
