"""Fixed sets of held-out goals: made by a deterministic generator, known by their hash."""

import hashlib
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs import Env, is_host
from discern.types import UserError

SEED = 20_190_506  # apart from every seed a run is likely to use: these goals are held out


class GoalSet(NamedTuple):
    name: str
    images: np.ndarray  # uint8 [M, H, W, 3]
    measures: np.ndarray  # float32 [M, D], the scored dimensions of each goal
    digest: str


def goal_set(env: Env, name: str = "even", count: int = 100) -> GoalSet:
    """`count` goals of the world. `even`: spread evenly over what can be reached."""
    if name != "even":
        raise UserError(f"{env.spec.name} has no goal set '{name}'; it has: even")
    if is_host(env):
        raise UserError(f"{env.spec.name} has no goal sets")

    @jax.jit
    def make() -> tuple[jax.Array, jax.Array]:
        keys = jax.random.split(jax.random.key(SEED), count)
        states = jax.vmap(lambda key, index: env.goal_state(key, index, count))(keys, jnp.arange(count))
        return jax.vmap(env.observe)(states), jax.vmap(env.measure)(states)

    with jax.default_device(jax.devices("cpu")[0]):  # the same pixels whatever the accelerator
        images, measures = jax.device_get(make())
    digest = hashlib.sha256(images.tobytes() + measures.astype(np.float32).tobytes()).hexdigest()[:16]
    return GoalSet(name, images, measures, digest)
