"""The wiring of one machine: collect, learn, and now and then look, log and save."""

import math
import signal
import threading
import time
from pathlib import Path
from typing import Any, Self

import jax
import jax.numpy as jnp
from rich.console import Console

from discern.agent.learner import Learner
from discern.agent.relabel import relabel
from discern.config import Config
from discern.envs import is_host, make_env
from discern.evaluation.achievement import Score, evaluator
from discern.evaluation.figures import draw_curve, draw_goals
from discern.evaluation.goal_sets import goal_set
from discern.run.actor import Collector, DeviceCollector, HostCollector, Memory
from discern.run.folder import RunFolder, new_folder, resumed_folder
from discern.run.metrics import Metrics, Rates
from discern.run.replay import empty_replay, refuse_if_too_large, sample
from discern.run.state import TrainState, restore_state, save_state
from discern.types import LearnerState, PRNGKey, StoppedError


class Loop:
    """The parts of a run, compiled, and how they take turns."""

    def __init__(self, config: Config):
        self.config = config
        self.env = make_env(config.env, config.actor.environments)
        self.replay_size = (config.replay_capacity, config.actor.environments, config.actor.horizon)
        refuse_if_too_large(*self.replay_size, self.env.spec.image_shape)
        self.learner = Learner(config, self.env.spec)
        self.collector = make_collector(config, self.env, self.learner)
        self.updates_per_call = config.learner.updates_per_call or (1 if jax.default_backend() == "cpu" else 8)
        self.trained_per_update = config.learner.batch * config.actor.horizon
        self.learn = jax.jit(self._learn, donate_argnums=0)

    def start(self) -> TrainState:
        """A fresh state: random play fills the goal buffer."""
        key = jax.random.key(self.config.seed)
        collecting, goals, steps = self.collector.start(
            jax.random.fold_in(key, 0), first_slot=self.config.replay_capacity
        )
        learner = jax.jit(self.learner.init)(jax.random.fold_in(key, 1), goals.images)
        replay = jax.jit(empty_replay, static_argnums=range(4))(*self.replay_size, self.env.spec.image_shape)
        return TrainState(learner, collecting, Memory(replay, goals), steps=steps)

    def turn(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        """Every environment acts; then the learner makes the updates that the replay ratio asks for."""
        key = jax.random.fold_in(jax.random.key(self.config.seed), 2 + state.turn)
        act_key, learn_key = jax.random.split(key)
        collecting, memory = self.collector.turn(state.learner.params, state.collecting, state.memory, act_key)
        learning = state.learning or int(memory.replay.filled) >= self.config.learner.batch
        learner, owed, metrics = state.learner, state.updates_owed, {}
        if learning:
            owed += self.collector.steps_per_turn * self.config.learner.replay_ratio / self.trained_per_update
            for call in range(int(owed / self.updates_per_call)):
                learner, metrics = self.learn(learner, memory, jax.random.fold_in(learn_key, call))
                owed -= self.updates_per_call
        state = state._replace(
            learner=learner,
            collecting=collecting,
            memory=memory,
            turn=state.turn + 1,
            steps=state.steps + self.collector.steps_per_turn,
            updates_owed=owed,
            learning=learning,
        )
        return state, metrics

    def parameter_lag(self) -> int:
        """The most updates that the learner is ahead of the parameters an action was chosen by."""
        owed = self.collector.steps_per_turn * self.config.learner.replay_ratio / self.trained_per_update
        return math.ceil(owed / self.updates_per_call) * self.updates_per_call

    def _learn(self, state: LearnerState, memory: Memory, key: PRNGKey) -> tuple[LearnerState, dict[str, jax.Array]]:
        def one(state: LearnerState, key: PRNGKey) -> tuple[LearnerState, dict[str, jax.Array]]:
            sample_key, relabel_key = jax.random.split(key)
            trajectories = sample(memory.replay, sample_key, self.config.learner.batch)
            batch = relabel(relabel_key, trajectories, memory.goals, self.config.relabel, self.config.reward.decoys)
            return self.learner.update(state, batch)

        if self.updates_per_call == 1:  # a convolution's gradient is slow inside a loop on a CPU
            return one(state, key)
        state, metrics = jax.lax.scan(one, state, jax.random.split(key, self.updates_per_call))
        return state, jax.tree.map(jnp.mean, metrics)


def make_collector(config: Config, env: Any, learner: Learner) -> Collector:
    """Inside jit where the world can live there; else two groups of environments that take turns."""
    if not is_host(env) and not config.actor.host:
        return DeviceCollector(config, env, learner.imitator)
    n = config.actor.environments
    sizes = [n - n // 2, n // 2] if n > 1 else [n]
    return HostCollector(config, [make_env(config.env, size, host=True) for size in sizes], learner.imitator)


class Stop:
    """Asked to stop by SIGINT or SIGTERM: the first is heeded between two turns, a second one at once."""

    def __init__(self):
        self.signal: int | None = None

    def __enter__(self) -> Self:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._heed) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _heed(self, number: int, _: Any) -> None:
        self.signal = number
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Session:
    """One stretch of a run, from its start or a resume to its end, a stop or a failure."""

    def __init__(self, config: Config, folder: RunFolder, console: Console, loop: Loop, state: TrainState):
        self.config, self.folder, self.console, self.loop, self.state = config, folder, console, loop, state
        self.evaluate = evaluator(loop.learner.imitator, loop.env)
        self.goals = goal_set(loop.env, count=config.evaluation_goals)
        self.rates = Rates(state.steps, int(state.learner.updates))
        self.started = time.monotonic() - state.seconds
        self.evaluate_at = state.steps
        self.last_log = self.last_save = time.monotonic()

    def run(self, metrics: Metrics, stop: Stop) -> Score:
        """Turns until the budget is spent or someone asks to stop; the score at the end."""
        if self.state.random_success < 0:
            random = self.evaluate(self.state.learner.agent, self.goals, trials=5, epsilon=1.0)
            self.state = self.state._replace(random_success=random.success)
        while not self.finished() and stop.signal is None:
            self.state, learned = self.loop.turn(self.state)
            self.state = self.state._replace(seconds=time.monotonic() - self.started)
            now = time.monotonic()
            evaluation_due = self.config.evaluate_every and self.state.steps >= self.evaluate_at
            if learned and (evaluation_due or now - self.last_log >= self.config.log_seconds):
                self.log(metrics, learned, self.score() if evaluation_due else None)
            if now - self.last_save >= self.config.checkpoint_seconds:
                self.save()
        self.save()
        score = self.score(trials=max(5, self.config.evaluation_trials))
        self.log(metrics, {}, score)
        return score

    def finished(self) -> bool:
        steps, minutes = self.config.steps, self.config.minutes
        return bool((steps and self.state.steps >= steps) or (minutes and self.state.seconds >= 60 * minutes))

    def score(self, trials: int | None = None) -> Score:
        self.evaluate_at = self.state.steps + self.config.evaluate_every
        return self.evaluate(self.state.learner.agent, self.goals, trials or self.config.evaluation_trials)

    def save(self) -> None:
        save_state(self.folder, self.state, self.config.save_replay)
        self.last_save = time.monotonic()

    def log(self, metrics: Metrics, learned: dict[str, jax.Array], score: Score | None) -> None:
        state = self.state
        updates = int(state.learner.updates)
        row: dict[str, Any] = {"steps": state.steps, "updates": updates, "seconds": state.seconds}
        row |= self.rates.read(state.steps, updates, self.loop.trained_per_update)
        row |= self.loop.collector.counts(state.collecting) | jax.device_get(learned)
        row |= {"parameter_lag": self.loop.parameter_lag(), "random": state.random_success}
        row["seconds_left"] = self.seconds_left()
        if score is not None:
            row |= {"success": score.success, "per_dimension": score.per_dimension}
        metrics.write(row)
        self.last_log = time.monotonic()

    def seconds_left(self) -> float:
        """By the tighter of the two budgets; 0 where there is none."""
        state, estimates = self.state, []
        if self.config.minutes:
            estimates.append(60 * self.config.minutes - state.seconds)
        if self.config.steps:
            estimates.append((self.config.steps - state.steps) * state.seconds / max(state.steps, 1))
        return max(0.0, min(estimates, default=0.0))


def train(config: Config, run: str | Path | None = None, console: Console | None = None) -> Path:
    """Trains a new agent and returns its run folder."""
    loop = Loop(config)
    folder = new_folder(run, config)
    return _spend(Session(config, folder, console or Console(), loop, loop.start()))


def resume(
    run: str | Path, steps: int | None = None, minutes: float | None = None, console: Console | None = None
) -> Path:
    """Goes on from the newest checkpoint of a run, if wanted with another budget."""
    folder, config = resumed_folder(run, steps, minutes)
    loop = Loop(config)
    state = restore_state(folder, loop.start())
    return _spend(Session(config, folder, console or Console(), loop, state), after_step=state.steps)


def _spend(session: Session, after_step: int | None = None) -> Path:
    folder, console = session.folder, session.console
    try:
        with Stop() as stop, Metrics(folder, console, after_step) as metrics:
            score = session.run(metrics, stop)
    finally:
        session.loop.collector.close()
    draw_curve(folder.metrics(), folder.path / "curve.png")
    draw_goals(session.goals, score, folder.path / "goals.png")
    console.print(
        f"{score.success:.1%} of {len(session.goals.images)} held-out goals reached "
        f"(random policy {session.state.random_success:.1%}); see {folder.path}/goals.png"
    )
    if stop.signal is not None:
        raise StoppedError(f"stopped and saved; go on with: discern train --resume {folder.path}", stop.signal)
    return folder.path
