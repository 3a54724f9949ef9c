"""Runs as the studio starts, stops and shows them: a child process each, never a shell."""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from discern.evaluation.final import is_finished
from discern.parsing import HELP
from discern.storage.run_folder import RunFolder, free_folder, usual_path
from discern.studio.playing import refuse_code
from discern.types import UserError

MOST_RUNS = 4  # at a time
LIVE_SECONDS = 120  # a run that has written nothing for longer is taken to have stopped
SAVING_SECONDS = 60  # that runs have to save when the studio closes
TAIL = 2**15  # bytes of metrics.jsonl that hold the newest values
THUMB = (420, 240)
NAME = re.compile(r"\w[\w.+-]{0,59}")
FOR_ONE = {"seeds": "--seeds trains several", "cluster": "--cluster is not for the page", "run": "--run has a field"}
COMMAND = (sys.executable, "-m", "discern")
Read = Callable[[list[str]], Any]


class Form(NamedTuple):
    """A run as it is typed; where nothing is, it is as usual."""

    world: str
    minutes: str = ""
    steps: str = ""
    seed: str = ""
    name: str = ""
    flags: str = ""


class Summary(NamedTuple):
    """A run in a few words and a picture."""

    name: str
    world: str
    state: str
    success: float | None
    steps: int
    picture: bytes  # PNG, or nothing


