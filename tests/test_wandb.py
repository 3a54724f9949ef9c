"""A run logged to Weights & Biases without a network: its folder holds the run, and going on continues it."""

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from rich.console import Console

from discern.cli import read
from discern.config import replace
from discern.storage.run_folder import RunFolder
from discern.training.loop import resume, train
from tests.refusals import Refused, refused

__all__ = ["refused"]


@pytest.fixture
def offline(monkeypatch, tmp_path_factory):
    """No account of this machine's, and no process of W&B's left behind."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    yield
    import wandb

    wandb.teardown()


def records(file: Path) -> Iterator[bytes]:
    """A log of LevelDB's form, under a header of 7 bytes: blocks of 32 KiB, in which records may be in pieces."""
    raw, at, record = file.read_bytes(), 7, b""
    while at + 7 <= len(raw):
        left = 2**15 - at % 2**15
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", raw, at + 4)
        record += raw[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield record
            record = b""


def logged(folder: Path) -> list[dict]:
    """What an offline run says: its id and config, then rows of history."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("run-*.wandb")
    found = []
    for data in records(file):
        said = Record()
        said.ParseFromString(data)
        if said.WhichOneof("record_type") == "run":
            config = {item.key: json.loads(item.value_json) for item in said.run.config.update}
            found.append(config | {"id": said.run.run_id})
        elif said.WhichOneof("record_type") == "history":
            items = said.history.item
            found.append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items})
    return found


def test_a_run_is_logged_and_gone_on_with(offline, tmp_path, tiny):
    """Config, curves and goals.png; the second stretch, not asked for, has the first one's id."""
    config = replace(tiny, {"steps": 400, "log_seconds": 0.01})
    with (tmp_path / "said").open("w") as said:
        run = train(config, tmp_path / "run", Console(file=said), wandb="offline")
        resume(run, steps=600, console=Console(quiet=True))
    first, second = sorted((run / "wandb").glob("offline-run-*"))
    kept = json.loads((run / "wandb.json").read_text())
    assert kept["mode"] == "offline"
    assert first.name.endswith(kept["id"]) and second.name.endswith(kept["id"])
    assert f"wandb sync {first}" in (tmp_path / "said").read_text()
    (about, *rows), (again, *more) = logged(first), logged(second)
    assert about["id"] == again["id"] == kept["id"]
    settings = json.loads(json.dumps(asdict(config)))
    assert {name: about[name] for name in settings} == settings
    assert again["steps"] == 600
    written = [row for row in RunFolder(run).metrics() if "success" in row]
    assert [row["success"] for row in (*rows, *more) if "success" in row] == [row["success"] for row in written]
    assert rows[-1]["steps"] == 400 and more[-1]["steps"] == 600
    assert {"teacher_accuracy", "td_loss", "per_dimension/x"} <= set().union(*rows)
    picture = first / "files" / rows[-1]["goals/path"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("train --wandb", "online"),
        ("train --wandb arena/16", "online"),
        ("train arena/16 --wandb offline --seed 3", "offline"),
        ("train --wandb=offline", "offline"),
        ("train --resume runs/mine --wandb", "online"),
        ("train --resume runs/mine", None),
        ("train", None),
    ],
)
def test_the_flag_may_stand_alone(line, mode):
    assert read(line.split()).wandb == mode


def test_without_a_key_nothing_begins(offline, refused: Refused):
    assert "knows no key: `wandb login` asks for one, --wandb offline needs none" in refused("train --wandb")
