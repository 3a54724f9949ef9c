"""The core does without the extras, and what needs one says which command installs it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from discern.machine import EXTRAS
from tests.conftest import PLAYS_LITTLE
from tests.refusals import Refused, refused

__all__ = ["refused"]

ROOT = Path(__file__).parent.parent
AGENT = ROOT / "agents" / "arena"
LINES = {
    "atari": ["train atari/seaquest", f"evaluate {ROOT / 'agents' / 'seaquest'}"],
    "control": ["train control/reacher-hard", "bench control/pendulum-swingup"],
    "doom": ["train doom/watermaze", "bench doom/my_way_home"],
    "gym": ["train gym/CarRacing-v3", "train my_module:factory"],
    "highway": ["train highway/parking-v0"],
    "minigrid": ["train minigrid/MiniGrid-Empty-8x8-v0"],
    "cluster": ["train --cluster local", "train --cluster auto"],
    "studio": ["studio"],
    "wandb": ["train --wandb", "train arena --wandb offline"],
    "video": [f"record {AGENT} --out film.mp4"],
}
CASES = [(extra, package, line) for extra, lines in LINES.items() for line in lines for package in EXTRAS[extra]]

ALONE = f"""
import importlib.abc, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(set().union(*EXTRAS.values()))}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
{PLAYS_LITTLE}from discern.cli import main
tiny = (
    "--steps 400 --actor.environments 4 --actor.horizon 5 --learner.batch 4 --learner.replay-ratio 1 "
    "--replay-capacity 16 --goal-buffer.capacity 16 --reward.decoy-pool None --network.channels 4 --network.features 8 "
    "--network.lstm 8 --network.time-units 4 --evaluation-goals 4"
)
for line in (f"train arena --run mine {{tiny}}", "evaluate mine --trials 1 --count 4", "record mine --out film.gif"):
    sys.argv = ["discern", *line.split()]
    main()
"""


def test_every_extra_can_be_asked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    offered = project["project"]["optional-dependencies"]
    assert set(EXTRAS) == set(offered) - {"all", "cuda", "dev"}
    assert offered["all"] == [f"discern[{','.join(sorted(EXTRAS))}]"]
    assert project["dependency-groups"]["dev"] == ["discern[all,dev]"]
    assert set(LINES) == set(EXTRAS) - {"tensorboard"}  # which a run does without


@pytest.mark.parametrize(("extra", "package", "line"), CASES)
def test_what_is_missing_is_named_with_its_cure(refused: Refused, monkeypatch, extra, package, line):
    monkeypatch.setitem(sys.modules, package, None)
    assert f" needs {package}: pip install 'discern[{extra}]'\n" in refused(line)


def test_the_arena_needs_the_core_alone(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "whole goal" in done.stdout and "film.gif: " in done.stdout
    assert not (tmp_path / "mine" / "tensorboard").exists()
