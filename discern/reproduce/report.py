"""One page with every figure of a programme, its table, its commands and its JSON."""

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

WIDTH = "<meta name=viewport content='width=device-width'>"
STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
img { max-width: 100% } table { border-collapse: collapse } td, th { padding: .15rem .8rem .15rem 0; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums } pre { overflow-x: auto; background: #8881 }"""


def write_report(figures: Iterable[Path], root: Path) -> Path:
    """Writes root/report.html about figures that lie below it, each a picture with a JSON beside it."""
    sections, about = [], {}
    for figure in figures:
        about = json.loads(figure.with_suffix(".json").read_text())
        sections.append(_section(figure.stem, figure.relative_to(root), about))
    machine = ", ".join(f"{name} {value}" for name, value in about.get("machine", {}).items())
    made = escape(
        f"{about.get('date', '')} · {about.get('command', '')} · commit {about.get('commit', '')} · {machine}"
    )
    head = f"<meta charset=utf-8>{WIDTH}<title>discern</title><style>{STYLE}</style>"
    path = root / "report.html"
    path.write_text(
        f"<!doctype html>{head}<h1>discern: figures and what they come from</h1><p>{made}</p>{''.join(sections)}\n"
    )
    return path


def _section(name: str, picture: Path, about: dict[str, Any]) -> str:
    what = escape(about["what"])
    return (
        f"<h2 id='{name}'>{what}</h2><img src='{picture.as_posix()}' alt='{what}'>"
        f"<table><tr><th>method<th>goal buffer<th>success<th>95 % interval<th>worlds</tr>"
        f"{''.join(map(_row, about['methods']))}</table>"
        f"<details><summary>{len(about['runs'])} runs and their commands</summary><pre>"
        f"{escape(chr(10).join(_line(run) for run in about['runs']))}</pre></details>"
        f"<p><a href='{picture.with_suffix('.json').as_posix()}'>{name}.json</a></p>"
    )


def _row(row: dict[str, Any]) -> str:
    low, high = row["interval"]
    numbers = f"<td class=number>{row['success']:.1%}<td class=number>{low:.1%} – {high:.1%}"
    return f"<tr><td>{escape(row['method'])}<td>{row['strategy']}{numbers}<td>{escape(', '.join(row['worlds']))}</tr>"


def _line(run: dict[str, Any]) -> str:
    return f"{run['success']:6.1%}  {run['command']}"
