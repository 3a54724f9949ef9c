import json
import sys

import pytest

from discern.cli import main

SMALL = (
    "--steps 800 --minutes None --actor.environments 4 --actor.horizon 5 --learner.batch 4 --replay-capacity 16 "
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
    assert "of 4 held-out goals (even:test) reached" in out
    config = json.loads((run / "config.json").read_text())
    assert (config["seed"], config["relabel"]["goals"]) == (5, ["draw", "random"])
    code, out, _ = discern(f"evaluate {run} --trials 2 --count 9 --json")
    report = json.loads(out)
    assert code == 0
    assert {"success", "random", "goals", "trials", "per_dimension", "seconds", "machine"} <= set(report)
    assert (report["trials"], report["goals"]["count"]) == (2, 9)
    assert report["success"] <= report["at_some_step"] <= 1
    assert report["random"] <= report["random_at_some_step"] <= 1
    code, out, _ = discern(f"evaluate {run} --trials 1 --figure {tmp_path}/averages.png --worst {tmp_path}/worst.png")
    assert code == 0
    assert (tmp_path / "worst.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "averages.png").read_bytes().startswith(b"\x89PNG")
    assert "whole goal" in out
    assert "at some step" in out
    code, _, err = discern(f"evaluate {run} --steps 9")
    assert code == 2
    assert "takes 1 to 5 steps" in err
    code, _, err = discern(f"train arena --run {run} {SMALL}")
    assert code == 2
    assert err.count("\n") == 1
    assert "another config" in err
    code, out, _ = discern(f"train --resume {run} --steps 1200")
    assert code == 0


def test_success_over_the_steps_a_goal_may_take(discern, tmp_path):
    run, figure = tmp_path / "run", tmp_path / "budgets.png"
    assert discern(f"train arena --run {run} {SMALL}")[0] == 0
    config = json.loads((run / "config.json").read_text())
    config["relabel"]["ends"] = True  # as if it had been trained with ends
    (run / "config.json").write_text(json.dumps(config))
    asked = f"evaluate {run} --trials 1 --count 4 --budgets 2 5 2 --budget-figure {figure}"
    code, out, _ = discern(f"{asked} --steps 5 --json")
    assert code == 0
    report = json.loads(out)
    assert list(report["budgets"]) == ["2", "5"]
    assert report["budgets"]["5"] == {name: report[name] for name in ("success", "at_some_step")}
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "in 2 steps" in discern(asked)[1]
    for mistake, sentence in {
        "--steps 9": "takes 1 to 5 steps to a goal, not 9",
        "--budgets 0": "each of --budgets must be at least 1, not 0",
        f"--budget-figure {figure}": "name the numbers of steps to draw success over",
    }.items():
        code, _, err = discern(f"evaluate {run} {mistake}")
        assert (code, err.count("\n")) == (2, 1)
        assert sentence in err


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("train moon", "there is no world 'moon'"),
        ("train arena --learner.batch 1", "--learner.batch must be at least 2"),
        ("train --resume nowhere", "is not a run"),
        ("evaluate nowhere", "is not a run"),
        ("evaluate nowhere --figure picture.txt", "cannot draw picture.txt: name a .png in a folder that exists"),
        ("evaluate nowhere --worst picture.txt", "cannot draw picture.txt: name a .png in a folder that exists"),
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


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("train", ("arena", "adam", 0, 480_000)),
        ("train arena/84", ("arena/84", "adam", 0, 2_500_000)),
        ("train --seed 3 arena/16", ("arena/16", "adam", 3, 300_000)),
        ("train --config paper --seed 2 arena/84", ("arena/84", "rmsprop", 2, 2_500_000)),
        ("train arena/84 --seed 2 --config=paper", ("arena/84", "rmsprop", 2, 2_500_000)),
        ("train --network.layer-norm arena/84 --config paper", ("arena/84", "rmsprop", 0, 2_500_000)),
        ("train --relabel.goals draw random --steps 640000 -- arena/84", ("arena/84", "adam", 0, 640_000)),
        ("train --steps 640000 arena/84", ("arena/84", "adam", 0, 640_000)),
        ("bench --seconds 1 --config paper arena/16", ("arena/16", "rmsprop", 0, 300_000)),
    ],
)
def test_world_and_configuration_may_stand_anywhere(discern, monkeypatch, line, expected):
    asked = []
    monkeypatch.setattr("discern.training.loop.train", lambda config, run, **_: asked.append(config))
    monkeypatch.setattr("discern.diagnostics.bench.bench", lambda config, seconds: asked.append(config) or {})
    assert discern(line)[0] == 0
    config = asked[0]
    assert (config.env, config.learner.optimiser, config.seed, config.steps) == expected


@pytest.mark.parametrize(
    "line",
    [
        "train --resume runs/mine --minutes 3",
        "train --resume=runs/mine --minutes 3",
        "train --minutes 3 --resume runs/mine",
        "train --minutes=3 --resume=runs/mine",
    ],
)
def test_a_run_to_go_on_with_may_stand_anywhere(discern, monkeypatch, line):
    asked = []
    monkeypatch.setattr(
        "discern.training.loop.resume", lambda run, steps, minutes, **_: asked.append((str(run), steps, minutes))
    )
    assert discern(line)[0] == 0
    assert asked == [("runs/mine", None, 3.0)]


def test_another_version_of_tyro_says_it_its_own_way(discern, monkeypatch):
    monkeypatch.delattr("tyro._errors.on_parse_error")
    code, _, err = discern("train --learner.bach 3")
    assert code == 2
    assert "--learner.bach" in err and "Traceback" not in err


def test_the_configuration_sets_the_defaults(discern):
    for line in ("train arena --config paper --help", "train --help --config=paper"):
        code, out, _ = discern(line)
        assert code == 0
        assert "(default: rmsprop)" in out
    assert "(default: 2500000)" in discern("train --seed 3 -h arena/84")[1]
    assert "--resume" in discern("train --seed x --help")[1]


def test_bench_prints_one_object(discern):
    code, out, _ = discern(f"bench arena {SMALL} --seconds 0.2 --json")
    report = json.loads(out)
    assert code == 0
    for part in ("world", "acting", "trained", "whole"):
        assert report[f"{part}_steps_per_second"] > 0
    assert report["parameter_lag"] >= 1


def test_doctor_tells_what_is_there(discern, monkeypatch):
    monkeypatch.setattr("discern.diagnostics.doctor.speed", lambda: {"updates_per_second": 1})
    monkeypatch.setattr("discern.diagnostics.doctor.TRIED", {"arena": {}})
    code, out, _ = discern("doctor --json")
    report = json.loads(out)
    assert code == 0
    assert report["devices"][0].startswith("cpu")
    assert "ray" in report["missing"] or "ray" in report["versions"]
    assert discern("doctor")[0] == 0
