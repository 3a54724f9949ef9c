import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.goal_buffer import (
    GoalBuffer,
    consider,
    distance_to_rest,
    draw_decoys,
    hand_over,
    most_proposed,
    no_proposals,
    propose,
    substitute,
)
from discern.config import GoalBufferConfig


def plain(*levels: int) -> jax.Array:
    """One-pixel grey images."""
    return jnp.array(levels, jnp.uint8)[:, None, None, None] * jnp.ones((1, 1, 1, 3), jnp.uint8)


def grey(images: jax.Array) -> GoalBuffer:
    """Each measured by its level."""
    return GoalBuffer(images, images[..., 0, 0, :1].astype(jnp.float32))


def proposed(
    buffer: GoalBuffer, seen: GoalBuffer, eligible: jax.Array, key: jax.Array, config: GoalBufferConfig
) -> GoalBuffer:
    """The buffer after a step that showed N observations."""
    return consider(buffer, seen, propose(key, eligible, config.p_replace), jax.random.fold_in(key, 1), config)


UNIFORM = GoalBufferConfig(p_replace=1.0)
DIVERSE = GoalBufferConfig(strategy="diverse", p_replace=1.0, p_add_non_diverse=0.0)


def test_distance_to_the_rest_by_hand():
    buffer = grey(plain(0, 51, 255))
    # from 255, leaving out its own slot: √3 · (1 + 0.8) / 2 and √3 · 0.8
    assert distance_to_rest(buffer, plain(255)[0], 2, DIVERSE) == pytest.approx(np.sqrt(3) * 0.9, rel=1e-5)
    nearest = GoalBufferConfig(strategy="diverse", closeness="nearest")
    assert distance_to_rest(buffer, plain(255)[0], 2, nearest) == pytest.approx(np.sqrt(3) * 0.8, rel=1e-5)


def test_uniform_replaces_exactly_one_random_entry():
    buffer = grey(plain(*range(10)))
    slots = []
    for seed in range(60):
        after = substitute(buffer, grey(plain(200)[0]), jax.random.key(seed), UNIFORM)
        changed = np.flatnonzero((np.asarray(after.images) != np.asarray(buffer.images)).any((1, 2, 3)))
        assert len(changed) == 1
        slots.append(int(changed[0]))
        np.testing.assert_array_equal(after.measures[:, 0], after.images[:, 0, 0, 0])
    assert len(set(slots)) >= 8


def test_diverse_takes_what_is_farther_and_leaves_what_is_closer():
    crowded = grey(plain(10, 11, 12, 13))
    far = substitute(crowded, grey(plain(255)[0]), jax.random.key(0), DIVERSE)
    assert int(far.images.max()) == 255
    spread = grey(plain(0, 80, 160, 255))
    outer = 0
    for seed in range(20):
        after = substitute(spread, grey(plain(120)[0]), jax.random.key(seed), DIVERSE)
        values = set(np.asarray(after.images[:, 0, 0, 0]).tolist())
        outer += {0, 255} <= values
    assert outer == 20  # 120 lies amid the rest: an outer entry never gives way to it


def test_diverse_adds_a_close_one_anyway_with_its_probability():
    spread = grey(plain(0, 0, 255, 255))
    anyway = GoalBufferConfig(strategy="diverse", p_add_non_diverse=1.0)
    after = substitute(spread, grey(plain(128)[0]), jax.random.key(0), anyway)
    assert 128 in np.asarray(after.images[:, 0, 0, 0])


def test_propose_considers_each_observation_with_p_replace():
    buffer = grey(plain(*[0] * 64))
    config = GoalBufferConfig(p_replace=0.1)
    run = jax.jit(
        lambda key: (
            proposed(buffer, grey(plain(*range(100, 150))), jnp.ones(50, bool), key, config).images[:, 0, 0, 0] > 0
        )
    )
    replaced = [int(run(jax.random.key(seed)).sum()) for seed in range(200)]
    assert np.mean(replaced) == pytest.approx(5.0, rel=0.1)  # 50 · 0.1, less a few slots hit twice


