"""Whole runs: they learn, stop, go on, and lose nothing."""

import hashlib
import json
import math
import random
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console

import discern
from discern.config import replace
from discern.presets import preset
from discern.storage.checkpoint import latest_checkpoint, load_checkpoint
from discern.storage.run_folder import RunFolder, new_folder
from discern.storage.state import restore_state
from discern.training.actors import LocalActors
from discern.training.loop import Loop, resume, train
from discern.types import LostError, StoppedError, UserError

QUIET = Console(quiet=True)
BACKGROUND = [sys.executable, "-c", "from discern.cli import main; main()", "train"]
FLAGS = (
    "arena --minutes 10 --checkpoint-seconds 0.1 --log-seconds 0.1 --evaluate-every None --evaluation-goals 4 "
    "--actor.environments 4 --actor.horizon 5 --learner.batch 4 --learner.replay-ratio 1 --replay-capacity 16 "
    "--goal-buffer.capacity 16 --network.channels 4 --network.features 8 --network.lstm 8 --network.time-units 4"
)


def arrays_of(run: Path) -> dict[str, np.ndarray]:
    return load_checkpoint(latest_checkpoint(run / "checkpoints"))[0]


@pytest.mark.usefixtures("optimised")
def test_a_short_run_really_learns(tmp_path):
    """The smallest world, in two fifths of its steps and batches so small that there are many."""
    short = {"learner.batch": 16, "steps": 120_000, "evaluate_every": None, "checkpoint_seconds": 1e9}
    run = train(replace(discern.preset("arena/16"), short), tmp_path / "run", QUIET)
    last = RunFolder(run).metrics()[-1]
    assert last["random"] < 0.08
    assert last["success"] > 0.5
    assert last["success"] > 5 * last["random"]


def test_a_run_leaves_what_it_should(tmp_path, tiny):
    run = train(replace(tiny, {"evaluate_every": 500}), tmp_path / "run", QUIET)
    assert RunFolder(run).config() == replace(tiny, {"evaluate_every": 500})
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert {"steps", "updates", "steps_per_second", "replay_ratio", "success", "at_some_step", "random"} <= set().union(
        *rows
    )
    assert any("teacher_accuracy" in row for row in rows)
    assert sum("success" in row for row in rows) >= 3
    events = next((run / "tensorboard").iterdir()).read_bytes()
    assert events.count(b"teacher_accuracy") == sum("teacher_accuracy" in row for row in rows)
    for picture in ("curve.png", "goals.png", "averages.png"):
        assert (run / picture).stat().st_size > 1000
    assert len(list((run / "checkpoints").iterdir())) >= 1


def test_a_budget_that_ends_before_the_first_update_is_said(tmp_path, tiny, capsys):
    train(replace(tiny, {"steps": 1}), tmp_path / "run", Console(width=500))
    said = capsys.readouterr().out
    assert "nothing was learned, the budget was spent before the first update" in said
    assert f"discern train --resume {tmp_path / 'run'} with --minutes or --steps" in said


def test_the_replay_ratio_is_kept(tiny):
    loop = Loop(LocalActors(replace(tiny, {"learner.replay_ratio": 1.7})))
    state = loop.start()
    while not state.learning:
        state, _ = loop.turn(state)
    steps, updates = state.steps, int(state.learner.updates)
    for _ in range(40):
        state, _ = loop.turn(state)
    trained = (int(state.learner.updates) - updates) * loop.trained_per_update
    assert trained / (state.steps - steps) == pytest.approx(1.7, rel=0.03)


@pytest.mark.parametrize("host", [False, True])
def test_the_parameter_lag_is_what_it_says(tiny, host):
    """The learner is never further ahead of the acting parameters than `parameter_lag` updates."""
    loop = Loop(LocalActors(replace(tiny, {"actor.host": host, "learner.replay_ratio": 3.0})))
    acted_with = []
    turn = loop.actors.collector.turn
    loop.actors.collector.turn = lambda params, *rest: (acted_with.append(params), turn(params, *rest))[1]
    state, ahead = loop.start(), []
    for _ in range(30):
        before = int(state.learner.updates)
        newest = state.learner.params
        state, _ = loop.turn(state)
        assert acted_with[-1] is newest
        ahead.append(int(state.learner.updates) - before)
    assert max(ahead) == loop.actors.parameter_lag()


