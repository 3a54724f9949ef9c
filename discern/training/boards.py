"""Where else a run's numbers go: TensorBoard where it is installed, Weights & Biases where it is asked for."""

import json
import os
import secrets
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from discern.machine import require
from discern.storage.run_folder import RunFolder
from discern.types import UserError, WandbMode


class TensorBoard:
    """Scalars as TensorBoard events; nothing where TensorBoard is not installed."""

    def __init__(self, folder: RunFolder):
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            self._writer = None
            return
        self._writer = EventFileWriter(str(folder.path / "tensorboard"))

    def write(self, numbers: dict[str, float], step: int) -> None:
        if self._writer is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        summary = Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()])
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class WeightsAndBiases:
    """A run of Weights & Biases, whose files and id are in the run's folder; a run that goes on continues it."""

    def __init__(self, folder: RunFolder, mode: WandbMode, console: Console):
        import wandb

        kept = folder.path / "wandb.json"
        before = _kept(folder)
        run_id = before.get("id") or secrets.token_hex(4)
        kept.write_text(json.dumps({"id": run_id, "mode": mode}) + "\n")
        config = folder.config()
        self._image = wandb.Image
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "discern"),
                name=folder.path.resolve().name,
                dir=str(folder.path.resolve()),
                id=run_id,
                resume="allow",
                mode="offline" if mode == "offline" else None,  # None: as WANDB_MODE says, else online
                config=asdict(config),
                allow_val_change=True,  # a run may go on with another budget
                settings=wandb.Settings(console="off", silent=True),
            )
        except wandb.Error as error:
            raise UserError(
                f"Weights & Biases cannot be reached ({str(error).splitlines()[0]}): --wandb offline needs no network"
            ) from None
        self._run.define_metric("*", step_metric="steps")
        where = f"wandb sync {self._run.settings.sync_dir}" if self._run.offline else self._run.url
        console.print(f"Weights & Biases: {where}", soft_wrap=True, highlight=False, markup=False)

    def write(self, numbers: dict[str, Any], picture: Path | None) -> None:
        """Numbers by name, "steps" among them, and a picture of what was achieved by then."""
        self._run.log(numbers | ({} if picture is None else {"goals": self._image(str(picture))}))

    def close(self) -> None:
        self._run.finish()


def wandb_mode(folder: RunFolder, asked: WandbMode | None) -> WandbMode | None:
    """How a run is to be logged there, as it was before unless it is asked for; a UserError where it cannot be."""
    mode: WandbMode | None = asked or _kept(folder).get("mode")
    if mode is None:
        return None
    require("wandb", "--wandb")
    if mode == "online" and os.environ.get("WANDB_MODE", "online") == "online":
        import wandb

        try:
            wandb.login(verify=False)
        except wandb.Error:
            raise UserError(
                "Weights & Biases knows no key: `wandb login` asks for one, --wandb offline needs none"
            ) from None
    return mode


def _kept(folder: RunFolder) -> dict[str, Any]:
    try:
        kept = json.loads((folder.path / "wandb.json").read_text())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}
