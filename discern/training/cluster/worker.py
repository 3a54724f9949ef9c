"""One actor of a cluster: environments, a replay and hindsight of its own, in a process of its own."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from discern.agent.goal_buffer import GoalBuffer, no_proposals
from discern.config import Config, replace
from discern.storage.state import TrainState
from discern.training.acting import exploration
from discern.training.actors import LocalActors
from discern.types import Batch, LearnerState, Params


class Opening(NamedTuple):
    """What a worker's random play brings."""

    goals: GoalBuffer  # its share of the first goal buffer
    steps: int
    most_updates: int  # that one of its turns will bring


class Played(NamedTuple):
    """What one turn of a worker brings to the learner; arrays are numpy's."""

    batches: list[Batch]  # relabelled, as many as the replay ratio asks for
    proposed: GoalBuffer  # observations to be considered for the goal buffer
    steps: int
    counts: dict[str, int]  # of this turn


def share_of(config: Config, number: int, actors: int, life: int = 0) -> Config:
    """What is left for one of several actors, in its `life`-th life: its environments, replay, goals and seed.

    Its goal buffer is a copy of the learner's, which alone decides what of the worker's proposals enters it.
    """
    twins = config.actor.twins
    environments = twins * ((config.actor.environments // twins + number) // actors)
    return replace(
        config,
        {
            "seed": (config.seed + 100_000 * (1 + number + actors * life)) % 2**30,
            "replay_capacity": twins
            * (max(config.replay_capacity // actors, environments, config.learner.batch) // twins),
            "actor.environments": environments,
            "actor.steps_per_turn": config.actor.steps_per_turn or config.actor.horizon,
            "goal_buffer.capacity": max(
                -(-config.goal_buffer.capacity // actors), max(config.reward.decoys, config.reward.decoy_pool or 0) + 1
            ),
            "atari.threads": config.atari.threads or 1,
        },
    )


def ladder(config: Config, number: int, actors: int) -> jax.Array:
    """One actor's rungs of the whole run's ε: every so many, so that each actor has bold and careful ones."""
    return exploration(config.actor)[actors - 1 - number :: actors]


class Worker:
    """Actors of a process of their own; the learner asks them for one turn after the other."""

    def __init__(self, config: Config, number: int, actors: int, life: int = 0, shards: int = 1):
        self.config = share_of(config, number, actors, life)
        self.actors = LocalActors(self.config, ladder(config, number, actors), shards)
        self.goals_version = -1

    def start(self) -> Opening:
        """Random play."""
        collecting, memory, steps = self.actors.start()
        self.state = TrainState(only_acting(None), collecting, memory, steps=steps)
        return Opening(jax.device_get(memory.goals), steps, self.actors.parameter_lag())

    def turn(self, params: Params, goals: GoalBuffer, goals_version: int) -> Played:
        """Every environment acts, and the batches that the learner owes these steps are drawn and relabelled."""
        before, memory = self.state, self.state.memory
        if goals_version != self.goals_version:
            memory = memory._replace(goals=jax.tree.map(jnp.array, goals))  # a copy: acting donates it
            self.goals_version = goals_version
        steps = self.actors.collector.steps_per_turn
        memory = memory._replace(proposals=no_proposals(steps, memory.goals, self.config.goal_buffer.p_replace))
        learner = only_acting(jax.tree.map(jnp.array, params))
        counted = self.actors.counts(before)
        batches: list[Batch] = []
        self.state = self.actors.turn(before._replace(learner=learner, memory=memory), batches.append)
        counts = {name: count - counted[name] for name, count in self.actors.counts(self.state).items()}
        waiting = jax.device_get(self.state.memory.proposals)
        proposed = jax.tree.map(lambda x: x[: waiting.filled], waiting.seen)
        return Played(jax.device_get(batches), proposed, self.state.steps - before.steps, counts)


def only_acting(params: Params) -> LearnerState:
    """What a worker knows of the learner."""
    return LearnerState(params, target_params=None, ema=None, optimiser=None, updates=jnp.zeros((), jnp.int32))
