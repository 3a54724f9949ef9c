import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from discern.agent.goal_buffer import GoalBuffer
from discern.agent.relabel import controllable_only, draw_ends, measures, relabel, rows
from discern.config import RelabelConfig, RewardConfig
from discern.types import Batch, Trajectories

BATCH, LENGTH, CAPACITY = 6, 5, 16
FRAMES = LENGTH + 1


def trajectories(controllable: jax.Array = jnp.ones(BATCH, bool)) -> Trajectories:  # noqa: B008
    """Pixels say which trajectory and which frame; intended goals are (200 + b, 0), buffer entries (0, 100 + slot)."""
    b, t = jnp.meshgrid(jnp.arange(BATCH), jnp.arange(FRAMES), indexing="ij")
    pixels = jnp.stack([b, t, jnp.zeros_like(b)], -1).astype(jnp.uint8)[:, :, None, None]
    goal = jnp.stack([200 + jnp.arange(BATCH)] + [jnp.zeros(BATCH, int)] * 2, -1).astype(jnp.uint8)
    return Trajectories(
        pixels,
        jnp.zeros((BATCH, LENGTH), jnp.int32),
        goal[:, None, None],
        jnp.arange(BATCH, dtype=jnp.int32),
        controllable,
        pixels[:, :, 0, 0].astype(jnp.float32),
        goal.astype(jnp.float32),
    )


def buffer() -> GoalBuffer:
    slot = jnp.arange(CAPACITY)
    pixels = jnp.stack([jnp.zeros_like(slot), 100 + slot, jnp.zeros_like(slot)], -1)
    return GoalBuffer(pixels.astype(jnp.uint8)[:, None, None], pixels.astype(jnp.float32))


def goals_of(batch: Batch) -> np.ndarray:
    """The first two colour values of every goal [B, G, 2]."""
    return np.asarray(rows(batch)[batch.goal_row])[:, :, 0, 0, :2].astype(int)


draw = jax.jit(relabel, static_argnums=(3, 4))


def make(seed: int = 0, **settings) -> Batch:
    return draw(jax.random.key(seed), trajectories(), buffer(), RelabelConfig(**settings), RewardConfig())


def test_the_four_kinds_of_goals_are_what_they_say():
    for seed in range(20):
        batch = make(seed, goals=("draw", "random", "hindsight", "other"), p_hindsight=0.0)
        drawn, random, hindsight, other = np.moveaxis(goals_of(batch), 1, 0)
        own = np.arange(BATCH)
        np.testing.assert_array_equal(drawn, np.stack([200 + own, 0 * own], -1))
        assert (random[:, 0] == 0).all()
        assert (random[:, 1] >= 100).all()
        np.testing.assert_array_equal(hindsight[:, 0], own)
        assert (hindsight[:, 1] >= FRAMES - 3).all()
        assert (other[:, 0] != own).all()
        assert (other[:, 1] == FRAMES - 1).all()
        np.testing.assert_array_equal(batch.is_hindsight, [[False, False, True, False]] * BATCH)


def test_a_kind_may_be_named_more_than_once():
    batch = make(goals=("random", "random", "hindsight", "hindsight", "other"))
    goals = goals_of(batch)
    assert goals.shape == (BATCH, 5, 2)
    assert (goals[:, 0] != goals[:, 1]).any()


def test_the_papers_draw_is_shared_by_policy_and_teacher():
    share = []
    for seed in range(100):
        batch = make(seed)
        assert batch.goal_row.shape == (BATCH, 1)
        np.testing.assert_array_equal(batch.goal_row[:, 0], batch.teacher_row)
        np.testing.assert_array_equal(batch.is_hindsight[:, 0], batch.teacher_is_hindsight)
        goals, hindsight = goals_of(batch)[:, 0], np.asarray(batch.teacher_is_hindsight)
        np.testing.assert_array_equal(goals[hindsight][:, 0], np.flatnonzero(hindsight))
        np.testing.assert_array_equal(goals[~hindsight][:, 0], 200 + np.flatnonzero(~hindsight))
        share.append(hindsight.mean())
    assert np.mean(share) == pytest.approx(0.25, abs=0.05)


def test_hindsight_covers_its_window_and_no_more():
    seen = {int(t) for seed in range(30) for t in goals_of(make(seed, goals=("hindsight",)))[:, 0, 1]}
    assert seen == {FRAMES - 3, FRAMES - 2, FRAMES - 1}


def test_always_and_never_hindsight():
    assert make(p_hindsight=1.0).teacher_is_hindsight.all()
    assert not make(p_hindsight=0.0).teacher_is_hindsight.any()


def test_decoys_leave_out_the_goals_slot():
    for seed in range(20):
        decoys = np.asarray(make(seed).decoys)[:, :, 0, 0, 1] - 100
        assert not (decoys == np.arange(BATCH)[:, None]).any()
        assert all(len(set(row)) == 4 for row in decoys.tolist())


def test_hindsight_is_drawn_afresh_at_each_replay():
    assert (make(0).teacher_is_hindsight != make(1).teacher_is_hindsight).any()


