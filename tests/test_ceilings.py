"""The planner that knows the simulator: it plays what the world plays, and reaches what can be reached."""

import numpy as np
import pytest

from benchmarks.ceilings import (
    AT_ONCE,
    HELD,
    Pairs,
    Question,
    Simulator,
    ask,
    held,
    hits,
    missing,
    overwritten,
    played_in_the_world,
)

SEED = 3


@pytest.mark.parametrize("name", ["finger-spin", "manipulator-bring_ball"])
def test_the_simulator_is_the_world(name):
    simulator, rng = Simulator(name), np.random.default_rng(0)
    choices = held(rng, HELD["5 to 20 steps"], simulator.actions, 30)
    states = simulator.first_states(SEED, 2)
    world = played_in_the_world(name, SEED, simulator.numbers(choices[:2]))
    for i, state in enumerate(states):
        np.testing.assert_allclose(simulator.play(state, choices)[i], world[i], atol=1e-5)


@pytest.mark.parametrize("name", ["pendulum-swingup", "point_mass-easy"])
def test_a_plan_reaches_its_goal_in_the_world(name):
    """Goals are where the world came to by other actions, so that each can be reached."""
    simulator, rng = Simulator(name), np.random.default_rng(1)
    choices = held(rng, HELD["5 to 20 steps"], simulator.actions, 100)[:3]
    goals = played_in_the_world(name, SEED, simulator.numbers(choices))[:, -1]
    pairs, question = Pairs(simulator.first_states(SEED, 3), goals), Question()
    plans = ask(simulator, pairs, question, budget=1024, seed=0)
    measured = played_in_the_world(name, SEED, simulator.numbers(np.stack([plan.choices for plan in plans])))
    assert [plan.cost for plan in plans] == [0, 0, 0]
    assert hits(measured, goals[:, None], question, simulator).all()


def test_what_is_missing_is_counted_beyond_the_tolerance():
    distance = np.array([[[0.05, 0.098], [0.2, 0.298]]])
    np.testing.assert_allclose(missing(distance, at_some_step=False), [0.102**2 + 0.2**2])
    np.testing.assert_allclose(missing(distance, at_some_step=True), [0])


def test_actions_are_held_and_stretches_overwritten():
    rng = np.random.default_rng(0)
    sequences = held(rng, HELD["5 to 20 steps"], (9,), 100)
    assert sequences.shape == (AT_ONCE, 100, 1)
    changes = (np.diff(sequences[..., 0]) != 0).sum(1)
    assert changes.max() < 20
    children = overwritten(rng, np.zeros((AT_ONCE, 100, 1), int), (9,))
    assert 1 <= (children != 0).sum((1, 2)).max() <= 40
