"""How long highway-env's and MiniGrid's steps take, and how far held actions get: the ranges of what is scored.

uv run python -m benchmarks.gym_worlds --json results/gym_worlds_cpu.json
"""

import datetime
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tyro

from discern.config import replace
from discern.envs import make_env
from discern.evaluation.report import machine
from discern.presets import preset

WORLDS = (
    "highway/parking-v0",
    "highway/roundabout-v1",
    "highway/intersection-v2",
    "highway/highway-fast-v0",
    "highway/highway-v0",
    "minigrid/MiniGrid-Empty-8x8-v0",
    "minigrid/MiniGrid-FourRooms-v0",
)
P_NEW_ACTION = 0.1


@dataclass(frozen=True)
class Arguments:
    worlds: tuple[str, ...] = WORLDS
    episodes: int = 12
    steps: int = 50
    json: Path | None = None


def world(name: str, episodes: int, steps: int) -> dict[str, Any]:
    """Processor time of a step with its picture, and what the scored dimensions reach before the first episodes end."""
    before = set(psutil.Process().children(recursive=True))
    env: Any = make_env(name, episodes, replace(preset(name), {"gym.step_timeout": 600.0}))  # on a busy machine too
    step = env.reset(0)
    processes = set(psutil.Process().children(recursive=True)) - before
    chance, alive = np.random.default_rng(0), np.ones(episodes, bool)
    actions, seen, spent = np.zeros(episodes, np.int32), [env.measure(step.raw)], seconds_of(processes)
    for _ in range(steps):
        fresh = chance.random(episodes) < P_NEW_ACTION
        actions = np.where(fresh, chance.integers(0, env.spec.actions, episodes), actions).astype(np.int32)
        env.send(actions)
        step = env.recv()
        alive &= ~step.is_first
        seen.append(env.measure(step.raw)[alive])
    spent = seconds_of(processes) - spent
    env.close()
    reached = np.concatenate(seen)
    return {
        "world": name,
        "milliseconds_of_a_step": round(1000 * spent / (episodes * steps), 1),
        "reached": {
            dimension.name: [round(float(end), 1) for end in (reached[:, i].min(), reached[:, i].max())]
            for i, dimension in enumerate(env.spec.dimensions)
        },
        "frames": len(reached),
    }


def seconds_of(processes: set[psutil.Process]) -> float:
    """Processor time of the processes that the environments run in."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def main(arguments: Arguments) -> None:
    found = {
        "what": f"Processor time of one step with its picture, and the least and most of each scored dimension in "
        f"{arguments.episodes} episodes of up to {arguments.steps} steps of actions that are each held for "
        f"{1 / P_NEW_ACTION:.0f} steps on average.",
        "command": "python -m benchmarks.gym_worlds",
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
        "date": str(datetime.date.today()),
        "machine": machine(),
        "seeds": [0],
        "worlds": [world(name, arguments.episodes, arguments.steps) for name in arguments.worlds],
    }
    text = json.dumps(found, indent=1) + "\n"
    print(text)
    if arguments.json:
        arguments.json.write_text(text)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
