"""The agents that ship do what is said of them."""

import json
from pathlib import Path

import pytest

from discern.run.report import evaluate

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(("name", "least"), [("arena", 0.95), ("arena-84", 0.95)])
def test_shipped_agents_reach_their_goals(name, least):
    report = evaluate(ROOT / "agents" / name, trials=2)
    assert report["success"] >= least
    assert report["random"] < 0.08


def test_every_result_says_how_it_was_made():
    found = sorted((ROOT / "results").glob("*.json"))
    assert found
    for file in found:
        result = json.loads(file.read_text())
        assert {"what", "command", "commit", "seeds"} <= set(result), file.name
        machines = [result["machine"]] if "machine" in result else [run["machine"] for run in result["runs"]]
        assert all(machine["jax"] for machine in machines), file.name
