"""Finding or starting a Ray cluster; each way to fail is one sentence."""

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from discern.machine import require
from discern.types import UserError

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # or `uv run` would send this folder to every actor and start it through uv
    "RAY_worker_niceness": "0",  # acting is most of the work: Ray's own 15 leaves it the time that others leave over
}
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}


@contextmanager
def connect(cluster: str, actors: int | None) -> Iterator[int]:
    """A connection to the cluster, and the number of actors: as many as asked for, or one for each core but one."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    require("cluster", "--cluster")
    import ray

    try:
        if cluster == "local":
            _start(actors)
        else:
            _join(cluster)
        cores = int(ray.cluster_resources().get("CPU", 0))
        actors = actors or max(1, cores - 1)
        if cores < actors:
            raise UserError(f"the cluster has {cores} cores, and {actors} actors need one each: lower --actors")
        yield actors
    finally:
        ray.shutdown()


def _start(actors: int | None) -> None:
    """A cluster of this machine alone, behind a token of its own that no file keeps."""
    import ray

    if not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & set(os.environ):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray.init("local", num_cpus=max(actors or 0, os.cpu_count() or 1), include_dashboard=False, **QUIET)


def _join(address: str) -> None:
    import ray

    if address != "auto" and not _answers(address):
        raise UserError(f"no Ray cluster answers at {address}: give HOST:PORT of its head, auto, or local")
    try:
        ray.init(address, **QUIET)
    except ConnectionError:
        raise UserError(f"no Ray cluster found at {address}: start one with `ray start --head`") from None
    except ray.exceptions.AuthenticationError:
        raise UserError(f"the Ray cluster at {address} wants its token: set RAY_AUTH_TOKEN") from None
    except RuntimeError as error:
        if "ersion mismatch" not in str(error):
            raise
        theirs = [line.split(":")[1].strip() for line in str(error).splitlines() if line.strip().startswith("Ray:")]
        raise UserError(
            f"the cluster runs Ray {theirs[0]} and this process Ray {ray.__version__}, or another Python: "
            "install the same on both"
        ) from None


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=5):
            return True
    except (OSError, ValueError, OverflowError):
        return False
