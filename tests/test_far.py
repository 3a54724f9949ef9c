"""Far goals over waypoints, stopping early, and the maze."""

import types
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import discern
from discern.agent.waypoints import (
    Chance,
    arrival_threshold,
    expected_steps,
    fit_chance,
    practised_chances,
    promised_chances,
    promised_rewards,
    shortest_ways,
    stopping_steps,
)
from discern.cli import main
from discern.envs import make_env
from discern.envs.arena import ArenaState
from discern.evaluation.far import _beyond
from discern.inference import Agent
from discern.planning import GOAL, Compass, Journey, Journeys, Planner, Practice
from discern.types import Frames, UserError
from tests.refusals import refused  # noqa: F401

INF = np.inf


def test_shortest_ways_go_over_others():
    steps = np.array([[9.0, 2.0, 9.0], [INF, 9.0, 3.0], [1.0, INF, 9.0]])
    np.testing.assert_array_equal(shortest_ways(steps), [[0, 2, 5], [4, 0, 3], [1, 3, 0]])
    assert steps[0, 0] == 9.0


def test_the_cost_of_an_edge_is_its_steps_over_its_chance_cubed():
    chances = np.array([[[0.5, 0.4, 0.1]], [[0.75, 0.75, 0.49]]])  # [budgets, 1, 3]
    cost, given = expected_steps(chances, (2, 8))
    np.testing.assert_allclose(cost, [[2 / 0.5**3, 8 / 0.75**3, INF]])
    np.testing.assert_array_equal(given, [[2, 8, 8]])


def test_what_is_promised_counts_up_to_a_reward_of_one():
    promised = np.array([0.0, np.log(3), 1.0, 7.0])
    np.testing.assert_allclose(
        promised_chances(promised, Chance(1.0, 0.0)), [0.5, np.e / (1 + np.e)] + 2 * [0.731059], rtol=1e-5
    )


def test_practice_counts_by_how_alike_it_was():
    """Two attempts from this very place: one at the goal, which arrived in the longer time, and one elsewhere."""
    promised = np.full((2, 1, 1), 0.6)
    starts, goals = np.array([[1.0, 1.0]]), np.array([[1.0, 0.8]])
    arrived = np.array([[False, False], [True, False]])
    weight = np.exp(-1)  # of the second: (0.8 - 1) / 0.2
    expected = [[[1.2 / (3 + weight)]], [[2.2 / (3 + weight)]]]
    np.testing.assert_allclose(practised_chances(promised, starts, goals, arrived), expected)
    nobody = practised_chances(promised, starts[:, :0], goals[:, :0], arrived[:, :0])
    np.testing.assert_allclose(nobody, promised)


def test_promised_rewards_are_what_a_pursuit_that_begins_says(tiny_run):
    agent = discern.load(tiny_run)
    images = np.random.default_rng(0).integers(0, 256, (3, 24, 24, 3), np.uint8)
    features = jnp.asarray(agent.features(images))
    found = promised_rewards(agent.learner.imitator, agent.params, features[:2], features, (2, 5), 0.99)
    assert found.shape == (2, 2, 3)
    for b, steps in enumerate((2, 5)):
        pursuer = agent.pursue(images[2], steps)
        pursuer.act(images[1])
        assert float(found[b, 1, 2]) == pytest.approx(pursuer.q_values.max() / 0.99 ** (steps - 1), rel=1e-4)


def test_a_chance_is_fitted_to_what_happened():
    promised = np.repeat([0.0, 1.0], 200)
    arrived = np.concatenate([np.arange(200) < 20, np.arange(200) < 180])
    slope, intercept = fit_chance(promised, arrived)
    assert 1 / (1 + np.exp(-intercept)) == pytest.approx(0.1, abs=0.01)
    assert 1 / (1 + np.exp(-slope - intercept)) == pytest.approx(0.9, abs=0.01)
    assert fit_chance(promised, ~arrived).slope == 0.0  # what falls with r̂ says nothing
    assert np.isfinite(fit_chance(promised, np.ones(400, bool))).all()


def test_stopping_early_costs_at_most_its_share():
    rewards = np.array([[0.0, 0.5, 0.9, 1.0], [0.0, 0.9, 0.2, 0.9], [0.0, 0.1, 0.2, 0.8]])
    np.testing.assert_array_equal(stopping_steps(rewards, 0.85), [2, 1, 3])
    np.testing.assert_array_equal(stopping_steps(rewards, 2.0), [3, 3, 3])
    assert arrival_threshold(rewards, 0.0) > 0.9  # any loss at all is too much
    assert 0.8 <= arrival_threshold(rewards, 0.05) <= 0.9  # 0.1 of one attempt is 4 % of 2.7
    assert arrival_threshold(rewards, 1.0) == 0.8  # the lowest final reward


