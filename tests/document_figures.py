"""Where the numbers of the documents come from: docs/numbers.json names for each figure its place in a results file.

`uv run python -m tests.document_figures` brings that file up to date: it keeps what is still right, looks for the
sources of new figures among the files that their row or section links to, and lists what it could not find. Read the
diff: a source that was found is a number that rounds to the figure, and not more than that.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
LEDGER = ROOT / "docs" / "numbers.json"
DOCUMENTS = (
    "README.md",
    "agents/README.md",
    "docs/results.md",
    "docs/far_goals.md",
    "docs/told_apart.md",
    "docs/doom.md",
    "docs/minigrid.md",
    "docs/highway.md",
    "docs/control.md",
    "docs/performance.md",
    "docs/report.md",
    "docs/implementation_details.md",
    "docs/watermaze.md",
    "docs/probe.md",
    "docs/scaling.md",
    "docs/log.md",
    "docs/fast_vs_paper.md",
)
OTHER_SOURCES = ("definition", "setting", "tests/")  # figures that no measurement has made, or a test makes again

WORLDS = ("arena", "watermaze", "seaquest", "montezuma", "point_mass", "reacher", "pendulum")
WORLDS += ("cartpole", "cup", "finger", "manipulator", "doom", "minigrid")

UNITS = {
    "%": (100.0,),
    "k": (1e-3,),
    "thousand": (1e-3,),
    "M": (1e-6,),
    "million": (1e-6,),
    "MB": (1e-6, 1.0),
    "s": (1.0,),
    "ms": (1.0,),
    "minutes": (1 / 60,),
}
NO_UNIT = (1.0, 100.0, 1e-3)  # the last of hundreds and more: 0.9 in thousands is not 0.00
NUMBER = re.compile(r"(?<![\w.,×/=−-])(?:\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)(?![\w×/°])")
UNIT = re.compile(r"\s?(%|k\b|thousand\b|million\b|MB\b|M\b|ms\b|s\b|minutes\b)")
GOES_ON = re.compile(r"(?:,? and |, | to | / |–)(?=\d)")
DIMENSION = re.compile(r"\b(x|y|z|yaw|root|shoulder|elbow|wrist|hinge|slider|proximal|distal) $")


class Figure(NamedTuple):
    """A number in a document."""

    text: str  # with its unit
    number: str
    unit: str | None
    dimension: str | None  # that it speaks of, by the last word of its name

    def is_of(self, value: float) -> bool:
        """Whether the value, in the figure's unit and rounded to its digits, is the figure."""
        decimals = len(self.number.partition(".")[2])
        printed = float(self.number.replace(",", ""))
        scales = UNITS[self.unit] if self.unit else NO_UNIT if abs(value) >= 100 else NO_UNIT[:2]
        return any(abs(value * scale - printed) <= 0.5 * 10**-decimals + 1e-9 for scale in scales)


class Block(NamedTuple):
    """A table's row or a paragraph, with its figures."""

    label: str  # its heading and its first words
    text: str
    figures: list[Figure]
    links: list[str]  # results files, of the row itself and then of its section


def blocks(text: str) -> list[Block]:
    """Every row and paragraph with figures."""
    found: dict[str, Block] = {}
    for heading, body, above in sections(text):
        links = results_in(body) or results_in(above)
        for is_row, block in rows_and_paragraphs(body):
            figures = figures_in(block, is_row)
            if figures:
                own = results_in(block) if is_row else []
                words = [word for word in plain(block).replace("|", " ").split() if not re.search(r"[\d%]", word)]
                label = f"{heading}: {' '.join(words[:6])}"
                while label in found:
                    label += "'"
                found[label] = Block(label, plain(block), figures, list(dict.fromkeys(own + links)))
    return list(found.values())


def sections(text: str) -> Iterator[tuple[str, str, str]]:
    """(heading, what stands under it, what stands under the heading one level up) of each heading."""
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    above = ""
    for part in re.split(r"^(?=#)", text, flags=re.M):
        heading, _, body = part.partition("\n")
        if not heading.startswith("###"):
            above = body
        yield heading.lstrip("# "), body, above


