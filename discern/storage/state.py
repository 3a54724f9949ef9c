"""All that a run is at one moment, and which part of it a checkpoint keeps."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from discern.agent.learner import policy_part
from discern.agent.replay import Memory
from discern.config import Config
from discern.storage.checkpoint import (
    fill,
    latest_checkpoint,
    list_checkpoints,
    load_checkpoint,
    read_manifest,
    save_checkpoint,
)
from discern.storage.run_folder import RunFolder, agent_alone
from discern.types import LearnerState, PRNGKey, UserError


class TrainState(NamedTuple):
    """Arrays of the run and its counters; every random choice follows from the seed and `turn`."""

    learner: LearnerState
    collecting: Any  # the state of whoever collects
    memory: Memory
    turn: int = 0
    steps: int = 0
    updates_owed: float = 0.0
    learning: bool = False
    seconds: float = 0.0
    random_success: float = -1.0  # of the random policy; −1: not measured yet


def budget_spent(config: Config, state: TrainState) -> float:
    """By the tighter of the two budgets; 0 where there is none."""
    by_steps = state.steps / config.steps if config.steps else 0.0
    by_time = state.seconds / (60 * config.minutes) if config.minutes else 0.0
    return max(by_steps, by_time)


class Keys:
    """The random keys of a turn: a function of the seed and the turn's number, counted on the accelerator."""

    def __init__(self, seed: int):
        self._key = jax.random.key(seed)
        self._coming = -1
        self._counter = jnp.int32(0)

    def of_turn(self, turn: int) -> tuple[PRNGKey, PRNGKey]:
        """One key to act with and one to learn with."""
        if turn != self._coming:
            self._counter = jnp.int32(turn)
        self._counter, act_key, learn_key = advance(self._key, self._counter)
        self._coming = turn + 1
        return act_key, learn_key


@jax.jit
def advance(key: PRNGKey, turn: jax.Array) -> tuple[jax.Array, PRNGKey, PRNGKey]:
    """The next turn, and the keys of this one."""
    act_key, learn_key = jax.random.split(jax.random.fold_in(key, 2 + turn))
    return turn + 1, act_key, learn_key


COUNTERS = tuple(TrainState._field_defaults)


def save_state(folder: RunFolder, state: TrainState, with_replay: bool) -> Path:
    """Saves everything; or, without replay, a small checkpoint that leaves out what is soon there again: the
    target network, Adam's momentum and, where there is an average, the parameters it is taken of; the optimiser's
    second moments are in bfloat16.

    Refuses to save parameters that are no longer finite, so that the last good checkpoint stays the newest.
    """
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(state.learner.params))):
        raise diverged(folder, state.steps)
    tree: dict[str, Any] = {"goals": state.memory.goals}
    if with_replay:
        tree |= {"learner": state.learner, "replay": state.memory.replay, "collecting": state.collecting}
    else:
        small = _small(state.learner)
        tree["learner"] = small._replace(optimiser=jax.tree.map(_halve, small.optimiser))
    counters = {name: getattr(state, name) for name in COUNTERS}
    return save_checkpoint(folder.checkpoints, state.steps, tree, {"counters": counters, "replay": with_replay})


def diverged(folder: RunFolder, steps: int) -> UserError:
    """What to say when parameters or losses are no longer finite."""
    saved = list_checkpoints(folder.checkpoints)
    kept = f"; the last good checkpoint is {saved[-1]}" if saved else ""
    return UserError(f"training diverged before step {steps:,}: try a smaller --learner.learning-rate{kept}")


def refuse_if_not_resumable(folder: RunFolder) -> None:
    """Says what is wrong with the newest checkpoint before anything is made, and before anything is changed.

    Agents were once exported as checkpoints of their own.
    """
    if read_manifest(latest_checkpoint(folder.checkpoints))["about"].get("agent_only"):
        raise agent_alone(folder.path)


def restore_state(folder: RunFolder, fresh: TrainState) -> TrainState:
    """The newest checkpoint's state; what it does not hold comes from the fresh one."""
    path = latest_checkpoint(folder.checkpoints)
    arrays, about = load_checkpoint(path)
    uncounted = {f"collecting.{i}.proposed": np.zeros((), np.int32) for i in range(len(fresh.collecting or ()))}
    arrays = unmeasured(fresh.memory) | uncounted | arrays
    counters = about["counters"]
    goals = fill(fresh.memory.goals, arrays, "goals.", path)
    if about["replay"]:
        learner = fill(fresh.learner, arrays, "learner.", path)
        replay = fill(fresh.memory.replay, arrays, "replay.", path)
        collecting = fill(fresh.collecting, arrays, "collecting.", path)
        return TrainState(learner, collecting, Memory(replay, goals), **counters)
    learner = fill(_small(fresh.learner), arrays, "learner.", path)
    learner = learner._replace(
        target_params=fresh.learner.target_params and jax.tree.map(jnp.copy, policy_part(learner.params)),
        ema=fresh.learner.ema and jax.tree.map(jnp.copy, learner.params),
        optimiser=_with_momentum_of(learner.optimiser, fresh.learner.optimiser),
    )
    memory = Memory(fresh.memory.replay, goals)
    return TrainState(learner, fresh.collecting, memory, **{**counters, "learning": False})


def unmeasured(memory: Memory) -> dict[str, np.ndarray]:
    """What a checkpoint from before measures were kept lacks: nothing was known of them."""
    unknown = {"goals.measures": memory.goals.measures}
    if memory.replay is not None:
        stored = memory.replay.stored
        unknown |= {"replay.stored.measures": stored.measures, "replay.stored.goal_measures": stored.goal_measures}
    return {name: np.full(there.shape, np.nan, np.float32) for name, there in unknown.items()}


def load_agent(folder: RunFolder, template: Any) -> tuple[Any, np.ndarray, int]:
    """The newest checkpoint's agent, its goal images, and the steps it was trained for."""
    path = latest_checkpoint(folder.checkpoints)
    arrays, about = load_checkpoint(path)
    averaged = any(name.startswith("learner.ema.") for name in arrays)
    prefix = "learner.ema." if averaged else "learner.params."
    params = fill(template, arrays, prefix, path)
    if "goals.images" not in arrays:
        raise UserError(f"{path} belongs to another agent: goals.images is missing")
    return params, arrays["goals.images"], about["counters"]["steps"]


def _small(learner: LearnerState) -> LearnerState:
    return LearnerState(learner.agent, None, None, _without_momentum(learner.optimiser), learner.updates)


def _is_adam(state: Any) -> bool:
    return isinstance(state, optax.ScaleByAdamState)


def _without_momentum(optimiser: Any) -> Any:
    return jax.tree.map(lambda s: s._replace(mu=None) if _is_adam(s) else s, optimiser, is_leaf=_is_adam)


def _with_momentum_of(optimiser: Any, fresh: Any) -> Any:
    return jax.tree.map(lambda s, f: s._replace(mu=f.mu) if _is_adam(s) else s, optimiser, fresh, is_leaf=_is_adam)


def _halve(leaf: jax.Array) -> np.ndarray:
    """On the host, where no program has to be compiled for it."""
    there = np.asarray(leaf)
    return there.astype(jnp.bfloat16) if there.dtype == np.float32 else there
