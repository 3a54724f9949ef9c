"""Every figure in the documents is a number of a results file, rounded as it is printed."""

import json
import re

import numpy as np
import pytest

from discern.evaluation.statistics import interquartile_mean, stratified_bootstrap
from tests.document_figures import DOCUMENTS, LEDGER, ROOT, Figure, blocks, figures_in, numbers_at, problem, problems

SOURCES = json.loads(LEDGER.read_text())
MEASURED = {  # digits that results files say, at least
    "README.md": 60,
    "agents/README.md": 60,
    "docs/results.md": 60,
    "docs/far_goals.md": 100,
    "docs/told_apart.md": 150,
    "docs/doom.md": 20,
    "docs/minigrid.md": 4,
    "docs/highway.md": 8,
    "docs/control.md": 100,
    "docs/performance.md": 50,
    "docs/report.md": 60,
    "docs/implementation_details.md": 100,
    "docs/watermaze.md": 3,
    "docs/probe.md": 1,
    "docs/scaling.md": 15,
    "docs/log.md": 300,
    "docs/fast_vs_paper.md": 250,
}
AGAIN = "; `uv run python -m tests.document_figures` looks for sources"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_figures_are_what_their_sources_say(document):
    wrong = problems(document, blocks((ROOT / document).read_text()), SOURCES)
    assert not wrong, "\n".join(wrong) + AGAIN


@pytest.mark.parametrize("document", DOCUMENTS)
def test_one_changed_digit_is_noticed(document):
    """Each digit of each figure in turn: neither the list of sources has it so, nor does the source itself say it."""
    measured = 0
    for block in blocks((ROOT / document).read_text()):
        for number, (figure, (_, source)) in enumerate(zip(block.figures, SOURCES[document][block.label], strict=True)):
            for place, digit in enumerate(figure.number):
                if digit.isdigit():
                    other = figure.number[:place] + str((int(digit) + 1) % 10) + figure.number[place + 1 :]
                    changed = Figure(figure.text.replace(figure.number, other, 1), other, *figure[2:])
                    figures = [*block.figures[:number], changed, *block.figures[number + 1 :]]
                    assert problems(document, [block._replace(figures=figures)], SOURCES)
                    if ".json" in source:
                        measured += 1
                        assert problem(changed, source, block.links), (block.label, changed.text)
    assert measured > MEASURED[document]


def test_a_changed_document_is_noticed():
    """The same through the text itself, a figure a document, and a source that says something else."""
    for document, figure, other in (
        ("README.md", "98.6, 98.6,", "98.7, 98.6,"),
        ("README.md", "280 thousand", "380 thousand"),
        ("agents/README.md", "93.2 %", "93.3 %"),
        ("docs/results.md", "(x 94, y 99)", "(x 94, y 98)"),
        ("docs/results.md", "| 77–87 |", "| 77–88 |"),
        ("docs/far_goals.md", "70.0 / 43.3 %", "71.0 / 43.3 %"),
        ("docs/log.md", "slider 100, hinge 47", "slider 100, hinge 48"),
        ("docs/watermaze.md", "0.67 million", "0.68 million"),
    ):
        text = (ROOT / document).read_text()
        assert figure in text
        assert problems(document, blocks(text.replace(figure, other)), SOURCES), other
    moved = json.loads(LEDGER.read_text())
    label, rows = next(iter(moved["agents/README.md"].items()))
    moved["agents/README.md"][label] = [[figure, source.replace("runs/0", "runs/1")] for figure, source in rows]
    assert problems("agents/README.md", blocks((ROOT / "agents/README.md").read_text()), moved)


def test_a_new_row_needs_a_source():
    text = (ROOT / "README.md").read_text()
    row = "| `arena`, the `paper` configuration |"
    assert row in text
    more = text.replace(
        row, "| `arena`, by wishing | 3 s | 100 % | 3.4 % | [json](results/arena_ends_cpu.json) |\n" + row
    )
    (wrong,) = problems("README.md", blocks(more), SOURCES)
    assert "by wishing" in wrong and "3 s" in wrong


