"""What `discern doctor` says of worlds, speed and memory."""

import json
import sys

import pytest

from discern.diagnostics import doctor
from discern.diagnostics.doctor import TRIED, beside_reference, examine, speed, state_of
from discern.envs import SUITES, WORLDS
from discern.presets import suite_of


def test_every_suite_is_tried():
    assert {suite_of(name.partition(" ")[0]) for name in TRIED} >= {
        *SUITES,
        *(name.partition("/")[0] for name in WORLDS),
    }


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("atari/seaquest", "ale_py", "atari"), ("control/reacher-hard", "mujoco", "control"), ("gym/A-v0", "cv2", "gym")],
)
def test_a_world_that_lacks_its_extra_names_it(monkeypatch, name, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    assert state_of(name, {}) == f"{name} needs {package}: pip install 'discern[{extra}]'"


def test_a_world_is_ok_only_if_it_begins(monkeypatch):
    assert state_of("arena", {}) == "ok"
    assert state_of("control/reacher-hard", {}) == "ok"
    assert state_of("gym/Nowhere-v0", {}).startswith("gym/Nowhere-v0 ")

    def explode(*_: object) -> None:
        raise RuntimeError("no display\nat 0x0")

    monkeypatch.setattr(doctor, "make_env", explode)
    assert state_of("arena", {}) == "RuntimeError: no display"


def test_memory_and_disk_are_told(monkeypatch):
    monkeypatch.setattr(doctor, "TRIED", {"arena": {}, "lab/rooms_watermaze": {}})
    report = json.loads(json.dumps(examine()))
    assert report["worlds"]["arena"] == "ok" and "needs DeepMind Lab" in report["worlds"]["lab/rooms_watermaze"]
    assert 0 < report["memory_gib"]["free"] <= report["memory_gib"]["all"]
    assert report["free_disk_gib"] > 0 and report["gpu_is_used"] is False


def test_a_gpu_is_put_beside_the_one_that_was_measured(monkeypatch, tmp_path):
    """results/arena84_bench_h200.json has 262.9 updates and 280,090 steps a second with 256 environments."""
    measured = {"environments": 256, "updates_per_second": 131.45, "whole_steps_per_second": 560_180}
    asked = []
    monkeypatch.setattr(doctor, "bench", lambda config, seconds: asked.append(config) or measured)
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    reference = speed()["reference"]
    assert asked[0].env == "arena/84" and asked[0].learner.replay_ratio == 1.0
    assert reference["device"] == "NVIDIA H200" and reference["source"] == "results/arena84_bench_h200.json"
    assert reference["share_of_its_updates_per_second"] == 0.5
    assert reference["share_of_its_whole_steps_per_second"] == 2.0
    monkeypatch.setattr(doctor, "RESULTS", tmp_path)  # as where it was installed as a package
    assert beside_reference(measured) is None
