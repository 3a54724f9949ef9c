"""Worlds from Gymnasium: contract, discretisation, scores, refusals, and what happens when one fails."""

import contextlib
import os
import sys
from functools import partial
from pathlib import Path

import cv2
import jax
import numpy as np
import psutil
import pytest
from rich.console import Console

from discern.cli import main
from discern.config import Config, replace
from discern.envs import is_host, make_env, make_scored_env
from discern.envs.base import Attempts, Dimension
from discern.envs.gym.world import dimension
from discern.evaluation.goal_sets import goal_set
from discern.evaluation.report import evaluate
from discern.presets import preset
from discern.storage.run_folder import RunFolder
from discern.training.loop import train
from discern.types import UserError
from tests.conftest import TINY

STAND_IN = str(Path(__file__).parent / "stand_in")
SMALL = TINY | {"actor.warm_up": 1, "network.kernels": (6,), "network.strides": (6,)}
SCORE = ("x:0:14", "y:0:14:wraps")


@pytest.fixture(autouse=True)
def _tiny_worlds(monkeypatch):
    monkeypatch.syspath_prepend(STAND_IN)


@pytest.fixture
def opened():
    """Makes worlds, and closes them."""
    worlds = []

    def make(name: str, n: int = 1, maker=make_env, **gym):
        config = replace(preset(name), {f"gym.{key}": value for key, value in gym.items()})
        worlds.append(maker(name, n, config))
        assert is_host(worlds[-1])
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def processes() -> list[int]:
    """The processes of environments that this one has started and that still run."""
    found = []
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if "gym/worlds" in " ".join(process.cmdline()):
                found.append(process.pid)
    return found


def place(image: np.ndarray) -> tuple[int, int]:
    """x and y of the dot."""
    rows, columns = np.nonzero(image[..., 0])
    return int(columns.min()), int(rows.min())


def test_an_episode_ends_and_the_next_begins(opened):
    env = opened("tiny_worlds:Dot", size=16, make_args='{"length": 3}')
    assert (env.spec.image_shape, env.spec.actions, env.spec.name) == ((16, 16, 3), 4, "tiny_worlds:Dot")
    steps = [env.reset(4)]
    for action in (0, 0, 2, 1, 0):
        env.send(np.array([action], np.int32))
        steps.append(env.recv())
    assert [bool(step.is_first[0]) for step in steps] == [True, False, False, False, True, False]
    assert [bool(step.is_last[0]) for step in steps] == [False, False, False, True, False, False]
    places = np.array([place(step.raw.image[0]) for step in steps])
    moved = (places[1:] - places[:-1]) % 16
    np.testing.assert_array_equal(moved[[0, 1, 2, 4]], [[2, 0], [2, 0], [0, 2], [2, 0]])  # the fourth starts over
    assert np.asarray(env.observe(steps[0].raw)).dtype == np.uint8


def test_a_seed_and_actions_decide_everything_however_many_processes(opened, monkeypatch):
    def play(env) -> list[np.ndarray]:
        chance, shown = np.random.default_rng(0), [env.reset(7).raw.image]
        for _ in range(15):
            env.send(chance.integers(0, 4, 8, dtype=np.int32))
            shown.append(env.recv().raw.image)
        return shown

    several = opened("tiny_worlds:Dot", 8, size=16)
    first = play(several)
    np.testing.assert_array_equal(first, play(several))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    np.testing.assert_array_equal(first, play(opened("tiny_worlds:Dot", 8, size=16)))
    assert len({place(image) for image in first[0]}) > 3  # each has chances of its own


def test_twins_begin_every_attempt_by_one_seed(opened):
    """Episodes of seven steps: an attempt of five, then one of the same seed again for each member of a group."""
    env = opened("tiny_worlds:Dot", 6, partial(make_env, attempts=Attempts(5, 3)), size=16, make_args='{"length": 7}')
    step, chance = env.reset(0), np.random.default_rng(0)
    images, first, last = [step.raw.image], [step.is_first], [step.is_last]
    for _ in range(17):
        env.send(chance.integers(0, 4, 6))
        step = env.recv()
        images.append(step.raw.image), first.append(step.is_first), last.append(step.is_last)
    begins = np.arange(18) % 6 == 0
    np.testing.assert_array_equal(first, np.repeat(begins[:, None], 6, 1))
    np.testing.assert_array_equal(last, np.repeat((np.arange(18) % 6 == 5)[:, None], 6, 1))
    groups = np.stack(images).reshape((18, 2, 3, -1))
    assert (groups[begins] == groups[begins][:, :, :1]).all()
    assert (groups[~begins] != groups[~begins][:, :, :1]).any()
    assert len(np.unique(groups[begins][:, :, 0].reshape((6, -1)), axis=0)) > 3