def test_updates_are_spread_over_a_turn_of_the_host(tiny):
    config = {"actor.host": True, "actor.host_groups": 4, "learner.replay_ratio": 2.0 * tiny.actor.horizon}
    loop = Loop(LocalActors(replace(tiny, config)))
    updates = 2 * tiny.actor.environments // tiny.learner.batch
    state = loop.start()
    while not state.learning:
        state, _ = loop.turn(state)
    collector = loop.actors.collector
    asked, before, submit, decide = [], [], loop.thread.submit, collector.decide
    loop.thread.submit = lambda *work: (asked.append(work), submit(*work))[1]
    collector.decide = lambda *args: (before.append(len(asked)), decide(*args))[1]
    loop.turn(state)
    assert before == [math.ceil(updates * part / 4) for part in range(4)]
    assert len(asked) == updates


@pytest.fixture
def stopping(monkeypatch):
    """Runs that someone asks to stop once they have taken so many steps."""

    @contextmanager
    def after(steps: int):
        def turn(loop, state, turn=Loop.turn):
            state, metrics = turn(loop, state)
            if state.steps >= steps:
                signal.raise_signal(signal.SIGTERM)
            return state, metrics

        with monkeypatch.context() as patched:
            patched.setattr(Loop, "turn", turn)
            yield

    return after


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, tiny, stopping):
    """Stopped before its learning rate falls and while it does, and given its budget only then."""
    changes = {"save_replay": True, "goal_buffer.p_replace": 0.05, "learner.target_interval": 7, "learner.anneal": 0.5}
    config, parts = replace(tiny, changes), tmp_path / "parts"
    whole = train(config, tmp_path / "whole", QUIET)
    with stopping(400), pytest.raises(StoppedError):
        train(replace(config, {"steps": 2 * config.steps}), parts, QUIET)
    with stopping(800), pytest.raises(StoppedError):
        resume(parts, steps=config.steps, console=QUIET)
    resume(parts, console=QUIET)
    ours, theirs = arrays_of(whole), arrays_of(parts)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.tobytes() == theirs[name].tobytes(), name
    steps = [row["steps"] for row in RunFolder(parts).metrics()]
    assert steps == sorted(steps)


def test_a_small_checkpoint_goes_on_too(tmp_path, tiny):
    config = replace(tiny, {"learner.target_interval": 7, "learner.ema_decay": 0.9, "learner.inverse_dynamics": 1.0})
    run = train(config, tmp_path / "run", QUIET)
    before = arrays_of(run)
    assert not any(name.startswith(("replay", "learner.ema", "learner.target")) for name in before)
    with closing(Loop(LocalActors(config))) as loop:
        learner = restore_state(RunFolder(run), loop.start()).learner
    for tree in (learner.params, learner.ema, learner.target_params):
        np.testing.assert_array_equal(tree["torso"]["Dense_0"]["kernel"], before["learner.params.torso.Dense_0.kernel"])
    resume(run, steps=4000, console=QUIET)
    after = arrays_of(run)
    assert after["learner.updates"] > before["learner.updates"]
    assert json.loads((run / "config.json").read_text())["steps"] == 4000


def test_host_and_device_runs_both_train(tmp_path, tiny):
    run = train(replace(tiny, {"actor.host": True, "save_replay": True}), tmp_path / "run", QUIET)
    resume(run, steps=3000, console=QUIET)
    assert RunFolder(run).metrics()[-1]["updates"] > 20


def test_diverging_is_said_and_the_good_checkpoint_stays(tmp_path, tiny):
    run = train(tiny, tmp_path / "run", QUIET)
    good = latest_checkpoint(run / "checkpoints")
    text = (run / "config.json").read_text()
    (run / "config.json").write_text(text.replace('"learning_rate": 0.001', '"learning_rate": 1e+30'))
    with pytest.raises(UserError, match="training diverged"):
        resume(run, steps=9000, console=QUIET)
    assert latest_checkpoint(run / "checkpoints") == good


def test_a_learner_that_fails_leaves_what_was_learned(tmp_path, tiny, failing_learner):
    with (
        failing_learner(after=20),
        pytest.raises(LostError, match=r"fell off the bus; what was learned is saved: go on with discern train --res"),
    ):
        train(replace(tiny, {"save_replay": True}), tmp_path / "run", QUIET)
    saved = arrays_of(tmp_path / "run")
    assert saved["learner.updates"] == 20
    assert saved["replay.filled"] == 16
    resume(tmp_path / "run", console=QUIET)
    assert arrays_of(tmp_path / "run")["learner.updates"] > 20


