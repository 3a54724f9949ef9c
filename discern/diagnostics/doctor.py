"""What this machine has, which worlds run on it, what is missing and how to get it, and how fast it is."""

import importlib.metadata
import importlib.util
import json
import platform
import shutil
from pathlib import Path
from typing import Any

import jax

from discern.config import replace
from discern.diagnostics.bench import bench
from discern.envs import is_host, make_env, opened
from discern.machine import EXTRAS, available_memory_bytes, installed, installs, memory_bytes
from discern.presets import preset
from discern.types import UserError

CORE = ("jax", "flax", "optax", "orbax", "numpy", "matplotlib", "tyro")
TRIED: dict[str, dict[str, Any]] = {  # a world of each suite, with what is to be set
    "arena": {},
    "watermaze": {},
    "doom/watermaze": {},
    "atari/seaquest": {},
    "control/reacher-hard": {},
    "control/reacher-hard --control.pixels opengl": {"control.pixels": "opengl"},
    "gym/CarRacing-v3": {},
    "lab/rooms_watermaze": {},
}
RESULTS = Path(__file__).parents[2] / "results"  # of a clone; a package has none
REFERENCE = "arena84_bench_h200.json"


def examine() -> dict[str, Any]:
    """Devices, worlds, versions and missing parts, each with its cure."""
    wanted = dict.fromkeys(CORE, "pip install discern")
    wanted |= {package: installs(extra) for extra, packages in EXTRAS.items() for package in packages}
    missing = {package: cure for package, cure in wanted.items() if not installed(package)}
    cuda_plugin = any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))
    if jax.default_backend() == "cpu" and shutil.which("nvidia-smi") and not cuda_plugin:
        missing["jax[cuda13]"] = f"{installs('cuda')} (an NVIDIA GPU is there, JAX does not use it)"
    homes = importlib.metadata.packages_distributions()
    versions = {name: importlib.metadata.version(homes[name][0]) for name in wanted if name not in missing}
    return {
        "python": platform.python_version(),
        "devices": [f"{device.platform}: {device.device_kind}" for device in jax.devices()],
        "gpu_is_used": jax.default_backend() == "gpu",
        "worlds": {name: state_of(name.partition(" ")[0], settings) for name, settings in TRIED.items()},
        "versions": versions,
        "missing": missing,
        "memory_gib": {"free": _gib(available_memory_bytes()), "all": _gib(memory_bytes())} | _of_device(),
        "free_disk_gib": _gib(shutil.disk_usage(Path.cwd()).free),
    }


def state_of(name: str, settings: dict[str, Any]) -> str:
    """`ok` where the world can be made and begins; else what it lacks, in a sentence."""
    try:
        with opened(make_env(name, 1, replace(preset(name), settings))) as env:
            if is_host(env):
                env.reset(0)
    except UserError as error:
        return str(error)
    except Exception as error:  # whatever a library does here is what the user asks about
        return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    return "ok"


def speed(seconds: float = 2.0) -> dict[str, Any]:
    """About ten seconds of the default world, its parts apart; on a GPU of arena/84, beside the reference."""
    if jax.default_backend() == "cpu":
        return bench(replace(preset("arena"), {"replay_capacity": 256}), seconds)
    settings = {"replay_capacity": 512, "actor.environments": 256, "learner.replay_ratio": 1.0}
    measured = bench(replace(preset("arena/84"), settings), seconds)
    return measured | {"reference": beside_reference(measured)}


def beside_reference(measured: dict[str, Any]) -> dict[str, Any] | None:
    """What the same benchmark gave on another machine, and how this one compares; None without a clone's results/."""
    try:
        runs = json.loads((RESULTS / REFERENCE).read_text())["runs"]
    except OSError:
        return None
    there = next(run for run in runs if run["environments"] == measured["environments"])
    rates = ("updates_per_second", "whole_steps_per_second")
    return {
        "device": there["machine"]["device"],
        **{rate: there[rate] for rate in rates},
        **{f"share_of_its_{rate}": round(measured[rate] / there[rate], 2) for rate in rates},
        "source": f"results/{REFERENCE}",
    }


def _of_device() -> dict[str, float | None]:
    """Memory of an accelerator, where it tells."""
    stats = jax.devices()[0].memory_stats() or {}
    return {"of the accelerator": _gib(stats["bytes_limit"])} if "bytes_limit" in stats else {}


def _gib(count: int | None) -> float | None:
    return None if count is None else round(count / 2**30, 1)
