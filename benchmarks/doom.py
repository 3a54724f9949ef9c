"""How fast Doom's worlds are, and how many steps a goal of the round room takes whoever plays.

uv run python -m benchmarks.doom --json results/doom_cpu.json
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

from discern.envs import make_env, make_scored_env
from discern.envs.doom.maps import WORLDS
from discern.evaluation.achievement import reached
from discern.evaluation.goal_sets import goal_set
from discern.evaluation.report import machine

STAY, FORWARD, BACKWARD, LEFT, RIGHT, TURN_LEFT, TURN_RIGHT = range(7)
GLIDE = 1 / (1 - 0.90625)  # tics of its speed that a player goes on for, by Doom's friction


@dataclass(frozen=True)
class Arguments:
    games: int = 8
    steps: int = 500
    trials: int = 4
    longest: int = 80
    json: Path | None = None


def rate(world: str, games: int, steps: int) -> dict[str, Any]:
    """Agent steps in a second of one core, our processes' and the engines' time together, under random actions."""
    before = set(psutil.Process().children(recursive=True))
    env = make_env(f"doom/{world}", games)
    env.reset(0)
    processes = set(psutil.Process().children(recursive=True)) - before
    engines = [process for process in processes if process.name() == "vizdoom"]
    chance, at_start, spent = np.random.default_rng(0), seconds_of(processes), []
    for _ in range(3):
        began = seconds_of(processes)
        for _ in range(steps):
            env.send(chance.integers(0, env.spec.actions, games))
            env.recv()
        spent.append(seconds_of(processes) - began)
    memory = np.mean([engine.memory_info().rss for engine in engines])
    env.close()
    return {
        "world": world,
        "steps_per_core_second": [round(games * steps / one) for one in spent],
        "core_seconds_to_start_a_game": round(at_start / games, 2),
        "megabytes_of_an_engine": round(memory / 1e6),
    }


def seconds_of(processes: set[psutil.Process]) -> float:
    """User and system time of processes so far."""
    times = [process.cpu_times() for process in processes]
    return sum(one.user + one.system for one in times)


def walk(strafes: bool, trials: int, longest: int) -> dict[str, list[float]]:
    """The share of goals that one who knows the poses is at after 10, 20, … steps, whole and in each dimension."""
    hits: dict[int, list[np.ndarray]] = {}
    env = make_scored_env("doom/watermaze", 25)
    goals = goal_set(env, "tune").measures
    for trial in range(trials):
        for part in range(0, len(goals), env.size):
            wanted = goals[part : part + env.size]
            pose = env.reset(trial * len(goals) + part).raw.pose
            speed = np.zeros((env.size, 2))
            for t in range(1, longest + 1):
                env.send(np.array([choose(*row, strafes) for row in zip(pose, speed, wanted, strict=True)]))
                now = env.recv().raw.pose
                speed, pose = (now[:, :2] - pose[:, :2]) / 4, now
                if t % 10 == 0:
                    hits.setdefault(t, []).append(reached(pose, wanted, env.spec.dimensions))
    env.close()
    together = {str(t): np.concatenate(some) for t, some in hits.items()}
    return {t: np.round([all_.all(-1).mean(), *all_.mean(0)], 3).tolist() for t, all_ in together.items()}


def choose(pose: np.ndarray, speed: np.ndarray, goal: np.ndarray, strafes: bool) -> int:
    """Towards where the goal is, in one of four directions or turned to it, and at the end as the goal looks."""
    away = goal[:2] - pose[:2] - GLIDE * speed
    if np.hypot(*away) < 40:
        return turn(goal[2] - pose[2], 5)
    angle = np.deg2rad(pose[2])
    ahead, aside = np.array([np.cos(angle), np.sin(angle)]), np.array([np.sin(angle), -np.cos(angle)])
    if strafes:
        gains = {FORWARD: away @ ahead, BACKWARD: -away @ ahead, RIGHT: away @ aside, LEFT: -away @ aside}
        return max(gains, key=lambda action: gains[action])
    backward = away @ ahead < 0
    off = np.rad2deg(np.arctan2(away[1], away[0])) - pose[2] + 180 * backward
    return turn(off, 12) or (BACKWARD if backward else FORWARD)


def turn(degrees: float, enough: float) -> int:
    """The action that turns by some of the degrees, or none where few are left."""
    left = (degrees + 180) % 360 - 180
    return STAY if abs(left) <= enough else TURN_LEFT if left > 0 else TURN_RIGHT


def main(arguments: Arguments) -> None:
    report = {
        "what": "Doom's worlds: agent steps of 4 tics with their 84×84 pictures in a second of one core, user and "
        "system time of our processes and the engines together, three times; and the share of the 100 "
        "goals (tune) of the round room that a walker who knows poses is at after T steps: whole, x, y, angle",
        "command": f"uv run python -m benchmarks.doom --games {arguments.games} --steps {arguments.steps}",
        "commit": subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip(),
        "date": datetime.date.today().isoformat(),
        "seeds": [0],
        "machine": machine(),
        "worlds": [rate(world, arguments.games, arguments.steps) for world in WORLDS],
        "walker": {
            name: walk(strafes, arguments.trials, arguments.longest)
            for name, strafes in (("turns_and_walks", False), ("strafes", True))
        },
    }
    print(json.dumps(report, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
