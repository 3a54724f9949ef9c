import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.learner import Learner
from discern.cli import main
from discern.config import replace
from discern.envs import is_host, make_env, make_scored_env
from discern.envs.watermaze.world import ACTIONS, Watermaze, WatermazeState
from discern.evaluation.achievement import evaluator, reached
from discern.evaluation.goal_sets import goal_set
from discern.presets import preset
from discern.types import UserError
from tests.conftest import TINY

NAME = "lab/rooms_watermaze"


@pytest.fixture
def lab(monkeypatch):
    """A module with Lab's interface on the path, for this process and those it starts."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "stand_in"))


@pytest.fixture
def opened(lab):
    """Makes worlds, and closes them."""
    worlds = []

    def make(maker, n: int):
        worlds.append(maker(NAME, n))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def test_without_lab_one_sentence_and_nothing_created(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"needs DeepMind Lab.*build its wheel.*`watermaze` is a world like it"):
        make_env(NAME)
    monkeypatch.setattr(sys, "argv", ["discern", "train", NAME])
    with pytest.raises(SystemExit) as leave:
        main()
    error = capsys.readouterr().err
    assert leave.value.code == 2
    assert error.startswith("discern: lab/rooms_watermaze needs DeepMind Lab")
    assert error.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())


def test_other_levels_are_refused(lab):
    with pytest.raises(UserError, match="there is no world 'lab/moon'; there are: lab/rooms_watermaze"):
        make_env("lab/moon")


def test_levels_play_side_by_side_and_start_over(opened):
    """An episode is ten steps; the last shows what was seen before it, and the next ignores its action."""
    env = opened(make_env, 3)
    assert is_host(env)
    assert (env.spec.image_shape, env.spec.actions, env.size) == ((84, 84, 3), 9, 3)
    step = env.reset(5)
    assert len(set(step.raw[:, 0, 0, 1].tolist())) == 3  # each has a seed of its own
    history = [(step.raw[0, 0, 0, 0], bool(step.is_first[0]), bool(step.is_last[0]))]
    for _ in range(12):
        env.send(np.array([0, 5, 8], np.int32))
        step = env.recv()
        history.append((step.raw[0, 0, 0, 0], bool(step.is_first[0]), bool(step.is_last[0])))
    frames = [4 * t for t in range(10)]
    assert history[0] == (0, True, False)
    assert history[1:10] == [(frame, False, False) for frame in frames[1:]]
    assert history[10:] == [(36, False, True), (0, True, False), (4, False, False)]
    assert np.asarray(env.observe(step.raw)).shape == (3, 84, 84, 3)
    again = env.reset(5)
    np.testing.assert_array_equal(again.raw[:, 0, 0, 0], 0)


def test_actions_are_those_of_the_watermaze(opened):
    """One level for each action: all end where the watermaze ends, but for how a turn is shared out over frames."""
    env = opened(make_scored_env, len(ACTIONS))
    start = env.measure(env.reset(1).raw)
    env.send(np.arange(len(ACTIONS), dtype=np.int32))
    measured = env.measure(env.recv().raw)
    maze = Watermaze()
    states = WatermazeState(jnp.asarray(start[:, :2]), jnp.asarray(start[:, 2]))
    key = jax.random.key(0)
    expected = jax.jit(jax.vmap(lambda s, a: maze.measure(maze.step(s, a, key)[0])))(states, jnp.arange(len(ACTIONS)))
    inside = (np.linalg.norm(measured[:, :2], axis=1) < 740)[:, None]  # the stand-in has no walls
    turned = np.abs((measured - expected)[:, 2] + np.pi) % (2 * np.pi) - np.pi
    assert inside.mean() > 0.8
    np.testing.assert_allclose(np.where(inside, measured - expected, 0)[:, :2], 0, atol=1.0)
    np.testing.assert_allclose(turned, 0, atol=1e-3)


def test_goals_are_fixed_and_apart(opened):
    assert make_scored_env(NAME, 100).size == 16
    env = opened(make_scored_env, 4)
    goals = goal_set(env, count=12)
    assert goals.images.shape == (12, 84, 84, 3)
    assert goals.digest == goal_set(env, "test", 12).digest != goal_set(env, "tune", 12).digest
    same = reached(goals.measures[:, None], goals.measures[None], env.spec.dimensions).all(-1)
    np.testing.assert_array_equal(same, np.eye(12, dtype=bool))


def test_a_death_is_told(opened, monkeypatch):
    monkeypatch.setenv("STAND_IN_DIES", "1")
    env = opened(make_env, 1)
    env.reset(0)
    env.send(np.zeros(1, np.int32))
    with pytest.raises(UserError, match="lab/rooms_watermaze died with exit code 7 while stepping"):
        env.recv()


def test_attempts_are_scored_by_place_and_yaw(opened):
    """Six goals on four levels: the stand-in's image says how many steps were made."""
    env = opened(make_scored_env, 4)
    learner = Learner(replace(preset(NAME), TINY | {"network.kernels": (8,), "network.strides": (8,)}), env.spec)
    params = jax.jit(learner.init)(jax.random.key(0), jnp.zeros((16, 84, 84, 3), jnp.uint8)).params
    result = evaluator(learner.imitator, env)(params, goal_set(env, count=6), trials=2, epsilon=1.0)
    assert set(result.per_dimension) == {"x", "y", "yaw"}
    assert result.success is not None and result.success <= min(result.per_dimension.values())
    np.testing.assert_array_equal(result.final_images[:, 0, 0, 0], 4 * TINY["actor.horizon"])
    np.testing.assert_array_equal(result.average_images[:, 0, 0, 0], 4 * TINY["actor.horizon"])
