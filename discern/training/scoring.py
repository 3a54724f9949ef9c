"""The fixed goals of a run, and who scores its agents on them."""

import jax
import jax.numpy as jnp

from discern.agent.learner import Learner
from discern.config import Config
from discern.envs import is_host, make_scored_env
from discern.evaluation.achievement import Score, evaluator
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.types import Params


class Scoring:
    """Scores agents on the half of the goals that is for choosing; once, at the end, on the half that is reported."""

    def __init__(self, config: Config, learner: Learner):
        self.config, self.learner = config, learner
        self.env = make_scored_env(config.env, config.evaluation_goals, config)
        self.evaluate = evaluator(learner.imitator, self.env)
        self.goals = goal_set(self.env, "tune", config.evaluation_goals)
        self.scored = bool(self.env.spec.dimensions)
        self.final_trials = max(config.evaluation_trials, 1 if is_host(self.env) else 5)
        self.random_success = self._random_success() if self.scored else 0.0

    def score(self, agent: Params) -> Score:
        """A point of the curve."""
        return self.evaluate(agent, self.goals, self.config.evaluation_trials)

    def _random_success(self) -> float:
        """The random policy's, what to compare a curve with; no parameters matter to it, so it can be scored first."""
        shapes = jax.eval_shape(self.learner.init, jax.random.key(0), self.goals.images).agent
        nobody = jax.tree.map(lambda shape: jnp.zeros(shape.shape, shape.dtype), shapes)
        return self.evaluate(nobody, self.goals, self.final_trials, epsilon=1.0).success or 0.0

    def final(self, agent: Params) -> tuple[GoalSet, Score, Score]:
        """What is reported: goals that no curve and no choice of settings has seen, the agent and the random policy."""
        goals = goal_set(self.env, "test", self.config.evaluation_goals)
        of_agent, of_random = (self.evaluate(agent, goals, self.final_trials, epsilon) for epsilon in (0.0, 1.0))
        return goals, of_agent, of_random

    def close(self) -> None:
        if is_host(self.env):
            self.env.close()
