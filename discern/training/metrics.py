"""What a run says about itself: JSON lines always, TensorBoard beside them where installed, live progress."""

import json
import time
from typing import Any, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from discern.storage.run_folder import RunFolder

SHOWN = {
    "steps": "{:,.0f}",
    "updates": "{:,.0f}",
    "steps_per_second": "{:,.0f}",
    "updates_per_second": "{:,.1f}",
    "replay_ratio": "{:.2f}",
    "td_loss": "{:.4f}",
    "teacher_loss": "{:.3f}",
    "teacher_accuracy": "{:.0%}",
    "reward_mean": "{:.3f}",
    "dropped": "{:,.0f}",
    "success": "{:.1%}",
    "at_some_step": "{:.1%}",
    "random": "{:.1%}",
    "told_apart": "{:.1%}",
    "told_apart_pixels": "{:.1%}",
    "seconds": "{:,.0f}",
    "seconds_left": "{:,.0f}",
}


class Metrics:
    """Appends to metrics.jsonl and shows the newest values; lines after a resumed step are cut off first."""

    def __init__(self, folder: RunFolder, console: Console, after_step: int | None = None):
        self.console = console
        self.latest: dict[str, float] = {}
        self._keep_until(folder, after_step)
        self._file: TextIO = folder.metrics_file.open("a")
        self._board = TensorBoard(folder)
        self._live = Live("compiling …", console=self.console, refresh_per_second=4, transient=True)

    @staticmethod
    def _keep_until(folder: RunFolder, after_step: int | None) -> None:
        if after_step is None:
            return
        rows = [row for row in folder.metrics() if row.get("steps", 0) <= after_step]
        unfinished = folder.metrics_file.with_suffix(".tmp")
        unfinished.write_text("".join(json.dumps(row) + "\n" for row in rows))
        unfinished.replace(folder.metrics_file)

    def write(self, row: dict[str, Any]) -> None:
        """One line; must have "steps"."""
        plain = {name: value if isinstance(value, int | str | dict) else float(value) for name, value in row.items()}
        self._file.write(json.dumps(plain) + "\n")
        self._file.flush()
        numbers = {name: value for name, value in plain.items() if isinstance(value, int | float)}
        self.latest.update(numbers)
        self._board.write(numbers, int(row["steps"]))
        self._show()

    def _show(self) -> None:
        shown = {name: form.format(self.latest[name]) for name, form in SHOWN.items() if name in self.latest}
        if self.console.is_terminal:
            table = Table.grid(padding=(0, 2))
            bar = ProgressBar(total=1.0, completed=self.latest.get("budget_spent", 0.0), width=40)
            table.add_row("budget spent", bar)
            for name, value in shown.items():
                table.add_row(name.replace("_", " "), value)
            self._live.update(table)
        else:
            self.console.print("  ".join(f"{name} {value}" for name, value in shown.items()), soft_wrap=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._live.stop()
        self._file.close()
        self._board.close()


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
