"""Our pictures beside dm_control's own OpenGL, in the same random states.

`uv run python -m tests.opengl` draws, where there is OpenGL, the few that ship for machines without it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from PIL import Image

from discern.envs.control.tasks import DOMAINS
from discern.envs.control.world import Control, Look, stage_of
from discern.rendering import Poses, silhouettes
from tests.gl_reference import NO_OPENGL, SIDE

GEOM, SITE = 5, 6  # MuJoCo's numbers for kinds of objects
SHIPPED = Path(__file__).parent / "pictures"
SHIPPED_STATES = 8
NAMES = [name for name in DOMAINS if name != "cartpole-balance"]  # it looks like cartpole-swingup


class Reference(NamedTuple):
    """What dm_control's OpenGL shows in N states."""

    images: np.ndarray  # uint8 [N, 84, 84, 3]
    outlines: np.ndarray  # bool [N, 84, 84], where something is seen that moves
    poses: Poses
    seconds: np.ndarray | None = None  # [2], of all cores and of the clock, for one picture


class Comparison(NamedTuple):
    ours: np.ndarray  # uint8 [N, 84, 84, 3]
    difference: np.ndarray  # [N], mean absolute difference of each picture, of 255
    overlap: float  # intersection over union of the outlines of what moves, over all pictures


def draw_with_opengl(name: str, count: int) -> Reference | None:
    """In `count` random states; None where there is no OpenGL."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "reference.npz"
        program = [sys.executable, str(Path(__file__).parent / "gl_reference.py"), name, str(count), str(file)]
        for backend in ("egl", "osmesa"):
            chosen = os.environ | {"MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
            answer = subprocess.run(program, env=chosen, capture_output=True, text=True)
            if answer.returncode == 0:
                return _read(name, dict(np.load(file)))
            assert answer.returncode == NO_OPENGL, answer.stderr
    return None


def _read(name: str, shown: dict[str, np.ndarray]) -> Reference:
    scene, labels = stage_of(name).scene, shown["labels"]
    drawn = scene.drawn
    geoms, sites = (drawn.number[drawn.moves & (drawn.is_site == is_site)] for is_site in (False, True))
    ends = list(scene.string.ends) if scene.string else []
    position = np.concatenate([shown["geom_xpos"][:, geoms], shown["site_xpos"][:, [*sites, *ends]]], 1)
    rotation = np.concatenate([shown["geom_xmat"][:, geoms], shown["site_xmat"][:, sites]], 1)
    outlines = np.zeros(labels.shape[:3], bool)
    for kind, moving in ((GEOM, geoms), (SITE, sites)):
        outlines |= (labels[..., 1] == kind) & np.isin(labels[..., 0], moving)
    poses = Poses(position.astype(np.float32), rotation.astype(np.float32))
    return Reference(shown["images"], outlines, poses, np.median(shown["seconds"], axis=0))


def compare(name: str, theirs: Reference) -> Comparison:
    env, stage = Control(name, 1), stage_of(name)
    ours = np.asarray(env.observe(Look(*theirs.poses, np.zeros((len(theirs.images), 0), np.float32))))
    env.close()
    outlines = np.asarray(jax.jit(lambda poses: silhouettes(stage, poses))(theirs.poses))
    difference = np.abs(ours.astype(int) - theirs.images).mean((1, 2, 3))
    overlap = (outlines & theirs.outlines).sum() / (outlines | theirs.outlines).sum()
    return Comparison(ours, difference, float(overlap))


def ship() -> None:
    """Pictures above outlines, a .png for each domain; their poses in one file."""
    poses = {}
    for name in NAMES:
        reference = draw_with_opengl(name, SHIPPED_STATES)
        assert reference is not None, "there is no OpenGL here"
        outlines = np.repeat(255 * reference.outlines[..., None].astype(np.uint8), 3, axis=-1)
        rows = [np.concatenate(list(row), axis=1) for row in (reference.images, outlines)]
        Image.fromarray(np.concatenate(rows)).save(SHIPPED / f"{name}.png", optimize=True)
        poses |= {f"{name}/{part}": array for part, array in reference.poses._asdict().items()}
    np.savez_compressed(SHIPPED / "poses.npz", **poses)


def shipped(name: str) -> Reference:
    """What `ship` wrote."""
    sheet = np.asarray(Image.open(SHIPPED / f"{name}.png"))
    images, outlines = (np.stack(np.split(row, SHIPPED_STATES, axis=1)) for row in (sheet[:SIDE], sheet[SIDE:]))
    with np.load(SHIPPED / "poses.npz") as poses:
        return Reference(images, outlines[..., 0] > 0, Poses(*(poses[f"{name}/{part}"] for part in Poses._fields)))


if __name__ == "__main__":
    SHIPPED.mkdir(exist_ok=True)
    ship()
