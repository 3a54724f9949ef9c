"""Any Gymnasium environment that shows pixels: `gym/CarRacing-v3`, `minigrid/…`, `highway/…`, or `module:factory`."""

import json
import shlex
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.config import Config
from discern.envs.base import GOAL_SEEDS, Attempts, Dimension, EnvSpec, Half, HostStep, far_apart
from discern.envs.processes import Process, Processes, shares
from discern.presets import suite_of
from discern.types import UserError

WORLDS_PER_PROCESS = 4  # at least; a process costs half a second
SCORED_AT_ONCE = 32
HINTED = 8  # numbers that could be scored
P_NEW_ACTION = 0.25  # random play that makes goals keeps an action for four steps on average, so that it gets somewhere
CANDIDATES = 8  # for each goal of an even set
SLOW = "; if it is only slow, give it longer with --gym.step-timeout"
UNSCORED = "none of its quantities is named: train with --gym.score name:low:high for a key of its info"


class Look(NamedTuple):
    """What is seen of N environments, and measured."""

    image: np.ndarray  # uint8 [N, S, S, 3]
    measures: np.ndarray  # float32 [N, D]


class Gym:
    """N environments shared out over a process for each core; `config.gym` says what is seen and scored.

    They cannot go back to a state, so twins begin all their attempts at an episode's start, by the same seed; one that
    is nobody's twin goes on unless its attempt is to restart.
    """

    def __init__(self, name: str, n: int, config: Config, attempts: Attempts | None = None):
        named = tuple(dimension(text) for text in config.gym.score)
        settings = asdict(config.gym) | {
            "make_args": json_object(config.gym.make_args),
            "score": [d.name for d in named],
        }
        self.size = n
        self.goal_sets = ("even", "random") if suite_of(name) == "minigrid" else ("random",)
        self._horizon = config.actor.horizon
        self._attempts = attempts
        self._age, self._ended = np.zeros(n, int), np.zeros(n, bool)
        world = (name, "gym/worlds.py", "Worlds", (name, settings), config.gym.step_timeout, SLOW)
        self._worlds = Processes(partial(Process, *world), shares(n, WORLDS_PER_PROCESS))
        self._worlds.first("prove")
        self._worlds.ask("make", np.arange(n), one_by_one=True)
        made = self._worlds.answers()
        problem = misfit(made, attempts)
        if problem:
            self.close()
            raise UserError(f"{name} {problem}")
        ((actions,), (known,)) = made[0]["actions"], made[0]["dimensions"]
        shape, called = (config.gym.size, config.gym.size, 3), made[0]["action_names"]
        scored = named or tuple(Dimension(*d) for d in known)
        self.spec = EnvSpec(name, shape, actions, scored, UNSCORED, action_names=called)

    def reset(self, seed: int) -> HostStep:
        twins = self._attempts.twins if self._attempts else 1
        self._chance = np.random.default_rng(seed)
        return self._reset(np.stack([np.full(self.size, seed), np.arange(self.size) // twins], axis=1))

    def _reset(self, seeds: np.ndarray) -> HostStep:
        """Fresh episodes, each with chances of its own: int [N, any]."""
        self._worlds.ask("reset", np.array([np.random.default_rng(seed).integers(2**31 - 1) for seed in seeds]))
        return self.recv()

    def send(self, actions: np.ndarray) -> None:
        seeds = np.full(self.size, -1)
        if self._attempts is not None and self._ended.any():
            seeds = np.where(self._ended, self._seeds_of_attempts(self._attempts), -1)
        self._worlds.ask("step", np.stack([actions, seeds], axis=1))

    def recv(self) -> HostStep:
        images, measures, is_first, is_last = self._worlds.together()
        if self._attempts is not None:
            is_first, is_last = self._attempted(is_first, is_last, self._attempts)
        return HostStep(Look(images, measures), is_first, is_last)

    def _attempted(
        self, is_first: np.ndarray, is_over: np.ndarray, attempts: Attempts
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which environments are at the first and at the last step of an attempt, from those of their episodes."""
        is_first = is_first | self._ended
        self._age = np.where(is_first, 0, self._age + 1)
        groups = (is_over | (self._age == attempts.horizon)).reshape((-1, attempts.twins))
        self._ended = groups.any(1).repeat(attempts.twins)
        return is_first, self._ended

    def _seeds_of_attempts(self, attempts: Attempts) -> np.ndarray:
        """The seeds that the next attempts begin by, one for each group; −1: it goes on where it is."""
        groups = self.size // attempts.twins
        seeds = self._chance.integers(2**31 - 1, size=groups)
        if attempts.twins == 1:
            seeds = np.where(self._chance.random(groups) < attempts.p_restart, seeds, -1)
        return seeds.repeat(attempts.twins)

    def observe(self, raw: Look) -> jax.Array:
        return jnp.asarray(raw.image)

    def measure(self, raw: Look) -> np.ndarray:
        return np.asarray(raw.measures)

    def goals(self, name: str, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Frames of random play, each up to T steps after a fresh start, whatever the number of environments; of an
        even set those among many that are farthest apart, since random play hardly leaves a corner; in turn, where
        fewer differ than are wanted."""
        if name == "even":
            images, measures = self.goals("random", half, CANDIDATES * count)
            chosen = far_apart(on_a_scale(measures, self.spec.dimensions), min(count, len(np.unique(measures, axis=0))))
            return images[np.resize(chosen, count)], measures[np.resize(chosen, count)]
        seed, starts = GOAL_SEEDS[half], range(0, count, self.size)
        made = [self._some_goals(seed, np.arange(start, start + self.size)) for start in starts]
        images, measures = (np.concatenate(parts)[:count] for parts in zip(*made, strict=True))
        return images, measures

    def _some_goals(self, seed: int, numbers: np.ndarray) -> Look:
        """The goals with the given numbers [N]; play that ends before its time shows its last frame."""
        chances = [np.random.default_rng([seed, number]) for number in numbers]
        moments = np.array([chance.integers(1, self._horizon + 1) for chance in chances])
        look = self._reset(np.stack([np.full(self.size, seed), numbers], axis=1)).raw
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

    def score_hint(self) -> str | None:
        """How to score what has varied since it was made; None where something is scored, or nothing has."""
        self._worlds.ask("ranges", np.arange(self.size))
        ends: dict[str, list[float]] = {}
        for name, ends_in_one in (entry for part in self._worlds.answers() for one in part for entry in one.items()):
            ends.setdefault(name, []).extend(ends_in_one)
        found = {name: (min(seen), max(seen)) for name, seen in ends.items()}
        named = [shlex.quote(f"{name}:{low:.4g}:{high:.4g}") for name, (low, high) in found.items() if low < high]
        more = ["…"] if len(named) > HINTED else []
        return f"score it with --gym.score {' '.join(named[:HINTED] + more)}" if named else None

    def close(self) -> None:
        self._worlds.close()


def misfit(made: list[dict[str, Any]], attempts: Attempts | None) -> str | None:
    """Why environments that the processes made cannot be acted in together."""
    actions, dimensions = (set().union(*(part[key] for part in made)) for key in ("actions", "dimensions"))
    if len(actions) > 1:
        return f"has now one number of actions, now another: {sorted(actions)}"
    if len(dimensions) > 1:
        return "has now one size, now another: name what is scored with --gym.score name:low:high"
    if made[0]["vector"] and attempts is not None:
        return "is a vector, which restarts as a whole: leave --actor.twins at 1 and --actor.p-restart at 0"
    return None


def on_a_scale(measures: np.ndarray, dimensions: tuple[Dimension, ...]) -> np.ndarray:
    """Points whose distances are those of the measures, in ranges: [M, D] → [M, D + those that wrap]."""
    low, high = (np.array([getattr(d, end) for d in dimensions]) for end in ("low", "high"))
    wraps = np.array([d.wraps for d in dimensions], bool)
    shares = (measures - low) / (high - low)
    angles = 2 * np.pi * shares[:, wraps]
    return np.concatenate([shares[:, ~wraps], np.cos(angles) / 2, np.sin(angles) / 2], axis=1)


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


def _rows(mask: np.ndarray, like: np.ndarray) -> np.ndarray:
    return mask.reshape(mask.shape + (1,) * (like.ndim - 1))
