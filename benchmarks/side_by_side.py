"""Trainings side by side on one accelerator, each on cores of its own, and one JSON of what they came to.

    python -m benchmarks.side_by_side PLAN.json --out FOLDER --minutes 9

A plan has `what`, and `lanes`, each with a `name`, its `cores` ("0-2"), its share of the accelerator's `memory`, and
`runs`: what follows `discern train`, one after the other, if wanted with --seeds. A run whose folder is there already
goes on. No run outlasts the minutes; each is scored and exported, and a lane's runs and log become one archive.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tyro

from discern.evaluation.final import is_finished, load_final
from discern.storage.run_folder import RunFolder

SCORING = 50.0  # seconds kept for scoring, exporting and packing
MEMORY = 0.1  # of the accelerator, for a lane whose plan names none
SHARED = 0.95  # of the accelerator's memory, at most: each process takes some besides its share
KEPT = ("seconds", "steps", "updates", "success", "at_some_step", "per_dimension", "told_apart", "told_apart_pixels")

FINAL = ("success", "at_some_step", "random")


@dataclass(frozen=True)
class Plan:
    plan: tyro.conf.Positional[Path]
    out: Path = Path("side_by_side")
    """Where the lanes' archives and the JSON go."""
    runs: Path = Path("runs")
    """Where run folders go, and are looked for."""
    minutes: float = 9.0
    trials: int = 5
    """Attempts at each goal after training."""


