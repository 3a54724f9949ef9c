"""The LSTM's recurrence: the scan beside the kernels of discern.agent.lstm_kernel and beside cuDNN's LSTM.

    uv run python -m benchmarks.lstm --out lstm.json

Each arm is a process of its own with a time limit, since a faulting kernel spoils its process's GPU for what follows.
Errors are relative to the scan with full float32 products. An arm whose name ends in `inputs` also makes the gates from
whole inputs, as cuDNN's does. A GPU is needed by all but the scan.
"""

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro

from benchmarks.about import about
from discern.agent import lstm_kernel
from discern.agent.lstm import lstm_unroll

SHAPES = ("100x192x256", "140x144x256", "80x192x256", "25x384x256", "50x192x256", "30x256x256")  # steps, rows, units
WIDTH = 594  # of whole inputs: features, the goal's features, an action, a reward
ARMS = ("scan", "kernel", "scan with inputs", "kernel with inputs", "cudnn with inputs")
Arrays = tuple[jax.Array, ...]


@dataclass(frozen=True)
class Arguments:
    out: Path = Path("lstm.json")
    shapes: tuple[str, ...] = SHAPES
    arms: tuple[str, ...] = ARMS
    seconds: float = 90.0
    """The time limit of one arm, over all shapes."""
    repeats: int = 10
    """Timings, of ten calls each, of which the median is kept."""
    commit: str | None = None
    only: str | None = None
    """Run this arm here, and print a line of JSON for each shape."""


def scan_with_inputs(inputs: jax.Array, by_inputs: jax.Array, kernel: jax.Array) -> jax.Array:
    return lstm_unroll(inputs @ by_inputs, kernel)


def cudnn_with_inputs(inputs: jax.Array, by_inputs: jax.Array, kernel: jax.Array) -> jax.Array:
    from jax.experimental import rnn  # its absence is this arm's failure alone

    (_, rows, width), units = inputs.shape, kernel.shape[0]

    def its_order(weights: jax.Array) -> jax.Array:  # write, keep, new, read; one row for each gate
        keep, write, new, read = jnp.split(weights.T, 4)
        return jnp.concatenate([write, keep, new, read]).ravel()

    bias = its_order(jnp.repeat(jnp.array([1.0, 0.0, 0.0, 0.0]), units)[None])
    weights = jnp.concatenate([its_order(by_inputs), its_order(kernel), bias, jnp.zeros_like(bias)])
    zero = jnp.zeros((1, rows, units))
    lengths = jnp.full(rows, inputs.shape[0], jnp.int32)
    hidden, _, _ = rnn.lstm(jnp.swapaxes(inputs, 0, 1), zero, zero, weights, lengths, width, units, 1, 0.0, False)
    return jnp.swapaxes(hidden, 0, 1)


def both(forwards: Callable[..., jax.Array]) -> Callable[..., Arrays]:
    """Hidden states, and the gradients by all of the inputs."""

    def run(from_above: jax.Array, *inputs: jax.Array) -> Arrays:
        hidden, back = jax.vjp(forwards, *inputs)
        return hidden, *back(from_above)

    return run


def chosen(arm: str) -> Callable[..., jax.Array]:
    return {
        "scan": lstm_unroll,
        "kernel": lstm_kernel.unroll,
        "scan with inputs": scan_with_inputs,
        "kernel with inputs": lambda inputs, by_inputs, kernel: lstm_kernel.unroll(inputs @ by_inputs, kernel),
        "cudnn with inputs": cudnn_with_inputs,
    }[arm]


def made(arm: str, steps: int, rows: int, units: int) -> Arrays:
    """What comes from above, then the inputs of an arm."""
    keys = jax.random.split(jax.random.key(0), 4)
    from_above = jax.random.normal(keys[0], (steps, rows, units))
    kernel = jax.random.normal(keys[1], (units, 4 * units)) / units**0.5
    if not arm.endswith("inputs"):
        return from_above, jax.random.normal(keys[2], (steps, rows, 4 * units)), kernel
    inputs = jax.random.normal(keys[2], (steps, rows, WIDTH))
    return from_above, inputs, jax.random.normal(keys[3], (WIDTH, 4 * units)) / WIDTH**0.5, kernel


