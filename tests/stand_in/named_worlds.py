"""Environments that say in different ways what their actions are called."""

import enum

import numpy as np
from gymnasium import Env, spaces


class Mute(Env):
    observation_space, action_space = spaces.Box(0, 255, (8, 8, 3), np.uint8), spaces.Discrete(2)


class Speaking(Mute):
    def get_action_meanings(self):
        return ["rest", "jump\n"]


class Listing(Mute):
    """As Minigrid's do; wrappers leave out the last of the list."""

    actions = enum.IntEnum("Actions", [("turn_left", 0), ("pick_up", 1), ("done", 2)])
