"""Fixed sets of held-out goals: made by a deterministic generator, known by their hash."""

import hashlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs import DeviceEnv, ScoredEnv, is_host
from discern.types import UserError

SEED = 20_190_506  # apart from every seed a run is likely to use: these goals are held out


class GoalSet(NamedTuple):
    name: str
    images: np.ndarray  # uint8 [M, H, W, 3]
    measures: np.ndarray  # float32 [M, D], the scored dimensions of each goal
    digest: str


def goal_set(env: ScoredEnv, name: str | None = None, count: int = 100) -> GoalSet:
    """`count` goals of the world, by default of its usual set. `even`: spread evenly over what can be reached."""
    names = env.goal_sets if is_host(env) else ("even",)
    name = name or names[0]
    if name not in names:
        raise UserError(f"{env.spec.name} has no goal set '{name}'; it has: {', '.join(names)}")
    images, measures = env.goals(name, count) if is_host(env) else _cover(env, count)
    digest = hashlib.sha256(images.tobytes() + measures.astype(np.float32).tobytes()).hexdigest()[:16]
    return GoalSet(name, images, measures, digest)


def _cover(env: DeviceEnv, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and measures of states that cover what can be reached."""

    @jax.jit
    def make() -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(jax.random.key(SEED), count)
        states = jax.vmap(lambda key, index: env.goal_state(key, index, count))(keys, jnp.arange(count))
        return jax.vmap(env.observe)(states), jax.vmap(env.measure)(states)

    with jax.default_device(jax.devices("cpu")[0]):  # the same pixels whatever the accelerator
        return jax.device_get(make())
