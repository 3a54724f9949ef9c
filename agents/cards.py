"""Writes the card of each agent that ships, agents/NAME/README.md: uv run python agents/cards.py [NAME …] [--pictures].

Its figures are those of results/agents_test_cpu.json, how it was made is the row of agents/README.md, its settings are
those of its file. `--pictures` also lets it act, once for each of the 100 test goals, and draws the worst.
"""

import json
import math
import re
import sys
from pathlib import Path

from discern.storage.agent_file import AgentFile, read_agent

HERE = Path(__file__).parent
NAMES = sorted(file.parent.name for file in HERE.glob("*/agent.safetensors"))
MEASURED = json.loads((HERE.parent / "results" / "agents_test_cpu.json").read_text())
RELIABLE = 0.9
WORLDS = {
    "arena": "a dot that moves as told, among discs that move by themselves, 24×24 pixels",
    "arena-84": "a dot that moves as told, among discs that move by themselves",
    "ball_in_cup": "a cup that is pushed and a ball that hangs from it (Control Suite)",
    "cartpole": "a cart that is pushed and a pole that swings on it (Control Suite)",
    "doom_watermaze": "a walk in a round room of Doom's engine, seen by the walker",
    "finger": "a finger of two joints beside a spinner (Control Suite)",
    "manipulator": "an arm with a hand, and a ball (Control Suite)",
    "montezuma_revenge": "the first room of an Atari game",
    "pendulum": "a pendulum whose motor is too weak to lift it at once (Control Suite)",
    "point_mass": "a mass that is pushed over a plane (Control Suite)",
    "reacher": "an arm of two joints (Control Suite)",
    "seaquest": "the submarine of an Atari game",
    "watermaze": "a walk in a round pool with pictures on its wall, seen by the walker",
}
CANNOT = {
    "ball_in_cup": "Every goal is within reach of someone who knows the simulator; what is missing is control.",
    "cartpole": "A planner that knows the simulator reaches every goal in as many steps.",
    "doom_watermaze": "It passes through half of its goals and ends at a quarter: a player glides on, and it does not "
    "stop in time.",
    "finger": "It turns the spinner to some goals only, often passes the angle and does not stop there; angles of the "
    "spinner that differ by 180° look alike and count as the same.",
    "manipulator": "It reaches no goal: it has learned to turn the arm's root and nothing else. It ships as an example "
    "of what is not solved.",
    "montezuma_revenge": "Most places that random play does not come to; some take more than T steps by the shortest "
    "way. It knows the first room alone, and does not play the game.",
    "pendulum": "A random policy reaches more than half of the goals, so its success says less than it seems.",
    "seaquest": "It brings the submarine to a place; it does not play the game, nor bring about fish, divers or score.",
}


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of Wilson (1927) of a share among `count` independent trials."""
    z = 1.96
    middle, spread = share + z**2 / (2 * count), z * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    low, high = ((middle + sign * spread) / (1 + z**2 / count) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def made(name: str) -> tuple[str, str]:
    """The command and the machine of an agent, as the table of agents/README.md has them."""
    rows: dict[str, list[str]] = {}
    for line in (HERE / "README.md").read_text().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if like := re.fullmatch(r"as `(\w+)`", cells[2]):
                cells[2] = rows[like[1]][2]
            rows[cells[0].strip("| `")] = cells
    return rows[name][1], rows[name][2]


def success_lines(name: str) -> list[str]:
    """What each goal set's test half says of the agent."""
    lines = []
    for key in (name, f"{name}_paper"):
        if key in MEASURED["agents"]:
            score = MEASURED["agents"][key]
            count = score["goals"]["count"]
            low, high = (100 * end for end in wilson(score["success"], count))
            parts = ", ".join(f"{part} {percent(share)}" for part, share in score["per_dimension"].items())
            lines.append(
                f"| `{score['goals']['set']}`, {count} goals × {score['trials']} | {percent(score['success'])} "
                f"({low:.1f} to {high:.1f}) | {percent(score['at_some_step'])} | {percent(score['random'])} | {parts} |"
            )
    return lines


