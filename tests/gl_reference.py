"""Draws random states of the Control Suite with dm_control's own OpenGL: `python gl_reference.py task count file`.

It is a program of its own because OpenGL's back end, MUJOCO_GL, is chosen before MuJoCo is imported.
"""

import sys
import time
from importlib import import_module

import numpy as np

SIDE = 84
NO_OPENGL = 3  # the exit code that says so
POSES = ("geom_xpos", "geom_xmat", "site_xpos", "site_xmat")


def open_camera(task: str):
    """The task's world and its camera, or the end of the program where the back end does not work."""
    try:
        env = import_module("dm_control.suite").load(*task.split("-"), task_kwargs={"random": 7})
        return env, import_module("dm_control.mujoco.engine").Camera(env.physics, SIDE, SIDE, camera_id=0)
    except Exception as error:  # a missing library shows in many ways
        print(f"OpenGL does not work: {error!r}", file=sys.stderr)
        sys.exit(NO_OPENGL)


def main(task: str, count: int, file: str) -> None:
    env, camera = open_camera(task)
    randomise = import_module("dm_control.suite.utils.randomizers").randomize_limited_and_rotational_joints
    chance = np.random.default_rng(7)
    low, high = env.action_spec().minimum, env.action_spec().maximum
    shown: dict[str, list] = {"images": [], "labels": [], "seconds": [], **{name: [] for name in POSES}}
    for i in range(count):
        env.reset()
        for _ in range(chance.integers(0, 30)):
            env.step(chance.uniform(low, high))
        if i % 2:  # random play alone would leave some poses unseen
            randomise(env.physics, env.task.random)
        env.physics.forward()
        began = np.array([time.process_time(), time.perf_counter()])
        shown["images"].append(camera.render().copy())
        shown["seconds"].append(np.array([time.process_time(), time.perf_counter()]) - began)
        shown["labels"].append(camera.render(segmentation=True).copy())
        for name in POSES:
            shown[name].append(np.array(getattr(env.physics.data, name)))
    arrays = {name: np.stack(values) for name, values in shown.items()}
    for name in ("geom_xmat", "site_xmat"):
        arrays[name] = arrays[name].reshape((count, -1, 3, 3))
    np.savez(file, **arrays)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