def test_figures_are_found_in_rows_and_sentences():
    row = (
        "| `arena/84`, seed 0 | 24 and 53 s (97 % after 9 s) | 82, 78 % (x 83, y 96), 5 attempts | 94–98 | 0.74 | 768 |"
    )
    found = [figure.text for figure in figures_in(row, is_row=True)]
    assert found == ["24 s", "53 s", "97 %", "9 s", "82 %", "78 %", "83 %", "96 %", "94", "98", "0.74"]
    sentence = "With 480 environments in 2.4 M steps, [18 to 26](a) thousand a second on one H200, T = 25, 0.9 of 3."
    assert [figure.text for figure in figures_in(sentence, is_row=False)] == ["2.4 M", "18 thousand", "26 thousand"]


@pytest.mark.parametrize(
    ("number", "unit", "value", "is_it"),
    [
        ("99.4", "%", 0.9935, True),
        ("99.3", "%", 0.9935, True),
        ("99.5", "%", 0.9935, False),
        ("8.8", "minutes", 530, True),
        ("204", "s", 203.9, True),
        ("18.6", "k", 18_642, True),
        ("18.7", "k", 18_642, False),
        ("2.4", "M", 2_419_200, True),
        ("0.74", None, 0.7352, True),
        ("0.00", None, 0.9, False),
        ("0.9", None, 900, True),
    ],
)
def test_rounding(number, unit, value, is_it):
    assert Figure(number, number, unit, None).is_of(value) == is_it


@pytest.mark.parametrize(
    ("sources", "printed"),
    [
        (
            [f"arena_default_cpu.json/runs/{seed}/success" for seed in range(5)],
            "mean 98.7 %, 95 % bootstrap interval 98.2 to 99.1 %",
        ),
        (
            [f"temporal_twins_h200.json/runs/two_s{seed}/scored/even/success" for seed in range(3)],
            "three seeds with twins: 92.1 %, 91.0 to 94.0 %",
        ),
    ],
)
def test_summaries_of_seeds(sources, printed):
    """The interquartile means in docs/report.md and their intervals, which no file holds."""
    assert printed in (ROOT / "docs/report.md").read_text()
    scores = [100 * value for source in sources for value in numbers_at(source)]
    mean, low, high = (float(number) for number in re.findall(r"\d+\.\d", printed))
    assert interquartile_mean(np.array(scores)) == pytest.approx(mean, abs=0.051)
    assert stratified_bootstrap([scores]) == pytest.approx((low, high), abs=0.051)


def test_arithmetic_of_scaling():
    """What docs/scaling.md makes of measured rates: updates, steps and cores for one H200, and a round's seconds."""
    page = (ROOT / "docs/scaling.md").read_text()
    rates = "atari_first_runs_h200.json/loop/a receiving thread for each group, and the learner's own"
    (milliseconds,) = numbers_at(f"{rates}/update_ms")
    (actor,) = numbers_at("cluster_atari_actor_cpu.json/actor_steps_per_core_second")
    (slow,), (fast,) = (numbers_at(f"{rates}/emulator_only/{place}") for place in (0, -1))
    updates = 1000 / round(milliseconds, 1)
    fresh = updates * 64 * 50 / 8
    cores = round(fresh / actor)
    assert f"1 / 0.0058 s = {updates:.0f} updates/s" in page
    assert f"3,200 steps: {fresh * 8 / 1000:.0f} thousand trained steps/s" in page
    assert f"= {fresh / 1000:.0f} thousand fresh agent steps/s" in page
    assert f"69,000 / {actor:.0f} = **{cores} cores**" in page
    assert f"makes {slow / 16_000:.1f}\n  to {fast / 16_000:.1f} thousand" in page
    assert f"{fresh / fast * 16:.0f} to {fresh / slow * 16:.0f} cores" in page
    assert f"**{2 * cores} cores for two, {8 * cores:,} for eight**" in page
    assert f"37 updates, {37 / updates:.1f} s" in page and cores * 2 * 8 // 64 == 37
    assert f"{9.1 * updates / 37:.0f} MB/s to each node" in page


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda path: path.stem)
def test_a_measurement_says_how_where_and_when(path):
    about = json.loads(path.read_text())
    for key in ("what", "command", "commit", "machine", "seeds", "date"):
        assert about.get(key), key
    assert re.match(r"[0-9a-f]{7}", about["commit"])
    assert re.match(r"\d{4}-\d\d-\d\d", about["date"])
