"""What an update is made of: each part timed on the device by itself, what compiling it takes, and its kernels.

    python -m benchmarks.update control/reacher-hard watermaze atari/seaquest --out update.json --trace

No world is played: images are random, in a replay of modest capacity; all else is the preset's. Parts are compiled
apart, so they need not add up to the update.
"""

import json
import re
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import tyro

from benchmarks.about import about
from benchmarks.speed import spread
from discern.agent.goal_buffer import GoalBuffer
from discern.agent.learner import Learner
from discern.agent.relabel import rows
from discern.agent.replay import Memory, empty_replay
from discern.config import Config, of_programs, replace
from discern.envs import SUITES, WORLDS, EnvSpec, spec_of
from discern.envs.atari.worlds import atari_spec
from discern.envs.base import attempts_of, reset_worlds
from discern.envs.processes import evenly
from discern.evaluation.report import machine
from discern.presets import preset, suite_of
from discern.training.acting import Decider, exploration, initial_actor
from discern.training.actors import make_draw
from discern.training.collect import COMPILING, device_programs, steps_per_turn
from discern.training.update import make_update
from discern.types import Batch, LearnerState

SECONDS, TRACED, SHOWN = 0.1, 5, 40  # of a group of calls; calls in a profile, and groups of kernels told of it
NUMBERED = re.compile(r"([._]\d+|\.clone|\.remat)+$")
INSTRUCTION = re.compile(r'^\s*(?:ROOT )?%?([\w.\-]+) = .*op_name="(?:jit\(\w+\)/)?([^"]*)"', re.MULTILINE)


@dataclass(frozen=True)
class Wanted:
    worlds: tyro.conf.Positional[tuple[str, ...]]
    out: Path | None = None
    trace: bool = False
    """Tell which kernels draw+update launches."""
    repeats: int = 7
    """Groups of calls that each part is timed by."""
    capacity: int = 1024
    """Trajectories in the replay, if the preset has more."""
    batch: int | None = None
    horizon: int | None = None
    commit: str | None = None
    note: str | None = None
    """What else to know, such as who else was using the machine."""


class Subject(NamedTuple):
    """One world's learner, a replay to learn from, and how many updates a call makes."""

    config: Config
    spec: EnvSpec
    learner: Learner
    state: LearnerState
    memory: Memory
    updates: int


class Part(NamedTuple):
    """A program with its inputs, how many updates or steps a call serves, and the next inputs if it uses these up."""

    program: Any
    inputs: tuple[Any, ...]
    serves: int = 1
    following: Callable[[tuple[Any, ...], Any], tuple[Any, ...]] = lambda inputs, result: inputs


def subject_of(world: str, wanted: Wanted) -> Subject:
    """The preset's learner, but for what the flags change, and a full replay on the device."""
    config = preset(world)
    capacity = min(config.replay_capacity, wanted.capacity)
    sizes = {"replay_capacity": capacity, "learner.batch": wanted.batch, "actor.horizon": wanted.horizon}
    config = replace(config, {name: size for name, size in sizes.items() if size})
    spec = atari_spec(world.removeprefix("atari/")) if suite_of(world) == "atari" else spec_of(config)  # no emulator
    learner = Learner(config, spec)
    memory = jax.jit(lambda: filled_memory(config, spec))()
    state = jax.jit(learner.init)(jax.random.key(1), memory.goals.images)
    one_by_one = suite_of(world) in SUITES or jax.default_backend() == "cpu"  # as in LocalActors
    updates = config.learner.updates_per_call or (1 if one_by_one else 8)
    return Subject(config, spec, learner, state, memory, updates)


def filled_memory(config: Config, spec: EnvSpec) -> Memory:
    """Random images; all else, which takes no time, is ones."""
    sizes = (config.actor.environments, config.actor.horizon, spec.image_shape, len(spec.dimensions))
    replay = empty_replay(config.replay_capacity, *sizes)

    def fill(x: jax.Array) -> jax.Array:
        if x.dtype != jnp.uint8:
            return jnp.ones_like(x)
        keys = jax.random.split(jax.random.key(0), len(x))  # one by one: all at once need several times the room
        return jax.lax.map(lambda key: jax.random.bits(key, x.shape[1:], jnp.uint8), keys)

    goals = jnp.zeros((config.goal_buffer.capacity, *spec.image_shape), jnp.uint8)
    buffer = GoalBuffer(goals, jnp.zeros((len(goals), len(spec.dimensions))))
    stored, buffer = jax.tree.map(fill, (replay.stored, buffer))
    return Memory(replay._replace(stored=stored, filled=jnp.int32(config.replay_capacity)), buffer)


def jitted(function: Callable[..., Any], *inputs: Any) -> Part:
    return Part(jax.jit(function, compiler_options=COMPILING), inputs)


