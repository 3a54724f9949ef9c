"""Every figure from the runs it needs: what is missing is run, what was stopped goes on, then all is drawn."""

import dataclasses
import json
import shlex
import subprocess
import time
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

from discern.evaluation.final import is_finished, load_final
from discern.evaluation.report import machine
from discern.evaluation.statistics import interquartile_mean, stratified_bootstrap
from discern.presets import PresetName
from discern.reproduce.claims import claimed
from discern.reproduce.cost import Cost, cost_of
from discern.reproduce.figures import FIGURES, Drawn, evaluations
from discern.reproduce.report import write_report
from discern.reproduce.runs import Run
from discern.storage.run_folder import refuse_unless_writable
from discern.training.seeds import ensure
from discern.types import UserError

POLL = 10.0  # seconds between two looks at what others are making


def reproduce(
    figures: Iterable[str],
    root: Path,
    budget: float | None = None,
    seeds: int = 1,
    preset_name: PresetName = "fast",
    console: Console | None = None,
    agrees: Callable[[Cost], bool] | None = None,
    worlds: Collection[str] = (),
) -> list[Path]:
    """Draws the figures into `root/figures`, and a report of them all; returns the paths.

    `budget` is minutes for all their runs together, None the worlds' own. `agrees` is asked about the cost before
    anything is begun. Several processes, on several machines too, may work at one root: each takes what nobody has
    begun. `worlds` are those of the figures' worlds that are wanted, none given: all.
    """
    console = console or Console()
    wanted = _known(figures)
    _refuse_strangers(worlds, wanted, preset_name)
    if seeds < 1 or (budget is not None and not 0 < budget < float("inf")):
        raise UserError("seeds must be at least 1 and the budget above 0")
    refuse_unless_writable(root)
    plans = {name: FIGURES[name].runs(seeds, preset_name, worlds) for name in wanted}
    tuned = [name for name in wanted if FIGURES[name].tuned and preset_name != "tiny"]
    trials = list(dict.fromkeys(trial for name in tuned for run in plans[name] for trial in run.trials()))
    runs = distinct(plans)
    minutes = round(budget / len(trials + runs), 3) if budget else None
    costs = ((run.config(minutes, preset_name), root / run.name) for run in trials + runs)
    if agrees is not None and not agrees(cost_of(costs)):
        return []
    root.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str((root / ".compiled").resolve()))
    make_runs(trials, root, minutes, preset_name, console)
    plans |= {name: with_best_trials(plans[name], root) for name in tuned}
    make_runs(distinct(plans), root, minutes, preset_name, console)
    words = ["discern", "reproduce", *wanted, "--preset", preset_name, "--seeds", str(seeds)]
    words += ["--worlds", *worlds] if worlds else []
    about = _about(shlex.join(words + (["--budget", str(budget)] if budget else [])))
    drawn = []
    for name, plan in plans.items():
        drawn.append(_draw(name, plan, root, minutes, preset_name, about))
        console.print(f"drew {drawn[-1]}", soft_wrap=True)
    console.print(f"all of it on one page: {write_report(drawn, root)}", soft_wrap=True)
    return drawn


def _known(figures: Iterable[str]) -> list[str]:
    wanted = list(FIGURES) if "all" in figures else list(dict.fromkeys(figures))
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        raise UserError(f"there is no figure '{unknown[0]}'; there are: all, {', '.join(FIGURES)}")
    if not wanted:
        raise UserError(f"name the figures to draw: all, {', '.join(FIGURES)}")
    return wanted


def _refuse_strangers(worlds: Collection[str], wanted: list[str], preset_name: PresetName) -> None:
    """A UserError where a world is in none of the figures, or a figure has none of the worlds."""
    found = {name: FIGURES[name].worlds(preset_name) for name in wanted}
    for world in worlds:
        if not any(world in envs for envs in found.values()):
            known = ", ".join(dict.fromkeys(env for envs in found.values() for env in envs))
            raise UserError(f"none of these figures has the world '{world}'; they have: {known}")
    for name, envs in found.items():
        if worlds and not set(worlds) & set(envs):
            raise UserError(f"the figure {name} has none of these worlds; it has: {', '.join(envs)}")


