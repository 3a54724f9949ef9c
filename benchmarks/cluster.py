"""What the parts of a cluster do in a second: two actors through Ray and in one process, the learner, the broadcast."""

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import tyro
from rich.console import Console

from discern.config import Config, preset, replace
from discern.run.cluster import ClusterLoop
from discern.run.player import Player
from discern.run.ray_cluster import connect
from discern.run.report import machine
from discern.types import Batch


@dataclass(frozen=True)
class Benchmark:
    env: str = "arena/16"
    actors: int = 2
    seconds: float = 10.0
    environments: int = 0
    """Of all actors; 0: the world's own number."""
    replay_capacity: int = 0
    learner: bool = True
    """Time the learner too."""
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
    player = Player(config, 0, 1)
    goals = player.start().images
    params = player.collector.imitator.init(jax.random.key(0))
    while not player.turn(params, goals, 0).batches:
        continue
    steps = rate_of_a_core(lambda: player.turn(params, goals, 0).steps, wanted.seconds)
    player.collector.close()
    return {
        "env": wanted.env,
        "environments": config.actor.environments,
        "replay_ratio": config.learner.replay_ratio,
        "actor_steps_per_core_second": round(steps),
        "machine": machine(),
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
    with connect("local", wanted.actors) as actors, ThreadPoolExecutor(actors) as threads:
        loop = ClusterLoop(config, actors, Console(quiet=True))
        state = loop.start()
        params, goals = jax.device_get((state.learner.params, state.memory.goals.images))
        loop.crew.begin(state.learner.params, state.memory.goals)
        players = [Player(config, number, actors) for number in range(actors)]
        for player in players:
            player.start()

        def through_ray() -> int:
            number, played = loop.crew.next()
            loop.crew.ask(number)
            return played.steps

        def in_one_process() -> int:
            return sum(threads.map(lambda player: player.turn(params, goals, 0).steps, players))

        def idle() -> Batch | None:
            """Waits for the turns under way, and shows a batch of the last."""
            batch = None
            while loop.crew.under_way:
                batch = next(iter(loop.crew.next()[1].batches), batch)
            return batch

        def busy() -> None:
            for number in 2 * list(range(actors)):
                loop.crew.ask(number)

        while (batch := idle()) is None:  # until everything has compiled
            busy()
        while not all(player.turn(params, goals, 0).batches for player in players):
            continue
        steps_of_a_core = rate_of_a_core(lambda: players[0].turn(params, goals, 0).steps, wanted.seconds / 2)
        pairs = []
        for _ in range(wanted.rounds):
            one = rate(in_one_process, wanted.seconds / wanted.rounds)
            busy()
            through_ray()
            pairs.append((rate(through_ray, wanted.seconds / wanted.rounds), one))
            idle()

        def learn() -> int:
            nonlocal state
            state = state._replace(learner=jax.block_until_ready(loop.learn(state.learner, [batch])[0]))
            return 1

        def broadcast() -> int:
            loop.crew.publish(state.learner.params, state.memory.goals)
            return 1

        if wanted.learner:
            learn()
        report = {
            "env": wanted.env,
            "actors": actors,
            "environments": config.actor.environments,
            "ray_steps_per_second": round(sum(ray for ray, _ in pairs) / len(pairs)),
            "one_process_steps_per_second": round(sum(one for _, one in pairs) / len(pairs)),
            "ray_over_one_process": round(sum(ray for ray, _ in pairs) / sum(one for _, one in pairs), 3),
            "actor_steps_per_core_second": round(steps_of_a_core),
            "ratios": [round(ray / one, 3) for ray, one in pairs],
            "updates_per_second": round(rate(learn, wanted.seconds / 2), 1) if wanted.learner else None,
            "publish_milliseconds": round(1000 / rate(broadcast, wanted.seconds / 2), 2),
            "parameter_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(params)),
            "batch_bytes": sum(leaf.nbytes for leaf in jax.tree.leaves(batch)),
            "load": os.getloadavg()[0],
            "machine": machine(),
        }
        loop.collector.close()
    print(json.dumps(report))


if __name__ == "__main__":
    main(tyro.cli(Benchmark))
