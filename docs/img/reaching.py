"""Draws reaching.gif: the agent of agents/arena-84 after one goal and then another, goal and world side by side."""

from pathlib import Path

import numpy as np
from PIL import Image

import discern
from discern.evaluation.goal_sets import goal_set

ROOT = Path(__file__).parent.parent.parent
GOALS = (11, 88, 45, 71, 18)  # of the half to choose by: corners, edges and the middle
SCALE, GAP, HELD = 3, 18, 8  # a pixel's size, between the pictures, and for how many frames an end is held


def draw(path: Path) -> None:
    agent, env = discern.load(ROOT / "agents" / "arena-84"), discern.make_env("arena/84")
    goals = goal_set(env, "tune").images
    frames = []
    for seed, index in enumerate(GOALS):
        reached = agent.reach(env, goals[index], seed)
        shown = [beside(reached.goal, frame) for frame in reached.observations]
        frames += [*shown, *[shown[-1]] * HELD]
    palette = Image.fromarray(np.concatenate(frames[:: len(frames) // 6])).quantize(32)
    first, *rest = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    first.save(path, save_all=True, append_images=rest, duration=70, loop=0, optimize=True)


def beside(goal: np.ndarray, world: np.ndarray) -> np.ndarray:
    """[H, W, 3] twice → one picture, larger, the goal on the left."""
    large = [image.repeat(SCALE, axis=0).repeat(SCALE, axis=1) for image in (goal, world)]
    return np.concatenate([large[0], np.full((len(large[0]), GAP, 3), 255, np.uint8), large[1]], axis=1)


if __name__ == "__main__":
    draw(Path(__file__).with_suffix(".gif"))