def rows_and_paragraphs(body: str) -> Iterator[tuple[bool, str]]:
    for part in re.split(r"\n\s*\n", body):
        lines = part.strip().splitlines()
        if len(lines) > 2 and lines[1].startswith("|--"):
            yield from ((True, line) for line in lines[2:])
        elif lines:
            yield False, " ".join(lines)


def results_in(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\]\((?:\.\./)?results/([\w.]+\.json)\)", text)))


def plain(text: str) -> str:
    """Without pictures, the targets of links, emphasis and what is set as code inside a sentence."""
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"`([^`]*)`", lambda code: re.sub(r"\d", "#", code[1]), text).replace("*", "")


def figures_in(block: str, is_row: bool) -> list[Figure]:
    """Numbers with a unit, their own or that of a list they stand in; of a row also those with a decimal point, ranges
    and those after the name of a dimension."""
    text = plain(block)
    found = list(NUMBER.finditer(text))
    units: list[str | None] = [None] * len(found)
    for i in reversed(range(len(found))):
        own = UNIT.match(text, found[i].end())
        if own:
            units[i] = own[1]
        elif i + 1 < len(found):
            between = GOES_ON.match(text, found[i].end())
            if between and between.end() == found[i + 1].start():
                units[i] = units[i + 1]
    figures = []
    for match, unit in zip(found, units, strict=True):
        named = DIMENSION.search(text[: match.start()])
        if unit or (is_row and ("." in match[0] or named or _is_range(text, match))):
            unit = "%" if named and not unit else unit
            text_of = f"{match[0]} {unit}" if unit else match[0]
            figures.append(Figure(text_of, match[0], unit, named[1] if named else None))
    return figures


def _is_range(text: str, match: re.Match) -> bool:
    """Whether the number is one end of a range: 94–98."""
    return text[match.end() :].startswith("–") or text[: match.start()].endswith("–")


@cache
def results(file: str) -> Any:
    return json.loads((ROOT / "results" / file).read_text())


def numbers_at(source: str) -> list[float]:
    """The number at FILE/key/key/…, or the seconds of a command there; elements of a list go by name, or by place."""
    file, *keys = source.split("/")
    value = results(file)
    for key in keys:
        if isinstance(value, list):
            named = [one for one in value if isinstance(one, dict) and one.get("name") == key]
            value = named[0] if named else value[int(key)]
        else:
            value = value[key.replace("\\", "/")]
    return _seconds_of(value) if isinstance(value, str) else [float(value)]


def _seconds_of(command: str) -> list[float]:
    return [60 * float(minutes) for minutes in re.findall(r"--minutes (\d+(?:\.\d+)?)", command)]


def leaves(value: Any, path: str) -> Iterator[tuple[str, list[float]]]:
    """Every number under a value with its place, and how long its commands run."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from leaves(one, f"{path}/{key.replace('/', chr(92))}")
    elif isinstance(value, list):
        for i, one in enumerate(value):
            key = one["name"] if isinstance(one, dict) and "name" in one else i if i + 1 < len(value) else -1
            yield from leaves(one, f"{path}/{key}")
    elif isinstance(value, int | float) and not isinstance(value, bool) and not re.search(r"/seeds?(/-?\d+)?$", path):
        yield path, [float(value)]
    elif isinstance(value, str) and path.endswith("command"):
        yield path, _seconds_of(value)


def problem(figure: Figure, source: str, links: list[str]) -> str | None:
    """What is wrong with a source of a figure."""
    if source.startswith("tests/"):
        return None if (ROOT / source).exists() else "there is no such test"
    if source in OTHER_SOURCES:
        return None
    if source.split("/")[0] not in links:
        return f"its row or section links to {', '.join(links)} only" if links else "its section links to no such file"
    try:
        values = numbers_at(source)
    except (KeyError, IndexError, ValueError, TypeError, OSError):
        return "there is nothing"
    return None if any(map(figure.is_of, values)) else f"there is {', '.join(map(str, values[:5]))}"


def worlds_in(text: str) -> set[str]:
    text = re.sub(r"[ -]", "_", text.lower())
    text = re.sub(r"doom[_/\\]watermaze", "doom", text)
    return {world for world in WORLDS if world in text}


def is_of_another_world(source: str, block: Block) -> bool:
    """Whether a source names worlds, and none of those that a row or paragraph, or else its heading, does."""
    file, _, place = source.partition("/")
    measured = worlds_in(re.sub(r"beside [^/]*", "", place)) or worlds_in(file)
    told = worlds_in(block.text) or worlds_in(block.label)
    return bool(measured and told) and not measured & told


def problems(document: str, found: list[Block], ledger: dict[str, Any]) -> list[str]:
    """What is wrong with the figures of a document's blocks: no source, or one that says something else."""
    wrong = []
    for block in found:
        place, sources = f"{document}, {block.label}", ledger.get(document, {}).get(block.label, [])
        printed, known = [figure.text for figure in block.figures], [text for text, _ in sources]
        if printed != known:
            wrong.append(f"{place}: {printed}, but docs/numbers.json has {known}")
            continue
        for figure, (_, source) in zip(block.figures, sources, strict=True):
            said = problem(figure, source, block.links)
            if not said and is_of_another_world(source, block):
                said = "that is another world's"
            if said:
                wrong.append(f"{place}: {figure.text} is not at {source}: {said}")
    return wrong


