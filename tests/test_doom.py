import os
import re
import shlex
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from discern.cli import main
from discern.envs import make_env, make_scored_env
from discern.envs.base import Attempts, attempts_of
from discern.envs.doom.maps import PICTURES, room, wad
from discern.envs.doom.world import ACTIONS, EPISODE, TURN
from discern.evaluation.goal_sets import goal_set
from discern.presets import preset
from discern.types import UserError

ROOT = Path(__file__).parent.parent
STAY, FORWARD, BACKWARD, LEFT, RIGHT, TURN_LEFT, TURN_RIGHT = range(7)
DIGESTS = {
    ("doom/watermaze", "tune", 100): "b3ba58c09f8e1f67",
    ("doom/watermaze", "test", 100): "cfbc4187aeb7456f",
    ("doom/my_way_home", "tune", 10): "affaf52019acecee",
    ("doom/my_way_home", "test", 10): "1d39c351f9c850d8",
}


@pytest.fixture(scope="module")
def opened():
    """Scored worlds of three games each, made once and closed in the end."""
    worlds = {}

    def world(name: str):
        if name not in worlds:
            worlds[name] = make_scored_env(name, 3)
        return worlds[name]

    yield world
    for world in worlds.values():
        world.close()


def play(env, *actions):
    """The last of some steps, each an action for all games."""
    for action in actions:
        env.send(np.full(env.size, action, np.int32))
        step = env.recv()
    return step


def test_a_pose_has_one_picture_and_another_pose_another(opened):
    env = opened("doom/watermaze")
    poses = np.array([[0, 0, 90], [100, -200, 37.5], [0, 0, 90]])
    first = env.place(poses)
    images = np.asarray(env.observe(first.raw))
    assert images.shape == (3, 84, 84, 3) and images.dtype == np.uint8
    np.testing.assert_allclose(env.measure(first.raw), poses, atol=0.01)
    np.testing.assert_array_equal(images[0], images[2])
    apart = np.abs(images[0].astype(int) - images[1]).mean()
    assert apart > 10
    moved = play(env, FORWARD, TURN_LEFT, FORWARD)
    assert np.abs(np.asarray(moved.raw.image)[0].astype(int) - images[0]).mean() > 5
    np.testing.assert_array_equal(env.place(poses).raw.image, images)
    assert "vizdoom" not in sys.modules


def test_actions_move_and_turn_as_they_are_called(opened):
    env = opened("doom/watermaze")
    for action, place in ((FORWARD, (1, 0)), (BACKWARD, (-1, 0)), (LEFT, (0, 1)), (RIGHT, (0, -1)), (STAY, (0, 0))):
        env.place(np.zeros((3, 3)))
        moved = env.measure(play(env, *[action] * 5).raw)[0]
        np.testing.assert_array_equal(np.sign(moved[:2]) * (np.abs(moved[:2]) > 1), place)
        assert moved[2] % 360 == pytest.approx(0, abs=0.01)
    for action, angle in ((TURN_LEFT, 10), (TURN_RIGHT, 350)):
        env.place(np.zeros((3, 3)))
        np.testing.assert_allclose(env.measure(play(env, action).raw), [[0, 0, angle]] * 3, atol=0.05)
    assert TURN * 4 == 10 and len(ACTIONS) == env.spec.actions


def test_walls_hold(opened):
    env = opened("doom/watermaze")
    env.place(np.array([[400, 0, 0], [0, 400, 90], [0, 0, 45]]))
    reached = env.measure(play(env, *[FORWARD] * 30).raw)
    radii = np.linalg.norm(reached[:, :2], axis=1)
    assert (radii > 450).all() and (radii < 512).all()


@pytest.mark.parametrize("world", ["doom/watermaze", "doom/my_way_home"])
def test_goals_are_fixed_and_their_halves_share_none(opened, world):
    env = opened(world)
    wanted = {half: count for name, half, count in DIGESTS if name == world}
    sets = {half: goal_set(env, half, count) for half, count in wanted.items()}
    assert {half: made.digest for half, made in sets.items()} == {
        half: DIGESTS[world, half, wanted[half]] for half in sets
    }
    images = np.concatenate([made.images for made in sets.values()])
    assert len({image.tobytes() for image in images}) == len(images)
    measures = np.concatenate([made.measures for made in sets.values()])
    assert len(np.unique(measures, axis=0)) == len(measures)
    for i, dimension in enumerate(env.spec.dimensions):
        assert (measures[:, i] >= dimension.low).all() and (measures[:, i] <= dimension.high).all()
        assert np.ptp(measures[:, i]) > 0.6 * (dimension.high - dimension.low)


@pytest.mark.parametrize("world", ["doom/watermaze", "doom/my_way_home"])
def test_a_seed_repeats_what_happens(opened, world):
    env = opened(world)

    def walk(seed: int):
        first = env.reset(seed)
        assert first.is_first.all() and not first.is_last.any()
        last = play(env, FORWARD, TURN_LEFT, LEFT, FORWARD, TURN_RIGHT, FORWARD)
        assert not last.is_first.any()
        return np.concatenate([first.raw.pose, last.raw.pose]), np.stack([first.raw.image, last.raw.image])

    once, twice, other = walk(5), walk(5), walk(6)
    np.testing.assert_array_equal(once[0], twice[0])
    np.testing.assert_array_equal(once[1], twice[1])
    assert len(np.unique(once[0], axis=0)) == 6  # each game has chances of its own
    assert not (once[0] == other[0]).all()


