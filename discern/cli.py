"""The command line: parsing only."""

import dataclasses
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from discern.config import Config
from discern.presets import ConfigName, PresetName, preset
from discern.types import StoppedError, UserError

USAGE = """discern learns to bring about any goal image, with no reward and no demonstration.

  discern train [ENV] [--config fast|paper] [--run DIR] [--steps N] [--minutes M] [--seed S] [--any.field VALUE]
  discern train --resume RUN [--steps N] [--minutes M]
  discern train … --cluster local|auto|HOST:PORT [--actors N]
  discern evaluate RUN [--goals SET] [--trials N] [--steps N] [--budgets N …] [--figure PNG] [--json]
  discern probe RUN [--seed S] [--json]
  discern reproduce all|FIGURE … [--budget MINUTES] [--seeds N] [--preset fast|paper|tiny] [--out DIR]
  discern figures RUN … [--out DIR]
  discern record RUN --out VIDEO [--goal IMAGE | --goals N]
  discern export RUN DEST
  discern studio [RUN] [--port P]
  discern bench [ENV] [--seconds S] [--json] [--any.field VALUE]
  discern doctor [--json]

`discern COMMAND --help` lists every option."""


@dataclass(frozen=True)
class Evaluate:
    """Score a run on a fixed set of held-out goals, the random policy beside it."""

    run: Annotated[Path, tyro.conf.Positional]
    goals: str | None = None
    """The goal set; by default the world's usual one."""
    trials: int = 20
    """Attempts at each goal."""
    count: int = 100
    """Goals in the set."""
    seed: int = 0
    figure: Path | None = None
    """Where to draw goals above the average of what was achieved: a .png."""
    steps: int | None = None
    """Steps to reach a goal in, T by default; fewer need an agent that was trained with --relabel.ends."""
    budgets: tuple[int, ...] = ()
    """Numbers of steps to score as well: --budgets 5 10 20."""
    budget_figure: Path | None = None
    """Where to draw success over the --budgets: a .png."""
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class Probe:
    """Say what an agent lacks: sight, reward, timing or control."""

    run: Annotated[Path, tyro.conf.Positional]
    seed: int = 0
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class Reproduce:
    """Draw figures of the paper: runs what they need and is missing, goes on where it was stopped."""

    figures: Annotated[tuple[str, ...], tyro.conf.Positional]
    """all, or names of figures."""
    budget: float = 0.0
    """Minutes for all runs together; 0: each world's own."""
    seeds: int = 1
    preset: PresetName = "fast"
    """tiny: every figure on the arena, small enough for two cores."""
    out: Path = Path("reproduced")
    """Where runs and figures go, and are looked for."""


@dataclass(frozen=True)
class Figures:
    """Draw curves, dimensions over training and what was achieved, from finished runs."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    out: Path = Path("figures")


@dataclass(frozen=True)
class Record:
    """Film the agent of a run: the goal beside the world, and the learned reward below."""

    run: Annotated[Path, tyro.conf.Positional]
    out: Path
    """The video: a .mp4 or .gif."""
    goal: Path | None = None
    """An image to pursue."""
    goals: int | None = None
    """How many goals of the world's goal set to pursue, spread over it; 4 where no image is named."""
    fps: int = 10
    """Frames, which are agent steps, a second."""
    seed: int = 0


@dataclass(frozen=True)
class Export:
    """Write a run's agent alone, without what only training needs, into a new folder."""

    run: Annotated[Path, tyro.conf.Positional]
    dest: Annotated[Path, tyro.conf.Positional]


@dataclass(frozen=True)
class Studio:
    """Open a page, on this machine only, to watch agents reach goals and runs train."""

    run: Annotated[Path | None, tyro.conf.Positional] = None
    """The agent to begin with; by default the first of agents/ and runs/."""
    port: int = 7860


@dataclass(frozen=True)
class Doctor:
    """Look at this machine: devices, versions, what is missing and how to get it, and a speed check."""

    json: bool = False
    """Print one JSON object and nothing else."""