class TestFolders:
    def test_a_run_is_never_overwritten(self, tmp_path, tiny):
        folder = new_folder(tmp_path / "run", tiny)
        assert new_folder(tmp_path / "run", tiny).path == folder.path  # nothing was saved yet: start again
        folder.checkpoints.mkdir()
        with pytest.raises(UserError, match="holds this run already: go on with --resume"):
            new_folder(tmp_path / "run", tiny)
        with pytest.raises(UserError, match=r"another config \(learner\.batch: 8 ≠ 4\)"):
            new_folder(tmp_path / "run", replace(tiny, {"learner.batch": 8}))

    def test_other_peoples_folders_are_left_alone(self, tmp_path, tiny):
        (tmp_path / "letter.txt").write_text("dear")
        with pytest.raises(UserError, match="exists and is not an empty folder"):
            new_folder(tmp_path, tiny)
        with pytest.raises(UserError, match=r"is not a run: it has no config\.json"):
            resume(tmp_path)

    def test_a_config_of_another_version_is_refused(self, tmp_path):
        (tmp_path / "config.json").write_text('{"colour": 3}')
        with pytest.raises(UserError, match="not a config of this version: unknown field colour"):
            RunFolder(tmp_path).config()

    def test_a_folder_that_cannot_be_made(self, tmp_path, tiny):
        (tmp_path / "file").write_text("")
        with pytest.raises(UserError, match=r"cannot write to .*file is no folder that can be written to"):
            new_folder(tmp_path / "file" / "run", tiny)

    def test_a_line_cut_short_is_passed_over(self, tmp_path):
        (tmp_path / "metrics.jsonl").write_text('{"steps": 1}\n{"steps": 2, "suc')
        assert RunFolder(tmp_path).metrics() == [{"steps": 1}]


def start(arguments: list[str]) -> subprocess.Popen:
    """`discern train` in a process of its own."""
    return subprocess.Popen(BACKGROUND + arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(condition, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "nothing happened for two minutes"
        time.sleep(0.02)


def saved_steps(run: Path) -> int:
    found = sorted((run / "checkpoints").glob("[0-9]*"))
    return int(found[-1].name) if found else 0


def test_killed_at_ten_random_moments_it_always_comes_back(tmp_path):
    run, chance, saved = tmp_path / "run", random.Random(0), 0
    for attempt in range(10):
        arguments = ["--resume", str(run)] if attempt else [*FLAGS.split(), "--run", str(run)]
        process = start(arguments)
        wait_for(lambda before=saved: saved_steps(run) > before, process)
        time.sleep(chance.uniform(0.0, 0.6))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert saved_steps(run) > saved  # it came back and went on
        saved = saved_steps(run)
    loaded = discern.load(run)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(loaded.params))
    process = start(["--resume", str(run)])
    wait_for(lambda: saved_steps(run) > saved, process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"stopped and saved; go on with: discern train --resume {run}" in output
    steps = [row["steps"] for row in RunFolder(run).metrics()]
    assert steps == sorted(steps)


def digest(tree) -> str:
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        found.update(np.asarray(leaf).tobytes())
    return found.hexdigest()[:16]


def test_the_paper_configuration_is_what_it_was():
    """Numbers recorded before anything beyond the paper was built into the learner: draws to the bit."""
    sizes = {
        "actor.environments": 4,
        "actor.horizon": 5,
        "learner.batch": 4,
        "replay_capacity": 16,
        "goal_buffer.capacity": 16,
        "network.channels": (4,),
        "network.features": 8,
        "network.lstm": 8,
        "network.time_units": 4,
    }
    loop = Loop(LocalActors(replace(preset("arena", "paper"), sizes)))
    state, metrics = loop.start(), {}
    for _ in range(12):
        state, metrics = loop.turn(state)
    stored = state.memory.replay.stored
    played = (stored.observations, stored.actions, stored.goal_slot, state.memory.replay.queue)
    assert int(state.learner.updates) == 10
    assert digest(played) == "e4d075adfa0b3c13"
    assert digest(state.memory.goals.images) == "1172382986f4d39a"
    recorded = {"td_loss": "0x1.3d2d2p+0", "teacher_loss": "0x1.398bccp+0", "gradient_norm": "0x1.2e2b66p+2"}
    recorded |= {"reward_mean": "0x1.f7634ap-1", "q_mean": "0x1.3b97d8p-5"}
    for name, value in recorded.items():
        assert float(metrics[name]) == pytest.approx(float.fromhex(value), rel=1e-6), name


def test_what_can_be_seen_is_probed_while_training(tmp_path, tiny):
    run = train(
        replace(tiny, {"evaluate_every": 500, "actor.environments": 32, "actor.horizon": 10, "replay_capacity": 64}),
        tmp_path / "r",
        QUIET,
    )
    rows = [row for row in RunFolder(run).metrics() if "success" in row]
    assert all(-10 < rows[-1][f"probe/{who}/{axis}"] <= 1 for who in ("h", "teacher") for axis in "xy")
