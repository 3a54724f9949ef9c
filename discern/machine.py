"""What this machine has, asked in the ways that every system knows."""

import os


def available_cores() -> int:
    """Cores that this process may use, where the system tells them apart from all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