def pieces(subject: Subject, batch: Batch) -> dict[str, Callable[[], Part]]:
    """The parts of one update, in its order."""
    config, spec, learner, state, *_ = subject
    table, shape = jax.eval_shape(rows, batch).shape[0], batch.is_hindsight.shape
    features = jax.random.normal(jax.random.key(2), (table, config.network.features))
    q_values = jax.random.normal(jax.random.key(3), (*shape, config.actor.horizon, spec.actions))

    def torso(params: Any, batch: Batch) -> jax.Array:
        return learner.imitator.features(params, rows(batch))

    def reward(params: Any, features: jax.Array, batch: Batch) -> tuple[jax.Array, jax.Array]:
        images, decoys = rows(batch), learner.decoys(params, batch)
        loss, _ = learner.reward_loss(params, features, images, decoys, batch)
        return loss, learner.rewards(params["reward"], features, images, decoys, batch)

    torso_and_back = jax.value_and_grad(lambda *inputs: jnp.square(torso(*inputs)).sum())
    q_and_back = jax.value_and_grad(lambda *inputs: jnp.square(learner.q_values(*inputs)).sum(), (0, 1))
    td_and_back = jax.value_and_grad(lambda q_values, *inputs: learner.policy_loss(q_values, q_values, *inputs))
    reward_and_back = jax.value_and_grad(reward, (0, 1), has_aux=True)
    return {
        "table of frames": lambda: jitted(rows, batch),
        "torso": lambda: jitted(torso, state.params, batch),
        "torso and back": lambda: jitted(torso_and_back, state.params, batch),
        "Q and back": lambda: jitted(q_and_back, state.params, features, batch),
        "reward and back": lambda: jitted(reward_and_back, state.params, features, batch),
        "TD loss and back": lambda: jitted(td_and_back, q_values, jnp.ones(shape), batch),
        "optimiser": lambda: jitted(learner.apply, state, state.params, jnp.float32(1)),
    }


def acting(subject: Subject) -> Part:
    """A decision for a group of host environments, or for all environments with their step; it uses the memory up."""
    config, _, learner, state, memory, _ = subject
    n, key, on_host = config.actor.environments, jax.random.key(4), suite_of(config.env) in SUITES
    if on_host:
        groups = n // config.actor.twins
        n = config.actor.twins * evenly(groups, min(config.actor.host_groups, groups))[-1]  # as in make_worlds
    actor = initial_actor(learner.imitator, config.replay_capacity + jnp.arange(n, dtype=jnp.int32))
    if on_host:
        decide = jax.jit(Decider(config, learner.imitator).decide, donate_argnums=(1, 2), compiler_options=COMPILING)
        seen, is_first = jax.tree.map(lambda x: x[:n], memory.goals), jnp.zeros(n, bool)
        step = (seen, is_first, ~is_first, exploration(config.actor)[:n], key)
        return Part(decide, (state.params, actor, memory, *step), 1, lambda old, new: (old[0], *new[:2], *old[3:]))
    env, attempts = WORLDS[config.env](), attempts_of(config.actor)
    worlds = jax.jit(lambda: reset_worlds(env, key, n, attempts))()
    turn = device_programs(of_programs(config), env, learner.imitator).turn
    inputs = (state.params, (worlds, actor), memory, key, exploration(config.actor))
    return Part(turn, inputs, steps_per_turn(config.actor), lambda old, new: (old[0], *new, *old[3:]))


def timed(program: Callable[..., Any], part: Part, wanted: Wanted) -> dict[str, float]:
    """Milliseconds for one update, of groups of calls that do not wait for each other."""
    inputs = part.inputs

    def group(calls: int) -> float:
        nonlocal inputs
        began, result = time.perf_counter(), None
        for _ in range(calls):
            result = program(*inputs)
            inputs = part.following(inputs, result)
        jax.block_until_ready(result)
        return (time.perf_counter() - began) / calls

    group(2)
    calls = max(1, min(100, round(SECONDS / group(1))))
    return spread(1000 * group(calls) / part.serves for _ in range(wanted.repeats))


def kernels(call: Callable[[], Any], updates: int, programs: list[jax.stages.Compiled]) -> dict[str, Any]:
    """What a profile of some calls saw the device run, for one update: in all, of each program, and by name."""
    texts = {
        text.split(",")[0].removeprefix("HloModule "): text
        for text in (program.as_text() or "" for program in programs)
    }
    origins = {(name, op): origin for name, text in texts.items() for op, origin in INSTRUCTION.findall(text)}
    times: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(TRACED):
                jax.block_until_ready(call())
        for kernel, program, op, ms in launches(next(Path(folder).rglob("*.xplane.pb"))):
            origin = origins.get((program, op), NUMBERED.sub("", op))
            for group in ((), (program,), (program, NUMBERED.sub("", kernel), origin)):
                times[group].append(ms)
    assert times, "the profile holds no kernels"
    count = TRACED * updates
    sizes = {group: {"launches": len(ms) / count, "ms": round(sum(ms) / count, 5)} for group, ms in times.items()}
    most = sorted((group for group in sizes if len(group) == 3), key=lambda group: -sizes[group]["ms"])[:SHOWN]
    by_program = {group[0]: size for group, size in sizes.items() if len(group) == 1}
    named = [dict(zip(("program", "kernel", "origin"), group, strict=True)) | sizes[group] for group in most]
    return {**sizes[()], "programs": by_program, "kernels": named}


