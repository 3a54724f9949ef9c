"""What a benchmark's JSON says of itself: what was measured, how, at which commit, when."""

import shlex
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any


def about(what: str, module: str, commit: str | None, seeds: list[int]) -> dict[str, Any]:
    """Its first entries; the machine is known to whoever measured there. The commit is git's if none is given."""
    return {
        "what": what,
        "command": shlex.join(["python", "-m", f"benchmarks.{module}", *sys.argv[1:]]),
        "commit": commit or git_commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "seeds": seeds,
    }


def git_commit() -> str:
    try:
        return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:  # a copy of the tree, on a machine without git
        return ""
