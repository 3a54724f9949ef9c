"""A run's folder: its config, metrics, checkpoints and pictures; never two runs in one."""

import datetime
import json
import re
from dataclasses import replace
from pathlib import Path

from discern.config import Config, differences, from_json, to_json
from discern.types import UserError


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
        except FileNotFoundError:
            raise UserError(f"{self.path} is not a run: it has no config.json") from None
        except (ValueError, TypeError) as error:
            raise UserError(f"{self.config_file} is not a config of this version: {error}") from None

    def metrics(self) -> list[dict]:
        """Every whole line of metrics.jsonl; a line cut short by a crash is passed over."""
        rows = []
        if self.metrics_file.exists():
            for line in self.metrics_file.read_text().splitlines():
                try:
                    rows.append(json.loads(line))
                except ValueError:
                    continue
        return rows


def new_folder(path: str | Path | None, config: Config) -> RunFolder:
    """Makes the folder of a new run; one that holds a run already is refused, whatever its config."""
    if path is None:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        path = Path("runs") / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', config.env)}-{stamp}-seed{config.seed}"
    folder = RunFolder(path)
    if folder.config_file.exists():
        changed = differences(config, folder.config())
        if changed:
            raise UserError(
                f"{folder.path} holds a run with another config ({'; '.join(changed[:3])}): choose another --run"
            )
        if folder.checkpoints.exists():
            raise UserError(
                f"{folder.path} holds this run already: go on with --resume {folder.path}, or choose another --run"
            )
        return folder  # it was stopped before it had saved anything
    if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
        raise UserError(f"{folder.path} exists and is not an empty folder: choose another --run")
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        folder.config_file.write_text(to_json(config))
    except OSError as error:
        raise UserError(f"cannot make the run folder {folder.path}: {error.strerror}") from error
    return folder


def resumed_folder(path: str | Path, steps: int | None, minutes: float | None) -> tuple[RunFolder, Config]:
    """The folder of a run to go on with; only its budget may be changed, and the change is kept."""
    folder = RunFolder(path)
    config = folder.config()
    longer = replace(
        config, steps=config.steps if steps is None else steps, minutes=config.minutes if minutes is None else minutes
    )
    if longer != config:
        folder.config_file.write_text(to_json(longer))
    return folder, longer
