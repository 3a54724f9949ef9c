"""Pictures of a run: its curve, goals above what was achieved, and success over the steps a goal may take."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display is needed, and none is asked for
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from discern.evaluation.achievement import Score
from discern.evaluation.goal_sets import GoalSet

STRIP = 10
WORST = 8
MARKERS = "os^Dvx"


def draw_curve(rows: list[dict], path: Path) -> None:
    """Success on held-out goals, or where there is none how many are told apart, and the teacher's accuracy."""
    scored = any("success" in row for row in rows)
    apart = (
        ("told_apart", "held-out goals told apart (tune half)", "k-o"),
        ("told_apart_pixels", "the same by pixels", "k-x"),
        ("told_apart_random", "random policy", "k:"),
    )
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, label, style in (
        ("success", "held-out goals reached (tune half)", "k-o"),
        ("random", "random policy", "k:"),
        *(() if scored else apart),
        ("teacher_accuracy", "teacher accuracy on intended goals", "b--"),
    ):
        points = [(row["steps"], row[name]) for row in rows if name in row]
        if points:
            steps, values = np.array(points).T
            axes.plot(steps, 100 * values, style, markersize=3, label=label)
    axes.set(xlabel="agent steps", ylabel="%", ylim=(0, 102))
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_goals(goals: GoalSet, score: Score, path: Path) -> None:
    """Goals spread over the set, each above the last frame of its first attempt."""
    often = None if score.success is None else score.by_goal
    under = "; how often each goal was reached under it" if often is not None else ""
    _draw_pairs(goals.images, score.final_images, f"goal above, achieved below{under}", path, often)


def draw_worst(goals: GoalSet, score: Score, path: Path) -> None:
    """The goals that were reached least, each above the last frame of its first attempt, its share under it."""
    worst = np.argsort(score.by_goal, kind="stable")[:WORST]
    title = f"of {len(score.by_goal)} goals those reached least, above what the first attempt achieved"
    _draw_pairs(goals.images[worst], score.final_images[worst], title, path, score.by_goal[worst])


def draw_averages(goals: GoalSet, average_final_images: np.ndarray, path: Path) -> None:
    """Goals spread over the set, each above the mean of the last frames of all attempts at it, uint8 [M, H, W, 3]."""
    _draw_pairs(goals.images, average_final_images, "goal above, average of what was achieved below", path)


def draw_budgets(agents: dict[str, dict[int, dict[str, Any]]], path: Path) -> None:
    """Success over the number of steps a goal may take, a line for each agent: {name: {steps: {"success",
    "at_some_step"}}}; dashed, the attempts that were at the goal at some step."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for number, (name, budgets) in enumerate(agents.items()):
        look: dict[str, Any] = {"color": f"C{number}", "marker": MARKERS[number % len(MARKERS)], "markersize": 4}
        steps = sorted(budgets)
        for share, style, label in (("success", "-", name), ("at_some_step", "--", f"{name}, at some step")):
            values = [100 * budgets[n][share] for n in steps]
            axes.plot(steps, values, linestyle=style, label=label, **look)
    axes.set(xlabel="steps to reach the goal in", ylabel="held-out goals reached, %", ylim=(0, 102), xlim=(0, None))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_pairs(above: np.ndarray, below: np.ndarray, title: str, path: Path, shares: np.ndarray | None = None) -> None:
    """A strip of pairs of images [M, H, W, 3], spread over the M, with shares [M] written under them."""
    chosen = np.linspace(0, len(above) - 1, min(STRIP, len(above))).round().astype(int)
    figure, axes = plt.subplots(2, len(chosen), figsize=(1.2 * len(chosen), 2.7), layout="constrained", squeeze=False)
    for column, index in enumerate(chosen):
        for row, image in enumerate((above[index], below[index])):
            axes[row, column].imshow(image, interpolation="nearest")
            axes[row, column].set(xticks=[], yticks=[])
        if shares is not None:
            axes[1, column].set_xlabel(f"{shares[index]:.0%}")
    axes[0, 0].set_ylabel("goal")
    axes[1, 0].set_ylabel("achieved")
    figure.suptitle(title, fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)