def test_twins_begin_in_one_pose_and_episodes_hold_whole_attempts():
    assert attempts_of(preset("doom/watermaze").actor) is None
    horizons = [preset(world).actor.horizon for world in ("doom/watermaze", "doom/my_way_home")]
    assert horizons == [50, 80] and not any(EPISODE.horizon % horizon for horizon in horizons)
    env = make_env("doom/watermaze", 4, attempts=Attempts(3, twins=2, p_restart=0.5))
    try:
        step, ends, began = env.reset(1), [], []
        chance = np.random.default_rng(0)
        for t in range(32):
            assert step.is_first.all() == (t % 4 == 0) and step.is_last.all() == (t % 4 == 3)
            if t % 4 == 0:
                began.append(step.raw.pose.copy())
                np.testing.assert_array_equal(step.raw.pose[::2], step.raw.pose[1::2])
                np.testing.assert_array_equal(step.raw.image[::2], step.raw.image[1::2])
            elif t % 4 == 3:
                assert (step.raw.pose[::2] != step.raw.pose[1::2]).any()
                ends.append(step.raw.pose.copy())
            env.send(chance.integers(1, 7, 4))
            step = env.recv()
    finally:
        env.close()
    gone_on = [
        np.abs(start[i] - end[i : i + 2]).max(1).min() < 1
        for end, start in zip(ends, began[1:], strict=False)
        for i in (0, 2)
    ]
    assert 0 < sum(gone_on) < len(gone_on)


def test_the_vest_ends_an_episode():
    env = make_env("doom/my_way_home", 1)
    try:
        env.reset(0)
        last = env.place(np.array([[1040, -250, 270]]))
        steps = 0
        while not last.is_last.all():
            last, steps = play(env, FORWARD), steps + 1
            assert steps < 30
        first = play(env, FORWARD)
        assert first.is_first.all() and not first.is_last.any()
        assert np.abs(first.raw.pose - last.raw.pose).max() > 50
    finally:
        env.close()


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    gone, left = psutil.wait_procs(processes, 5)
    del gone
    return left


def test_closing_leaves_no_process():
    env = make_env("doom/watermaze", 2)
    before = set(psutil.Process().children(recursive=True))
    env.reset(0)
    started = set(psutil.Process().children(recursive=True)) - before
    assert sum(process.name() == "vizdoom" for process in started) == 2
    env.close()
    assert not alive(list(started))


def test_a_death_is_told_and_takes_its_engines_along():
    env = make_env("doom/watermaze", 2)
    before = set(psutil.Process().children(recursive=True))
    env.reset(0)
    started = set(psutil.Process().children(recursive=True)) - before
    ours = [process for process in started if process.name() != "vizdoom"]
    os.kill(ours[0].pid, signal.SIGKILL)
    time.sleep(0.1)
    env.send(np.zeros(2, np.int32))
    with pytest.raises(UserError, match="doom/watermaze died with exit code -9 while stepping"):
        env.recv()
    env.close()
    assert not alive(list(started))


def test_other_worlds_are_refused():
    with pytest.raises(UserError, match="there is no world 'doom/moon'; there are: doom/watermaze, doom/my_way_home"):
        make_env("doom/moon")


def test_the_room_is_a_file_as_doom_has_them():
    lumps = {"MAP01": b"", "TEXTMAP": b"abc", "ENDMAP": b""}
    entries = [(12, 0, b"MAP01"), (12, 3, b"TEXTMAP"), (15, 0, b"ENDMAP")]
    directory = b"".join(struct.pack("<ii8s", *entry) for entry in entries)
    assert wad(lumps) == b"PWAD" + struct.pack("<ii", 3, 15) + b"abc" + directory
    text = room().decode("latin1")
    assert len(set(PICTURES)) == text.count("sidedef{") == text.count("linedef{") == text.count("vertex{") == 16


def test_the_page_s_commands(monkeypatch, tmp_path, capsys):
    """A whole run as docs/doom.md says, with budgets that fit a test."""
    page = (ROOT / "docs" / "doom.md").read_text()
    commands = re.search(r"```bash\n(.*?)```", page, re.S)[1].strip().splitlines()
    tiny = (
        "--steps 120 --actor.environments 2 --actor.horizon 5 --actor.warm-up 2 --learner.batch 4 --replay-capacity 16 "
        "--learner.replay-ratio 1 --reward.decoy-pool None --network.time-units 4 --goal-buffer.capacity 16 "
        "--network.channels 4 --network.kernels 8 --network.strides 8 --network.features 8 --network.lstm 8 "
        "--evaluation-goals 4 --actor.host-groups 1"
    )
    budgets = {"evaluate": "--trials 1 --count 4"}
    monkeypatch.chdir(tmp_path)
    for command in commands:
        words = shlex.split(command, comments=True)[3:]
        if words[0] == "train":
            words += ("--steps 200" if "--resume" in words else tiny).split()
        words += budgets.get(words[0], "").split()
        monkeypatch.setattr(sys, "argv", ["discern", *words])
        main()
    said = capsys.readouterr().out
    assert "steps 200" in said
    assert (tmp_path / "runs" / "doom" / "goals.png").exists()
    assert (tmp_path / "doom.mp4").stat().st_size > 1000
