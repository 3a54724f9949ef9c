"""How many of the Control Suite's goals someone who knows the simulator can reach within T steps.

    uv run python -m benchmarks.ceilings --json results/ceilings_cpu.json

A planner searches sequences of T actions, open loop, from first states and for goals as agents are scored with: random
sequences of held actions first, then an evolution strategy that overwrites stretches of the best. What it finds is
played once more in the world itself, and scored there. It is a lower bound of what is possible.
"""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mujoco
import numpy as np
import tyro
from mujoco.batch import Batch

from discern.envs.control.tasks import DOMAINS, Starts, action_table, dimensions
from discern.envs.control.world import Control
from discern.evaluation.achievement import TOLERANCE, apart, reached
from discern.evaluation.report import machine

MARGIN = 0.002  # of a range: a plan reaches its goal with this to spare
ELITES = 8
LONGEST = 20  # steps that are overwritten
AT_ONCE = 32  # sequences

Draw = Callable[[np.random.Generator, int], np.ndarray]


def zeta(exponent: float) -> Draw:
    """Lengths n ≤ 64 with probability ∝ n^−exponent, as `actor.ez_greedy` draws them."""
    lengths = np.arange(1, 65)
    shares = lengths**-exponent / (lengths**-exponent).sum()
    return lambda rng, n: rng.choice(lengths, n, p=shares)


HELD: dict[str, Draw] = {  # for how many steps a random action is held
    "one step": lambda rng, n: np.ones(n, int),
    "n ∝ n^−2": zeta(2.0),
    "n ∝ n^−1": zeta(1.0),
    "5 to 20 steps": lambda rng, n: rng.integers(5, 21, n),
}


class Question(NamedTuple):
    """Which dimensions are to be reached, when, and by which actions."""

    name: str = "whole"
    dimensions: tuple[str, ...] | None = None  # None: all
    steps: int = 100
    at_some_step: bool = False
    all_actuators: bool = False  # {−1, 0, 1}^A also where agents move one actuator at a time

    def in_steps(self, steps: int) -> "Question":
        return self._replace(name=f"{self.name}, T = {steps}", steps=steps)

    def in_passing(self) -> "Question":
        return self._replace(name=f"{self.name}, at some step", at_some_step=True)


class World(NamedTuple):
    goals: int
    questions: tuple[Question, ...]  # a plan for one is the next one's first try
    budget: int = 4096  # sequences for a goal, at most


WHOLE = Question()
JOINTS = ("arm_root", "arm_shoulder", "arm_elbow", "arm_wrist")
ARM = Question("arm", JOINTS)
HAND = Question("arm and hand", (*JOINTS, "thumb", "thumbtip", "finger", "fingertip"))
WORLDS = {
    "cartpole-swingup": World(
        100,
        (
            Question("slider", ("slider",)),
            Question("hinge", ("hinge_1",)),
            WHOLE,
            WHOLE.in_passing(),
            WHOLE.in_steps(120),
            WHOLE.in_steps(140),
            WHOLE.in_steps(200),
        ),
    ),
    "finger-spin": World(
        50,
        (
            Question("joints", ("proximal", "distal")),
            Question("spinner", ("hinge",)),
            WHOLE,
            WHOLE.in_passing(),
            WHOLE.in_steps(200),
        ),
    ),
    "ball_in_cup-catch": World(
        30, (Question("cup", ("cup_x", "cup_z")), Question("ball", ("ball_x", "ball_z")), WHOLE, WHOLE.in_passing())
    ),
    "pendulum-swingup": World(100, (WHOLE, WHOLE.in_passing(), WHOLE.in_steps(200))),
    "reacher-hard": World(50, (WHOLE,)),
    "point_mass-easy": World(50, (WHOLE,)),
    "manipulator-bring_ball": World(
        10,
        (
            *(Question(joint.removeprefix("arm_"), (joint,)) for joint in JOINTS),
            ARM,
            ARM.in_passing(),
            HAND,
            WHOLE,
            ARM._replace(name="arm, all actuators at once", all_actuators=True),
            ARM.in_steps(200),
            HAND.in_steps(200),
            WHOLE.in_steps(200),
        ),
        budget=1536,
    ),
}


@dataclass(frozen=True)
class Arguments:
    worlds: tuple[str, ...] = tuple(WORLDS)
    goals: int | None = None
    """Of each world's 100, spread over them; None: as many as some minutes allow."""
    budget: int | None = None
    """Sequences for a goal, at most; None: the world's own number."""
    random: int = 128
    """Random sequences for a goal, for each way to hold actions; 0: none."""
    seed: int = 0
    json: Path | None = None


