"""MiniGrid and highway-env by name, vector environments, and how any action space becomes a list of actions."""

import ast
import contextlib
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from discern.cli import read
from discern.config import replace
from discern.envs import make_env, make_scored_env, names_code
from discern.envs.base import Dimension
from discern.envs.gym import actions
from discern.envs.gym.actions import Actions
from discern.envs.gym.looks import RefusedError
from discern.envs.gym.world import on_a_scale
from discern.envs.gym.worlds import Worlds
from discern.presets import preset
from discern.types import UserError
from tests.needs import skip_for_lack_of

ROOT = Path(__file__).parent.parent
LEFT, RIGHT, FORWARD = 0, 1, 2
SETTINGS = {"frame_skip": 1, "size": 16, "render": False, "score": [], "make_args": {}}
SETTINGS |= {"bins": 3, "actions": "auto", "only": (), "vector": False}


def action_list(space: spaces.Space, names=(), axes=(), **settings) -> Actions:
    return actions.action_list(space, SETTINGS | settings, names, axes)


@pytest.fixture
def worlds(monkeypatch):
    """Makes what a process would serve, here."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "stand_in"))
    made = []

    def make(name: str, n: int = 1, **settings) -> Worlds:
        made.append(Worlds(name, SETTINGS | settings))
        made[-1].prove(None)
        made[-1].about = made[-1].make(np.arange(n))
        return made[-1]

    yield make
    for world in made:
        world.close()


def play(worlds: Worlds, seeds: list[int], actions: list[list[int]]) -> list[list[np.ndarray]]:
    """Images, measures, is_first and is_last, each [T + 1, n, …]."""
    shown = [worlds.reset(np.array(seeds))]
    shown += [worlds.step(np.array([row, [-1] * len(row)]).T) for row in actions]
    return [np.stack(part) for part in zip(*shown, strict=True)]


def test_discrete_and_continuous_actions_by_hand():
    assert action_list(spaces.Discrete(3, start=2)) == ([2, 3, 4], ("0", "1", "2"))
    assert action_list(spaces.Discrete(2), names=("push", "pull")).names == ("push", "pull")
    assert action_list(spaces.Discrete(2), names=("push", "push")).names == ("0", "1")
    lever = action_list(spaces.Box(0.0, 4.0, (1,)), axes=("lift",))
    np.testing.assert_array_equal(lever.values, [[0], [2], [4]])
    assert lever.values[0].dtype == np.float32 and lever.names == ("lift −", "middle", "lift +")
    car = np.array(action_list(spaces.Box(np.array([-1, 0, 0], np.float32), np.array([1, 1, 1], np.float32))).values)
    assert car.shape == (27, 3) and len(np.unique(car, axis=0)) == 27
    np.testing.assert_array_equal(car[[0, 5, 26]], [[-1, 0, 0], [-1, 0.5, 1], [1, 1, 1]])
    arm = action_list(spaces.Box(-2.0, 2.0, (2, 2)))
    np.testing.assert_array_equal(
        np.reshape(arm.values, (9, 4)), 2 * np.vstack([np.zeros((1, 4)), np.eye(4), -np.eye(4)])
    )
    assert arm.names == ("middle", "0 +", "1 +", "2 +", "3 +", "0 −", "1 −", "2 −", "3 −")
    whole = action_list(spaces.Box(0, 1, (1,), np.int64))
    assert [value.tolist() for value in whole.values] == [[0], [1]]
    with pytest.raises(RefusedError, match="without bounds"):
        action_list(spaces.Box(-np.inf, 1.0, (1,)))


def test_how_many_values_a_dimension_takes_and_whether_together():
    box = spaces.Box(np.array([0.0, -1.0], np.float32), np.array([1.0, 1.0], np.float32))
    assert len(action_list(box, bins=5).values) == 25  # 27 at most are together
    assert len(action_list(box, bins=6).values) == 1 + 12  # no value of six is the middle
    assert len(action_list(box, bins=6, actions="corners").values) == 36
    corners = action_list(box, bins=2)
    np.testing.assert_array_equal(corners.values, [[0, -1], [0, 1], [1, -1], [1, 1]])
    assert corners.names == ("0 −, 1 −", "0 −, 1 +", "0 +, 1 −", "0 +, 1 +")
    single = action_list(box, bins=5, actions="one_at_a_time", axes=("gas", "wheel"))
    assert single.names[:5] == ("middle", "gas +", "wheel +", "gas +0.5", "wheel +0.5") and len(single.names) == 9
    np.testing.assert_array_equal(single.values[:4], [[0.5, 0], [1, 0], [0.5, 1], [0.75, 0]])
    assert len(action_list(spaces.Box(-1.0, 1.0, (17,))).values) == 35


def test_levers_and_buttons():
    levers = action_list(spaces.MultiDiscrete([3, 2], start=[1, 0]))
    np.testing.assert_array_equal(levers.values, [[1, 0], [1, 1], [2, 0], [2, 1], [3, 0], [3, 1]])
    assert levers.names[3] == "0=2, 1=1" and levers.values[0].dtype == np.int64
    buttons = action_list(spaces.MultiBinary(2))
    np.testing.assert_array_equal(buttons.values, [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert buttons.names == ("none", "1", "0", "0, 1")
    many = action_list(spaces.MultiBinary(12))
    assert many.names == ("none", *map(str, range(12))) and many.values[3].tolist() == [0, 0, 1, *[0] * 9]


def test_a_grid_tells_the_cell_and_the_way_the_agent_looks(worlds):
    room = worlds("minigrid/MiniGrid-Empty-8x8-v0", size=48)
    assert room.about["dimensions"] == {(("x", 1.0, 6.0, False), ("y", 1.0, 6.0, False), ("direction", 0.0, 4.0, True))}
    assert room.about["action_names"] == ("left", "right", "forward", "pickup", "drop", "toggle", "done")
    images, measures, is_first, _ = play(room, [3], [[a] for a in (FORWARD, FORWARD, RIGHT, FORWARD, RIGHT, RIGHT)])
    expected = [[1, 1, 0], [2, 1, 0], [3, 1, 0], [3, 1, 1], [3, 2, 1], [3, 2, 2], [3, 2, 3]]
    np.testing.assert_array_equal(measures[:, 0], expected)
    assert is_first[:, 0].tolist() == [True] + [False] * 6
    cells = images[:, 0].astype(int).reshape((7, 8, 6, 8, 6, 3)).mean((2, 4))  # rows, columns of cells
    redness = (cells[..., 0] - cells[..., 1])[:, 1:7, 1:7].reshape((7, -1)).argmax(1)
    np.testing.assert_array_equal(redness, [6 * (y - 1) + x - 1 for x, y, _ in expected])
    assert len(np.unique(images[:, 0].reshape((7, -1)), axis=0)) == 7


def test_a_car_tells_its_place_and_heading(worlds):
    lot = worlds("highway/parking-v0", size=84)
    names = lot.about["action_names"]
    assert names[0] == "acceleration −, steering −" and names[7] == "acceleration +"
    images, measures, _, _ = play(lot, [5], [[7]] * 6)
    moved = measures[-1, 0] - measures[0, 0]
    assert 3 < np.hypot(*moved[:2]) < 8  # 5 m/s² for 1.2 s
    way = np.arctan2(moved[1], moved[0]) - measures[0, 0, 2]
    assert abs((way + np.pi) % (2 * np.pi) - np.pi) < 1e-3 and moved[2] == 0
    assert (images[0] != images[-1]).any() and len(np.unique(images[0].reshape(-1, 3), axis=0)) > 10
    (turned,) = play(lot, [5], [[8]] * 6)[1][-1]
    assert turned[2] > measures[-1, 0, 2]
    road = worlds("highway/highway-fast-v0")
    assert road.about["action_names"] == ("LANE_LEFT", "IDLE", "LANE_RIGHT", "FASTER", "SLOWER")
    assert [name for name, *_ in next(iter(road.about["dimensions"]))] == ["y", "heading"]


def test_goals_of_a_grid_are_the_same_however_many_environments():
    config = replace(preset("minigrid/MiniGrid-FourRooms-v0"), {"actor.horizon": 6})
    made = []
    for n in (2, 5):
        env = make_scored_env(config.env, n, config)
        assert env.spec.image_shape == (76, 76, 3) and env.spec.actions == 4
        made += [env.goals("random", "tune", 5), env.goals("random", "test", 5)]
        env.close()
    for half in (0, 1):
        for ours, theirs in zip(made[half], made[2 + half], strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert (made[0][1] != made[1][1]).any()


ACTIONS = [[0, 2, 1], [2, 0, 0], [2, 1, 3], [3, 3, 3], [1, 0, 2], [0, 2, 0], [0, 0, 0]]


def test_a_vector_is_as_its_environments_one_by_one(worlds):
    """Episodes of three steps: the same images, measures, beginnings and ends as without the vector."""
    score = {"score": ["x", "observation[0]"]}
    alone = play(worlds("tiny_worlds:Dot", 3, make_args={"length": 3}, **score), [4, 5, 6], ACTIONS)
    vector = worlds("tiny_worlds:dots", 3, **score)
    assert vector.about["vector"] and vector.about["actions"] == {4}
    for ours, theirs in zip(play(vector, [4, 5, 6], ACTIONS), alone, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_a_vector_that_does_not_reset_in_a_step_of_its_own(worlds, mode):
    """The last frame of an episode is shown; the next one's first is that after its first action."""
    alone = play(worlds("tiny_worlds:Dot", 3, make_args={"length": 3}, score=["x"]), [4, 5, 6], ACTIONS)
    images, measures, is_first, is_last = play(
        worlds("tiny_worlds:dots", 3, make_args={"mode": mode}, score=["x"]), [4, 5, 6], ACTIONS
    )
    np.testing.assert_array_equal(images[:4], alone[0][:4])
    np.testing.assert_array_equal(measures[:4], alone[1][:4])
    assert is_first[:, 0].tolist() == [True, False, False, False, True, False, False, True]
    assert is_last[:, 0].tolist() == [False, False, False, True, False, False, True, False]
    begun, acted = images[4], alone[0][4]  # one step of the dot from where it began
    for i, way in enumerate(ACTIONS[3]):
        shift, axis = ((2, 1), (-2, 1), (2, 0), (-2, 0))[way]
        np.testing.assert_array_equal(begun[i], np.roll(acted[i], shift, axis))