def milliseconds(run: Callable[..., Any], inputs: Arrays, repeats: int, calls: int = 10) -> float:
    jax.block_until_ready(run(*inputs))
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready([run(*inputs) for _ in range(calls)][-1])
        taken.append((time.perf_counter() - start) / calls)
    return round(float(np.median(taken)) * 1e3, 4)


def errors(arm: str, found: Arrays, inputs: Arrays) -> dict[str, float]:
    with jax.default_matmul_precision("highest"):
        wanted = jax.jit(both(scan_with_inputs if arm.endswith("inputs") else lstm_unroll))(*inputs)
    names = ["hidden", "by_inputs", *(["by_their_weights"] if len(wanted) == 4 else []), "by_kernel"]
    far = [jnp.linalg.norm(a - b) / jnp.linalg.norm(b) for a, b in zip(found, wanted, strict=True)]
    return {name: float(f"{error:.3g}") for name, error in zip(names, far, strict=True)}


def measured(arm: str, shape: str, repeats: int) -> dict[str, Any]:
    inputs = jax.block_until_ready(made(arm, *(int(n) for n in shape.split("x"))))
    forwards = jax.jit(chosen(arm))
    forwards_and_back = jax.jit(both(chosen(arm)))
    row: dict[str, Any] = {"arm": arm, "shape": shape, "device": jax.devices()[0].device_kind}
    row["errors"] = errors(arm, jax.block_until_ready(forwards_and_back(*inputs)), inputs)
    row["forward_ms"] = milliseconds(forwards, inputs[1:], repeats)
    row["both_ms"] = milliseconds(forwards_and_back, inputs, repeats)
    return row


def run_here(arguments: Arguments) -> None:
    """One arm; a shape that fails does not hide the next one, as long as the GPU still answers."""
    assert arguments.only
    for shape in arguments.shapes:
        try:
            row = measured(arguments.only, shape, arguments.repeats)
        except Exception as failure:
            traceback.print_exc()
            row = {"arm": arguments.only, "shape": shape, "failed": f"{type(failure).__name__}: {failure}"[:500]}
        print(json.dumps(row), flush=True)


def run_apart(arm: str, arguments: Arguments) -> list[dict[str, Any]]:
    """An arm in a process of its own: its lines, also those it wrote before it failed or its time was over."""
    command = [sys.executable, "-m", "benchmarks.lstm", "--only", arm, "--repeats", str(arguments.repeats)]
    process = subprocess.Popen([*command, "--shapes", *arguments.shapes], stdout=subprocess.PIPE, text=True)
    try:
        output, _ = process.communicate(timeout=arguments.seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        print(f"{arm}: more than {arguments.seconds} seconds", flush=True)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"arm"')]
    missing = arguments.shapes[len(lines) :]
    return [*lines, *({"arm": arm, "shape": shape, "failed": f"no answer ({process.returncode})"} for shape in missing)]


def told(row: dict[str, Any]) -> str:
    start = f"{row['shape']:>12}  {row['arm']:<30}"
    if "failed" in row:
        return f"{start}  {row['failed'].splitlines()[0][:100]}"
    far = "  ".join(f"{name} {error:.1e}" for name, error in row["errors"].items())
    return f"{start}  {row['forward_ms']:8.3f} ms  {row['both_ms']:8.3f} ms   {far}"


def main(arguments: Arguments) -> None:
    if arguments.only:
        return run_here(arguments)
    rows: list[dict[str, Any]] = []
    for arm in arguments.arms:
        rows += run_apart(arm, arguments)
        print(*map(told, rows[-len(arguments.shapes) :]), sep="\n", flush=True)
        what = "The LSTM's recurrence: relative errors and milliseconds, forward alone and forward and back."
        found = {**about(what, "lstm", arguments.commit, [0]), "jax": jax.__version__, "rows": rows}
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print("\n       shape  arm                              forward      forward and back   relative errors")
    print(*sorted(map(told, rows)), sep="\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
