"""The figures: which runs each compares, and how it is drawn from their folders."""

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from discern.evaluation.comparisons import draw_bars, draw_curves, draw_heat_maps, draw_strips
from discern.evaluation.final import load_final
from discern.presets import PresetName
from discern.reproduce.runs import GAMES, PAPERS, PARTS, REWARDS, SIX, TRIALS, Run
from discern.storage.run_folder import RunFolder, make_folder, refuse_unless_writable
from discern.types import UserError


@dataclass(frozen=True)
class Figure:
    """Which worlds, methods and buffers a figure compares, and how it is drawn."""

    what: str
    envs: tuple[str, ...]
    methods: tuple[str, ...]
    strategies: tuple[str, ...]
    draw: Callable[["Drawn"], None]
    tuned: bool = False  # each method by trials of equal cost, in each world

    def worlds(self, preset_name: PresetName) -> tuple[str, ...]:
        return ARENA if preset_name == "tiny" else self.envs

    def runs(self, seeds: int, preset_name: PresetName, worlds: Collection[str] = ()) -> list[Run]:
        """All of them, or those in the given worlds; what would be the preset again under another name is left out."""
        runs = [
            Run(env, method, strategy, seed)
            for env in self.worlds(preset_name)
            if env in worlds or not worlds
            for method in self.methods
            for strategy in self.strategies
            for seed in range(seeds)
        ]
        return [run for run in runs if not run.leaves_nothing_out(preset_name)]


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


def evaluations(folder: Path) -> list[dict[str, Any]]:
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
                method: [[(row["steps"], row["success"]) for row in evaluations(path)] for path in paths]
                for method, paths in found.items()
                if paths
            }
    draw_curves(panels, drawn.path)


def _heat_maps(drawn: Drawn) -> None:
    panels = {}
    for env in drawn.distinct("env"):
        for method, path in drawn.first_seeds(env):
            rows = evaluations(path)
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


OURS, ONE, BOTH, OWN = ("DISCERN",), ("uniform",), ("uniform", "diverse"), ("preset",)
ARENA, REACHER, CARTPOLE, MANIPULATOR = ("arena",), (SIX[1],), (SIX[5],), ("control/manipulator-bring_ball",)
FIVE, THREE = (*ARENA, GAMES[0], *REACHER, *CARTPOLE, SIX[4]), (*ARENA, *REACHER, *CARTPOLE)
FIGURES: dict[str, Figure] = {
    "atari-success": Figure("Success on Atari by method and goal buffer", GAMES, PAPERS, BOTH, _bars),
    "atari-strips": Figure("Goals on Atari, and the last frames of single attempts", GAMES, OURS, BOTH[1:], _strips),
    "control-curves": Figure("Success over training, six domains", SIX, REWARDS, BOTH, _curves),
    "control-averages": Figure("Goals, and averages of what was achieved", SIX, OURS, ONE, _averages),
    "heat-maps": Figure("How often each dimension was reached", REACHER + CARTPOLE, REWARDS, ONE, _heat_maps),
    "cartpole": Figure("Goals, and averages of what was achieved", CARTPOLE, ("autoencoder", *OURS), ONE, _averages),
    "manipulator": Figure("How often each dimension was reached", MANIPULATOR, REWARDS, ONE, _heat_maps),
    "arena-success": Figure("Success on the arena by method", ARENA, PAPERS, ONE, _bars),
    "arena-curves": Figure("Success over training on the arena, by method", ARENA, PAPERS, ONE, _curves),
    "rewards": Figure("Success by reward, each tuned at equal cost", FIVE, tuple(TRIALS), ONE, _bars, tuned=True),
    "parts": Figure("What each part earns: the preset with one left out", THREE, ("preset", *PARTS), OWN, _bars),
    "watermaze": Figure("Goals, and averages of what was achieved", ("watermaze",), OURS, ONE, _averages),
}
