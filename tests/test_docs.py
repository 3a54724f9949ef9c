"""What the documents point at is there."""

import ast
import dataclasses
import operator
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from discern import cli
from discern.config import FIELDS, RewardConfig, flag
from discern.envs import WORLDS
from discern.presets import FAST_IN, SIZES, preset
from tests.conftest import PLAYS_LITTLE

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "discern"
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "agents" / "README.md",
    *sorted((ROOT / "agents").glob("*/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
POINTERS = {  # documents that name code as `path: name`, and how many names they should have at least
    "paper_map": 25,
    "glossary": 45,
    "where_is": 20,
    "implementation_details": 35,
    "architecture": 3,
}
PRIVATE_NAMES = (
    r"whims?\b",
    r"in_hand",
    r"tellable",
    r"LIVES_IN_VAIN",
    r"reward\.hide\b",
    r"learner\.inverse(?![-\w])",
    r"average[-_]decay",
    r"network\.centre\b",
    r"actor\.persistence|\bpersistence\s*[:=]|[\"']persistence[\"']",
    r"trains[-_]features",
    r"\bCrew\b",
    r"RemotePlayer",
)


def names_in(source: str) -> set[str]:
    """What a module defines: functions, classes, constants, and what classes define, as it is and after its class."""
    names = set()
    for node in ast.parse(source).body:
        own = defined_by(node)
        names |= own
        if isinstance(node, ast.ClassDef):
            members = set().union(*map(defined_by, node.body))
            names |= members | {f"{node.name}.{member}" for member in members}
    return names


def defined_by(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("document", POINTERS)
def test_names_of_functions_and_classes_exist(document):
    text = (ROOT / "docs" / f"{document}.md").read_text()
    pointers = re.findall(r"`([a-z_/]+\.py): ([\w.]+)`((?:, `[\w.]+`)*)", text)
    named = [(file, name) for file, first, more in pointers for name in [first, *re.findall(r"`([\w.]+)`", more)]]
    named = [(file, name) for file, name in named if not name.endswith(".py")]
    assert len(named) >= POINTERS[document]
    for file, name in named:
        assert name in names_in((SOURCE / file).read_text()), f"{file}: {name}"


def test_where_is_answers_twenty_questions_with_links():
    rows = re.findall(r"^\| (.+\?) \| \[`(\S+): \S+`\]\((\S+)\)", (ROOT / "docs" / "where_is.md").read_text(), re.M)
    assert len(rows) == 20
    for _, file, link in rows:
        assert link == f"../discern/{file}"


@pytest.mark.parametrize("document", ["glossary", "implementation_details"])
def test_flags_and_settings_are_those_of_the_config(document):
    text = (ROOT / "docs" / f"{document}.md").read_text()
    rooms = {field.partition(".")[0] for field in FIELDS if "." in field}
    settings = [name for name in re.findall(r"`([a-z_]+\.[a-z_]+)\b", text) if name.partition(".")[0] in rooms]
    flags = [word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"(?<!\S)--[\w.-]+", code)]
    commands = {flag(entry.name) for entry in dataclasses.fields(cli.Train)}
    assert len(settings + flags) > 15
    assert set(settings) <= set(FIELDS)
    assert set(flags) <= {flag(field) for field in FIELDS} | commands
    kinds = RewardConfig.__dataclass_fields__["kind"].type.__args__
    assert set(re.findall(r"reward\.kind (\w+)", text)) <= set(kinds)


@pytest.mark.parametrize("name", PRIVATE_NAMES)
def test_ideas_have_the_names_that_people_search_for(name):
    files = [path for path in SOURCE.rglob("*.py") if path != SOURCE / "renamed.py"]
    files += [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for file in files:
        found = re.search(name, file.read_text())
        assert not found, f"{file.relative_to(ROOT)}: {found[0]}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        if target.startswith("https://"):
            continue
        assert (document.parent / target).exists(), target


def test_every_command_has_its_line():
    text = (ROOT / "docs" / "commands.md").read_text() + DOCUMENTS[0].read_text()
    commands = set(re.findall(r"discern ([a-z]+)", "\n".join(re.findall(r"```bash\n(.*?)```", text, re.S))))
    assert commands == {
        "train",
        "evaluate",
        "probe",
        "reproduce",
        "figures",
        "compare",
        "record",
        "export",
        "studio",
        "play",
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
        code = f"{PLAYS_LITTLE}from discern.cli import main; main()"
        line = [sys.executable, "-c", code, name, *words, *budgets[name].split()]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "dot" / "goals.png").exists()
    assert (tmp_path / "dot.mp4").stat().st_size > 1000


@pytest.mark.parametrize("document", ["minigrid", "highway"])
def test_a_world_of_a_package_as_its_page_says(document, tmp_path, monkeypatch):
    """The page's commands in an empty folder, with budgets that fit a test."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / f"{document}.md").read_text()
    tiny = (
        "--steps 60 --minutes None --actor.environments 4 --actor.horizon 4 --actor.warm-up 1 --learner.batch 4 "
        "--replay-capacity 16 --learner.replay-ratio 1 --network.time-units 4 --goal-buffer.capacity 16 --gym.size 24 "
        "--network.channels 4 --network.kernels 6 --network.strides 6 --network.features 8 --network.lstm 8 "
        "--evaluation-goals 4 --evaluate-every None --actor.host-groups 1"
    )
    budgets = {"train": tiny, "evaluate": "--trials 1 --count 4", "record": ""}
    for command in re.search(r"```bash\n(.*?)```", page, re.S)[1].strip().splitlines():
        _, _, _, name, *words = shlex.split(command)
        monkeypatch.setattr(sys, "argv", ["discern", name, *words, *budgets[name].split()])
        cli.main()
    assert len(list(tmp_path.glob("runs/*/goals.png"))) == 1
    assert len(list(tmp_path.glob("*.mp4"))) == (document == "minigrid")


def test_the_table_of_differences_is_of_the_presets():
    """Every setting in which `fast` differs from `paper` in some world has a row that shows each of its values."""
    shown, differing = {}, {}
    for line in (ROOT / "docs" / "fast_vs_paper.md").read_text().split("\n## ")[1].splitlines():
        first, *cells = line.strip("| ").split(" | ")
        shown |= {name: cells[1] for name in re.findall(r"`([^`]+)`", first) if name in FIELDS}
    for world in {**SIZES, **FAST_IN}:
        env = world if "/" in world or world in WORLDS else f"{world}/any"
        for name in FIELDS:
            fast, paper = (operator.attrgetter(name)(preset(env, which)) for which in ("fast", "paper"))
            if fast != paper:
                differing.setdefault(name, set()).update(fast if isinstance(fast, tuple) else [fast])
    assert set(shown) == set(differing)
    for name, values in differing.items():
        numbers = {float(number) for number in re.findall(r"\d[\d.]*(?:e-\d)?", shown[name].replace(",", ""))}
        for value in values:
            text = {True: "yes", False: "no"}.get(value) if isinstance(value, bool) else value
            assert text in (numbers if isinstance(text, float | int) else shown[name]), (name, value)
