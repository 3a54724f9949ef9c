"""Any Gymnasium environment that shows pixels: `gym/CarRacing-v3`, or `module:factory` for a callable that makes one.

Environments live in processes of their own, so that one that hangs or dies takes nothing with it.
"""

import contextlib
import json
import os
import pickle
import select
import struct
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.config import Config
from discern.envs.base import Dimension, EnvSpec, HostStep
from discern.types import UserError

WORLDS_PER_PROCESS = 4  # at least; a process costs half a second
SCORED_AT_ONCE = 32  # or as many as there are cores
GOAL_SEED = 20_190_506
P_NEW_ACTION = 0.25  # random play that makes goals keeps an action for four steps on average, so that it gets somewhere
START_SECONDS = 120.0
LENGTH = struct.Struct("<Q")
DOING = {"add": "being made", "reset": "resetting", "step": "stepping"}
UNSCORED = "none of its quantities is named: train with --gym.score name:low:high for a key of its info"


class Look(NamedTuple):
    """What is seen of N environments, and measured."""

    image: np.ndarray  # uint8 [N, S, S, 3]
    measures: np.ndarray  # float32 [N, D]


class Gym:
    """N environments shared out over a process for each core; `config.gym` says what is seen and scored."""

    goal_sets = ("random",)

    def __init__(self, name: str, n: int, config: Config):
        dimensions = tuple(dimension(text) for text in config.gym.score)
        settings = {
            "make_args": json_object(config.gym.make_args),
            "frame_skip": config.gym.frame_skip,
            "size": config.gym.size,
            "render": config.gym.render,
            "scored": [d.name for d in dimensions],
        }
        self.size = n
        self._horizon = config.actor.horizon
        count = max(1, min(cores(), n // WORLDS_PER_PROCESS))
        sizes = [(n + i) // count for i in range(count)]
        self._splits = np.cumsum(sizes)[:-1]
        self._shares = [Process(name, settings, config.gym.step_timeout)]
        self._shares[0].ask("add", True)  # what cannot work is known before there are more
        actions = set(self._answers())
        self._shares += [Process(name, settings, config.gym.step_timeout) for _ in sizes[1:]]
        missing = [sizes[0] - 1, *sizes[1:]]
        for share, size in zip(self._shares, missing, strict=True):
            for _ in range(size):
                share.ask("add", False)
        for i in range(max(missing)):
            actions |= set(self._answers([size > i for size in missing]))
        if len(actions) > 1:
            self.kill()
            raise UserError(f"{name} has now one number of actions, now another: {sorted(actions)}")
        self.spec = EnvSpec(name, (config.gym.size, config.gym.size, 3), actions.pop(), dimensions, UNSCORED)

    def reset(self, seed: int) -> HostStep:
        return self._reset(np.stack([np.full(self.size, seed), np.arange(self.size)], axis=1))

    def _reset(self, seeds: np.ndarray) -> HostStep:
        """Fresh episodes, each with chances of its own: int [N, any]."""
        self._ask("reset", np.array([np.random.default_rng(seed).integers(2**31 - 1) for seed in seeds]))
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        self._ask("step", np.asarray(actions))

    def _ask(self, method: str, argument: np.ndarray) -> None:
        for share, part in zip(self._shares, np.split(argument, self._splits), strict=True):
            share.ask(method, part.tolist())

    def _answers(self, asked: list[bool] | None = None) -> list[Any]:
        """What every process that was asked answers; where one fails, all of them end."""
        try:
            asked = asked or [True] * len(self._shares)
            return [share.answer() for share, was_asked in zip(self._shares, asked, strict=True) if was_asked]
        except BaseException:
            self.kill()
            raise

    def recv(self) -> HostStep:
        images, measures, is_first, is_last = (np.concatenate(parts) for parts in zip(*self._answers(), strict=True))
        return HostStep(Look(images, measures), is_first, is_last)

    def observe(self, raw: Look) -> jax.Array:
        return jnp.asarray(raw.image)

    def measure(self, raw: Look) -> np.ndarray:
        return np.asarray(raw.measures)

    def goals(self, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Frames of random play, each up to T steps after a fresh start, whatever the number of environments."""
        del name  # there is one set
        made = [self._some_goals(np.arange(start, start + self.size)) for start in range(0, count, self.size)]
        images, measures = (np.concatenate(parts)[:count] for parts in zip(*made, strict=True))
        return images, measures

    def _some_goals(self, numbers: np.ndarray) -> Look:
        """The goals with the given numbers [N]; play that ends before its time shows its last frame."""
        chances = [np.random.default_rng([GOAL_SEED, number]) for number in numbers]
        moments = np.array([chance.integers(1, self._horizon + 1) for chance in chances])
        look = self._reset(np.stack([np.full(self.size, GOAL_SEED), numbers], axis=1)).raw
        actions, over = np.zeros(self.size, np.int32), np.zeros(self.size, bool)
        for t in range(moments.max()):
            for i, chance in enumerate(chances):
                if t == 0 or chance.random() < P_NEW_ACTION:
                    actions[i] = chance.integers(self.spec.actions)
            self.send(actions)
            step = self.recv()
            going = (t < moments) & ~over
            look = Look(*(np.where(_rows(going, new), new, old) for new, old in zip(step.raw, look, strict=True)))
            over |= step.is_last
        return look

    def kill(self) -> None:
        for share in self._shares:
            share.kill()

    def close(self) -> None:
        for share in self._shares:
            share.close()


def scored_gym(name: str, n: int, config: Config) -> Gym:
    """The same environments to score in, not too many at once."""
    return Gym(name, min(n, max(SCORED_AT_ONCE, cores())), config)


class Process:
    """A process of environments, which ends when its input does, and is killed where it does not."""

    def __init__(self, name: str, settings: dict[str, Any], timeout: float):
        self._name, self._timeout, self._doing, self._ready = name, timeout, "starting", ""
        command = [sys.executable, "-P", str(Path(__file__).with_name("gymnasium_process.py"))]
        quiet = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
        own = {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=quiet | os.environ | own
        )
        self.kill = weakref.finalize(self, _end, self._process)  # at the latest when nobody holds it, or at the exit
        self._say((name, settings))

    def ask(self, method: str, argument: Any) -> None:
        self._doing = DOING[method]
        self._say((method, argument))

    def _say(self, what: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended: no answer will come
            self._process.stdin.write(pickle.dumps(what))

    def answer(self) -> Any:
        """What was asked for; a UserError where it failed, hangs or has died."""
        if not self._ready:  # its own imports are no fault of the environment's
            self._ready = self._receive(START_SECONDS)
        return self._receive(self._timeout)

    def _receive(self, seconds: float) -> Any:
        until = time.monotonic() + seconds
        (length,) = LENGTH.unpack(self._read(LENGTH.size, until))
        went_well, answer = pickle.loads(self._read(length, until))
        if not went_well:
            raise UserError(f"{self._name} {answer}")
        return answer

    def _read(self, count: int, until: float) -> bytearray:
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            raise UserError(f"{self._name} has ended")
        pipe = self._process.stdout.fileno()
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        data = bytearray()
        while len(data) < count:
            if not ready.poll(max(0.0, 1000 * (until - time.monotonic()))):
                raise UserError(
                    f"{self._name} did not answer within {self._timeout:g} s while {self._doing}; if it is only slow, "
                    f"give it longer with --gym.step-timeout"
                )
            part = os.read(pipe, min(count - len(data), 2**20))
            if not part:
                raise UserError(f"{self._name} died with exit code {self._process.wait()} while {self._doing}")
            data += part
        return data

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        self.kill()


def _end(process: subprocess.Popen) -> None:
    process.kill()
    with process:  # waits for it, and closes its pipes
        pass


def dimension(text: str) -> Dimension:
    """A scored dimension from name:low:high or name:low:high:wraps."""
    wraps = text.endswith(":wraps")
    name, *bounds = text.removesuffix(":wraps").rsplit(":", 2)
    try:
        low, high = map(float, bounds)
    except ValueError:
        raise UserError(f"--gym.score takes name:low:high or name:low:high:wraps, not '{text}'") from None
    if not name or not low < high < float("inf") or low == -float("inf"):
        raise UserError(f"--gym.score '{text}' must have a name, and a low end below its high end")
    return Dimension(name, low, high, wraps)


def json_object(text: str) -> dict[str, Any]:
    """The arguments for gymnasium.make."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise UserError(f"--gym.make-args takes a JSON object such as '{{\"continuous\": false}}', not '{text}'")
    return values


def cores() -> int:
    return len(os.sched_getaffinity(0))


def _rows(mask: np.ndarray, like: np.ndarray) -> np.ndarray:
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))
