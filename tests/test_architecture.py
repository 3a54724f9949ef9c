"""The way of the data: a module imports only from its own room and the rooms before it."""

import ast
import io
import tokenize
from pathlib import Path

ROOMS = [
    "types",
    "machine",
    "compile_cache",
    "checks",
    "renamed",
    "config",
    "presets",
    "parsing",
    "rendering",
    "envs",
    "agent",
    "storage",
    "planning",
]
ROOMS += ["inference", "evaluation", "training", "diagnostics", "reproduce", "studio", "cli", "__main__"]
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


def code_lines(file: Path) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    text = file.read_text()
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING):
            held |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            held -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(held)


def test_the_house_stays_small():
    files = list(SOURCE.rglob("*.py"))
    assert max(len(file.read_text().splitlines()) for file in files) <= 400
    assert sum(map(code_lines, files)) <= 12000
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 60, f"{file.name}: {node.name}"
