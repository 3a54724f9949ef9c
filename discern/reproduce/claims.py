"""Who is making which run, where several machines share a folder: each takes what nobody has begun."""

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FRESH = 120.0  # seconds after which a claim that nobody renewed is that of a process that died
RENEW = 20.0


@contextmanager
def claimed(claim: Path) -> Iterator[bool]:
    """Whether the claim is ours: a file, renewed while the body runs, that no living process held before.

    A hard link is made or refused in one step by network file systems too, and all times are the file system's own.
    """
    claim.parent.mkdir(parents=True, exist_ok=True)
    own = claim.with_name(f"{claim.name}.{secrets.token_hex(8)}")
    own.touch()
    try:
        if not _take(own, claim):
            yield False
            return
        done = threading.Event()
        renewing = threading.Thread(target=_renew, args=(claim, done), daemon=True)
        renewing.start()
        try:
            yield True
        finally:
            done.set()
            renewing.join()
            claim.unlink(missing_ok=True)
    finally:
        own.unlink(missing_ok=True)


def _take(own: Path, claim: Path) -> bool:
    for _ in range(2):
        with suppress(FileExistsError):
            os.link(own, claim)
            return True
        with suppress(FileNotFoundError):  # its holder has just let go of it
            if own.stat().st_mtime - claim.stat().st_mtime < FRESH:
                return False
            _bury(claim, own)
    return False


def _bury(claim: Path, own: Path) -> None:
    """Takes a dead claim out of the way; of several who try, whoever finds a fresh one instead puts it back."""
    grave = own.with_name(own.name + ".dead")
    claim.rename(grave)
    own.touch()
    if own.stat().st_mtime - grave.stat().st_mtime < FRESH:
        with suppress(FileExistsError):
            os.link(grave, claim)
    grave.unlink()


def _renew(claim: Path, done: threading.Event) -> None:
    while not done.wait(RENEW):
        with suppress(FileNotFoundError):
            os.utime(claim)
