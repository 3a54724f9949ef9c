"""What the documents point at is there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "agents" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_paper_map_names_functions_that_exist():
    text = (ROOT / "docs" / "paper_map.md").read_text()
    pointers = re.findall(r"`([a-z_/]+\.py): ([\w.]+)`((?:, `[\w.]+`)*)", text)
    assert len(pointers) > 25
    for file, first, more in pointers:
        source = (ROOT / "discern" / file).read_text()
        for name in [first, *re.findall(r"`([\w.]+)`", more)]:
            if "/" in name or name.endswith(".py"):
                continue
            for part in name.split("."):
                assert re.search(rf"(def|class) {part}\b|^{part} =", source, re.MULTILINE), f"{file}: {name}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if target.startswith("https://"):
            continue
        assert (document.parent / target).exists(), target


def test_every_command_in_the_readme_is_one():
    commands = set(
        re.findall(r"discern ([a-z]+)", "\n".join(re.findall(r"```bash\n(.*?)```", DOCUMENTS[0].read_text(), re.S)))
    )
    assert commands == {
        "train",
        "evaluate",
        "probe",
        "reproduce",
        "figures",
        "record",
        "export",
        "studio",
        "bench",
        "doctor",
    }


def test_your_own_environment_as_the_page_says(tmp_path):
    """The page's code and commands in an empty folder, with budgets that fit a test."""
    page = (ROOT / "docs" / "your_environment.md").read_text()
    code, commands = (re.search(rf"```{kind}\n(.*?)```", page, re.S)[1] for kind in ("python", "bash"))
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    (tmp_path / "my_world.py").write_text(code)
    tiny = (
        "--steps 200 --actor.environments 4 --actor.horizon 5 --actor.warm-up 1 --learner.batch 4 --replay-capacity 16 "
        "--learner.replay-ratio 1 --network.time-units 4 "
        "--goal-buffer.capacity 16 --network.channels 4 8 --network.features 8 --network.lstm 8 --evaluation-goals 4"
    )
    budgets = {"train": tiny, "evaluate": "--trials 1 --count 4", "record": ""}
    for command in commands.strip().splitlines():
        _, _, _, name, *words = shlex.split(command)
        line = [sys.executable, "-c", "from discern.cli import main; main()", name, *words, *budgets[name].split()]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "dot" / "goals.png").exists()
    assert (tmp_path / "dot.mp4").stat().st_size > 1000
