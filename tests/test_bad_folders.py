"""Runs that are damaged or none, and places that cannot be written to: one sentence, and nothing is changed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from discern.config import Config, to_json
from discern.storage.checkpoint import save_checkpoint
from discern.storage.run_folder import RunFolder
from tests.refusals import Refused, refused

__all__ = ["refused"]

OLDER = Path(__file__).parent / "older_agent"


@pytest.fixture
def run(tmp_path) -> Path:
    """A folder with a config and a checkpoint, to be damaged: agents were once exported so."""
    return Path(shutil.copytree(OLDER, tmp_path / "run"))


@pytest.fixture
def finished(run, tmp_path) -> Path:
    """A run with all that figures are drawn from."""
    folder = Path(shutil.copytree(run, tmp_path / "finished"))
    images = dict.fromkeys(("goals", "achieved", "average"), np.zeros((1, 4, 4, 3), np.uint8))
    np.savez(folder / "final.npz", success=np.float64(1), by_goal=np.ones(1), **images)
    return folder


def checkpoint(run: Path) -> Path:
    return next((run / "checkpoints").iterdir())


def with_config(**changes) -> Callable[[Path], None]:
    """Changes fields in config.json, whatever they may be."""

    def damage(run: Path) -> None:
        values = json.loads((run / "config.json").read_text())
        for path, value in changes.items():
            *rooms, name = path.split("__")
            inner = values
            for room in rooms:
                inner = inner[room]
            inner[name] = value
        (run / "config.json").write_text(json.dumps(values))

    return damage


def with_text(file: str, text: str) -> Callable[[Path], None]:
    return lambda run: (run / file).write_text(text)


def with_manifest(change: Callable[[str], str]) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        manifest = checkpoint(run) / "manifest.json"
        manifest.write_text(change(manifest.read_text()))

    return damage


def with_arrays(change: Callable[[Path], object]) -> Callable[[Path], None]:
    """Changes the largest file of the arrays."""
    return lambda run: change(max((checkpoint(run) / "arrays").rglob("*"), key=lambda path: path.stat().st_size))


def flip(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def without(name: str) -> Callable[[Path], None]:
    return lambda run: shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink()


def other_arrays(tree: dict) -> Callable[[Path], None]:
    """A checkpoint that is whole, but of something else."""

    def damage(run: Path) -> None:
        shutil.rmtree(run / "checkpoints")
        save_checkpoint(run / "checkpoints", 7, tree, {"counters": {"steps": 7}, "replay": False})

    return damage


def empty(run: Path) -> None:
    shutil.rmtree(run)
    run.mkdir()


def a_file(run: Path) -> None:
    shutil.rmtree(run)
    run.write_text("not a folder")


def an_agent_file(run: Path) -> None:
    empty(run)
    (run / "agent.safetensors").write_bytes(b"")


def no_checkpoints(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").mkdir()


def checkpoints_is_a_file(run: Path) -> None:
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").write_text("")


def config_is_a_folder(run: Path) -> None:
    (run / "config.json").unlink()
    (run / "config.json").mkdir()


def half(text: str) -> str:
    return text[: len(text) // 2]


DAMAGE = {
    "gone": (shutil.rmtree, "run is not a run: it has no config.json"),
    "empty": (empty, "run is not a run: it has no config.json"),
    "config gone": (without("config.json"), "run is not a run: it has no config.json"),
    "config a folder": (config_is_a_folder, "run is not a run: it has no config.json"),
    "config cut": (lambda run: (run / "config.json").write_text(half(to_json(Config()))), "is not a config of this"),
    "config empty": (with_text("config.json", ""), "is not a config of this version"),
    "config no JSON": (with_text("config.json", "env = arena"), "is not a config of this version"),
    "config no text": (
        lambda run: (run / "config.json").write_bytes(b"\xff\xfe\x00"),
        "is not a config of this version",
    ),
    "config a list": (with_text("config.json", "[]"), "the config should be an object"),
    "config a number": (with_text("config.json", "3"), "the config should be an object"),
    "config foreign": (with_text("config.json", '{"model": "gpt", "layers": 12}'), "unknown field layers"),
    "room foreign": (with_config(learner=3), "learner. should be an object"),
    "field unknown": (with_config(learner__speed=3), "unknown field learner.speed"),
    "field a text": (with_config(seed="three"), "seed takes a whole number, not 'three'"),
    "field a float": (with_config(learner__batch=2.5), "learner.batch takes a whole number, not 2.5"),
    "field null": (with_config(actor__horizon=None), "actor.horizon takes a whole number, not None"),
    "field a list": (with_config(network__features=[8]), "network.features takes a whole number, not (8,)"),
    "field no list": (with_config(network__channels=8), "network.channels takes a list, each a whole number, not 8"),
    "field an object": (with_config(env={"name": "arena"}), "env takes a text"),
    "field out of range": (with_config(learner__batch=1), "learner.batch must be at least 2"),
    "field no choice": (with_config(reward__kind="money"), "reward.kind takes discern or"),
    "field not finite": (with_config(minutes=float("nan")), "minutes must be a finite number"),
    "world unknown": (with_config(env="moon"), "there is no world 'moon'"),
    "checkpoints gone": (without("checkpoints"), "there is no checkpoint in run/checkpoints"),
    "checkpoints empty": (no_checkpoints, "there is no checkpoint in run/checkpoints"),
    "checkpoints a file": (checkpoints_is_a_file, "there is no checkpoint in run/checkpoints"),
    "manifest gone": (lambda run: (checkpoint(run) / "manifest.json").unlink(), "is not a checkpoint of this program"),
    "manifest empty": (with_manifest(lambda text: ""), "is not a checkpoint of this program"),
    "manifest cut": (with_manifest(half), "is not a checkpoint of this program"),
    "manifest foreign": (with_manifest(lambda text: '{"version": 3}'), "is not a checkpoint of this program"),
    "manifest a list": (with_manifest(lambda text: "[1, 2]"), "is not a checkpoint of this program"),
    "manifest of another version": (
        with_manifest(lambda text: text.replace("discern-checkpoint/1", "discern-checkpoint/9")),
        "is not a checkpoint of this program (discern-checkpoint/1)",
    ),
    "manifest changed": (with_manifest(lambda text: text.replace('"step": ', '"step": 1')), "is damaged"),
    "manifest alone": (with_manifest(lambda text: '{"format": "discern-checkpoint/1"}'), "is damaged"),
    "arrays gone": (lambda run: shutil.rmtree(checkpoint(run) / "arrays"), "is damaged"),
    "arrays cut": (with_arrays(lambda file: os.truncate(file, file.stat().st_size // 2)), "is damaged"),
    "arrays empty": (with_arrays(lambda file: os.truncate(file, 0)), "is damaged"),
    "arrays changed": (with_arrays(flip), "is damaged"),
    "one array file gone": (with_arrays(lambda file: file.unlink()), "is damaged"),
    "one file more": (lambda run: (checkpoint(run) / "extra").write_text(""), "is damaged"),
}

NO_RUN = {
    "a file": (a_file, "run is not a run: it has no config.json"),
    "an agent file": (an_agent_file, "run holds an agent alone: it can be evaluated, not trained further"),
}

EVALUATED = {
    "a file": (a_file, "run is no agent file, or was cut short"),
    "of another size": (with_config(network__features=7), "belongs to another agent: learner.params."),
    "of another world": (with_config(env="arena/84"), "belongs to another agent: learner.params."),
    "of something else": (other_arrays({"weights": np.zeros(3)}), "belongs to another agent: learner.params."),
}


@pytest.mark.parametrize("name", DAMAGE | EVALUATED)
def test_runs_that_cannot_be_evaluated(refused: Refused, run, name):
    damage, sentence = (DAMAGE | EVALUATED)[name]
    damage(run)
    assert sentence in refused("evaluate run --trials 1 --count 2")


@pytest.mark.parametrize("name", [name for name in DAMAGE | NO_RUN if name != "world unknown"])
def test_runs_that_cannot_go_on(refused: Refused, run, name):
    """Not even the budget is changed, nor the mark that the run had finished."""
    damage, sentence = (DAMAGE | NO_RUN)[name]
    damage(run)
    if run.is_dir():
        (run / "final.npz").write_text("")
    assert sentence in refused("train --resume run --minutes 3")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("train --resume run", "run holds an agent alone: it can be evaluated, not trained further"),
        ("train --run run", "run holds a run with another config ("),
        ("train --run folder", "folder exists and is not an empty folder: choose another folder"),
        ("train --run letter.txt", "letter.txt exists and is not an empty folder"),
        ("train --run letter.txt/run", "letter.txt is no folder that can be written to, choose another"),
        ("train --run ''", "exists and is not an empty folder"),
        ("export run folder", "folder exists and is not an empty folder"),
        ("export run run", "run exists and is not an empty folder"),
        ("export run letter.txt/agent", "letter.txt is no folder that can be written to"),
        ("export folder agent", "folder is not a run"),
        ("evaluate run --figure picture.txt", "cannot draw picture.txt: name a .png in a folder that exists"),
        ("evaluate run --figure picture", "name a .png in a folder that exists"),
        ("evaluate run --figure nowhere/picture.png", "name a .png in a folder that exists"),
        ("evaluate run --figure letter.txt/picture.png", "name a .png in a folder that exists"),
        ("evaluate run --figure folder.png", "cannot draw folder.png: name a .png"),
        ("evaluate run --goals moon", "arena has no goal set 'moon'; it has: even"),
        ("record run --out video.avi", "cannot film video.avi: name a .mp4 or .gif in a folder that exists"),
        ("record run --out nowhere/video.mp4", "name a .mp4 or .gif in a folder that exists"),
        ("record run --out folder", "name a .mp4 or .gif"),
        ("record run --out video.mp4 --goal nothing.png", "there is no image nothing.png"),
        ("record run --out video.mp4 --goal letter.txt", "letter.txt is not an image"),
        ("record run --out video.mp4 --goal folder", "folder cannot be read as an image"),
        ("record folder --out video.mp4", "folder is not a run"),
        ("figures run", "run has not finished, it holds no whole final.npz"),
        ("figures folder", "folder is not a run"),
        ("figures finished --out letter.txt", "letter.txt is no folder that can be written to"),
        ("figures cut", "cut has not finished, it holds no whole final.npz"),
        ("reproduce all --out letter.txt", "letter.txt is no folder that can be written to"),
        ("reproduce arena-curves --out letter.txt/deeper", "letter.txt is no folder that can be written to"),
        ("studio folder", "folder is not a run"),
        ("--tyro-write-completion bash", "needs the name of a shell, bash, zsh, fish or tcsh and a file"),
    ],
)
def test_places(refused: Refused, run, finished, tmp_path, line, sentence):
    (tmp_path / "letter.txt").write_text("dear")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "letter.txt").write_text("dear")
    (tmp_path / "folder.png").mkdir()
    shutil.copytree(run, tmp_path / "cut")
    whole = (finished / "final.npz").read_bytes()
    (tmp_path / "cut" / "final.npz").write_bytes(whole[: len(whole) // 2])
    assert sentence in refused(line)


WRITING = [
    "train --run new",
    "export run new",
    "evaluate run --figure picture.png",
    "record run --out video.mp4",
    "figures finished --out new",
    "reproduce all --out new --yes",
]


@pytest.mark.parametrize("line", WRITING)
def test_folders_without_permission(refused: Refused, monkeypatch, run, finished, line):
    monkeypatch.setattr("discern.storage.run_folder.os.access", lambda path, mode: mode != os.W_OK)
    assert "is no folder that can be written to, choose another" in refused(line)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has a folder that not even root can write to")
@pytest.mark.parametrize("line", ["export run /proc/self/new", "figures finished --out /proc/self/new"])
def test_folders_that_nobody_can_write_to(refused: Refused, run, finished, line):
    assert "/proc/self/new" in refused(line)


def test_metrics_cut_short_do_not_matter(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"steps": 1}\n3\nnull\n\xff\xfe\n{"steps": 2, "suc')
    assert RunFolder(tmp_path).metrics() == [{"steps": 1}]
