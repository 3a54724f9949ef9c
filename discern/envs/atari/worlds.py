"""Atari through the Arcade Learning Environment: games to train in, and the same games to score in.

Both show the brighter of the last two of four frames, shrunk by area to 84×84.
"""

import contextlib
import os
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from discern.config import AtariConfig
from discern.envs.atari.avatars import ACTION_NAMES, ACTIONS, avatar_of, positions, refuse_unknown_game
from discern.envs.atari.games import SCREEN, SIDE, Look, look_bytes, looks
from discern.envs.atari.goals import SEARCHED, fewest_steps, goal_sets, goals
from discern.envs.base import Attempts, EnvSpec, Half, HostStep
from discern.envs.processes import Process, Processes, shared_memory, shares

GAMES_PER_PROCESS = 6  # at least
ENDLESS = Attempts(horizon=0)  # only the end of a game ends one


class Atari:
    """N games in a process for each core; raw is their screens, whole or already shrunk, and their memory.

    Without attempts, a game is played from its first frame to its end. The processes are asked to make their games at
    once, a tenth of a second each, and waited for at the first reset; or else they are started there.
    """

    def __init__(
        self, game: str, n: int, config: AtariConfig, attempts: Attempts | None = None, start_at_once: bool = True
    ):
        self.spec = atari_spec(game)
        self.size = n
        self._game, self._avatar, self._config, self._attempts = game, avatar_of(game), config, attempts
        self._twins = attempts.twins if attempts else 1
        self._started = self._made = False
        if start_at_once:
            self._start()

    def _start(self) -> None:
        shape = (self.size, *(SCREEN if shrinks_on_accelerator(self._config) else (SIDE, SIDE)), 3)
        self._memory, file = shared_memory((look_bytes(shape),))
        self._looks = looks(self._memory, shape)
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # only a GPU can fetch screens without a core's help
            jax.devices()[0].client.dma_map(self._memory.ctypes.data, self._memory.nbytes)
        served = (self._game, file, shape, self._rules())
        start = partial(Process, self.spec.name, "atari/games.py", "Games", served, inherits=(file,))
        groups = shares(self.size // self._twins, -(-GAMES_PER_PROCESS // self._twins), self._config.threads)
        self._games = Processes(start, [self._twins * size for size in groups])
        self._games.ask("make", np.arange(self.size), one_by_one=True)
        os.close(file)
        self._started = True

    def _rules(self) -> dict[str, Any]:
        """How a process plays; where there are attempts they begin where the avatar is controllable."""
        avatar, attempts = self._avatar, self._attempts or ENDLESS
        skipped, locked = (avatar.locked_steps, 0) if self._attempts else (0, avatar.locked_steps)
        return {
            "game": {"locked_after_loss": avatar.locked_after_loss, "helpless": avatar.helpless},
            "start": {"skipped": skipped, "locked": locked},
            "group": {"sticky": self._config.sticky, "horizon": attempts.horizon, "p_restart": attempts.p_restart},
            "twins": attempts.twins,
        }

    def reset(self, seed: int) -> HostStep:
        if not self._started:
            self._start()
        if not self._made:
            self._games.answers()
            self._made = True
        self._games.ask("reset", np.stack([np.full(self.size, seed), np.arange(self.size) // self._twins], axis=1))
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        self._games.ask("step", np.asarray(actions))

    def recv(self) -> HostStep:
        is_first, is_last, controllable = self._games.together()
        return HostStep(self._looks, is_first, is_last, controllable if self._config.await_control else True)

    def observe(self, raw: Look) -> jax.Array:
        return shrink(jnp.asarray(raw.screen))

    def measure(self, raw: Look) -> np.ndarray:
        """The avatar's scored dimensions, float32 [N, D]."""
        return positions(self._avatar, np.asarray(raw.ram))

    def close(self) -> None:
        if self._started:
            self._games.close()
            with contextlib.suppress(jax.errors.JaxRuntimeError):
                jax.devices()[0].client.dma_unmap(self._memory.ctypes.data)


class ScoredAtari(Atari):
    """Games that start where the avatar becomes controllable, after up to 30 idle frames, and goals in them.

    A game whose avatar is not known has no scored dimension, only goals to look at.
    """

    def __init__(self, game: str, n: int, config: AtariConfig):
        super().__init__(game, n, config, ENDLESS, start_at_once=False)
        self.goal_sets = goal_sets(game)
        if game == SEARCHED:
            self.fewest_steps = self._fewest_steps

    def recv(self) -> HostStep:
        step = super().recv()
        return step._replace(raw=Look(*(part.copy() for part in step.raw)))  # an attempt's end outlives the next step

    def goals(self, name: str, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Images uint8 [M, 84, 84, 3] and measures float32 [M, D] of a half of a goal set of the game."""
        return goals(self._game, name, half, count)

    def _fewest_steps(self, measures: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Those to stay near a goal of `even`, NaN for others; all attempts begin in one place."""
        return fewest_steps(self._game, np.broadcast_to(wanted, np.broadcast_shapes(wanted.shape, measures.shape)))


def atari_spec(game: str) -> EnvSpec:
    """What an agent must know of a game; an unknown one is refused."""
    refuse_unknown_game(game)
    scored = avatar_of(game).dimensions
    return EnvSpec(f"atari/{game}", (SIDE, SIDE, 3), ACTIONS, scored, action_names=ACTION_NAMES)


def shrinks_on_accelerator(config: AtariConfig) -> bool:
    """Whether screens travel whole: cheaper for the emulator's cores, and next to nothing for an accelerator."""
    return config.shrink == "accelerator" or (config.shrink == "auto" and jax.default_backend() != "cpu")


def shrink(screens: jax.Array) -> jax.Array:
    """uint8 [N, 210, 160, 3] → [N, 84, 84, 3] by area; screens that are already shrunk stay as they are."""
    if screens.shape[1:3] == (SIDE, SIDE):
        return screens
    down, across = (jnp.asarray(area_weights(length, SIDE)) for length in screens.shape[1:3])
    shrunk = jnp.einsum("ih,nhwc,jw->nijc", down, screens.astype(jnp.float32), across, precision="highest")
    return jnp.round(shrunk).astype(jnp.uint8)


def area_weights(length: int, shrunk: int) -> np.ndarray:
    """How much of each of `shrunk` equal stretches each pixel of `length` covers: float32 [shrunk, length]."""
    edges = np.arange(shrunk + 1) * length / shrunk
    pixels = np.arange(length)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return (np.maximum(overlap, 0.0) * shrunk / length).astype(np.float32)
