"""Calls that only Linux knows are done without where they are missing, as on macOS and Windows."""

import os
import platform
import re
import select
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from discern.agent import replay
from discern.agent.replay import refuse_if_too_large
from discern.envs import make_env
from discern.envs.processes import Process, Processes, shared_memory, shares
from discern.evaluation.report import machine
from discern.machine import available_cores, available_memory_bytes, memory_bytes
from discern.types import UserError

STAND_IN = str(Path(__file__).parent / "stand_in")
SOURCE = Path(__file__).parent.parent / "discern"
ONLY_LINUX = {
    "sched_getaffinity": {"machine.py"},
    "memfd_create": {"envs/processes.py"},
    "select.poll": {"envs/processes.py"},
    "sysconf": {"machine.py"},
    "/proc": {"evaluation/report.py", "machine.py"},
    "os.nice": {"envs/atari/games.py", "envs/doom/games.py"},  # which Windows never comes to
    "os.fork": set(),  # processes are fresh ones, which every system has
    "multiprocessing": set(),
}


@pytest.fixture
def elsewhere(monkeypatch):
    """A machine whose system is not Linux."""
    for module, name in ((os, "sched_getaffinity"), (os, "sysconf"), (os, "memfd_create"), (select, "poll")):
        monkeypatch.delattr(module, name, raising=False)


@pytest.mark.parametrize("call", ONLY_LINUX)
def test_each_such_call_is_in_one_place(call):
    found = {str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if call in file.read_text()}
    assert ONLY_LINUX[call] == found


def test_cores_are_counted(elsewhere, monkeypatch):
    assert available_cores() == os.cpu_count()
    assert sum(shares(100, 4)) == 100 and len(shares(100, 4)) == min(25, available_cores())
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available_cores() == 1


def test_a_replay_is_refused_where_memory_is_known(elsewhere, monkeypatch):
    monkeypatch.setattr(replay, "available_memory_bytes", lambda: None)
    assert memory_bytes() is None
    refuse_if_too_large(10**9, 2, 50, (84, 84, 3))
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**18}.__getitem__, raising=False)
    assert memory_bytes() == 2**30
    with pytest.raises(UserError, match=r"GiB and cpu has 1\.0: set --replay-capacity to"):
        refuse_if_too_large(10**9, 2, 50, (84, 84, 3))
    monkeypatch.setattr(replay, "available_memory_bytes", lambda: 2**29)
    with pytest.raises(UserError, match=r"takes 0\.6 GiB and cpu has 0\.5 free: set --replay-capacity to \d+ or less"):
        refuse_if_too_large(550, 2, 50, (84, 84, 3))

    def unknown(name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    assert memory_bytes() is None


def test_a_measurement_names_its_machine(elsewhere, monkeypatch):
    read = Path.read_text

    def read_text(path: Path, *how, **more) -> str:
        if path.parts[1] == "proc":
            raise FileNotFoundError(path)
        return read(path, *how, **more)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert machine()["cpu"] == platform.processor()
    assert machine()["cores"] == os.cpu_count()
    assert available_memory_bytes() is None


def test_memory_is_shared(elsewhere):
    memory, file = shared_memory((2, 3))
    memory[1, 2] = 7
    assert os.pread(file, 6, 0) == bytes([0, 0, 0, 0, 0, 7])
    os.close(file)


def test_environments_step_in_processes(elsewhere, monkeypatch):
    monkeypatch.syspath_prepend(STAND_IN)
    env = make_env("tiny_worlds:Dot", 3)
    env.reset(0)
    env.send(np.zeros(3, np.int32))
    assert env.recv().raw.image.shape == (3, 84, 84, 3)
    env.close()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [("Dying", "died with exit code 7 while stepping"), ("Hanging", "did not answer within 1.5 s while stepping")],
)
def test_what_fails_in_a_process_is_told(elsewhere, monkeypatch, kind, sentence):
    monkeypatch.syspath_prepend(STAND_IN)
    name = f"tiny_worlds:{kind}"
    settings = {"make_args": {}, "render": False, "frame_skip": 1, "size": 16, "score": [], "only": []}
    start = partial(Process, name, "gym/worlds.py", "Worlds", (name, settings), 1.5)
    worlds = Processes(start, [1])
    worlds.first("prove")
    worlds.ask("make", np.arange(1))
    worlds.answers()

    def play() -> None:
        for _ in range(9):
            worlds.ask("step", np.array([[0, -1]]))
            worlds.answers()

    with pytest.raises(UserError, match=re.escape(f"{name} {sentence}")):
        play()
    worlds.close()


def test_windows_hands_no_files_to_processes(monkeypatch):
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(UserError, match="atari/seaquest needs Linux or macOS"):
        Process("atari/seaquest", "atari_emulators.py", "Emulators", (), inherits=(3,))


def test_the_control_suite_is_simulated(elsewhere):
    env = make_env("control/pendulum-swingup", 2)
    env.reset(0)
    env.send(np.zeros(2, np.int32))
    assert env.recv().is_last.shape == (2,)
    env.close()
