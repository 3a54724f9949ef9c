"""Draws random states of the Control Suite with dm_control's own OpenGL: `python gl_reference.py task count file`.

It is a program of its own because OpenGL's back end is chosen before MuJoCo is imported.
"""

import os
import sys
from importlib import import_module

import numpy as np

SIDE = 84


def choose_backend() -> None:
    for backend in ("egl", "osmesa"):
        try:
            os.environ["MUJOCO_GL"] = os.environ["PYOPENGL_PLATFORM"] = backend
            import_module("OpenGL.GL").glGetError  # noqa: B018
            return
        except (ImportError, AttributeError):
            continue


def main(task: str, count: int, file: str) -> None:
    choose_backend()
    suite = import_module("dm_control.suite")
    randomise = import_module("dm_control.suite.utils.randomizers").randomize_limited_and_rotational_joints
    env = suite.load(*task.split("-"), task_kwargs={"random": 7})
    chance = np.random.default_rng(7)
    low, high = env.action_spec().minimum, env.action_spec().maximum
    images, labels, poses = [], [], []
    for i in range(count):
        env.reset()
        for _ in range(chance.integers(0, 30)):
            env.step(chance.uniform(low, high))
        if i % 2:  # random play alone would leave some poses unseen
            randomise(env.physics, env.task.random)
        env.physics.forward()
        images.append(env.physics.render(SIDE, SIDE, camera_id=0))
        labels.append(env.physics.render(SIDE, SIDE, camera_id=0, segmentation=True))
        data = env.physics.data
        poses.append([data.geom_xpos, data.geom_xmat.reshape(-1, 3, 3), data.site_xpos, data.qpos])
        poses[-1] = [np.array(part) for part in poses[-1]]
    names = ("geom_xpos", "geom_xmat", "site_xpos", "qpos")
    arrays = dict(zip(names, map(np.stack, zip(*poses, strict=True)), strict=True))
    np.savez(file, images=np.stack(images), labels=np.stack(labels), **arrays)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
