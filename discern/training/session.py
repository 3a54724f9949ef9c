"""One stretch of a run: turns until the budget is spent or someone asks to stop; looking, logging, saving between."""

import math
import signal
import threading
import time
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import jax

from discern.evaluation.achievement import Score
from discern.evaluation.final import save_final, save_strip
from discern.evaluation.goal_sets import GoalSet
from discern.evaluation.probe import sight_in_trajectories, trajectory_probe
from discern.evaluation.told_apart import Shares, sentence
from discern.storage.run_folder import RunFolder
from discern.storage.state import TrainState, budget_spent, diverged, save_state
from discern.training.live import View
from discern.training.metrics import Metrics, Rates
from discern.training.scoring import FixedGoals, Scoring
from discern.types import LostError, StoppedError, UserError, WandbMode

if TYPE_CHECKING:
    from discern.training.loop import Loop


class Stop:
    """Asked to stop by SIGINT or SIGTERM: the first is heeded between two turns, a second one at once."""

    def __init__(self) -> None:
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
    """From a start or a resume to the end, a stop or a failure."""

    def __init__(
        self,
        loop: "Loop",
        state: TrainState,
        fixed: FixedGoals,
        scoring: Future[Scoring],
        folder: RunFolder,
        view: View,
        began: float,
        resumed: bool = False,
        wandb: WandbMode | None = None,
    ):
        """`began`, by the monotonic clock, is when making the environments did: the budget counts from there. Nobody
        waits for who is to score before there is something to score."""
        self.loop, self.state, self.fixed, self.scoring = loop, state, fixed, scoring
        self.folder, self.view, self.resumed, self.wandb = folder, view, resumed, wandb
        self.config = loop.config
        self.look = trajectory_probe(loop.learner)
        self.rates = Rates(state.steps, int(state.learner.updates))
        self.began = began
        self.seconds_before = state.seconds
        self.compile_seconds = 0.0
        self.evaluate_at = state.steps + (self.config.evaluate_every or 0)
        self.last_log = self.last_save = time.monotonic()

    def spend(self) -> Path:
        """Spends the budget, saves, draws, and returns the run's folder."""
        self.view.console.print(
            f"{self.config.env} on {jax.devices()[0].device_kind} into {self.folder.path}", soft_wrap=True
        )
        if self.fixed.hint:
            self.view.console.print(self.fixed.hint, soft_wrap=True, highlight=False, markup=False)
        after_step = self.state.steps if self.resumed else None
        with Stop() as stop, Metrics(self.folder, self.view, after_step, self.wandb) as metrics:
            try:
                self.run(metrics, stop)
            except LostError as error:
                self.state = error.state or self.state
                self.save()
                advice = f"{error}; what was learned is saved: go on with discern train --resume {self.folder.path}"
                raise LostError(advice) from error
            if stop.signal is not None:
                advice = f"stopped and saved; go on with: discern train --resume {self.folder.path}"
                raise StoppedError(advice, stop.signal)
            self.log(metrics, {}, self.score())
            with self.view.phases("scoring on goals not seen before"):
                goals, score, random, ceiling = self.scoring.result().final(self.state.learner.agent)
        save_final(self.folder, goals, score, random)
        self.draw(goals, score)
        self.view.console.print(
            f"{self.outcome(goals, score, random, ceiling)}; see {self.folder.path}/goals.png", soft_wrap=True
        )
        if not int(self.state.learner.updates):
            self.view.console.print(
                f"nothing was learned, the budget was spent before the first update: go on with a larger one, "
                f"discern train --resume {self.folder.path} with --minutes or --steps",
                soft_wrap=True,
            )
        self.view.next_steps(self.folder.path)
        return self.folder.path

    def draw(self, goals: GoalSet, score: Score) -> None:
        """The run's pictures."""
        from discern.evaluation.figures import draw_averages, draw_curve, draw_goals  # matplotlib is slow to import

        draw_curve(self.folder.metrics(), self.folder.path / "curve.png")
        draw_goals(goals, score, self.folder.path / "goals.png")
        if self.scoring.result().final_trials > 1:
            draw_averages(goals, score.average_images, self.folder.path / "averages.png")

    def outcome(self, goals: GoalSet, score: Score, random: Score, ceiling: Shares | None) -> str:
        """What the run achieved on goals not seen before, beside what chance would."""
        count = len(goals.images)
        reached = f"{self.config.env} has no success rate, because {self.fixed.env.spec.unscored}"
        if score.success is not None:
            reached = (
                f"{score.success:.1%} of {count} held-out goals ({goals.name}) reached "
                f"(random policy {random.success:.1%})"
            )
        if score.told_apart is None:
            return reached
        attempts = count * self.scoring.result().final_trials
        return f"{reached}; {sentence(score.told_apart, random.told_apart, ceiling, count, attempts)}"

    def run(self, metrics: Metrics, stop: Stop) -> None:
        """Turn after turn; a checkpoint at the end, and no older than `checkpoint_seconds` before it."""
        first = ExitStack()
        first.enter_context(self.view.phases("the first update"))
        while not self.finished() and stop.signal is None:
            self.state, learned = self.loop.turn(self.state)
            if learned and not self.compile_seconds:
                jax.block_until_ready(learned)
                self.compile_seconds = time.monotonic() - self.began
                first.close()
            if not self.state.learning:
                self.refuse_if_nothing_lasts()
            if self.scoring.done():
                self.scoring.result()  # a world in which nobody can be scored ends the run soon
            now = time.monotonic()
            self.state = self.state._replace(seconds=self.seconds_before + now - self.began)
            evaluation_due = self.config.evaluate_every and self.state.steps >= self.evaluate_at
            if learned and (evaluation_due or now - self.last_log >= self.config.log_seconds):
                self.log(metrics, learned, self.score() if evaluation_due else None)
            if now - self.last_save >= self.config.checkpoint_seconds:
                self.save()
        self.save()

    def refuse_if_nothing_lasts(self) -> None:
        """Episodes that all end before a goal's time is up leave nothing to learn from."""
        actor, counts = self.config.actor, self.loop.actors.counts(self.state)
        if counts["trajectories"] == 0 and counts["dropped"] >= 20 * actor.environments:
            raise UserError(
                f"no episode of {self.config.env} has lasted {actor.horizon} steps: choose a smaller --actor.horizon"
            )

    def finished(self) -> bool:
        return budget_spent(self.config, self.state) >= 1.0

    def score(self) -> Score:
        """A point of the curve."""
        self.evaluate_at = self.state.steps + (self.config.evaluate_every or 0)
        scoring = self.scoring.result()
        if self.state.random_success < 0:
            self.state = self.state._replace(random_success=scoring.random_success)
        with self.view.phases("scoring"):
            return scoring.score(self.state.learner.agent)

    def probe(self) -> dict[str, float]:
        """What can be read of the scored dimensions from what the agent sees; nothing where nobody measured them."""
        sampled = self.loop.actors.sample(self.state, jax.random.key(self.state.turn))
        if sampled is None or not sampled.measures.shape[-1]:
            return {}
        return sight_in_trajectories(self.look(self.state.learner.agent, sampled), self.fixed.env.spec.dimensions)

    def save(self) -> None:
        save_state(self.folder, self.state, self.config.save_replay)
        self.last_save = time.monotonic()

    def log(self, metrics: Metrics, learned: dict[str, jax.Array], score: Score | None) -> None:
        state, values = self.state, jax.device_get(learned)
        if not all(math.isfinite(value) for value in values.values()):
            raise diverged(self.folder, state.steps)
        updates = int(state.learner.updates)
        row: dict[str, Any] = {"steps": state.steps, "updates": updates, "seconds": state.seconds}
        spent = budget_spent(self.config, state)
        seconds_left = state.seconds * (1 / spent - 1) if 0 < spent < 1 else 0.0
        row |= {"compile_seconds": self.compile_seconds, "budget_spent": spent, "seconds_left": seconds_left}
        row |= self.rates.read(state.steps, updates, self.loop.trained_per_update)
        row |= self.loop.actors.counts(state) | values
        row["parameter_lag"] = self.loop.actors.parameter_lag()
        if score is not None and score.success is not None:
            row["random"] = state.random_success
            row |= {"success": score.success, "at_some_step": score.at_some_step, "per_dimension": score.per_dimension}
            row |= self.probe()
        picture = None
        if score is not None:
            picture = self.folder.path / "goals.png"
            row |= self.scoring.result().told_apart(score)
            save_strip(self.fixed.goals.images, score.final_images, picture)
        metrics.write(row, picture)
        self.last_log = time.monotonic()
