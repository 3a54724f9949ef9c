"""A dot to move, among discs that move by themselves; and, if wanted, a slider to move too."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs.base import Dimension, EnvSpec
from discern.types import PRNGKey

MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [0, 0], [0, 0]], np.float32)
MOVE_NAMES = ("stay", "right", "left", "down", "up", "slider right", "slider left")
SLIDES = np.array([0, 0, 0, 0, 0, 1, -1], np.float32)
BACKGROUND = np.array([24, 24, 32], np.float32)
SLIDER = np.array([255, 255, 255], np.float32)
DOT = np.array([255, 220, 60], np.float32)
DISTRACTORS = np.array([[230, 80, 90], [80, 130, 240], [90, 200, 120], [200, 110, 220], [90, 210, 220]], np.float32)


class ArenaState(NamedTuple):
    dot: jax.Array  # float32 [2], x and y in [0, 1]
    distractors: jax.Array  # float32 [D, 2]
    velocities: jax.Array  # float32 [D, 2]
    slider: jax.Array  # float32 [0 or 1], in [0, 1]


@dataclass(frozen=True)
class Arena:
    """Five actions move the dot, two more the slider at the lower edge; the distractors bounce; nothing ever ends."""

    size: int = 84
    stride: float = 0.08
    radius: float = 0.06
    distractors: int = 3
    speed: float = 0.04
    slider: bool = False
    name: str = "arena"

    @property
    def spec(self) -> EnvSpec:
        names, actions = (("x", "y", "slider"), 7) if self.slider else (("x", "y"), 5)
        scored, moves = tuple(Dimension(name, 0.0, 1.0) for name in names), MOVE_NAMES[:actions]
        return EnvSpec(self.name, (self.size, self.size, 3), actions, scored, action_names=moves)

    def reset(self, key: PRNGKey) -> ArenaState:
        dot_key, place_key, way_key = jax.random.split(key, 3)
        angle = jax.random.uniform(way_key, (self.distractors,), maxval=2 * jnp.pi)
        return ArenaState(
            dot=jax.random.uniform(dot_key, (2,)),
            distractors=jax.random.uniform(place_key, (self.distractors, 2)),
            velocities=self.speed * jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1),
            slider=jax.random.uniform(jax.random.fold_in(key, 3), (int(self.slider),)),
        )

    def step(self, state: ArenaState, action: jax.Array, key: PRNGKey) -> tuple[ArenaState, jax.Array]:
        del key
        dot = jnp.clip(state.dot + self.stride * jnp.asarray(MOVES)[action], 0.0, 1.0)
        ahead = state.distractors + state.velocities
        outside = (ahead < 0.0) | (ahead > 1.0)
        velocities = jnp.where(outside, -state.velocities, state.velocities)
        distractors = jnp.clip(jnp.where(outside, state.distractors + velocities, ahead), 0.0, 1.0)
        slider = jnp.clip(state.slider + self.stride * jnp.asarray(SLIDES)[action], 0.0, 1.0)
        return ArenaState(dot, distractors, velocities, slider), jnp.asarray(False)

    def observe(self, state: ArenaState) -> jax.Array:
        """Discs with soft edges, so that a position between two pixels shows; the dot is drawn last."""
        centres = jnp.concatenate([state.distractors, state.dot[None]])
        colours = jnp.concatenate([jnp.asarray(DISTRACTORS[: self.distractors]), jnp.asarray(DOT)[None]])
        radius = self.radius * self.size
        positions = radius + centres * (self.size - 2 * radius)
        pixel = jnp.arange(self.size) + 0.5
        across = pixel[None, None, :] - positions[:, 0, None, None]
        down = pixel[None, :, None] - positions[:, 1, None, None]
        cover = jnp.clip(radius + 0.5 - jnp.sqrt(across**2 + down**2), 0.0, 1.0)[..., None]
        image = jnp.broadcast_to(jnp.asarray(self.background(), jnp.float32), (self.size, self.size, 3))
        for disc in range(self.distractors + 1):
            image = image + cover[disc] * (colours[disc] - image)
        if self.slider:
            along = radius + state.slider[0] * (self.size - 2 * radius)
            cover = jnp.clip(radius / 2 + 0.5 - jnp.abs(pixel - along), 0.0, 1.0)[None, :, None]
            lowest = (pixel > self.size - radius / 2)[:, None, None]
            image = image + cover * lowest * (jnp.asarray(SLIDER) - image)
        return jnp.round(image).astype(jnp.uint8)

    def background(self) -> np.ndarray:
        """What does not move, [3] or [size, size, 3]."""
        return BACKGROUND

    def measure(self, state: ArenaState) -> jax.Array:
        return jnp.concatenate([state.dot, state.slider])

    def goal_state(self, key: PRNGKey, index: jax.Array, count: int) -> ArenaState:
        """Dots in the middle of each cell of a grid, and from `count` on anywhere in it; all else anywhere."""
        side = int(np.ceil(np.sqrt(count)))
        cell = jnp.stack([index % count % side, index % count // side]).astype(jnp.float32)
        inside = jnp.where(index < count, 0.5, jax.random.uniform(jax.random.fold_in(key, index), (2,)))
        return self.reset(key)._replace(dot=(cell + inside) / side)
