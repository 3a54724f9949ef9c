"""Compiled programs kept between runs by JAX's persistent compilation cache, so that a second run starts at once."""

import os
import sys
from pathlib import Path

LARGEST = 2 * 2**30  # bytes; the programs used longest ago go first
WORTH_KEEPING = 0.3  # seconds that compiling took


def keep_compiled() -> None:
    """Turns the cache on, in the user's cache folder or in DISCERN_CACHE; DISCERN_CACHE=off turns it off.

    By environment variables, which must be set before JAX is imported, and which processes that are started inherit;
    where the user has set them, nothing is changed.
    """
    chosen = os.environ.get("DISCERN_CACHE")
    if chosen == "off" or "JAX_COMPILATION_CACHE_DIR" in os.environ:  # a folder of the user's own may hold more
        return
    folder = Path(chosen) if chosen else user_cache() / "discern" / "compiled"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # no home, or a full disk: compiling takes a while, and nothing else is lost
        return
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(LARGEST))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(WORTH_KEEPING))


def user_cache() -> Path:
    """Where this system's programs keep what can be made again."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
