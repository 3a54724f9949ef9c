"""One decision rule: from what N environments show to N actions, everything recorded on the way."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int32, UInt8

from discern.agent.goal_buffer import GoalBuffer, consider, hand_over, propose
from discern.agent.networks import Imitator
from discern.agent.policy import ExtendedActions, Pursuit, act, begin_pursuit, extend_actions
from discern.agent.replay import Memory, begin, commit, write_action, write_observation
from discern.config import ActorConfig, Config
from discern.envs.base import attempts_of, where_rows
from discern.types import Array, Params, PRNGKey


class ActorState(NamedTuple):
    """What N environments are in the middle of."""

    pursuit: Pursuit  # its clock is the index of the coming observation in its trajectory
    slot: Int32[Array, " N"]  # the replay slot being filled
    goal_slot: Int32[Array, " N"]
    extended: ExtendedActions
    whole: Int32[Array, ""]  # trajectories finished so far
    dropped: Int32[Array, ""]  # partial trajectories lost to the end of an episode
    proposed: Int32[Array, ""]  # observations considered for the goal buffer so far


def initial_actor(imitator: Imitator, slot: Int32[Array, " N"]) -> ActorState:
    """Actors that will fill the given replay slots; their first observation must say is_first."""
    n = slot.shape[0]
    return ActorState(
        pursuit=begin_pursuit(jnp.zeros((n, imitator.config.features)), imitator.config.lstm),
        slot=slot,
        goal_slot=jnp.zeros(n, jnp.int32),
        extended=ExtendedActions(jnp.zeros(n, jnp.int32), jnp.zeros(n, jnp.int32)),
        whole=jnp.zeros((), jnp.int32),
        dropped=jnp.zeros((), jnp.int32),
        proposed=jnp.zeros((), jnp.int32),
    )


@cache
def exploration(config: ActorConfig) -> Float[Array, " N"]:
    """ε_i = base^(1 + exponent · i / (N − 1)), one for each environment (App. A1)."""
    position = jnp.linspace(0.0, 1.0, config.environments)
    return config.epsilon_base ** (1.0 + config.epsilon_exponent * position)


class Decider:
    """From an observation of N environments to N actions, everything recorded on the way."""

    def __init__(self, config: Config, imitator: Imitator):
        self.imitator = imitator
        self.horizon = config.actor.horizon
        self.ez_greedy = config.actor.ez_greedy
        self.goal_buffer = config.goal_buffer
        self.starts_are_controllable = attempts_of(config.actor) is not None

    def decide(
        self,
        params: Params,
        actor: ActorState,
        memory: Memory,
        seen: GoalBuffer,
        is_first: Bool[Array, " N"],
        controllable: Bool[Array, " N"],
        epsilon: Float[Array, " N"],
        key: PRNGKey,
    ) -> tuple[ActorState, Memory, Int32[Array, " N"]]:
        """From what N environments show to their actions.

        The observation after the T-th action closes a trajectory and opens the next: worlds are not reset
        between goals. One that says is_first opens a trajectory too, and what came before it is dropped. One that
        has begun where the world is not controllable begins anew until it is.
        """
        goal_key, propose_key, explore_key = jax.random.split(key, 3)
        clock = actor.pursuit.clock
        replay = write_observation(memory.replay, actor.slot, clock, seen, controllable)
        whole = (clock == self.horizon) & ~is_first
        dropped = is_first & (clock > 1)  # at 1 the trajectory began on an episode's last observation
        replay, slot = commit(replay, actor.slot, whole)

        starts = whole | is_first
        if not self.starts_are_controllable:
            starts |= ~controllable & (clock == 1)
        fresh = jax.random.randint(goal_key, starts.shape, 0, memory.goals.images.shape[0])
        goal_slot = jnp.where(starts, fresh, actor.goal_slot)
        goal = jax.tree.map(lambda x: x[goal_slot], memory.goals)
        replay = begin(replay, slot, starts, seen, goal, goal_slot)
        pursuit = self._new_pursuits(params, actor.pursuit, starts, goal.images)

        clock = pursuit.clock
        extended = actor.extended
        if self.ez_greedy is not None:
            extended = extend_actions(explore_key, extended, epsilon, self.imitator.core.actions, self.ez_greedy)
            epsilon = jnp.zeros_like(epsilon)
        pursuit, actions, _ = act(self.imitator, params, pursuit, seen.images, epsilon, explore_key, extended)
        replay = write_action(replay, slot, clock, actions)
        memory, proposed = self._propose(memory._replace(replay=replay), seen, controllable, propose_key)
        actor = ActorState(
            pursuit=pursuit,
            slot=slot,
            goal_slot=goal_slot,
            extended=extended._replace(left=jnp.maximum(0, extended.left - 1)),
            whole=actor.whole + whole.sum(dtype=jnp.int32),
            dropped=actor.dropped + dropped.sum(dtype=jnp.int32),
            proposed=actor.proposed + proposed,
        )
        return actor, memory, actions

    def _propose(
        self, memory: Memory, seen: GoalBuffer, controllable: Bool[Array, " N"], key: PRNGKey
    ) -> tuple[Memory, Int32[Array, ""]]:
        """Some of what is controllable may become a goal, here or where the goal buffer is kept; and how many."""
        propose_key, consider_key = jax.random.split(key)
        proposed = propose(propose_key, controllable, self.goal_buffer.p_replace)
        if memory.proposals is None:
            memory = memory._replace(goals=consider(memory.goals, seen, proposed, consider_key, self.goal_buffer))
        else:
            memory = memory._replace(proposals=hand_over(memory.proposals, seen, proposed))
        return memory, proposed.sum(dtype=jnp.int32)

    def _new_pursuits(
        self, params: Params, pursuit: Pursuit, starts: Bool[Array, " N"], goal: UInt8[Array, "N H W 3"]
    ) -> Pursuit:
        """A fresh pursuit where `starts`; on a CPU, goals go through the network only when there is a new one.

        An accelerator sees all goals faster than the host learns from it whether there is a new one.
        """

        def renew() -> Pursuit:
            fresh = begin_pursuit(self.imitator.features(params, goal), self.imitator.config.lstm)
            return Pursuit(*jax.tree.map(partial(where_rows, starts), fresh, pursuit))

        if jax.default_backend() != "cpu":
            return renew()
        return Pursuit(*jax.lax.cond(starts.any(), renew, lambda: pursuit))
