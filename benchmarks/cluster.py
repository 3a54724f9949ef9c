"""What the parts of a cluster do in a second: two actors through Ray and in one process, the learner, the broadcast."""

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import tyro
from rich.console import Console

from discern.training.cluster.connect import SETTINGS, connect

os.environ |= SETTINGS  # before Ray is imported

from discern.config import Config, replace
from discern.evaluation.report import machine
from discern.presets import preset
from discern.training.cluster.actors import RayActors
from discern.training.cluster.supervisor import Order, Supervisor
from discern.training.cluster.worker import Worker
from discern.training.loop import Loop
from discern.types import Batch


@dataclass(frozen=True)
class Benchmark:
    env: str = "arena/16"
    actors: int = 2
    seconds: float = 10.0
    environments: int = 0
    """Of all actors; 0: the world's own number."""
    replay_capacity: int = 0
    actor_only: bool = False
    """Time one actor by the processor's time, without Ray, and nothing else."""
    rounds: int = 3
    """Ray and one process are timed by turns, this many times each."""


def rate(call: Callable[[], int], seconds: float) -> float:
    """The sum of what `call` returns, a second."""
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        done += call()
    return done / (time.perf_counter() - began)


def rate_of_a_core(call: Callable[[], int], seconds: float) -> float:
    """The same by the processor's time, which others on the machine do not take part in."""
    began, spent, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        done += call()
    return done / (time.process_time() - spent)


def actor_alone(config: Config, wanted: Benchmark) -> dict[str, Any]:
    """Acting, drawing and relabelling of one actor, on one core's time."""
    worker = Worker(config, 0, 1)
    goals = worker.start().goals
    params = worker.actors.collector.imitator.init(jax.random.key(0))
    while not worker.turn(params, goals, 0).batches:
        continue
    steps = rate_of_a_core(lambda: worker.turn(params, goals, 0).steps, wanted.seconds)
    worker.actors.close()
    return {
        "env": wanted.env,
        "environments": config.actor.environments,
        "replay_ratio": config.learner.replay_ratio,
        "actor_steps_per_core_second": round(steps),
        "machine": machine(),
    }


class InThreads(Supervisor):
    """The same actors in threads of this process, without Ray."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.threads = [ThreadPoolExecutor(1) for _ in range(self.size)]

    def hire(self, number: int) -> None:
        self.handles[number] = Worker(self.config, number, self.size, shards=self.shards)
        self.orders.append(Order(self.threads[number].submit(self.handles[number].start), number, None))

    def ask(self, number: int) -> None:
        answer = self.threads[number].submit(self.handles[number].turn, *self.published)
        self.orders.append(Order(answer, number, self.published_at))

    def answer(self) -> tuple[Order, Any]:
        done, _ = wait([order.answer for order in self.orders], return_when=FIRST_COMPLETED)
        order = next(order for order in self.orders if order.answer in done)
        self.orders.remove(order)
        return order, order.answer.result()

    def put(self, tree: Any) -> Any:
        return tree

    def close(self) -> None:
        for thread in self.threads:
            thread.shutdown()


class Side:
    """A run whose turns are timed, whole or its acting alone."""

    def __init__(self, config: Config, actors: int, supervisor: type[Supervisor]):
        acting = RayActors(config, actors, Console(quiet=True), supervisor)
        self.supervisor, self.loop = acting.supervisor, Loop(acting)
        self.state = self.loop.start()
        while int(self.state.learner.updates) < 2 * actors:  # until everything has compiled
            self.train()
        self.pause()

    def train(self) -> int:
        before = self.state.steps
        self.state, _ = self.loop.turn(self.state)
        return self.state.steps - before

    def act(self) -> int:
        self.supervisor.go_on(self.state.learner.params, self.state.memory.goals)
        return self.supervisor.next().steps

    def pause(self) -> Batch | None:
        """Waits for the turns under way, and shows a batch of the last."""
        jax.block_until_ready(self.state.learner)
        batch = None
        while self.supervisor.under_way:
            batch = next(iter(self.supervisor.next().batches), batch)
        return batch


def compare(sides: list[Side], turn: Callable[[Side], int], wanted: Benchmark) -> dict[str, Any]:
    """Both sides' steps a second, by turns, and the first's as a share of the second's."""
    rates: list[list[float]] = [[], []]
    for _ in range(wanted.rounds):
        for side, measured in zip(sides, rates, strict=True):
            turn(side)
            measured.append(rate(partial(turn, side), wanted.seconds / wanted.rounds))
            side.pause()
    ray, one = map(sum, rates)
    return {
        "ray_steps_per_second": round(ray / wanted.rounds),
        "one_process_steps_per_second": round(one / wanted.rounds),
        "ray_over_one_process": round(ray / one, 3),
        "ratios": [round(ours / theirs, 3) for ours, theirs in zip(*rates, strict=True)],
    }


def main(wanted: Benchmark) -> None:
    config = preset(wanted.env)
    config = replace(
        config,
        {
            "actor.environments": wanted.environments or config.actor.environments,
            "actor.warm_up": 5,  # goals are not what is timed
            "goal_buffer.capacity": 64,
            "replay_capacity": wanted.replay_capacity or config.replay_capacity,
        },
    )
    if wanted.actor_only:
        print(json.dumps(actor_alone(config, wanted)))
        return
    with connect("local", wanted.actors) as actors:
        ray, one = (Side(config, actors, supervisor) for supervisor in (Supervisor, InThreads))
        trained, acted = (compare([ray, one], turn, wanted) for turn in (Side.train, Side.act))
        ray.act()
        batch = ray.pause()
        learner, goals = ray.state.learner, ray.state.memory.goals

        def learn() -> int:
            jax.block_until_ready(ray.loop.update(learner, batch, jnp.float32(1)))
            return 1

        def publish() -> int:
            ray.supervisor.publish(learner.params, goals)
            return 1

        report = {
            "env": wanted.env,
            "actors": actors,
            "environments": config.actor.environments,
            "training": trained,
            "acting": acted,
            "updates_per_second": round(rate(learn, wanted.seconds / 2), 1),
            "publish_milliseconds": round(1000 / rate(publish, wanted.seconds / 2), 2),
            "parameter_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(learner.params)),
            "batch_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(batch)),
            "load": os.getloadavg()[0],
            "machine": machine(),
        }
        for side in (ray, one):
            side.loop.close()
    print(json.dumps(report))


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
