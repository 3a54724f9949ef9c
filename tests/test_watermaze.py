from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.envs import make_env
from discern.envs.watermaze.view import EYE, FOCAL, INRADIUS, PICTURE_HEIGHT, PICTURES, SIDES, SIZE, WALL_TOP, WATER
from discern.envs.watermaze.world import ACTIONS, INNER, NORMALS, STRIDE, TURN, Watermaze, WatermazeState, hold, wrap
from discern.evaluation.achievement import reached
from discern.evaluation.goal_sets import goal_set
from discern.presets import preset

MAZE = Watermaze()
FORWARD, BACKWARD, STRAFE_LEFT, STRAFE_RIGHT, LOOK_LEFT, LOOK_RIGHT, FORWARD_LEFT, FORWARD_RIGHT, REST = range(9)
step = jax.jit(lambda state, action: MAZE.step(state, action, jax.random.key(0))[0])
observe = jax.jit(MAZE.observe)


def at(x: float, y: float, yaw: float) -> WatermazeState:
    return WatermazeState(jnp.array([x, y], jnp.float32), jnp.float32(yaw))


def look(x: float, y: float, yaw: float) -> np.ndarray:
    return np.asarray(observe(at(x, y, yaw)), int)


def test_the_spec():
    env = make_env("watermaze")
    assert (env.spec.image_shape, env.spec.actions) == ((84, 84, 3), 9)
    assert [d.name for d in env.spec.dimensions] == ["x", "y", "yaw"]


def test_numbers_of_the_level():
    """320 units and 126 degrees (20 of 57 pixels, of a whole turn) a second, 15 decisions a second."""
    assert pytest.approx(320 / 15) == STRIDE
    assert np.rad2deg(TURN) == pytest.approx(360 * 20 / 57 / 15)


@pytest.mark.parametrize(
    ("action", "moved", "turned"),
    [
        (FORWARD, (0.0, STRIDE), 0.0),
        (BACKWARD, (0.0, -STRIDE), 0.0),
        (STRAFE_LEFT, (-STRIDE, 0.0), 0.0),
        (STRAFE_RIGHT, (STRIDE, 0.0), 0.0),
        (LOOK_LEFT, (0.0, 0.0), TURN),
        (LOOK_RIGHT, (0.0, 0.0), -TURN),
        (FORWARD_LEFT, (-STRIDE * np.sin(TURN / 2), STRIDE * np.cos(TURN / 2)), TURN),
        (FORWARD_RIGHT, (STRIDE * np.sin(TURN / 2), STRIDE * np.cos(TURN / 2)), -TURN),
        (REST, (0.0, 0.0), 0.0),
    ],
)
def test_actions_do_what_they_say_when_looking_along_y(action, moved, turned):
    after = MAZE.measure(step(at(10.0, 20.0, np.pi / 2), action))
    np.testing.assert_allclose(after, [10 + moved[0], 20 + moved[1], np.pi / 2 + turned], atol=1e-3)
    assert len(ACTIONS) == 9


@pytest.mark.parametrize("side", range(SIDES))
def test_every_wall_holds_and_lets_slide(side):
    angle = 2 * np.pi * side / SIDES
    normal, tangent = NORMALS[side], np.array([-np.sin(angle), np.cos(angle)])
    state = at(*(INNER - 5) * normal, angle)
    state = step(state, FORWARD)
    np.testing.assert_allclose(state.place, INNER * normal, atol=1e-2)
    slid = step(state._replace(yaw=wrap(jnp.float32(angle + np.pi / 4))), FORWARD)
    np.testing.assert_allclose(slid.place, INNER * normal + STRIDE * np.sqrt(0.5) * tangent, atol=1e-2)


def test_nobody_leaves_in_a_thousand_steps():
    """Corners too: many walkers, none of them ever turned by chance."""
    yaws = jnp.linspace(-3.1, 3.1, 256)

    @jax.jit
    def walk(states):
        return jax.lax.fori_loop(0, 1000, lambda _, s: jax.vmap(lambda one: MAZE.step(one, 0, None)[0])(s), states)

    assert not MAZE.step(at(0.0, 0.0, 0.0), jnp.array(0), jax.random.key(0))[1]  # nothing ends
    places = np.asarray(walk(WatermazeState(jnp.zeros((256, 2)), yaws)).place)
    assert (places @ NORMALS.T).max() <= INNER + 0.01
    np.testing.assert_allclose((places @ NORMALS.T).max(1), INNER, atol=0.01)
    np.testing.assert_allclose(hold(jnp.array([3.0, -4.0])), [3.0, -4.0])


