"""The actors of a cluster, each with a bounded number of turns under way; who dies is replaced, and counted."""

import os
from collections import Counter
from typing import Any, NamedTuple

import jax
import ray
from ray.exceptions import RayError, RayTaskError
from rich.console import Console

from discern.agent.goal_buffer import GoalBuffer
from discern.config import Config
from discern.training.cluster.worker import Opening, Played, Worker
from discern.training.collect import counts_of
from discern.types import LostError, Params, UserError

TURNS_AHEAD = 2  # asked of an actor at once: while one travels the next is played
PATIENCE = 300.0  # seconds without an answer, compiling included
MAX_RESTARTS = 10  # of one actor, before the run is given up


class RemoteWorker(Worker):
    """An actor in a process of Ray's: acting is the CPU's, the accelerator is the learner's."""

    def __init__(self, *arguments: Any):
        jax.config.update("jax_platforms", "cpu")
        os.environ["NPROC"] = "1"  # threads of XLA's: an actor has a core to itself, not all of them
        super().__init__(*arguments)


class Order(NamedTuple):
    """Something asked of an actor."""

    answer: Any  # an object reference
    number: int
    updates: int | None  # that the parameters it plays with have seen; None while it starts and compiles


class Supervisor:
    """Orders and answers, oldest first. What is under way is bounded, so the object store never fills."""

    def __init__(self, config: Config, actors: int, shards: int, console: Console):
        self.config, self.size, self.shards, self.console = config, actors, shards, console
        self.a_round = 0  # updates that one turn of every actor brings
        self.handles: list[Any] = [None] * actors
        self.lives, self.restarts = [0] * actors, [0] * actors
        self.orders: list[Order] = []
        self.published: tuple[Any, Any, int] = (None, None, -1)  # parameters, goals, and the goals' version
        self.published_at = self.updates = self.turns_since = self.new_goals = self.answered = 0
        self.died = self.refused = self.lag = 0
        self.counted = Counter(counts_of([]))
        self.dead_before = _dead_nodes()

    def start(self) -> list[Opening]:
        """Every actor's random play."""
        for number in range(self.size):
            self.hire(number)
        openings = [self.answer()[1] for _ in range(self.size)]
        self.a_round = self.size * max(opening.most_updates for opening in openings)
        return openings

    def hire(self, number: int) -> None:
        actor = ray.remote(RemoteWorker).options(num_cpus=1, scheduling_strategy="SPREAD")
        self.handles[number] = actor.remote(self.config, number, self.size, self.lives[number], self.shards)
        self.orders.append(Order(self.handles[number].start.remote(), number, None))

    @property
    def under_way(self) -> bool:
        return bool(self.orders)

    def go_on(self, params: Params, goals: GoalBuffer) -> None:
        """Another turn of the actor that answered last, or the first turns of all; publishes once in a round."""
        if not self.under_way or self.turns_since >= self.size:
            self.publish(params, goals)
        if self.under_way:
            self.ask(self.answered)
        else:
            for number in range(self.size):
                self.ask_first(number)

    def ask_first(self, number: int) -> None:
        """The first turns of a new actor; in the first of them it compiles, and nobody waits for that."""
        self.ask(number)
        self.orders[-1] = self.orders[-1]._replace(updates=None)
        for _ in range(TURNS_AHEAD - 1):
            self.ask(number)

    def ask(self, number: int) -> None:
        """Another turn, with the parameters published last."""
        answer = self.handles[number].turn.remote(*self.published)
        self.orders.append(Order(answer, number, self.published_at))

    def next(self) -> Played:
        """The next turn that comes in."""
        while True:
            order, answer = self.answer()
            if isinstance(answer, Opening):
                self.ask_first(order.number)
                continue
            self.restarts[order.number] = 0
            if order.updates is not None:
                self.lag = max(self.lag, self.updates - order.updates)
            self.answered = order.number
            self.turns_since += 1
            self.counted.update(answer.counts)
            return answer

    def answer(self) -> tuple[Order, Any]:
        """The first answer there is; actors that fall far behind the learner are waited for."""
        while True:
            late = [o for o in self.orders if o.updates is not None and self.updates - o.updates >= self.late()]
            waiting = {order.answer: order for order in late or self.orders}
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=PATIENCE)
            if not ready and not late:
                raise LostError(f"no actor answered for {PATIENCE:.0f} seconds")
            order = waiting[ready[0]] if ready else late[0]
            self.orders.remove(order)
            try:
                return order, ray.get(order.answer, timeout=PATIENCE if ready else 0)
            except RayTaskError as error:
                if isinstance(error.cause, UserError):
                    raise error.cause from None
                self.replace(order.number, repr(error.cause))
            except RayError as error:
                self.replace(order.number, type(error).__name__)

    def replace(self, number: int, why: str) -> None:
        """Another process, with fresh environments, in the place of one that is gone."""
        ray.kill(self.handles[number])
        self.orders = [order for order in self.orders if order.number != number]
        self.died += 1
        self.lives[number] += 1
        self.restarts[number] += 1
        if self.restarts[number] >= MAX_RESTARTS:
            raise LostError(f"actor {number} was lost {MAX_RESTARTS} times without one turn ({why})")
        self.console.print(f"actor {number} was lost ({why}); another takes its place", soft_wrap=True)
        self.hire(number)

    def publish(self, params: Params, goals: GoalBuffer) -> None:
        """Puts the parameters once for all actors; the goals too, when one in 64 is new."""
        _, goals_there, version = self.published
        if version < 0 or 64 * self.new_goals >= goals.images.shape[0]:
            goals_there, version, self.new_goals = self.put(jax.device_get(goals)), version + 1, 0
        self.published = (self.put(jax.device_get(params)), goals_there, version)
        self.published_at, self.turns_since = self.updates, 0

    def put(self, tree: Any) -> Any:
        """Where actors find the arrays, wherever they are."""
        return ray.put(tree)

    def late(self) -> int:
        """An actor whose parameters have seen so many updates less than the learner's is waited for."""
        return (TURNS_AHEAD + 2) * self.a_round

    def most_lag(self) -> int:
        """No order is older than `late` and what all other late ones bring."""
        return self.late() + (TURNS_AHEAD + 1) * self.a_round

    def counts(self) -> dict[str, int]:
        """What actors counted, and what was lost on the way."""
        return {
            **self.counted,
            "actors_lost": self.died,
            "nodes_lost": len(_dead_nodes() - self.dead_before),
            "batches_refused": self.refused,
            "parameter_lag_seen": self.lag,
        }

    def close(self) -> None:
        for handle in filter(None, self.handles):
            ray.kill(handle)


def _dead_nodes() -> set[str]:
    return {node["NodeID"] for node in ray.nodes() if not node["Alive"]}
