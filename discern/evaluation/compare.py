"""Runs side by side: what each group of seeds achieved in the end, and their curves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discern.config import Config, differences, replace
from discern.evaluation.final import is_finished, load_final
from discern.evaluation.statistics import interquartile_mean, rank_correlation, stratified_bootstrap
from discern.storage.run_folder import RunFolder, refuse_file
from discern.types import UserError

COLUMNS = ("runs", "world", "seeds", "goals", "success", "at some step", "random", "told apart", "rank correlation")
COUNTS = ("teacher", "steps", "updates", "minutes")
SHARES = {  # what a curve may show, the best first
    "success": "",  # as every figure says it
    "told_apart": "goals told apart (no success rate), %",
    "teacher_accuracy": "teacher accuracy (no success rate), %",
}
NAMED = 6  # settings in which a group differs from the first


def compare(runs: Sequence[str | Path], out: str | Path | None = None) -> list[dict[str, Any]]:
    """A summary of each group of runs that differ in nothing but their seed; `out` is where to draw their curves.

    A folder that `train --seeds` made is the runs in it.
    """
    if not runs:
        raise UserError("name at least one run to compare")
    if out is not None:
        refuse_file(Path(out), "draw", (".png",))
    groups = _groups([Path(run) for run in runs])
    rows = [summary(name, folders) for name, folders in groups.items()]
    first = _alike(next(iter(groups.values()))[0])
    for row, folders in zip(rows, groups.values(), strict=True):
        row["differs"] = differences(_alike(folders[0]), first)
    if out is not None:
        _draw(rows, groups, Path(out))
    return rows


def _draw(rows: list[dict[str, Any]], groups: dict[str, list[Path]], out: Path) -> None:
    """A panel for each world: success, or what else is known of how well goals are reached."""
    from discern.evaluation.comparisons import Curve, draw_curves  # matplotlib is slow to import

    panels: dict[str, dict[str, list[Curve]]] = {}
    labels, random = {}, {}
    for world in dict.fromkeys(row["world"] for row in rows):
        here = [row for row in rows if row["world"] == world]
        for key, labels[world] in SHARES.items():  # the first that anyone here has
            curves = {row["runs"]: [curve(folder, key) for folder in groups[row["runs"]]] for row in here}
            if any(any(seeds) for seeds in curves.values()):
                break
        panels[world] = {_label(row, curves[row["runs"]]): curves[row["runs"]] for row in here}
        chances = [row["random"] for row in here if row["random"] is not None]
        if chances:
            random[world] = float(np.median(chances))
    draw_curves(panels, out, labels, random)


def _label(row: dict[str, Any], curves: Sequence[Sequence[Any]]) -> str:
    """The name of a group, with what its line is made of."""
    count, begun = len(row["seeds"]), len(row["seeds"]) - row["finished"]
    unfinished = ", unfinished" if begun == count == 1 else f", {begun} unfinished" if begun else ""
    nothing = "" if any(curves) else ": nothing yet"
    return f"{row['runs']} ({count} seed{'s' * (count > 1)}{unfinished}){nothing}"


def curve(run: Path, key: str = "success") -> list[tuple[float, float]]:
    """Success on the tune half, or another share, over agent steps: (steps, share) of each line that has it."""
    return [(row["steps"], row[key]) for row in RunFolder(run).metrics() if key in row]


def told_apart_with_success(run: Path) -> list[dict[str, float]]:
    """The evaluations on the tune half that have success and goals told apart, both by embedding and by pixels."""
    names = ("steps", "success", "told_apart", "told_apart_pixels")
    return [{name: row[name] for name in names} for row in RunFolder(run).metrics() if set(names) <= set(row)]


def agreement(runs: Sequence[Path], measure: str = "told_apart") -> float | None:
    """Spearman's ρ of a measure with success over each run's evaluations, its mean over runs; None where no run has
    three of them, or one of the two never changes."""
    curves = [points for points in map(told_apart_with_success, runs) if len(points) >= 3]
    found = [
        rank_correlation(*([point[name] for point in points] for name in (measure, "success"))) for points in curves
    ]
    known = [one for one in found if not np.isnan(one)]
    return float(np.mean(known)) if known else None


def summary(name: str, runs: Sequence[Path]) -> dict[str, Any]:
    """What runs that differ only in their seed achieved: interquartile means over those that have finished, with a
    95 % interval where there are several; the teacher's last accuracy, steps, updates, minutes: the median of all."""
    configs = [RunFolder(run).config() for run in runs]
    finals = [load_final(run) for run in runs if is_finished(run)]
    if len({final.goal_set for final in finals}) > 1:
        raise UserError(f"the runs of {name} were scored on different goals: score each with discern evaluate")
    scores = [final.success for final in finals if not np.isnan(final.success)]
    lines = [rows for rows in (RunFolder(run).metrics() for run in runs) if rows]
    last = [rows[-1] for rows in lines]
    taught = [[row["teacher_accuracy"] for row in rows if "teacher_accuracy" in row] for rows in lines]

    def median(key: str) -> float | None:
        return float(np.median([row[key] for row in last])) if last else None

    def middle(values: list[float]) -> float | None:
        return float(interquartile_mean(np.array(values))) if values and not np.isnan(values).any() else None

    seconds = median("seconds")
    return {
        "runs": name,
        "world": configs[0].env,
        "seeds": [config.seed for config in configs],
        "finished": len(finals),
        "goals": finals[0].goal_set if finals else None,
        "success": middle(scores),
        "interval": stratified_bootstrap([scores]) if len(scores) > 1 else None,
        "by_seed": scores,
        "at_some_step": middle([final.at_some_step for final in finals]),
        "random": middle([final.random for final in finals]),
        "told_apart": middle([final.told_apart for final in finals]),
        "told_apart_pixels": middle([final.told_apart_pixels for final in finals]),
        "told_apart_random": middle([final.told_apart_random for final in finals]),
        "rank_correlation": agreement(runs),
        "rank_correlation_pixels": agreement(runs, "told_apart_pixels"),
        "teacher_accuracy": float(np.median([seed[-1] for seed in taught if seed])) if any(taught) else None,
        "steps": median("steps"),
        "updates": median("updates"),
        "minutes": None if seconds is None else seconds / 60,
    }


