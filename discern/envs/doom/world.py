"""Rooms of Doom's engine to walk in, where ViZDoom is installed: the round room and `my_way_home`."""

import os
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.envs.base import GOAL_SEEDS, Attempts, EnvSpec, Half, HostStep, far_apart
from discern.envs.doom.maps import INNER, WORLDS, room
from discern.envs.processes import Process, Processes, shared_memory, shares
from discern.types import UserError

SIDE = 84
WALK, TURN = 25.0, 2.5  # a walking player's thrust, and degrees, in each tic
ACTIONS = np.array(  # forward, right, degrees to the right
    [*([0, 0, 0], [WALK, 0, 0], [-WALK, 0, 0], [0, -WALK, 0], [0, WALK, 0], [0, 0, -TURN], [0, 0, TURN])]
)
ACTION_NAMES = ("rest", "forward", "backward", "strafe left", "strafe right", "turn left", "turn right")
EPISODE = Attempts(horizon=1200, p_restart=1.0)  # whole attempts of 20, 24, 25, 30, 40, 48, 50, 60, 75 or 80 steps
GAMES_PER_PROCESS = 2  # at least
SCORED_AT_ONCE = 25  # each is a process of its own
WALKS, STEPS_BETWEEN_LOOKS, LOOKS_PER_GOAL = 25, 10, 10
PLACE_TURN, ANGLE_TURN = (np.sqrt(5) - 1) / 2, np.sqrt(6) - 2  # two irrationals that keep out of each other's way


class Look(NamedTuple):
    """What is seen of N games, and from where."""

    image: np.ndarray  # uint8 [N, 84, 84, 3]
    pose: np.ndarray  # float32 [N, 3]: x, y, angle in degrees


class Doom:
    """N games, shared out over a process for each core that are started by the first reset; what starts in a group
    starts in one pose, at rest."""

    def __init__(self, name: str, n: int, attempts: Attempts | None = None):
        if name not in WORLDS:
            raise UserError(f"there is no world 'doom/{name}'; there are: {', '.join(f'doom/{one}' for one in WORLDS)}")
        self._world, self._attempts = WORLDS[name], attempts or EPISODE
        shape, scored = (SIDE, SIDE, 3), self._world.dimensions
        self.spec = EnvSpec(f"doom/{name}", shape, len(ACTIONS), scored, action_names=ACTION_NAMES)
        self.size = n
        self._games: Processes | None = None

    def _start(self) -> Processes:
        shape, twins = (self.size, SIDE, SIDE, 3), self._attempts.twins
        self._screens, file = shared_memory(shape)
        group = {"reach": self._world.reach, "horizon": self._attempts.horizon, "p_restart": self._attempts.p_restart}
        served = (self._world.scenario or room(), file, shape, {"group": group, "twins": twins})
        start = partial(Process, self.spec.name, "doom/games.py", "Games", served, inherits=(file,))
        sizes = shares(self.size // twins, -(-GAMES_PER_PROCESS // twins))
        games = Processes(start, [twins * size for size in sizes])
        games.ask("make", np.arange(self.size), one_by_one=True)
        os.close(file)
        games.answers()
        return games

    @property
    def _started(self) -> Processes:
        if self._games is None:
            self._games = self._start()
        return self._games

    def reset(self, seed: int) -> HostStep:
        return self._reset(np.stack([np.full(self.size, seed), np.arange(self.size) // self._attempts.twins], axis=1))

    def _reset(self, seeds: np.ndarray) -> HostStep:
        """Fresh episodes, each with chances of its own: int [N, any]."""
        self._started.ask("reset", seeds)
        return self.recv()

    def place(self, poses: np.ndarray) -> HostStep:
        """The first step of episodes that start in poses [N, 3]."""
        self._started.ask("place", poses)
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        self._started.ask("step", ACTIONS[np.asarray(actions)])

    def recv(self) -> HostStep:
        poses, is_first, is_last = self._started.together()
        return HostStep(Look(self._screens, poses), is_first, is_last)

    def observe(self, raw: Look) -> jax.Array:
        return jnp.asarray(raw.image)

    def measure(self, raw: Look) -> np.ndarray:
        return np.asarray(raw.pose)

    def close(self) -> None:
        if self._games is not None:
            self._games.close()


class ScoredDoom(Doom):
    """The same, at most 25 games at once, and goals in them."""

    goal_sets = ("even",)

    def __init__(self, name: str, n: int):
        super().__init__(name, min(n, SCORED_AT_ONCE))

    def recv(self) -> HostStep:
        step = super().recv()
        return step._replace(raw=Look(step.raw.image.copy(), step.raw.pose))  # an attempt's end outlives the next step

    def goals(self, name: str, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Images and poses spread over the round room; elsewhere frames of random play that lie far apart."""
        del name  # there is one set
        if self._world.reach is None:
            return self._found(half, count)
        poses = spread(half, count)
        padded = np.resize(poses, (-(-count // self.size) * self.size, 3))
        looks = [self.place(part).raw for part in padded.reshape((-1, self.size, 3))]
        images, poses = (np.concatenate(parts)[:count] for parts in zip(*looks, strict=True))
        return images, poses

    def _found(self, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The same whatever the number of games, from the two thirds of the looks that show more than a bare wall:
        those of most contrast for their brightness, since some rooms are dark."""
        walks = [self._walks(half, np.arange(i, i + self.size), count) for i in range(0, WALKS, self.size)]
        images, poses = (
            np.concatenate(parts)[:WALKS].reshape((-1, *parts[0].shape[2:])) for parts in zip(*walks, strict=True)
        )
        contrast = images.std((1, 2)).mean(1) / (images.mean((1, 2, 3)) + 10)
        full = contrast >= np.quantile(contrast, 1 / 3)
        images, poses = images[full], poses[full]
        low, high = np.array([(d.low, d.high) for d in self.spec.dimensions[:2]]).T
        turn = np.deg2rad(poses[:, 2:])
        chosen = far_apart(np.hstack([2 * poses[:, :2] / (high - low), np.cos(turn), np.sin(turn)]), count)
        return images[chosen], poses[chosen]

    def _walks(self, half: Half, numbers: np.ndarray, count: int) -> Look:
        """What is seen now and then on random walks with the given numbers [N], each action held for some steps:
        images uint8 [N, L, 84, 84, 3], poses float32 [N, L, 3]."""
        seed = GOAL_SEEDS[half]
        chances = [np.random.default_rng([seed, number]) for number in numbers]
        self._reset(np.stack([np.full(self.size, seed), numbers], axis=1))
        looks = []
        for _ in range(-(-count * LOOKS_PER_GOAL // WALKS)):
            actions = np.array([chance.integers(len(ACTIONS)) for chance in chances])
            for _ in range(STEPS_BETWEEN_LOOKS):
                self.send(actions)
                step = self.recv()
            looks.append(step.raw)
        return Look(*(np.stack(parts, axis=1) for parts in zip(*looks, strict=True)))


def spread(half: Half, count: int) -> np.ndarray:
    """Places like a sunflower's seeds over the round room, angles as even; the other half's seeds lie between:
    float [count, 3]."""
    seed = np.arange(count) + (0.5 if half == "tune" else count + 0.5)
    radius, towards = INNER * np.sqrt(seed % count / count), 2 * np.pi * PLACE_TURN * seed
    return np.stack([radius * np.cos(towards), radius * np.sin(towards), 360 * ANGLE_TURN * seed % 360], axis=-1)
