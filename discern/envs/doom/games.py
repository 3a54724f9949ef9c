"""N games of Doom, each an engine in a process of ViZDoom's own, as one of our processes serves them.

Nothing of discern is imported here.
"""

import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import vizdoom as vzd
from PIL import Image

TICS_PER_STEP = 4  # of 35 a second
DEAF_TICS = 10  # after a start the player does not heed turns at once
SIDE = 84
BUTTONS = ("MOVE_FORWARD_BACKWARD_DELTA", "MOVE_LEFT_RIGHT_DELTA", "TURN_LEFT_RIGHT_DELTA")
POSE = ("POSITION_X", "POSITION_Y", "ANGLE")
IDLE = [0.0] * len(BUTTONS)

Played = tuple[np.ndarray, ...]  # poses float32 [N, 3], is_first and is_last bool [N]


class Game:
    """One engine; `screen` and `pose` are written over with what can be seen and measured."""

    def __init__(self, scenario: str, screen: np.ndarray):
        self.screen, self.pose = screen, np.zeros(len(POSE), np.float32)
        self._engine = engine = vzd.DoomGame()
        home = Path(vzd.__file__).parent
        engine.set_doom_game_path(str(home / "freedoom2.wad"))  # whatever else is installed: the same pictures
        engine.set_doom_scenario_path(str(home / "scenarios" / scenario))  # an absolute path stays what it is
        engine.set_doom_map("MAP01")
        engine.set_doom_config_path(os.path.abspath("vizdoom.ini"))
        engine.set_window_visible(False)
        engine.set_mode(vzd.Mode.PLAYER)
        engine.set_screen_format(vzd.ScreenFormat.RGB24)
        engine.set_screen_resolution(vzd.ScreenResolution.RES_160X120)
        for part in ("hud", "weapon", "crosshair", "decals", "particles", "messages"):
            getattr(engine, f"set_render_{part}")(False)
        engine.set_available_buttons([getattr(vzd.Button, name) for name in BUTTONS])
        engine.set_available_game_variables([getattr(vzd.GameVariable, name) for name in POSE])
        engine.set_episode_timeout(0)
        engine.set_episode_start_time(DEAF_TICS)
        engine.add_game_args("+movebob 0")  # the eye stays level, so that a pose has one picture
        engine.init()

    def start(self, seed: int, pose: np.ndarray | None = None) -> None:
        """An episode's start with the engine's own chances, or at a pose [3], whose place is rounded, at rest."""
        self._engine.set_seed(seed)
        self._engine.new_episode()
        self._look()
        if pose is not None:
            x, y, angle = np.round(pose[0]), np.round(pose[1]), pose[2]
            self._engine.send_game_command(f"warp {x:.0f} {y:.0f}")
            self._engine.make_action([0.0, 0.0, float(self.pose[2] - angle)])
            self._look()

    def play(self, action: list[float]) -> None:
        """One step."""
        self._engine.make_action(action, TICS_PER_STEP)
        self._look()

    def _look(self) -> None:
        state = self._engine.get_state()
        if state is not None:  # the engine has nothing to show once an episode is over: its last image is shown again
            shrunk = Image.fromarray(state.screen_buffer).resize((SIDE, SIDE), Image.Resampling.BOX)
            self.screen[:] = np.asarray(shrunk)
            self.pose = np.array(state.game_variables, np.float32)

    @property
    def over(self) -> bool:
        return self._engine.is_episode_finished()

    def close(self) -> None:
        self._engine.close()


