"""How the cost of training grows with each of its sizes, on an arena inside jit, as one JSON of curves.

    python -m benchmarks.growth --out results/growth_cpu.json
    python -m benchmarks.growth --axis environments --values 64 1024 16384 --out growth.json

Each point is a process of its own, so that its peak of memory is its own, and one that runs out of memory is recorded
as that and harms no other. A file that is there already keeps the axes that are not measured now. On a CPU a second is
one of a core, whatever else runs there: pin the whole to one core (taskset -c 0).
"""

import ctypes
import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from benchmarks.about import about
from benchmarks.speed import reference_rate, spread
from discern.compile_cache import keep_compiled
from discern.config import Config, from_json, replace, to_json
from discern.presets import preset
from discern.types import UserError

BASES: dict[str, Config] = {  # the presets, but that the replay of the large one holds as many as the most environments
    "arena": preset("arena"),
    "arena/84": replace(preset("arena/84"), {"replay_capacity": 16_384}),
}
SIDE = "side"  # of the image, which belongs to the world and is no setting
MEMORY = ("RESOURCE_EXHAUSTED", "out of memory", "MemoryError")
KILLED = (-9, 137)  # by the system, when memory is gone
RATES = ("acting", "updates", "whole")


@dataclass(frozen=True)
class Axis:
    setting: str
    """What is changed, as a label."""
    changes: Callable[[int, Config], dict[str, Any]]
    """Of a base, to come to a value."""
    values: dict[str, tuple[int, ...]]
    """To measure, for each base."""


def room_for(decoys: int) -> dict[str, Any]:
    return {"goal_buffer.capacity": max(1024, 2 * decoys)}


def axis(setting: str, small: tuple[int, ...], large: tuple[int, ...]) -> Axis:
    return Axis(setting, lambda value, _: {setting: value}, {"arena": small, "arena/84": large})


AXES: dict[str, Axis] = {
    "environments": axis("actor.environments", (16, 64, 256), (64, 256, 1024, 4096, 16_384)),
    "replay": axis("replay_capacity", (1024, 4096, 16_384), (1024, 16_384, 65_536, 131_072)),
    "side": axis(SIDE, (24, 48, 84), (24, 48, 84, 126, 168)),
    "horizon": axis("actor.horizon", (10, 20, 40, 80), (10, 30, 60, 100, 200)),
    "goals": Axis(
        "relabel.goals",
        lambda count, base: {"relabel.goals": tuple(islice(cycle(base.relabel.goals), count))},
        {"arena": (1, 2, 3, 4, 8), "arena/84": (1, 2, 4, 8)},
    ),
    "decoys": Axis(
        "reward.decoys",
        lambda count, _: {"reward.decoys": count} | room_for(count),
        {"arena": (4, 16, 64, 256), "arena/84": (4, 64, 512, 4096)},
    ),
    "pool": Axis(
        "reward.decoy_pool",
        lambda count, _: {"reward.decoy_pool": count} | room_for(count),
        {"arena": (4, 16, 64, 256), "arena/84": (4, 64, 512, 4096)},
    ),
    "batch": axis("learner.batch", (16, 32, 64, 128), (16, 64, 256, 1024)),
    "lstm": axis("network.lstm", (64, 128, 256), (64, 128, 256, 512, 1024)),
}


@dataclass(frozen=True)
class Growth:
    out: Path = Path("growth.json")
    base: str | None = None
    """arena or arena/84; by default what fits the machine."""
    axis: tuple[str, ...] = ()
    """Which of environments, replay, side, horizon, goals, decoys, pool, batch and lstm; by default all."""
    values: tuple[int, ...] = ()
    """For one axis, others than the usual ones."""
    tiny: bool = False
    """Two small values of each axis, to try it out."""
    seconds: float = 0.5
    """How long each part is timed, each time."""
    repeats: int = 3
    limit: float = 300.0
    """Seconds after which a point is given up."""
    commit: str | None = None
    note: str | None = None
    """What else to know, such as who else was using the machine."""


def points(name: str, base: str, values: tuple[int, ...], tiny: bool) -> list[tuple[int, Config, int]]:
    """Value, config and side of image of each point of an axis."""
    chosen, side = AXES[name], side_of(base)
    values = values or (chosen.values[base][:2] if tiny else chosen.values[base])
    found = []
    for value in values:
        changes = chosen.changes(value, BASES[base])
        own_side = changes.pop(SIDE, side)
        found.append((value, replace(BASES[base], changes), own_side))
    return found


def side_of(base: str) -> int:
    return {"arena": 24, "arena/84": 84}[base]


def preset_value(name: str, base: str) -> int | None:
    """Where on an axis the preset is; it has no pool of decoys."""
    config: Any = BASES[base]
    if name in (SIDE, "goals"):
        return side_of(base) if name == SIDE else len(config.relabel.goals)
    for part in AXES[name].setting.split("."):
        config = getattr(config, part)
    return config


def measure(config: Config, side: int, seconds: float, repeats: int) -> dict[str, Any]:
    """In a process of its own: every repeat's rates, and the most memory that was taken."""
    import jax

    from discern.diagnostics.bench import Parts
    from discern.envs import WORLDS
    from discern.envs.arena import Arena
    from discern.evaluation.report import machine

    world = WORLDS[config.env]()
    assert isinstance(world, Arena)
    WORLDS[config.env] = lambda: dataclasses.replace(world, size=side)
    began = time.perf_counter()
    parts = Parts(config)
    starting = time.perf_counter() - began
    forgot = forget_peak()
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    rates: dict[str, list[float]] = {name: [] for name in (*RATES, "reference")}
    for repeat in range(repeats):
        rates["reference"].append(reference_rate(seconds / 2, clock))
        for name in RATES:
            rates[name].append(getattr(parts, name)(seconds, wait_every=1, warm_up=int(repeat == 0), clock=clock))
    parts.close()
    return {
        "rates": rates,
        "start_seconds": starting,
        "host_peak_mib": host_peak_mib(),
        "compiling_in_peak": not forgot,
        "card_peak_mib": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**20 or None,
        "machine": machine(),
    }