def test_turning_round_shows_the_same_again():
    here = look(120.0, -300.0, 0.4)
    assert abs(look(120.0, -300.0, 0.4 + 2 * np.pi) - here).max() <= 1
    state = at(120.0, -300.0, 0.4)
    for action in [LOOK_LEFT] * 60 + [LOOK_RIGHT] * 60:  # more than once round, and back
        state = step(state, action)
        assert -np.pi <= float(state.yaw) < np.pi
    assert abs(np.asarray(observe(state), int) - here).max() <= 3
    assert abs(look(120.0, -300.0, 0.4 + np.pi) - here).mean() > 5


@pytest.mark.parametrize("number", range(len(PICTURES)))
@pytest.mark.parametrize(("back", "aside", "turn"), [(760.0, 0.0, 0.3), (350.0, 150.0, -0.2)])
def test_pictures_hang_where_they_should(number, back, aside, turn):
    """A picture's middle, projected by hand, shows what is painted there: the ink, or the mat where that is hollow."""
    angle = 2 * np.pi * number / len(PICTURES)
    outward, along = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    away = back * outward + aside * along
    yaw = np.arctan2(away[1], away[0]) + turn
    depth = away @ [np.cos(yaw), np.sin(yaw)]
    across = away @ [np.sin(yaw), -np.cos(yaw)] / depth
    up = (PICTURE_HEIGHT - 8 - EYE) / depth  # a little below the middle, where no edge is
    picture = PICTURES[number]
    inside = float(picture.outline(jnp.float32(0.0), jnp.float32(-0.1))) < 0
    seen = look(*(INRADIUS * outward - away), yaw)[int(FOCAL * (1 - up)), int(FOCAL * (1 + across))]
    assert abs(seen - np.array(picture.ink if inside else picture.mat)).max() < 60
    assert inside == (number not in (3, 4))


