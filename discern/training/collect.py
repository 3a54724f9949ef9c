"""Collecting trajectories, in two ways: inside jit, and beside host environments."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Float32, Int32

from discern.agent.goal_buffer import GoalBuffer
from discern.agent.networks import Imitator
from discern.agent.replay import Memory
from discern.config import ActorConfig, Config, of_programs
from discern.envs import DeviceEnv, Env, HostEnv, HostStep, is_host, make_env
from discern.envs.base import Hosted, ScoredHostEnv, Worlds, attempts_of, measured, reset_worlds, step_worlds
from discern.envs.processes import evenly
from discern.training.acting import ActorState, Decider, exploration, initial_actor
from discern.types import Array, Params, PRNGKey

# to try Triton on every matrix product makes compiling for a GPU three times as long, and nothing faster
COMPILING: dict[str, Any] = {"xla_gpu_enable_triton_gemm": False}


OnProgress = Callable[[float], None]  # of the part of a turn that is done
Acting = tuple[Worlds, ActorState, Memory]


class DeviceCollector:
    """Acts fully inside jit; its state holds the worlds too, so a checkpoint can hold it."""

    def __init__(self, config: Config, env: DeviceEnv, imitator: Imitator, epsilon: jax.Array | None = None):
        self.config, self.env, self.imitator = config.actor, env, imitator
        self.epsilon = exploration(config.actor) if epsilon is None else epsilon
        self.steps_per_turn = steps_per_turn(config.actor) * config.actor.environments
        self.programs = device_programs(of_programs(config), env, imitator)

    def start(self, key: PRNGKey, first_slot: int) -> tuple[tuple[Worlds, ActorState], GoalBuffer, int]:
        """Fresh worlds after random play, the goal buffer it filled, and the agent steps it took."""
        return *self.programs.start(key, first_slot), self.programs.warm_up

    def turn(
        self, params: Params, state: tuple[Worlds, ActorState], memory: Memory, key: PRNGKey
    ) -> tuple[tuple[Worlds, ActorState], Memory]:
        """Every environment makes its steps of a turn."""
        return self.programs.turn(params, state, memory, key, self.epsilon)

    def counts(self, state: tuple[Worlds, ActorState]) -> dict[str, int]:
        return counts_of([state[1]])

    def finish(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Nothing to close."""


class DevicePrograms(NamedTuple):
    """What a DeviceCollector does, compiled."""

    start: Callable[..., tuple[tuple[Worlds, ActorState], GoalBuffer]]
    turn: Callable[..., tuple[tuple[Worlds, ActorState], Memory]]
    warm_up: int  # agent steps of a start


@lru_cache(maxsize=16)
def device_programs(config: Config, env: DeviceEnv, imitator: Imitator) -> DevicePrograms:
    """The programs of all runs in a world whose configs differ in no program."""
    attempts, decider, goals = attempts_of(config.actor), Decider(config, imitator), config.goal_buffer.capacity
    n, rounds, length = _warm_up_plan(config.actor, goals)

    def look(worlds: Worlds) -> GoalBuffer:
        return GoalBuffer(jax.vmap(env.observe)(worlds.state), jax.vmap(env.measure)(worlds.state))

    def play(worlds: Worlds, key: PRNGKey) -> tuple[Worlds, None]:
        act_key, step_key = jax.random.split(key)
        actions = jax.random.randint(act_key, (n,), 0, env.spec.actions)
        return step_worlds(env, worlds, actions, step_key, attempts), None

    def play_and_look(worlds: Worlds, key: PRNGKey) -> tuple[Worlds, GoalBuffer]:
        worlds, _ = jax.lax.scan(play, worlds, jax.random.split(key, length))
        return worlds, look(worlds)

    @jax.jit
    def start(key: PRNGKey, first_slot: int) -> tuple[tuple[Worlds, ActorState], GoalBuffer]:
        reset_key, play_key = jax.random.split(key)
        worlds = reset_worlds(env, reset_key, n, attempts)
        worlds, seen = jax.lax.scan(play_and_look, worlds, jax.random.split(play_key, rounds))
        worlds = worlds._replace(is_first=jnp.ones(n, bool))
        if attempts:  # none of those under way began with a trajectory
            worlds = worlds._replace(is_last=jnp.ones(n, bool))
        actor = initial_actor(imitator, first_slot + jnp.arange(n, dtype=jnp.int32))
        return (worlds, actor), jax.tree.map(lambda x: x.reshape((-1, *x.shape[2:]))[:goals], seen)

    @partial(jax.jit, donate_argnums=(1, 2), compiler_options=COMPILING)
    def turn(
        params: Params, state: tuple[Worlds, ActorState], memory: Memory, key: PRNGKey, epsilon: Float[Array, " N"]
    ) -> tuple[tuple[Worlds, ActorState], Memory]:
        def one(carry: Acting, key: PRNGKey) -> tuple[Acting, None]:
            worlds, actor, memory = carry
            decide_key, step_key = jax.random.split(key)
            controllable = jnp.ones_like(worlds.is_first)
            actor, memory, actions = decider.decide(
                params, actor, memory, look(worlds), worlds.is_first, controllable, epsilon, decide_key
            )
            return (step_worlds(env, worlds, actions, step_key, attempts), actor, memory), None

        steps = steps_per_turn(config.actor)
        (worlds, actor, memory), _ = jax.lax.scan(one, (*state, memory), jax.random.split(key, steps))
        return (worlds, actor), memory

    return DevicePrograms(start, turn, n * rounds * length)


