"""What a run shows while it trains: a picture on a terminal, plain lines elsewhere; and what is being waited for."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

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
    "told_apart_random": "{:.1%}",
    "seconds": "{:,.0f}",
    "seconds_left": "{:,.0f}",
}
ROWS = {  # of the picture: what is said of which numbers, where they are known
    "goals reached": (("success", ""), ("random", " by random play"), ("at_some_step", " at some step")),
    "goals told apart": (
        ("told_apart", ""),
        ("told_apart_random", " by random play"),
        ("told_apart_pixels", " in pixels"),
    ),
    "teacher": (("teacher_accuracy", " of goals told from decoys"), ("teacher_loss", " loss")),
    "steps": (("steps", ""), ("steps_per_second", " a second"), ("dropped", " trajectories dropped")),
    "updates": (("updates", ""), ("updates_per_second", " a second"), ("replay_ratio", " replay ratio")),
    "imitator": (("td_loss", " TD loss"), ("reward_mean", " mean reward")),
}
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of a braille letter, 4 rows of 2
CHART = (48, 6)  # letters wide and high
PATIENCE = 10.0  # seconds until a wait is worth a plain line


class Phases:
    """What is being waited for, in whatever thread, and since when."""

    def __init__(self) -> None:
        self.running: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.running[name] = time.monotonic()
        try:
            yield
        finally:
            self.running.pop(name, None)

    def said(self, least: float = 0.0) -> str:
        """Those that have taken at least so many seconds, with their clocks."""
        ages = [(name, time.monotonic() - began) for name, began in list(self.running.items())]
        return ", ".join(f"{name} {age:.0f} s" for name, age in ages if age >= least)


class View:
    """The newest numbers of a run and the curve behind them, on a console that can be a terminal or a file."""

    def __init__(self, console: Console):
        self.console, self.phases = console, Phases()
        is_terminal = console.is_interactive and not console.no_color and console.encoding.startswith("utf")
        self.is_live = is_terminal and not console.quiet
        self.latest: dict[str, float] = {}
        self.curve: list[tuple[float, float]] = []
        self._shown_at = time.monotonic()
        self._said = threading.Event()
        self.live = Live(console=console, get_renderable=self.picture, refresh_per_second=2, transient=True)

    def __enter__(self) -> Self:
        if self.is_live:
            self.live.start()
            self.console.show_cursor()  # so that nothing is amiss with the terminal after kill -9
        else:
            threading.Thread(target=self._say_what_takes_long, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._said.set()
        if self.is_live:
            self.live.stop()

    def show(self, numbers: dict[str, float]) -> None:
        """The newest numbers; must have "steps"."""
        self._said.set()
        self.latest.update(numbers)
        self._shown_at = time.monotonic()
        if (share := numbers.get("success", numbers.get("told_apart"))) is not None:
            self.curve.append((numbers["steps"], share))
        if not self.is_live:
            shown = {name: form.format(self.latest[name]) for name, form in SHOWN.items() if name in self.latest}
            line = "  ".join(f"{name} {value}" for name, value in shown.items())
            self.console.print(line, soft_wrap=True, highlight=False)

    def next_steps(self, run: Path) -> None:
        """What to do with a finished run, said to whoever sits at a terminal."""
        if not self.is_live:
            return
        commands = {f"studio {run}": "watch it reach goals", f"record {run} --out {run}.gif": "film it"}
        commands |= {f"evaluate {run}": "score it, 20 attempts at each goal"}
        for command, what in commands.items():
            self.console.print(Text.assemble("  discern ", (command, "bold"), f"  # {what}"), soft_wrap=True)

    def _say_what_takes_long(self) -> None:
        """Plain lines until the first numbers."""
        while not self._said.wait(PATIENCE):
            waiting = self.phases.said(least=PATIENCE / 2)
            if waiting:
                self.console.print(f"{waiting} so far", soft_wrap=True)

    def picture(self) -> RenderableType:
        """Curve, numbers, budget and what is being waited for."""
        parts: list[RenderableType] = []
        if len(self.curve) and self.console.height >= CHART[1] + len(ROWS) + 6 and self.console.width >= CHART[0] + 8:
            total = max(self.latest["steps"] / max(self.latest.get("budget_spent", 1.0), 1e-9), 1.0)
            what = "goals reached" if "success" in self.latest else "goals told apart"
            parts.append(
                chart([(steps / total, share) for steps, share in self.curve], f"{what}, to {total:,.0f} steps")
            )
        table = Table.grid(padding=(0, 2))
        for name, entries in ROWS.items():
            known = [f"{SHOWN[key].format(self.latest[key])}{what}" for key, what in entries if key in self.latest]
            if known:
                table.add_row(Text(name, "dim"), Text(", ".join(known)))
        if "budget_spent" in self.latest:
            spent = self.latest["budget_spent"]
            left = max(0.0, self.latest["seconds_left"] - (time.monotonic() - self._shown_at))
            bar = Table.grid(padding=(0, 2))
            bar.add_row(ProgressBar(total=1.0, completed=spent, width=24), f"{spent:.0%}, {clock(left)} left")
            table.add_row(Text("budget", "dim"), bar)
        waiting = self.phases.said()
        if waiting:
            table.add_row(Text("waiting for", "dim"), Text(waiting))
        return Group(*parts, table)


def clock(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"


def chart(curve: Sequence[tuple[float, float]], title: str) -> Text:
    """Shares (x, y), both in [0, 1], over a budget, with its axes and a title below."""
    lines = braille(curve, *CHART)
    sides = ["100 %", *[""] * (len(lines) - 2), "0 %"]
    body = [part for side, line in zip(sides, lines, strict=True) for part in (f"{side:>5} ┤", (line, "green"), "\n")]
    return Text.assemble(*body, " " * 7, title.rjust(CHART[0]))


def braille(curve: Sequence[tuple[float, float]], width: int, height: int) -> list[str]:
    """A curve of (x, y) in [0, 1], straight between its points, as lines of braille letters."""
    xs, ys = np.array(curve, float).T
    grid = np.linspace(0, 1, 2 * width)
    half = 0.5 / (2 * width - 1)
    inside = np.flatnonzero((grid >= xs[0] - half) & (grid <= xs[-1] + half))
    rows = np.rint((1 - np.clip(np.interp(grid[inside], xs, ys), 0, 1)) * (4 * height - 1)).astype(int)
    letters = np.zeros((height, width), int)
    for column, row, before in zip(inside, rows, [*rows[:1], *rows[:-1]], strict=True):
        for dot in range(min(row, before + 1), max(row, before - 1) + 1):  # steep parts have no gaps
            letters[dot // 4, column // 2] |= DOTS[dot % 4, column % 2]
    return ["".join(chr(0x2800 + letter) for letter in line) for line in letters]
