"""Packages of Gymnasium environments that tell where their avatar is; nothing of discern is imported here."""

import importlib
import math
from typing import Any

import gymnasium

TURN = ("heading", -math.pi, math.pi, True)
PLACES = {  # by how ids begin: the ranges that random play and held actions reach; docs/highway.md
    "parking": (("x", -35.0, 35.0, False), ("y", -21.0, 21.0, False), TURN),
    "highway": (("y", 0.0, 12.0, False), TURN),  # the camera goes along, so no picture shows x
    "roundabout": (("x", 0.0, 26.0, False), ("y", -100.0, 45.0, False), TURN),
    "intersection": (("x", -45.0, 5.0, False), ("y", -5.0, 45.0, False), TURN),
}
Dimension = tuple[str, float, float, bool]  # name, low, high, whether it wraps


class Suite(gymnasium.Wrapper):
    """An environment whose `info` says where its avatar is."""

    example = ""  # one of them
    dimensions: tuple[Dimension, ...] = ()
    action_names: tuple[str, ...] = ()  # of a Discrete
    axes: tuple[str, ...] = ()  # of a Box

    def place(self) -> dict[str, float]:
        raise NotImplementedError

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(**how)
        return observation, info | self.place()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, info | self.place()


class MiniGrid(Suite):
    """The whole grid from above, and the agent's cell and direction: 0 right, 1 down, 2 left, 3 up."""

    example = "MiniGrid-Empty-8x8-v0"

    def __init__(self, env: gymnasium.Env, name: str, settings: dict[str, Any]):
        super().__init__(env)
        grid: Any = env.unwrapped
        self._grid, width, height = grid, grid.width, grid.height
        self.dimensions = (
            ("x", 1.0, width - 2.0, False),
            ("y", 1.0, height - 2.0, False),
            ("direction", 0.0, 4.0, True),
        )
        if "tile_size" not in settings["make_args"]:  # no larger than will be seen
            grid.tile_size = math.ceil(settings["size"] / max(width, height))

    def place(self) -> dict[str, float]:
        x, y = self._grid.agent_pos
        return {"x": x, "y": y, "direction": self._grid.agent_dir}


class Highway(Suite):
    """A road or a parking lot from above, and the place in metres and heading of the car."""

    example = "parking-v0"

    def __init__(self, env: gymnasium.Env, name: str, settings: dict[str, Any]):
        super().__init__(env)
        world: Any = env.unwrapped
        self._world, controls = world, world.action_type
        self.dimensions = next((ranges for start, ranges in PLACES.items() if name.startswith(start)), ())
        self.action_names = tuple(getattr(controls, "actions", {}).values())
        uses = {"acceleration": "longitudinal", "steering": "lateral"}
        self.axes = tuple(axis for axis, attribute in uses.items() if getattr(controls, attribute, False))

    def place(self) -> dict[str, float]:
        car = self._world.vehicle
        return {"x": car.position[0], "y": car.position[1], "heading": car.heading}

    def render(self) -> Any:
        if self._world.viewer is None:
            viewer = importlib.import_module("highway_env.envs.common.graphics").EnvViewer
            self._world.viewer = viewer(self._world)
            self._world.viewer.enabled = True  # it draws nothing with SDL's dummy driver, though it needs no screen
        return super().render()


SUITES = {"minigrid": ("minigrid", MiniGrid), "highway": ("highway_env", Highway)}