class LineCompass:
    """Images are places on a line; this agent walks a step at a time, and only to what is within three steps."""

    horizon, longest, budgets, params, reach = 4, 4, (1, 2, 3, 4), None, 3

    def __init__(self, places: list[int]):
        self.waypoints = np.array(places, np.uint8)[:, None, None, None] * np.ones((1, 1, 3), np.uint8)
        imitator = types.SimpleNamespace(config=types.SimpleNamespace(lstm=1), image_shape=(1, 1, 3))
        self.learner = types.SimpleNamespace(imitator=imitator)

    def look(self, images) -> Frames:
        pixels = jnp.asarray(images)
        return Frames(pixels[:, 0, 0, :1].astype(jnp.float32), pixels)

    def promised(self, here, goals) -> np.ndarray:
        far = np.abs(np.asarray(here) - np.asarray(goals)[:, 0])
        return np.stack([(far <= min(n, self.reach)).astype(float) for n in self.budgets])

    def alike(self, some, others) -> np.ndarray:
        return (np.asarray(some) == np.asarray(others)[:, 0]).astype(float)

    def rewards(self, params, at: Frames, goals: Frames):
        return (at.features == goals.features)[:, 0].astype(float)

    def step(self, params, pursuit, features):
        gap = (pursuit.goal_features - features)[:, 0]
        knows = jnp.abs(gap) <= self.reach
        actions = jnp.where(knows, jnp.sign(gap), 0).astype(int)
        return pursuit, actions, jnp.zeros((len(features), 3))

    def renew(self, pursuit, due, goal_features, clock):
        return pursuit._replace(goal_features=jnp.where(due[:, None], goal_features, pursuit.goal_features))


def planner_of(places: list[int], attempts: Sequence[tuple[int, int, bool]] = ()) -> Planner:
    """One that trusts what is promised, but for attempts: from a place, at a waypoint's number, whether it arrived."""
    starts, goals, arrived = (np.array([a[i] for a in attempts]) for i in range(3))
    compass = LineCompass(places)
    practice = Practice(
        jnp.asarray(starts, jnp.float32).reshape((-1, 1)),
        goals.astype(int),
        np.tile(arrived.astype(bool), (len(compass.budgets), 1)),
        Chance(20.0, -10.0),
    )
    return Planner(compass, practice, 1.0)


def walk(journeys: Journeys, start: list[int]) -> np.ndarray:
    place = np.array(start)
    for _ in range(journeys.budget):
        images = place[:, None, None, None] * np.ones((1, 1, 3), int)
        place = place + journeys.act(journeys.see(images.astype(np.uint8)))
    return place


def test_a_plan_reaches_what_a_pursuit_cannot():
    planner = planner_of([0, 3, 6, 9, 30])
    compass = planner.compass
    np.testing.assert_allclose(planner.ways[0], [0, 3, 6, 9, INF], rtol=1e-3)
    goals = np.array([11, 2, 40], np.uint8)[:, None, None, None] * np.ones((1, 1, 3), np.uint8)
    start = [0, 0, 0]
    np.testing.assert_array_equal(walk(Journeys(compass, goals, 16), start), [0, 2, 0])
    planned = Journeys(compass, goals, 16, planner, arrival=1.0)
    np.testing.assert_array_equal(walk(planned, start), [11, 2, 0])  # 40 is beyond every waypoint
    np.testing.assert_array_equal(planned.stopped, [11, 2, -1])


def test_a_journey_tells_its_waypoints_and_ends():
    planner = planner_of([0, 3, 6, 9])
    journey, place = planner.pursue(np.full((1, 1, 3), 8, np.uint8), steps=20, stop_early=True), 0
    while not (journey.finished or journey.arrived(np.full((1, 1, 3), place, np.uint8))):
        place += journey.act(np.full((1, 1, 3), place, np.uint8))
    assert (place, len(journey.targets), journey.targets[-1]) == (8, 8, GOAL)
    assert journey.waypoints[:, 0, 0, 0].tolist() in ([3, 6], [3])
    with pytest.raises(UserError, match="over after 8 steps"):
        journey.act(np.zeros((1, 1, 3), np.uint8))