def test_an_episode_that_ends_ends_the_attempt_of_its_twins(opened):
    env = opened("tiny_worlds:Dot", 2, partial(make_env, attempts=Attempts(5, 2)), size=16, make_args='{"length": 3}')
    env.reset(0)
    steps = []
    for _ in range(8):
        env.send(np.zeros(2, int))
        steps.append(env.recv())
    assert [step.is_last.tolist() for step in steps] == [[False] * 2, [False] * 2, [True] * 2, [False] * 2] * 2
    assert [step.is_first.all() for step in steps] == [False, False, False, True] * 2


def test_an_attempt_of_one_restarts_as_often_as_told(opened):
    env = opened("tiny_worlds:Dot", 4, partial(make_env, attempts=Attempts(3, 1, 0.5)), size=16, score=("steps:0:12",))
    env.reset(0)
    steps = []
    for _ in range(40):
        env.send(np.zeros(4, int))
        step = env.recv()
        steps += np.nan_to_num(env.measure(step.raw)[step.is_first, 0]).tolist()  # a first observation tells no steps
    assert 0.2 < np.mean(np.array(steps) > 0) < 0.7


def test_frames_are_skipped_up_to_the_end(opened):
    env = opened("tiny_worlds:Rendered", frame_skip=5, size=10)
    history = [env.reset(0).raw.image[0, 0, 0, 0]]
    for _ in range(4):
        env.send(np.zeros(1, np.int32))
        step = env.recv()
        history.append(step.raw.image[0, 0, 0, 0])
    assert history == [0, 5, 10, 12, 0]


def test_images_are_shrunk_by_area(opened):
    whole = opened("tiny_worlds:Dot", size=16).reset(3).raw.image[0]
    small = opened("tiny_worlds:Dot", size=8).reset(3).raw.image[0]
    np.testing.assert_array_equal(small, whole.reshape(8, 2, 8, 2, 3).mean((1, 3)).astype(np.uint8))
    odd = opened("tiny_worlds:Dot", size=11).reset(3).raw.image[0]
    np.testing.assert_array_equal(odd, cv2.resize(whole, (11, 11), interpolation=cv2.INTER_AREA))


def test_numbers_in_info_and_in_observations_are_measured(opened):
    env = opened("tiny_worlds:Dot", size=16, score=SCORE)
    assert env.spec.dimensions == (Dimension("x", 0.0, 14.0), Dimension("y", 0.0, 14.0, wraps=True))
    x, y = env.measure(env.reset(1).raw)[0]
    assert x % 2 == 0 and np.isnan(y)  # a reset tells x alone
    env.send(np.array([2], np.int32))
    step = env.recv()
    np.testing.assert_array_equal(env.measure(step.raw)[0], place(step.raw.image[0]))
    env = opened("tiny_worlds:Rendered", score=("steps:0:12", "observation[1]:-1:1"))
    env.reset(0)
    env.send(np.zeros(1, np.int32))
    np.testing.assert_array_equal(env.measure(env.recv().raw), [[1.0, -0.5]])


def test_goals_are_fixed_frames_of_random_play(opened):
    world = opened("tiny_worlds:Dot", 3, make_scored_env, size=16, score=SCORE)
    goals = goal_set(world, count=7)
    assert (goals.name, goals.images.shape) == ("random:test", (7, 16, 16, 3))
    np.testing.assert_array_equal([place(image) for image in goals.images], goals.measures)
    again = goal_set(opened("tiny_worlds:Dot", 5, make_scored_env, size=16, score=SCORE), count=7)
    assert again.digest == goals.digest != goal_set(world, "random:tune", 7).digest
    assert len(np.unique(goals.measures, axis=0)) > 3


def test_an_environment_may_read_and_print(opened, capfd):
    env = opened("tiny_worlds:Talking", size=16)
    env.reset(0)
    env.send(np.zeros(1, np.int32))
    env.recv()
    assert "step" in capfd.readouterr().err


