"""One actor of a cluster: environments, a replay and hindsight of its own, in a process of its own."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.agent.goal_buffer import GoalBuffer
from discern.agent.learner import Learner
from discern.agent.relabel import draw
from discern.agent.replay import Memory, empty_replay, refuse_if_too_large, sample
from discern.config import Config, replace
from discern.envs.base import measured
from discern.storage.state import Keys
from discern.training.acting import exploration
from discern.training.collect import Collecting, make_collector, make_worlds
from discern.types import Batch, Params


class Opening(NamedTuple):
    """What an actor's random play brings."""

    goals: GoalBuffer  # its share of the first goal buffer
    steps: int


class Played(NamedTuple):
    """What one turn of an actor brings to the learner; arrays are numpy's."""

    batches: list[Batch]  # relabelled, as many as the replay ratio asks for
    proposed: GoalBuffer  # observations to be considered for the goal buffer
    steps: int
    whole: int
    dropped: int


def share_of(config: Config, number: int, actors: int, life: int = 0) -> Config:
    """What is left for one of several actors, in its `life`-th life: its environments, replay, goals and seed.

    Its goal buffer is a copy of the learner's, which alone decides what enters it.
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
            "goal_buffer.p_replace": 0.0,
            "atari.threads": config.atari.threads or 1,
        },
    )


def ladder(config: Config, number: int, actors: int) -> jax.Array:
    """One actor's rungs of the whole run's ε: every so many, so that each actor has bold and careful ones."""
    return exploration(config.actor)[actors - 1 - number :: actors]


class Worker:
    """The parts of one actor, compiled; the learner asks it for one turn after the other."""

    def __init__(self, config: Config, number: int, actors: int, life: int = 0, shards: int = 1):
        self.config = share_of(config, number, actors, life)
        self.p_replace = config.goal_buffer.p_replace
        worlds = make_worlds(self.config)
        spec = worlds[0].spec
        sizes = (self.config.replay_capacity, self.config.actor.environments, self.config.actor.horizon)
        refuse_if_too_large(*sizes, spec.image_shape)
        imitator = Learner(self.config, spec).imitator
        self.collector = make_collector(self.config, worlds, imitator, ladder(config, number, actors))
        self.empty = jax.jit(lambda: empty_replay(*sizes, spec.image_shape, measured(worlds[0])))
        self.draw = jax.jit(lambda memory, key: draw(memory, key, config, shards))
        self.recent = jax.jit(_recent_observation)
        self.keys, self.chance = Keys(self.config.seed), np.random.default_rng(self.config.seed)
        self.collecting: Collecting = None
        self.goals_version = -1
        self.turns = self.unseen = 0
        self.owed = 0.0

    def start(self) -> Opening:
        """Random play."""
        key = jax.random.key(self.config.seed)
        self.collecting, goals, steps = self.collector.start(key, first_slot=self.config.replay_capacity)
        self.memory = Memory(self.empty(), goals)
        self.counts = self.collector.counts(self.collecting)
        return Opening(jax.device_get(goals), steps)

    def turn(self, params: Params, goals: GoalBuffer, goals_version: int) -> Played:
        """Every environment acts, and the batches that the learner owes these steps are drawn and relabelled."""
        act_key, learn_key = self.keys.of_turn(self.turns)
        if goals_version != self.goals_version:
            self.memory = self.memory._replace(goals=jax.tree.map(jnp.array, goals))  # a copy: acting donates it
            self.goals_version = goals_version
        params = jax.tree.map(jnp.array, params)
        self.collecting, self.memory = self.collector.turn(params, self.collecting, self.memory, act_key)
        self.turns += 1
        steps, learner = self.collector.steps_per_turn, self.config.learner
        if int(self.memory.replay.filled) >= learner.batch:
            self.owed += steps * learner.replay_ratio / (learner.batch * self.config.actor.horizon)
        drawn = [self.draw(self.memory, key) for key in jax.random.split(learn_key, math.floor(self.owed) + 1)[1:]]
        self.owed -= len(drawn)
        before, self.counts = self.counts, self.collector.counts(self.collecting)
        whole, dropped = (self.counts[name] - before[name] for name in ("trajectories", "dropped"))
        return Played(jax.device_get(drawn), self.proposed(whole), steps, whole, dropped)

    def proposed(self, whole: int) -> GoalBuffer:
        """As many of the newest trajectories' observations as p_replace picks."""
        self.unseen += whole
        count = min(int(self.memory.replay.filled), self.unseen)
        picked = self.chance.binomial(self.unseen * self.config.actor.horizon, self.p_replace)
        self.unseen = 0
        keys = jax.random.split(jax.random.key(int(self.chance.integers(2**31))), picked + 1)[1:]
        picked_from = [jax.device_get(self.recent(self.memory, count, key)) for key in keys]
        none = jax.tree.map(lambda x: np.zeros((0, *x.shape[1:]), x.dtype), self.memory.goals)
        return jax.tree.map(lambda *one: np.stack(one), *picked_from) if picked_from else none


def _recent_observation(memory: Memory, newest: jax.Array, key: jax.Array) -> GoalBuffer:
    """Any observation of the `newest` trajectories."""
    which, when = jax.random.split(key)
    trajectory = sample(memory.replay._replace(filled=newest), which, 1)
    at = jax.random.randint(when, (), 0, trajectory.observations.shape[1])
    return GoalBuffer(trajectory.observations[0, at], trajectory.measures[0, at])
