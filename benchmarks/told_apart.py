"""How far goals told apart follow success, over the evaluations of runs in worlds that are scored.

    uv run python -m benchmarks.told_apart runs/arena runs/two --json results/told_apart_cpu.json
    uv run python -m benchmarks.told_apart --recorded results/doom_and_horizons_h200.json --json FILE

A run that is in the file already stays there, or is replaced by the one of its name that is given.
"""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from discern.config import differences
from discern.evaluation.compare import told_apart_with_success
from discern.evaluation.final import load_final
from discern.evaluation.report import machine
from discern.evaluation.statistics import rank_correlation
from discern.presets import preset
from discern.storage.run_folder import RunFolder

KEPT = ("told_apart_random", "told_apart_ceiling", "random")
FEWEST = 8  # evaluations that are worth a rank correlation
MEASURES = {"": "told_apart", "_pixels": "told_apart_pixels", "_steps": "steps"}
Points = list[dict[str, float]]


@dataclass(frozen=True)
class Arguments:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    json: Path = Path("told_apart.json")
    recorded: tuple[Path, ...] = ()
    """Files that benchmarks.side_by_side wrote: their curves, of single attempts at 100 goals."""
    attempts: int = 100
    """At each evaluation of a recorded curve."""
    commit: str | None = None
    """That the runs were made at; by default today's."""


def over_evaluations(points: Points, attempts: int) -> dict[str, Any]:
    """Rank correlations with success, of three measures and of what changes from one evaluation to the next, to which
    a common trend adds nothing; and how much of success is the luck of so many attempts at each evaluation.

    That of the steps is what anything gets that only grows as the run goes on.
    """
    if len(points) < FEWEST:
        return {"attempts": attempts}
    success = column(points, "success")
    found: dict[str, Any] = {"attempts": attempts, "luck": luck(success, attempts)}
    for name, measure in MEASURES.items():
        found[f"rank_correlation{name}"] = known(rank_correlation(column(points, measure), success))
    for name, measure in list(MEASURES.items())[:2]:
        changes = (np.diff(column(points, one)).tolist() for one in (measure, "success"))
        found[f"rank_correlation_of_changes{name}"] = known(rank_correlation(*changes))
    return found


def column(points: Points, name: str) -> list[float]:
    return [point[name] for point in points]


def known(correlation: float) -> float | None:
    return None if np.isnan(correlation) else correlation


def luck(success: Sequence[float], attempts: int) -> dict[str, float | None]:
    """The share of the variance of success, and of its changes, that independent attempts with the same chance at every
    goal would have by themselves; goals that are always reached, or never, have less."""
    shares = np.asarray(success)
    noise = shares * (1 - shares) / attempts
    pairs = {"levels": (noise, shares), "changes": (noise[1:] + noise[:-1], np.diff(shares))}
    variances = {name: (float(one.mean()), float(all_of.var(ddof=1))) for name, (one, all_of) in pairs.items()}
    return {name: round(one / all_of, 3) if all_of else None for name, (one, all_of) in variances.items()}


def rounded(points: Points) -> Points:
    return [{name: value if name == "steps" else round(value, 4) for name, value in point.items()} for point in points]


def entry(run: Path, commit: str) -> dict[str, Any]:
    """What one run says: its evaluations on the tune half, rank correlations with success, and its last score."""
    config, final = RunFolder(run).config(), load_final(run)
    points = told_apart_with_success(run)
    last = [row for row in RunFolder(run).metrics() if "told_apart" in row][-1]
    goals = len(final.goals)
    return {
        "name": run.name,
        "world": config.env,
        "seed": config.seed,
        "changed": differences(config, preset(config.env)),
        "commit": commit,
        "goals": goals,
        **over_evaluations(points, goals * config.evaluation_trials),
        **{name: last[name] for name in KEPT if name in last},
        "test": {
            "success": final.success,
            "told_apart": final.told_apart,
            "told_apart_pixels": final.told_apart_pixels,
        },
        "evaluations": rounded(points),
    }


def recorded(file: Path, attempts: int) -> list[dict[str, Any]]:
    """The same of every curve in a results file that has both measures; what it is of is said there."""
    found = json.loads(file.read_text())
    entries = []
    for run in found["runs"]:
        wanted = ("steps", "success", "told_apart", "told_apart_pixels")
        points = [{name: point[name] for name in wanted} for point in run["curve"] if set(wanted) <= set(point)]
        if points:
            about = {name: run[name] for name in ("name", "world", "seed", "command")}
            about |= {"source": file.name, "commit": found["commit"], "machine": found["machine"]["device"]}
            about |= {name: run[name] for name in KEPT if name in run}
            entries.append(about | over_evaluations(points, attempts) | {"evaluations": rounded(points)})
    return entries


def over_agents(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each world with three or more agents: the rank correlation with success over their last scores on the test
    half, and which agents they are."""
    worlds: dict[str, list[dict[str, Any]]] = {}
    for one in entries:
        if "test" in one:
            worlds.setdefault(one["world"], []).append(one)
    return {
        world: {
            "agents": len(ours),
            **{
                f"rank_correlation{name}": known(
                    rank_correlation(*(column(tests, key) for key in (measure, "success")))
                )
                for name, measure in list(MEASURES.items())[:2]
            },
            "test": {one["name"]: one["test"] for one in ours},
        }
        for world, ours in worlds.items()
        if len(tests := [one["test"] for one in ours]) >= 3
    }


def main(arguments: Arguments) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    entries = [entry(run, arguments.commit or head) for run in arguments.runs]
    entries += [one for file in arguments.recorded for one in recorded(file, arguments.attempts)]
    before = json.loads(arguments.json.read_text())["runs"] if arguments.json.exists() else []
    named = {one["name"] for one in entries}
    entries = [one for one in before if one["name"] not in named] + entries
    report = {
        "what": "Spearman's rank correlation of goals told apart (in the embedding and by pixels) with success, over "
        "the evaluations of each run on the tune half of its goals, and its last score on the test half; `luck` is the "
        "share of the variance of success, and of its changes from one evaluation to the next, that is due to attempts",
        "command": "discern train WORLD, changed as each run says; then uv run python -m benchmarks.told_apart RUN …; "
        "where a run has a `source`, it was made as that file of results/ says: --recorded results/SOURCE",
        "commit": arguments.commit or head,
        "date": date.today().isoformat(),
        "machine": machine(),
        "seeds": sorted({one["seed"] for one in entries}),
        "agents_of_one_world": over_agents(entries),
        "runs": entries,
    }
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    for one in entries:
        found = [one.get(f"rank_correlation{name}") for name in (*MEASURES, "_of_changes", "_of_changes_pixels")]
        shown = ["–" if value is None else f"{value:.2f}" for value in found]
        print(one["name"], *shown, one.get("luck"), one.get("test"))


if __name__ == "__main__":
    main(tyro.cli(Arguments))
