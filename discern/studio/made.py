"""Goals made by hand: drawn on, named, kept as PNG files, and read again."""

import json
import re
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from discern.envs.base import EnvSpec
from discern.inference import as_observation
from discern.storage.run_folder import make_folder
from discern.studio.uploads import read_upload
from discern.studio.watching import Goal
from discern.types import UserError

FOLDER = Path("goals")
MEASURES = "discern measures"  # the text chunk of a PNG that keeps them
NAME = re.compile(r"\w[\w .+-]{0,59}")
Fill = Literal["median", "mean"]


class Box(NamedTuple):
    """A rectangle of pixels; the first row and column are in it, the last are not."""

    left: int
    top: int
    right: int
    bottom: int


def box_within(ends: list[float], shape: tuple[int, ...]) -> Box:
    """The rectangle between two corners [x, y, x, y], whichever they are, as far as it lies in the image."""
    (left, right), (top, bottom) = sorted((ends[0], ends[2])), sorted((ends[1], ends[3]))
    left, top = max(0, round(left)), max(0, round(top))
    box = Box(left, top, min(shape[1], max(left + 1, round(right))), min(shape[0], max(top + 1, round(bottom))))
    if box.left >= box.right or box.top >= box.bottom:
        raise UserError("the rectangle lies outside the picture: draw another")
    return box


def background(frames: list[np.ndarray], kind: Fill) -> np.ndarray:
    """What stands still in frames [M, H, W, 3], pixel by pixel: their median, or their mean."""
    stacked = np.stack(frames)
    return (np.median(stacked, 0) if kind == "median" else stacked.mean(0)).round().astype(np.uint8)


def erase(image: np.ndarray, box: Box, behind: np.ndarray) -> np.ndarray:
    """The image with what is behind it in a rectangle."""
    return paste(image, box, behind, box)


def paste(image: np.ndarray, to: Box, other: np.ndarray, part: Box) -> np.ndarray:
    """The image with a part of another, whose upper left corner goes to that of `to`; what would hang over is cut."""
    height = min(part.bottom - part.top, image.shape[0] - to.top)
    width = min(part.right - part.left, image.shape[1] - to.left)
    pasted = image.copy()
    there = other[part.top : part.top + height, part.left : part.left + width]
    pasted[to.top : to.top + height, to.left : to.left + width] = there
    return pasted


def folder_of(world: str, root: Path = FOLDER) -> Path:
    """Where the goals of a world are kept, goals/atari/seaquest."""
    parts = [re.sub(r"[^\w.+-]+", "-", part).lstrip(".") for part in world.split("/")]
    return root.joinpath(*filter(None, parts))


def save_goal(goal: Goal, name: str, world: str, root: Path = FOLDER) -> Path:
    """Writes a goal as a PNG, with its measures where they are known; a name that is taken is refused."""
    if not NAME.fullmatch(name := name.strip()):
        raise UserError("name the goal in up to 60 letters, digits, spaces and . + -, beginning with a letter")
    path = folder_of(world, root) / f"{name}.png"
    make_folder(path.parent)
    text = PngInfo()
    if goal.measures is not None:
        text.add_text(MEASURES, json.dumps([float(value) for value in goal.measures]))
    try:
        with path.open("xb") as file:
            Image.fromarray(goal.image).save(file, "PNG", pnginfo=text)
    except FileExistsError:
        raise UserError(f"there is a goal “{name}” already: choose another name") from None
    return path


def saved_goals(spec: EnvSpec, root: Path = FOLDER) -> list[Goal]:
    """The goals kept for a world, the newest first, as it shows pictures; files that are none are passed over."""
    files = sorted(folder_of(spec.name, root).glob("*.png"), key=lambda file: (-file.stat().st_mtime, file.name))
    goals = []
    for file in files:
        try:
            image, _ = read_upload(file)
        except UserError:
            continue
        pixels = as_observation(image, spec.image_shape, file.name)
        goals.append(Goal(pixels, file.stem, _measures(file, len(spec.dimensions))))
    return goals


def _measures(file: Path, dimensions: int) -> np.ndarray | None:
    """What a PNG says of the scored dimensions, [D]; None where it says nothing that could be them."""
    with Image.open(file) as image:
        said = getattr(image, "text", {}).get(MEASURES, "")
    try:
        values = np.array(json.loads(said), np.float32)
    except (ValueError, TypeError):
        return None
    return values if values.shape == (dimensions,) and np.isfinite(values).all() and dimensions else None