def test_nothing_is_proposed_at_probability_zero():
    buffer = grey(plain(*range(8)))
    after = proposed(
        buffer, grey(plain(*range(100, 120))), jnp.ones(20, bool), jax.random.key(0), GoalBufferConfig(p_replace=0.0)
    )
    np.testing.assert_array_equal(after.images, buffer.images)


def test_decoys_come_without_replacement_and_never_from_the_goals_slot():
    goal_slot = jnp.arange(8).repeat(50)
    decoys = np.asarray(draw_decoys(jax.random.key(0), 8, goal_slot, 4))
    assert decoys.shape == (400, 4)
    assert all(len(set(row)) == 4 for row in decoys.tolist())
    assert not (decoys == np.asarray(goal_slot)[:, None]).any()
    counts = np.bincount(decoys.reshape(-1), minlength=8)
    assert counts.min() > 0.8 * 200  # every slot is a decoy about as often


def test_all_other_slots_can_be_decoys():
    decoys = np.asarray(draw_decoys(jax.random.key(0), 5, jnp.array([2]), 4))
    assert set(decoys[0].tolist()) == {0, 1, 3, 4}


def test_a_loop_of_known_length_considers_the_same_observations(monkeypatch):
    """An accelerator runs as many rounds as are ever needed; the rounds too many change nothing."""
    buffer = grey(plain(*range(64)))
    for config in (GoalBufferConfig(p_replace=0.1), GoalBufferConfig(p_replace=0.1, strategy="diverse")):
        on_cpu = [
            proposed(buffer, grey(plain(*range(100, 130))), jnp.ones(30, bool), jax.random.key(seed), config).images
            for seed in range(5)
        ]
        with monkeypatch.context() as patched:
            patched.setattr(jax, "default_backend", lambda: "gpu")
            elsewhere = [
                proposed(buffer, grey(plain(*range(100, 130))), jnp.ones(30, bool), jax.random.key(seed), config).images
                for seed in range(5)
            ]
        np.testing.assert_array_equal(jnp.stack(on_cpu), jnp.stack(elsewhere))


def test_the_most_that_are_considered_is_hardly_ever_exceeded():
    assert most_proposed(256, 0.0) == 0
    assert most_proposed(1, 1e-3) == 1
    drawn = np.random.default_rng(0).binomial(256, 0.01, 200_000)
    assert (drawn > most_proposed(256, 0.01)).sum() <= 1
    assert most_proposed(256, 0.01) < 16


def test_what_is_not_eligible_is_not_considered():
    buffer = grey(plain(*[0] * 64))
    eligible = jnp.arange(20) < 10
    config = GoalBufferConfig(p_replace=1.0)
    after = np.asarray(proposed(buffer, grey(plain(*range(100, 120))), eligible, jax.random.key(0), config).images)[
        :, 0, 0, 0
    ]
    assert set(after[after > 0].tolist()) <= set(range(100, 110))
    assert (after > 0).sum() >= 8


def test_what_is_proposed_elsewhere_waits_in_order():
    waiting = no_proposals(200, grey(plain(0)), p_replace=0.001)
    room = most_proposed(200, 0.001)
    assert waiting.seen.images.shape == (room, 1, 1, 3)
    waiting = hand_over(waiting, grey(plain(1, 2, 3)), jnp.array([True, False, True]))
    waiting = hand_over(waiting, grey(plain(4, 5, 6)), jnp.array([False, True, False]))
    assert int(waiting.filled) == 3
    assert waiting.seen.images[:3, 0, 0, 0].tolist() == waiting.seen.measures[:3, 0].tolist() == [1, 3, 5]
    full = hand_over(waiting, grey(plain(*range(10, 40))), jnp.ones(30, bool))
    assert int(full.filled) == room
    assert full.seen.images[:, 0, 0, 0].tolist() == [1, 3, 5, *range(10, 10 + room - 3)]