def test_an_implementation_of_gymnasiums_own_is_a_vector(worlds):
    poles = worlds("gym/CartPole-v1", 3, vector=True, score=["observation[2]"])
    images, angles, is_first, is_last = play(poles, [1, 2, 3], [[1, 1, 0]] * 12)
    assert images.shape == (13, 3, 16, 16, 3) and poles.about["vector"]
    assert (angles[8, :2] < angles[0, :2]).all() and (angles[8, 2] > angles[0, 2]).all()
    assert is_last.any() and (is_first[1:] == is_last[:-1]).all()
    np.testing.assert_array_equal(images[0], play(poles, [1, 2, 3], [])[0][0])


def test_what_repeats_is_in_an_even_set_in_turn():
    """Goals of the room after one step or two: nine at most, each as often as any other, or once more."""
    config = replace(
        preset("minigrid/MiniGrid-Empty-8x8-v0"), {"actor.horizon": 2, "relabel.hindsight_window": 1, "gym.size": 16}
    )
    env = make_scored_env(config.env, 4, config)
    images, measures = env.goals("even", "tune", 20)
    env.close()
    goals, counts = np.unique(measures, axis=0, return_counts=True)
    assert images.shape == (20, 16, 16, 3) and 5 <= len(goals) <= 9 and np.ptp(counts) <= 1
    assert {tuple(goal) for goal in goals[goals[:, 0] == 2].tolist()} <= {(2, 1, 0), (2, 1, 1), (2, 1, 3)}