def launches(profile: Path) -> Iterator[tuple[str, str, str, float]]:
    """Kernel, program, operation and milliseconds of all that ran on a GPU's streams, or of a CPU's operations."""
    on_cpu, nests = jax.default_backend() == "cpu", ("while", "call", "conditional")  # which hold others
    plane_name, line_name = ("/host:CPU", "") if on_cpu else ("/device:GPU", "Stream")  # other lines tell it again
    planes = [plane for plane in jax.profiler.ProfileData.from_file(str(profile)).planes if plane_name in plane.name]
    for line in (line for plane in planes for line in plane.lines if line.name.startswith(line_name)):
        for event in line.events:
            stats = {str(name): str(value) for name, value in event.stats}
            if not on_cpu or ("hlo_op" in stats and NUMBERED.sub("", event.name) not in nests):
                program = stats.get("hlo_module", "").partition("(")[0]
                yield event.name, program, stats.get("hlo_op", ""), event.duration_ns / 1e6


@contextmanager
def spared(found: dict[str, Any], name: str) -> Iterator[None]:
    """What fails is told, and harms nothing else."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        found[name] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def measure(world: str, wanted: Wanted, found: dict[str, Any]) -> None:
    """Every part's milliseconds and seconds of compiling, the kernels, and acting."""
    subject, rate = subject_of(world, wanted), jnp.float32(1)
    config, n = subject.config, subject.updates
    programs: dict[str, jax.stages.Compiled] = {}
    found |= {"batch": config.learner.batch, "horizon": config.actor.horizon, "updates_per_call": n}

    def take(name: str, make: Callable[[], Part]) -> None:
        with spared(found, name):
            part, began = make(), time.perf_counter()
            programs[name] = part.program.lower(*part.inputs).compile()
            seconds = time.perf_counter() - began
            found[name] = {"ms": timed(programs[name], part, wanted), "compile_seconds": round(seconds, 2)}
            print(as_line(name, found[name]), flush=True)

    draw = Part(make_draw(of_programs(config), 1, n), (subject.memory, jax.random.key(5)), n)
    take("draw", lambda: draw)
    batches = draw.program(*draw.inputs)[1]
    for name, make in pieces(subject, jax.tree.map(lambda x: x[0], batches) if n > 1 else batches).items():
        take(name, make)
    update = Part(make_update(subject.learner, (jax.devices()[0],), n), (subject.state, batches, rate), n)
    take("update", lambda: update)

    def both() -> Any:
        return programs["update"](subject.state, programs["draw"](*draw.inputs)[1], rate)

    with spared(found, "draw and update"):
        found["draw and update"] = {"ms": timed(both, Part(both, (), n), wanted)}
    with spared(found, "kernels"):
        found |= {"kernels": kernels(both, n, [programs["draw"], programs["update"]])} if wanted.trace else {}
    take("acting", lambda: acting(subject))


def as_line(name: str, part: dict[str, Any]) -> str:
    if "ms" not in part:
        return f"{name:>18}  {part['failed']}"
    if "kernels" in part:
        return f"{name:>18}  {part['ms']:9.3f} ms in {part['launches']:.0f} launches"
    line = f"{name:>18}  {part['ms']['median']:9.3f} ms ({part['ms']['least']:.3f} to {part['ms']['most']:.3f})"
    return f"{line}, compiled in {part['compile_seconds']:.1f} s" if "compile_seconds" in part else line


def main() -> None:
    wanted = tyro.cli(Wanted)
    what = "Milliseconds of each part of an update, timed by itself on random images, and the kernels of draw+update."
    worlds: dict[str, Any] = {}
    made = about(what, "update", wanted.commit, [0]) | {"machine": machine(), "note": wanted.note, "worlds": worlds}
    for world in wanted.worlds:
        found = worlds[world] = {}
        with spared(found, "world"):
            measure(world, wanted, found)
        if wanted.out is not None:
            wanted.out.write_text(json.dumps(made, indent=1) + "\n")
    for world, found in worlds.items():
        for row in found.get("kernels", {}).get("kernels", ()):
            size = f"{row['launches']:8.1f} launches {row['ms']:9.4f} ms"
            print(size, row["program"], row["kernel"][:60], row["origin"], sep="  ")
        print(world, *(as_line(*part) for part in found.items() if isinstance(part[1], dict)), sep="\n")


if __name__ == "__main__":
    main()
