"""The two contracts of a world, and what both say about themselves."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from discern.config import ActorConfig
from discern.types import PRNGKey

Half = Literal["tune", "test"]  # of a goal set: to choose settings by, and to report
GOAL_SEEDS: dict[Half, int] = {"tune": 20_190_506, "test": 20_190_507}  # apart from those a run is likely to use


@dataclass(frozen=True)
class Dimension:
    """One scored quantity of a world; a goal is reached when every one is close to the goal's."""

    name: str
    low: float
    high: float
    wraps: bool = False


@dataclass(frozen=True)
class Attempts:
    """How N environments that begin their attempts in groups do so.

    Attempts last `horizon` steps: the last one says is_last, and the step after it ignores its actions and is the first
    of a new attempt. `twins` neighbours begin each attempt in the same state, with the same random numbers: with
    probability `p_restart` at an episode's start, else where one of them ended, drawn at random among those that are
    controllable. An episode that ends inside an attempt ends the attempt of its whole group.
    """

    horizon: int
    twins: int = 1
    p_restart: float = 0.0


def attempts_of(config: ActorConfig) -> Attempts | None:
    """How attempts begin; None: each goes on where the last one ended, on its own."""
    if config.twins == 1 and not config.p_restart:
        return None
    return Attempts(config.horizon, config.twins, config.p_restart)


@dataclass(frozen=True)
class EnvSpec:
    """What an agent must know of a world before it acts there."""

    name: str
    image_shape: tuple[int, int, int]
    actions: int
    dimensions: tuple[Dimension, ...] = ()
    unscored: str = "where its avatar is is not known"  # why there is no success rate where there is no dimension
    action_names: tuple[str, ...] = field(default=(), compare=False)  # for people; a world may have none to give


class DeviceEnv(Protocol):
    """A world of pure, unbatched functions that lives inside jit; hashable, as a frozen dataclass is."""

    @property
    def spec(self) -> EnvSpec: ...

    def __hash__(self) -> int: ...

    def reset(self, key: PRNGKey) -> Any:
        """A first state."""

    def step(self, state: Any, action: jax.Array, key: PRNGKey) -> tuple[Any, jax.Array]:
        """The next state, and whether it is the last of its episode (bool [])."""

    def observe(self, state: Any) -> jax.Array:
        """uint8 [H, W, 3]."""

    def measure(self, state: Any) -> jax.Array:
        """The scored dimensions, float32 [D]."""

    def goal_state(self, key: PRNGKey, index: jax.Array, count: int) -> Any:
        """State `index` of `count` that cover what the agent should be able to reach; the next `count` do so too, by
        other states."""


class HostStep(NamedTuple):
    """One step of N host environments; after `is_last` comes the first step of a new episode."""

    raw: Any  # numpy arrays with leading axis N, small: poses, screens
    is_first: np.ndarray  # bool [N]
    is_last: np.ndarray  # bool [N]
    controllable: np.ndarray | bool = True  # bool [N], whether the world heeds actions


class HostEnv(Protocol):
    """N environments that run on the CPU's threads while the accelerator does something else.

    `observe` is a pure function of `raw` and runs on the accelerator.
    """

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def size(self) -> int:
        """N."""

    def reset(self, seed: int) -> HostStep: ...

    def send(self, actions: np.ndarray) -> None:
        """Starts a step with int32 [N] and returns at once."""

    def recv(self) -> HostStep:
        """Waits for the step that `send` started; the next one may write over its `raw`."""

    def observe(self, raw: Any) -> jax.Array:
        """uint8 [N, H, W, 3]."""

    def close(self) -> None: ...


def measured(env: Any) -> int:
    """How many scored dimensions can be measured while the world runs."""
    return len(env.spec.dimensions) if hasattr(env, "measure") else 0


