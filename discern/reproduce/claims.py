"""Who is making which run, where several machines share a folder: each takes what nobody has begun."""

import os
import secrets
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

FRESH = 120.0  # seconds after which a claim that nobody renewed is that of a process that died
RENEW = 20.0


@contextmanager
def claimed(claim: Path) -> Iterator[bool]:
    """Whether the claim is ours: a file, renewed while the body runs, that no living process held before.

    A hard link is made or refused in one step by network file systems too, and all times are the file system's own.
    The file names a lock on the holder's own machine, where the system lets go of it when the holder dies.
    """
    claim.parent.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(8)
    own, alive = claim.with_name(f"{claim.name}.{token}"), FileLock(_lock(token))
    own.write_text(token)
    alive.acquire()
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
        alive.release()
        _lock(token).unlink(missing_ok=True)


def _take(own: Path, claim: Path) -> bool:
    for _ in range(2):
        with suppress(FileExistsError):
            os.link(own, claim)
            return True
        with suppress(FileNotFoundError):  # its holder has just let go of it
            if not _is_dead(claim, own):
                return False
            _bury(claim, own)
    return False


def _is_dead(claim: Path, own: Path) -> bool:
    """Whether its holder died: on this machine its lock says so at once, on another one its silence."""
    return own.stat().st_mtime - claim.stat().st_mtime >= FRESH or _is_free(_lock(claim.read_text()))


def _lock(token: str) -> Path:
    return Path(tempfile.gettempdir(), f"discern-{token}")


def _is_free(lock: Path) -> bool:
    """Whether nobody holds a lock of this machine; of one that is not here nothing is known."""
    if not lock.is_file():
        return False
    with suppress(Timeout), FileLock(lock, timeout=0):
        return True
    return False


def _bury(claim: Path, own: Path) -> None:
    """Takes a dead claim out of the way; of several who try, whoever finds a living one instead puts it back."""
    grave = own.with_name(own.name + ".dead")
    claim.rename(grave)
    own.touch()
    if _is_dead(grave, own):
        _lock(grave.read_text()).unlink(missing_ok=True)
    else:
        with suppress(FileExistsError):
            os.link(grave, claim)
    grave.unlink()


def _renew(claim: Path, done: threading.Event) -> None:
    while not done.wait(RENEW):
        with suppress(FileNotFoundError):
            os.utime(claim)