class Group:
    """Neighbours that begin every attempt in one pose."""

    def __init__(self, games: list[Game], reach: float | None, horizon: int, p_restart: float):
        self.games, self._reach, self._horizon, self._p_restart = games, reach, horizon, p_restart

    def reset(self, seed: np.ndarray) -> None:
        """The next step begins an attempt at an episode's start, with random numbers of its own."""
        self._chance, self._fresh, self.ended = np.random.default_rng(seed), True, True

    def step(self, actions: list[list[float]]) -> None:
        """Plays an action in each; where an attempt has ended, the next one begins instead."""
        if self.ended:
            return self._begin_anew()
        for game, action in zip(self.games, actions, strict=True):
            game.play(action)
        self._clock += 1
        self.ended = self._clock == self._horizon or any(game.over for game in self.games)

    def begin(self, seed: int, pose: np.ndarray | None) -> None:
        """An attempt at an episode's start, or at a pose."""
        for game in self.games:
            game.start(seed, pose)
        self._clock, self._fresh, self.ended = 0, False, False

    def _begin_anew(self) -> None:
        """At an episode's start, or in the pose that one of those whose episode is not over has come to, at rest."""
        alive = [] if self._fresh else [game for game in self.games if not game.over]
        seed = int(self._chance.integers(2**31 - 1))
        if not alive or self._chance.random() < self._p_restart:
            pose = self._drawn_pose()
        else:
            pose = alive[self._chance.integers(len(alive))].pose
        self.begin(seed, pose)

    def _drawn_pose(self) -> np.ndarray | None:
        """Anywhere in a round room, as likely here as there; None where the scenario draws starts itself."""
        if self._reach is None:
            return None
        radius, towards, angle = self._chance.random(3) * [1, 2 * np.pi, 360]
        radius = self._reach * radius**0.5
        return np.array([radius * np.cos(towards), radius * np.sin(towards), angle])


class Games:
    """Games whose screens go where both processes see them."""

    def __init__(self, scenario: str | bytes, memory: int, shape: tuple[int, ...], rules: dict[str, Any]):
        """A scenario is a file of ViZDoom's or what is in one; `memory` is the number of an open file for the screens
        of this and other processes; rules are what a `group` is made with, and the `twins` of one."""
        os.nice(10)  # what keeps the accelerator busy goes first
        os.setpgrp()  # engines end with this process, and hear no Ctrl-C
        self._folder = tempfile.TemporaryDirectory(prefix="discern-doom-")
        os.chdir(self._folder.name)  # the engine writes its settings where it is
        if isinstance(scenario, bytes):
            Path("scenario.wad").write_bytes(scenario)
            scenario = os.path.abspath("scenario.wad")
        self._scenario, self._rules = scenario, rules
        self._screens = np.frombuffer(mmap.mmap(memory, int(np.prod(shape))), np.uint8).reshape(shape)

    def make(self, rows: np.ndarray) -> None:
        """A game for each of some neighbouring rows of the screens."""
        twins = self._rules["twins"]
        self._games = [Game(self._scenario, self._screens[row]) for row in rows]
        parts = [self._games[i : i + twins] for i in range(0, len(rows), twins)]
        self._groups = [Group(part, **self._rules["group"]) for part in parts]

    def reset(self, seeds: np.ndarray) -> Played:
        """Every group begins anew, with the random numbers of its first row of int [N, any]."""
        twins = self._rules["twins"]
        for group, seed in zip(self._groups, seeds[::twins], strict=True):
            group.reset(seed)
        return self.step(np.zeros((len(seeds), len(BUTTONS))))

    def step(self, actions: np.ndarray) -> Played:
        """Plays float [N, 3]: units forward and to the right, degrees to the right, in each of the tics."""
        groups, twins = self._groups, self._rules["twins"]
        is_first = [group.ended for group in groups]
        for group, own in zip(groups, actions.reshape((len(groups), twins, -1)).tolist(), strict=True):
            group.step(own)
        poses = np.stack([game.pose for game in self._games])
        return poses, np.repeat(is_first, twins), np.repeat([group.ended for group in groups], twins)

    def place(self, poses: np.ndarray) -> Played:
        """Every group begins at its first row of float [N, 3]."""
        for group, pose in zip(self._groups, poses[:: self._rules["twins"]], strict=True):
            group.begin(0, pose)
        first = np.ones(len(poses), bool)
        return np.stack([game.pose for game in self._games]), first, ~first

    def close(self) -> None:
        for game in self._games:
            game.close()
        self._folder.cleanup()
