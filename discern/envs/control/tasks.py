"""What the seven Control Suite domains are: actions, scored dimensions, and the first states of their episodes."""

import os
from dataclasses import dataclass, field
from itertools import product

import mujoco
import numpy as np

from discern.envs.base import Dimension
from discern.types import UserError

os.environ.setdefault("MUJOCO_GL", "disabled")  # dm_control looks for OpenGL, and fails to load where there is none

from dm_control import suite
from dm_control.mujoco.engine import Camera

STATE = mujoco.mjtState.mjSTATE_INTEGRATION.value


@dataclass(frozen=True)
class Domain:
    """How a domain differs from the others."""

    action_repeat: int = 1  # control steps for one action, if the config does not say
    one_actuator: bool = False  # an action moves one actuator at most
    placed: tuple[str, ...] = ()  # geoms of the world that the task puts somewhere else in every episode
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)  # of joints without limits, in random play
    periods: dict[str, float] = field(default_factory=dict)  # of hinges that look the same before a whole turn
    unseen: tuple[str, ...] = ()  # joints whose position no picture shows; they are not scored
    goals_from: str | None = None  # another task of the domain, from whose first states goals are made
    goal_steps: int = 25  # random steps from a first state to a goal


DOMAINS = {
    "point_mass-easy": Domain(action_repeat=5),
    "reacher-hard": Domain(placed=("target",)),
    "manipulator-bring_ball": Domain(
        one_actuator=True,
        placed=("target_ball",),
        ranges={"ball_x": (-1.0, 0.8), "ball_z": (0.0, 0.7)},
        unseen=("ball_y",),  # the ball's spin, of one colour all round
    ),
    "pendulum-swingup": Domain(),
    "finger-spin": Domain(periods={"hinge": np.pi}),  # the spinner's two halves are alike
    "ball_in_cup-catch": Domain(
        ranges={"cup_x": (-0.16, 0.16), "cup_z": (-0.24, 0.1), "ball_x": (-0.38, 0.43), "ball_z": (-0.19, 0.48)}
    ),
    "cartpole-swingup": Domain(goals_from="cartpole-balance", goal_steps=100),  # after 25 all poles still stand
    "cartpole-balance": Domain(),
}


def action_table(model: mujoco.MjModel, domain: Domain) -> np.ndarray:
    """The controls of each action: {−1, 0, 1}^A, or ± one actuator at a time and none. float64 [actions, A]."""
    low, high = model.actuator_ctrlrange.T
    return (low + high) / 2 + _directions(model, domain) * (high - low) / 2


def action_names(model: mujoco.MjModel, domain: Domain) -> tuple[str, ...]:
    """What each action does to the actuators, as in "shoulder −, wrist +"."""
    signs, actuators = {-1.0: "−", 1.0: "+"}, [model.actuator(i).name for i in range(model.nu)]
    pushed = [
        [f"{name} {signs[way]}" for name, way in zip(actuators, ways, strict=True) if way]
        for ways in _directions(model, domain).tolist()
    ]
    return tuple(", ".join(parts) or "rest" for parts in pushed)


def _directions(model: mujoco.MjModel, domain: Domain) -> np.ndarray:
    """Which way each action pushes each actuator, −1, 0 or 1: float64 [actions, A]."""
    chosen = np.array(list(product((-1.0, 0.0, 1.0), repeat=model.nu)))
    return chosen[np.abs(chosen).sum(1) <= 1] if domain.one_actuator else chosen


def dimensions(model: mujoco.MjModel, domain: Domain) -> tuple[Dimension, ...]:
    """One for each joint that can be seen; a hinge without limits goes round."""
    found = []
    for i in range(model.njnt):
        name = model.joint(i).name
        if name in domain.unseen:
            continue
        if name in domain.ranges:
            found.append(Dimension(name, *domain.ranges[name]))
        elif model.jnt_limited[i]:
            low, high = model.jnt_range[i]
            found.append(Dimension(name, float(low), float(high)))
        else:
            half = domain.periods.get(name, 2 * np.pi) / 2
            found.append(Dimension(name, -half, half, wraps=True))
    return tuple(found)


class Starts:
    """First states of episodes as the task itself draws them."""

    def __init__(self, name: str):
        domain, task = name.split("-")
        self._env = suite.load(domain, task)
        self._env.reset()  # a task also changes its model then
        self.model: mujoco.MjModel = self._env.physics.model.ptr
        self.data: mujoco.MjData = self._env.physics.data.ptr
        self.substeps = round(self._env.control_timestep() / self._env.physics.timestep())
        self.placed = np.array([self.model.geom(geom).id for geom in DOMAINS[name].placed], int)

    def reseed(self, seed: int) -> None:
        self._env.task.random.seed(seed)

    def draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """States [count, S] and where the task placed its geoms [count, K, 3]."""
        states = np.empty((count, mujoco.mj_stateSize(self.model, STATE)))
        placed = np.empty((count, len(self.placed), 3))
        for i in range(count):
            self._env.reset()
            mujoco.mj_getState(self.model, self.data, states[i], STATE)
            placed[i] = self.data.geom_xpos[self.placed]
        return states, placed

    def camera(self, side: int) -> Camera:
        """The task's own, drawing side × side pixels by OpenGL."""
        try:
            return Camera(self._env.physics, side, side, camera_id=0)
        except RuntimeError as error:
            raise UserError("--control.pixels opengl needs OpenGL: set MUJOCO_GL to egl or osmesa") from error

    def close(self) -> None:
        """Gives OpenGL back what it holds."""
        self._env.physics.free()

    def show(self, camera: Camera, state: np.ndarray, placed: np.ndarray) -> np.ndarray:
        """A state [S] and the places [K, 3] of the task's geoms, drawn: uint8 [side, side, 3]."""
        mujoco.mj_setState(self.model, self.data, state, STATE)
        mujoco.mj_forward(self.model, self.data)
        self.data.geom_xpos[self.placed] = placed
        return camera.render().copy()
