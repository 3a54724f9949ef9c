import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.learner import Learner
from discern.envs import Hosted, make_env
from discern.envs.base import Dimension
from discern.evaluation import achievement
from discern.evaluation.achievement import evaluator, reached, score
from discern.evaluation.figures import draw_averages, draw_budgets, draw_curve, draw_goals
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.types import UserError
from tests.counting import Counting

LINE, HINGE = Dimension("x", 0.0, 2.0), Dimension("angle", -np.pi, np.pi, wraps=True)


def test_within_a_tenth_of_the_range():
    measured = np.array([[1.0], [1.2], [1.21], [0.79], [2.3]])
    np.testing.assert_array_equal(
        reached(measured, np.array([[1.0]] * 4 + [[1.9]]), (LINE,))[:, 0], [True, True, False, False, True]
    )  # the last is outside its range, and is taken to be at the limit, 2.0


def test_a_hinge_wraps():
    goal = np.array([[3.1], [3.1], [0.0], [0.5]])
    measured = np.array([[-3.1], [-2.0], [4 * np.pi + 0.6], [-0.2]])
    np.testing.assert_array_equal(reached(measured, goal, (HINGE,))[:, 0], [True, False, True, False])


def test_the_score_counts_whole_goals_and_single_dimensions():
    images = np.zeros((2, 1, 1, 3), np.uint8)
    goals = GoalSet("even", images, np.array([[0.0, 0.0], [1.0, 1.0]], np.float32), "")
    ends = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # two trials of two goals
    starts = np.array([[9.0, 9.0], [1.0, 1.0], [0.0, 9.0], [np.nan, np.nan]])  # the second passed through its goal
    result = score(np.stack([starts, ends], 1), images, images, goals, (LINE, Dimension("y", 0.0, 1.0)))
    assert result.success == 0.5
    assert result.at_some_step == 0.75
    assert result.per_dimension == {"x": 1.0, "y": 0.5}
    np.testing.assert_allclose(result.by_goal, [0.5, 0.5])


def test_a_world_without_dimensions_has_no_score():
    images = np.zeros((2, 1, 1, 3), np.uint8)
    result = score(np.zeros((4, 3, 0)), images, images, GoalSet("", images, np.zeros((2, 0)), ""), ())
    assert (result.success, result.at_some_step, result.per_dimension) == (None, None, {})


def test_goal_sets_are_fixed():
    env = make_env("arena")
    first, second = goal_set(env), goal_set(env)
    assert first.digest == second.digest == "c2eb27cf6bda88f7"
    assert first.images.shape == (100, 24, 24, 3)
    with pytest.raises(UserError, match="no goal set 'nope'; it has: even"):
        goal_set(env, "nope")


@pytest.mark.parametrize("host", [False, True])
def test_the_random_policy_is_at_chance(tiny, host):
    """Both ways to attempt goals; 100 goals, 10 % of each of two axes: about 4 %."""
    env = Hosted(make_env("arena"), 32) if host else make_env("arena")
    learner = Learner(tiny, env.spec)
    params = jax.jit(learner.init)(jax.random.key(0), jnp.zeros((16, 24, 24, 3), jnp.uint8)).params
    goals = goal_set(make_env("arena"))
    evaluate = evaluator(learner.imitator, env)
    result = evaluate(params, goals, trials=6, epsilon=1.0)
    assert 0.01 < result.success < 0.08
    assert result.final_images.shape == (100, 24, 24, 3)
    assert result.success < result.at_some_step < 0.5
    assert evaluate(params, goals, trials=6, epsilon=1.0).success == result.success


@pytest.mark.parametrize("host", [False, True])
def test_an_attempt_takes_the_steps_it_is_given(tiny, host, monkeypatch):
    """Three of five steps in a world that counts: it ends at 3, it passed 1 and 2, and the clock began at 5 − 3."""
    clocks = []
    begin = achievement.begin_pursuit
    monkeypatch.setattr(achievement, "begin_pursuit", lambda *args: clocks.append(args[2]) or begin(*args))
    counting = Counting()
    learner = Learner(tiny, counting.spec)
    params = jax.jit(learner.init)(jax.random.key(0), jnp.zeros((16, 8, 8, 3), jnp.uint8)).params
    wanted = np.array([[0.0], [3.0], [5.0], [30.0]], np.float32)
    goals = GoalSet("", np.zeros((4, 8, 8, 3), np.uint8), wanted, "")
    monkeypatch.setattr(achievement, "TOLERANCE", 0.002)  # of 255: half a step
    evaluate = evaluator(learner.imitator, Hosted(counting, 3) if host else counting)
    result = evaluate(params, goals, trials=2, steps=3)
    np.testing.assert_array_equal(result.by_goal, [0, 1, 0, 0])
    np.testing.assert_array_equal(result.final_images[:, 0, 0, 1], 3)
    assert (result.success, result.at_some_step) == (0.25, 0.25)
    if not host:
        assert clocks == [2]
    whole = evaluate(params, goals, trials=1)
    assert (whole.success, whole.at_some_step) == (0.25, 0.5)


def test_what_cannot_be_measured_is_not_reached(tiny, monkeypatch):
    """A host world that sees its dimension only now and then."""
    world = Hosted(Counting(), 2)
    measure = world.measure
    monkeypatch.setattr(world, "measure", lambda raw: np.where(measure(raw) == 2, 2.0, np.nan).astype(np.float32))
    learner = Learner(tiny, world.spec)
    params = jax.jit(learner.init)(jax.random.key(0), jnp.zeros((16, 8, 8, 3), jnp.uint8)).params
    goals = GoalSet("", np.zeros((2, 8, 8, 3), np.uint8), np.array([[2.0], [200.0]], np.float32), "")
    result = evaluator(learner.imitator, world)(params, goals, trials=1)
    assert (result.success, result.at_some_step) == (0.0, 0.5)


def test_averages_are_over_all_trials_of_a_goal(tiny, monkeypatch):
    """Three trials of three goals, five at once: nine attempts that end in images of their own number, and padding."""
    env = Hosted(Counting(), 5)
    goals = GoalSet("", np.zeros((3, 1, 1, 3), np.uint8), np.zeros((3, 1), np.float32), "")
    ended = iter(np.split(np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1).repeat(3, -1), 2))
    monkeypatch.setattr(achievement, "_attempts_on_host", lambda *_: lambda *_: (next(ended), np.zeros((5, 4, 1))))
    result = evaluator(Learner(tiny, env.spec).imitator, env)({}, goals, trials=3)
    np.testing.assert_array_equal(result.final_images[:, 0, 0, 0], [0, 1, 2])
    np.testing.assert_array_equal(result.average_images[:, 0, 0, 0], [3, 4, 5])
    assert result.average_images.dtype == np.uint8


def test_pictures_are_drawn(tmp_path):
    goals = goal_set(make_env("arena"), count=4)
    result = score(goals.measures[:, None], goals.images, goals.images, goals, make_env("arena").spec.dimensions)
    assert result.success == 1.0
    draw_goals(goals, result, tmp_path / "goals.png")
    draw_averages(goals, result.average_images, tmp_path / "averages.png")
    draw_curve(
        [{"steps": 0, "success": 0.1, "random": 0.04}, {"steps": 9, "teacher_accuracy": 0.5}], tmp_path / "c.png"
    )
    shares = {n: {"success": n / 20, "at_some_step": n / 19} for n in (10, 5)}
    draw_budgets({"one": shares, "another": shares}, tmp_path / "b.png")
    for name in ("goals.png", "averages.png", "c.png", "b.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
