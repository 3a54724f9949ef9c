"""What a run says about itself: JSON lines always, boards beside them, and what it shows while it trains."""

import json
import time
from pathlib import Path
from typing import Any, Self, TextIO

from discern.storage.run_folder import RunFolder
from discern.training.boards import TensorBoard, WeightsAndBiases
from discern.training.live import View
from discern.types import WandbMode


class Metrics:
    """Appends to metrics.jsonl and shows the newest values; lines after a resumed step are cut off first."""

    def __init__(self, folder: RunFolder, view: View, after_step: int | None = None, wandb: WandbMode | None = None):
        self.view = view
        kept = self._keep_until(folder, after_step)
        self.view.curve = [(row["steps"], row["success"]) for row in kept if "success" in row]
        self._board = TensorBoard(folder)
        self._wandb = WeightsAndBiases(folder, wandb, view.console) if wandb else None
        self._file: TextIO = folder.metrics_file.open("a")

    @staticmethod
    def _keep_until(folder: RunFolder, after_step: int | None) -> list[dict[str, Any]]:
        if after_step is None:
            return []
        rows = [row for row in folder.metrics() if row.get("steps", 0) <= after_step]
        unfinished = folder.metrics_file.with_suffix(".tmp")
        unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
        unfinished.replace(folder.metrics_file)
        return rows

    def write(self, row: dict[str, Any], picture: Path | None = None) -> None:
        """One line; must have "steps". `picture` shows what has been achieved by then."""
        plain = {name: value if isinstance(value, int | str | dict) else float(value) for name, value in row.items()}
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()
        numbers = {name: value for name, value in plain.items() if isinstance(value, int | float)}
        self._board.write(numbers, int(row["steps"]))
        if self._wandb:
            parts = {name: parts for name, parts in plain.items() if isinstance(parts, dict)}  # of success
            self._wandb.write(numbers | parts, picture)
        self.view.show(numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._board.close()
        if self._wandb:
            self._wandb.close()


class Rates:
    """Steps and updates a second since the last reading."""

    def __init__(self, steps: int, updates: int):
        self.then = (time.monotonic(), steps, updates)

    def read(self, steps: int, updates: int, trained_per_update: int) -> dict[str, float]:
        """Rates since the last call, and how often a step was trained on in that time."""
        if steps == self.then[1]:  # nothing happened since: the last reading stands
            return {}
        now = (time.monotonic(), steps, updates)
        seconds, new_steps, new_updates = (new - old for new, old in zip(now, self.then, strict=True))
        self.then = now
        return {
            "steps_per_second": new_steps / max(seconds, 1e-9),
            "updates_per_second": new_updates / max(seconds, 1e-9),
            "replay_ratio": new_updates * trained_per_update / max(new_steps, 1),
        }