class Simulator:
    """Plays sequences of actions, several at once, from one first state."""

    def __init__(self, name: str, all_actuators: bool = False):
        domain = DOMAINS[name]
        domain = replace(domain, one_actuator=domain.one_actuator and not all_actuators)
        self._starts = Starts(name)
        model = self._starts.model
        self._controls = action_table(model, domain)
        self.actions = (len(self._controls),) if domain.one_actuator else (3,) * model.nu  # that are chosen apart
        self.dimensions = dimensions(model, domain)
        self._scored = [int(model.joint(dimension.name).qposadr[0]) for dimension in self.dimensions]
        self._substeps = self._starts.substeps * domain.action_repeat
        self._batch = Batch(model, nsim=AT_ONCE, nthread=1)
        self._qpos, self._ctrl = self._batch.bind("qpos"), self._batch.bind("ctrl")

    def first_states(self, seed: int, count: int) -> np.ndarray:
        """Those of `Control(name, count).reset(seed)`: [count, S]."""
        self._starts.reseed(seed)
        return self._starts.draw(count)[0]

    def numbers(self, choices: np.ndarray) -> np.ndarray:
        """Of actions in the world's table: [..., parts] → [...]."""
        return np.ravel_multi_index(tuple(np.moveaxis(choices, -1, 0)), self.actions)

    def play(self, state: np.ndarray, choices: np.ndarray) -> np.ndarray:
        """From a state [S] by choices [AT_ONCE, T, parts] → what is measured after each, [AT_ONCE, T, D]."""
        self._batch.state[:] = state
        numbers = self.numbers(choices)
        measured = np.empty((*numbers.shape, len(self._scored)))
        for t, chosen in enumerate(numbers.T):
            self._ctrl[:] = self._controls[chosen]
            self._batch.step(nstep=self._substeps, stage=mujoco.mjtStage.mjSTAGE_POS.value)
            measured[:, t] = self._qpos[:, self._scored]
        return measured


def held(rng: np.random.Generator, draw: Draw, actions: tuple[int, ...], steps: int) -> np.ndarray:
    """Random sequences of actions that are held for a random time: int [AT_ONCE, T, parts]."""
    sequences = np.empty((AT_ONCE, steps, len(actions)), int)
    for sequence in sequences:
        lengths = draw(rng, steps)
        sequence[:] = rng.integers(actions, size=(steps, len(actions))).repeat(lengths, 0)[:steps]
    return sequences


