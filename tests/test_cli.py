import json
import sys

import pytest

from discern.cli import main

SMALL = (
    "--steps 800 --minutes 0 --actor.environments 4 --actor.horizon 5 --learner.batch 4 --replay-capacity 16 "
    "--goal-buffer.capacity 16 --network.channels 4 --network.features 8 --network.lstm 8 --evaluation-goals 4"
)


@pytest.fixture
def discern(monkeypatch, capsys):
    """Runs a command line; returns exit code, standard output and standard error."""

    def run(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["discern", *line.split()])
        try:
            main()
            code = 0
        except SystemExit as leave:
            code = int(leave.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_train_evaluate_and_look(discern, tmp_path):
    run = tmp_path / "run"
    code, out, _ = discern(f"train arena --run {run} {SMALL} --relabel.goals draw random --seed 5")
    assert code == 0
    assert "of 4 held-out goals reached" in out
    config = json.loads((run / "config.json").read_text())
    assert (config["seed"], config["relabel"]["goals"]) == (5, ["draw", "random"])
    code, out, _ = discern(f"evaluate {run} --trials 2 --count 9 --json")
    report = json.loads(out)
    assert code == 0
    assert {"success", "random", "goals", "trials", "per_dimension", "seconds", "machine"} <= set(report)
    assert (report["trials"], report["goals"]["count"]) == (2, 9)
    code, out, _ = discern(f"evaluate {run} --trials 1 --figure {tmp_path}/averages.png")
    assert code == 0
    assert (tmp_path / "averages.png").read_bytes().startswith(b"\x89PNG")
    assert "whole goal" in out
    code, _, err = discern(f"train arena --run {run} {SMALL}")
    assert code == 2
    assert err.count("\n") == 1
    assert "another config" in err
    code, out, _ = discern(f"train --resume {run} --steps 1200")
    assert code == 0


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("train moon", "there is no world 'moon'"),
        ("train arena --learner.batch 1", "--learner.batch must be at least 2"),
        ("train --resume nowhere", "is not a run"),
        ("evaluate nowhere", "is not a run"),
        ("evaluate nowhere --figure picture.txt", "cannot draw picture.txt: name a .png in a folder that exists"),
        ("train arena --replay-capacity 999999999", "set --replay-capacity to"),
    ],
)
def test_mistakes_are_one_sentence_and_create_nothing(discern, monkeypatch, tmp_path, line, sentence):
    monkeypatch.chdir(tmp_path)
    code, _, err = discern(line)
    assert code == 2
    assert sentence in err
    assert err.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())


def test_help_and_unknown_commands(discern):
    assert discern("--help")[0] == 0
    code, _, err = discern("trian")
    assert code == 2
    assert err == "discern: there is no command 'trian': did you mean train?\n"
    code, out, _ = discern("train --help")
    assert code == 0
    assert "--learner.replay-ratio" in out


def test_the_configuration_sets_the_defaults(discern):
    _, out, _ = discern("train arena --config paper --help")
    assert "(default: rmsprop)" in out


def test_bench_prints_one_object(discern):
    code, out, _ = discern(f"bench arena {SMALL} --seconds 0.2 --json")
    report = json.loads(out)
    assert code == 0
    for part in ("world", "acting", "trained", "whole"):
        assert report[f"{part}_steps_per_second"] > 0
    assert report["parameter_lag"] >= 1


def test_doctor_tells_what_is_there(discern, monkeypatch):
    monkeypatch.setattr("discern.run.doctor.speed", lambda: {"updates_per_second": 1})
    code, out, _ = discern("doctor --json")
    report = json.loads(out)
    assert code == 0
    assert report["devices"][0].startswith("cpu")
    assert "ray" in report["missing"] or "ray" in report["versions"]
    assert discern("doctor")[0] == 0
