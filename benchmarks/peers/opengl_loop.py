"""A pixel loop as dm_control has it, in one process and in one for each core, beside our control worlds.

    python -m benchmarks.peers.opengl_loop --out results/opengl_loop_h200.json

Theirs: random actions, physics, an 84×84 picture by OpenGL (MUJOCO_GL) after each step, nobody looking. Ours: physics,
the picture and the network that chooses from it, so it has the harder task; its actions are random, too. They take
turns. It needs dm_control and OpenGL where it runs; with a GPU, EGL.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import tyro

from benchmarks.about import about
from benchmarks.peers.compare import run
from benchmarks.speed import spread
from discern.compile_cache import keep_compiled
from discern.machine import available_cores

SIDE = 84
PLAYER = "from benchmarks.peers.opengl_loop import play; play()"


@dataclass(frozen=True)
class Arguments:
    out: Path = Path("opengl_loop.json")
    task: str = "reacher-hard"
    """Of those whose step is one of the task's, so that both make a picture as often."""
    processes: int | None = None
    """By default as many as cores."""
    seconds: float = 5.0
    repeats: int = 3
    backend: str = "egl"
    """egl, osmesa or glfw."""
    ours: str = ""
    """Further flags of discern bench, such as --actor.environments 1024."""
    commit: str | None = None
    note: str | None = None


def play() -> None:
    """One process: reads what to play, says when it is ready, is told to begin, and says how fast it went."""
    import numpy as np

    task, seconds = json.loads(input())
    env = import_module("dm_control.suite").load(*task.split("-"))
    camera = import_module("dm_control.mujoco.engine").Camera(env.physics, SIDE, SIDE, camera_id=0)
    chance, actions = np.random.default_rng(0), env.action_spec()
    env.reset()
    camera.render()
    print("ready", flush=True)
    input()
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        env.step(chance.uniform(actions.minimum, actions.maximum))
        camera.render()
        steps += 1
    print(steps / (time.perf_counter() - began), flush=True)


def theirs(wanted: Arguments, processes: int) -> float:
    """Steps a second of all processes, which play at the same time."""
    environment = os.environ | {"MUJOCO_GL": wanted.backend, "PYOPENGL_PLATFORM": wanted.backend}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    players = [subprocess.Popen([sys.executable, "-c", PLAYER], env=environment, **pipes) for _ in range(processes)]
    for player in players:
        player.stdin.write(json.dumps([wanted.task, wanted.seconds]) + "\n")
    for player in players:
        if player.stdout.readline() != "ready\n":
            sys.exit(f"OpenGL does not work here through MUJOCO_GL={wanted.backend}")
    for player in players:
        player.stdin.write("go\n")
    rates = [float(player.stdout.readline()) for player in players]
    for player in players:
        player.communicate()
    return sum(rates)


def ours(wanted: Arguments) -> dict[str, Any]:
    words = ["bench", f"control/{wanted.task}", "--seconds", str(wanted.seconds / 2), "--json"]
    return run(["-m", "discern", *words, *shlex.split(wanted.ours)])


def summary(rates: dict[str, list[float]]) -> dict[str, Any]:
    """Steps a second of each, and how many times as fast ours is."""
    found = {name: spread(values) for name, values in rates.items()}
    acting = found["ours, acting"]["median"]
    times = {name: float(f"{acting / found[name]['median']:.3g}") for name in found if name.startswith("opengl")}
    return {"steps_per_second": found, "ours, acting, over": times}


def main() -> None:
    wanted = tyro.cli(Arguments)
    keep_compiled()
    processes = wanted.processes or available_cores()
    rates: dict[str, list[float]] = {}
    for _ in range(wanted.repeats):
        for count in sorted({1, processes}):
            rates.setdefault(f"opengl, {count} processes", []).append(theirs(wanted, count))
        report = ours(wanted)
        rates.setdefault("ours, acting", []).append(report["acting_steps_per_second"])
        rates.setdefault("ours, whole loop", []).append(report["whole_steps_per_second"])
        print({name: round(values[-1]) for name, values in rates.items()}, flush=True)
    what = f"{wanted.task} at 84×84: dm_control's loop with OpenGL under random actions, beside ours, in turns."
    made = about(what, "peers.opengl_loop", wanted.commit, [0])
    made |= {"note": wanted.note} if wanted.note else {}
    made |= {"machine": report["machine"], "environments": report["environments"], **summary(rates)}
    wanted.out.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
