"""The paper's figures from the runs they need: what is missing is run, what was stopped goes on, then all is drawn."""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from rich.console import Console

from discern.config import Config, replace
from discern.evaluation.comparisons import draw_bars, draw_curves, draw_heat_maps, draw_strips
from discern.evaluation.final import load_final
from discern.evaluation.report import machine
from discern.evaluation.statistics import interquartile_mean, stratified_bootstrap
from discern.presets import PresetName, preset
from discern.storage.run_folder import RunFolder, make_folder, refuse_unless_writable
from discern.training.seeds import ensure
from discern.types import UserError

METHODS: dict[str, dict[str, Any]] = {
    "DISCERN": {"reward.kind": "discern"},
    "autoencoder": {"reward.kind": "autoencoder"},
    "WGAN": {"reward.kind": "wgan"},
    "pixel L2": {"reward.kind": "pixels"},
    "no hindsight": {"relabel.p_hindsight": 0.0},
    "hindsight only": {"relabel.p_hindsight": 1.0, "relabel.goals": ("hindsight",)},
}
REWARDS = ("DISCERN", "autoencoder", "WGAN", "pixel L2")

TINY: dict[str, Any] = {
    "steps": None,
    "minutes": 9.0,
    "actor.environments": 32,
    "evaluate_every": 10_000,
    "evaluation_goals": 50,
    "checkpoint_seconds": 10.0,
    "replay_capacity": 1024,
    "goal_buffer.capacity": 256,
    "learner.batch": 32,
}

GAMES = ("atari/seaquest", "atari/montezuma_revenge")
SIX = tuple(
    f"control/{name}"
    for name in (
        "point_mass-easy",
        "reacher-hard",
        "pendulum-swingup",
        "finger-spin",
        "ball_in_cup-catch",
        "cartpole-swingup",
    )
)


@dataclass(frozen=True)
class Run:
    """One training run of the programme."""

    env: str
    method: str
    strategy: str
    seed: int

    def changes(self, minutes: float | None, preset_name: PresetName) -> dict[str, Any]:
        """What differs from the world's own preset."""
        changes: dict[str, Any] = {"goal_buffer.strategy": self.strategy, "seed": self.seed, **METHODS[self.method]}
        if self.method == "no hindsight":
            kinds = preset(self.env, _config_name(preset_name)).relabel.goals
            changes["relabel.goals"] = tuple(kind for kind in kinds if kind != "hindsight")
        if preset(self.env, _config_name(preset_name)).steps:
            changes["minutes"] = None  # methods are compared after equal steps, however long these take
        if preset_name == "tiny":
            changes |= TINY
        if minutes:
            changes |= {"minutes": minutes, "steps": None}
        return changes

    def config(self, minutes: float | None, preset_name: PresetName) -> Config:
        return replace(preset(self.env, _config_name(preset_name)), self.changes(minutes, preset_name))

    def command(self, minutes: float | None, preset_name: PresetName) -> str:
        """The same run by hand."""
        words = ["discern", "train", self.env]
        if preset_name == "paper":
            words += ["--config", "paper"]
        for name, value in self.changes(minutes, preset_name).items():
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
        return " ".join(words)

    @property
    def name(self) -> str:
        return f"{self.env}/{self.method}/{self.strategy}/{self.seed}".replace(" ", "-").lower()


@dataclass(frozen=True)
class Figure:
    """Which worlds, methods and buffers a figure compares, and how it is drawn."""

    what: str
    envs: tuple[str, ...]
    methods: tuple[str, ...]
    strategies: tuple[str, ...]
    draw: Callable[["Drawn"], None]

    def runs(self, seeds: int, tiny: bool) -> list[Run]:
        envs = ("arena",) if tiny else self.envs
        return [
            Run(env, method, strategy, seed)
            for env in envs
            for method in self.methods
            for strategy in self.strategies
            for seed in range(seeds)
        ]


