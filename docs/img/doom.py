"""Draws doom.png: both Doom worlds from above, with their fixed goals, and some of the goals."""

import importlib.util
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from discern.envs import make_scored_env, opened
from discern.envs.doom.maps import WORLDS, room
from discern.evaluation.goal_sets import GoalSet, goal_set

ROWS, COLUMNS = 3, 5


def draw(path: Path) -> None:
    figure = plt.figure(figsize=(13, 8.4), layout="constrained")
    for part, (name, world) in zip(figure.subfigures(2, 1), WORLDS.items(), strict=True):
        with opened(make_scored_env(f"doom/{name}", 25)) as env:
            goals = goal_set(env, "tune")
        shown = np.linspace(0, len(goals.images) - 1, ROWS * COLUMNS).round().astype(int)
        plan, views = part.subfigures(1, 2, width_ratios=(1, 1.65))
        draw_map(plan.subplots(), walls(world.scenario), goals, shown)
        plan.suptitle(f"doom/{name}")
        for view, i in zip(views.subplots(ROWS, COLUMNS).ravel(), shown, strict=True):
            view.imshow(goals.images[i], interpolation="nearest")
            view.set(xticks=[], yticks=[])
            view.set_title(f"goal {i}", fontsize=8)
    figure.savefig(path, dpi=70)
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


def draw_map(axes, lines: np.ndarray, goals: GoalSet, shown: np.ndarray) -> None:
    """Walls, goals with where they look, and in colour those whose views are shown."""
    axes.plot(*lines.T, color="#2e5cb2", linewidth=2)
    for poses, colour in ((goals.measures, "#7a8699"), (goals.measures[shown], "#c22b2b")):
        x, y, angle = poses.T
        axes.quiver(x, y, np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle)), color=colour, scale=22, width=0.005)
    for i in shown:
        axes.annotate(
            str(i), goals.measures[i, :2], fontsize=7, color="#c22b2b", xytext=(4, 4), textcoords="offset points"
        )
    axes.set(aspect="equal", xlabel="x", ylabel="y")


def walls(scenario: str | None) -> np.ndarray:
    """The ends of a level's solid walls, from its UDMF text: [walls, 2, 2]."""
    package = Path(importlib.util.find_spec("vizdoom").origin).parent
    text = (room() if scenario is None else (package / "scenarios" / scenario).read_bytes()).decode("latin1")
    blocks = re.findall(r"(vertex|linedef)[^{;]*\{(.*?)\}", text, re.S)
    fields = [(kind, dict(re.findall(r"(\w+)\s*=\s*([^;]+);", body))) for kind, body in blocks]
    points = np.array([(float(one["x"]), float(one["y"])) for kind, one in fields if kind == "vertex"])
    ends = [(int(one["v1"]), int(one["v2"])) for kind, one in fields if kind == "linedef" and "sideback" not in one]
    return points[np.array(ends)]


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".png"))