def test_a_waypoint_that_is_not_reached_counts_as_farther():
    planner = planner_of([0, 3, 2])
    goal = np.full((1, 1, 1, 3), 5, np.uint8)
    journeys, stuck = Journeys(planner.compass, goal, 30, planner), np.zeros((1, 1, 1, 3), np.uint8)
    tried = []
    for _ in range(12):
        journeys.act(journeys.see(stuck))
        tried.append(int(journeys.number[0]))
    assert {1, 2} <= set(tried)  # the place 3, and then 2


def test_a_plan_shuns_what_failed_in_practice():
    """A wall between 3 and 6, which nothing that is promised shows, and a way around it."""
    assert planner_of([0, 3, 6]).steps[1, 2] == pytest.approx(3, rel=1e-3)
    assert planner_of([0, 3, 6], 3 * [(3, 2, False)]).steps[1, 2] == INF
    assert planner_of([0, 3, 30], 3 * [(3, 2, True)]).steps[1, 2] < 1 / 0.55**3


def test_a_goal_missed_straight_is_tried_over_a_waypoint():
    planner, stuck = planner_of([0, 2, 1]), np.zeros((1, 1, 1, 3), np.uint8)
    journeys = Journeys(planner.compass, np.full((1, 1, 1, 3), 3, np.uint8), 30, planner)
    tried = []
    for _ in range(9):
        journeys.act(journeys.see(stuck))
        tried.append(int(journeys.number[0]))
    assert tried[0] == GOAL and {1, 2} & set(tried)


def test_an_agent_plans_and_stops_in_its_world(tiny_run):
    agent, env, goal = discern.load(tiny_run), make_env("arena"), np.full((24, 24, 3), 90, np.uint8)
    assert isinstance(agent.compass, Compass) and agent.compass.budgets == (2, 3, 4, 5)
    agent.arrival = 0.0  # any reward will do
    assert len(agent.reach(env, goal, stop_early=True).actions) == 0
    agent.arrival = 2.0
    assert len(agent.reach(env, goal, stop_early=True).actions) == 5
    planned = agent.plan(env, goal, steps=7, stop_early=True)
    assert (len(planned.observations), len(planned.actions), planned.waypoints.shape[1:]) == (8, 7, (24, 24, 3))
    assert isinstance(agent.planner.pursue(goal), Journey)
    for wrong in (goal[:5], goal / 255):
        with pytest.raises(UserError, match="goal must be uint8"):
            agent.planner.pursue(wrong)
    with pytest.raises(UserError, match="at least 1 step, not 0"):
        agent.plan(env, goal, steps=0)
    with pytest.raises(UserError, match="this agent lives in arena"):
        agent.plan(make_env("arena/16"), goal)
    alone = Agent(agent.config, agent.spec, agent.params, agent.goal_images[:1], agent.steps)
    alone.arrival = 2.0
    with pytest.raises(UserError, match="no goal buffer to choose waypoints from"):
        alone.plan(env, goal)


def test_an_agent_with_ends_may_be_limited(tiny_run):
    agent = discern.load(tiny_run)
    short = agent.limited(3)
    assert (short.longest, short.compass.budgets, short.compass.horizon) == (3, (1, 2, 3), 5)
    assert short.limited(None).longest == 3 and agent.limited(None).longest == agent.longest == 5
    goal = np.full((24, 24, 3), 90, np.uint8)
    pursuer, asked = short.pursue(goal), agent.pursue(goal, 3)
    for each in (pursuer, asked):
        each.act(goal)
    assert pursuer.budget == 3
    np.testing.assert_array_equal(pursuer.q_values, asked.q_values)
    journey = Journeys(short.compass, goal[None])
    assert journey.budget == 9
    for _ in range(4):
        journey.act(journey.see(goal[None]))
    assert journey.left[0] == 2  # three steps, and one of the next pursuit
    with pytest.raises(UserError, match="takes 1 to 3 steps"):
        short.pursue(goal, 4)


def test_goals_are_far_where_the_world_knows_it_of_all():
    starts, goals = np.zeros((3, 1)), np.array([[1.0], [2.0], [3.0]])
    world = types.SimpleNamespace(fewest_steps=lambda at, to: (to - at)[:, 0])
    np.testing.assert_array_equal(_beyond(world, starts, goals, 2), [False, False, True])
    assert (
        _beyond(types.SimpleNamespace(fewest_steps=lambda at, to: np.array([1, np.nan, 3])), starts, goals, 2) is None
    )
    assert _beyond(object(), starts, goals, 2) is None


