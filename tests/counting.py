"""A test world whose pixels encode (environment, episode, step): it proves the plumbing."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs.base import Dimension, EnvSpec, Hosted
from discern.types import PRNGKey


class CountingState(NamedTuple):
    environment: jax.Array  # int32 [], drawn at random: an identity, kept in every pixel
    step: jax.Array  # int32 []
    last_action: jax.Array  # int32 []


@dataclass(frozen=True)
class Counting:
    """An episode has `length` steps, or none ends where `length` is 0; the pixel is (identity, step, action)."""

    length: int = 0
    size: int = 8
    name: str = "counting"

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(self.name, (self.size, self.size, 3), 3, (Dimension("step", 0.0, 255.0),))

    def reset(self, key: PRNGKey) -> CountingState:
        identity = jax.random.randint(key, (), 0, 256)
        return CountingState(identity, jnp.int32(0), jnp.int32(255))

    def step(self, state: CountingState, action: jax.Array, key: PRNGKey) -> tuple[CountingState, jax.Array]:
        del key
        step = state.step + 1
        return CountingState(state.environment, step, action.astype(jnp.int32)), step == (self.length or -1)

    def observe(self, state: CountingState) -> jax.Array:
        pixel = jnp.stack([state.environment, state.step % 256, state.last_action]).astype(jnp.uint8)
        return jnp.broadcast_to(pixel, (self.size, self.size, 3))

    def measure(self, state: CountingState) -> jax.Array:
        return state.step[None].astype(jnp.float32)

    def goal_state(self, key: PRNGKey, index: jax.Array, count: int) -> CountingState:
        del count
        return self.reset(key)._replace(step=index.astype(jnp.int32))


class Unruly(Hosted):
    """Is not controllable in the first four observations of an episode."""

    def recv(self):
        step = super().recv()
        images = np.asarray(self.observe(step.raw))
        return step._replace(controllable=images[:, 0, 0, 1] >= 4)
