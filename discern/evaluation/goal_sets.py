"""Fixed sets of held-out goals: made by a deterministic generator, known by their hash.

Each set has two halves that share no goal. `tune` is what a training curve shows and settings may be chosen by; `test`
is for what is reported. They come from the same generator with other seeds (`GOAL_SEEDS`).
"""

import hashlib
from functools import partial
from typing import NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs import DeviceEnv, ScoredEnv, is_host
from discern.envs.base import GOAL_SEEDS, Half
from discern.types import UserError


class GoalSet(NamedTuple):
    name: str
    images: np.ndarray  # uint8 [M, H, W, 3]
    measures: np.ndarray  # float32 [M, D], the scored dimensions of each goal
    digest: str


def goal_set(env: ScoredEnv, name: str | None = None, count: int = 100) -> GoalSet:
    """`count` goals of a half: NAME:tune, NAME:test, or NAME for both halves, tune first.

    A half alone is that of the world's usual set, whose test half is the default.
    """
    names, halves = env.goal_sets if is_host(env) else ("even",), get_args(Half)
    name = name or "test"
    base, _, half = (f"{names[0]}:{name}" if name in halves else name).partition(":")
    if base not in names or half not in ("", *halves):
        each = "each whole, or its half with :tune or :test"
        raise UserError(f"{env.spec.name} has no goal set '{name}'; it has: {', '.join(names)}, {each}")
    made = [
        env.goals(base, one, count) if is_host(env) else _cover(env, one, count) for one in halves if half in ("", one)
    ]
    images, measures = (np.concatenate(parts) for parts in zip(*made, strict=True))
    digest = hashlib.sha256(images.tobytes() + measures.astype(np.float32).tobytes()).hexdigest()[:16]
    return GoalSet(f"{base}:{half}" if half else base, images, measures, digest)


def _cover(env: DeviceEnv, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images and measures of states that cover what can be reached."""
    with jax.default_device(jax.devices("cpu")[0]):  # the same pixels whatever the accelerator
        return jax.device_get(_covering(env, half, count))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _covering(env: DeviceEnv, half: Half, count: int) -> tuple[jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(GOAL_SEEDS[half]), count)
    index = jnp.arange(count) + (0 if half == "tune" else count)
    states = jax.vmap(lambda key, index: env.goal_state(key, index, count))(keys, index)
    return jax.vmap(env.observe)(states), jax.vmap(env.measure)(states)
