"""The Control Suite's worlds: the contract, and dm_control's own numbers after the same actions."""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest
from dm_control import suite

from discern.config import replace
from discern.envs import make_env, make_scored_env
from discern.envs.base import Attempts
from discern.envs.control.tasks import DOMAINS
from discern.envs.control.world import EPISODE, Control
from discern.evaluation.achievement import reached
from discern.evaluation.goal_sets import goal_set
from discern.presets import preset
from discern.types import UserError
from tests.conftest import PLAYS_LITTLE, TINY
from tests.needs import skip_for_lack_of
from tests.opengl import draw_with_opengl

ACTIONS = {
    "point_mass-easy": 9,
    "reacher-hard": 9,
    "manipulator-bring_ball": 11,
    "pendulum-swingup": 3,
    "finger-spin": 9,
    "ball_in_cup-catch": 9,
    "cartpole-swingup": 3,
}


def play(env: Control, seed: int, steps: int) -> list:
    chance = np.random.default_rng(seed)
    seen = [env.reset(seed)]
    for _ in range(steps):
        env.send(chance.integers(env.spec.actions, size=env.size))
        seen.append(env.recv())
    return seen


@pytest.mark.parametrize("name", ACTIONS)
def test_a_domain_keeps_the_contract(name):
    env = make_scored_env(f"control/{name}", 3)
    assert env.spec.name == f"control/{name}"
    assert env.spec.actions == ACTIONS[name]
    step = play(env, 0, 2)[-1]
    assert all(part.shape[0] == 3 for part in step.raw)
    assert env.measure(step.raw).shape == (3, len(env.spec.dimensions))
    env.close()


@pytest.mark.parametrize("name", ACTIONS)
def test_physics_equals_dm_control(name):
    """The same first state and the same controls lead to the same poses, of the task's target too."""
    domain = DOMAINS[name]
    env = Control(name, 2)
    reference = suite.load(*name.split("-"), task_kwargs={"random": 5})
    reference.task.random.seed(5)
    step = env.reset(5)
    reference.reset()
    chance = np.random.default_rng(0)
    drawn = env._stage.scene.drawn
    geoms = drawn.number[drawn.moves & ~drawn.is_site]
    for _ in range(20):
        theirs = [reference.physics.named.data.qpos[d.name].item() for d in env.spec.dimensions]
        np.testing.assert_allclose(env.measure(step.raw)[0], theirs, atol=1e-5)
        shown = reference.physics.data.geom_xpos[geoms]
        np.testing.assert_allclose(step.raw.position[0, : len(geoms)], shown, atol=1e-5)
        action = chance.integers(env.spec.actions)
        for _ in range(domain.action_repeat):
            reference.step(env._controls[action])
        env.send(np.full(2, action))
        step = env.recv()
    env.close()


def test_an_action_may_be_held_for_several_control_steps():
    once, held = Control("finger-spin", 2), Control("finger-spin", 2, action_repeat=3)
    steps, at_once = once.reset(7), held.reset(7)
    for action in (0, 5, 8, 3):
        for _ in range(3):
            once.send(np.full(2, action))
            steps = once.recv()
        held.send(np.full(2, action))
        at_once = held.recv()
        np.testing.assert_array_equal(at_once.raw.position, steps.raw.position)
        np.testing.assert_array_equal(held.measure(at_once.raw), once.measure(steps.raw))
    once.close()
    held.close()


def test_goals_are_the_same_however_long_actions_are_held():
    config = replace(preset("control/ball_in_cup-catch"), {"control.action_repeat": 4})
    goals = [goal_set(make_scored_env(config.env, 1, one), "tune", 3) for one in (config, preset(config.env, "paper"))]
    assert goals[0].digest == goals[1].digest


def test_actions_span_the_actuators():
    reacher, manipulator = Control("reacher-hard", 1), Control("manipulator-bring_ball", 1)
    assert {tuple(row) for row in reacher._controls} == {(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1)}
    assert sorted(np.abs(manipulator._controls).sum(1)) == [0] + [1] * 10
    assert len(np.unique(manipulator._controls, axis=0)) == 11
    reacher.close()
    manipulator.close()


def test_an_episode_ends_and_another_begins():
    """The second environment's first episode is half as long again, so that the two never end together."""
    env = Control("pendulum-swingup", 2, episode=40)
    seen = play(env, 1, 130)
    first, last = (np.stack([getattr(step, flag) for step in seen]) for flag in ("is_first", "is_last"))
    assert np.argwhere(first.T).tolist() == [[0, 0], [0, 41], [0, 82], [0, 123], [1, 0], [1, 61], [1, 102]]
    assert np.argwhere(last.T).tolist() == [[0, 40], [0, 81], [0, 122], [1, 60], [1, 101]]
    hinge = np.stack([env.measure(step.raw)[:, 0] for step in seen])
    jumps = np.abs(np.diff(hinge, axis=0)) > 0.5  # a step turns it less
    assert {tuple(jump) for jump in np.argwhere(jumps)} <= {(40, 0), (81, 0), (122, 0), (60, 1), (101, 1)}
    assert jumps.any()
    env.close()


