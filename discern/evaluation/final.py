"""What a finished run achieved on its test goals, kept beside its pictures so that figures can be drawn again."""

import os
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from discern.evaluation.achievement import Score
from discern.evaluation.goal_sets import GoalSet
from discern.evaluation.told_apart import row
from discern.storage.run_folder import RunFolder
from discern.types import UserError


class Final(NamedTuple):
    """The last evaluation of a run."""

    success: float  # NaN where no dimension is scored, as the next two
    at_some_step: float
    random: float  # success of the random policy
    goal_set: str
    goals: np.ndarray  # uint8 [M, H, W, 3]
    achieved: np.ndarray  # uint8 [M, H, W, 3], the first attempt's last frame
    average: np.ndarray  # uint8 [M, H, W, 3], over all attempts
    by_goal: np.ndarray  # float32 [M]
    told_apart: float = np.nan  # NaN where it was not asked for, as the next two
    told_apart_pixels: float = np.nan
    told_apart_random: float = np.nan


def save_final(folder: RunFolder, goals: GoalSet, score: Score, random: Score) -> None:
    """Writes final.npz, whole or not at all: its presence says that the run has finished."""
    path = folder.path / "final.npz"
    unfinished = path.with_suffix(".tmp")
    success, passed, chance = (
        np.nan if share is None else share for share in (score.success, score.at_some_step, random.success)
    )
    images = (goals.images, score.final_images, score.average_images)
    with unfinished.open("wb") as file:
        apart: Any = row(score.told_apart, random.told_apart, None)
        final = Final(success, passed, chance, goals.name, *images, score.by_goal, **apart)
        np.savez_compressed(file, **final._asdict())
    os.replace(unfinished, path)


def save_strip(goals: np.ndarray, achieved: np.ndarray, path: Path) -> None:
    """Some of the goals above what was achieved, [M, H, W, 3] each, for those who watch a run; quick, and put in
    place by one rename."""
    chosen = np.linspace(0, len(goals) - 1, min(10, len(goals))).round().astype(int)
    edge = max(1, goals.shape[1] // 24)
    framing = ((0, 0), (edge, edge), (edge, edge), (0, 0))
    framed = [np.pad(images[chosen], framing, constant_values=255) for images in (goals, achieved)]
    rows = [np.concatenate(images, axis=1) for images in framed]
    unfinished = path.with_suffix(".tmp")
    Image.fromarray(np.concatenate(rows)).save(unfinished, "PNG")
    os.replace(unfinished, path)


def forget_final(folder: RunFolder) -> None:
    """A run that goes on has not finished."""
    (folder.path / "final.npz").unlink(missing_ok=True)


def is_finished(run: str | Path) -> bool:
    return (Path(run) / "final.npz").exists()


def load_final(run: str | Path) -> Final:
    """What `save_final` wrote; before goal sets had halves it wrote less, of today's tune half."""
    try:
        with (Path(run) / "final.npz").open("rb") as file, np.load(file) as arrays:
            found: dict[str, Any] = {"at_some_step": np.nan, "random": np.nan, "goal_set": "tune"}
            found = Final._field_defaults | found | dict(arrays)
            whole: dict[str, Any] = {name: np.asarray(found[name]) for name in Final._fields}
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        raise UserError(f"{run} has not finished, it holds no whole final.npz: go on with --resume {run}") from None
    return Final(**{name: array if array.ndim else array.item() for name, array in whole.items()})
