"""What this machine has, asked in the ways that every system knows."""

import importlib.util
import os
from pathlib import Path

from discern.types import UserError

EXTRAS = {  # what the extras of pyproject.toml install, by the names they are imported by
    "atari": ("ale_py", "cv2"),
    "control": ("mujoco", "dm_control"),
    "doom": ("vizdoom",),
    "minigrid": ("minigrid", "gymnasium", "cv2"),
    "highway": ("highway_env", "gymnasium", "cv2"),
    "gym": ("gymnasium", "cv2"),
    "cluster": ("ray",),
    "studio": ("gradio",),
    "video": ("av",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
}


def require(extra: str, what: str) -> None:
    """A UserError where something that `what` cannot do without is not installed; nothing is imported."""
    for package in EXTRAS[extra]:
        if not installed(package):
            raise UserError(f"{what} needs {package}: {installs(extra)}")


def installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # by an import hook's answer
        return False


def installs(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'discern[{extra}]'"


def available_cores() -> int:
    """Cores that this process may use, where the system tells them apart from all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Main memory; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def available_memory_bytes() -> int | None:
    """Main memory that is free, or would be if it were asked for; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
