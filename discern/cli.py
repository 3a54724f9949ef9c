"""The command line: every command, and what it calls."""

import dataclasses
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from discern.checks import AboveZero, Positive, Range, Seed
from discern.compile_cache import keep_compiled
from discern.parsing import Settings, parse
from discern.presets import ConfigName, PresetName
from discern.studio.commands import Play, Studio, open_studio
from discern.types import Precision, StoppedError, UserError, WandbMode

ABOUT = """Learn to bring about any goal image, with no reward and no demonstration. `discern COMMAND --help` lists
every option of a command; `discern --tyro-print-completion bash` (zsh, fish, tcsh) prints a shell's completions."""

Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
FilmedGoals = Annotated[int, Range("lie between 1 and 1000", lambda x: 1 <= x <= 1000)]
FramesPerSecond = Annotated[int, Range("lie between 1 and 60", lambda x: 1 <= x <= 60)]


@dataclass(frozen=True)
class Train:
    """Train an agent; every setting is a flag."""

    settings: Annotated[Settings, tyro.conf.arg(name="")]
    config: ConfigName = "fast"
    """fast: whatever reaches the goals soonest; paper: every value the paper gives; either sized for the world."""
    run: Path | None = None
    """The run's folder; runs/… by default."""
    seeds: Positive | None = None
    """Train from so many seeds, one after the other, into its folder's seed-0 …; finished ones are left alone."""
    resume: Path | None = None
    """Go on with this run instead, from its newest checkpoint; only its budget may change, and where it acts."""
    cluster: str = ""
    """Act on a Ray cluster: local starts one on this machine, auto finds the one it belongs to, or HOST:PORT."""
    actors: Positive | None = None
    """Processes that act on the cluster, a core each; None: one for each core but one."""
    wandb: WandbMode | None = None
    """Log to Weights & Biases too, online (what `--wandb` alone means) or offline."""


@dataclass(frozen=True)
class Resume:
    """Go on with a run from its newest checkpoint; only its budget may change, and where it acts."""

    fresh: ClassVar[type] = Train

    resume: Path
    steps: Positive | None = None
    minutes: AboveZero | None = None
    cluster: str = ""
    """Go on with actors on a Ray cluster: local, auto or HOST:PORT."""
    actors: Positive | None = None
    wandb: WandbMode | None = None
    """Log to Weights & Biases from now on; a run that did so goes on with it unasked."""


@dataclass(frozen=True)
class Bench:
    """Time the parts of a run apart, and the whole."""

    settings: Annotated[Settings, tyro.conf.arg(name="")]
    config: ConfigName = "fast"
    seconds: AboveZero = 2.0
    """How long each part is timed."""
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class Evaluate:
    """Score a run on held-out goals, the random policy beside it."""

    run: Run
    goals: str | None = None
    """NAME:tune, NAME:test, or NAME for both halves of a set of goals; by default the usual set's test half."""
    trials: Positive = 20
    """Attempts at each goal."""
    count: Positive = 100
    """Goals in a half of the set."""
    seed: Seed = 0
    figure: Path | None = None
    """Where to draw goals above the average of what was achieved: a .png."""
    worst: Path | None = None
    """Where to draw the goals reached least above what was achieved: a .png."""
    steps: Positive | None = None
    """Steps to reach a goal in, T by default; fewer need an agent that was trained with --relabel.ends."""
    budgets: tuple[Positive, ...] = ()
    """Numbers of steps to score as well: --budgets 5 10 20."""
    budget_figure: Path | None = None
    """Where to draw success over the --budgets: a .png."""
    plan: bool = False
    """Go to far goals over waypoints of the goal buffer, in 3 T steps or --steps; plain pursuits beside it."""
    stop_early: bool = False
    """Also score attempts as ended where the agent says it is there, and how soon that is."""
    pursuit_steps: Positive | None = None
    """With --plan: pursuits of so many steps instead of T, of an agent that was trained with --relabel.ends."""
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class Probe:
    """Say what an agent lacks: sight, reward, timing or control."""

    run: Run
    seed: Seed = 0
    json: bool = False
    """Print one JSON object and nothing else."""