def test_far_goals_are_scored(tiny_run, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["discern", "evaluate", str(tiny_run), "--plan", "--stop-early", "--count", "4"])
    main()
    said = capsys.readouterr().out
    assert "15 steps each, T = 5" in said and "plain     plan   random" in said and "steps until stopped" in said


@pytest.mark.parametrize(
    "line", ["evaluate x --plan --budgets 3", "evaluate x --stop-early --figure a.png", "evaluate nowhere --plan"]
)
def test_far_evaluation_refuses(line, refused):  # noqa: F811
    assert ("go without --plan" if "nowhere" not in line else "nowhere") in refused(line)


MAZE = make_env("arena/maze")


def test_walls_hold_and_doors_let_through():
    def after(x: float, y: float, action: int) -> np.ndarray:
        state = ArenaState(jnp.array([x, y]), jnp.zeros((0, 2)), jnp.zeros((0, 2)), jnp.zeros(0))
        return np.asarray(MAZE.step(state, jnp.array(action), jax.random.key(0))[0].dot)

    edge = 0.7 / 3  # three rooms of it, and 0.15 for each of two walls
    np.testing.assert_allclose(after(0.5, 0.2, 3), [0.5, edge], atol=1e-6)
    np.testing.assert_allclose(after(0.5, edge + 0.15, 4), [0.5, edge + 0.15], atol=1e-6)
    np.testing.assert_allclose(after(0.9, 0.2, 3), [0.9, 0.28], atol=1e-6)
    np.testing.assert_allclose(after(0.9, 0.28, 2), [0.825, 0.28], atol=1e-6)  # in the door, its side
    np.testing.assert_allclose(after(0.5, 0.6, 3), [0.5, 2 * edge + 0.15], atol=1e-6)


def test_the_fewest_steps_are_those_of_walking():
    """Breadth first from a corner, over a grid of places a stride apart, with the world's own step."""
    step = jax.jit(
        jax.vmap(
            lambda dot, action: (
                MAZE.step(
                    ArenaState(dot, jnp.zeros((0, 2)), jnp.zeros((0, 2)), jnp.zeros(0)), action, jax.random.key(0)
                )[0].dot
            )
        )
    )
    frontier, walked = np.zeros((1, 2), np.float32), {(0.0, 0.0): 0}
    for steps in range(1, 45):
        new = {}
        dots = np.zeros((640, 2), np.float32)
        dots[: len(frontier)] = frontier
        for action in (1, 2, 3, 4):
            for dot in np.asarray(step(jnp.asarray(dots), jnp.full(640, action)))[: len(frontier)]:
                new.setdefault(tuple(np.round(dot, 4).tolist()), dot)
        frontier = np.array([dot for key, dot in new.items() if key not in walked][:640]).reshape((-1, 2))
        walked |= {key: steps for key in new if key not in walked}
        if not len(frontier):
            break
    places = np.array(list(walked))
    for goal in ([0.9, 0.1], [0.1, 0.5], [0.95, 0.95], [0.5, 0.8]):
        near = (np.abs(places - goal) <= 0.1).all(1)
        first = min(steps for steps, is_near in zip(walked.values(), near, strict=True) if is_near)
        assert 0 <= first - MAZE.fewest_steps(np.zeros(2), np.array(goal)) <= 3, goal  # strides are whole
    assert MAZE.fewest_steps(np.zeros(2), np.ones(2)) > 2.5 * 12


def test_goals_and_starts_lie_in_the_rooms():
    keys = jax.random.split(jax.random.key(0), 200)
    starts = np.asarray(jax.vmap(MAZE.reset)(keys).dot)
    goals = np.asarray(jax.vmap(lambda k, i: MAZE.goal_state(k, i, 100).dot)(keys, jnp.arange(200)))
    for dots in (starts, goals):
        assert not any((abs(dots[:, 1] - wall) < 0.0749).any() for wall in (0.3083, 0.6917))
        assert (dots.min() >= 0) and (dots.max() <= 1)
    assert (np.bincount(np.searchsorted([0.3083, 0.6917], goals[:, 1])) > 60).all()
    yellow = np.asarray(MAZE.observe(MAZE.reset(keys[0]))).astype(int)
    assert (yellow[..., 0] - yellow[..., 2] > 150).sum() >= 4
