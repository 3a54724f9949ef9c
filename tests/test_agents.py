"""The agents that ship do what is said of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from discern import load
from discern.evaluation.report import evaluate

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "agents").glob("*/agent.safetensors"))


@pytest.mark.parametrize(
    ("name", "trials", "least"),
    [("arena", 2, 0.95), ("arena-84", 2, 0.95), ("point_mass", 1, 0.95), ("reacher", 1, 0.97)],
)
@pytest.mark.usefixtures("optimised")
def test_shipped_agents_reach_their_goals(name, trials, least):
    report = evaluate(ROOT / "agents" / name, trials=trials)
    assert report["success"] >= least
    assert report["random"] < 0.08


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.parent.name)
def test_every_shipped_agent_loads_and_is_small(file):
    agent = load(file)
    height, width, _ = agent.spec.image_shape
    assert agent.embed(np.zeros((2, height, width, 3), np.uint8)).shape == (2, agent.config.reward.embedding)
    assert file.name == "agent.safetensors"
    assert file.stat().st_size <= 3_000_000
    assert agent.goal_images.shape[1:] == agent.spec.image_shape
    assert 50 <= len(agent.goal_images) <= 100


def test_thirteen_agents_ship():
    assert len(FILES) == 13


def test_every_result_says_how_it_was_made():
    found = sorted((ROOT / "results").glob("*.json"))
    assert found
    for file in found:
        result = json.loads(file.read_text())
        assert {"what", "command", "commit", "seeds"} <= set(result), file.name
        machine = result.get("machine")
        machines = [machine] if isinstance(machine, dict) else [run["machine"] for run in result["runs"]]
        assert all(machine["jax"] for machine in machines), file.name
