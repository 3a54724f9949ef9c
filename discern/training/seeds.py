"""The same run from several seeds, one after the other: what is missing is run, what was stopped goes on."""

from pathlib import Path

from rich.console import Console

from discern.config import Config, differences, replace
from discern.evaluation.compare import as_table, summary
from discern.evaluation.final import is_finished
from discern.storage.checkpoint import list_checkpoints
from discern.storage.run_folder import RunFolder, refuse_unless_writable, usual_path
from discern.training import loop
from discern.types import StoppedError, UserError, WandbMode


def train_seeds(
    config: Config,
    seeds: int,
    root: str | Path | None = None,
    console: Console | None = None,
    cluster: str | None = None,
    actors: int | None = None,
    wandb: WandbMode | None = None,
) -> Path:
    """Trains from `seeds` seeds, the config's own and those after it, into root/seed-0 …, and returns the root."""
    console = console or Console()
    numbers = range(config.seed, config.seed + seeds)
    root = Path(root or f"{usual_path(config)}-{numbers[-1]}")
    runs = {root / f"seed-{number}": replace(config, {"seed": number}) for number in numbers}
    _refuse_other_runs(root, runs)
    for number, (folder, one) in enumerate(runs.items()):
        console.print(f"seed {one.seed}, {number + 1} of {seeds}: {folder}", soft_wrap=True)
        try:
            ensure(one, folder, console, cluster, actors, wandb)
        except StoppedError as stop:
            advice = f"stopped and saved; go on with the same command and --run {root}"
            raise StoppedError(advice, stop.signal) from stop
    rows = [summary(folder.name, [folder]) for folder in runs] + [summary("all", list(runs))]
    console.print(as_table(rows), soft_wrap=True, highlight=False, markup=False)
    return root


def _refuse_other_runs(root: Path, runs: dict[Path, Config]) -> None:
    """A UserError where the root is a run itself, or holds one of another config."""
    if (root / "config.json").exists():
        raise UserError(f"{root} is a run: choose another folder for several seeds")
    for folder, config in runs.items():
        if (folder / "config.json").exists():
            changed = differences(config, RunFolder(folder).config())
            if changed:
                raise UserError(
                    f"{folder} holds a run with another config ({'; '.join(changed[:3])}): choose another folder"
                )
    refuse_unless_writable(root)


def ensure(
    config: Config,
    folder: Path,
    console: Console,
    cluster: str | None = None,
    actors: int | None = None,
    wandb: WandbMode | None = None,
) -> None:
    """Runs what is missing, goes on with what was stopped, leaves alone what has finished."""
    if is_finished(folder):
        return
    if list_checkpoints(folder / "checkpoints"):
        loop.resume(folder, config.steps, config.minutes, console, cluster, actors, wandb)
    else:
        loop.train(config, folder, console, cluster, actors, wandb)
