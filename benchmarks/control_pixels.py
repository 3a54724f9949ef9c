"""How fast the Control Suite's pictures are made, and how near they come to dm_control's OpenGL.

    uv run python -m benchmarks.control_pixels --json results/control_pixels_cpu.json --picture side_by_side.png

`--rates-only` leaves OpenGL alone, for machines that have none.
"""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro
from PIL import Image

from discern.envs.control.tasks import DOMAINS
from discern.envs.control.world import Control, stage_of
from discern.evaluation.report import machine
from discern.rendering import Poses, Stage, draw


@dataclass(frozen=True)
class Arguments:
    batch: int = 64
    seconds: float = 2.0
    states: int = 50
    rates_only: bool = False
    json: Path | None = None
    picture: Path | None = None


def rate(stage: Stage, poses: Poses, seconds: float) -> tuple[float, float]:
    """Images a second, the best of three, and seconds until the first batch was there.

    On a CPU it is seconds of one core, whatever else runs there.
    """
    clock = time.process_time if jax.default_backend() == "cpu" else time.perf_counter
    paint: Callable[[Poses], jax.Array] = jax.jit(lambda poses: draw(stage, poses))
    start = time.perf_counter()
    poses = jax.device_put(poses)
    paint(poses).block_until_ready()
    compiling, best = time.perf_counter() - start, 0.0
    for _ in range(3):
        start, batches = clock(), 0
        while clock() - start < seconds / 3:
            for _ in range(4):
                image = paint(poses)
            image.block_until_ready()
            batches += 4
        best = max(best, batches * len(poses.position) / (clock() - start))
    return best, compiling


def measure(name: str, arguments: Arguments) -> tuple[dict[str, Any], np.ndarray | None]:
    env, stage = Control(name, arguments.batch), stage_of(name)
    look = env.reset(0).raw
    env.close()
    poses = Poses(look.position, look.rotation)
    shaded, compiling = rate(stage, poses, arguments.seconds)
    plain, _ = rate(stage._replace(shadows=False), poses, arguments.seconds)
    row = {
        "domain": name,
        "images_per_second": round(shaded),
        "images_per_second_without_shadows": round(plain),
        "compile_seconds": round(compiling, 1),
    }
    if arguments.rates_only:
        return row, None
    from tests.opengl import compare, draw_with_opengl

    theirs = draw_with_opengl(name, arguments.states)
    if theirs is None or theirs.seconds is None:
        raise SystemExit("there is no OpenGL here: use --rates-only")
    found = compare(name, theirs)
    seconds = float(theirs.seconds[0 if jax.default_backend() == "cpu" else 1])
    row["opengl_images_per_second"] = round(1 / seconds)
    row["times_as_fast"] = round(shaded * seconds)
    row["mean_absolute_difference"] = round(float(found.difference.mean()), 2)
    row["largest_of_a_picture"] = round(float(found.difference.max()), 2)
    row["outline_overlap"] = round(found.overlap, 3)
    pairs = [picture for i in (1, 3, 4) for picture in (theirs.images[i], found.ours[i])]
    return row, np.concatenate(pairs, axis=1)


def main(arguments: Arguments) -> None:
    rows, strips = [], []
    for name in (name for name in DOMAINS if name != "cartpole-balance"):  # it looks like cartpole-swingup
        row, strip = measure(name, arguments)
        print(row, flush=True)
        rows.append(row)
        strips.append(strip)
    if arguments.picture and not arguments.rates_only:
        Image.fromarray(np.concatenate(strips)).save(arguments.picture, optimize=True)
    if arguments.json:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        report = {
            "what": "84×84 pictures of the Control Suite by ray casting, and by dm_control through OpenGL (on a CPU: a "
            "second of one core); differences between the two, of 255, over random states",
            "command": f"uv run python -m benchmarks.control_pixels --batch {arguments.batch}"
            + " --rates-only" * arguments.rates_only,
            "commit": commit,
            "seeds": [0],
            "batch": arguments.batch,
            "states": 0 if arguments.rates_only else arguments.states,
            "machine": machine(),
            "domains": rows,
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