def refusal(monkeypatch, capsys, folder: Path, line: str) -> str:
    """What the command line says before it leaves with 2, having made nothing and left nothing running."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["discern", "train", *line.split()])
    with pytest.raises(SystemExit) as leave:
        main()
    error = capsys.readouterr().err.strip()
    assert leave.value.code == 2
    assert error.count("\n") == 0
    assert not list(folder.iterdir())
    assert not processes()
    return error


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("nowhere:make", "nowhere:make raised ModuleNotFoundError: No module named 'nowhere'"),
        ("tiny_worlds:blind", "shows no pixels: it must observe uint8 [height, width, 3] or render"),
        ("tiny_worlds:OldStep", "its step() must return observation"),
        ("tiny_worlds:raising", "raised RuntimeError: no licence found (tiny_worlds.py, line"),
        ("tiny_worlds:sleeping --gym.step-timeout 2.5", "did not answer within 2.5 s while being made"),
    ],
)
def test_what_cannot_work_is_refused_at_once(monkeypatch, capsys, tmp_path, line, sentence):
    assert sentence in refusal(monkeypatch, capsys, tmp_path, line)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("Crashing", r"Crashing raised ValueError: the wheel came off \(tiny_worlds.py, line \d+\)"),
        ("Dying", "Dying died with exit code 7 while stepping"),
    ],
)
def test_a_failure_is_told_and_ends_every_process(opened, kind, sentence):
    env = opened(f"tiny_worlds:{kind}", 8, size=16)
    env.reset(0)
    for _ in range(5):
        env.send(np.zeros(8, np.int32))
        env.recv()
    env.send(np.zeros(8, np.int32))
    with pytest.raises(UserError, match=sentence):
        env.recv()
    assert not processes()


def test_a_run_that_hangs_ends_with_a_sentence_and_leaves_nothing_running(tmp_path):
    settings = SMALL | {"gym.size": 18, "gym.step_timeout": 3.0, "actor.horizon": 8, "actor.environments": 8}
    with pytest.raises(UserError, match=r"Hanging did not answer within 3 s while stepping.*--gym.step-timeout"):
        train(replace(preset("tiny_worlds:Hanging"), settings), tmp_path / "run", Console(quiet=True))
    assert not processes()


def test_episodes_that_are_too_short_are_told(tmp_path):
    settings = SMALL | {"gym.size": 18, "gym.make_args": '{"length": 3}', "steps": 5000}
    with pytest.raises(
        UserError, match=r"no episode of tiny_worlds:Dot has lasted 5 steps: .* smaller --actor.horizon"
    ):
        train(replace(preset("tiny_worlds:Dot"), settings), tmp_path / "run", Console(quiet=True))
    assert not processes()


def test_a_scored_run_is_evaluated_and_folders_have_plain_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = SMALL | {"gym.size": 18, "gym.score": SCORE, "steps": 400}
    run = train(replace(preset("tiny_worlds:Dot"), settings), None, Console(quiet=True))
    assert run.parts[0] == "runs" and run.name.startswith("tiny_worlds-Dot-2")
    last = RunFolder(run).metrics()[-1]
    assert set(last["per_dimension"]) == {"x", "y"}
    report = evaluate(run, trials=2, count=4)
    assert report["goals"]["set"] == "random:test"
    assert 0.0 <= report["success"] <= 1.0
    assert RunFolder(run).config().gym.score == SCORE
    assert not processes()


@pytest.mark.parametrize("name", ["gym/CarRacing-v3", "gym/MountainCarContinuous-v0"])
def test_real_environments_train_and_show_goals(tmp_path, name):
    run = train(
        replace(preset(name), SMALL | {"steps": 300, "gym.frame_skip": 1}), tmp_path / "run", Console(quiet=True)
    )
    assert (run / "goals.png").stat().st_size > 1000
    assert int(RunFolder(run).metrics()[-1]["updates"]) > 0
    with pytest.raises(UserError, match=r"has no success rate, because none of its quantities is named: .*--gym.score"):
        evaluate(run, budgets=(3,))
    assert not processes()


def test_presets_and_names():
    assert preset("my.module:make").gym == preset("gym/CartPole-v1").gym == Config().gym
    assert preset("my.module:make").actor.environments == preset("gym/CartPole-v1").actor.environments == 16
    assert dimension("a:b:-1.5:2") == Dimension("a:b", -1.5, 2.0)
    assert jax.default_backend() != "cpu" or preset("gym/CarRacing-v3").gym.frame_skip == 4
