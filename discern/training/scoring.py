"""The fixed goals of a run, and who scores its agents on them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import jax
import jax.numpy as jnp

from discern.agent.learner import Learner
from discern.config import Config
from discern.envs import ScoredEnv, is_host, make_scored_env
from discern.evaluation.achievement import Score, evaluator
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.evaluation.told_apart import Shares, row, told_apart_in
from discern.types import Params

Phases = Callable[[str], AbstractContextManager[object]]


class FixedGoals(NamedTuple):
    """The world to score in, and the half of its goals that is for choosing."""

    env: ScoredEnv
    goals: GoalSet
    hint: str | None  # how success could be measured in a world that has no score

    def close(self) -> None:
        if is_host(self.env):
            self.env.close()


def fixed_goals(config: Config, phases: Phases = nullcontext) -> FixedGoals:
    """Those of the config's world; a UserError where there are no such goals."""
    with phases("making the fixed goals"):
        env = make_scored_env(config.env, config.evaluation_goals, config)
        goals = goal_set(env, "tune", config.evaluation_goals)
        return FixedGoals(env, goals, env.score_hint() if hasattr(env, "score_hint") else None)


class Scoring:
    """Scores agents on the half of the goals that is for choosing; once, at the end, on the half that is reported.

    Goals are told apart too, unless nothing but the end is evaluated.
    """

    def __init__(self, config: Config, learner: Learner, fixed: FixedGoals, phases: Phases = nullcontext):
        self.config, self.learner, self.env, self.goals = config, learner, fixed.env, fixed.goals
        with phases("learning to tell goals apart"):
            self.apart_by = told_apart_in(config) if config.evaluate_every else None
        self.evaluate = evaluator(learner.imitator, self.env, self.apart_by)
        self.final_trials = max(config.evaluation_trials, 1 if is_host(self.env) else 5)
        has_figure = self.env.spec.dimensions or self.apart_by is not None
        with phases("scoring the random policy"):
            self.random = self._random() if has_figure else None
        self.random_success = (self.random and self.random.success) or 0.0
        self.ceiling = self._ceiling(self.goals)

    def score(self, agent: Params) -> Score:
        """A point of the curve."""
        return self.evaluate(agent, self.goals, self.config.evaluation_trials)

    def _random(self) -> Score:
        """The random policy's, what to compare a curve with; no parameters matter to it, so it can be scored first."""
        shapes = jax.eval_shape(self.learner.init, jax.random.key(0), self.goals.images).agent
        nobody = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
        return self.evaluate(nobody, self.goals, self.final_trials, epsilon=1.0)

    def _ceiling(self, goals: GoalSet) -> Shares | None:
        return None if self.apart_by is None else self.apart_by.ceiling(goals, self.env.spec.dimensions)

    def told_apart(self, score: Score) -> dict[str, float]:
        """A point of the curve: goals told apart, by the random policy too, and at best."""
        random = None if self.random is None else self.random.told_apart
        return row(score.told_apart, random, self.ceiling)

    def final(self, agent: Params) -> tuple[GoalSet, Score, Score, Shares | None]:
        """What is reported: goals that no curve and no choice of settings has seen, the agent, the random policy, and
        how many goals can be told apart at best."""
        goals = goal_set(self.env, "test", self.config.evaluation_goals)
        of_agent, of_random = (self.evaluate(agent, goals, self.final_trials, epsilon) for epsilon in (0.0, 1.0))
        return goals, of_agent, of_random, self._ceiling(goals)