def overwritten(rng: np.random.Generator, parents: np.ndarray, actions: tuple[int, ...]) -> np.ndarray:
    """Each with one or two stretches of another action, of all its parts or of some: [N, T, parts] → [N, T, parts]."""
    n, steps, parts = parents.shape
    children = parents
    for probability in (1.0, 0.5):
        first = rng.integers(-LONGEST // 2, steps, (n, 1))
        length = rng.integers(1, LONGEST + 1, (n, 1)) * (rng.random((n, 1)) < probability)
        inside = (np.arange(steps) >= first) & (np.arange(steps) < first + length)
        chosen = rng.random((n, 1, parts)) < (1.0 if parts == 1 else 0.6)
        children = np.where(inside[..., None] & chosen, rng.integers(actions, size=(n, 1, parts)), children)
    return children


class Plan(NamedTuple):
    choices: np.ndarray  # int [T, parts]
    cost: float  # 0: the goal is reached


def missing(distance: np.ndarray, at_some_step: bool) -> np.ndarray:
    """The squared distance beyond the tolerance, at the end or when it is least: [N, T, D] in ranges → [N]."""
    cost = (np.maximum(distance - (TOLERANCE - MARGIN), 0) ** 2).sum(-1)
    return cost.min(1) if at_some_step else cost[:, -1]


def search(
    cost_of: Callable[[np.ndarray], np.ndarray],
    actions: tuple[int, ...],
    steps: int,
    budget: int,
    rng: np.random.Generator,
    known: np.ndarray | None = None,
) -> Plan:
    """The cheapest sequence within a budget of them; `known` [T, parts] is one of the first."""
    elite, costs, played = np.empty((0, steps, len(actions)), int), np.empty(0), 0
    while played < budget and not (costs == 0).any():
        if played < budget // 8:
            tried = held(rng, HELD["5 to 20 steps"], actions, steps)
            if known is not None and played == 0:
                tried[0] = known
        else:
            tried = overwritten(rng, elite[rng.integers(len(elite), size=AT_ONCE)], actions)
        elite, costs = np.concatenate([elite, tried]), np.concatenate([costs, cost_of(tried)])
        played += AT_ONCE
        costs, kept = np.unique(costs, return_index=True)  # in order, and twins once
        elite, costs = elite[kept][:ELITES], costs[:ELITES]
    return Plan(elite[0], float(costs[0]))


class Pairs(NamedTuple):
    """A world's goals, each with the first state from which it is pursued."""

    states: np.ndarray  # float64 [M, S]
    goals: np.ndarray  # float32 [M, D]


def ask(
    simulator: Simulator,
    pairs: Pairs,
    question: Question,
    budget: int,
    seed: int,
    known: list[np.ndarray] | None = None,
) -> list[Plan]:
    """The best plan for each goal; a search starts over if it has not reached it with half of its budget."""
    names = [dimension.name for dimension in simulator.dimensions]
    columns = [names.index(name) for name in question.dimensions or names]
    rng, plans = np.random.default_rng(seed), []
    for i, (state, goal) in enumerate(zip(*pairs, strict=True)):

        def cost_of(choices: np.ndarray, state: np.ndarray = state, goal: np.ndarray = goal) -> np.ndarray:
            distance = apart(simulator.play(state, choices), goal, simulator.dimensions)
            return missing(distance[..., columns], question.at_some_step)

        find = partial(search, cost_of, simulator.actions, question.steps, budget // 2, rng)
        best = find(known and known[i])
        if best.cost > 0:
            best = min(best, find(), key=lambda plan: plan.cost)
        plans.append(best)
    return plans


def hits(measured: np.ndarray, goals: np.ndarray, question: Question, simulator: Simulator) -> np.ndarray:
    """Which sequences do what is asked, measured [N, T, D] and goals [D] or [N, 1, D] → bool [N]."""
    wanted = [question.dimensions is None or d.name in question.dimensions for d in simulator.dimensions]
    whole = reached(measured[:, : question.steps], goals, simulator.dimensions)[..., wanted].all(-1)
    return whole.any(1) if question.at_some_step else whole[:, -1]


def played_in_the_world(name: str, seed: int, numbers: np.ndarray) -> np.ndarray:
    """Actions [M, T], each from its own first state, as an agent would take them → [M, T, D]."""
    world = Control(name, len(numbers))
    world.reset(seed)
    measured = []
    for chosen in numbers.T:
        world.send(chosen)
        measured.append(world.measure(world.recv().raw))
    world.close()
    return np.stack(measured, axis=1)


def random_play(simulator: Simulator, pairs: Pairs, questions: list[Question], wanted: Arguments) -> dict[str, Any]:
    """How often random sequences do what is asked, by how long actions are held."""
    steps, found = max(question.steps for question in questions), {}
    for kind, draw in HELD.items():
        rng, happened = np.random.default_rng(wanted.seed), []
        for state, goal in zip(*pairs, strict=True):
            rounds = []
            for _ in range(0, wanted.random, AT_ONCE):
                measured = simulator.play(state, held(rng, draw, simulator.actions, steps))
                rounds.append([hits(measured, goal, question, simulator) for question in questions])
            happened.append(np.concatenate(rounds, axis=1))
        share = np.stack(happened)  # [M, questions, sequences]
        found[kind] = {
            question.name: {"sequences": rounded(share[:, i].mean()), "goals": rounded(share[:, i].any(1).mean())}
            for i, question in enumerate(questions)
        }
    return found


def rounded(share: float) -> float:
    return round(float(share), 4)


def measure(name: str, wanted: Arguments) -> dict[str, Any]:
    """Every question about a world."""
    began, world = time.process_time(), WORLDS[name]
    count, budget = wanted.goals or world.goals, wanted.budget or world.budget
    simulator = Simulator(name)
    env = Control(name, 1)
    pairs = Pairs(simulator.first_states(wanted.seed, count), env.goals("paper", count)[1])
    env.close()
    answers: list[dict[str, Any]] = []
    known: list[np.ndarray] = []
    for question in world.questions:
        player = Simulator(name, all_actuators=True) if question.all_actuators else simulator
        fits = known and known[0].shape == (question.steps, len(player.actions))
        plans = ask(player, pairs, question, budget, wanted.seed, known if fits else None)
        if question.all_actuators:  # which the world does not let an agent do
            achieved = np.array([plan.cost == 0 for plan in plans])
        else:
            known = [plan.choices for plan in plans]
            measured = played_in_the_world(name, wanted.seed, simulator.numbers(np.stack(known)))
            achieved = hits(measured, pairs.goals[:, None], question, simulator)
        answer = {
            "question": question.name,
            "steps": question.steps,
            "reached": rounded(achieved.mean()),
            "missed": {int(i): round(plans[i].cost, 6) for i in np.flatnonzero(~achieved)},
        }
        print(name, answer, f"{time.process_time() - began:.0f} s", flush=True)
        answers.append(answer)
    row = {"world": name, "goals": count, "budget": budget, "planner": answers}
    if wanted.random:
        questions = [question for question in world.questions if not question.all_actuators]
        row["random"] = random_play(simulator, pairs, questions, wanted)
        print(name, row["random"], flush=True)
    return row | {"core_seconds": round(time.process_time() - began)}


def report(rows: list[dict[str, Any]], wanted: Arguments) -> dict[str, Any]:
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "what": "share of goals that a planner which knows the simulator reaches after exactly T actions (of each goal "
        "missed its number and the squared distance beyond the tolerance that was left, in ranges); and by random "
        "sequences whose actions are held, the share of sequences that do and of goals that one of them reaches",
        "command": "uv run python -m benchmarks.ceilings",
        "commit": commit,
        "date": date.today().isoformat(),
        "seeds": [wanted.seed],
        "random_sequences": wanted.random,
        "machine": machine(),
        "worlds": rows,
    }


def main(wanted: Arguments) -> None:
    rows = []
    for name in wanted.worlds:
        rows.append(measure(name, wanted))
        if wanted.json:
            wanted.json.write_text(json.dumps(report(rows, wanted), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
