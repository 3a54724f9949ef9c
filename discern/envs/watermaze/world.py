"""A first-person round pool after DeepMind Lab's rooms_watermaze: sixteen blue walls, eight pictures, nothing else.

Lengths, speeds and actions are the level's. Left out are the hidden platform, which is a reward, and momentum, which
one image cannot show: a step moves at Quake's ground speed and stops.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs.base import Dimension, EnvSpec
from discern.envs.watermaze.view import INRADIUS, SIDE_ANGLES, SIZE, view
from discern.types import PRNGKey

FRAMES_PER_STEP = 4
STRIDE = 320.0 * FRAMES_PER_STEP / 60  # Quake's 320 units a second, at 60 frames a second
LOOK_PIXELS = 20
TURN = np.deg2rad(LOOK_PIXELS * FRAMES_PER_STEP * 6 / 57)  # 57 pixels a frame are a whole turn in a second

ACTIONS = np.array(  # move forward, strafe right, look right: the usual nine, with rest for fire, which does nothing
    [[1, 0, 0], [-1, 0, 0], [0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1], [1, 0, -1], [1, 0, 1], [0, 0, 0]], np.int32
)
WALKS = ("forward", "backward", "strafe left", "strafe right")
ACTION_NAMES = (*WALKS, "turn left", "turn right", "forward, turn left", "forward, turn right", "rest")
PLAYER_HALF = 16.0
INNER = INRADIUS - PLAYER_HALF
NORMALS = np.stack([np.cos(SIDE_ANGLES), np.sin(SIDE_ANGLES)], axis=-1)

SPAWNS, SPAWN_RADIUS = 8, (690.0, 730.0)
SPAWN_TURN = np.pi / 4
PLACE_TURN, YAW_TURN = (np.sqrt(5) - 1) / 2, np.sqrt(6) - 2  # two irrationals that keep out of each other's way

DIMENSIONS = (
    Dimension("x", -INRADIUS, INRADIUS),
    Dimension("y", -INRADIUS, INRADIUS),
    Dimension("yaw", -np.pi, np.pi, wraps=True),
)


class WatermazeState(NamedTuple):
    place: jax.Array  # float32 [2], x and y from the middle
    yaw: jax.Array  # float32 [], anticlockwise from the x axis, in [-π, π)


@dataclass(frozen=True)
class Watermaze:
    """Nine actions move and turn; walls hold; nothing ever ends."""

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("watermaze", (SIZE, SIZE, 3), len(ACTIONS), DIMENSIONS, action_names=ACTION_NAMES)

    def reset(self, key: PRNGKey) -> WatermazeState:
        """By the wall at one of eight points, turned to the middle more or less."""
        point_key, radius_key, turn_key = jax.random.split(key, 3)
        angle = jax.random.randint(point_key, (), 0, SPAWNS) * (2 * np.pi / SPAWNS)
        radius = jax.random.uniform(radius_key, (), minval=SPAWN_RADIUS[0], maxval=SPAWN_RADIUS[1])
        turn = jax.random.uniform(turn_key, (), minval=-SPAWN_TURN, maxval=SPAWN_TURN)
        return WatermazeState(radius * _heading(angle), wrap(angle + np.pi + turn))

    def step(self, state: WatermazeState, action: jax.Array, key: PRNGKey) -> tuple[WatermazeState, jax.Array]:
        """Turns while it moves: on the way, the yaw is that of half the turn."""
        del key
        forward, strafe, look = jnp.asarray(ACTIONS)[action]
        turn = -TURN * look
        ahead = _heading(state.yaw + turn / 2)
        aside = jnp.stack([ahead[1], -ahead[0]])
        place = hold(state.place + STRIDE * (forward * ahead + strafe * aside))
        return WatermazeState(place, wrap(state.yaw + turn)), jnp.asarray(False)

    def observe(self, state: WatermazeState) -> jax.Array:
        return view(state.place, state.yaw)

    def measure(self, state: WatermazeState) -> jax.Array:
        return jnp.append(state.place, state.yaw)

    def goal_state(self, key: PRNGKey, index: jax.Array, count: int) -> WatermazeState:
        """Places like a sunflower's seeds over the water, yaws as even and in an order of their own; from `count` on
        the angles of both go on, and the distances from the middle come again."""
        del key
        seed = index.astype(jnp.float32) + 0.5
        radius = INNER * jnp.sqrt((seed % count) / count)
        return WatermazeState(radius * _heading(2 * np.pi * PLACE_TURN * seed), wrap(2 * np.pi * YAW_TURN * seed))

    def fewest_steps(self, measures: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Those of moving and of turning, which it can do at once, whichever are more: [..., D], [..., D] → [...].

        A goal is reached within a tenth of every range, so these are never too many.
        """
        apart = np.abs(goals - measures)
        apart[..., 2] = np.minimum(apart[..., 2], 2 * np.pi - apart[..., 2])
        short = np.maximum(0.0, apart - 0.1 * np.array([d.high - d.low for d in DIMENSIONS]))
        return np.ceil(np.maximum(np.hypot(short[..., 0], short[..., 1]) / STRIDE, short[..., 2] / TURN) - 1e-6)


def hold(place: jax.Array) -> jax.Array:
    """The nearest place inside the walls: [2] → [2]; in a corner two of them hold."""
    for _ in range(2):
        beyond = NORMALS[:, 0] * place[0] + NORMALS[:, 1] * place[1] - INNER  # a GPU rounds what a @ b multiplies
        nearest = jnp.argmax(beyond)
        place = place - jnp.maximum(beyond[nearest], 0.0) * jnp.asarray(NORMALS)[nearest]
    return place


def wrap(yaw: jax.Array) -> jax.Array:
    """The same angle in [-π, π)."""
    return (yaw + np.pi) % (2 * np.pi) - np.pi


def _heading(yaw: jax.Array) -> jax.Array:
    """The unit vector [2] along yaw."""
    return jnp.stack([jnp.cos(yaw), jnp.sin(yaw)])