def candidates(block: Block) -> list[list[str]]:
    """Where each figure could come from, the likeliest first.

    That is a run which the row's other figures could come from too, then one that shares words with the row; not the
    middle of a curve, if it can be helped.
    """
    numbers = [leaf for file in block.links for leaf in leaves(results(file), file)]
    numbers = [(path, values) for path, values in numbers if not is_of_another_world(path, block)]
    places = [
        [path for path, values in numbers if any(map(figure.is_of, values)) and _speaks_of(figure.dimension, path)]
        for figure in block.figures
    ]
    runs = Counter(run for found in places for run in {_run_of(path) for path in found})
    words = set(re.findall(r"[a-z]{3,}", block.text.lower())) - set(UNITS)

    def unlikely(path: str) -> tuple:
        own = set(re.findall(r"[a-z]{3,}", path.lower()))
        inside = bool(re.search(r"(curve|evaluations)/\d", path))
        aside = bool(re.search(r"per_dimension|probe|oxygen", path)) and not speaks
        far = block.links.index(path.split("/")[0])
        shared, alone = len(words & own), len(own - words)
        return aside, inside, -shared, far, -runs[_run_of(path)], "curve" in path, alone, len(path), path

    ranked = []
    for figure, found in zip(block.figures, places, strict=True):
        speaks = figure.dimension is not None or figure.unit is None
        ranked.append(sorted(found, key=unlikely))
    return ranked


def _run_of(path: str) -> str:
    return "/".join(path.split("/")[:3])


def _speaks_of(dimension: str | None, path: str) -> bool:
    return dimension is None or bool(re.search(rf"[/_]{dimension}(_1)?$", path))


def updated(document: str, text: str, ledger: dict[str, Any]) -> dict[str, list[list[str]]]:
    """The document's part of the ledger, with what is still right and what can be found; `?` where nothing is."""
    known = ledger.get(document, {})
    new: dict[str, list[list[str]]] = {}
    for block in blocks(text):
        before = [tuple(row) for row in known.get(block.label, [])]
        new[block.label] = []
        for figure, found in zip(block.figures, candidates(block), strict=True):
            kept = next((row for row in before if row[0] == figure.text), (figure.text, "?"))
            if kept in before:
                before.remove(kept)
            source = kept[1]
            if source == "?" or problem(figure, source, block.links) or is_of_another_world(source, block):
                source = next(iter(found), "?")
            new[block.label].append([figure.text, source])
    return new


def main() -> None:
    ledger = json.loads(LEDGER.read_text()) if LEDGER.exists() else {}
    texts = {document: (ROOT / document).read_text() for document in DOCUMENTS}
    ledger = {document: updated(document, text, ledger) for document, text in texts.items()}
    lines = []
    for document, known in ledger.items():
        rows = [
            f"  {json.dumps(label, ensure_ascii=False)}: [\n"
            + ",\n".join(f"   {json.dumps(row, ensure_ascii=False)}" for row in sources)
            + "\n  ]"
            for label, sources in known.items()
        ]
        lines.append(f' "{document}": {{\n' + ",\n".join(rows) + "\n }")
    LEDGER.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    wrong = [line for document, text in texts.items() for line in problems(document, blocks(text), ledger)]
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
