"""How a command line is refused: exit code 2, one sentence on standard error, and nothing written."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from discern.cli import main

Refused = Callable[[str], str]


def files(folder: Path) -> dict[str, bytes]:
    """Everything below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


@pytest.fixture
def refused(monkeypatch, capfd, tmp_path) -> Refused:
    """Runs a command line in an empty folder, or what the test has made of it, and returns the one sentence."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> str:
        before = files(tmp_path)
        monkeypatch.setattr(sys, "argv", ["discern", *shlex.split(line)])
        with pytest.raises(SystemExit) as leave:
            main()
        said = capfd.readouterr().err
        assert leave.value.code == 2, said
        assert said.startswith("discern: ") and said.count("\n") == 1, said
        assert files(tmp_path) == before
        return said

    return run
