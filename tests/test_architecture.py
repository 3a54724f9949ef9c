"""The way of the data: a module imports only from its own room and the rooms before it."""

import ast
from pathlib import Path

ROOMS = ["types", "config", "envs", "agent", "evaluation", "run", "cli"]
SOURCE = Path(__file__).parent.parent / "discern"


def room_of(module: str) -> str:
    return module.split(".")[1]


def imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discern."):
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.startswith("discern.")}
    return found


def test_data_flows_one_way():
    for file in SOURCE.rglob("*.py"):
        if file.parent == SOURCE and file.name == "__init__.py":
            continue
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for module in imports(file):
            assert ROOMS.index(room_of(module)) <= ROOMS.index(room), f"{file.name} imports {module}"


def test_the_house_stays_small():
    lengths = {file: len(file.read_text().splitlines()) for file in SOURCE.rglob("*.py")}
    assert max(lengths.values()) <= 400
    assert sum(lengths.values()) <= 5500
    for file in lengths:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{file.name}: {node.name}"