def main() -> None:
    """Runs the command; what the user can mend is one sentence on standard error and exit code 2."""
    commands = {
        "train": _train,
        "evaluate": _evaluate,
        "probe": _probe,
        "reproduce": _reproduce,
        "figures": _figures,
        "record": _record,
        "export": _export,
        "studio": _studio,
        "bench": _bench,
        "doctor": _doctor,
    }
    name, arguments = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--help", [])
    if name not in commands:
        print(USAGE)
        sys.exit(0 if name in ("--help", "-h") else 2)
    try:
        commands[name](arguments)
    except StoppedError as stop:
        print(f"discern: {stop}", file=sys.stderr)
        sys.exit(128 + stop.signal)
    except UserError as error:
        print(f"discern: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("discern: interrupted before there was anything to save", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        print(f"discern: {error.strerror or error} {error.filename or ''}".rstrip(), file=sys.stderr)
        sys.exit(2)


def _train(arguments: list[str]) -> None:
    from discern.run import cluster, train

    if "--resume" in arguments:
        again = tyro.cli(Resume, args=arguments, prog="discern train")
        if again.cluster:
            cluster.resume(again.resume, again.cluster, again.actors, again.steps, again.minutes)
        else:
            train.resume(again.resume, again.steps, again.minutes)
        return
    wanted = _configured(Train, arguments, "discern train")
    if wanted.cluster:
        cluster.train(wanted.settings, wanted.cluster, wanted.actors, wanted.run)
    else:
        train.train(wanted.settings, wanted.run)


def _bench(arguments: list[str]) -> None:
    from discern.run.bench import bench

    wanted = _configured(Bench, arguments, "discern bench")
    _print(bench(wanted.settings, wanted.seconds), wanted.json)


def _evaluate(arguments: list[str]) -> None:
    from discern.run.report import evaluate

    wanted = tyro.cli(Evaluate, args=arguments, prog="discern evaluate")
    options = dataclasses.asdict(wanted)
    del options["json"]
    report = evaluate(**options)
    if wanted.json:
        _print(report, as_json=True)
        return
    goals, often = report["goals"], f"{wanted.trials} trials, {report['steps']} steps each"
    print(f"{report['env']}: {goals['count']} goals ('{goals['set']}', {goals['digest']}) × {often}")
    print(f"{'reached':>12}  {'agent':>7}  {'random':>7}")
    print(f"{'whole goal':>12}  {report['success']:7.1%}  {report['random']:7.1%}")
    print(f"{'at some step':>12}  {report['at_some_step']:7.1%}  {report['random_at_some_step']:7.1%}")
    for name, share in report["per_dimension"].items():
        print(f"{name:>12}  {share:7.1%}  {report['random_per_dimension'][name]:7.1%}")
    for budget, shares in report.get("budgets", {}).items():
        print(f"{f'in {budget} steps':>12}  {shares['success']:7.1%}  at some step {shares['at_some_step']:.1%}")


def _probe(arguments: list[str]) -> None:
    from discern.run.probe import as_table, probe

    wanted = tyro.cli(Probe, args=arguments, prog="discern probe")
    report = probe(wanted.run, wanted.seed)
    print(json.dumps(report) if wanted.json else as_table(report))


def _reproduce(arguments: list[str]) -> None:
    from discern.run.reproduce import reproduce

    wanted = tyro.cli(Reproduce, args=arguments, prog="discern reproduce")
    reproduce(wanted.figures, wanted.out, wanted.budget, wanted.seeds, wanted.preset)


def _figures(arguments: list[str]) -> None:
    from discern.run.reproduce import draw_runs

    wanted = tyro.cli(Figures, args=arguments, prog="discern figures")
    for path in draw_runs(list(wanted.runs), wanted.out):
        print(path)


def _record(arguments: list[str]) -> None:
    from discern.run.record import record

    wanted = tyro.cli(Record, args=arguments, prog="discern record")
    filmed = record(wanted.run, wanted.out, wanted.goal, wanted.goals, wanted.fps, wanted.seed)
    print(f"{wanted.out}: {filmed['frames']} frames, {filmed['goals']} goals, last reward {filmed['final_reward']:.2f}")


def _export(arguments: list[str]) -> None:
    from discern.run.trained import load

    wanted = tyro.cli(Export, args=arguments, prog="discern export")
    print(load(wanted.run).save(wanted.dest))


def _studio(arguments: list[str]) -> None:
    wanted = tyro.cli(Studio, args=arguments, prog="discern studio")
    try:
        from discern.studio.page import open_page
    except ModuleNotFoundError as missing:
        if missing.name != "gradio":
            raise
        raise UserError("the studio needs Gradio: uv sync --extra studio, or pip install 'discern[studio]'") from None
    open_page(wanted.run, wanted.port)


def _doctor(arguments: list[str]) -> None:
    from discern.run.doctor import examine, speed

    wanted = tyro.cli(Doctor, args=arguments, prog="discern doctor")
    report = examine()
    if not wanted.json:
        _print(report, as_json=False)
    report["speed"] = speed()
    _print(report if wanted.json else report["speed"], wanted.json)


@dataclass(frozen=True)
class Train:
    """Train an agent. Every field of the config is a flag; the defaults shown are those of the world."""

    settings: Annotated[Config, tyro.conf.arg(name="")]
    config: ConfigName = "fast"
    """fast: whatever reaches the goals soonest; paper: every value the paper gives."""
    run: Path | None = None
    """The run's folder; runs/… by default."""
    cluster: str = ""
    """Act on a Ray cluster: local starts one on this machine, auto finds the one it belongs to, or HOST:PORT."""
    actors: int = 0
    """Processes that act on the cluster, a core each; 0: one for each core but one."""


@dataclass(frozen=True)
class Resume:
    """Go on with a run from its newest checkpoint; only the budget may change."""

    resume: Path
    steps: int | None = None
    minutes: float | None = None
    cluster: str = ""
    """Go on with actors on a Ray cluster: local, auto or HOST:PORT."""
    actors: int = 0


@dataclass(frozen=True)
class Bench:
    """Time the parts of a run apart, and the whole."""

    settings: Annotated[Config, tyro.conf.arg(name="")]
    config: ConfigName = "fast"
    seconds: float = 2.0
    """How long each part is timed."""
    json: bool = False
    """Print one JSON object and nothing else."""


def _configured(command: Any, arguments: list[str], prog: str) -> Any:
    """The command's options on top of the preset of its world, which is named first."""
    env = arguments[0] if arguments and not arguments[0].startswith("-") else "arena"
    name: ConfigName = "paper" if re.search(r"--config[ =]paper", " ".join(arguments)) else "fast"
    try:
        default = command(settings=preset(env, name), config=name)
        wanted = tyro.cli(command, args=arguments, default=default, prog=prog)
    except ValueError as error:
        raise UserError(str(error)) from None
    if wanted.settings.env != env:
        raise UserError(f"name the world first: {prog} {wanted.settings.env} …")
    return wanted


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report))
        return
    for name, value in report.items():
        if isinstance(value, dict):
            value = "".join(f"\n  {key}: {entry}" for key, entry in value.items())
        print(f"{name.replace('_', ' ')}: {value}")
