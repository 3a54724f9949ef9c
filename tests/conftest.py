"""Settings and sizes shared by the tests."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ  # workers inherit the environment of the process that started them
if not IS_WORKER:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="discern-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"  # tests compile for longer than they compute
    if version("jax").startswith("0.10."):  # later ones do not know the flags, with which it takes a third of the time
        flags = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):  # then every process compiles JAX's source anew, for seconds
        os.environ["PYTHONPYCACHEPREFIX"] = os.path.join(os.environ["JAX_COMPILATION_CACHE_DIR"], "python")
COMPILED = os.environ["JAX_COMPILATION_CACHE_DIR"]  # tests and the processes they start compile the same programs

from jaxtyping import install_import_hook  # noqa: E402

from tests import shapes  # noqa: E402

install_import_hook("discern.agent", f"{shapes.__name__}.checked")  # before anything of it is imported

import discern  # noqa: E402
from discern.config import Config, replace  # noqa: E402
from discern.presets import preset  # noqa: E402

TINY = {
    "minutes": None,
    "steps": 1200,
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


LONGEST = (  # half a minute each, and more beside others
    "test_killed_at_ten_random_moments_it_always_comes_back",
    "test_through_ray_two_actors_are_nearly_as_fast_as_in_one_process",
    "test_it_learns_on_three_nodes",
    "test_killed_actors_and_a_dead_node_are_replaced_and_counted",
    "test_on_one_machine_and_on_a_cluster_a_run_is_the_same",
    "test_goal_sets_are_made_again_the_same",
    "test_montezumas_goals_know_their_fewest_steps",  # by the same search
    "test_a_short_run_really_learns",
    "test_a_run_is_scored_on_both_goal_sets_and_resumes",
    "test_its_code_runs_in_order",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no process is still at one when the others are done."""
    items.sort(key=lambda item: item.name.partition("[")[0] not in LONGEST)


def pytest_unconfigure() -> None:
    if not IS_WORKER:
        shutil.rmtree(COMPILED, ignore_errors=True)


LITTLE_PLAY: dict[str, Any] = {"UPDATES": 2, "BYTES": 2**18, "GROUPS": {"gym": 1, "atari": 1, "control": 1}}
PLAYS_LITTLE = f"from discern.evaluation import told_apart; vars(told_apart).update({LITTLE_PLAY})\n"  # for processes


@pytest.fixture(scope="session", autouse=True)
def _little_play() -> Iterator[None]:
    """Embeddings that tell goals apart learn next to nothing, so that runs take no longer for them."""
    from discern.evaluation import told_apart

    with pytest.MonkeyPatch.context() as patched:
        for name, value in LITTLE_PLAY.items():
            patched.setattr(told_apart, name, value)
        yield


@pytest.fixture
def optimised() -> Iterator[None]:
    """Programs compiled as users have them, for tests that compute for longer than they compile."""
    import jax  # only workers, and not before they read the environment above

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def to_the_bit(optimised) -> Iterator[None]:
    """The same for every program, where sums that round otherwise would show: JAX reuses what it compiled before."""
    import jax

    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory) -> Path:
    """A run of that arena, to be looked at and not changed."""
    config = replace(preset("arena"), {**TINY, "steps": 400})
    return discern.train(config, tmp_path_factory.mktemp("tiny") / "run", Console(quiet=True))


@pytest.fixture
def tiny() -> Config:
    """The arena with everything as small as it goes."""
    return replace(preset("arena"), TINY)


@pytest.fixture
def failing_learner(monkeypatch):
    """Learners whose device fails after so many updates."""
    import jax

    from discern.training import loop

    @contextmanager
    def failing(after: int):
        def make_update(*arguments, make=loop.make_update):
            update = make(*arguments)

            def fail_later(state, batch, rate):
                if int(state.updates) >= after:
                    raise jax.errors.JaxRuntimeError("INTERNAL: the device fell off the bus\nat 0x0")
                return update(state, batch, rate)

            fail_later.lower = update.lower  # it is compiled ahead
            return fail_later

        with monkeypatch.context() as patched:
            patched.setattr(loop, "make_update", make_update)
            yield

    return failing