class Child:
    """One training process in a group of its own."""

    def __init__(self, words: list[str], log: Path):
        self._log, self.asked = log, False
        with log.open("wb") as said:
            self.process = subprocess.Popen(
                [*COMMAND, *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def interrupt(self) -> None:
        """Asks it to save and stop."""
        if self.runs:
            self.asked = True
            self.process.send_signal(signal.SIGINT)

    def wait(self, seconds: float) -> None:
        """Waits for it to end, and ends its whole group where it does not."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def said(self) -> str:
        """Why it ended unasked before its budget was spent, in its own last sentence; nothing where it did not."""
        code = self.process.poll()
        if not code or (self.asked and code == 128 + signal.SIGINT):
            return ""
        lines = [line for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("discern: ") if lines else f"it ended with exit code {self.process.returncode}"


class Runs:
    """The runs of one studio, by their folders; `read` is the command line's own parser."""

    def __init__(self, read: Read, named: str | None = None):
        """`named` is the world that whoever opened the page asked for; it may be code."""
        self._read, self._named = read, named
        self._children: dict[str, Child] = {}
        self._lock = threading.Lock()
        self._logs = tempfile.TemporaryDirectory(prefix="discern-studio-")

    def start(self, form: Form) -> str:
        """Starts a run and returns its folder; a UserError, and nothing written, where a word is wrong."""
        with self._lock:
            words = words_of(form)
            if any(word.partition("=")[0] == "--resume" for word in words):
                raise UserError("a run that goes on takes no flags: choose it below and press Resume")
            wanted = self._parsed(words)
            for field, why in FOR_ONE.items():
                if getattr(wanted, field):
                    raise UserError(f"{why}: leave it out of the flags")
            refuse_code(wanted.settings, self._named)
            if form.name and not NAME.fullmatch(form.name):
                raise UserError("name the run in up to 60 letters, digits and . + _ -, beginning with a letter")
            path = Path("runs") / form.name if form.name else usual_path(wanted.settings)
            free_folder(path, wanted.settings)
            return self._begin(str(path), [*words, "--run", str(path)])

    def resume(self, run: str, minutes: str = "", steps: str = "") -> str:
        """Goes on with a run, with another budget where one is given."""
        with self._lock:
            words = ["train", "--resume", run, *_given(minutes=minutes, steps=steps)]
            self._parsed(words)
            RunFolder(run).config()
            return self._begin(run, words)

    def stop(self, run: str) -> None:
        child = self._children.get(run)
        if child is None or not child.runs:
            raise UserError(f"{run} was not started here, or has ended: only what this page started can be stopped")
        child.interrupt()

    def state(self, run: str) -> str:
        """How a run stands: as this studio knows, whose child it is, or else as its files tell."""
        child = self._children.get(run)
        if child is None or child.process.poll() == 0:
            return state_of(run)
        return "stopped" if not child.runs else "stopping" if child.asked else "running"

    def said(self, run: str) -> str:
        child = self._children.get(run)
        return child.said() if child else ""

    def started(self) -> list[str]:
        """Folders of the runs that are under way, which may not be there yet, the newest first."""
        return [run for run, child in reversed(self._children.items()) if child.runs or child.said()]

    def close(self) -> None:
        """Every run saves and stops."""
        for child in self._children.values():
            child.interrupt()
        until = time.monotonic() + SAVING_SECONDS
        for child in self._children.values():
            child.wait(max(0.0, until - time.monotonic()))
        self._logs.cleanup()

    def _parsed(self, words: list[str]) -> Any:
        if asks := [word for word in words if word in HELP or word.startswith("--tyro-")]:
            raise UserError(f"{asks[0]} is for the command line: leave it out of the flags")
        return self._read(words)

    def _begin(self, run: str, words: list[str]) -> str:
        if run in self._children and self._children[run].runs:
            raise UserError(f"{run} is under way")
        if sum(child.runs for child in self._children.values()) >= MOST_RUNS:
            raise UserError(f"{MOST_RUNS} runs are under way: stop one first")
        self._children.pop(run, None)
        self._children[run] = Child(words, Path(self._logs.name) / re.sub(r"\W+", "-", run))
        return run


def words_of(form: Form) -> list[str]:
    """The command line that a form stands for."""
    if not form.world or form.world.startswith("-"):
        raise UserError("name a world to train in: arena, control/reacher-hard, gym/CartPole-v1 …")
    try:
        flags = shlex.split(form.flags)
    except ValueError as error:
        raise UserError(f"the flags cannot be read: {str(error).lower()}") from None
    return ["train", form.world, *_given(minutes=form.minutes, steps=form.steps, seed=form.seed), *flags]


def _given(**fields: str) -> list[str]:
    """The fields that were filled in as flags."""
    return [word for name, text in fields.items() if text for word in (f"--{name}", text)]


def state_of(run: str) -> str:
    """What a run's files say of it."""
    folder = RunFolder(run)
    if is_finished(folder.path):
        return "finished"
    try:
        is_fresh = time.time() - folder.metrics_file.stat().st_mtime < LIVE_SECONDS
    except FileNotFoundError:
        return "beginning"
    return "live" if is_fresh else "stopped"


def summaries(runs: Iterable[str], state: Callable[[str], str]) -> list[Summary]:
    """The runs, each with what its files hold so far."""
    return [_summary(run, state(run)) for run in runs]


def _summary(run: str, state: str) -> Summary:
    folder, success = RunFolder(run), None
    try:
        world = folder.config().env
    except UserError:
        world = "?"
    newest = newest_values(folder.metrics_file)
    unreadable = contextlib.suppress(OSError, KeyError, ValueError, zipfile.BadZipFile)
    with unreadable, np.load(folder.path / "final.npz") as arrays:
        success = float(arrays["success"])
    if success is None or np.isnan(success):
        success = newest.get("success")
    return Summary(run, world, state, success, int(newest.get("steps", 0)), thumbnail(folder.path / "goals.png"))


def newest_values(metrics: Path) -> dict[str, Any]:
    """The newest value of each metric, as far as the end of the file has it."""
    newest: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError), metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - TAIL))
        for line in file.read().splitlines():
            with contextlib.suppress(ValueError, TypeError):
                newest |= json.loads(line)
    return newest


def thumbnail(picture: Path) -> bytes:
    """A small copy of a picture as a PNG; nothing where there is none."""
    try:
        return _thumbnail(picture, picture.stat().st_mtime_ns)
    except OSError:
        return b""


@lru_cache(maxsize=256)
def _thumbnail(picture: Path, _: int) -> bytes:
    with Image.open(picture) as image:
        small = image.convert("RGB")
    small.thumbnail(THUMB)
    file = io.BytesIO()
    small.save(file, "PNG")
    return file.getvalue()
