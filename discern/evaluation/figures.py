"""Pictures of a run: its curve, and goals above what was achieved."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display is needed, and none is asked for
import matplotlib.pyplot as plt
import numpy as np

from discern.evaluation.achievement import Score
from discern.evaluation.goal_sets import GoalSet

STRIP = 10


def draw_curve(rows: list[dict], path: Path) -> None:
    """Success on held-out goals and the teacher's accuracy against agent steps."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, label, style in (
        ("success", "held-out goals reached", "k-o"),
        ("random", "random policy", "k:"),
        ("teacher_accuracy", "teacher accuracy on intended goals", "b--"),
    ):
        points = [(row["steps"], row[name]) for row in rows if name in row]
        if points:
            steps, values = np.array(points).T
            axes.plot(steps, 100 * values, style, markersize=3, label=label)
    axes.set(xlabel="agent steps", ylabel="%", ylim=(0, 102))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_goals(goals: GoalSet, score: Score, path: Path) -> None:
    """Goals spread over the set, each above the last frame of its first attempt."""
    chosen = np.linspace(0, len(goals.images) - 1, min(STRIP, len(goals.images))).round().astype(int)
    figure, axes = plt.subplots(2, len(chosen), figsize=(1.2 * len(chosen), 2.7), layout="constrained", squeeze=False)
    for column, index in enumerate(chosen):
        for row, image in enumerate((goals.images[index], score.final_images[index])):
            axes[row, column].imshow(image, interpolation="nearest")
            axes[row, column].set(xticks=[], yticks=[])
        if score.success is not None:
            axes[1, column].set_xlabel(f"{score.by_goal[index]:.0%}")
    axes[0, 0].set_ylabel("goal")
    axes[1, 0].set_ylabel("achieved")
    often = "; how often each goal was reached under it" if score.success is not None else ""
    figure.suptitle(f"goal above, achieved below{often}", fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)
