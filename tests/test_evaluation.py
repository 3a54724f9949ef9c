import jax
import jax.numpy as jnp
import numpy as np
import pytest

import discern
from discern.agent.learner import Learner
from discern.envs import Hosted, make_env
from discern.envs.base import Dimension
from discern.evaluation import achievement
from discern.evaluation.achievement import evaluator, reached, score
from discern.evaluation.figures import draw_averages, draw_budgets, draw_curve, draw_goals
from discern.evaluation.final import load_final
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.inference import load
from discern.storage.run_folder import RunFolder
from discern.training.loop import train
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
    first, second = goal_set(env, "even:tune"), goal_set(env, "tune")
    assert first.digest == second.digest == "c2eb27cf6bda88f7"
    assert first.images.shape == (100, 24, 24, 3)
    for name in ("nope", "nope:test", "even:best", "even:tune:test", ":"):
        with pytest.raises(UserError, match=f"no goal set '{name}'; it has: even, each whole, or its half with :tune"):
            goal_set(env, name)


@pytest.mark.parametrize(
    ("world", "digest"),
    [("arena", "214b2e07b78dfc2f"), ("arena/two", "2b59ebef952432d2"), ("watermaze", "bc7b64e8b6084c5c")],
)
@pytest.mark.usefixtures("to_the_bit")
def test_the_halves_of_a_goal_set_share_no_goal(world, digest):
    env = make_env(world)
    tune, test, both = (goal_set(env, name) for name in ("even:tune", "even:test", "even"))
    assert [goals.name for goals in (tune, test, both)] == ["even:tune", "even:test", "even"]
    assert goal_set(env).digest == test.digest == digest
    np.testing.assert_array_equal(both.images, np.concatenate([tune.images, test.images]))
    np.testing.assert_array_equal(both.measures, np.concatenate([tune.measures, test.measures]))
    assert len({image.tobytes() for image in both.images}) == 200
    assert len({tuple(measures) for measures in both.measures.tolist()}) == 200
    span = np.array([d.high - d.low for d in env.spec.dimensions])
    np.testing.assert_allclose(tune.measures.mean(0) / span, test.measures.mean(0) / span, atol=0.03)


def test_a_run_is_watched_on_one_half_and_reported_on_the_other(tiny, tmp_path):
    """The curve's last point is of the tune half, final.npz of the test half."""
    run = train(tiny, tmp_path / "run")
    final, env = load_final(run), make_env("arena")
    assert final.goal_set == "even:test"
    np.testing.assert_array_equal(final.goals, goal_set(env, "even:test", 4).images)
    agent = load(run)
    evaluate = evaluator(agent.learner.imitator, env)
    tune, test, chance = (
        evaluate(agent.params, goal_set(env, half, 4), trials, epsilon)
        for half, trials, epsilon in (("tune", 1, 0.0), ("test", 5, 0.0), ("test", 5, 1.0))
    )
    row = RunFolder(run).metrics()[-1]
    assert (row["success"], row["at_some_step"]) == (tune.success, tune.at_some_step)
    assert (final.success, final.at_some_step) == pytest.approx((test.success, test.at_some_step))
    assert final.random == pytest.approx(chance.success)
    report = discern.evaluate(run, "even", trials=1, count=4)
    assert report["goals"] == {"set": "even", "count": 8, "digest": goal_set(env, "even", 4).digest}
    assert len(report["by_goal"]) == 8


def test_what_an_older_version_left_is_of_the_tune_half(tmp_path):
    """Today's tune half is what goal sets were before they had halves."""
    images = np.zeros((2, 1, 1, 3), np.uint8)
    shares = np.array([1.0, 0.5], np.float32)
    older = {"success": 0.75, "goals": images, "achieved": images, "average": images, "by_goal": shares}
    np.savez(tmp_path / "final.npz", **older)
    final = load_final(tmp_path)
    assert (final.success, final.goal_set) == (0.75, "tune")
    assert np.isnan([final.at_some_step, final.random]).all()
    np.testing.assert_array_equal(final.by_goal, shares)


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
