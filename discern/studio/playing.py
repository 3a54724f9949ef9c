"""A world in someone's hands, without the page: named actions, steps that can be undone, and who plays what."""

import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

import numpy as np

from discern.config import Config
from discern.envs import ScoredEnv, is_host, names_code
from discern.envs.base import EnvSpec, Hosted, HostStep, ScoredHostEnv
from discern.inference import TRUST
from discern.types import UserError

IDLE_SECONDS = 900.0  # after which a world that nobody acts in is closed
MOST_SEEN = 200  # frames that a background is made of
MOST_UNDONE = 2000  # steps since the reset
MEANT = {
    "ArrowUp": ("up", "forward", "main engine", "gas", "faster"),
    "ArrowDown": ("down", "backward", "brake", "slower"),
    "ArrowLeft": ("left", "turn left", "left engine", "lane_left"),
    "ArrowRight": ("right", "turn right", "right engine", "lane_right"),
    " ": ("fire", "pickup", "pick up"),
    ".": ("noop", "stay", "rest", "none", "middle", "idle", "done"),
}
REST = "123456789qwertyuiopasdfghjklzxcvbnm0"


class Seen(NamedTuple):
    """What a player sees after a step."""

    frame: np.ndarray  # uint8 [H, W, 3]
    measures: np.ndarray  # float32 [D]
    steps: int  # since the reset
    action: int  # that led here; −1: the reset
    is_last: bool  # of its episode: whatever is done next, another one begins


def refuse_code(config: Config, named: str | None) -> None:
    """A page is no way to run code: a world that names some is made where whoever opened the page named it."""
    if names_code(config) and config.env != named and not os.environ.get(TRUST):
        raise UserError(
            f"{config.env} names code to run: open the page with `discern play {config.env}`, or set {TRUST}=1"
        )


def names_of(spec: EnvSpec) -> tuple[str, ...]:
    """What the actions are called; their numbers where nobody named them."""
    return spec.action_names or tuple(map(str, range(spec.actions)))


def keys_of(names: tuple[str, ...]) -> list[str]:
    """A key for each action, as a browser calls it: arrows where they fit, else digits and letters; "" beyond those."""
    taken: dict[str, str] = {}
    for key, meanings in MEANT.items():
        name = next((name for name in names if name.lower() in meanings), None)
        taken |= {} if name is None else {name: key}
    left = iter(REST)
    return [taken.get(name) or next(left, "") for name in names]


class Play:
    """A world of one's own and all that was done in it since its reset."""

    def __init__(self, make: Callable[[], ScoredEnv], seed: int = 0):
        env = make()
        self._world = cast(ScoredHostEnv, env if is_host(env) else Hosted(env, 1))
        self._lock = threading.Lock()
        self.spec = self._world.spec
        self.seen_frames: deque[np.ndarray] = deque(maxlen=MOST_SEEN)
        try:
            self.seen = self.reset(seed)
        except BaseException:
            self._world.close()
            raise

    def reset(self, seed: int) -> Seen:
        """A fresh start, by a seed."""
        with self._lock:
            self.seed, self._actions, self._digests = seed, list[int](), list[int]()
            self._kept: deque = deque(maxlen=MOST_UNDONE)
            return self._look(self._world.reset(seed))

    def act(self, action: int) -> Seen:
        if not 0 <= action < self.spec.actions:
            raise UserError(f"{self.spec.name} has no action {action}")
        with self._lock:
            self._kept.append(self._world.keep() if isinstance(self._world, Hosted) else None)
            return self._step(action)

    def undo(self) -> str:
        """Takes the last step back; says why where the world could not go back to what it was."""
        with self._lock:
            if not self._actions:
                return "Nothing was done yet."
            if len(self._actions) > MOST_UNDONE:
                return f"Only {MOST_UNDONE:,} steps can be undone: reset the world."
            *before, _ = self._actions
            wanted = self._digests[-2]
            if isinstance(self._world, Hosted):
                step = self._world.go_back(self._kept.pop())
                del self._actions[-1], self._digests[-2:]
                self._look(step)
                return ""
            self._actions, self._digests = [], []
            self._look(self._world.reset(self.seed))
            for action in before:
                self._step(action)
            if self._digests[-1] == wanted:
                return ""
            return f"{self.spec.name} cannot repeat itself: the same actions led elsewhere, go on from here or reset."

    def _step(self, action: int) -> Seen:
        self._world.send(np.array([action], np.int32))
        self._actions.append(action)
        return self._look(self._world.recv())

    def _look(self, step: HostStep) -> Seen:
        frame = np.array(self._world.observe(step.raw))[0]
        action = self._actions[-1] if self._actions else -1
        measures = np.array(self._world.measure(step.raw))[0]
        self.seen = Seen(frame, measures, len(self._actions), action, bool(step.is_last[0]))
        self._digests.append(zlib.crc32(frame.tobytes()))
        self.seen_frames.append(frame)
        return self.seen

    def close(self) -> None:
        with self._lock:
            self._world.close()


class Plays:
    """One world at most for each visitor; it is closed when they leave, take another, or have long done nothing."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS):
        self._idle_seconds = idle_seconds
        self._held: dict[str, tuple[Play, float]] = {}
        self._lock = threading.Lock()

    def begin(self, visitor: str, make: Callable[[], ScoredEnv], seed: int) -> Play:
        self.leave(visitor)
        play = Play(make, seed)
        with self._lock:
            earlier = self._held.pop(visitor, None)  # begun at the same time
            self._held[visitor] = play, time.monotonic()
        if earlier:
            earlier[0].close()
        return play

    def of(self, visitor: str) -> Play:
        """The visitor's world, which they are about to act in."""
        with self._lock:
            if visitor not in self._held:
                raise UserError("this world is closed, since nobody acted in it: press Begin")
            play, _ = self._held[visitor]
            self._held[visitor] = play, time.monotonic()
            return play

    def world_of(self, visitor: str) -> str | None:
        """What the visitor plays, if anything."""
        with self._lock:
            play, _ = self._held.get(visitor, (None, 0.0))
        return None if play is None else play.spec.name

    def leave(self, visitor: str) -> None:
        with self._lock:
            play, _ = self._held.pop(visitor, (None, 0.0))
        if play is not None:
            play.close()

    def close_idle(self) -> None:
        """Closes what nobody has acted in for long."""
        long_ago = time.monotonic() - self._idle_seconds
        with self._lock:
            idle = [visitor for visitor, (_, used) in self._held.items() if used < long_ago]
        for visitor in idle:
            self.leave(visitor)

    def close(self) -> None:
        for visitor in list(self._held):
            self.leave(visitor)

    def __len__(self) -> int:
        return len(self._held)