class ScoredHostEnv(HostEnv, Protocol):
    """Host environments in which it can be measured what was achieved."""

    @property
    def goal_sets(self) -> tuple[str, ...]:
        """The names of the world's fixed goal sets, the usual one first."""

    def goals(self, name: str, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Images uint8 [M, H, W, 3] and measures float32 [M, D] of a half of a goal set."""

    def measure(self, raw: Any) -> np.ndarray:
        """The scored dimensions, float32 [N, D]; NaN where there is nothing to measure."""


class Worlds(NamedTuple):
    """N copies of a DeviceEnv in flight."""

    state: Any
    is_first: jax.Array  # bool [N]
    is_last: jax.Array  # bool [N]
    age: jax.Array | None = None  # int32 [N], steps of the attempt so far, where attempts begin in groups
    is_over: jax.Array | None = None  # bool [N], whether the episode itself has ended, likewise


def reset_worlds(env: DeviceEnv, key: PRNGKey, n: int, attempts: Attempts | None = None) -> Worlds:
    """N fresh copies."""
    first, last = jnp.ones(n, bool), jnp.zeros(n, bool)
    if attempts is None:
        return Worlds(jax.vmap(env.reset)(jax.random.split(key, n)), first, last)
    return Worlds(jax.vmap(env.reset)(group_keys(key, n, attempts.twins)), first, last, jnp.zeros(n, jnp.int32), last)


def step_worlds(
    env: DeviceEnv, worlds: Worlds, actions: jax.Array, key: PRNGKey, attempts: Attempts | None = None
) -> Worlds:
    """Acts in every copy; one that has ended ignores its action and starts over, in groups where attempts do."""
    n = worlds.is_last.shape[0]
    twins = 1 if attempts is None else attempts.twins
    step_key, reset_key = jax.random.split(key)
    state, is_last = jax.vmap(env.step)(worlds.state, actions, group_keys(step_key, n, twins))
    fresh = jax.vmap(env.reset)(group_keys(reset_key, n, twins))
    over = worlds.is_last
    if attempts is None:
        state = jax.tree.map(partial(where_rows, over), fresh, state)
        return Worlds(state, over, is_last & ~over)
    assert worlds.age is not None
    start = next_starts(jax.random.fold_in(key, 2), worlds, fresh, attempts)
    state = jax.tree.map(partial(where_rows, over), start, state)
    age, is_over = jnp.where(over, 0, worlds.age + 1), is_last & ~over
    return Worlds(state, over, any_of_group(is_over | (age == attempts.horizon), twins), age, is_over)


def next_starts(key: PRNGKey, worlds: Worlds, fresh: Any, attempts: Attempts) -> Any:
    """States in which the next attempts begin: fresh ones, or for each group that of a member that can go on."""
    assert worlds.is_over is not None
    restart_key, leader_key = jax.random.split(key)
    n, twins = worlds.is_last.shape[0], attempts.twins
    can_lead = ~worlds.is_over.reshape((-1, twins))
    luck = jnp.where(can_lead, jax.random.uniform(leader_key, can_lead.shape), -1.0)
    leader = jnp.repeat(jnp.arange(0, n, twins) + luck.argmax(1), twins)
    restart = jax.random.bernoulli(restart_key, attempts.p_restart, (n // twins,)) | ~can_lead.any(1)
    gone_on = jax.tree.map(lambda x: x[leader], worlds.state)
    return jax.tree.map(partial(where_rows, jnp.repeat(restart, twins)), fresh, gone_on)


def group_keys(key: PRNGKey, n: int, twins: int) -> PRNGKey:
    """N keys, the same for the members of a group."""
    keys = jax.random.split(key, n // twins)
    return keys if twins == 1 else jnp.repeat(keys, twins, axis=0)


def any_of_group(mask: jax.Array, twins: int) -> jax.Array:
    """Whether it holds for any member of a group, for each member: bool [N]."""
    return jnp.repeat(mask.reshape((-1, twins)).any(1), twins)


def where_rows(mask: jax.Array, new: jax.Array, old: jax.Array) -> jax.Array:
    """Rows of `new` where the mask [N] holds, of `old` elsewhere: [N, ...]."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - 1)), new, old)


_reset = jax.jit(reset_worlds, static_argnums=(0, 2, 3))


@partial(jax.jit, static_argnums=(0, 5))
def _go_on(
    env: DeviceEnv, worlds: Worlds, actions: jax.Array, key: PRNGKey, steps: int, attempts: Attempts | None
) -> Worlds:
    return step_worlds(env, worlds, actions, jax.random.fold_in(key, steps), attempts)


@partial(jax.jit, static_argnums=0)
def _observe(env: DeviceEnv, state: Any) -> jax.Array:
    return jax.vmap(env.observe)(state)


@partial(jax.jit, static_argnums=0)
def _measure(env: DeviceEnv, state: Any) -> jax.Array:
    return jax.vmap(env.measure)(state)


class Hosted:
    """A DeviceEnv behind the HostEnv contract: raw is its state."""

    def __init__(self, env: DeviceEnv, n: int, attempts: Attempts | None = None):
        self.spec = env.spec
        self.size = n
        self._env = env
        self._attempts = attempts
        self._worlds: Worlds | None = None
        self._key = jax.random.key(0)
        self._steps = 0

    def reset(self, seed: int) -> HostStep:
        reset_key, self._key = jax.random.split(jax.random.key(seed))
        self._steps = 0
        self._worlds = _reset(self._env, reset_key, self.size, self._attempts)
        return self.recv()

    def keep(self) -> tuple[Worlds | None, int]:
        """The moment as it is, to go back to until the next reset."""
        return self._worlds, self._steps

    def go_back(self, kept: tuple[Worlds | None, int]) -> HostStep:
        self._worlds, self._steps = kept
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        if self._worlds is None:
            raise RuntimeError("send() before reset()")
        self._worlds = _go_on(self._env, self._worlds, actions, self._key, self._steps, self._attempts)
        self._steps += 1

    def recv(self) -> HostStep:
        if self._worlds is None:
            raise RuntimeError("recv() before reset()")
        return HostStep(*jax.device_get(self._worlds[:3]))

    def observe(self, raw: Any) -> jax.Array:
        return _observe(self._env, raw)

    def measure(self, raw: Any) -> np.ndarray:
        return np.asarray(_measure(self._env, raw))

    def close(self) -> None:
        self._worlds = None


def far_apart(points: np.ndarray, count: int) -> np.ndarray:
    """Which of the points [M, D], each the farthest from those chosen before it: int [count]."""
    chosen = [0]
    distance = np.linalg.norm(points - points[0], axis=1)
    while len(chosen) < count:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.array(chosen)
