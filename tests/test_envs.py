import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.envs import is_host, make_env
from discern.envs.arena import Arena, ArenaState
from discern.envs.base import Hosted, reset_worlds, step_worlds
from discern.types import UserError
from tests.counting import Counting

ARENA = Arena(size=24, stride=0.1, radius=0.1, distractors=2, speed=0.05)


NO_SLIDER = jnp.zeros(0)


def state(x: float, y: float) -> ArenaState:
    return ArenaState(
        jnp.array([x, y]), jnp.array([[0.0, 0.0], [0.02, 1.0]]), jnp.array([[0.05, 0.0], [-0.05, 0.0]]), NO_SLIDER
    )


@pytest.mark.parametrize(
    ("action", "place"), [(0, (0.5, 0.5)), (1, (0.6, 0.5)), (2, (0.4, 0.5)), (3, (0.5, 0.6)), (4, (0.5, 0.4))]
)
def test_the_dot_moves_as_told(action, place):
    after, is_last = ARENA.step(state(0.5, 0.5), jnp.array(action), jax.random.key(0))
    np.testing.assert_allclose(ARENA.measure(after), place, atol=1e-6)
    assert not is_last


def test_walls_hold_the_dot_and_turn_the_distractors():
    after, _ = ARENA.step(state(0.95, 0.5), jnp.array(1), jax.random.key(0))
    np.testing.assert_allclose(after.dot, [1.0, 0.5])
    np.testing.assert_allclose(after.distractors, [[0.05, 0.0], [0.07, 1.0]], atol=1e-6)
    np.testing.assert_allclose(after.velocities[1], [0.05, 0.0])


def test_the_picture_shows_where_the_dot_is():
    """The yellow's centre of mass moves with the dot, by less than a pixel too."""
    lone = Arena(size=24, radius=0.1, distractors=0)
    for x, y in ((0.2, 0.7), (0.5, 0.5), (0.53, 0.5), (1.0, 0.0)):
        still = ArenaState(jnp.array([x, y]), jnp.zeros((0, 2)), jnp.zeros((0, 2)), NO_SLIDER)
        yellow = np.asarray(lone.observe(still)[..., 0], float) - 24
        down, across = np.mgrid[:24, :24] + 0.5
        centre = np.array([(yellow * across).sum(), (yellow * down).sum()]) / yellow.sum()
        np.testing.assert_allclose((centre - 2.4) / 19.2, [x, y], atol=0.02)


def test_goals_cover_the_arena_evenly():
    keys = jax.random.split(jax.random.key(0), 100)
    places = np.asarray(jax.vmap(lambda k, i: ARENA.goal_state(k, i, 100).dot)(keys, jnp.arange(100)))
    assert len({tuple(place) for place in places.round(3).tolist()}) == 100
    np.testing.assert_allclose(places.min(0), 0.05)
    np.testing.assert_allclose(places.max(0), 0.95)
    others = np.asarray(jax.vmap(lambda k, i: ARENA.goal_state(k, i, 100).dot)(keys, jnp.arange(100, 200)))
    np.testing.assert_array_equal(np.floor(10 * others), np.floor(10 * places))  # one in each cell
    assert np.abs(others - places).max(1).min() > 1e-4


def test_a_world_that_ended_starts_over_and_says_so():
    env = Counting(length=2)
    worlds = reset_worlds(env, jax.random.key(0), 3)
    flags = []
    for t in range(6):
        flags.append((bool(worlds.is_first[0]), bool(worlds.is_last[0]), int(worlds.state.step[0])))
        worlds = step_worlds(env, worlds, jnp.zeros(3, int), jax.random.key(t))
    assert flags == [(True, False, 0), (False, False, 1), (False, True, 2)] * 2


def test_a_hosted_world_equals_the_world():
    hosted = Hosted(ARENA, 2)
    step = hosted.reset(3)
    reset_key, key = jax.random.split(jax.random.key(3))
    worlds = reset_worlds(ARENA, reset_key, 2)
    for t in range(3):
        np.testing.assert_array_equal(hosted.observe(step.raw), jax.vmap(ARENA.observe)(worlds.state))
        np.testing.assert_array_equal(hosted.measure(step.raw), jax.vmap(ARENA.measure)(worlds.state))
        hosted.send(np.array([1, 3], np.int32))
        step = hosted.recv()
        worlds = step_worlds(ARENA, worlds, jnp.array([1, 3]), jax.random.fold_in(key, t))
    hosted.close()
    with pytest.raises(RuntimeError):
        hosted.recv()


def test_worlds_are_made_by_name():
    assert make_env("arena/84").spec.image_shape == (84, 84, 3)
    assert is_host(Hosted(make_env("arena"), 4)) and not is_host(make_env("arena"))
    with pytest.raises(UserError, match="there is no world 'moon'; there are: arena"):
        make_env("moon")


def test_the_second_thing_to_move_is_a_slider_at_the_lower_edge():
    """Two actions move it and nothing else; its white is where it is measured to be."""
    arena = make_env("arena/two")
    assert [d.name for d in arena.spec.dimensions] == ["x", "y", "slider"]
    start = arena.reset(jax.random.key(0))._replace(slider=jnp.array([0.5]))
    for action, expected in ((5, 0.6), (6, 0.4), (0, 0.5), (1, 0.5)):
        after, _ = arena.step(start, action, jax.random.key(1))
        np.testing.assert_allclose(after.slider, [expected], rtol=1e-5)
        assert (after.dot == start.dot).all() == (action != 1)
    for place in (0.0, 0.3, 1.0):
        white = np.asarray(arena.observe(start._replace(slider=jnp.array([place]), dot=jnp.zeros(2))))[-1, :, 2] > 200
        assert abs(np.flatnonzero(white).mean() + 0.5 - (2.4 + 19.2 * place)) < 0.6
