"""What this machine has, what is missing and how to get it, and how fast it is."""

import importlib.metadata
import importlib.util
import platform
import shutil
from pathlib import Path
from typing import Any

import jax

from discern.config import replace
from discern.diagnostics.bench import bench
from discern.machine import EXTRAS, installed, installs
from discern.presets import preset

CORE = ("jax", "flax", "optax", "orbax", "numpy", "matplotlib", "tyro")


def examine() -> dict[str, Any]:
    """Devices, versions and missing parts, each with its cure."""
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
        "versions": versions,
        "missing": missing,
        "free_disk_gib": round(shutil.disk_usage(Path.cwd()).free / 2**30, 1),
    }


def speed(seconds: float = 2.0) -> dict[str, Any]:
    """About ten seconds of the default world: world, acting and learning."""
    return bench(replace(preset("arena"), {"replay_capacity": 256}), seconds)