def test_training_starts_over_more_often_than_scoring():
    config = preset("control/reacher-hard")
    env = make_env("control/reacher-hard", 2, config)
    assert config.control.episode % config.actor.horizon == 0
    assert not any(step.is_last.any() for step in play(env, 0, config.control.episode - 1))
    assert play(env, 0, config.control.episode)[-1].is_last.tolist() == [True, False]
    env.close()
    scored = make_scored_env("control/reacher-hard", 2, config)
    assert not any(step.is_last.any() for step in play(scored, 0, EPISODE - 1))
    scored.close()


def test_twins_begin_every_attempt_in_one_state():
    """The same actions show the same pictures; other actions leave the target where it is."""
    attempts = Attempts(4, 3, 0.5)
    world = Control("reacher-hard", 6, attempts=attempts)
    step, chance, seen = world.reset(0), np.random.default_rng(0), []
    for _ in range(30):
        world.send(chance.integers(0, 9, 6))
        step = world.recv()
        seen.append((step.is_first, step.is_last, step.raw.qpos, world._placed.copy()))
    is_first, is_last, qpos, placed = (np.stack(parts) for parts in zip(*seen, strict=True))
    groups = qpos.reshape((30, 2, 3, -1))
    begins = is_first.reshape((30, 2, 3))
    assert (begins == begins[:, :, :1]).all() and (is_first[1:] == is_last[:-1]).all()
    begins = begins[:, :, 0]
    assert (groups[begins] == groups[begins][:, :1]).all()
    assert (groups[~begins] != groups[~begins][:, :1]).any()
    targets = placed.reshape((30, 2, 3, -1))
    assert (targets == targets[:, :, :1]).all()
    assert 1 < len(np.unique(targets[:, 0, 0].round(6), axis=0)) < begins[:, 0].sum()  # some restart, some go on
    for _ in range(4):
        world.send(np.full(6, 5))
        step = world.recv()
        if step.is_first[:3].all():
            break
    for _ in range(3):
        world.send(np.full(6, 5))
        same = world.recv().raw.qpos[:3]
        np.testing.assert_array_equal(same, np.broadcast_to(same[:1], same.shape))
    world.close()


def test_the_spinner_is_scored_by_what_a_picture_shows():
    world = Control("finger-spin", 1)
    spinner = next(d for d in world.spec.dimensions if d.wraps)
    assert (spinner.high - spinner.low) == pytest.approx(np.pi)
    assert reached(np.array([0.1, 0.0, 3.1]), np.array([0.1, 0.0, 0.05]), world.spec.dimensions).all()
    assert not reached(np.array([0.1, 0.0, 1.6]), np.array([0.1, 0.0, 0.0]), world.spec.dimensions).all()
    world.close()


def test_the_balls_spin_is_not_scored():
    env = Control("manipulator-bring_ball", 1)
    assert "ball_x" in (names := [d.name for d in env.spec.dimensions]) and "ball_y" not in names
    assert env.measure(env.reset(0).raw).shape == (1, 10)
    env.close()


def test_a_seed_fixes_everything():
    one, two = Control("finger-spin", 4), Control("finger-spin", 4)
    for a, b in zip(play(one, 3, 10), play(two, 3, 10), strict=True):
        jax.tree.map(np.testing.assert_array_equal, a, b)
    again = play(one, 3, 10)[-1]
    jax.tree.map(np.testing.assert_array_equal, again, b)
    assert not np.allclose(one.reset(4).raw.qpos, two.reset(3).raw.qpos)
    one.close()
    two.close()


def test_what_a_step_returned_stays_as_it_was():
    env = Control("ball_in_cup-catch", 2)
    first, *_, last = play(env, 0, 5)
    kept = first.raw.position.copy()
    env.send(np.zeros(2, int))
    env.recv()
    np.testing.assert_array_equal(first.raw.position, kept)
    assert not np.allclose(first.raw.position, last.raw.position)
    env.close()
    with pytest.raises(RuntimeError, match="before send"):
        env.recv()


@pytest.mark.usefixtures("to_the_bit")
def test_goals_are_held_out_and_fixed():
    env = make_scored_env("control/reacher-hard", 1)
    goals, again = goal_set(env), goal_set(env)
    assert goals.name == "paper:test"
    assert goal_set(env, "paper:tune").digest == "626e4b9db19f6f6d"  # the set before it had halves
    assert len({image.tobytes() for image in goal_set(env, "paper").images}) == 200
    assert goals.digest == again.digest
    assert goals.images.shape == (100, 84, 84, 3)
    assert len(np.unique(goals.measures.round(3), axis=0)) == 100
    few = goal_set(env, count=3)
    np.testing.assert_array_equal(few.images, goals.images[[0, 50, 99]])
    assert reached(goals.measures, goals.measures, env.spec.dimensions).all()
    with pytest.raises(UserError, match="100 goals"):
        env.goals("paper", "test", 101)
    env.close()


