"""Whoever acts for a learner, and how much the learner is given to learn for their steps."""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Protocol

import jax
import jax.numpy as jnp

from discern.agent.goal_buffer import GoalBuffer
from discern.agent.learner import shared_learner
from discern.agent.relabel import draw
from discern.agent.replay import Memory, empty_replay, refuse_if_too_large, sample
from discern.config import Config, of_programs
from discern.envs import is_host
from discern.envs.base import EnvSpec, measured
from discern.storage.state import Keys, TrainState
from discern.training.collect import Collecting, HostCollector, make_collector, make_worlds
from discern.types import Batch, PRNGKey, Trajectories

SAMPLED = 64  # trajectories, to probe what can be seen in them

Learn = Callable[[Batch], None]

new_replay = jax.jit(empty_replay, static_argnums=(0, 1, 2, 3, 4))
draw_some = jax.jit(partial(sample, batch=SAMPLED))


class Actors(Protocol):
    """The environments of this process, or of a cluster's workers, each with a replay of its own."""

    config: Config
    spec: EnvSpec
    shards: int  # of a batch
    updates_per_call: int  # as many batches are stacked in one

    def batch_shapes(self) -> Batch:
        """The shapes and dtypes of what `learn` will get; what draws it here is compiled."""

    def start(self) -> tuple[Collecting, Memory, int]:
        """Random play: who is where, the goal buffer it filled, and the agent steps it took."""

    def turn(self, state: TrainState, learn: Learn) -> TrainState:
        """Environments act, and `learn` gets the batches that the replay ratio asks for these steps."""

    def counts(self, state: TrainState) -> dict[str, int]:
        """Trajectories finished, partial ones dropped, observations proposed as goals; and what was lost on the way."""

    def sample(self, state: TrainState, key: PRNGKey) -> Trajectories | None:
        """Some of the replayed trajectories, once there are any."""

    def parameter_lag(self) -> int:
        """The most updates that the learner is ahead of the parameters an action was chosen by."""

    def close(self) -> None: ...


class LocalActors:
    """The environments of this process, with ε [N] if not the config's."""

    def __init__(self, config: Config, epsilon: jax.Array | None = None, shards: int = 1):
        self.config, self.shards = config, shards
        worlds = make_worlds(config)
        env = worlds[0]
        self.spec = env.spec
        sizes = (config.replay_capacity, config.actor.environments, config.actor.horizon, self.spec.image_shape)
        refuse_if_too_large(*sizes)
        self.measured = measured(env)
        self.empty = partial(new_replay, *sizes, self.measured)
        self.collector = make_collector(config, worlds, shared_learner(config, self.spec).imitator, epsilon)
        one_by_one = jax.default_backend() == "cpu" or is_host(env)  # acting on the host waits for no long call
        self.updates_per_call = config.learner.updates_per_call or (1 if one_by_one else 8)
        trained_per_update = config.learner.batch * config.actor.horizon
        self.owed_per_turn = self.collector.steps_per_turn * config.learner.replay_ratio / trained_per_update
        self.draw = make_draw(of_programs(config), shards, self.updates_per_call)
        self.keys = Keys(config.seed)

    def batch_shapes(self) -> Batch:
        goals = (self.config.goal_buffer.capacity, *self.spec.image_shape)

        def memory() -> Memory:
            return Memory(self.empty(), GoalBuffer(jnp.zeros(goals, jnp.uint8), jnp.zeros((goals[0], self.measured))))

        inputs = (jax.eval_shape(memory), jax.random.key(0))
        self.draw.lower(*inputs).compile()
        batch: Batch = jax.eval_shape(self.draw, *inputs)[1]
        return batch

    def start(self) -> tuple[Collecting, Memory, int]:
        key = jax.random.fold_in(jax.random.key(self.config.seed), 0)
        collecting, goals, steps = self.collector.start(key, first_slot=self.config.replay_capacity)
        return collecting, Memory(self.empty(), goals), steps

    def turn(self, state: TrainState, learn: Learn) -> TrainState:
        """Every environment acts.

        Beside host environments batches are drawn first and given out along the turn, so that no environment waits for
        many updates in a row.
        """
        act_key, learn_key = self.keys.of_turn(state.turn)
        learning = state.learning or int(state.memory.replay.filled) >= self.config.learner.batch
        owed = state.updates_owed + (self.owed_per_turn if learning else 0.0)
        calls = int(owed / self.updates_per_call)
        acting = (state.learner.params, state.collecting, state.memory, act_key)
        collecting: Collecting
        if isinstance(self.collector, HostCollector):
            batches = self.batches(state.memory, learn_key, calls)

            def keep_up(done: float) -> None:
                while len(batches) > calls - math.ceil(done * calls):
                    learn(batches.pop(0))

            collecting, memory = self.collector.turn(*acting, keep_up)
        else:
            collecting, memory = self.collector.turn(*acting)
            for batch in self.batches(memory, learn_key, calls):
                learn(batch)
        return state._replace(
            collecting=collecting,
            memory=memory,
            turn=state.turn + 1,
            steps=state.steps + self.collector.steps_per_turn,
            updates_owed=owed - calls * self.updates_per_call,
            learning=learning,
        )

    def batches(self, memory: Memory, key: PRNGKey, calls: int) -> list[Batch]:
        """What the updates of one turn train on."""
        drawn = []
        for _ in range(calls):
            key, batch = self.draw(memory, key)
            drawn.append(batch)
        return drawn

    def counts(self, state: TrainState) -> dict[str, int]:
        return self.collector.counts(state.collecting)

    def sample(self, state: TrainState, key: PRNGKey) -> Trajectories | None:
        return draw_some(state.memory.replay, key) if int(state.memory.replay.filled) else None

    def parameter_lag(self) -> int:
        return math.ceil(self.owed_per_turn / self.updates_per_call) * self.updates_per_call

    def close(self) -> None:
        self.collector.close()


@lru_cache(maxsize=16)
def make_draw(config: Config, shards: int, updates_per_call: int) -> jax.stages.Wrapped:
    """From a key to the next one and the batches of one call, compiled; they are stacked where there are several."""

    def of_call(memory: Memory, key: PRNGKey) -> tuple[PRNGKey, Batch]:
        key, own_key = jax.random.split(key)
        if updates_per_call == 1:
            return key, draw(memory, own_key, config, shards)
        keys = jax.random.split(own_key, updates_per_call)
        return key, jax.vmap(lambda key: draw(memory, key, config, shards))(keys)

    return jax.jit(of_call)
