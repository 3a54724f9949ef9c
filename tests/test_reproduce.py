"""Figures that compare runs, and the programme of runs behind them."""

import dataclasses
import json
import shlex
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from discern import presets
from discern.cli import read
from discern.config import replace, to_json
from discern.evaluation.comparisons import common_grid, draw_bars, draw_curves, draw_heat_maps, draw_strips
from discern.evaluation.final import is_finished, load_final
from discern.reproduce import FIGURES, METHODS, Run, draw_runs, reproduce
from discern.reproduce import runs as programme
from discern.reproduce.programme import with_best_trials
from discern.reproduce.runs import PAPERS, PARTS
from discern.training import loop
from discern.types import UserError
from tests.conftest import PLAYS_LITTLE, TINY

SMALL = {**programme.TINY, **TINY, "evaluate_every": 500}


def test_curves_of_several_seeds_meet_on_one_grid():
    steps, values = common_grid([[(0, 0.0), (10, 0.5), (20, 1.0)], [(0, 1.0), (20, 0.0), (40, 0.0)]])
    np.testing.assert_allclose(steps, [0, 10, 20])
    np.testing.assert_allclose(values, [[0, 0.5, 1], [1, 0.5, 0]])
    assert common_grid([[]])[1].shape == (1, 0)


def words_of(path) -> str:
    assert np.asarray(Image.open(path)).std() > 1  # not an empty page
    return path.with_suffix(".svg").read_text()


def test_figures_say_what_they_show(tmp_path):
    draw_bars(
        {"seaquest": {"ours": {"uniform": [0.5, 0.7], "diverse": [0.9]}, "theirs": {"uniform": [0.1]}}},
        {"seaquest": 0.02},
        tmp_path / "bars.png",
    )
    words = words_of(tmp_path / "bars.png")
    assert all(word in words for word in ("seaquest", "ours", "theirs", "uniform", "diverse", "random policy"))
    draw_curves(
        {"reacher": {"ours": [[(0, 0.1), (10, 0.8)]], "theirs": [[(0, 0.1), (10, 0.2)]] * 2}}, tmp_path / "c.png"
    )
    assert all(word in words_of(tmp_path / "c.png") for word in ("reacher", "ours", "theirs", "agent steps"))
    shares = np.array([[0.0, 1.0], [0.5, 0.5]])
    draw_heat_maps({"ours": (["shoulder", "wrist"], np.array([0.0, 10.0]), shares)}, tmp_path / "h.png")
    assert all(word in words_of(tmp_path / "h.png") for word in ("ours", "shoulder", "wrist", "reached"))
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    draw_strips({"goal": images, "ours": images}, tmp_path / "s.png", "what came of goals")
    assert all(word in words_of(tmp_path / "s.png") for word in ("goal", "ours", "what came of goals"))


@pytest.mark.parametrize("method", METHODS | PARTS)
@pytest.mark.parametrize("preset_name", ["fast", "paper", "tiny"])
def test_the_command_of_a_run_is_that_run(method, preset_name):
    run = Run("arena", method, "preset" if method in PARTS else "diverse", 3)
    words = shlex.split(run.command(0.5, preset_name))
    assert words[:2] == ["discern", "train"]
    assert read(words[1:]).settings == run.config(0.5, preset_name)


@pytest.mark.parametrize("method", FIGURES["rewards"].methods)
def test_rewards_are_tuned_by_as_many_trials(method):
    run = Run("control/reacher-hard", method, "uniform", 3)
    trials = run.trials()
    assert len(trials) == 4
    assert len({trial.name for trial in trials} | {run.name}) == 5
    configs = [trial.config(None, "fast") for trial in trials]
    assert len({to_json(config) for config in configs}) == 4
    assert configs[0] == replace(run.config(None, "fast"), {"seed": programme.TRIAL_SEED})
    assert configs[1].learner.learning_rate == pytest.approx(1e-4)
    for trial, config in zip(trials, configs, strict=True):
        assert read(shlex.split(trial.command(None, "fast"))[1:]).settings == config