def test_walls_stand_between_water_and_sky():
    """In the middle of the image, looking straight at a wall without a picture."""
    angle, distance = 2 * np.pi / SIDES, 300.0
    image = look(*(INRADIUS - distance) * NORMALS[1], angle)
    middle = image[:, SIZE // 2]
    top, foot = (FOCAL * (1 - (height - EYE) / distance) for height in (WALL_TOP, WATER))
    np.testing.assert_array_equal(middle[: int(top)], np.broadcast_to((158, 190, 224), (int(top), 3)))
    assert (middle[int(top) + 1 : int(foot), 2] > 140).all()
    assert (middle[int(foot) + 1 :, 2] < 155).all()
    assert (middle[int(top) + 1 :, 2] > middle[int(top) + 1 :, 0] + 60).all()


def test_pictures_differ_from_each_other_and_by_place():
    headings = [look(0.0, 0.0, 2 * np.pi * i / 8) for i in range(8)]
    for i, one in enumerate(headings):
        for other in headings[:i]:
            assert abs(one - other).max() > 80
    assert abs(look(0.0, 0.0, 0.1) - look(STRIDE, 0.0, 0.1)).max() > 20
    assert abs(look(0.0, 0.0, 0.1) - look(0.0, 0.0, 0.1 + TURN)).max() > 80


def test_starts_are_by_the_wall_and_look_inwards():
    states = jax.jit(jax.vmap(MAZE.reset))(jax.random.split(jax.random.key(0), 200))
    radius = np.linalg.norm(states.place, axis=1)
    assert radius.min() >= 690 and radius.max() <= 730
    towards = -(states.place * np.stack([np.cos(states.yaw), np.sin(states.yaw)], -1)).sum(1) / radius
    assert towards.min() >= np.cos(np.pi / 4) - 1e-3
    angles = np.arctan2(states.place[:, 1], states.place[:, 0]) / (np.pi / 4)
    assert set(np.round(angles).astype(int) % 8) == set(range(8))


def test_goals_cover_place_and_yaw():
    goals = goal_set(make_env("watermaze"))
    assert goals.images.shape == (100, 84, 84, 3)
    places, yaws = goals.measures[:, :2], goals.measures[:, 2]
    assert (places @ NORMALS.T).max() <= INNER + 0.01
    quarter = (np.arctan2(places[:, 1], places[:, 0]) // (np.pi / 2)).astype(int)
    outer = np.linalg.norm(places, axis=1) > INNER * np.sqrt(0.5)
    facing = (yaws // (np.pi / 2)).astype(int)
    assert len(set(zip(quarter.tolist(), outer.tolist(), facing.tolist(), strict=True))) == 4 * 2 * 4
    apart = np.linalg.norm(places[:, None] - places, axis=-1) + 1e6 * np.eye(100)
    assert apart.min() > 80
    assert goal_set(make_env("watermaze")).digest == goals.digest


def test_a_tenth_of_the_width_and_of_a_turn():
    goal = np.array([[0.0, 0.0, 3.1]])
    measured = np.array([[151.0, -151.0, -3.1], [153.0, 0.0, 3.1 - 0.62], [0.0, 0.0, 3.1 - 0.64]])
    expected = [[True, True, True], [False, True, True], [True, True, False]]
    np.testing.assert_array_equal(reached(measured, goal, MAZE.spec.dimensions), expected)


def walk(goal: np.ndarray, place: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    """What a walker does who knows where he is: the action [N] that begins the shortest way of turning towards the
    goal's square, with the face, the back or a shoulder ahead, going there, and turning as the goal does."""
    way = np.clip(place, goal[:, :2] - 145, goal[:, :2] + 145) - place
    distance, bearing = np.hypot(*way.T), np.arctan2(way[:, 1], way[:, 0])
    strides = np.ceil(distance / STRIDE)
    steps, actions = [], []
    for ahead, go in ((0, FORWARD), (np.pi, BACKWARD), (np.pi / 2, STRAFE_RIGHT), (-np.pi / 2, STRAFE_LEFT)):
        aside = np.where(distance > 1e-3, np.asarray(wrap(bearing + ahead - yaw)), 0)
        first = np.round(aside / TURN)
        off = np.asarray(wrap(goal[:, 2] - yaw - first * TURN))
        then = np.sign(off) * np.ceil(np.maximum(abs(off) - 0.55, 0) / TURN)
        curve = (first != 0) & (abs(aside) < np.pi / 4) & (strides > 0) & (go == FORWARD)
        turn = np.where(first != 0, first, then)
        look = np.where(turn > 0, LOOK_LEFT, LOOK_RIGHT) + 2 * curve
        turns = (first != 0) | ((strides == 0) & (then != 0))
        actions.append(np.where(turns, look, np.where(strides > 0, go, REST)))
        steps.append(abs(first) + strides + abs(then) - curve * np.minimum(abs(first), strides))
    return np.choose(np.argmin(steps, axis=0), actions)


def test_goals_can_be_reached_in_time():
    """From the rim, by a walker who knows his pose: the table of docs/watermaze.md, which says why `fast` takes 80
    steps where the paper has 50."""
    starts = 20
    goal = np.tile(goal_set(make_env("watermaze"), "even:tune").measures, (starts, 1))
    state = jax.vmap(MAZE.reset)(jax.random.split(jax.random.key(1), len(goal)))
    step_all = jax.jit(jax.vmap(step))
    share = {}
    for t in range(1, 101):
        state = step_all(state, walk(goal, np.asarray(state.place), np.asarray(state.yaw)))
        there = reached(np.column_stack(state), goal, MAZE.spec.dimensions)
        share[t] = [there.all(-1).mean(), there[:, 0].mean(), there[:, 2].mean()]
    horizons = preset("watermaze", "paper").actor.horizon, preset("watermaze").actor.horizon
    assert horizons == (50, 80)
    page = (Path(__file__).parent.parent / "docs" / "watermaze.md").read_text()
    for place, row in enumerate(("whole goals", "x", "yaw")):
        printed = " | ".join(f"{100 * share[steps][place]:.0f} %" for steps in range(40, 101, 10))
        assert f"| {row} | {printed} |" in page


def test_the_first_goals_are_like_those_of_the_sets():
    """After 50 to 200 random steps 99 of 100 have one like them among 1,024, as docs/watermaze.md says; later random
    play ends at the rim."""
    rng, count = np.random.default_rng(0), 1024
    when = rng.integers(50, 201, count)
    state = jax.vmap(MAZE.reset)(jax.random.split(jax.random.key(0), count))
    step_all = jax.jit(jax.vmap(step))
    first = np.zeros((count, 3))
    for t in range(1, 1001):
        state = step_all(state, rng.integers(len(ACTIONS), size=count))
        if t <= 200:
            first[when == t] = np.column_stack(state)[when == t]
    for half in ("even:tune", "even:test"):
        goals = goal_set(make_env("watermaze"), half).measures
        alike = [
            reached(seen[:, None], goals[None], MAZE.spec.dimensions).all(-1).any(0).sum()
            for seen in (first, np.column_stack(state))
        ]
        assert alike[0] == 99 and 80 <= alike[1] < 90