def as_table(rows: Sequence[dict[str, Any]]) -> str:
    """Summaries to read, in columns; below, what differs from the first."""
    cells = [COLUMNS + COUNTS] + [_cells(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    for row in rows:
        changed = row.get("differs", [])
        more = [f"and {len(changed) - NAMED} more"] if len(changed) > NAMED else []
        lines += [f"{row['runs']} against {rows[0]['runs']}: {'; '.join(changed[:NAMED] + more)}"] * bool(changed)
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    success = _percent(row["success"])
    if row["interval"]:
        low, high = row["interval"]
        success += f" ({100 * low:.1f} to {100 * high:.1f})"
    seeds = f"{row['finished']} of {len(row['seeds'])}" if row["finished"] < len(row["seeds"]) else str(row["finished"])
    counts = tuple("–" if row[key] is None else f"{row[key]:,.0f}" for key in ("steps", "updates"))
    minutes = "–" if row["minutes"] is None else f"{row['minutes']:.1f}"
    agrees = "–" if row["rank_correlation"] is None else f"{row['rank_correlation']:.2f}"
    shares = (success, *(_percent(row[key]) for key in ("at_some_step", "random", "told_apart")), agrees)
    shares += (_percent(row["teacher_accuracy"]),)
    return (row["runs"], row["world"], seeds, row["goals"] or "–", *shares, *counts, minutes)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.1%}"


def _groups(runs: Sequence[Path]) -> dict[str, list[Path]]:
    """Runs that differ in nothing but their seed, under the name of the first."""
    found: dict[Config, list[Path]] = {}
    folders = {folder.resolve(): folder for run in runs for folder in _seeds_of(run)}
    for folder in folders.values():
        found.setdefault(_alike(folder), []).append(folder)
    firsts = [group[0].resolve() for group in found.values()]
    names = [(first.parent if first.name.startswith("seed-") else first).name for first in firsts]
    distinct = len(set(names)) == len(names)
    return {name if distinct else str(group[0]): group for name, group in zip(names, found.values(), strict=True)}


def _seeds_of(run: Path) -> list[Path]:
    """The runs that `train --seeds` left in a folder, in order; else the folder itself."""
    inside = [file.parent for file in run.glob("seed-*/config.json")]
    return sorted(inside, key=lambda folder: (len(folder.name), folder.name)) or [run]


def _alike(run: Path) -> Config:
    return replace(RunFolder(run).config(), {"seed": 0})
