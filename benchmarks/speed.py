"""Every part's speed on the worlds that fit this machine, as one JSON; and what became slower since another.

    python -m benchmarks.speed --out speed.json --against results/speed_cpu.json

Machines differ and drift, so each rate is divided by that of a fixed reference computation, timed just before and after
it in the same process. Two JSONs are compared by these ratios; it fails if one fell by more than `--tolerance`.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from discern.compile_cache import keep_compiled
from discern.diagnostics.bench import bench
from discern.evaluation.report import machine
from discern.presets import preset

PARTS = ("world_steps", "acting_steps", "sampled_batches", "updates", "whole_steps")  # … per second
FITS = {"cpu": ("arena", "arena/two")}
ALL = ("arena/84", "watermaze", "control/reacher-hard", "control/cartpole-swingup", "atari/seaquest")


@dataclass(frozen=True)
class Speed:
    worlds: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """Worlds to time; by default those that fit the machine."""
    seconds: float = 2.0
    """How long each part is timed."""
    repeats: int = 3
    out: Path | None = None
    against: Path | None = None
    """The JSON of another commit."""
    tolerance: float = 0.3
    """How much slower a part may be than there."""


def reference_rate(seconds: float, clock: Callable[[], float] = time.perf_counter) -> float:
    """Calls a second of a computation that no change here touches, and of the kind that is timed: the gradient of a
    small recurrent network, so that machines which differ in one part of it differ as much in ours."""
    rng = np.random.default_rng(0)
    shapes = ((48, 32), (36 * 32, 128), (128, 128))
    weights = [jnp.asarray(rng.normal(0, shape[0] ** -0.5, shape), jnp.float32) for shape in shapes]
    patches = jnp.asarray(rng.normal(0, 1, (20, 32, 36, 48)), jnp.float32)

    @jax.jit
    @jax.grad
    def reference(weights: list[jax.Array]) -> jax.Array:
        first, second, recurrent = weights
        seen = jax.nn.relu(patches @ first).reshape(20, 32, -1) @ second
        _, states = jax.lax.scan(lambda h, x: (jnp.tanh(x + h @ recurrent),) * 2, jnp.zeros((32, 128)), seen)
        return jnp.square(states).mean()

    jax.block_until_ready(reference(weights))
    began, calls = clock(), 0
    while clock() - began < seconds:
        jax.block_until_ready(reference(weights))
        calls += 1
    return calls / (clock() - began)


def measure(world: str, seconds: float, repeats: int) -> dict[str, Any]:
    """Each part's rate, and its ratio to the reference: the median of the repeats, the least and the most."""
    rates: dict[str, list[float]] = {part: [] for part in PARTS}
    ratios: dict[str, list[float]] = {part: [] for part in PARTS}
    for _ in range(repeats):
        before = reference_rate(seconds / 2)
        found = bench(preset(world), seconds)
        reference = (before + reference_rate(seconds / 2)) / 2
        for part in PARTS:
            rate = float(found[f"{part}_per_second"])
            rates[part].append(rate)
            ratios[part].append(rate / reference)
    return {part: {"per_second": spread(rates[part]), "over_reference": spread(ratios[part])} for part in PARTS}


def spread(values: Iterable[float]) -> dict[str, float]:
    low, middle, high = np.quantile(list(values), (0.0, 0.5, 1.0))
    return {
        name: float(f"{value:.4g}")
        for name, value in zip(("least", "median", "most"), (low, middle, high), strict=True)
    }


def compare(ours: dict[str, Any], theirs: dict[str, Any], tolerance: float) -> tuple[list[str], list[str]]:
    """A line for every part that both have, and those of them that are slower than the tolerance allows."""
    lines, slower = [], []
    for world in ours["worlds"].keys() & theirs["worlds"].keys():
        for part in PARTS:
            now, then = (both["worlds"][world][part]["over_reference"] for both in (ours, theirs))
            ratio = now["median"] / then["median"]
            lines.append(f"{world:>26}  {part:>15}  {ratio:5.2f} times as fast")
            if now["most"] / then["median"] < 1 - tolerance:  # in not one of the repeats it was fast enough
                slower.append(lines[-1])
    return sorted(lines), sorted(slower)


def main() -> None:
    wanted = tyro.cli(Speed)
    keep_compiled()
    worlds = wanted.worlds or FITS.get(jax.default_backend(), ALL)
    about = {
        "what": "Each part's rate, and its ratio to a fixed reference computation timed in the same process.",
        "command": f"python -m benchmarks.speed {' '.join(sys.argv[1:])}".strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "seeds": [0],
        "worlds": {world: measure(world, wanted.seconds, wanted.repeats) for world in worlds},
    }
    if wanted.out is not None:
        wanted.out.write_text(json.dumps(about, indent=1) + "\n")
    for world, parts in about["worlds"].items():
        for part, found in parts.items():
            least, median, most = (f"{found['per_second'][name]:,.0f}" for name in ("least", "median", "most"))
            print(f"{world:>26}  {part:>15}  {median:>12} ({least} to {most}) a second")
    if wanted.against is not None:
        lines, slower = compare(about, json.loads(wanted.against.read_text()), wanted.tolerance)
        print("\n".join(lines))
        if slower:
            sys.exit(f"slower than {wanted.against} by more than {wanted.tolerance:.0%}:\n" + "\n".join(slower))


if __name__ == "__main__":
    main()