def forget_peak() -> bool:
    """What compiling took is given back and no longer counts, where the system can do that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        return True
    return False


def host_peak_mib() -> float:
    """The most memory that this process has had, since it forgot."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # which Linux counts in KiB


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """A point as the JSON has it."""
    rates = {name: np.array(values) for name, values in found["rates"].items()}
    return {
        "acting_steps_per_second": spread(rates["acting"]),
        "whole_steps_per_second": spread(rates["whole"]),
        "update_ms": spread(1000 / rates["updates"]),
        "updates_over_reference": spread(rates["updates"] / rates["reference"]),
        "whole_over_reference": spread(rates["whole"] / rates["reference"]),
        "start_seconds": round(found["start_seconds"], 1),
        "host_peak_mib": round(found["host_peak_mib"]),
        "compiling_in_host_peak": found["compiling_in_peak"],
        "card_peak_mib": found["card_peak_mib"] and round(found["card_peak_mib"]),
    }


def why(code: int | None, errors: str, limit: float) -> str:
    """Why a point has no figures."""
    if code is None:
        return f"not done after {limit:.0f} s"
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    last = lines[-1] if lines else f"ended with {code}"
    if code in KILLED or any(word in errors for word in MEMORY):
        return f"out of memory: {last[:200]}"
    return last[:200]


def measured_apart(config: Config, side: int, wanted: Growth) -> dict[str, Any]:
    """The point, measured by a child; or why that failed."""
    asked = {"config": to_json(config), "side": side, "seconds": wanted.seconds, "repeats": wanted.repeats}
    command = [sys.executable, "-c", "from benchmarks.growth import answer; answer()"]
    environment = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95"} | os.environ  # it has the card to itself
    try:
        child = subprocess.run(
            command, input=json.dumps(asked), env=environment, capture_output=True, text=True, timeout=wanted.limit
        )
    except subprocess.TimeoutExpired:
        return {"failed": why(None, "", wanted.limit)}
    if child.returncode:
        return {"failed": why(child.returncode, child.stderr, wanted.limit)}
    return json.loads(child.stdout.splitlines()[-1])


def answer() -> None:
    """What a child does with what it reads."""
    asked = json.load(sys.stdin)
    try:
        found = measure(from_json(asked["config"]), asked["side"], asked["seconds"], asked["repeats"])
    except UserError as error:
        sys.exit(str(error))
    print(json.dumps(found))


def report(wanted: Growth, base: str, names: tuple[str, ...]) -> dict[str, Any]:
    """What is known before anything is measured: of a file that is there, the axes that are not measured now."""
    what = (
        f"Steps a second of acting and of the whole loop, ms an update, and peaks of memory, of {base} with the "
        "preset's settings but for one, which an axis changes; each point in a process of its own. On a CPU a second "
        "is one of a core."
    )
    before = json.loads(wanted.out.read_text()) if wanted.out.exists() else {}
    kept = {name: axis for name, axis in before.get("axes", {}).items() if name not in names}
    made = about(what, "growth", wanted.commit, [BASES[base].seed])
    if kept:
        if before["base"] != base:
            sys.exit(f"{wanted.out} is of {before['base']}, not of {base}: choose another --out")
        made["command"] = f"{before['command']}; {made['command']}"
    made |= {"note": wanted.note} if wanted.note else {}
    return made | {"machine": before.get("machine"), "base": base, "repeats": wanted.repeats, "axes": kept}


def main() -> None:
    wanted = tyro.cli(Growth)
    keep_compiled()
    base = wanted.base or ("arena/84" if has_accelerator() else "arena")
    names = wanted.axis or tuple(AXES)
    if wanted.values and len(names) != 1:
        sys.exit("--values are those of one --axis")
    made, known = report(wanted, base, names), {}
    for name in names:
        row = made["axes"][name] = {"setting": AXES[name].setting, "preset": preset_value(name, base), "points": []}
        for value, config, side in points(name, base, wanted.values, wanted.tiny):
            key = (config, side)
            if key not in known:  # where axes cross
                found = measured_apart(config, side, wanted)
                made["machine"] = found.get("machine", made["machine"])
                known[key] = found if "failed" in found else summary(found)
            row["points"].append({"value": value, **known[key]})
            wanted.out.write_text(json.dumps(made, indent=1) + "\n")
            print(as_line(name, row["points"][-1]), flush=True)


def as_line(name: str, point: dict[str, Any]) -> str:
    begin = f"{name:>12} {point['value']:>7}"
    if "failed" in point:
        return f"{begin}  {point['failed']}"
    memory = point["card_peak_mib"] or point["host_peak_mib"]
    update, whole = point["update_ms"]["median"], point["whole_steps_per_second"]["median"]
    return f"{begin}  {update:9.2f} ms an update  {whole:10,.0f} steps/s  {memory:7,} MiB"


def has_accelerator() -> bool:
    """Asked of a child, since whoever asks takes the card's memory."""
    code = "import jax; print(jax.default_backend())"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return asked.stdout.strip() not in ("cpu", "")


if __name__ == "__main__":
    main()
