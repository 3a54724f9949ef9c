"""An arena of three rooms with doors at alternate ends: what is near in the picture may be far to go."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs.arena import BACKGROUND, MOVES, Arena, ArenaState
from discern.types import PRNGKey

WALL = np.array([130, 130, 150], np.float32)
HALF = 0.025  # of a wall's thickness
KEPT_OFF = 0.075  # how near the dot comes to the middle of a wall
ROOM = (1 - 4 * KEPT_OFF) / 3  # the width of a room
ROOMS = np.arange(3) * (ROOM + 2 * KEPT_OFF)  # where each begins
BETWEEN = ROOMS[1:] - KEPT_OFF  # where the walls between them are
WALLS = np.array([[-0.1, BETWEEN[0], 0.75, BETWEEN[0]], [0.25, BETWEEN[1], 1.1, BETWEEN[1]]], np.float32)  # x, y, x, y
LOW, HIGH = WALLS[:, :2] - np.float32(KEPT_OFF), WALLS[:, 2:] + np.float32(KEPT_OFF)  # where the dot's middle cannot be
DOORS = np.array([[HIGH[0, 0], 1.0], [0.0, LOW[1, 0]]], np.float32)  # from x to x
GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Maze(Arena):
    """Five actions move the dot, walls hold it; it begins anywhere, and nothing ever ends."""

    size: int = 32
    stride: float = 0.08
    radius: float = 0.05
    distractors: int = 0
    name: str = "arena/maze"

    def reset(self, key: PRNGKey) -> ArenaState:
        room_key, place_key = jax.random.split(key)
        return self._in_room(jax.random.randint(room_key, (), 0, 3), jax.random.uniform(place_key, (2,)))

    def step(self, state: ArenaState, action: jax.Array, key: PRNGKey) -> tuple[ArenaState, jax.Array]:
        del key
        dot = jnp.clip(state.dot + self.stride * jnp.asarray(MOVES)[action], 0.0, 1.0)
        for low, high in zip(LOW, HIGH, strict=True):
            held = jnp.where(state.dot <= low, low, jnp.where(state.dot >= high, high, dot))
            dot = jnp.where(((low < dot) & (dot < high)).all(), held, dot)
        return state._replace(dot=dot), jnp.asarray(False)

    def background(self) -> np.ndarray:
        """Walls with soft edges."""
        image, pixel = np.broadcast_to(BACKGROUND, (self.size, self.size, 3)), np.arange(self.size) + 0.5
        for wall in self.radius * self.size + WALLS * (1 - 2 * self.radius) * self.size:
            across, down = (
                np.clip(np.minimum(pixel - low, high - pixel) + HALF * self.size + 0.5, 0, 1)
                for low, high in zip(wall[:2], wall[2:], strict=True)
            )
            image = image + (down[:, None] * across)[..., None] * (WALL - image)
        return image

    def goal_state(self, key: PRNGKey, index: jax.Array, count: int) -> ArenaState:
        """Dots one behind the other through the rooms, across them in golden ratios; from `count` on anywhere near."""
        nearby = jnp.where(index < count, 0.5, jax.random.uniform(jax.random.fold_in(key, index)))
        along = 3 * (index % count + nearby) / count
        return self._in_room(jnp.floor(along).astype(int), jnp.stack([along % 1, (GOLDEN * index + 0.5) % 1]))

    def fewest_steps(self, measures: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """The least it takes through the doors until the goal is within a tenth: [..., D], [..., D] → [...]."""
        (x, y), (goal_x, goal_y) = np.moveaxis(measures, -1, 0), np.moveaxis(goals, -1, 0)
        room, goal_room = (np.searchsorted(BETWEEN, at) for at in (y, goal_y))
        length = np.maximum(0, np.abs(goal_y - y) - 0.1)
        for door in range(4):  # down through both, or up
            which, down = (door, True) if door < 2 else (3 - door, False)
            passed = (room <= which) & (goal_room > which) if down else (room > which) & (goal_room <= which)
            nearest = np.where(passed, np.clip(x, *DOORS[which]), x)
            length, x = length + np.abs(nearest - x), nearest
        return np.ceil((length + np.maximum(0, np.abs(goal_x - x) - 0.1)) / self.stride - 1e-6)

    def _in_room(self, room: jax.Array, place: jax.Array) -> ArenaState:
        """The dot at a place of a room, in shares of its sides."""
        dot = jnp.stack([place[0], jnp.asarray(ROOMS, jnp.float32)[room] + ROOM * place[1]]).astype(jnp.float32)
        return ArenaState(dot, jnp.zeros((0, 2)), jnp.zeros((0, 2)), jnp.zeros(0))