def steps_per_turn(config: ActorConfig) -> int:
    """Of each environment that lives inside jit."""
    return config.steps_per_turn or config.horizon


class Arrival(NamedTuple):
    """What a group of host environments brings to the accelerator."""

    raw: Any
    measures: Float32[Array, "N D"]
    is_first: Bool[Array, " N"]
    controllable: Bool[Array, " N"]


class HostCollector:
    """Acts in groups of host environments by turns: while one group's step is decided the others are stepping.

    A thread for each group takes its actions from the accelerator, waits for its environments, and copies what they
    return back to the accelerator.
    """

    def __init__(self, config: Config, groups: list[HostEnv], imitator: Imitator, epsilon: jax.Array | None = None):
        self.config = config.actor
        self.seed = config.seed
        self.groups = groups
        self.imitator = imitator
        self.goals = config.goal_buffer.capacity
        self.length = self.config.steps_per_turn or 1
        self.steps_per_turn = self.length * self.config.environments
        self.splits = np.cumsum([group.size for group in groups])[:-1].tolist()
        self.epsilons = jnp.split(exploration(self.config) if epsilon is None else epsilon, self.splits)
        self.threads = ThreadPoolExecutor(len(groups), "receiver")
        self.arriving: dict[int, Future[Arrival]] = {}  # by group, the one that left first in front
        observe, decider = groups[0].observe, Decider(config, imitator)

        @partial(jax.jit, donate_argnums=(1, 2), compiler_options=COMPILING)
        def decide(
            params: Params, actor: ActorState, memory: Memory, step: Arrival, epsilon: Float[Array, " N"], key: PRNGKey
        ) -> tuple[PRNGKey, ActorState, Memory, Int32[Array, " N"]]:
            key, own_key = jax.random.split(key)
            seen = GoalBuffer(observe(step.raw), step.measures)
            return key, *decider.decide(params, actor, memory, seen, step.is_first, step.controllable, epsilon, own_key)

        self.decide, self.observe = decide, jax.jit(observe)

    def start(self, key: PRNGKey, first_slot: int) -> tuple[list[ActorState], GoalBuffer, int]:
        """Fresh environments after random play, the goal buffer it filled, and the agent steps it took."""
        n, rounds, length = _warm_up_plan(self.config, self.goals)
        del key  # host environments are seeded by number
        chance = np.random.default_rng(self.seed)
        steps = [group.reset(self.seed + 10_000 * i) for i, group in enumerate(self.groups)]
        seen, measures, controllable = [], [], []
        for _ in range(rounds):
            for _ in range(length):
                for group in self.groups:
                    group.send(chance.integers(0, group.spec.actions, group.size, dtype=np.int32))
                steps = [group.recv() for group in self.groups]
            seen += jax.block_until_ready([self.observe(step.raw) for step in steps])  # raw is soon written over
            measures += [_measures(group, step) for group, step in zip(self.groups, steps, strict=True)]
            controllable += [np.broadcast_to(step.controllable, step.is_first.shape) for step in steps]
        self.enter(steps)
        slots = jnp.split(first_slot + jnp.arange(n, dtype=jnp.int32), self.splits)
        actors = [initial_actor(self.imitator, own) for own in slots]
        usable = np.flatnonzero(np.concatenate(controllable))
        chosen = np.resize(usable if len(usable) else np.arange(n * rounds), self.goals)
        goals = GoalBuffer(jnp.concatenate(seen)[chosen], jnp.asarray(np.concatenate(measures)[chosen]))
        return actors, goals, n * rounds * length

    def enter(self, steps: list[HostStep]) -> None:
        """Goes on from what the groups show now, as from an episode's first observation."""
        first = [step._replace(is_first=np.ones_like(step.is_first)) for step in steps]
        self.arriving = {
            i: self.threads.submit(_on_accelerator, group, step)
            for i, (group, step) in enumerate(zip(self.groups, first, strict=True))
        }

    def turn(
        self,
        params: Params,
        state: list[ActorState],
        memory: Memory,
        key: PRNGKey,
        on_progress: OnProgress = lambda part: None,
    ) -> tuple[list[ActorState], Memory]:
        """Every environment makes `length` steps; out of order a group may make one more and another one less.

        Keys stay on the accelerator: the smallest copy to it would queue behind the screens on their way there.
        `on_progress` is told after each group what part of the turn is done.
        """
        state = list(state)
        decisions = self.length * len(self.groups)
        for decided in range(decisions):
            i = self._next_group()
            step = self.arriving.pop(i).result()
            key, state[i], memory, actions = self.decide(params, state[i], memory, step, self.epsilons[i], key)
            self.arriving[i] = self.threads.submit(_step, self.groups[i], actions)
            on_progress((decided + 1) / decisions)
        return state, memory

    def _next_group(self) -> int:
        """The group that has been away longest; out of order, of those that are back."""
        if not self.config.in_order:
            wait(self.arriving.values(), return_when=FIRST_COMPLETED)
        return next(i for i, step in self.arriving.items() if self.config.in_order or step.done())

    def counts(self, state: list[ActorState]) -> dict[str, int]:
        return counts_of(state)

    def finish(self) -> None:
        """Waits for the steps under way, and forgets them."""
        wait(self.arriving.values())
        self.arriving = {}

    def close(self) -> None:
        self.finish()
        self.threads.shutdown()
        for group in self.groups:
            group.close()


