"""The notebook runs from its first cell to its last, and is kept without what it printed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import PLAYS_LITTLE, TINY

DOCS = Path(__file__).parent.parent / "docs"
CELLS = json.loads((DOCS / "quick_start.ipynb").read_text())["cells"]
RUNNER = """
import ast, json, sys

def show(value):
    if value is not None:
        print("shown", type(value).__name__, value._repr_html_()[:9] if hasattr(value, "_repr_html_") else "")

sys.displayhook, names = show, {}
for cell in json.load(sys.stdin):
    *most, last = ast.parse(cell).body  # whose value a notebook shows
    exec(compile(ast.Module(most, []), "cell", "exec"), names)
    exec(compile(ast.Interactive([last]), "cell", "single"), names)
"""


def test_it_is_kept_without_outputs():
    for cell in CELLS:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


def test_its_links_lead_somewhere():
    words = "".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", words)
    assert len(links) >= 5
    for link in links:
        assert (DOCS / link).exists(), link


def test_its_code_runs_in_order(tmp_path):
    """With a budget that fits a test; what each cell ends with can be shown."""
    code = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
    settings = repr({**TINY, "steps": 400, "env": "arena", "learner.learning_rate": 1e-3})  # as `tiny_run`, compiled
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PLAYS_LITTLE + RUNNER],
        input=json.dumps(code),
        cwd=DOCS,
        env=os.environ | {"QUICK_START": settings, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for part in ("learned reward: ", "of the goals reached", "missing: ", "shown Film <img src="):
        assert part in done.stdout
    assert done.stdout.count("shown ") == 5
    assert (next(tmp_path.iterdir()) / "goals.gif").stat().st_size > 1000