def test_goals_of_the_cartpole_differ():
    """Training starts with the pole down; goals have it up, down and between, the cart left and right."""
    env = Control("cartpole-swingup", 2)
    down = env.measure(env.reset(0).raw)[:, 1]
    _, goals = env.goals("paper", "tune", 100)
    assert (np.cos(down) < -0.9).all()
    height = np.cos(goals[:, 1])
    assert ((height > 0.8).mean(), (height < -0.8).mean()) == (0.16, 0.26)
    assert np.abs(goals[:, 0]).max().round(2) == 1.45
    assert share_of_pairs_alike(goals, env) < 0.2
    env.close()


def test_goals_of_the_paper_for_the_cartpole_are_all_alike():
    """The figure of docs/control.md: after the paper's 25 steps from its `balance` task every pole still stands."""
    env = Control("cartpole-balance", 2)
    assert share_of_pairs_alike(env.goals("paper", "tune", 100)[1], env).round(3) == 0.999
    env.close()


def share_of_pairs_alike(goals: np.ndarray, env: Control) -> float:
    return reached(goals[:, None], goals[None], env.spec.dimensions).all(-1).mean()


def test_an_unknown_domain_is_refused():
    with pytest.raises(UserError, match="control/reacher-hard"):
        make_env("control/humanoid-run")


@pytest.mark.parametrize("world", ["reacher-hard", "pendulum-swingup"])
def test_the_preset_pursues_goals_for_a_hundred_control_steps(world):
    config = preset(f"control/{world}")
    assert EPISODE % config.actor.horizon == 0
    assert config.actor.horizon * (config.control.action_repeat or 1) == 100


def test_no_opengl_is_needed(tmp_path):
    """Training, exporting and scoring where OpenGL cannot be imported, whatever MUJOCO_GL says of it."""
    for module in ("OpenGL", "glfw"):
        (tmp_path / f"{module}.py").write_text("raise ImportError('there is no OpenGL')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    bare = {name: value for name, value in os.environ.items() if "GL" not in name} | {"PYTHONPATH": path}
    small = {name: value for name, value in TINY.items() if name not in ("minutes", "steps", "network.channels")}
    flags = [f"--{name}={value}".replace("_", "-") for name, value in small.items()]
    run, agent = str(tmp_path / "run"), str(tmp_path / "agent")
    world = f"control/pendulum-swingup --run {run} --minutes None --steps 200 --actor.twins 2".split()
    said = []
    for gl, commands in (
        ({}, [["train", *world, *flags, "--network.channels", "4", "4"]]),
        (
            {"MUJOCO_GL": "disabled"},
            [["export", run, agent], ["evaluate", agent, "--count", "4", "--trials", "2", "--json"]],
        ),
    ):
        code = f"import sys; from discern.cli import main\nfor words in {commands!r}: sys.argv[1:] = words; main()"
        answer = subprocess.run(
            [sys.executable, "-c", PLAYS_LITTLE + code], env=bare | gl, capture_output=True, text=True
        )
        assert answer.returncode == 0, answer.stderr
        said += answer.stdout.splitlines()
    report = json.loads(said[-1])
    assert set(report["per_dimension"]) == {"hinge"}
    assert 0 <= report["success"] <= 1


BOTH = """
import numpy as np
from discern.envs.control.world import Control, OpenGLControl
ours, theirs = Control("reacher-hard", 3), OpenGLControl("reacher-hard", 3)
a, b = ours.reset(4), theirs.reset(4)
for _ in range(5):
    for env in (ours, theirs): env.send(np.array([0, 4, 8]))
    a, b = ours.recv(), theirs.recv()
    assert (ours.measure(a.raw) == theirs.measure(b.raw)).all()
    differences = np.abs(np.asarray(ours.observe(a.raw), int) - np.asarray(theirs.observe(b.raw))).mean((1, 2, 3))
    assert differences.max() < 4, differences
drawn, shown = (env.goals("paper", "tune", 2)[0].astype(int) for env in (ours, theirs))
assert np.abs(drawn - shown).mean() < 4
for env in (ours, theirs): env.close()
"""


def test_opengl_draws_the_same_world_where_there_is_one():
    if draw_with_opengl("reacher-hard", 1) is None:
        skip_for_lack_of("OpenGL")
    environments = [os.environ | {"MUJOCO_GL": gl, "PYOPENGL_PLATFORM": gl} for gl in ("egl", "osmesa")]
    assert any(subprocess.run([sys.executable, "-c", BOTH], env=env).returncode == 0 for env in environments)


@pytest.mark.parametrize(("backend", "pixels"), [("disabled", "opengl"), ("nonsense", "rays")])
def test_opengl_that_is_not_there_is_one_sentence(backend, pixels):
    program = "from discern.cli import main; main()"
    command = [sys.executable, "-c", program, "bench", "control/reacher-hard", "--control.pixels", pixels]
    answer = subprocess.run(command, env=os.environ | {"MUJOCO_GL": backend}, capture_output=True, text=True)
    assert answer.returncode == 2
    assert answer.stderr.startswith("discern: ") and "MUJOCO_GL" in answer.stderr
    assert answer.stderr.count("\n") == 1
