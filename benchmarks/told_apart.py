"""How far goals told apart follow success, over the evaluations of runs in worlds that are scored.

    uv run python -m benchmarks.told_apart runs/arena runs/two --json results/told_apart_cpu.json

A run that is in the file already stays there, or is replaced by the one of its world and seed that is named.
"""

import json
import subprocess
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from discern.config import differences
from discern.evaluation.compare import agreement, told_apart_with_success
from discern.evaluation.final import load_final
from discern.evaluation.report import machine
from discern.evaluation.statistics import rank_correlation
from discern.presets import preset
from discern.storage.run_folder import RunFolder

KEPT = ("told_apart_random", "told_apart_ceiling", "random")


@dataclass(frozen=True)
class Arguments:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    json: Path
    commit: str | None = None
    """That the runs were made at; by default today's."""


def of_changes(points: list[dict[str, float]], measure: str) -> float:
    """The rank correlation of what changes from one evaluation to the next, to which a common trend adds nothing."""
    changes = [np.diff([point[name] for point in points]).tolist() for name in (measure, "success")]
    return rank_correlation(*changes)


def entry(run: Path, commit: str) -> dict[str, Any]:
    """What one run says: its evaluations on the tune half, rank correlations with success, and its last score.

    That of the steps is what anything gets that only grows as the run goes on.
    """
    config, final = RunFolder(run).config(), load_final(run)
    points = told_apart_with_success(run)
    last = [row for row in RunFolder(run).metrics() if "told_apart" in row][-1]
    return {
        "world": config.env,
        "seed": config.seed,
        "changed": differences(config, preset(config.env)),
        "commit": commit,
        "rank_correlation": agreement([run]),
        "rank_correlation_pixels": agreement([run], "told_apart_pixels"),
        "rank_correlation_steps": agreement([run], "steps"),
        "rank_correlation_of_changes": of_changes(points, "told_apart"),
        "rank_correlation_of_changes_pixels": of_changes(points, "told_apart_pixels"),
        **{name: last[name] for name in KEPT if name in last},
        "test": {
            "success": final.success,
            "told_apart": final.told_apart,
            "told_apart_pixels": final.told_apart_pixels,
        },
        "evaluations": [
            {name: value if name == "steps" else round(value, 4) for name, value in point.items()} for point in points
        ],
    }


def main(arguments: Arguments) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    entries = [entry(run, arguments.commit or head) for run in arguments.runs]
    known = json.loads(arguments.json.read_text())["runs"] if arguments.json.exists() else []
    named = {(one["world"], one["seed"]) for one in entries}
    entries = [one for one in known if (one["world"], one["seed"]) not in named] + entries
    report = {
        "what": "Spearman's rank correlation of goals told apart (in the embedding and by pixels) with success, over "
        "the evaluations of each run on the tune half of its goals, and its last score on the test half",
        "command": "discern train WORLD, changed as each run says; then uv run python -m benchmarks.told_apart RUN …",
        "commit": arguments.commit or head,
        "date": date.today().isoformat(),
        "machine": machine(),
        "seeds": sorted({one["seed"] for one in entries}),
        "runs": entries,
    }
    arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    for one in entries:
        print(one["world"], one["seed"], one["rank_correlation"], one["rank_correlation_pixels"], one["test"])


if __name__ == "__main__":
    main(tyro.cli(Arguments))
