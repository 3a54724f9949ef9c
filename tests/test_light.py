"""What needs no accelerator answers at once: help, completions and mistakes import neither JAX nor anything heavy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import discern

ROOT = Path(__file__).parent.parent
HEAVY = (
    "jax",
    "flax",
    "optax",
    "orbax",
    "numpy",
    "matplotlib",
    "PIL",
    "av",
    "cv2",
    "gymnasium",
    "mujoco",
    "ray",
    "rich",
)

REPORT = f"""
found = sorted(set(sys.modules) & set({HEAVY!r}))
print(found, file=sys.stderr)
sys.exit(bool(found))
"""

RUN = """
import contextlib, io, sys
from discern.cli import main
for line in sys.argv[1:]:
    sys.argv = ["discern", *line.split()]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        main()
"""


def python(*words: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)


def test_settings_and_errors_need_nothing_heavy():
    names = ("discern", "discern.types", "discern.machine", "discern.config", "discern.presets", "discern.cli")
    done = python("-c", f"import sys, {', '.join(names)}{REPORT}")
    assert done.returncode == 0, done.stderr


def test_commands_that_only_talk_need_nothing_heavy():
    lines = [
        "--help",
        "train --help",
        "train --config paper arena/84 --help",
        "evaluate --help",
        "--tyro-print-completion bash",
        "trian",
        "train --learner.batch 1",
        "train --seed x",
        "train --learner.bach 3",
        "train atari/seaquest --gym.size 20",
        "train --resume nowhere --seed 3",
        "train --actors 3",
        "evaluate nowhere --trials 0",
        "record nowhere --out a.mp4 --fps 0",
        "bench --seconds 0",
        "studio --port 0",
        "reproduce all --budget nan",
    ]
    done = python("-c", RUN + REPORT, *lines)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("discern: ") == 12


def test_the_package_offers_what_it_says():
    for name in discern.__all__:
        assert getattr(discern, name).__name__ == name
    assert set(discern.__all__) <= set(dir(discern))
    with pytest.raises(AttributeError, match="module 'discern' has no attribute 'dance'"):
        discern.dance  # noqa: B018


def test_the_package_can_be_run():
    done = python("-m", "discern", "--help")
    assert done.returncode == 0
    for command in ("train", "evaluate", "reproduce", "figures", "record", "export", "studio", "bench", "doctor"):
        assert f"• {command} " in done.stdout
    assert python("-m", "discern", "trian").returncode == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_complete(shell):
    done = python("-m", "discern", "--tyro-print-completion", shell)
    assert done.returncode == 0, done.stderr
    assert "evaluate" in done.stdout and "learner.replay-ratio" in done.stdout
