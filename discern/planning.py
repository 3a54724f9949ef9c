"""Over waypoints: the agent's own attempts say what it reaches, its goal buffer where it can go in between."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discern.agent.learner import Learner
from discern.agent.policy import Pursuit, begin_pursuit
from discern.agent.waypoints import (
    Chance,
    arrival_threshold,
    expected_steps,
    fit_chance,
    practised_chances,
    promised_chances,
    promised_rewards,
    shortest_ways,
)
from discern.envs import HostEnv
from discern.envs.base import HostStep, where_rows
from discern.types import Frames, Params, UserError

ATTEMPTS = 64  # at once, to practise
ROUNDS = 60  # of those, to plan by
ALIKE = 0.7  # from this cosine on, one image shows the place of another
SEED = 1_000_003  # of those, apart from what is scored
MOST_WAYPOINTS = 256
GOAL = -1  # among numbers of waypoints: the goal itself


class Practice(NamedTuple):
    """K of the agent's own attempts at waypoints, each the longest; nothing that is scored is looked at."""

    starts: jax.Array  # float32 [K, F], what was seen at the first step
    goals: np.ndarray  # int [K], numbers of waypoints
    arrived: np.ndarray  # bool [budgets, K], whether the goal's place was seen by then
    chance: Chance


class Compass:
    """What an agent sees in images and expects of pursuits: its networks, compiled, and its goal buffer."""

    def __init__(
        self, learner: Learner, params: Params, goal_images: np.ndarray, decoys: int, longest: int | None = None
    ):
        """Pursuits take T steps, or at most the `longest` that an agent with ends is given."""
        self.learner, self.params = learner, params
        imitator, discount, lstm_units = learner.imitator, learner.config.discount, learner.imitator.config.lstm
        self.horizon = imitator.core.horizon  # T, by which its clock runs
        self.longest = self.horizon if longest is None else longest
        quarters = range(1, 5) if learner.ends else (4,)  # an agent knows no ends before a quarter of T
        self.budgets = tuple(sorted({-(-self.longest * quarter // 4) for quarter in quarters}))
        chosen = np.linspace(0, len(goal_images) - 1, min(len(goal_images), MOST_WAYPOINTS)).round().astype(int)
        self.waypoints = goal_images[chosen]
        some = jnp.asarray(goal_images[:decoys])

        @jax.jit
        def rewards(params: Params, at: Frames, goals: Frames) -> jax.Array:
            others = Frames(imitator.features(params, some), some)
            return learner.reward.reward(params["reward"], at, goals, others)

        @jax.jit
        def step(params: Params, pursuit: Pursuit, features: jax.Array) -> tuple[Pursuit, jax.Array, jax.Array]:
            lstm, clock = pursuit.lstm, pursuit.clock
            lstm, q_values = imitator.step(
                params, lstm, features, pursuit.goal_features, clock, pursuit.previous_action
            )
            actions = q_values.argmax(-1).astype(jnp.int32)
            return Pursuit(pursuit.goal_features, lstm, clock + 1, actions), actions, q_values

        @jax.jit
        def renew(pursuit: Pursuit, due: jax.Array, goal_features: jax.Array, clock: jax.Array) -> Pursuit:
            fresh = begin_pursuit(goal_features, lstm_units)._replace(clock=clock)
            return jax.tree.map(partial(where_rows, due), fresh, pursuit)

        self.rewards, self.step, self.renew = rewards, step, renew
        self._features = jax.jit(imitator.features)
        self._promised = jax.jit(
            lambda params, here, goals: promised_rewards(imitator, params, here, goals, self.budgets, discount)
        )

    def look(self, images: np.ndarray | jax.Array) -> Frames:
        """The images [N, H, W, 3] as rewards see them."""
        pixels = jnp.asarray(images)
        return Frames(self._features(self.params, pixels), pixels)

    def promised(self, here: jax.Array, goals: jax.Array) -> np.ndarray:
        """r̂ of every pursuit from M observations to N goals, for each budget: [M, F], [N, F] → [budgets, M, N]."""
        return np.asarray(self._promised(self.params, here, goals))

    @cached_property
    def _scale(self) -> tuple[jax.Array, jax.Array]:
        features = self.look(self.waypoints).features
        return features.mean(0), features.std(0) + 1e-3

    def alike(self, some: jax.Array, others: jax.Array) -> np.ndarray:
        """Cosines of h, each feature standardised over the waypoints: [M, F], [N, F] → [M, N].

        They tell places apart that the learned reward, or Q, takes for one.
        """
        mean, spread = self._scale
        some, others = ((each - mean) / spread for each in (some, others))
        lengths = jnp.linalg.norm(some, axis=-1)[:, None] * jnp.linalg.norm(others, axis=-1)
        return np.asarray(some @ others.T / jnp.maximum(lengths, 1e-6))

    def arrival(self, world: HostEnv) -> float:
        """The learned reward from which on the agent is there, by attempts from fresh starts."""
        rng, step = np.random.default_rng(SEED), world.reset(SEED)
        rewards, *_ = self._attempt(
            world, jax.jit(world.observe), step, rng.integers(len(self.waypoints), size=world.size)
        )
        return arrival_threshold(rewards)

    def practise(self, world: HostEnv) -> Practice:
        """Attempts at waypoints, one after the other from where the last one ended."""
        if len(self.waypoints) < 2:
            raise UserError("this agent has no goal buffer to choose waypoints from: plan with the run it is from")
        rng, step = np.random.default_rng(SEED), world.reset(SEED)
        starts, wanted, came, promised = [], [], [], []
        observe, targets = jax.jit(world.observe), self.look(self.waypoints).features
        for _ in range(ROUNDS):
            goals = rng.integers(len(self.waypoints), size=world.size)
            _, there, start, step = self._attempt(world, observe, step, goals)
            came.append(np.stack([there[:, 1 : budget + 1].any(1) for budget in self.budgets]))
            promised.append(np.diagonal(self.promised(start, targets[goals]), axis1=1, axis2=2))
            starts.append(start)
            wanted.append(goals)
        arrived = np.concatenate(came, 1)
        chance = fit_chance(np.minimum(np.concatenate(promised, 1), 1.0).ravel(), arrived.ravel())
        return Practice(jnp.concatenate(starts), np.concatenate(wanted), arrived, chance)

    def _attempt(
        self, world: HostEnv, observe: Callable, step: HostStep, goals: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, jax.Array, HostStep]:
        """The longest pursuits of these waypoints: learned rewards and whether the place is theirs, both [N, n + 1],
        what was seen first, and where it ended."""
        targets = self.look(self.waypoints[goals])
        clock = self.horizon - self.longest
        pursuit = begin_pursuit(targets.features, self.learner.imitator.config.lstm, clock)
        rewards, there, seen = [], [], self.look(observe(step.raw))
        start = seen.features
        for t in range(self.longest + 1):
            rewards.append(np.asarray(self.rewards(self.params, seen, targets)))
            there.append(np.diagonal(self.alike(seen.features, targets.features)) >= ALIKE)
            if t < self.longest:
                pursuit, actions, _ = self.step(self.params, pursuit, seen.features)
                world.send(np.asarray(actions))
                step = world.recv()
                seen = self.look(observe(step.raw))
        return np.stack(rewards, 1), np.stack(there, 1), start, step


class Planner:
    """A map of the goal buffer: the expected steps between any two of its images, and the shortest ways over others."""

    def __init__(self, compass: Compass, practice: Practice, arrival: float):
        """`arrival` is the learned reward to stop at."""
        self.compass, self.practice, self.arrival = compass, practice, arrival
        self.features = compass.look(compass.waypoints).features
        self.steps, _ = self.expected(self.features, self.features)
        self.ways = shortest_ways(self.steps)

    def expected(self, here: jax.Array, goals: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        """The expected steps of direct pursuits, and how many to give each: [M, F], [N, F] → [M, N] twice."""
        compass, practice = self.compass, self.practice
        promised = promised_chances(compass.promised(here, goals), practice.chance)
        to_waypoints = compass.alike(goals, self.features)
        chances = practised_chances(
            promised, compass.alike(here, practice.starts), to_waypoints[:, practice.goals], practice.arrived
        )
        return expected_steps(chances, compass.budgets)

    def pursue(self, goal: np.ndarray, steps: int | None = None, stop_early: bool = False) -> "Journey":
        """A policy for a loop of your own: `.act(observation)` until `.finished`, after three times T or `steps`."""
        from_image = self.compass.learner.imitator.image_shape
        if np.shape(goal) != from_image or np.asarray(goal).dtype != np.uint8:
            raise UserError(f"a planner's goal must be uint8 {from_image}: agent.image(goal) makes it so")
        arrival = self.arrival if stop_early else None
        return Journey(Journeys(self.compass, np.asarray(goal)[None], steps, self, arrival))


class Journeys:
    """N goals, each pursued for `steps` steps in all: straight on, one pursuit after the other, or over waypoints.

    A waypoint is left when its place is seen, or its steps are spent; what was missed, a waypoint or the goal, counts
    as twice as far from then on. Then the agent plans again, from where it is.
    """

    def __init__(
        self,
        compass: Compass,
        goals: np.ndarray,
        steps: int | None = None,
        planner: Planner | None = None,
        arrival: float | None = None,
    ):
        self.compass, self.planner, self.arrival = compass, planner, arrival
        self.budget = 3 * compass.longest if steps is None else steps
        if self.budget < 1:
            raise UserError(f"a journey takes at least 1 step, not {self.budget}")
        n = len(goals)
        self.steps = 0
        self.goals = self.target = compass.look(goals)
        self.number, self.left = np.full(n, GOAL), np.zeros(n, int)
        self.stopped = np.full(n, -1)  # the step at which each arrived, if it stops early
        self.q_values: np.ndarray = np.zeros((n, 0), np.float32)
        lstm = compass.learner.imitator.config.lstm
        self._pursuit = begin_pursuit(self.goals.features, lstm)
        if planner is not None:
            to_goal, _ = planner.expected(planner.features, self.goals.features)
            self._rest = (planner.ways[:, :, None] + to_goal[None]).min(1)  # [L, N], from each waypoint to each goal
            self._failures = np.zeros((n, len(planner.ways) + 1))  # the goal's come last: its number is -1

    def see(self, images: np.ndarray | jax.Array) -> Frames:
        """What N observations show; remembers who has arrived."""
        seen = self.compass.look(images)
        if self.arrival is not None:
            near = np.asarray(self.compass.rewards(self.compass.params, seen, self.goals)) >= self.arrival
            self.stopped = np.where(near & (self.stopped < 0), self.steps, self.stopped)
        return seen

    def act(self, seen: Frames) -> np.ndarray:
        """The best actions at these observations, int32 [N]."""
        due = self.left == 0
        if self.planner is not None and self.steps:
            there = np.diagonal(self.compass.alike(seen.features, self.target.features)) >= ALIKE
            failed = np.flatnonzero(due & ~there)
            self._failures[failed, self.number[failed]] += 1
            due |= there & (self.number != GOAL)
        if due.any():
            self._set_out(seen, due)
        self._pursuit, actions, q_values = self.compass.step(self.compass.params, self._pursuit, seen.features)
        self.q_values = np.asarray(q_values)
        self.left -= 1
        self.steps += 1
        return np.asarray(actions)

    def _set_out(self, seen: Frames, due: np.ndarray) -> None:
        """New targets for those whose pursuit is over, each with its steps."""
        compass, most = self.compass, self.budget - self.steps
        number, given = np.full(len(due), GOAL), np.full(len(due), most)
        if self.planner is not None:
            number, given = self._choose(seen.features)
        given = np.where(number == GOAL, most, np.minimum(given, most))
        given = np.clip(given, compass.budgets[0], compass.longest)
        self.number, self.left = np.where(due, number, self.number), np.where(due, given, self.left)
        if self.planner is not None:
            waypoint = (self.number != GOAL)[:, None]
            features = jnp.where(waypoint, self.planner.features[self.number], self.goals.features)
            pixels = jnp.where(waypoint[..., None, None], compass.waypoints[self.number], self.goals.pixels)
            self.target = Frames(features, pixels)
        clock = jnp.asarray(compass.horizon - self.left, jnp.int32)
        self._pursuit = compass.renew(self._pursuit, jnp.asarray(due), self.target.features, clock)

    def _choose(self, features: jax.Array) -> tuple[np.ndarray, np.ndarray]:
        """The first waypoint of the shortest way from each of N observations, and the steps to give it."""
        assert self.planner is not None
        n = len(features)
        goals = jnp.concatenate([self.planner.features, self.goals.features])
        steps, given = self.planner.expected(features, goals)
        count = len(self.planner.ways)
        straight = steps[np.arange(n), count + np.arange(n)] * 2.0 ** self._failures[:, GOAL]
        over = steps[:, :count] * 2.0 ** self._failures[:, :GOAL] + self._rest.T
        over[self.compass.alike(features, self.planner.features) >= ALIKE] = np.inf  # it is there already
        best = over.argmin(1)
        goes_straight = ~(over[np.arange(n), best] < straight)
        return np.where(goes_straight, GOAL, best), given[np.arange(n), best]


class Journey:
    """One goal pursued over waypoints: `act` until `finished`."""

    def __init__(self, journeys: Journeys):
        self._journeys = journeys
        self.goal = np.asarray(journeys.goals.pixels[0])
        self.targets: list[int] = []  # at each step the number of the waypoint pursued, or GOAL

    @property
    def finished(self) -> bool:
        """Whether its steps are spent, or `arrived` saw the goal."""
        return self._journeys.steps >= self._journeys.budget or bool(self._journeys.stopped[0] >= 0)

    @property
    def q_values(self) -> np.ndarray:
        return self._journeys.q_values[0]

    @property
    def waypoints(self) -> np.ndarray:
        """The images pursued on the way, one after the other: uint8 [W, H, W, 3]."""
        order = [now for now, before in zip(self.targets, [GOAL, *self.targets], strict=False) if now != before]
        return self._journeys.compass.waypoints[[number for number in order if number != GOAL]]

    def arrived(self, observation: np.ndarray) -> bool:
        """Whether the observation shows the goal, to one that stops early; then it is finished."""
        self._journeys.see(observation[None])
        return bool(self._journeys.stopped[0] >= 0)

    def act(self, observation: np.ndarray) -> int:
        """The best action at this observation."""
        if self.finished:
            raise UserError(f"this journey is over after {self._journeys.steps} steps: call pursue() again")
        action = int(self._journeys.act(self._journeys.compass.look(observation[None]))[0])
        self.targets.append(int(self._journeys.number[0]))
        return action
