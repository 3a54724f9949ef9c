"""The cards of the agents that ship say what was measured, and are kept as their script writes them."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from discern.evaluation import figures
from discern.evaluation.achievement import Score
from discern.evaluation.goal_sets import GoalSet

AGENTS = Path(__file__).parent.parent / "agents"
CARDS = runpy.run_path(str(AGENTS / "cards.py"))
NAMES = CARDS["NAMES"]


def test_the_interval_is_wilsons():
    """Of 50 in 100 by hand, with z² = 3.8416: (0.519208 ± 0.099872) / 1.038416; of 100 in 100, 1 / 1.038416."""
    assert CARDS["wilson"](0.5, 100) == pytest.approx((0.403822, 0.596178), abs=1e-5)
    assert CARDS["wilson"](1.0, 100) == pytest.approx((0.963005, 1.0), abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_what_its_script_writes(name):
    text = (AGENTS / name / "README.md").read_text()
    assert text == CARDS["card"](name), "write it again: uv run python agents/cards.py"
    assert len(text.splitlines()) <= 40
    picture = AGENTS / name / "worst.png"
    assert picture.stat().st_size <= 80_000  # textured walls take most
    with Image.open(picture) as image:
        assert image.width > 600 and len(image.convert("RGB").getcolors(2**20)) > 2


def test_figures_and_commands_come_from_where_they_were_measured():
    card = (AGENTS / "ball_in_cup" / "README.md").read_text()
    for part in (
        "81.4 % (72.7 to 87.8)",
        "2.6 %",
        "ball_z 92.2 %",
        "9,973,760 agent steps",
        "ball_in_cup-catch --minutes 8.6",
    ):
        assert part in card
    machines = {name: CARDS["made"](name)[1] for name in NAMES}
    assert machines["pendulum"] == machines["finger"]
    assert "seven runs" in machines["watermaze"] and "twelve runs" in machines["reacher"]


def test_the_worst_goals_come_first(monkeypatch, tmp_path):
    drawn = []
    monkeypatch.setattr(figures, "_draw_pairs", lambda *what: drawn.append(what))
    images = np.arange(12, dtype=np.uint8)[:, None, None, None] * np.ones((12, 2, 2, 3), np.uint8)
    shares = np.array([1, 0.2, 1, 0, 1, 1, 1, 0.5, 1, 1, 1, 0], np.float32)
    score = Score(0.5, 0.5, {}, shares, 100 + images, images)
    figures.draw_worst(GoalSet("even:test", images, np.zeros((12, 1)), ""), score, tmp_path / "worst.png")
    ((above, below, _, _, often),) = drawn
    assert above[:, 0, 0, 0].tolist() == [3, 11, 1, 7, 0, 2, 4, 5]
    assert (below == 100 + above).all()
    np.testing.assert_array_equal(often, shares[[3, 11, 1, 7, 0, 2, 4, 5]])
