"""Runs as the studio starts, stops and shows them; a few lines stand in for training."""

import io
import json
import sys
import time

import numpy as np
import pytest
from PIL import Image

from discern import preset
from discern.cli import read
from discern.storage.run_folder import RunFolder
from discern.studio import pictures, running
from discern.studio.running import Form, Runs, Summary, newest_values, summaries, words_of
from discern.types import UserError

STAND_IN = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have had it ignored
words, folder = sys.argv[1:], Path(sys.argv[-1])
print(" ".join(words), flush=True)
if "seed" in " ".join(words) and "7" in words:
    sys.exit("discern: the machine is on fire")
try:
    time.sleep(60)
except KeyboardInterrupt:
    Path("saved").write_text("yes")
    print("discern: stopped and saved", flush=True)
    sys.exit(130)
"""


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "COMMAND", (sys.executable, "-c", STAND_IN))
    runs = Runs(read)
    yield runs
    runs.close()


def until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def begun(runs: Runs, run: str) -> str:
    """What a stand-in was started with, once it is under way."""
    log = runs._children[run]._log
    until(lambda: "\n" in log.read_text())
    return log.read_text()


def test_a_form_is_a_command_line():
    form = Form("arena", "2", "", "3", "mine", "--learner.batch 32 --gym.make-args '{\"a b\": 1}'")
    flags = ["--learner.batch", "32", "--gym.make-args", '{"a b": 1}']
    assert words_of(form) == ["train", "arena", "--minutes", "2", "--seed", "3", *flags]


REFUSED = [
    (Form(""), "name a world to train in"),
    (Form("--resume"), "name a world to train in"),
    (Form("arena", minutes="soon"), "--minutes takes a number, not 'soon'"),
    (Form("arena", minutes="-1"), "--minutes must be above 0, not -1.0"),
    (Form("arena", flags="--learner.batchh 4"), "discern train has no flag --learner.batchh: did you mean"),
    (Form("arena", flags="'open"), "the flags cannot be read: no closing quotation"),
    (Form("arena", flags="--help"), "--help is for the command line"),
    (Form("arena", flags="--tyro-print-completion bash"), "--tyro-print-completion is for the command line"),
    (Form("arena", flags="--resume=runs/x"), "choose it below and press Resume"),
    (Form("arena", flags="--run elsewhere"), "--run has a field"),
    (Form("arena", flags="--seeds 3"), "--seeds trains several"),
    (Form("arena", flags="--cluster local"), "--cluster is not for the page"),
    (Form("subprocess:run"), "subprocess:run names code to run"),
    (Form("arena", name="../up"), "name the run"),
    (Form("arena", name="taken"), "runs/taken exists and is not an empty folder"),
]


@pytest.mark.parametrize(("form", "sentence"), REFUSED)
def test_what_cannot_be_started_is_refused_in_one_sentence(runs, tmp_path, form, sentence):
    (tmp_path / "runs" / "taken").mkdir(parents=True)
    (tmp_path / "runs" / "taken" / "file").touch()
    with pytest.raises(UserError) as refusal:
        runs.start(form)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert runs.started() == []
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "runs", "taken"]


def test_a_run_is_started_stopped_and_resumed(runs, tmp_path):
    run = runs.start(Form("arena", minutes="2", seed="5", name="mine", flags="--learner.batch 32"))
    assert run == "runs/mine"
    assert begun(runs, run).split()[:6] == ["train", "arena", "--minutes", "2", "--seed", "5"]
    assert begun(runs, run).split()[-2:] == ["--run", "runs/mine"]
    assert (runs.state(run), runs.started()) == ("running", [run])
    runs.stop(run)
    until(lambda: runs.state(run) == "stopped")
    assert (tmp_path / "saved").exists()
    assert (runs.said(run), runs.started()) == ("", [])
    with pytest.raises(UserError, match="only what this page started can be stopped"):
        runs.stop(run)
    with pytest.raises(UserError, match="is not a run"):
        runs.resume(run)
    (tmp_path / run).mkdir(parents=True)
    RunFolder(run).keep(preset("arena"))
    runs.resume(run, minutes="9")
    assert begun(runs, run).split() == ["train", "--resume", "runs/mine", "--minutes", "9"]
    with pytest.raises(UserError, match="runs/mine is under way"):
        runs.resume(run)


def test_a_run_that_fails_says_why_and_runs_end_with_the_studio(runs, tmp_path, monkeypatch):
    failed = runs.start(Form("arena", seed="7", name="failed"))
    until(lambda: runs.said(failed))
    assert runs.said(failed) == "the machine is on fire"
    monkeypatch.setattr(running, "MOST_RUNS", 1)
    runs.start(Form("arena", name="one"))
    with pytest.raises(UserError, match="1 runs are under way: stop one first"):
        runs.start(Form("arena", name="two"))
    begun(runs, "runs/one")
    runs.close()
    assert runs.state("runs/one") == "stopped"
    assert (tmp_path / "saved").exists()


def test_runs_in_words_and_pictures(tmp_path, monkeypatch, tiny_run):
    monkeypatch.chdir(tmp_path)
    finished, broken = summaries([str(tiny_run), "runs/none"], lambda run: "any")
    assert (finished.world, finished.state, finished.steps) == ("arena", "any", 400)
    assert 0 <= (finished.success or 0.0) <= 1
    assert max(Image.open(io.BytesIO(finished.picture)).size) <= max(running.THUMB)
    assert broken == Summary("runs/none", "?", "any", None, 0, b"")
    drawn = pictures.gallery([finished, broken._replace(name="<i>")])
    assert drawn.count('class="card"') == 2
    assert "no picture yet" in drawn
    assert "&lt;i&gt;" in drawn


def test_the_newest_values_are_read_from_the_end(tmp_path):
    metrics = tmp_path / "metrics.jsonl"
    rows = [{"steps": i, "loss": 0.5} | ({"success": 0.25} if i == 5990 else {}) for i in range(6000)]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"steps": 99')
    assert newest_values(metrics) == {"steps": 5999, "loss": 0.5, "success": 0.25}
    assert newest_values(tmp_path / "none") == {}


def test_what_is_told_apart_is_drawn_where_it_is_known():
    rows = [{"steps": 100 * i, "told_apart": 0.9, "teacher_accuracy": 0.8} for i in range(1, 9)]
    drawn = pictures.training(rows, "live", b"")
    assert "held-out goals told apart" in drawn
    assert "teacher's accuracy" in drawn
    assert np.isclose(pictures.curve_of(rows, "told_apart")[1], 0.9).all()
