import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.replay import commit, empty_replay, refuse_if_too_large, replay_bytes, sample
from discern.types import UserError

SHAPE = (2, 2, 3)


def stamp(replay, slot, value):
    actions = replay.stored.actions.at[slot].set(value)
    return replay._replace(stored=replay.stored._replace(actions=actions))


def test_only_whole_trajectories_are_ever_sampled():
    """Environments finish at different times; each trajectory carries a number in its actions."""
    capacity, n = 5, 3
    replay = empty_replay(capacity, n, horizon=2, image_shape=SHAPE)
    slot = capacity + jnp.arange(n)
    rng, finished, number = np.random.default_rng(0), [], 1
    current = list(range(1, n + 1))
    number = n + 1
    for _ in range(40):
        for env in range(n):
            replay = stamp(replay, int(slot[env]), current[env])
        whole = rng.random(n) < 0.4
        replay, slot = commit(replay, slot, jnp.asarray(whole))
        for env in np.flatnonzero(whole):
            finished.append(current[env])
            current[env], number = number, number + 1
        kept = set(finished[-capacity:])
        assert int(replay.filled) == min(len(finished), capacity)
        if finished:
            drawn = set(np.asarray(sample(replay, jax.random.key(0), 64).actions[:, 0]).tolist())
            assert drawn == kept
        assert len({*np.asarray(slot).tolist(), *np.asarray(replay.queue).tolist()}) == capacity + n


def test_sampling_is_uniform():
    replay = empty_replay(4, 1, horizon=2, image_shape=SHAPE)
    slot = jnp.array([4])
    for number in range(3):
        replay = stamp(replay, int(slot[0]), number)
        replay, slot = commit(replay, slot, jnp.array([True]))
    drawn = np.asarray(sample(replay, jax.random.key(0), 3000).actions[:, 0])
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 3000, 1 / 3, atol=0.04)


def test_its_size_is_known_and_a_size_too_large_is_refused():
    assert replay_bytes(10, 2, 50, (84, 84, 3)) == pytest.approx(12 * 52 * 84 * 84 * 3, rel=0.01)
    with pytest.raises(UserError, match="set --replay-capacity to"):
        refuse_if_too_large(10**9, 2, 50, (84, 84, 3))


def test_twins_are_sampled_in_whole_groups():
    twins, capacity = 3, 9
    replay = empty_replay(capacity, 6, horizon=2, image_shape=SHAPE)
    slot = capacity + jnp.arange(6)
    for number in range(7):
        for env in range(6):
            replay = stamp(replay, int(slot[env]), 10 * number + env)
        whole = jnp.repeat(jnp.array([True, number % 2 == 0]), twins)  # groups finish together, not all at once
        replay, slot = commit(replay, slot, whole)
    drawn = np.asarray(sample(replay, jax.random.key(0), 300, twins).actions[:, 0]).reshape((-1, twins))
    np.testing.assert_array_equal(drawn - drawn[:, :1], [[0, 1, 2]] * 100)
    assert set(drawn[:, 0].tolist()) == {50, 60, 63}