def limits(name: str, agent: AgentFile) -> list[str]:
    """What the agent cannot do."""
    score = MEASURED["agents"][name]
    weak = [f"{part} ({percent(share)})" for part, share in score["per_dimension"].items() if share < RELIABLE]
    lines = [f"What it misses, by dimension: {', '.join(weak)}."] * bool(weak)
    lines += [CANNOT[name]] if name in CANNOT else []
    horizon = agent.config.actor.horizon
    lines.append(
        f"It takes {horizon} steps to a goal, or any number up to that."
        if agent.config.relabel.ends
        else f"It takes {horizon} steps to a goal, no fewer."
    )
    lines.append("It knows this world in these pixels, and goals that can be seen in it; other images were not tried.")
    lines.append("It comes from one training seed: another seed's agent may be better or worse than the interval says.")
    return [f"- {line}" for line in lines]


def card(name: str) -> str:
    """The card as Markdown."""
    file = HERE / name / "agent.safetensors"
    agent = read_agent(file)
    (height, width, _), horizon = agent.spec.image_shape, agent.config.actor.horizon
    command, machine = made(name)
    dimensions = ", ".join(dimension.name for dimension in agent.spec.dimensions)
    before = "" if MEASURED["agents"][name]["agent"] == "as it ships" else f", {MEASURED['agents'][name]['agent']}"
    teacher = agent.config.reward.kind.replace("_", " and ")
    lines = [
        f"# {name}",
        "",
        f"Shown an image of `{agent.config.env}`, it acts for up to {horizon} steps so that the world looks like that: "
        f"{WORLDS[name]}.",
        "",
        "| | |",
        "|---|---|",
        f"| world | `{agent.config.env}`: {height}×{width} RGB images, {agent.spec.actions} actions; "
        f"scored: {dimensions} |",
        f"| data | its own play in that world, {agent.steps:,} agent steps; no reward, no demonstrations |",
        f"| made by | {command} |",
        f"| machine, time | {machine} |",
        f"| teacher, learner | `--reward.kind {agent.config.reward.kind}` ({teacher}), seed {agent.config.seed} |",
        f"| file | `agent.safetensors`, {file.stat().st_size / 1e6:.1f} MB ([format](../../docs/agent_file.md)); "
        "Apache-2.0 |",
        "",
        "## Success",
        "",
        "| goals × attempts | success (95 %) | at some step | random policy | by dimension |",
        "|---|---|---|---|---|",
        *success_lines(name),
        "",
        "Every scored dimension within 10 % of its range of the goal's, on goals that chose nothing"
        f"{before} ([json](../../results/agents_test_cpu.json)).",
        "The interval is Wilson's over goals, as if each had been tried once; it says nothing of other training seeds.",
        "",
        "## What it cannot do",
        "",
        *limits(name, agent),
        "",
        "![Goals above, what one attempt achieved below](worst.png)",
        "",
        "*Eight of the test goals it reached least, one attempt each: "
        f"`uv run python agents/cards.py {name} --pictures`.*",
    ]
    return "\n".join(lines) + "\n"


def draw(name: str) -> None:
    """worst.png, in few colours so that it is small."""
    from PIL import Image

    from discern.envs import opened
    from discern.evaluation.achievement import evaluator
    from discern.evaluation.figures import draw_worst
    from discern.evaluation.goal_sets import goal_set
    from discern.inference import load

    agent, path = load(HERE / name), HERE / name / "worst.png"
    with opened(agent.make_scored_env(100)) as env:
        goals = goal_set(env)
        draw_worst(goals, evaluator(agent.learner.imitator, env)(agent.params, goals, trials=1), path)
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)


def main() -> None:
    words = sys.argv[1:]
    for name in [word for word in words if word != "--pictures"] or NAMES:
        if "--pictures" in words:
            draw(name)
        (HERE / name / "README.md").write_text(card(name))


if __name__ == "__main__":
    main()
