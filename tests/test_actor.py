"""The counting world's pixels say (identity of the episode, step, last action): order and alignment show in them."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.learner import Learner
from discern.agent.policy import ExtendedActions, epsilon_greedy, extend_actions
from discern.agent.relabel import relabel, rows
from discern.agent.replay import Memory, empty_replay, sample
from discern.config import ActorConfig, Config, replace
from discern.envs.base import Hosted
from discern.presets import preset
from discern.training.acting import exploration
from discern.training.collect import DeviceCollector, HostCollector
from tests.counting import Counting, Unruly

HORIZON, ENVIRONMENTS, CAPACITY = 5, 4, 64
CONFIG = replace(
    preset("arena"),
    {
        "actor.environments": ENVIRONMENTS,
        "actor.horizon": HORIZON,
        "replay_capacity": CAPACITY,
        "goal_buffer.capacity": 16,
        "goal_buffer.p_replace": 0.0,
        "network.channels": (4,),
        "network.kernels": (4,),
        "network.strides": (4,),
        "network.features": 8,
        "network.lstm": 8,
        "network.bfloat16": False,
    },
)


class Slow(Hosted):
    """Is always the last to come back."""

    def recv(self):
        time.sleep(0.01)
        return super().recv()


def collect(way: str, episode: int, steps: int, config: Config = CONFIG):
    """Whole trajectories after every environment made `steps` steps, the memory, and the counts."""
    env = Counting(length=episode)
    learner = Learner(config, env.spec)
    if way == "device":
        collector = DeviceCollector(replace(config, {"actor.steps_per_turn": steps}), env, learner.imitator)
    else:
        groups = [(Slow if way == "as they come" else Hosted)(env, 1), Hosted(env, ENVIRONMENTS - 1)]
        config = replace(config, {"actor.steps_per_turn": steps, "actor.in_order": way == "host"})
        collector = HostCollector(config, groups, learner.imitator)
    state, goals, _ = collector.start(jax.random.key(0), first_slot=CAPACITY)
    params = jax.jit(learner.init)(jax.random.key(1), goals.images).params
    memory = Memory(empty_replay(CAPACITY, ENVIRONMENTS, HORIZON, env.spec.image_shape, 1), goals)
    goal_images = np.asarray(goals.images)
    state, memory = collector.turn(params, state, memory, jax.random.key(2))
    replay = memory.replay
    whole = np.asarray(replay.queue)[: int(replay.filled)]
    stored = jax.tree.map(lambda x: np.asarray(x)[whole], replay.stored)
    return stored, memory, collector.counts(state), goal_images


@pytest.mark.parametrize("way", ["device", "host", "as they come"])
@pytest.mark.parametrize("episode", [0, 7])
def test_order_alignment_and_resets(way, episode):
    steps = 41
    stored, _, counts, goal_images = collect(way, episode, steps)
    identity, step, action = np.moveaxis(stored.observations[:, :, 0, 0].astype(int), -1, 0)
    assert (identity == identity[:, :1]).all()  # no trajectory crosses into another episode
    assert (np.diff(step, axis=1) == 1).all()  # no frame is lost, doubled or out of order
    np.testing.assert_array_equal(action[:, 1:], stored.actions)  # a_t led from s_t to s_{t+1}
    np.testing.assert_array_equal(stored.goal, goal_images[stored.goal_slot])
    assert counts["trajectories"] == len(stored.actions)


@pytest.mark.parametrize("way", ["device", "host"])
def test_worlds_are_not_reset_between_goals(way):
    stored, _, counts, _ = collect(way, episode=0, steps=41)
    assert counts == {"trajectories": 8 * ENVIRONMENTS, "dropped": 0, "proposed": 0}
    first, last = stored.observations[:, 0, 0, 0], stored.observations[:, -1, 0, 0]
    ends = {tuple(frame) for frame in last.tolist()}
    followed = sum(tuple(frame) in ends for frame in first.tolist())
    assert followed == 7 * ENVIRONMENTS  # each trajectory but the first begins on the frame that closed another


def test_out_of_order_no_group_waits_for_a_slow_one():
    in_order, as_they_come = (collect(way, episode=0, steps=41)[2]["trajectories"] for way in ("host", "as they come"))
    assert in_order == 8 * ENVIRONMENTS
    assert as_they_come > 10 * (ENVIRONMENTS - 1)  # of the quick group alone, in as many decisions


@pytest.mark.parametrize(
    ("way", "episode", "whole", "dropped"),
    [
        ("device", 5, 1, 0),  # ends exactly with a trajectory
        ("device", 7, 1, 1),  # two steps are left over
        ("device", 10, 2, 0),
        ("device", 3, 0, 1),  # too short for any
        ("host", 7, 1, 1),
        ("host", 10, 2, 0),
    ],
)
def test_partial_trajectories_are_dropped_and_counted(way, episode, whole, dropped):
    episodes = 4
    # the worlds are warm when counting begins: finish that episode, then count whole ones
    stored, _, counts, _ = collect(
        way, episode, steps=episodes * (episode + 1), config=replace(CONFIG, {"actor.warm_up": episode + 1})
    )
    assert counts["trajectories"] == pytest.approx(whole * episodes * ENVIRONMENTS, abs=ENVIRONMENTS)
    assert counts["dropped"] == pytest.approx(dropped * episodes * ENVIRONMENTS, abs=ENVIRONMENTS)
    assert len(stored.actions) == counts["trajectories"]


@pytest.mark.parametrize("way", ["device", "host"])
def test_relabelled_goals_come_from_where_they_say(way):
    _, memory, _, _ = collect(way, episode=0, steps=31)
    trajectories = sample(memory.replay, jax.random.key(3), 8)
    config = replace(
        CONFIG, {"relabel.goals": ("hindsight", "other"), "relabel.p_hindsight": 1.0, "relabel.ends": False}
    )
    batch = relabel(jax.random.key(4), trajectories, memory.goals, config.relabel, config.reward)
    goals = np.asarray(rows(batch)[batch.goal_row])[:, :, 0, 0].astype(int)
    frames = np.asarray(trajectories.observations)[:, :, 0, 0].astype(int)
    for index in range(8):
        assert goals[index, 0].tolist() in frames[index, -3:].tolist()
        assert goals[index, 1].tolist() in frames[:, -1].tolist()


def test_exploration_is_spread_over_the_environments():
    epsilon = exploration(ActorConfig(environments=3))
    np.testing.assert_allclose(epsilon, [0.4, 0.4**4.5, 0.4**8], rtol=1e-4)


def test_epsilon_greedy_explores_as_often_as_told():
    q_values = jnp.tile(jnp.array([0.0, 1.0, 0.5, 0.2]), (4000, 1))
    actions = np.asarray(epsilon_greedy(jax.random.key(0), q_values, jnp.full(4000, 0.4)))
    assert (actions == 1).mean() == pytest.approx(0.6 + 0.4 / 4, abs=0.03)
    assert (epsilon_greedy(jax.random.key(0), q_values, jnp.zeros(4000)) == 1).all()
    assert set(np.unique(epsilon_greedy(jax.random.key(0), q_values, jnp.ones(4000))).tolist()) == {0, 1, 2, 3}


def test_a_whim_lasts_as_long_as_it_was_drawn_for():
    n = 20_000
    extended = ExtendedActions(jnp.full(n, 7, jnp.int32), jnp.zeros(n, jnp.int32))
    drawn = extend_actions(jax.random.key(0), extended, jnp.full(n, 0.5), actions=4, ez_greedy=2.0)
    left = np.asarray(drawn.left)
    assert (left > 0).mean() == pytest.approx(0.5, abs=0.02)
    assert ((left == 1).sum() / (left == 2).sum()) == pytest.approx(4.0, rel=0.15)
    assert left.max() > 20
    again = extend_actions(jax.random.key(1), drawn, jnp.ones(n), actions=4, ez_greedy=2.0)
    under_way = left > 0
    np.testing.assert_array_equal(np.asarray(again.left)[under_way], left[under_way])
    np.testing.assert_array_equal(np.asarray(again.action)[under_way], np.asarray(drawn.action)[under_way])


@pytest.mark.parametrize("way", ["device", "host"])
def test_persistent_exploration_repeats_its_actions(way):
    settings = {"actor.epsilon_base": 1.0, "actor.epsilon_exponent": 0.0}
    repeats = []
    for ez_greedy in (None, 1.0):
        config = replace(CONFIG, settings | {"actor.ez_greedy": ez_greedy})
        stored, _, _, _ = collect(way, 0, 61, config)
        repeats.append((stored.actions[:, 1:] == stored.actions[:, :-1]).mean())
    assert repeats[1] > repeats[0] + 0.2


def test_a_goal_is_given_where_the_world_is_controllable(monkeypatch):
    monkeypatch.setitem(collect.__globals__, "Hosted", Unruly)
    stored, _, counts, goal_images = collect("host", episode=2 * HORIZON + 5, steps=8 * HORIZON)
    first_step = stored.observations[:, 0, 0, 0, 1].astype(int)
    assert len(first_step) > 2 * ENVIRONMENTS
    assert first_step.min() == 3  # the last observation of an episode that is not controllable
    assert stored.controllable.all()
    assert (goal_images[:, 0, 0, 1] >= 4).all()
    assert counts["trajectories"] == len(stored.actions)