def test_a_pool_of_decoys_is_drawn_once_for_all_goals():
    reward = RewardConfig(decoy_pool=8)
    batch = draw(jax.random.key(0), trajectories(), buffer(), RelabelConfig(), reward)
    assert batch.decoys.shape == (1, 8, 1, 1, 3)
    assert len({tuple(pixel) for pixel in np.asarray(batch.decoys)[0, :, 0, 0].tolist()}) == 8


def test_the_teacher_learns_only_from_ends_at_which_the_world_was_controllable():
    controllable = jnp.array([True, False, True, False, False, True])
    batch = draw(
        jax.random.key(0), trajectories(controllable), buffer(), RelabelConfig(p_hindsight=0.0), RewardConfig(decoys=4)
    )
    achieved = np.asarray(rows(batch)[batch.achieved_row])[:, 0, 0, :2].astype(int)
    intended = np.asarray(rows(batch)[batch.teacher_row])[:, 0, 0, 0].astype(int)
    assert set(achieved[:, 0].tolist()) == {0, 2, 5}
    np.testing.assert_array_equal(achieved[np.asarray(controllable), 0], [0, 2, 5])
    assert (achieved[:, 1] == FRAMES - 1).all()
    np.testing.assert_array_equal(intended - 200, achieved[:, 0])
    np.testing.assert_array_equal(np.asarray(batch.goal_row[:, 0]), BATCH * FRAMES + np.arange(BATCH))


def test_where_no_end_was_controllable_the_teacher_takes_what_there_is():
    np.testing.assert_array_equal(controllable_only(jnp.zeros(4, bool)), [0, 0, 0, 0])
    np.testing.assert_array_equal(controllable_only(jnp.ones(4, bool)), [0, 1, 2, 3])


def test_measures_follow_the_rows_of_their_images():
    batch = make(3, goals=("draw", "random", "hindsight", "other"))
    np.testing.assert_array_equal(measures(batch), rows(batch)[:, 0, 0])


def test_without_ends_every_goal_is_for_the_last_frame():
    batch = make(goals=("draw", "random", "hindsight", "other"))
    assert (np.asarray(batch.end) == LENGTH).all()


def test_an_end_is_the_last_frame_in_half_of_the_cases_and_never_in_the_first_quarter():
    drawn, ends = map(np.asarray, draw_ends(jax.random.key(0), 4000, 10, RelabelConfig(("draw", "other"), ends=True)))
    np.testing.assert_array_equal(drawn, ends[:, 0])
    assert (drawn != ends[:, 1]).any()
    ends = ends[:, 1]
    counts = np.bincount(ends, minlength=11) / 4000
    assert ends.min() == 3 and ends.max() == 10  # a quarter of ten, rounded up
    assert counts[10] == pytest.approx(0.5 + 0.5 / 8, abs=0.03)
    np.testing.assert_allclose(counts[3:10], 0.5 / 8, atol=0.02)


def test_with_ends_a_hindsight_goal_lies_up_to_two_frames_before_its_end():
    gaps, ends = set(), set()
    for seed in range(40):
        batch = make(seed, goals=("draw", "hindsight", "other", "hindsight"), ends=True, p_hindsight=0.5)
        goals, end = goals_of(batch), np.asarray(batch.end)
        for column in (1, 3):
            assert (goals[:, column, 0] == np.arange(BATCH)).all()
            gaps |= set((end[:, column] - goals[:, column, 1]).tolist())
        assert (goals[:, 2, 1] == LENGTH).all()  # another trajectory's last frame, whatever the end
        ends |= set(end.reshape(-1).tolist())
        drawn = np.asarray(batch.teacher_is_hindsight)
        achieved = np.asarray(rows(batch)[batch.achieved_row])[:, 0, 0, 1]
        np.testing.assert_array_equal(achieved, np.where(drawn, end[:, 0], LENGTH))
        np.testing.assert_array_equal(batch.goal_row[:, 0], batch.teacher_row)
    assert gaps == {0, 1, 2}
    assert ends == {2, 3, 4, 5}


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("goal_row", jnp.zeros((BATCH, 1))),  # no integers
        ("end", jnp.zeros((BATCH - 1, 1), jnp.int32)),  # another B than the trajectories'
        ("decoys", jnp.zeros((2, 4, 1, 1, 3), jnp.uint8)),  # neither B nor 1
        ("trajectories", trajectories()._replace(actions=jnp.zeros((BATCH, LENGTH + 1), jnp.int32))),  # T + 1 of T + 1
    ],
)
def test_a_batch_of_other_shapes_is_refused(field, wrong):
    """Every function of the agent checks what its arguments say of themselves, in the tests."""
    batch = make(0, goals=("hindsight",))
    assert rows(batch).shape == (BATCH * (FRAMES + 1), 1, 1, 3)
    with pytest.raises(TypeCheckError, match="parameter 'batch'"):
        rows(batch._replace(**{field: wrong}))
