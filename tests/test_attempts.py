"""Attempts that begin together: in groups, in one state, with the same random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.config import replace
from discern.envs import make_env
from discern.envs.base import Attempts, Hosted, attempts_of, reset_worlds, step_worlds
from discern.presets import preset
from tests.counting import Counting

HORIZON, TWINS, N = 5, 4, 12


def play(env, attempts: Attempts, steps: int, actions=None):
    """What N copies show over some steps: images [steps + 1, N, …], is_first, is_last and states."""
    step = jax.jit(lambda worlds, actions, key: step_worlds(env, worlds, actions, key, attempts))
    worlds, seen = reset_worlds(env, jax.random.key(0), N, attempts), []
    for t in range(steps + 1):
        seen.append((jax.vmap(env.observe)(worlds.state), worlds.is_first, worlds.is_last, worlds.state))
        key = jax.random.fold_in(jax.random.key(1), t)
        chosen = jax.random.randint(key, (N,), 0, env.spec.actions) if actions is None else jnp.full(N, actions)
        worlds = step(worlds, chosen, key)
    return jax.tree.map(lambda *parts: np.stack(parts), *seen)


def in_groups(x: np.ndarray) -> np.ndarray:
    """[steps, N, …] → [steps, groups, TWINS, …]."""
    return x.reshape((len(x), -1, TWINS, *x.shape[2:]))


def test_off_where_nothing_asks_for_them():
    assert attempts_of(preset("arena", "paper").actor) is None
    config = replace(preset("arena"), {"actor.twins": 4, "actor.p_restart": 0.5})
    assert attempts_of(config.actor) == Attempts(20, 4, 0.5)


@pytest.mark.parametrize("p_restart", [0.0, 1.0])
def test_an_attempt_lasts_the_horizon_and_its_group_begins_it_in_one_state(p_restart):
    env = make_env("arena")
    images, is_first, is_last, state = play(env, Attempts(HORIZON, TWINS, p_restart), 18)
    begins = np.arange(19) % (HORIZON + 1) == 0
    np.testing.assert_array_equal(is_first, np.repeat(begins[:, None], N, 1))
    np.testing.assert_array_equal(is_last, np.repeat((np.arange(19) % (HORIZON + 1) == HORIZON)[:, None], N, 1))
    dots = in_groups(state.dot)
    assert (dots[begins] == dots[begins][:, :, :1]).all()
    assert (in_groups(images)[begins] == in_groups(images)[begins][:, :, :1]).all()
    assert (dots[~begins] != dots[~begins][:, :, :1]).any()
    ends = in_groups(state.dot)[np.flatnonzero(begins)[1:] - 1]
    led = (np.abs(ends - dots[begins][1:][:, :, :1]).max(-1) < 1e-6).any(-1)
    assert led.all() == (p_restart == 0.0)  # where it goes on, the state is one that a member ended in


def test_twins_share_what_they_do_not_control_and_differ_in_what_they_do():
    env = make_env("arena/two")
    attempts = Attempts(HORIZON, TWINS)
    _, _, _, state = play(env, attempts, 18)
    for part in (state.distractors, state.velocities):
        shared = in_groups(part)
        assert (shared == shared[:, :, :1]).all()
    assert (in_groups(state.distractors)[:, 0] != in_groups(state.distractors)[:, 1]).any()
    assert (in_groups(state.slider)[1:] != in_groups(state.slider)[1:, :, :1]).any()
    images, *_ = play(env, attempts, 18, actions=3)  # the same actions: the same pictures
    assert (in_groups(images) == in_groups(images)[:, :, :1]).all()


def test_an_episode_that_ends_ends_the_attempt_of_its_whole_group():
    """Episodes of seven steps: one whole attempt, and one that is cut after one step; then a restart."""
    images, is_first, _, _ = play(Counting(length=7), Attempts(HORIZON, TWINS), 30)
    step = images[:, :, 0, 0, 1]
    first_steps = [step[t, 0] for t in np.flatnonzero(is_first[:, 0])]
    assert first_steps[:4] == [0, 5, 0, 5]
    assert (is_first == is_first[:, :1]).all()


def test_host_worlds_that_could_live_inside_jit_keep_to_it_too():
    world = Hosted(make_env("arena"), 8, Attempts(3, 4))
    step, first = world.reset(0), []
    for _ in range(8):
        world.send(np.random.default_rng(0).integers(0, 5, 8))
        step = world.recv()
        first.append(bool(step.is_first.all()))
        if step.is_first.any():
            groups = np.asarray(world.observe(step.raw)).reshape((2, 4, -1))
            assert (groups == groups[:, :1]).all()
    assert first == [False, False, False, True] * 2
