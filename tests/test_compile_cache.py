import os
import subprocess
import sys
from pathlib import Path

import pytest

from discern.compile_cache import keep_compiled, user_cache

VARIABLES = (
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_COMPILATION_CACHE_MAX_SIZE",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
)


@pytest.fixture
def variables(monkeypatch):
    for name in (*VARIABLES, "DISCERN_CACHE"):
        monkeypatch.setenv(name, "")  # so that what a test sets is undone
        monkeypatch.delenv(name)
    return monkeypatch


def test_it_lies_in_the_users_cache_folder(variables, tmp_path):
    variables.setenv("XDG_CACHE_HOME", str(tmp_path))
    variables.setattr(sys, "platform", "linux")
    keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "discern" / "compiled")
    assert (tmp_path / "discern" / "compiled").is_dir()
    assert int(os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"]) == 2 * 2**30


def test_it_can_be_moved_and_turned_off(variables, tmp_path):
    variables.setenv("DISCERN_CACHE", "off")
    keep_compiled()
    assert not set(VARIABLES) & set(os.environ)
    variables.setenv("DISCERN_CACHE", str(tmp_path / "here"))
    keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "here")


def test_a_folder_that_cannot_be_made_costs_nothing(variables, tmp_path):
    (tmp_path / "file").write_text("")
    variables.setenv("DISCERN_CACHE", str(tmp_path / "file" / "inside"))
    keep_compiled()
    assert not set(VARIABLES) & set(os.environ)


def test_what_the_user_has_set_stays(variables, tmp_path):
    variables.setenv("JAX_COMPILATION_CACHE_DIR", "mine")
    variables.setenv("DISCERN_CACHE", str(tmp_path))
    keep_compiled()
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "mine"
    assert "JAX_COMPILATION_CACHE_MAX_SIZE" not in os.environ


@pytest.mark.parametrize(
    ("system", "folder"), [("win32", Path("AppData", "Local")), ("darwin", Path("Library", "Caches"))]
)
def test_other_systems_have_other_places(variables, system, folder):
    variables.delenv("LOCALAPPDATA", raising=False)
    variables.setattr(sys, "platform", system)
    assert user_cache() == Path.home() / folder


def test_programs_are_kept_between_processes(tmp_path):
    """The second process finds what the first compiled: JAX counts a hit, and no new file appears."""
    program = (
        "from discern.compile_cache import keep_compiled; keep_compiled()\n"
        "import jax, jax.numpy as jnp\n"
        "jax.jit(lambda x: jnp.linalg.svd(x @ x.T)[1].sum())(jnp.ones((20, 30)))\n"
    )
    environment = os.environ | {"DISCERN_CACHE": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)

    def kept() -> set[str]:
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        return {path.name for path in tmp_path.rglob("*-cache")}

    first = kept()
    assert first
    assert kept() == first