@dataclass(frozen=True)
class Reproduce:
    """Draw figures of the paper; the runs they lack are made first, by several machines too that share a folder."""

    figures: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FIGURE …")]
    """all, or names of figures."""
    budget: AboveZero | None = None
    """Minutes for all runs together; None: each world's own."""
    seeds: Positive = 1
    preset: PresetName = "fast"
    """tiny: every figure on the arena, small enough for two cores."""
    worlds: tuple[str, ...] = ()
    """Only these of the worlds that the figures compare; none given: all."""
    out: Path = Path("reproduced")
    """Where runs and figures go, and are looked for."""
    yes: bool = False
    """Begin without asking whether the cost is right."""


@dataclass(frozen=True)
class Figures:
    """Draw curves and what was achieved, from finished runs."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN …")]
    out: Path = Path("figures")


@dataclass(frozen=True)
class Compare:
    """Put runs side by side; those that differ only in their seed are one."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN …")]
    """Runs, or folders that train --seeds made."""
    out: Path = Path("compare.png")
    """Where to draw their curves: a .png."""
    json: bool = False
    """Print one JSON list and nothing else."""


@dataclass(frozen=True)
class Record:
    """Film an agent: the goal beside the world, the reward below."""

    run: Run
    out: Path
    """The video: a .mp4 or .gif."""
    goal: Path | None = None
    """An image to pursue."""
    goals: FilmedGoals | None = None
    """How many goals of the world's goal set to pursue, spread over it; 4 where no image is named."""
    fps: FramesPerSecond = 10
    """Frames, which are agent steps, a second."""
    seed: Seed = 0


@dataclass(frozen=True)
class Export:
    """Write a run's agent alone, without what only training needs."""

    run: Run
    dest: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DEST")]
    """A new folder, for its agent.safetensors."""
    precision: Precision = "int8"
    """Of the weights: int8, with a scale for each output channel, or float32, four times as large and exact."""


@dataclass(frozen=True)
class Doctor:
    """Look at this machine: what it has, lacks, and how fast it is."""

    json: bool = False
    """Print one JSON object and nothing else."""


def read(words: list[str]) -> Any:
    """The command that the words name; `--resume` anywhere makes another command of train; `--wandb` alone, online."""
    again = any(word.partition("=")[0] == "--resume" for word in words)
    for place in range(len(words), 0, -1):
        if words[place - 1] == "--wandb" and words[place : place + 1] not in (["online"], ["offline"], ["None"]):
            words = [*words[:place], "online", *words[place:]]
    commands = {kind.__name__.lower(): kind for kind in HANDLERS if kind is not Resume}
    return parse(commands | ({"train": Resume} if again else {}), words, ABOUT)


def main() -> None:
    """Runs the command; what the user can mend is one sentence on standard error and exit code 2."""
    try:
        wanted = read(sys.argv[1:])
        keep_compiled()
        HANDLERS[type(wanted)](wanted)
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


def _train(wanted: Train) -> None:
    _refuse_actors_alone(wanted)
    if wanted.seeds:
        from discern.training.seeds import train_seeds

        train_seeds(
            wanted.settings, wanted.seeds, wanted.run, cluster=wanted.cluster, actors=wanted.actors, wandb=wanted.wandb
        )
        return
    from discern.training.loop import train

    train(wanted.settings, wanted.run, cluster=wanted.cluster, actors=wanted.actors, wandb=wanted.wandb)


def _resume(wanted: Resume) -> None:
    _refuse_actors_alone(wanted)
    from discern.training.loop import resume

    resume(
        wanted.resume, wanted.steps, wanted.minutes, cluster=wanted.cluster, actors=wanted.actors, wandb=wanted.wandb
    )


def _refuse_actors_alone(wanted: Train | Resume) -> None:
    if wanted.actors and not wanted.cluster:
        raise UserError("--actors is for a cluster: name one too, with --cluster local, auto or HOST:PORT")


def _bench(wanted: Bench) -> None:
    from discern.diagnostics.bench import bench

    _print(bench(wanted.settings, wanted.seconds), wanted.json)


def _evaluate_far(wanted: Evaluate) -> None:
    if wanted.figure or wanted.worst or wanted.budgets or wanted.budget_figure:
        raise UserError("--figure, --worst, --budgets and --budget-figure go without --plan and --stop-early")
    from discern.evaluation.far import as_table, evaluate_far

    options = dataclasses.asdict(wanted)
    for name in ("json", "figure", "worst", "budgets", "budget_figure"):
        del options[name]
    report = evaluate_far(**options)
    print(json.dumps(report) if wanted.json else as_table(report))