def discern(words: list[str], lane: dict[str, Any], log: Path, until: float) -> int:
    """Runs a command on the lane's cores; one that is not done by then is asked to stop, and so saves."""
    environment = os.environ | {"XLA_PYTHON_CLIENT_MEM_FRACTION": str(lane.get("memory", MEMORY))}
    command = ["taskset", "-c", lane["cores"], sys.executable, "-m", "discern", *words]
    with log.open("a") as file:
        file.write(f"$ discern {' '.join(words)}\n")
        file.flush()
        child = subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True)
        try:
            return child.wait(max(1.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGINT)
        try:
            return child.wait(30.0)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return child.wait()


def run_lane(lane: dict[str, Any], plan: Plan, until: float) -> list[dict[str, Any]]:
    """Everything a lane is to do, and what is known of it."""
    done = []
    for number, words in enumerate(lane["runs"]):
        name = lane["name"] + (f"-{number}" if number else "")
        folder, log = plan.runs / name, plan.out / f"{lane['name']}.log"
        left = until - time.monotonic() - SCORING
        if left < 30:
            break
        again = (folder / "config.json").exists()
        start = ["train", "--resume", str(folder)] if again else ["train", *words.split(), "--run", str(folder)]
        if not {"--minutes", "--steps", "--seeds"} & set(words.split()):
            before = RunFolder(folder).metrics()[-1]["seconds"] if again else 0.0
            start += ["--minutes", f"{(before + left) / 60:.2f}"]
        discern(start, lane, log, until - SCORING + 10)
        folders = sorted(folder.glob("seed-*")) or [folder]
        done += [summary(one, words, lane, plan, log, until) for one in folders if (one / "metrics.jsonl").exists()]
    return done


def summary(folder: Path, words: str, lane: dict[str, Any], plan: Plan, log: Path, until: float) -> dict[str, Any]:
    """A run as results/ keeps it; its agent is exported beside the log."""
    run = RunFolder(folder)
    config, rows = run.config(), run.metrics()
    last = rows[-1]
    about = {
        "name": "-".join(folder.relative_to(plan.runs).parts),
        "world": config.env,
        "command": f"discern train {words}",
        "seed": config.seed,
        "cores": lane["cores"],
        **{name: last[name] for name in ("steps", "updates")},
        "seconds": round(last["seconds"]),
        "first_update_seconds": round(last["compile_seconds"]),
        "random": last.get("random", next((row["random"] for row in reversed(rows) if "random" in row), None)),
        "curve": [rounded(row, KEPT) for row in rows if "success" in row or "told_apart" in row],
        "probe": rounded(next((row for row in reversed(rows) if any("probe" in k for k in row)), {}), None),
    }
    if is_finished(folder):
        final = load_final(folder)
        about["final"] = rounded({name: float(getattr(final, name)) for name in FINAL}, FINAL)
    if time.monotonic() < until - 10 and lane.get("score", True):
        scored = plan.out / f"{about['name']}.scored.json"
        words_of_score = ["evaluate", str(folder), "--trials", str(plan.trials), "--json"]
        discern(words_of_score, lane, scored, until)
        text = scored.read_text().splitlines()
        about["scored"] = next((json.loads(line) for line in text if line.startswith("{")), None)
        scored.unlink()
    if lane.get("export", True):
        discern(["export", str(folder), str(folder / "agent")], lane, log, until + 15)
    return about


def rounded(row: dict[str, Any], names: tuple[str, ...] | None) -> dict[str, Any]:
    """The named entries, or those of the probe, with three decimals."""
    wanted = names or tuple(name for name in row if name.startswith("probe/"))
    found = {name: row[name] for name in wanted if name in row}
    return json.loads(json.dumps(found), parse_float=lambda text: round(float(text), 3))


def pack(lane: dict[str, Any], plan: Plan) -> None:
    """The lane's log and its runs without checkpoints, in one archive; says why a lane has no runs."""

    def small(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if "checkpoints" in info.name or "tfevents" in info.name else info

    name = lane["name"]
    log = plan.out / f"{name}.log"
    folders = [plan.runs / (name + (f"-{number}" if number else "")) for number in range(len(lane["runs"]))]
    with tarfile.open(plan.out / f"{name}.tar.gz", "w:gz") as archive:
        for folder in filter(Path.exists, folders):
            archive.add(folder, folder.name, filter=small)
        if log.exists():
            archive.add(log, log.name)
    if not any(folder.exists() for folder in folders):
        print(name, "trained nothing:", log.read_text().strip() if log.exists() else "no time was left")
    log.unlink(missing_ok=True)


def main() -> None:
    plan = tyro.cli(Plan)
    wanted = json.loads(plan.plan.read_text())
    until = time.monotonic() + 60 * plan.minutes
    plan.out.mkdir(parents=True, exist_ok=True)
    lanes = wanted["lanes"]
    shares = sum(lane.get("memory", MEMORY) for lane in lanes)
    if shares > SHARED:
        sys.exit(f"the lanes ask for {shares:.2f} of the accelerator's memory: {SHARED} is the most")
    with ThreadPoolExecutor(len(lanes)) as threads:
        futures = [threads.submit(run_lane, lane, plan, until) for lane in lanes]
    done = [future.result() for future in futures if not future.exception()]
    for lane, future in zip(lanes, futures, strict=True):
        if future.exception():
            print(lane["name"], "failed:", repr(future.exception()))
    for lane in lanes:
        pack(lane, plan)
    about = {
        "what": wanted["what"],
        "date": datetime.now(UTC).date().isoformat(),
        "command": "the command of each run",
        "beside": f"{len(lanes)} at once",
        "runs": [run for lane in done for run in lane],
    }
    (plan.out / "results.json").write_text(json.dumps(about, indent=1) + "\n")
    for run in about["runs"]:
        print(line(run))


def line(run: dict[str, Any]) -> str:
    """A run in one line of the table that is printed last."""
    scored, curve = run.get("scored") or {}, [point.get("success") for point in run["curve"]]
    parts = {
        "updates": run["updates"],
        "steps": run["steps"],
        "first update": run["first_update_seconds"],
        "curve": curve[-3:],
        "best": max((value for value in curve if value is not None), default=None),
        "final": run.get("final"),
        "scored": [scored.get(name) for name in ("success", "at_some_step", "per_dimension")],
    }
    return " ".join([run["name"], *(f"{name} {value}" for name, value in parts.items())])


if __name__ == "__main__":
    main()
