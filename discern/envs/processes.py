"""Environments in processes of their own, so that one that hangs or dies takes nothing with it.

A process runs this very file, which loads what it serves and nothing else of discern. It is asked with pickled (method,
argument) and answers with (whether it went well, answer), each after its length in bytes. Signals to stop are for the
process that asks; this one ends when its input does.
"""

import contextlib
import importlib
import mmap
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, NoReturn

import numpy as np

START_SECONDS = 120.0
LENGTH = struct.Struct("<Q")
DOING = {
    "prove": "being made",
    "make": "being made",
    "reset": "resetting",
    "step": "stepping",
    "ranges": "saying its numbers",
    "place": "being placed",
}


class Process:
    """One process, which serves the class `kind` of `file` and is killed where it does not end by itself."""

    def __init__(
        self,
        name: str,
        file: str,
        kind: str,
        settings: tuple,
        seconds: float = 120.0,
        advice: str = "",
        inherits: tuple[int, ...] = (),
    ):
        """`name`, `seconds` of patience and `advice` are for what is said when no answer comes; `inherits` are the
        numbers of open files that the process may use."""
        self._name, self._seconds, self._advice = name, seconds, advice
        self._doing, self._patience, self._ready = "starting", seconds, False
        if inherits and sys.platform == "win32":
            self._fail("needs Linux or macOS: Windows hands no open files to a process")
        command = [sys.executable, "-P", __file__, str(Path(__file__).parent / file), kind]
        quiet = {"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "PYGAME_HIDE_SUPPORT_PROMPT": "1"}
        own = {"PYTHONPATH": os.pathsep.join(sys.path), "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=quiet | os.environ | own,
            pass_fds=inherits,
        )
        self.pid = self._process.pid
        self.kill = weakref.finalize(self, _end, self._process)  # at the latest when nobody holds it, or at the exit
        self._say(settings)

    def ask(self, method: str, argument: Any, times: int = 1) -> None:
        """Starts a method, with patience for something done so many times."""
        self._doing, self._patience = DOING[method], times * self._seconds
        self._say((method, argument))

    def _say(self, what: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended: no answer will come
            self._process.stdin.write(pickle.dumps(what))

    def answer(self) -> Any:
        """What was asked for; a UserError where it failed, hangs or has died."""
        if not self._ready:  # imports are no fault of the environment's
            self._ready = self._receive(START_SECONDS)
        return self._receive(self._patience)

    def _receive(self, seconds: float) -> Any:
        until = time.monotonic() + seconds
        (length,) = LENGTH.unpack(self._read(LENGTH.size, until, seconds))
        went_well, answer = pickle.loads(self._read(length, until, seconds))
        if not went_well:
            self._fail(answer)
        return answer

    def _read(self, count: int, until: float, seconds: float) -> bytearray:
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            self._fail("has ended")
        pipe = self._process.stdout.fileno()
        data = bytearray()
        while len(data) < count:
            part = _part(pipe, min(count - len(data), 2**20), max(0.0, until - time.monotonic()))
            if part is None:
                self._fail(f"did not answer within {seconds:g} s while {self._doing}{self._advice}")
            if not part:
                self._fail(f"died with exit code {self._process.wait()} while {self._doing}")
            data += part
        return data

    def _fail(self, why: str) -> NoReturn:
        from discern.types import UserError  # nothing of discern where this file is run

        raise UserError(f"{self._name} {why}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        self.kill()


def _part(pipe: int, count: int, seconds: float) -> bytes | None:
    """What comes through the pipe, up to `count` bytes, as soon as something does; None where nothing does in time."""
    if hasattr(select, "poll"):
        ready = select.poll()
        ready.register(pipe, select.POLLIN)
        return os.read(pipe, count) if ready.poll(1000 * seconds) else None
    came: list[bytes] = []  # Windows waits for no pipe: a thread does, and ends with the process it listens to
    listener = threading.Thread(target=lambda: came.append(os.read(pipe, count)), daemon=True)
    listener.start()
    listener.join(seconds)
    return came[0] if came else None


def _end(process: subprocess.Popen) -> None:
    process.kill()
    with contextlib.suppress(OSError, AttributeError):  # what it has started too, where it leads a group of processes
        os.killpg(process.pid, signal.SIGKILL)
    with process:  # waits for it, and closes its pipes
        pass


class Processes:
    """N environments shared out over processes of the given sizes; where one fails, all of them end."""

    def __init__(self, make: Callable[[], Process], sizes: Sequence[int]):
        self._make, self._sizes = make, sizes
        self.running: list[Process] = []

    def first(self, method: str) -> Any:
        """What the first process answers, before there are more."""
        self.running = [self._make()]
        self.running[0].ask(method, None)
        return self.answers()[0]

    def ask(self, method: str, argument: np.ndarray, one_by_one: bool = False) -> None:
        """Shares out [N, ...] over the processes, which are started by the first call."""
        self.running += [self._make() for _ in self._sizes[len(self.running) :]]
        for process, part in zip(self.running, np.split(argument, np.cumsum(self._sizes)[:-1]), strict=True):
            process.ask(method, part, len(part) if one_by_one else 1)

    def answers(self) -> list[Any]:
        try:
            return [process.answer() for process in self.running]
        except BaseException:
            for process in self.running:
                process.kill()
            raise

    def together(self) -> list[np.ndarray]:
        """The arrays that all answer, each joined to [N, ...]."""
        return [np.concatenate(parts) for parts in zip(*self.answers(), strict=True)]

    def close(self) -> None:
        for process in self.running:
            process.close()
        self.running = []


def shares(n: int, at_least: int, cores: int | None = None) -> list[int]:
    """N environments as a share for each core, by default of all, but none smaller than is worth a process."""
    from discern.machine import available_cores  # nothing of discern where this file is run

    return evenly(n, max(1, min(cores or available_cores(), n // at_least)))


def evenly(n: int, count: int) -> list[int]:
    """N as `count` whole numbers that differ by one at most."""
    return [(n + i) // count for i in range(count)]


def shared_memory(shape: tuple[int, ...]) -> tuple[np.ndarray, int]:
    """Memory uint8 of a shape, and the number of an open file that is the same memory in a process that inherits it."""
    size = int(np.prod(shape))
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("screens")
    else:
        with tempfile.TemporaryFile() as nameless:
            file = os.dup(nameless.fileno())
    os.ftruncate(file, size)
    return np.frombuffer(mmap.mmap(file, size), np.uint8).reshape(shape), file


def failure(error: BaseException) -> str:
    """What went wrong, in one line, and where; an error with `as_it_is` says it itself."""
    if getattr(error, "as_it_is", False):
        return str(error)
    text = " ".join(str(error).split())[:300]
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = "" if last.filename.startswith("<") else f" ({os.path.basename(last.filename)}, line {last.lineno})"
    return f"raised {type(error).__name__}{': ' * bool(text)}{text}{where}"


def serve(file: str, kind: str) -> None:
    """Does what it is told to, until its input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # an environment may read and print as it likes
    package = ModuleType("served")  # the file's folder alone: as a part of discern it would load JAX
    package.__path__ = [os.path.dirname(file)]
    sys.modules["served"] = package
    served: Any = None
    with contextlib.suppress(EOFError):
        while True:
            request = pickle.load(requests)
            try:
                if served is None:
                    served = getattr(importlib.import_module(f"served.{Path(file).stem}"), kind)(*request)
                    answer = True
                else:
                    method, argument = request
                    answer = getattr(served, method)(argument)
            except BaseException as error:
                _say(answers, (False, failure(error)))
            else:
                _say(answers, (True, answer))
    with contextlib.suppress(Exception):
        served.close()


def _say(answers: BinaryIO, answer: tuple[bool, Any]) -> None:
    body = pickle.dumps(answer, protocol=5)
    answers.write(LENGTH.pack(len(body)) + body)
    answers.flush()


if __name__ == "__main__":
    serve(*sys.argv[1:])
