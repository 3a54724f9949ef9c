"""What the documents point at is there."""

import re
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
        assert (document.parent / target).exists(), target


def test_every_command_in_the_readme_is_one():
    commands = set(
        re.findall(r"discern ([a-z]+)", "\n".join(re.findall(r"```bash\n(.*?)```", DOCUMENTS[0].read_text(), re.S)))
    )
    assert commands == {"train", "evaluate", "reproduce", "figures", "export", "studio", "bench", "doctor"}