@dataclass(frozen=True)
class Drawn:
    """A figure's runs, found by what they are, and where the picture goes."""

    folders: dict[Run, Path]
    path: Path
    what: str

    def over_seeds(self, env: str, method: str, strategy: str) -> list[Path]:
        wanted = (env, method, strategy)
        return [path for run, path in self.folders.items() if (run.env, run.method, run.strategy) == wanted]

    def first_seeds(self, env: str) -> list[tuple[str, Path]]:
        """Each method with its first run in the world, under the first buffer."""
        strategy = self.distinct("strategy")[0]
        found = [(method, self.over_seeds(env, method, strategy)) for method in self.distinct("method")]
        return [(method, paths[0]) for method, paths in found if paths]

    def distinct(self, part: str) -> list[str]:
        return list(dict.fromkeys(getattr(run, part) for run in self.folders))


def reproduce(
    figures: Iterable[str],
    root: Path,
    budget: float | None = None,
    seeds: int = 1,
    preset_name: PresetName = "fast",
    console: Console | None = None,
) -> list[Path]:
    """Draws the figures into `root/figures`; `budget` is minutes for all their runs together, None the worlds' own."""
    console = console or Console()
    wanted = list(FIGURES) if "all" in figures else list(dict.fromkeys(figures))
    unknown = [name for name in wanted if name not in FIGURES]
    if unknown:
        raise UserError(f"there is no figure '{unknown[0]}'; there are: all, {', '.join(FIGURES)}")
    if not wanted:
        raise UserError(f"name the figures to draw: all, {', '.join(FIGURES)}")
    if seeds < 1 or (budget is not None and not 0 < budget < float("inf")):
        raise UserError("seeds must be at least 1 and the budget above 0")
    refuse_unless_writable(root)
    plans = {name: FIGURES[name].runs(seeds, preset_name == "tiny") for name in wanted}
    runs = list(dict.fromkeys(run for plan in plans.values() for run in plan))
    minutes = round(budget / len(runs), 3) if budget else None
    root.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str((root / ".compiled").resolve()))
    for number, run in enumerate(runs):
        console.print(f"run {number + 1} of {len(runs)}: {run.name}", soft_wrap=True)
        ensure(run.config(minutes, preset_name), root / run.name, console)
    drawn = []
    for name, plan in plans.items():
        drawn.append(_draw(name, plan, root, minutes, preset_name))
        console.print(f"drew {drawn[-1]}", soft_wrap=True)
    return drawn


def _draw(name: str, plan: list[Run], root: Path, minutes: float | None, preset_name: PresetName) -> Path:
    figure, path = FIGURES[name], root / "figures" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    folders = {run: root / run.name for run in plan}
    figure.draw(Drawn(folders, path, figure.what))
    about = {
        "what": figure.what,
        "seeds": sorted({run.seed for run in plan}),
        "machine": machine(),
        "methods": _methods(folders),
        "runs": [
            {
                "command": run.command(minutes, preset_name),
                "success": load_final(folder).success,
                "evaluations": _evaluations(folder),
            }
            for run, folder in folders.items()
        ],
    }
    path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")
    return path


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


def _config_name(preset_name: PresetName) -> Literal["fast", "paper"]:
    return "paper" if preset_name == "paper" else "fast"


def _evaluations(folder: Path) -> list[dict[str, Any]]:
    kept = ("steps", "seconds", "success", "per_dimension", "random")
    return [{k: row[k] for k in kept} for row in RunFolder(folder).metrics() if "success" in row]


def _bars(drawn: Drawn) -> None:
    panels, random = {}, {}
    for env in drawn.distinct("env"):
        panels[env] = {
            method: {
                strategy: [load_final(path).success for path in drawn.over_seeds(env, method, strategy)]
                for strategy in drawn.distinct("strategy")
            }
            for method in drawn.distinct("method")
        }
        random[env] = load_final(drawn.first_seeds(env)[0][1]).random
    draw_bars(panels, random, drawn.path)


