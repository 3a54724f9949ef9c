"""Draws watermaze.png: views from the middle, views from starts, and the pool from above."""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from discern.envs import make_env
from discern.envs.watermaze.view import INRADIUS, PICTURE_HALF, PICTURES, SIDES
from discern.envs.watermaze.world import Watermaze, WatermazeState
from discern.evaluation.goal_sets import goal_set


def draw(path: Path) -> None:
    maze = Watermaze()
    turns = jnp.arange(8) * jnp.pi / 4
    middle = WatermazeState(jnp.zeros((8, 2)), turns)
    starts = jax.vmap(maze.reset)(jax.random.split(jax.random.key(3), 8))
    figure = plt.figure(figsize=(13, 6.4), layout="constrained")
    views, plan = figure.subfigures(1, 2, width_ratios=(1, 1.05))
    axes = views.subplots(4, 4).ravel()
    images = np.asarray(jax.vmap(maze.observe)(jax.tree.map(lambda *parts: jnp.concatenate(parts), middle, starts)))
    titles = [f"middle, {45 * i}°" for i in range(8)] + [f"start {i + 1}" for i in range(8)]
    for view, image, title in zip(axes, images, titles, strict=True):
        view.imshow(image, interpolation="nearest")
        view.set(xticks=[], yticks=[])
        view.set_title(title, fontsize=8)
    draw_map(plan.subplots(), starts)
    figure.savefig(path, dpi=90)


def draw_map(axes, starts: WatermazeState) -> None:
    """Walls, pictures, the starts above and the fixed goals, each with where it looks."""
    corners = 2 * np.pi * (np.arange(SIDES + 1) + 0.5) / SIDES
    radius = INRADIUS / np.cos(np.pi / SIDES)
    axes.fill(radius * np.cos(corners), radius * np.sin(corners), facecolor="#dde7f6", edgecolor="#2e5cb2", linewidth=3)
    for i, picture in enumerate(PICTURES):
        angle = 2 * np.pi * i / len(PICTURES)
        hung, along = INRADIUS * np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        ends = np.stack([hung - PICTURE_HALF * along, hung + PICTURE_HALF * along])
        axes.plot(*ends.T, color=np.array(picture.mat) / 255, linewidth=8, solid_capstyle="butt")
        axes.plot(*hung, marker="o", markersize=5, color=np.array(picture.ink) / 255)
        axes.text(*(1.11 * hung), f"{45 * i}°", ha="center", va="center", fontsize=8)
    goals = goal_set(make_env("watermaze"), "tune").measures
    poses = np.concatenate([starts.place, starts.yaw[:, None]], axis=1)
    for (x, y, yaw), colour, name in ((goals.T, "#7a8699", "goals"), (poses.T, "#c22b2b", "starts")):
        axes.quiver(x, y, np.cos(yaw), np.sin(yaw), color=colour, scale=22, width=0.004, label=name)
    axes.set(aspect="equal", xlabel="x", ylabel="y", xlim=(-920, 920), ylim=(-920, 920))
    axes.legend(loc="lower right", fontsize=8, frameon=False)


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".png"))