def distinct(plans: dict[str, list[Run]]) -> list[Run]:
    return list(dict.fromkeys(run for plan in plans.values() for run in plan))


def with_best_trials(plan: list[Run], root: Path) -> list[Run]:
    """Each run with the settings of its method that did best in its world, the world's own where none did better."""
    best = {}
    for run in plan:
        of = (run.env, run.method, run.strategy)
        if of not in best:
            best[of] = max(run.trials(), key=lambda trial: on_tune(root / trial.name)).trial
    return [dataclasses.replace(run, trial=best[run.env, run.method, run.strategy] or None) for run in plan]


def on_tune(folder: Path) -> float:
    """Success on goals to choose by: the mean of the last three evaluations."""
    return float(np.mean([row["success"] for row in evaluations(folder)[-3:]] or [0.0]))


def make_runs(runs: list[Run], root: Path, minutes: float | None, preset_name: PresetName, console: Console) -> None:
    """Makes every run that nobody else is making, then waits for those that others are."""
    numbers = {run: number + 1 for number, run in enumerate(runs)}
    left, waiting = runs, False
    while left:
        others = []
        for run in left:
            folder = root / run.name
            with claimed(root / ".claims" / run.name.replace("/", "_")) as ours:
                if ours:
                    console.print(f"run {numbers[run]} of {len(runs)}: {run.name}", soft_wrap=True)
                    ensure(run.config(minutes, preset_name), folder, console)
                elif not is_finished(folder):
                    others.append(run)
        left = others
        if left and not waiting:
            console.print(f"waiting for {len(left)} runs that others are making …")
            waiting = True
        if left:
            time.sleep(POLL)


def _about(command: str) -> dict[str, Any]:
    """Where numbers come from, as a results file says it."""
    checkout, commit = Path(__file__).parents[2], f"discern {version('discern')}"
    if (checkout / ".git").exists():
        git = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip() or commit
    return {"command": command, "commit": commit, "date": datetime.now(UTC).date().isoformat(), "machine": machine()}


def _draw(
    name: str, plan: list[Run], root: Path, minutes: float | None, preset_name: PresetName, about: dict[str, Any]
) -> Path:
    figure, path = FIGURES[name], root / "figures" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    folders = {run: root / run.name for run in plan}
    figure.draw(Drawn(folders, path, figure.what))
    rows = [
        {
            "command": run.command(minutes, preset_name),
            "success": load_final(folder).success,
            "evaluations": evaluations(folder),
        }
        for run, folder in folders.items()
    ]
    seeds = sorted({run.seed for run in plan})
    found = {"what": figure.what, **about, "seeds": seeds, "methods": _methods(folders), "runs": rows}
    if figure.tuned:
        found["trials"] = _trials(folders, root, minutes, preset_name)
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    return path


def _trials(
    folders: dict[Run, Path], root: Path, minutes: float | None, preset_name: PresetName
) -> list[dict[str, Any]]:
    """What every method's settings came to on the goals to choose by, and which were taken."""
    rows = {}
    for run in folders:
        for trial in run.trials():
            if is_finished(root / trial.name):
                rows[trial] = {
                    "command": trial.command(minutes, preset_name),
                    "tune": on_tune(root / trial.name),
                    "taken": trial.trial == (run.trial or 0),
                }
    return list(rows.values())


def _methods(folders: dict[Run, Path]) -> list[dict[str, Any]]:
    """Each method's interquartile mean over seeds and worlds, which are the strata, with its 95 % interval."""
    rows = []
    for method, strategy in dict.fromkeys((run.method, run.strategy) for run in folders):
        worlds: dict[str, list[float]] = {}
        for run, folder in folders.items():
            if (run.method, run.strategy) == (method, strategy):
                worlds.setdefault(run.env, []).append(load_final(folder).success)
        strata = list(worlds.values())
        middle = float(interquartile_mean(np.concatenate(strata)))
        row = {"method": method, "strategy": strategy, "worlds": list(worlds), "success": middle}
        rows.append(row | {"interval": stratified_bootstrap(strata)})
    return rows
