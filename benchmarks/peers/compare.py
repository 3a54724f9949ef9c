"""Our Atari loop beside a peer's, one after the other on the same machine, again and again; one JSON with the ratios.

    python -m benchmarks.peers.compare --out results/peer_h200.json

The peer (pqn_lstm.py) needs PyTorch where this runs. Both have the same number of environments, frames a step, colours,
convolutions, dense layer and LSTM, and about as many steps in an update's batch; both play at random while they are
timed (their networks choose, and ε is 1), since how fast an emulator is depends on what happens in the game. Ours
trains on a step many times, PQN twice: a third arm has ours at the peer's replay ratio. The JSON is written after every
run.
"""

import json
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from benchmarks.about import about
from benchmarks.speed import spread
from discern.compile_cache import keep_compiled
from discern.config import Config, replace
from discern.presets import preset

ROLLOUT, EPOCHS = 32, 2  # the paper's, for Atari
FRAMES_PER_STEP = 4
ARMS = ("peer", "ours", "ours_at_the_peers_ratio")
RATES = ("steps", "frames", "updates", "trained_steps")  # … per second
KEPT = ("replay_ratio", "goals_a_trajectory", "parameters")


@dataclass(frozen=True)
class Compare:
    out: Path = Path("peer.json")
    game: str = "seaquest"
    environments: int | None = None
    """By default the preset's."""
    batch: int | None = None
    """Trajectories in a batch; by default the preset's."""
    arms: tuple[str, ...] = ARMS
    repeats: int = 2
    seconds: float = 2.0
    """How long each part of ours is timed; its whole loop eight times as long, and the peer's."""
    ours: str = ""
    """Further flags of discern bench."""
    peer: str = ""
    """Further flags of the peer."""
    commit: str | None = None
    note: str | None = None


def settings(wanted: Compare) -> Config:
    """The preset, as both are sized."""
    config = preset(f"atari/{wanted.game}")
    changes = {"actor.environments": wanted.environments, "learner.batch": wanted.batch}
    return replace(config, {name: value for name, value in changes.items() if value is not None})


def command(arm: str, wanted: Compare) -> list[str]:
    """What is run, after the name of the Python."""
    config = settings(wanted)
    if arm == "peer":
        rollout_steps, batch_steps = config.actor.environments * ROLLOUT, config.learner.batch * config.actor.horizon
        sizes = {
            "environments": config.actor.environments,
            "frame-skip": FRAMES_PER_STEP,
            "lstm": config.network.lstm,
            "rollout": ROLLOUT,
            "epochs": EPOCHS,
            "minibatches": max(1, round(rollout_steps / batch_steps)),
            "epsilon": 1,
            "seconds": 8 * wanted.seconds,
        }
        flags = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
        return [
            "-m",
            "benchmarks.peers.pqn_lstm",
            "--game",
            wanted.game,
            "--network",
            "discern",
            "--rgb",
            *flags,
            *shlex.split(wanted.peer),
        ]
    flags = ["--actor.environments", str(config.actor.environments), "--learner.batch", str(config.learner.batch)]
    flags += ["--learner.replay-ratio", str(EPOCHS)] if arm == "ours_at_the_peers_ratio" else []
    timed = ["--seconds", str(wanted.seconds), "--json"]
    return ["-m", "discern", "bench", config.env, *flags, *timed, *shlex.split(wanted.ours)]


def in_common(found: dict[str, Any]) -> dict[str, Any]:
    """What a run of either reports, under the same names."""
    if "whole_steps_per_second" not in found:
        return found
    steps = found["whole_steps_per_second"]
    trained = steps * found["replay_ratio"]  # the whole loop's; the report's is that of updates alone
    network = found["parameters"]
    return found | {
        "steps_per_second": steps,
        "frames_per_second": steps * FRAMES_PER_STEP,
        "updates_per_second": trained / (found["batch"] * found["horizon"]),
        "trained_steps_per_second": trained,
        "parameters": network["torso"] + network["core"],
    }


def arm_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Runs of one arm, summarised."""
    same = [in_common(run) for run in runs]
    rates = {f"{rate}_per_second": spread(run[f"{rate}_per_second"] for run in same) for rate in RATES}
    return {key: same[0][key] for key in KEPT if key in same[0]} | rates | {"runs": runs}


def ratios(arms: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Ours over the peer's, of medians."""
    found = {}
    for arm in (name for name in arms if name != "peer" and "peer" in arms):
        for rate in ("steps", "trained_steps"):
            ours, theirs = (arms[name][f"{rate}_per_second"]["median"] for name in (arm, "peer"))
            found[f"{rate}, {arm} over peer"] = float(f"{ours / theirs:.3g}")
    return found


def run(words: list[str]) -> dict[str, Any]:
    """What a Python says on its last line."""
    began = time.monotonic()
    child = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if child.returncode:
        sys.exit(f"python {shlex.join(words)}: ended with {child.returncode}\n{(child.stdout + child.stderr)[-2000:]}")
    return json.loads(child.stdout.splitlines()[-1]) | {"with_start_seconds": round(time.monotonic() - began, 1)}


def main() -> None:
    wanted = tyro.cli(Compare)
    if unknown := set(wanted.arms) - set(ARMS):
        sys.exit(f"there is no arm {', '.join(unknown)}: choose from {', '.join(ARMS)}")
    keep_compiled()
    config, runs = settings(wanted), {arm: [] for arm in wanted.arms}
    what = f"The training loop of {config.env} beside recurrent PQN's, in turns on one machine; both at random play."
    made = about(what, "peers.compare", wanted.commit, [config.seed])
    made |= {"note": wanted.note} if wanted.note else {}
    for _ in range(wanted.repeats):
        for arm in wanted.arms:
            runs[arm].append(run(command(arm, wanted)))
            made |= {"machine": machine_of(runs), "environments": config.actor.environments}
            commands = {name: f"python {shlex.join(command(name, wanted))}" for name in wanted.arms}
            arms = {name: {"command": commands[name], **arm_of(done)} for name, done in runs.items() if done}
            made |= {"frames_a_step": FRAMES_PER_STEP, "ratios": ratios(arms), "arms": arms}
            wanted.out.write_text(json.dumps(made, indent=1) + "\n")
            print(f"{arm:>24}  {in_common(runs[arm][-1])['steps_per_second']:12,.0f} steps/s", flush=True)
    for name, ratio in made["ratios"].items():
        print(f"{ratio:8.2f}  {name}")


def machine_of(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """As ours reports it, and the peer's PyTorch."""
    reports = [report for done in runs.values() for report in done]
    machine = next((report["machine"] for report in reports if "machine" in report), {})
    versions = [report["torch"] for report in reports if "torch" in report]
    return machine | ({"torch": versions[0]} if versions else {})


if __name__ == "__main__":
    main()