def test_the_best_settings_are_those_of_the_last_evaluations(tmp_path):
    plan = FIGURES["rewards"].runs(2, "fast", ["arena"])
    curves = {"WGAN": [[0.9, 0.1, 0.1, 0.1], [0.2] * 4, [0.3] * 4, [0.0, 0.2, 0.3, 0.2]], "oracle": [[0.5] * 4] * 4}
    for method, found in curves.items():
        for trial, curve in zip(Run("arena", method, "uniform", 0).trials(), found, strict=True):
            rows = [{"steps": i, "seconds": 1.0, "success": value} for i, value in enumerate(curve)]
            rows = [row | {"per_dimension": {}, "random": 0.0} for row in rows]
            (tmp_path / trial.name).mkdir(parents=True)
            (tmp_path / trial.name / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    best = with_best_trials([run for run in plan if run.method in curves], tmp_path)
    assert {(run.method, run.seed, run.trial) for run in best} == {
        ("WGAN", 0, 2),
        ("WGAN", 1, 2),
        ("oracle", 0, None),
        ("oracle", 1, None),
    }


def test_a_tuned_figure_tries_first_and_reports_what_it_tried(tmp_path, monkeypatch):
    monkeypatch.setitem(presets.FAST_IN, "arena", presets.FAST_IN["arena"] | SMALL)
    monkeypatch.setitem(programme.TRIALS, "oracle", ())
    monkeypatch.setitem(FIGURES, "rewards", dataclasses.replace(FIGURES["rewards"], methods=("oracle",)))
    (figure,) = reproduce(["rewards"], tmp_path, worlds=["arena"])
    about = json.loads(figure.with_suffix(".json").read_text())
    assert [trial["taken"] for trial in about["trials"]].count(True) == 1
    assert max(trial["tune"] for trial in about["trials"]) == next(
        trial["tune"] for trial in about["trials"] if trial["taken"]
    )
    assert len(about["trials"]) == 2  # as it is, and with a third of the learning rate
    assert len(about["runs"]) == 1
    assert about["command"].endswith("--worlds arena")


def test_ablations_are_what_the_paper_says():
    without, only = (Run("arena", name, "uniform", 0).config(0, "fast").relabel for name in PAPERS[4:])
    assert without.p_hindsight == 0.0
    assert "hindsight" not in without.goals
    assert only.p_hindsight == 1.0
    assert only.goals == ("hindsight",)


def test_without_a_budget_methods_are_compared_after_equal_steps():
    slow, fast = (Run("arena", name, "uniform", 0) for name in ("WGAN", "DISCERN"))
    assert slow.config(0, "fast").steps == fast.config(0, "fast").steps > 0
    assert slow.config(None, "fast").minutes is None  # no limit
    assert slow.config(None, "tiny").steps == fast.config(None, "tiny").steps > 0
    assert slow.config(2, "fast").minutes == 2.0


def test_the_programme_covers_every_figure_with_few_runs():
    runs = {run for figure in FIGURES.values() for run in figure.runs(1, "tiny")}
    assert {run.env for run in runs} == {"arena"}
    papers = {(method, strategy) for method in PAPERS for strategy in ("uniform", "diverse")}
    parts = set(PARTS) - {"the paper's teacher", "ε-greedy"}  # which the arena has anyway
    ours = {(method, "preset") for method in ("preset", *parts)} | {
        ("temporal pairs", "uniform"),
        ("oracle", "uniform"),
    }
    assert {(run.method, run.strategy) for run in runs} == papers | ours
    assert len(runs) == 23
    assert {env for figure in FIGURES.values() for run in figure.runs(1, "fast") for env in [run.env]} > {
        "atari/seaquest",
        "control/reacher-hard",
        "watermaze",
    }


def test_some_of_a_figures_worlds():
    parts = FIGURES["parts"]
    assert {run.env for run in parts.runs(2, "fast", ["arena", "control/reacher-hard"])} == {
        "arena",
        "control/reacher-hard",
    }
    reacher = {run.method for run in parts.runs(1, "fast", ["control/reacher-hard"])}
    assert "the paper's teacher" in reacher
    assert not reacher & {"no annealing", "ε-greedy"}  # nothing to be left out there
    cartpole = {run.method for run in parts.runs(1, "fast", ["control/cartpole-swingup"])}
    assert cartpole >= {"no annealing", "ε-greedy"}


def test_worlds_that_no_figure_has_are_refused(tmp_path):
    with pytest.raises(UserError, match="none of these figures has the world 'reacher'; they have: arena, "):
        reproduce(["parts"], tmp_path / "out", worlds=["arena", "reacher"])
    with pytest.raises(UserError, match="the figure cartpole has none of these worlds; it has: control/cartpole"):
        reproduce(["cartpole", "parts"], tmp_path / "out", worlds=["arena"])
    assert not (tmp_path / "out").exists()


def test_unknown_figures_are_refused(tmp_path):
    with pytest.raises(UserError, match="there is no figure 'fig9'; there are: all, atari-success"):
        reproduce(["fig9"], tmp_path / "out")
    with pytest.raises(UserError, match="seeds must be"):
        reproduce(["all"], tmp_path / "out", seeds=0)
    assert not (tmp_path / "out").exists()


def test_figures_are_drawn_from_runs_made_once(tmp_path, monkeypatch):
    monkeypatch.setattr(programme, "TINY", SMALL)
    (cartpole,) = reproduce(["cartpole"], tmp_path, preset_name="tiny")
    assert words_of(cartpole)
    about = json.loads(cartpole.with_suffix(".json").read_text())
    assert [run["command"].split()[:3] for run in about["runs"]] == [["discern", "train", "arena"]] * 2
    assert all(0 <= run["success"] <= 1 and run["evaluations"] for run in about["runs"])
    assert about["machine"]["device"] == "cpu"
    assert [row["method"] for row in about["methods"]] == ["autoencoder", "DISCERN"]
    assert [row["success"] for row in about["methods"]] == [run["success"] for run in about["runs"]]  # of one seed
    assert [row["interval"] for row in about["methods"]] == [[run["success"]] * 2 for run in about["runs"]]

    def refuse(*_):
        raise AssertionError("a finished run was run again")

    monkeypatch.setattr(loop, "train", refuse)
    monkeypatch.setattr(loop, "resume", refuse)
    assert reproduce(["cartpole"], tmp_path, preset_name="tiny") == [cartpole]
    runs = [tmp_path / Run("arena", method, "uniform", 0).name for method in ("DISCERN", "autoencoder")]
    final = load_final(runs[0])
    assert final.goals.shape == final.achieved.shape == final.average.shape == (4, 24, 24, 3)
    assert [path.exists() for path in draw_runs(runs, tmp_path / "drawn")] == [True] * 4
    with pytest.raises(UserError, match="not a run"):
        draw_runs([tmp_path / "nowhere"], tmp_path / "drawn")


def test_a_killed_programme_goes_on_where_it_stopped(tmp_path):
    small = {**SMALL, "steps": 6_000, "evaluate_every": None, "checkpoint_seconds": 0.1}
    code = (
        f"{PLAYS_LITTLE}from dataclasses import replace; from pathlib import Path\n"
        "from discern.reproduce import FIGURES, reproduce, runs\n"
        "FIGURES['cartpole'] = replace(FIGURES['cartpole'], methods=('autoencoder',))\n"
        f"runs.TINY = {small!r}; reproduce(['cartpole'], Path({str(tmp_path)!r}), preset_name='tiny')"
    )
    run = tmp_path / Run("arena", "autoencoder", "uniform", 0).name
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((run / "checkpoints").glob("[0-9]*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert not is_finished(run)
    saved = max(int(path.name) for path in (run / "checkpoints").glob("[0-9]*"))
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert again.returncode == 0, again.stderr
    assert is_finished(run)
    assert (tmp_path / "figures" / "cartpole.svg").exists()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["steps"] for row in rows] == sorted(row["steps"] for row in rows)
    assert rows[-1]["steps"] >= 6_000 > saved > 0