def _evaluate(wanted: Evaluate) -> None:
    if wanted.plan or wanted.stop_early:
        return _evaluate_far(wanted)
    if wanted.pursuit_steps:
        raise UserError("--pursuit-steps goes with --plan or --stop-early: --steps is how many one attempt takes")
    from discern.evaluation.report import evaluate

    options = dataclasses.asdict(wanted)
    for name in ("json", "plan", "stop_early", "pursuit_steps"):
        del options[name]
    report = evaluate(**options)
    if wanted.json:
        _print(report, as_json=True)
        return
    goals, often = report["goals"], f"{wanted.trials} trials, {report['steps']} steps each"
    print(f"{report['env']}: {goals['count']} goals ('{goals['set']}', {goals['digest']}) × {often}")
    print(f"{'reached':>12}  {'agent':>7}  {'random':>7}")
    if report["success"] is None:
        print(f"no success rate, because {report['unscored']}")
    else:
        print(f"{'whole goal':>12}  {report['success']:7.1%}  {report['random']:7.1%}")
        print(f"{'at some step':>12}  {report['at_some_step']:7.1%}  {report['random_at_some_step']:7.1%}")
    for name, share in report["per_dimension"].items():
        print(f"{name:>12}  {share:7.1%}  {report['random_per_dimension'][name]:7.1%}")
    for name, key in (("told apart", "told_apart"), ("by pixels", "told_apart_pixels")):
        shares, ceiling = (report[key], report[f"{key}_random"]), report[f"{key}_ceiling"]
        at_best = "" if ceiling is None else f", at best {ceiling:.1%}"
        print(f"{name:>12}  {shares[0]:7.1%}  {shares[1]:7.1%}  chance {report['told_apart_chance']:.1%}{at_best}")
    for budget, shares in report.get("budgets", {}).items():
        print(f"{f'in {budget} steps':>12}  {shares['success']:7.1%}  at some step {shares['at_some_step']:.1%}")


def _probe(wanted: Probe) -> None:
    from discern.evaluation.probe import as_table, probe

    report = probe(wanted.run, wanted.seed)
    print(json.dumps(report) if wanted.json else as_table(report))


def _reproduce(wanted: Reproduce) -> None:
    from discern.reproduce import reproduce

    def agrees(cost: Any) -> bool:
        print(cost)
        if wanted.yes or not cost.runs:
            return True
        if not sys.stdin.isatty():
            raise UserError("nobody is here to agree to that: say --yes")
        return input("Begin? [y/N] ").strip().lower() in ("y", "yes")

    reproduce(
        wanted.figures, wanted.out, wanted.budget, wanted.seeds, wanted.preset, agrees=agrees, worlds=wanted.worlds
    )


def _figures(wanted: Figures) -> None:
    from discern.reproduce import draw_runs

    for path in draw_runs(list(wanted.runs), wanted.out):
        print(path)


def _compare(wanted: Compare) -> None:
    from discern.evaluation.compare import as_table, compare

    rows = compare(wanted.runs, wanted.out)
    print(json.dumps(rows) if wanted.json else f"{as_table(rows)}\n{wanted.out}")


def _record(wanted: Record) -> None:
    from discern.evaluation.record import record

    filmed = record(wanted.run, wanted.out, wanted.goal, wanted.goals, wanted.fps, wanted.seed)
    print(f"{wanted.out}: {filmed['frames']} frames, {filmed['goals']} goals, last reward {filmed['final_reward']:.2f}")


def _export(wanted: Export) -> None:
    from discern.inference import load

    print(load(wanted.run).save(wanted.dest, wanted.precision))


def _doctor(wanted: Doctor) -> None:
    from discern.diagnostics.doctor import examine, speed

    report = examine()
    if not wanted.json:
        _print(report, as_json=False)
    report["speed"] = speed()
    _print(report if wanted.json else report["speed"], wanted.json)


def _print(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(report))
        return
    for name, value in report.items():
        if isinstance(value, dict):
            value = "".join(f"\n  {key}: {entry}" for key, entry in value.items())
        print(f"{name.replace('_', ' ')}: {value}")


HANDLERS: dict[Any, Callable[[Any], None]] = {
    Train: _train,
    Resume: _resume,
    Evaluate: _evaluate,
    Probe: _probe,
    Reproduce: _reproduce,
    Compare: _compare,
    Figures: _figures,
    Record: _record,
    Export: _export,
    Studio: partial(open_studio, read),
    Play: partial(open_studio, read),
    Bench: _bench,
    Doctor: _doctor,
}
