"""What a programme of runs costs, who makes which run, and the page that shows it all."""

import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from discern.config import replace
from discern.reproduce import Run, claims, cost, programme
from discern.reproduce.claims import claimed
from discern.reproduce.cost import Cost, cost_of
from discern.reproduce.report import write_report
from discern.types import UserError

RUNS = [Run("arena", method, "uniform", 0) for method in ("DISCERN", "WGAN")]


def test_a_claim_has_one_holder(tmp_path):
    claim = tmp_path / "claims" / "run"
    with claimed(claim) as ours, claimed(claim) as theirs:
        assert (ours, theirs) == (True, False)
    with claimed(claim) as ours:
        assert ours
    assert not list(claim.parent.iterdir())


def test_of_many_who_try_at_once_one_holds(tmp_path):
    barrier, held = threading.Barrier(8), []

    def attempt() -> None:
        barrier.wait()
        with claimed(tmp_path / "run") as ours:
            held.append(ours)
            barrier.wait()

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(held) == [False] * 7 + [True]


def test_the_claim_of_a_process_that_died_is_taken_over(tmp_path):
    claim = tmp_path / "run"
    claim.touch()
    long_ago = claim.stat().st_mtime - claims.FRESH - 1
    os.utime(claim, (long_ago, long_ago))
    with claimed(claim) as ours:
        assert ours
        assert claim.stat().st_mtime > long_ago
    assert not list(tmp_path.iterdir())


def test_the_claim_of_a_process_killed_here_is_free_at_once(tmp_path):
    code = "import sys, time; from pathlib import Path; from discern.reproduce.claims import claimed\n"
    code += "with claimed(Path(sys.argv[1])) as ours: print(ours, flush=True); time.sleep(60)"
    claim = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", code, claim], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        with claimed(claim) as ours:
            assert not ours
        holder.kill()
    lock = Path(tempfile.gettempdir(), f"discern-{claim.read_text()}")
    assert lock.is_file()
    with claimed(claim) as ours:
        assert ours
    assert not lock.exists()
    assert not claim.exists()


def test_a_claim_is_renewed_while_it_is_held(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "RENEW", 0.01)
    claim = tmp_path / "run"
    with claimed(claim):
        os.utime(claim, (1, 1))
        deadline = time.monotonic() + 5
        while claim.stat().st_mtime == 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_each_machine_makes_what_nobody_has_begun(tmp_path, monkeypatch):
    """Two at one root: the second waits for the first's run, and makes the other one meanwhile."""
    made, finished = [], set()

    def ensure(config, folder, console):
        made.append(folder.relative_to(tmp_path).as_posix())
        finished.add(folder)

    def nap(_):
        finished.add(tmp_path / RUNS[0].name)
        theirs.__exit__(None, None, None)

    monkeypatch.setattr(programme, "ensure", ensure)
    monkeypatch.setattr(programme, "is_finished", lambda folder: folder in finished)
    monkeypatch.setattr(programme.time, "sleep", nap)
    theirs = claimed(tmp_path / ".claims" / RUNS[0].name.replace("/", "_"))
    assert theirs.__enter__()
    said = Console(record=True, width=200)
    programme.make_runs(RUNS, tmp_path, None, "tiny", said)
    assert made == [RUNS[1].name, RUNS[0].name]  # the first is finished by then, and its ensure returns at once
    assert "waiting for 1 runs that others are making" in said.export_text()


def test_the_cost_is_of_what_is_left(tmp_path, monkeypatch, tiny):
    monkeypatch.setattr(cost, "_checkpoint_bytes", lambda config: 1e6)
    by_minutes, by_steps = replace(tiny, {"minutes": 6.0, "steps": None}), replace(tiny, {"steps": 80_000})
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "metrics.jsonl").write_text(json.dumps({"steps": 5, "seconds": 60.0}) + "\n")
    done = tmp_path / "done"
    done.mkdir()
    (done / "final.npz").touch()
    found = cost_of([(by_minutes, tmp_path / "new"), (by_minutes, begun), (by_steps, tmp_path / "b"), (tiny, done)])
    assert found == Cost(3, 1, pytest.approx((360 + 300 + 10) / 3600), 3 * (2e6 + cost.PICTURES))
    assert str(found) == "3 runs, 1 more are finished: about 0.2 hours here and 0.0 GB"


def test_checkpoint_sizes_count_goals_and_parameters(tiny):
    goals = tiny.goal_buffer.capacity * 24 * 24 * 3
    size = cost._checkpoint_bytes(tiny)
    assert size > goals
    assert (size - goals) % 6 == 0
    assert cost._checkpoint_bytes(replace(tiny, {"goal_buffer.capacity": tiny.goal_buffer.capacity + 1})) - size == 1728


def test_who_does_not_agree_begins_nothing(tmp_path):
    asked = []
    drawn = programme.reproduce(["cartpole"], tmp_path / "out", preset_name="tiny", agrees=lambda c: asked.append(c))
    assert drawn == [] and asked[0].runs == 2 and not (tmp_path / "out").exists()


def test_a_programme_asks_before_it_begins(refused_out, tmp_path):
    assert "nobody is here to agree to that: say --yes" in refused_out(f"reproduce cartpole --out {tmp_path}/out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def refused_out(monkeypatch, capsys):
    from discern.cli import main

    def run(line: str) -> str:
        monkeypatch.setattr("sys.argv", ["discern", *line.split(), "--preset", "tiny"])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        return capsys.readouterr().err

    monkeypatch.setattr("sys.stdin", io.StringIO())
    return run


def test_the_report_shows_every_figure_and_its_numbers(tmp_path):
    (tmp_path / "figures").mkdir()
    figure = tmp_path / "figures" / "bars.png"
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(figure)
    row = {"method": "a < b", "strategy": "uniform", "worlds": ["arena"], "success": 0.5, "interval": [0.25, 0.75]}
    run = {"command": "discern train arena --seed 0", "success": 0.5}
    about = {"what": "Bars", "methods": [row], "runs": [run], "machine": {"cores": 2}, "commit": "abc", "seeds": [0]}
    figure.with_suffix(".json").write_text(json.dumps(about))
    page = write_report([figure], tmp_path).read_text()
    for part in ("src='figures/bars.png'", "figures/bars.json", "a &lt; b", "50.0%", "25.0% – 75.0%", "cores 2", "abc"):
        assert part in page
    assert run["command"] in page


def test_unknown_figures_are_refused_before_the_cost(tmp_path):
    with pytest.raises(UserError, match="there is no figure"):
        programme.reproduce(["moon"], tmp_path, agrees=lambda cost: pytest.fail("asked"))