def test_the_distance_between_measures_goes_round():
    dimensions = (Dimension("x", 2.0, 4.0), Dimension("way", 0.0, 4.0, wraps=True))
    points = on_a_scale(np.array([[2.0, 0.0], [4.0, 0.0], [2.0, 3.0], [2.0, 2.0]]), dimensions)
    np.testing.assert_allclose(np.linalg.norm(points - points[0], axis=1), [0, 1, 0.5**0.5, 1])


def test_an_arm_that_opengl_draws(monkeypatch):
    """The robot arm of its page, as the page's command makes it: the cosines and sines of two joints."""
    page = (ROOT / "docs" / "robot_arm.md").read_text()
    words = shlex.split(re.search(r"```bash\nMUJOCO_GL=egl uv run discern (.*?)\n```", page, re.S)[1])
    config = read([*words, "--gym.size", "24"]).settings
    for backend in ("egl", "osmesa"):
        monkeypatch.setenv("MUJOCO_GL", backend)
        with contextlib.suppress(UserError):
            env = make_env(config.env, 1, config)
            break
    else:
        skip_for_lack_of("OpenGL")
    assert env.spec.actions == 9 and env.spec.action_names[8] == "0 +, 1 +"
    steps = [env.reset(1)]
    for _ in range(5):
        env.send(np.array([8], np.int32))
        steps.append(env.recv())
    env.close()
    measures = np.stack([env.measure(step.raw)[0] for step in steps])
    np.testing.assert_allclose(measures[:, :2] ** 2 + measures[:, 2:] ** 2, 1.0, atol=1e-5)
    assert measures[5, 2] > measures[0, 2] + 0.1 and (steps[0].raw.image != steps[5].raw.image).any()


def test_an_arm_of_seven_joints_has_fifteen_actions():
    actions = action_list(spaces.Box(-2.0, 2.0, (7,)))
    assert len(actions.values) == 15 and actions.names[1] == "0 +"
    np.testing.assert_array_equal(np.abs(actions.values).sum(1), [0] + [2] * 14)


def test_what_the_user_runs_imports_no_environment():
    allowed = set(sys.stdlib_module_names) | {"discern", "jax", "numpy"}
    for file in ("world.py", "__init__.py"):
        for node in ast.walk(ast.parse((ROOT / "discern" / "envs" / "gym" / file).read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= allowed
            assert not any(name.startswith("discern.envs.gym") for name in names)


def test_worlds_that_are_given_arguments_are_code_to_a_stranger():
    assert not names_code(preset("highway/parking-v0"))
    for name in ("highway/parking-v0", "minigrid/MiniGrid-Empty-8x8-v0"):
        assert names_code(replace(preset(name), {"gym.make_args": '{"config": {}}'}))
