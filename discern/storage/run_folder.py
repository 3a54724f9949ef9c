"""A run's folder: its config, metrics, checkpoints and pictures; never two runs in one."""

import datetime
import json
import os
import re
from dataclasses import replace
from pathlib import Path

from discern.config import Config, differences, from_json, to_json
from discern.types import UserError

AGENT_FILE = "agent.safetensors"  # what an exported agent's folder holds instead of a run


class RunFolder:
    """Where a run keeps its files."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"

    def config(self) -> Config:
        """The config the run was started with."""
        try:
            return from_json(self.config_file.read_text())
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if (self.path / AGENT_FILE).exists():
                raise agent_alone(self.path) from None
            raise UserError(f"{self.path} is not a run: it has no config.json") from None
        except (ValueError, TypeError) as error:
            raise UserError(f"{self.config_file} is not a config of this version: {error}") from None

    def keep(self, config: Config) -> None:
        """Writes the config that the run has from now on, whole or not at all."""
        unfinished = self.config_file.with_suffix(".tmp")
        unfinished.write_text(to_json(config))
        os.replace(unfinished, self.config_file)

    def metrics(self) -> list[dict]:
        """Every whole line of metrics.jsonl; a line cut short by a crash is passed over."""
        rows = []
        if self.metrics_file.exists():
            for line in self.metrics_file.read_text(errors="replace").splitlines():
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    rows.append(row)
        return rows


def agent_alone(path: Path) -> UserError:
    """What to say where a run is wanted and only an exported agent is there."""
    return UserError(f"{path} holds an agent alone: it can be evaluated, not trained further")


def refuse_unless_writable(folder: Path) -> None:
    """A clear refusal where a folder can be neither written to nor made."""
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise UserError(f"cannot write to {folder}: {above} is no folder that can be written to, choose another")


def make_folder(path: Path) -> None:
    """Makes a folder, and those above it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {path}, {(error.strerror or '').lower()}: choose another") from error


def refuse_file(path: Path, to_do: str, endings: tuple[str, ...]) -> None:
    """A clear refusal where a file of a kind cannot be written."""
    if path.suffix.lower() not in endings or not path.parent.is_dir() or path.is_dir():
        raise UserError(f"cannot {to_do} {path}: name a {' or '.join(endings)} in a folder that exists")
    refuse_unless_writable(path.parent)


def usual_path(config: Config) -> Path:
    """Where a new run goes unless it is told where."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', config.env)}-{stamp}-seed{config.seed}"


def free_folder(path: str | Path | None, config: Config) -> RunFolder:
    """Where a new run goes, not made yet; a folder that holds a run already is refused, whatever its config."""
    folder = RunFolder(usual_path(config) if path is None else path)
    if folder.config_file.exists():
        changed = differences(config, folder.config())
        if changed:
            raise UserError(
                f"{folder.path} holds a run with another config ({'; '.join(changed[:3])}): choose another folder"
            )
        if folder.checkpoints.exists():
            raise UserError(
                f"{folder.path} holds this run already: go on with --resume {folder.path}, or choose another folder"
            )
        return folder  # it was stopped before it had saved anything
    refuse_unless_free(folder.path)
    return folder


def refuse_unless_free(path: Path) -> None:
    """A clear refusal where a folder is not empty, or cannot be written to."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UserError(f"{path} exists and is not an empty folder: choose another folder")
    refuse_unless_writable(path)


def new_folder(path: str | Path | None, config: Config) -> RunFolder:
    """Makes the folder of a new run."""
    folder = free_folder(path, config)
    make_folder(folder.path)
    folder.keep(config)
    return folder


def resumed_folder(path: str | Path, steps: int | None, minutes: float | None) -> tuple[RunFolder, Config]:
    """The folder of a run to go on with, and its config; only its budget may be changed."""
    folder = RunFolder(path)
    config = folder.config()
    longer = replace(
        config, steps=config.steps if steps is None else steps, minutes=config.minutes if minutes is None else minutes
    )
    return folder, longer