def _curves(drawn: Drawn) -> None:
    panels = {}
    for env in drawn.distinct("env"):
        for strategy in drawn.distinct("strategy"):
            found = {method: drawn.over_seeds(env, method, strategy) for method in drawn.distinct("method")}
            title = f"{env}, {strategy} buffer" if strategy else env
            panels[title] = {
                method: [[(row["steps"], row["success"]) for row in _evaluations(path)] for path in paths]
                for method, paths in found.items()
                if paths
            }
    draw_curves(panels, drawn.path)


def _heat_maps(drawn: Drawn) -> None:
    panels = {}
    for env in drawn.distinct("env"):
        for method, path in drawn.first_seeds(env):
            rows = _evaluations(path)
            names = list(rows[0]["per_dimension"]) if rows else []
            shares = np.array([[row["per_dimension"][name] for row in rows] for name in names])
            panels[f"{env}, {method}"] = (names, np.array([row["steps"] for row in rows], float), shares)
    draw_heat_maps(panels, drawn.path)


def _strips(drawn: Drawn) -> None:
    _images(drawn, "achieved")


def _averages(drawn: Drawn) -> None:
    _images(drawn, "average")


def _images(drawn: Drawn, which: Literal["achieved", "average"]) -> None:
    """Goals of each world above what each method made of them."""
    rows: dict[str, np.ndarray] = {}
    for env in drawn.distinct("env"):
        for method, path in drawn.first_seeds(env):
            final = load_final(path)
            rows.setdefault(f"{env}\ngoal", final.goals)
            rows[f"{env}\n{method}"] = getattr(final, which)
    draw_strips(rows, drawn.path, drawn.what)


def draw_runs(runs: list[Path], out: Path) -> list[Path]:
    """Curves, dimensions over training and what was achieved, from any runs that have finished."""
    if not runs:
        raise UserError("name at least one run to draw")
    distinct = len({path.name for path in runs}) == len(runs)
    above = Path(os.path.commonpath([path.resolve() for path in runs]))
    names = [path.name if distinct else "\n".join(path.resolve().relative_to(above).parts) for path in runs]
    folders = {
        Run(RunFolder(path).config().env, name, "", number): path
        for number, (name, path) in enumerate(zip(names, runs, strict=True))
    }
    for path in runs:
        load_final(path)  # before anything is drawn
    refuse_unless_writable(out)
    make_folder(out)
    drawn = []
    for name, draw in (("curves", _curves), ("heat-maps", _heat_maps), ("achieved", _strips), ("averages", _averages)):
        drawn.append(out / f"{name}.png")
        draw(Drawn(folders, drawn[-1], "Goals, and what was achieved"))
    return drawn


OURS, ONE, BOTH = ("DISCERN",), ("uniform",), ("uniform", "diverse")
ARENA, REACHER, CARTPOLE, MANIPULATOR = ("arena",), (SIX[1],), (SIX[5],), ("control/manipulator-bring_ball",)
FIGURES: dict[str, Figure] = {
    "atari-success": Figure("Success on Atari by method and goal buffer", GAMES, tuple(METHODS), BOTH, _bars),
    "atari-strips": Figure("Goals on Atari, and the last frames of single attempts", GAMES, OURS, BOTH[1:], _strips),
    "control-curves": Figure("Success over training, six domains", SIX, REWARDS, BOTH, _curves),
    "control-averages": Figure("Goals, and averages of what was achieved", SIX, OURS, ONE, _averages),
    "heat-maps": Figure("How often each dimension was reached", REACHER + CARTPOLE, REWARDS, ONE, _heat_maps),
    "cartpole": Figure("Goals, and averages of what was achieved", CARTPOLE, ("autoencoder", *OURS), ONE, _averages),
    "manipulator": Figure("How often each dimension was reached", MANIPULATOR, REWARDS, ONE, _heat_maps),
    "arena-success": Figure("Success on the arena by method", ARENA, tuple(METHODS), ONE, _bars),
    "arena-curves": Figure("Success over training on the arena, by method", ARENA, tuple(METHODS), ONE, _curves),
    "watermaze": Figure("Goals, and averages of what was achieved", ("watermaze",), OURS, ONE, _averages),
}
