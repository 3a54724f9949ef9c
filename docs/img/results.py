"""Draws the figures of docs/results.md from the measurements in results/: uv run python docs/img/results.py"""

import json
from pathlib import Path

import numpy as np

from discern.evaluation.comparisons import draw_bars, draw_curves, draw_heat_maps
from discern.evaluation.figures import draw_budgets

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
EQUAL_SECONDS = 440  # what the baselines of the Control Suite were given


def result(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def runs(name: str) -> dict:
    return result(name)["runs"]


def success(run: dict) -> list[tuple[float, float]]:
    return [(row["steps"], row["success"]) for row in run.get("curve", run.get("evaluations"))]


def within(run: dict, seconds: float) -> dict:
    return {"curve": [row for row in run["curve"] if row["seconds"] <= seconds]}


def until(curve: list[tuple[float, float]], steps: float) -> list[tuple[float, float]]:
    return [point for point in curve if point[0] <= steps]


def dimensions(run: dict) -> tuple[list[str], np.ndarray, np.ndarray]:
    names = list(run["curve"][0]["per_dimension"])
    shares = np.array([[row["per_dimension"][name] for row in run["curve"]] for name in names])
    return names, np.array([row["steps"] for row in run["curve"]], float), shares


def main() -> None:
    domains = {"point_mass": runs("control_first_runs_h200")["point_mass"], **runs("control_second_runs_h200")}
    draw_heat_maps({"manipulator": dimensions(domains.pop("manipulator"))}, HERE / "manipulator-dimensions.png")
    draw_curves({name: {"DISCERN": [success(run)]} for name, run in domains.items()}, HERE / "control-curves.png")

    rewards = {
        world: {method: within(run, EQUAL_SECONDS) for method, run in methods.items()}
        for world, methods in runs("control_rewards_h200").items()
    }
    curves = {world: {m: [success(run)] for m, run in methods.items()} for world, methods in rewards.items()}
    draw_curves(curves, HERE / "control-rewards.png")
    maps = {f"{world}, {m}": dimensions(run) for world, methods in rewards.items() for m, run in methods.items()}
    draw_heat_maps(maps, HERE / "control-dimensions.png")

    second, fifth, sixth = (runs(f"atari_{which}_runs_h200") for which in ("second", "fifth", "sixth"))
    montezuma = "montezuma_revenge, as many decoys as the teacher is ready for, persistent exploration"
    annealed, hidden, before = "annealed", "T = 25, a part hidden", "T = 50"
    last = {run["name"]: run for run in runs("last_frames_h200")}
    games = {
        "Seaquest": {
            annealed: last["seaquest_anneal"],
            hidden: sixth["seaquest, 13.1 minutes"],
            "T = 25": sixth["seaquest, 3072 environments"],
            before: fifth["seaquest"],
        },
        "Montezuma's Revenge": {
            annealed: last["montezuma_anneal"],
            hidden: sixth["montezuma_revenge, 13.1 minutes"],
            before: second[montezuma],
        },
    }
    curves = {game: {label: [success(run)] for label, run in tried.items()} for game, tried in games.items()}
    draw_curves(curves, HERE / "atari-curves.png")

    methods = result("arena_methods_cpu")
    arena = {method: given["seeds"] for method, given in methods["runs"].items()}
    ends = {method: {"uniform": [seed["success"] for seed in seeds]} for method, seeds in arena.items()}
    draw_bars({"arena": ends}, {"arena": methods["random"]}, HERE / "arena-success.png")
    curves = {"arena": {method: [success(seed) for seed in seeds] for method, seeds in arena.items()}}
    draw_curves(curves, HERE / "arena-curves.png")

    learns = {
        "as given": "paper_arena84",
        "layer norm": "paper_norm",
        "four goals": "paper_goals",
        "Adam": "paper_adam",
    }
    does_not = {"RMSProp 3e-4": "paper_rate", "replay ratio 4": "paper_ratio4", "target network": "paper_target"}
    back = {"RMSProp 1e-4": "fast_rmsprop", "one goal": "fast_draw", "no layer norm": "fast_no_norm"}
    back |= {"replay ratio 1": "fast_ratio1", "batches of 32": "fast_batch32"}
    bisected = {run["name"]: [until(success(run), 16_000_000)] for run in runs("paper_bisection_h200")}
    curves = {
        title: {label: bisected[name] for label, name in names.items()}
        for title, names in (("paper with …", learns), ("paper with … (goes on)", does_not), ("fast with …", back))
    }
    draw_curves(curves, HERE / "paper-bisection.png")

    seaquest = {method: [success(run)] for method, run in runs("seaquest_methods_h200").items()}
    draw_curves({"Seaquest": seaquest}, HERE / "seaquest-methods.png")

    agents, held = result("budgets_cpu")["agents"], {"reacher": 4}  # control steps an action is held for
    budgets = {
        name: {int(steps) * held.get(name, 1): at for steps, at in agent["budgets"].items()}
        for name, agent in agents.items()
    }
    draw_budgets(budgets, HERE / "budgets.png")


if __name__ == "__main__":
    main()