def _step(group: HostEnv, actions: jax.Array) -> Arrival:
    group.send(np.asarray(actions))
    return _on_accelerator(group, group.recv())


def _on_accelerator(group: HostEnv, step: HostStep) -> Arrival:
    controllable = np.broadcast_to(step.controllable, step.is_first.shape)
    return Arrival(*jax.device_put((step.raw, _measures(group, step), step.is_first, controllable)))


def _measures(group: HostEnv, step: HostStep) -> np.ndarray:
    """The scored dimensions where the world tells them: float32 [N, D]."""
    if not measured(group):
        return np.zeros((group.size, 0), np.float32)
    return cast(ScoredHostEnv, group).measure(step.raw)


def counts_of(actors: list[ActorState]) -> dict[str, int]:
    """Trajectories finished, partial ones dropped, and observations proposed as goals."""
    return {
        "trajectories": sum(int(actor.whole) for actor in actors),
        "dropped": sum(int(actor.dropped) for actor in actors),
        "proposed": sum(int(actor.proposed) for actor in actors),
    }


def _warm_up_plan(config: ActorConfig, goals: int) -> tuple[int, int, int]:
    """Environments, rounds and random steps a round: N observations enter the goal buffer after each round."""
    return config.environments, -(-goals // config.environments), config.warm_up or config.horizon


Collector = DeviceCollector | HostCollector
Collecting = Any  # a collector's state: (Worlds, ActorState), or one ActorState for each group


def make_worlds(config: Config) -> list[Env]:
    """One world that lives inside jit; or groups of host environments that take turns."""
    twins, whole = config.actor.twins, config.actor.environments // config.actor.twins
    sizes = [twins * size for size in evenly(whole, min(config.actor.host_groups, whole))[::-1]]
    attempts = attempts_of(config.actor)
    first = make_env(config.env, sizes[0], config, attempts)
    if is_host(first):
        return [first, *(make_env(config.env, size, config, attempts) for size in sizes[1:])]
    return [Hosted(first, size, attempts) for size in sizes] if config.actor.host else [first]


def make_collector(
    config: Config, worlds: list[Env], imitator: Imitator, epsilon: jax.Array | None = None
) -> Collector:
    """The way to act that fits the worlds, with an ε [N] for each environment if not the config's."""
    groups = [world for world in worlds if is_host(world)]
    if groups:
        return HostCollector(config, groups, imitator, epsilon)
    return DeviceCollector(config, cast(DeviceEnv, worlds[0]), imitator, epsilon)
