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
from discern.presets import preset

PARTS = dict.fromkeys(("flax", "optax", "orbax-checkpoint", "numpy", "matplotlib", "tyro"), "uv sync") | {
    "tensorboard": "uv sync --extra tensorboard",
    "ray": "uv sync --extra cluster",
    "pygame-ce": "uv sync --extra gym",
    "gradio": "uv sync --extra studio",
}


def examine() -> dict[str, Any]:
    """Devices, versions and missing parts, each with its cure."""
    found, missing = {}, {}
    for name, cure in PARTS.items():
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing[name] = cure
    cuda_plugin = any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))
    if jax.default_backend() == "cpu" and shutil.which("nvidia-smi") and not cuda_plugin:
        missing["jax[cuda13]"] = "uv sync --extra cuda (an NVIDIA GPU is there, JAX does not use it)"
    return {
        "python": platform.python_version(),
        "devices": [f"{device.platform}: {device.device_kind}" for device in jax.devices()],
        "versions": {"jax": jax.__version__, **found},
        "missing": missing,
        "free_disk_gib": round(shutil.disk_usage(Path.cwd()).free / 2**30, 1),
    }


def speed(seconds: float = 2.0) -> dict[str, Any]:
    """About ten seconds of the default world: world, acting and learning."""
    return bench(replace(preset("arena"), {"replay_capacity": 256}), seconds)
