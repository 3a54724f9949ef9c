import numpy as np
import pytest

import discern
from discern.config import replace
from discern.envs import Hosted, make_env
from discern.inference import Agent, as_observation
from discern.types import UserError

SHAPE = (24, 24, 3)


@pytest.fixture(scope="module")
def agent(tiny_run):
    return discern.load(tiny_run)


def test_reach_returns_the_whole_trajectory(agent):
    goal = np.full(SHAPE, 90, np.uint8)
    reached = agent.reach(discern.make_env("arena"), goal, seed=4)
    assert reached.observations.shape == (6, *SHAPE)
    assert reached.actions.shape == (5,)
    assert reached.q_values.shape == (5, 5)
    np.testing.assert_array_equal(reached.actions, reached.q_values.argmax(-1))
    assert ((reached.rewards >= 0) & (reached.rewards <= 1)).all()
    again = agent.reach(Hosted(make_env("arena"), 1), goal, seed=4)
    np.testing.assert_array_equal(again.observations, reached.observations)


def test_pursue_is_reach_in_a_loop_of_your_own(agent):
    goal = np.full(SHAPE, 90, np.uint8)
    reached = agent.reach(discern.make_env("arena"), goal, seed=4)
    pursuer = agent.pursue(goal)
    actions = [pursuer.act(frame) for frame in reached.observations[:-1]]
    np.testing.assert_array_equal(actions, reached.actions)
    assert pursuer.finished
    with pytest.raises(UserError, match="5 steps are spent"):
        pursuer.act(goal)


def without_ends(agent: Agent) -> Agent:
    config = replace(agent.config, {"relabel.ends": False})
    return Agent(config, agent.spec, agent.params, agent.goal_images, agent.steps)


def test_an_agent_trained_with_ends_takes_the_steps_it_is_given(agent):
    """A pursuit of 2 of 5 steps is what the network does when its clock begins at 3."""
    goal, able = np.full(SHAPE, 90, np.uint8), agent
    reached = able.reach(discern.make_env("arena"), goal, seed=4, steps=2)
    assert (len(reached.observations), len(reached.actions), len(reached.rewards)) == (3, 2, 3)
    pursuer = able.pursue(goal, steps=2)
    np.testing.assert_array_equal(pursuer._pursuit.clock, [3])
    for frame in reached.observations[:-1]:
        assert not pursuer.finished
        pursuer.act(frame)
    assert pursuer.finished
    with pytest.raises(UserError, match="2 steps are spent"):
        pursuer.act(goal)
    whole = able.reach(discern.make_env("arena"), goal, seed=4, steps=5)
    np.testing.assert_array_equal(whole.actions, agent.reach(discern.make_env("arena"), goal, seed=4).actions)


def test_a_budget_the_agent_does_not_know_is_refused(agent):
    goal = np.full(SHAPE, 90, np.uint8)
    for steps in (0, -1, 6):
        with pytest.raises(UserError, match=f"takes 1 to 5 steps to a goal, not {steps}"):
            agent.pursue(goal, steps)
    with pytest.raises(UserError, match="knows only 5 steps: for 4, train one with --relabel"):
        without_ends(agent).pursue(goal, steps=4)
    assert without_ends(agent).pursue(goal, steps=5).budget == 5


def test_the_reward_of_the_goal_itself_is_one(agent):
    goal = np.random.default_rng(0).integers(0, 256, SHAPE, dtype=np.uint8)
    assert agent.reward(goal, goal) == pytest.approx(1.0, abs=1e-3)
    assert agent.reward(np.stack([goal, goal]), np.stack([goal, goal])).shape == (2,)


def test_any_sensible_image_is_a_goal(agent):
    grey = np.full((50, 30), 128, np.uint8)
    expected = np.full(SHAPE, 128, np.uint8)
    for image in (
        grey,
        grey[..., None],
        np.repeat(grey[..., None], 4, -1),
        grey.astype(np.int64),
        np.full((24, 24, 3), 128 / 255),
        np.full((24, 24, 3), 128 / 255, np.float16),
    ):
        np.testing.assert_array_equal(agent.image(image), expected)
    agent.pursue(grey).act(grey)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (np.zeros(5), "must be"),
        (np.zeros((4, 4, 2), np.uint8), "must be"),
        (np.zeros((0, 4, 3), np.uint8), "must be"),
        (np.full((4, 4, 3), 2.0), "floats outside"),
        (np.full((4, 4, 3), np.nan), "floats outside"),
        (np.full((4, 4, 3), 300), "integers outside"),
        (np.full((4, 4, 3), -1), "integers outside"),
        (np.zeros((4, 4, 3), bool), "must hold bytes or floats"),
        (np.full((4, 4, 3), "x"), "must hold bytes or floats"),
        (np.zeros((4, 4, 3), complex), "must hold bytes or floats"),
        ([[1], [1, 2]], "not an array"),
    ],
)
def test_nonsense_is_refused_clearly(image, why):
    with pytest.raises(UserError, match=f"the goal .*{why}"):
        as_observation(image, SHAPE, "the goal")


def test_another_world_is_refused(agent):
    with pytest.raises(UserError, match="this agent lives in arena"):
        agent.reach(discern.make_env("arena/84"), np.zeros(SHAPE, np.uint8))
    with pytest.raises(UserError, match="acts in one environment, not 3"):
        agent.reach(Hosted(make_env("arena"), 3), np.zeros(SHAPE, np.uint8))


def test_an_agent_can_be_handed_on(agent, tmp_path):
    goal = np.full(SHAPE, 90, np.uint8)
    small = discern.load(agent.save(tmp_path / "small"))
    assert (small.config, small.spec) == (agent.config, agent.spec)
    assert small.steps == agent.steps >= 400
    np.testing.assert_array_equal(small.goal_images, agent.goal_images)
    assert small.reward(goal, goal // 2) == pytest.approx(agent.reward(goal, goal // 2), abs=0.02)
    with pytest.raises(UserError, match="holds an agent alone"):
        discern.resume(tmp_path / "small", steps=2000)
