"""Videos of an agent pursuing goals."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from discern.envs import Env, Hosted, is_host, opened
from discern.evaluation.goal_sets import goal_set
from discern.evaluation.video import side_by_side, write_video
from discern.inference import Agent, load
from discern.machine import require
from discern.storage.run_folder import refuse_file
from discern.types import UserError

GOALS = 4
MOST_GOALS = 1000
LARGEST = 64_000_000  # pixels of an image; more would fill memory before it is shrunk


def record(
    run: str | Path,
    out: str | Path,
    goal: str | Path | None = None,
    goals: int | None = None,
    frames_per_second: int = 10,
    seed: int = 0,
) -> dict[str, float]:
    """Films the agent of a run pursuing one image, or `goals` goals spread over its world's goal set.

    Returns the number of frames, and the learned reward of the last observation averaged over the goals.
    """
    out = Path(out)
    refuse_file(out, "film", (".mp4", ".gif"))
    if out.suffix.lower() == ".mp4":
        require("video", "a .mp4")
    if goal is not None and goals is not None:
        raise UserError("name an image with --goal, or a number of goals with --goals, not both")
    if goals is not None and not 1 <= goals <= MOST_GOALS:
        raise UserError(f"--goals must lie between 1 and {MOST_GOALS}")
    if not 1 <= frames_per_second <= 60:
        raise UserError("--fps must lie between 1 and 60")
    if seed < 0:
        raise UserError(f"--seed must be 0 or more, not {seed}")
    image = None if goal is None else read_image(goal)
    agent = load(run)
    wanted = _spread_goals(agent, goals or GOALS) if image is None else agent.image(image, "the goal")[None]
    final: list[float] = []
    with opened(agent.make_env()) as env:
        frames = write_video(out, _film(agent, env, wanted, frames_per_second, seed, final), frames_per_second)
    return {"goals": len(wanted), "frames": frames, "final_reward": float(np.mean(final))}


def _film(
    agent: Agent, env: Env, goals: np.ndarray, frames_per_second: int, seed: int, final: list[float]
) -> Iterator[np.ndarray]:
    """Every goal in turn from a fresh start; what was achieved is shown for a second."""
    world = env if is_host(env) else Hosted(env, 1)
    for i, goal in enumerate(goals):
        reached = agent.reach(world, goal, seed + i)
        frames = side_by_side(reached.goal, reached.observations, reached.rewards)
        final.append(float(reached.rewards[-1]))
        yield from frames
        yield from [frames[-1]] * frames_per_second


def _spread_goals(agent: Agent, count: int) -> np.ndarray:
    """Goals of the test half of the world's usual set: uint8 [count, H, W, 3]."""
    with opened(agent.make_scored_env(count)) as env:
        images = goal_set(env, count=max(count, agent.config.evaluation_goals)).images
    return images[np.linspace(0, len(images) - 1, count).round().astype(int)]


def read_image(path: str | Path) -> np.ndarray:
    """The image in a file, uint8 [height, width, 3]; a UserError that says why otherwise."""
    try:
        with Image.open(path) as image:
            if image.width * image.height > LARGEST:
                raise UserError(f"{path} is too large: {image.width} × {image.height} pixels")
            return np.asarray(image.convert("RGB"))
    except FileNotFoundError:
        raise UserError(f"there is no image {path}") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise UserError(f"{path} is too large") from None
    except UnidentifiedImageError:
        raise UserError(f"{path} is not an image") from None
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{path} cannot be read as an image: {error}") from None
