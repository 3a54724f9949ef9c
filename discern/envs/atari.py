"""Atari through the Arcade Learning Environment: a vector world to train in, and one that reads memory to score in.

Both show the same pixels: the brighter of the last two of four frames, shrunk by area to 84×84.
"""

import contextlib
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from discern.config import AtariConfig
from discern.envs.ale import ACTIONS, AVATARS, SCREEN, SIDE, Look, positions, refuse_unknown_game
from discern.envs.atari_goals import goal_sets, goals
from discern.envs.base import EnvSpec, HostStep
from discern.envs.processes import Process, Processes, evenly, shared_memory, shares

GAMES_PER_PROCESS = 6  # at least; a process costs a second or two
EMULATORS_PER_PROCESS = 64  # at most; they are made one after the other, in a tenth of a second each


class Atari:
    """N emulators on the C++ threads of a few processes; raw is their screens, whole or already shrunk.

    The processes are asked to make them at once, and waited for where they are first reset.
    """

    def __init__(self, game: str, n: int, config: AtariConfig):
        self.spec = atari_spec(game)
        self.size = n
        sizes = evenly(n, -(-n // EMULATORS_PER_PROCESS))
        threads = -(-(config.threads or len(os.sched_getaffinity(0))) // len(sizes))
        height, width = SCREEN if shrinks_on_accelerator(config) else (SIDE, SIDE)
        settings = {
            "num_threads": min(threads, *sizes),
            "img_height": height,
            "img_width": width,
            "grayscale": False,
            "stack_num": 1,
            "full_action_space": True,
            "use_fire_reset": False,
            "reward_clipping": False,
            "repeat_action_probability": config.sticky,
        }
        self._screens, memory = shared_memory((n, height, width, 3))
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # only a GPU can fetch screens without a core's help
            jax.devices()[0].client.dma_map(self._screens.ctypes.data, self._screens.nbytes)
        served = (game, settings, memory, self._screens.shape)
        start = partial(Process, self.spec.name, "atari_emulators.py", "Emulators", served, inherits=(memory,))
        self._emulators = Processes(start, sizes)
        self._emulators.ask("make", np.arange(n), one_by_one=True)
        os.close(memory)
        self._made = False
        avatar = AVATARS.get(game)
        self._locks = (avatar.locked_steps, avatar.locked_after_loss) if avatar else (0, 0)
        self._await_control = config.await_control
        self._over = np.zeros(n, bool)
        self._lives = self._locked = np.zeros(n, int)

    def reset(self, seed: int) -> HostStep:
        if not self._made:
            self._emulators.answers()
            self._made = True
        self._emulators.ask("reset", seed + np.arange(self.size), one_by_one=True)
        self._over = np.ones(self.size, bool)
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        self._emulators.ask("step", actions)

    def recv(self) -> HostStep:
        """An emulator whose game was over has ignored its action and started a new game."""
        is_first = self._over
        self._over, lives, _ = self._emulators.together()
        return HostStep(self._screens, is_first, self._over, self._in_hand(lives, is_first))

    def _in_hand(self, lives: np.ndarray, new_game: np.ndarray) -> np.ndarray | bool:
        """Whether the avatar obeys, as far as lives tell: not where one was just lost, nor while it is locked."""
        lost = (lives < self._lives) & ~new_game
        at_start, after_loss = self._locks
        still = np.maximum(0, self._locked - 1)
        self._lives, self._locked = lives, np.where(new_game, at_start, np.where(lost, after_loss, still))
        return ~lost & (self._locked == 0) if self._await_control else True

    def observe(self, raw: jax.Array) -> jax.Array:
        return shrink(raw)

    def close(self) -> None:
        self._emulators.close()
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            jax.devices()[0].client.dma_unmap(self._screens.ctypes.data)


class ScoredAtari:
    """N games whose memory can be read, shared out over processes that the first reset starts.

    An attempt starts where the avatar begins to obey, after up to 30 idle frames. A game whose avatar is not known
    has no scored dimension, only goals to look at.
    """

    def __init__(self, game: str, n: int, config: AtariConfig):
        self.spec = atari_spec(game)
        self.size = n
        self.goal_sets = goal_sets(game)
        self._game = game
        world = (self.spec.name, "atari_games.py", "Games", (game, config.sticky, not shrinks_on_accelerator(config)))
        self._games = Processes(partial(Process, *world), shares(n, GAMES_PER_PROCESS))

    def reset(self, seed: int) -> HostStep:
        self._games.ask("reset", np.stack([np.full(self.size, seed), np.arange(self.size)], axis=1))
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        self._games.ask("step", np.asarray(actions))

    def recv(self) -> HostStep:
        screens, memory, is_first, is_last = self._games.together()
        return HostStep(Look(screens, memory), is_first, is_last)

    def observe(self, raw: Look) -> jax.Array:
        return shrink(jnp.asarray(raw.screen))

    def measure(self, raw: Look) -> np.ndarray:
        return positions(AVATARS.get(self._game), raw.ram)

    def goals(self, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Images uint8 [M, 84, 84, 3] and measures float32 [M, D] of a goal set of the game."""
        return goals(self._game, name, count)

    def close(self) -> None:
        self._games.close()


def atari_spec(game: str) -> EnvSpec:
    """What an agent must know of a game; an unknown one is refused."""
    refuse_unknown_game(game)
    avatar = AVATARS.get(game)
    return EnvSpec(f"atari/{game}", (SIDE, SIDE, 3), ACTIONS, avatar.dimensions if avatar else ())


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
