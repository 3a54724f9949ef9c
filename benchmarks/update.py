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
from typing import Any, NamedTuple, cast

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
from discern.envs.base import attempts_of, reset_worlds
from discern.envs.processes import evenly
from discern.evaluation.report import machine
from discern.presets import preset, suite_of
from discern.training.acting import Decider, exploration, initial_actor
from discern.training.actors import make_draw
from discern.training.collect import COMPILING, device_programs, steps_per_turn
from discern.training.update import make_update
from discern.types import Batch, LearnerState, PRNGKey

TRACED, SHOWN = 5, 40  # calls in a profile, and groups of kernels told of it
NESTS = ("while", "call", "conditional")  # on a CPU they hold others
NUMBERED = re.compile(r"([._]\d+|\.clone|\.remat)+$")
INSTRUCTION = re.compile(r'^\s*(?:ROOT )?%?([\w.\-]+) = .*op_name="([^"]*)"', re.MULTILINE)
Next = Callable[[tuple[Any, ...], Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Wanted:
    worlds: tyro.conf.Positional[tuple[str, ...]]
    out: Path | None = None
    trace: bool = False
    """Tell which kernels draw+update launches."""
    repeats: int = 7
    """Groups of calls that each part is timed by."""
    seconds: float = 0.1
    """How long a group takes, about."""
    parts: tuple[str, ...] = ()
    """Those to time, by their names in the table; by default all."""
    capacity: int = 1024
    """Trajectories in the replay, if the preset has more."""
    batch: int | None = None
    horizon: int | None = None
    environments: int | None = None
    commit: str | None = None
    note: str | None = None
    """What else to know, such as who else was using the machine."""


class Subject(NamedTuple):
    """One world's learner, and a replay to learn from."""

    config: Config
    spec: EnvSpec
    learner: Learner
    state: LearnerState
    memory: Memory
    updates: int  # of a call


class Part(NamedTuple):
    """A program with its inputs, and how many updates or steps a call of it serves."""

    program: Any
    inputs: tuple[Any, ...]
    count: int = 1
    following: Next = lambda inputs, result: inputs
    """The next call's inputs, where a call uses its own up."""


def config_of(world: str, wanted: Wanted) -> Config:
    """The preset with what the flags change."""
    config = preset(world)
    changes = {
        "replay_capacity": min(config.replay_capacity, wanted.capacity),
        "learner.batch": wanted.batch or config.learner.batch,
        "actor.horizon": wanted.horizon or config.actor.horizon,
        "actor.environments": wanted.environments or config.actor.environments,
    }
    return replace(config, changes)


def on_host(config: Config) -> bool:
    """Whether the world's steps are made beside the accelerator."""
    return suite_of(config.env) in SUITES or config.actor.host


def quick_spec(config: Config) -> EnvSpec:
    """The world's spec, without an emulator."""
    if suite_of(config.env) != "atari":
        return spec_of(config)
    from discern.envs.atari.worlds import atari_spec

    return atari_spec(config.env.removeprefix("atari/"))


def subject_of(config: Config) -> Subject:
    """The learner and a full replay, on the device."""
    spec = quick_spec(config)
    learner = Learner(config, spec)
    memory = jax.jit(lambda key: filled_memory(key, config, spec))(jax.random.key(0))
    state = jax.jit(learner.init)(jax.random.key(1), memory.goals.images)
    one_by_one = jax.default_backend() == "cpu" or on_host(config)  # as in LocalActors
    return Subject(config, spec, learner, state, memory, config.learner.updates_per_call or (1 if one_by_one else 8))


def filled_memory(key: PRNGKey, config: Config, spec: EnvSpec) -> Memory:
    """Random frames, actions, goals and dimensions."""
    goals, dimensions = config.goal_buffer.capacity, len(spec.dimensions)
    sizes = (config.replay_capacity, config.actor.environments, config.actor.horizon, spec.image_shape, dimensions)
    replay = empty_replay(*sizes)
    slots, frames = replay.stored.observations.shape[:2]
    keys = jax.random.split(key, 3)

    def images(key: PRNGKey, count: int) -> jax.Array:
        return jax.random.bits(key, (count, *spec.image_shape), jnp.uint8)

    stored = replay.stored._replace(  # slot by slot, since drawing all at once takes several times the room
        observations=jax.lax.map(lambda key: images(key, frames), jax.random.split(keys[0], slots)),
        actions=jax.random.randint(keys[1], (slots, frames - 1), 0, spec.actions),
        goal=images(keys[1], slots),
        goal_slot=jax.random.randint(keys[2], (slots,), 0, goals),
        controllable=jnp.ones(slots, bool),
        measures=jax.random.uniform(keys[1], (slots, frames, dimensions)),
        goal_measures=jax.random.uniform(keys[2], (slots, dimensions)),
    )
    buffer = GoalBuffer(images(keys[2], goals), jax.random.uniform(keys[0], (goals, dimensions)))
    return Memory(replay._replace(stored=stored, filled=jnp.int32(config.replay_capacity)), buffer)


def jitted(function: Callable[..., Any], *inputs: Any) -> Part:
    return Part(jax.jit(function, compiler_options=COMPILING), inputs)


def and_back(function: Callable[..., jax.Array], inputs: Any, batch: Batch) -> Part:
    """The function and its gradient by its inputs, as of half the square of what it returns."""

    def both(inputs: Any, batch: Batch) -> tuple[jax.Array, Any]:
        result, back = jax.vjp(lambda inputs: function(inputs, batch), inputs)
        return result, back(result)

    return jitted(both, inputs, batch)


def drawing(subject: Subject) -> Part:
    draw = make_draw(of_programs(subject.config), 1, subject.updates)
    return Part(draw, (subject.memory, jax.random.key(2)), subject.updates)


def updating(subject: Subject, batches: Batch) -> Part:
    """The whole update, as the training loop compiles it."""
    update = make_update(subject.learner, (jax.devices()[0],), subject.updates)
    return Part(update, (subject.state, batches, jnp.float32(1)), subject.updates)


def pieces(subject: Subject, batch: Batch) -> dict[str, Callable[[], Part]]:
    """The parts of one update, in its order."""
    config, spec, learner, state, *_ = subject
    frames, shape = jax.eval_shape(rows, batch).shape[0], batch.is_hindsight.shape
    features = jax.random.normal(jax.random.key(3), (frames, config.network.features))
    q_values = jax.random.normal(jax.random.key(4), (*shape, config.actor.horizon, spec.actions))
    rewards = jax.random.uniform(jax.random.key(5), shape)

    def torso(params: Any, batch: Batch) -> jax.Array:
        return learner.imitator.features(params, rows(batch))

    def reward(params: Any, features: jax.Array, batch: Batch) -> tuple[jax.Array, jax.Array]:
        images, decoys = rows(batch), learner.decoys(params, batch)
        loss, _ = learner.reward_loss(params, features, images, decoys, batch)
        return loss, learner.rewards(params["reward"], features, images, decoys, batch)

    def td_loss(q_values: jax.Array, batch: Batch) -> jax.Array:
        return learner.policy_loss(q_values, q_values, rewards, batch)

    reward_and_back = jax.value_and_grad(reward, (0, 1), has_aux=True)
    return {
        "table of frames": lambda: jitted(rows, batch),
        "torso": lambda: jitted(torso, state.params, batch),
        "torso and back": lambda: and_back(torso, state.params, batch),
        "Q and back": lambda: and_back(
            lambda both, batch: learner.q_values(*both, batch), (state.params, features), batch
        ),
        "reward and back": lambda: jitted(reward_and_back, state.params, features, batch),
        "TD loss and back": lambda: jitted(jax.value_and_grad(td_loss), q_values, batch),
        "optimiser": lambda: jitted(learner.apply, state, state.params, jnp.float32(1)),
    }


def acting(subject: Subject) -> Part:
    """A decision for a group of host environments, or for all environments with their step; it uses the memory up."""
    config, _, learner, state, memory, _ = subject
    n, key = config.actor.environments, jax.random.key(6)
    if on_host(config):
        groups = n // config.actor.twins
        n = config.actor.twins * evenly(groups, min(config.actor.host_groups, groups))[-1]  # as in make_worlds
    actor = initial_actor(learner.imitator, config.replay_capacity + jnp.arange(n, dtype=jnp.int32))
    epsilon = exploration(config.actor)[:n]
    if not on_host(config):
        env, attempts = WORLDS[config.env](), attempts_of(config.actor)
        worlds = jax.jit(lambda key: reset_worlds(env, key, n, attempts))(key)
        turn = device_programs(of_programs(config), env, learner.imitator).turn
        inputs: tuple[Any, ...] = (state.params, (worlds, actor), memory, key, epsilon)
        return Part(turn, inputs, steps_per_turn(config.actor), lambda old, new: (old[0], *new, *old[3:]))
    seen = jax.tree.map(lambda x: x[:n], memory.goals)
    decide = jax.jit(Decider(config, learner.imitator).decide, donate_argnums=(1, 2), compiler_options=COMPILING)
    inputs = (state.params, actor, memory, seen, jnp.zeros(n, bool), jnp.ones(n, bool), epsilon, key)
    return Part(decide, inputs, 1, lambda old, new: (old[0], *new[:2], *old[3:]))


def calls_of(program: jax.stages.Compiled, part: Part) -> Callable[[], Any]:
    """Calls it on its inputs, then on those that follow."""
    inputs = part.inputs

    def call() -> Any:
        nonlocal inputs
        result = program(*inputs)
        inputs = part.following(inputs, result)
        return result

    return call


def timed(call: Callable[[], Any], count: int, wanted: Wanted) -> dict[str, float]:
    """Milliseconds for one update: of groups of calls, each call made without waiting for the one before."""

    def group(calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls - 1):
            call()
        jax.block_until_ready(call())
        return (time.perf_counter() - began) / calls

    group(2)
    calls = max(1, min(100, round(wanted.seconds / group(1))))
    return spread(1000 * group(calls) / count for _ in range(wanted.repeats))


def kernels(call: Callable[[], Any], updates: int, programs: list[jax.stages.Compiled]) -> dict[str, Any]:
    """What a profile of some calls saw the device run, for one update: in all, of each program, and by name."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            for _ in range(TRACED):
                jax.block_until_ready(call())
        seen = [launch for path in Path(folder).rglob("*.xplane.pb") for launch in launches(path)]
    if not seen:
        raise RuntimeError("the profile holds no kernels")
    origins = origins_of(programs)
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    of_program: dict[str, list[float]] = defaultdict(list)
    for kernel, program, op, ms in seen:
        of_program[program].append(ms)
        groups[program, NUMBERED.sub("", kernel), origins.get((program, op), NUMBERED.sub("", op))].append(ms)

    def of_update(times: list[float]) -> dict[str, float]:
        calls = TRACED * updates
        return {"launches": round(len(times) / calls, 1), "ms": round(sum(times) / calls, 5)}

    everything = [launch[-1] for launch in seen]
    named = [
        {"program": program, "kernel": kernel, "origin": origin, **of_update(times)}
        | {"share": round(sum(times) / sum(everything), 4)}
        for (program, kernel, origin), times in groups.items()
    ]
    named.sort(key=lambda row: -cast(float, row["ms"]))
    programs_found = {program: of_update(times) for program, times in of_program.items()}
    return {**of_update(everything), "programs": programs_found, "kernels": named[:SHOWN]}


def launches(profile: Path) -> Iterator[tuple[str, str, str, float]]:
    """Kernel, program, operation and milliseconds of all that ran on a GPU's streams, or of a CPU's operations."""
    for plane in jax.profiler.ProfileData.from_file(str(profile)).planes:
        on_gpu = plane.name.startswith("/device:GPU")
        if not on_gpu and (plane.name != "/host:CPU" or jax.default_backend() != "cpu"):
            continue
        for line in plane.lines:
            if on_gpu and not line.name.startswith("Stream"):  # the other lines tell the same again
                continue
            for event in line.events:
                stats = {str(name): str(value) for name, value in event.stats}
                if on_gpu or ("hlo_op" in stats and NUMBERED.sub("", event.name) not in NESTS):
                    program = stats.get("hlo_module", "").partition("(")[0]
                    yield event.name, program, stats.get("hlo_op", ""), event.duration_ns / 1e6


def origins_of(programs: list[jax.stages.Compiled]) -> dict[tuple[str, str], str]:
    """Where in the code an operation comes from, by its program's name and its own."""
    found = {}
    for program in programs:
        text = program.as_text() or ""
        name = text.partition("HloModule ")[2].partition(",")[0]
        found |= {(name, op): origin.partition("/")[2] or origin for op, origin in INSTRUCTION.findall(text)}
    return found


@contextmanager
def spared(found: dict[str, Any], name: str) -> Iterator[None]:
    """What fails is told, and harms no other part."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        found[name] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:200]}


def measure(subject: Subject, wanted: Wanted, found: dict[str, Any]) -> None:
    """Every part's milliseconds and seconds of compiling, the kernels, and acting."""
    parts: dict[str, Any] = found.setdefault("parts", {})
    programs: dict[str, jax.stages.Compiled] = {}

    def take(name: str, make: Callable[[], Part]) -> None:
        if wanted.parts and name not in wanted.parts:
            return
        with spared(parts, name):
            part = make()
            began = time.perf_counter()
            programs[name] = part.program.lower(*part.inputs).compile()
            seconds = time.perf_counter() - began
            ms = timed(calls_of(programs[name], part), part.count, wanted)
            parts[name] = {"ms": ms, "compile_seconds": round(seconds, 2)}
        print(as_line(name, parts[name]), flush=True)

    drawn = drawing(subject)
    take("draw", lambda: drawn)
    batches = drawn.program(*drawn.inputs)[1]
    batch = jax.tree.map(lambda x: x[0], batches) if subject.updates > 1 else batches
    found["rows"] = jax.eval_shape(rows, batch).shape[0]
    for name, make in pieces(subject, batch).items():
        take(name, make)
    take("update", lambda: updating(subject, batches))

    def draw_and_update() -> Any:
        return programs["update"](subject.state, programs["draw"](*drawn.inputs)[1], jnp.float32(1))

    if {"draw", "update"} <= programs.keys():
        with spared(parts, "draw and update"):
            parts["draw and update"] = {"ms": timed(draw_and_update, subject.updates, wanted)}
        if wanted.trace:
            with spared(found, "kernels"):
                found["kernels"] = kernels(draw_and_update, subject.updates, list(programs.values()))
    take("acting", lambda: acting(subject))


def as_line(name: str, part: dict[str, Any]) -> str:
    if "failed" in part:
        return f"{name:>18}  {part['failed']}"
    ms, seconds = part["ms"], part.get("compile_seconds")
    line = f"{name:>18}  {ms['median']:9.3f} ms ({ms['least']:.3f} to {ms['most']:.3f})"
    return line if seconds is None else f"{line}, compiled in {seconds:.1f} s"


def table(world: str, found: dict[str, Any]) -> Iterator[str]:
    yield f"{world}, an update: {found.get('failed', '')}"
    yield from (as_line(name, part) for name, part in found.get("parts", {}).items())
    traced = found.get("kernels", {})
    yield from (
        f"{row['launches']:9.1f} launches {row['ms']:9.4f} ms  {name}"
        for name, row in traced.get("programs", {}).items()
    )
    for row in traced.get("kernels", ()):
        size = f"{row['launches']:9.1f} launches {row['ms']:9.4f} ms {row['share']:6.1%}"
        yield f"{size}  {row['kernel'][:60]}  {row['origin']}"


def main() -> None:
    wanted = tyro.cli(Wanted)
    what = "Milliseconds of each part of an update, timed by itself on random images, and the kernels of draw+update."
    worlds: dict[str, Any] = {}
    made = about(what, "update", wanted.commit, [0]) | {"machine": machine(), "note": wanted.note, "worlds": worlds}
    for world in wanted.worlds:
        print(world, flush=True)
        found = worlds[world] = {}
        with spared(worlds, world):
            subject = subject_of(config_of(world, wanted))
            found |= {"batch": subject.config.learner.batch, "updates_per_call": subject.updates}
            measure(subject, wanted, found)
        if wanted.out is not None:
            wanted.out.write_text(json.dumps(made, indent=1) + "\n")
    for world in worlds:
        print("\n".join(table(world, worlds[world])))


if __name__ == "__main__":
    main()
