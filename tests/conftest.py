"""Settings and sizes shared by the tests."""

import os
import shutil
import tempfile

import pytest

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ  # workers inherit the environment of the process that started them
if not IS_WORKER:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="discern-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
COMPILED = os.environ["JAX_COMPILATION_CACHE_DIR"]  # tests and the processes they start compile the same programs

from discern.config import Config, replace  # noqa: E402
from discern.presets import preset  # noqa: E402

TINY = {
    "minutes": None,
    "steps": 2000,
    "actor.environments": 4,
    "actor.horizon": 5,
    "learner.batch": 4,
    "learner.replay_ratio": 1.0,
    "replay_capacity": 16,
    "goal_buffer.capacity": 16,
    "reward.decoy_pool": None,
    "network.channels": (4,),
    "network.features": 8,
    "network.lstm": 8,
    "network.time_units": 4,
    "evaluation_goals": 4,
    "evaluate_every": None,
}


def pytest_unconfigure() -> None:
    if not IS_WORKER:
        shutil.rmtree(COMPILED, ignore_errors=True)


@pytest.fixture
def tiny() -> Config:
    """The arena with everything as small as it goes."""
    return replace(preset("arena"), TINY)
