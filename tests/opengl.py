"""Our pictures beside dm_control's own OpenGL, in the same random states."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from discern.envs.control import Control, Look, stage_of
from discern.pixels import Poses, silhouettes

GEOM, SITE = 5, 6  # MuJoCo's numbers for kinds of objects


class Comparison(NamedTuple):
    ours: np.ndarray  # uint8 [N, 84, 84, 3]
    theirs: np.ndarray  # uint8 [N, 84, 84, 3]
    difference: np.ndarray  # [N], mean absolute difference of each picture, of 255
    overlap: float  # intersection over union of the outlines of what moves, over all pictures


def compare(name: str, count: int, folder: Path) -> Comparison:
    file = folder / f"{name}.npz"
    program = [sys.executable, str(Path(__file__).parent / "gl_reference.py"), name, str(count), str(file)]
    subprocess.run(program, check=True, capture_output=True)
    reference = np.load(file)
    env, stage = Control(name, 1), stage_of(name)
    drawn, labels = stage.scene.drawn, reference["labels"]
    geoms, sites = (drawn.number[drawn.moves & (drawn.is_site == is_site)] for is_site in (False, True))
    ends = list(stage.scene.string.ends) if stage.scene.string else []
    position = np.concatenate([reference["geom_xpos"][:, geoms], reference["site_xpos"][:, [*sites, *ends]]], 1)
    rotation = np.concatenate([reference["geom_xmat"][:, geoms], reference["site_xmat"][:, sites]], 1)
    poses = Poses(position.astype(np.float32), rotation.astype(np.float32))
    images = np.asarray(env.observe(Look(*poses, np.zeros((count, 0), np.float32))))
    env.close()
    ours = np.asarray(jax.jit(lambda poses: silhouettes(stage, poses))(poses))
    theirs = np.zeros_like(ours)
    for kind, moving in ((GEOM, geoms), (SITE, sites)):
        theirs |= (labels[..., 1] == kind) & np.isin(labels[..., 0], moving)
    difference = np.abs(images.astype(int) - reference["images"]).mean((1, 2, 3))
    return Comparison(images, reference["images"], difference, float((ours & theirs).sum() / (ours | theirs).sum()))
