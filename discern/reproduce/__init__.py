"""The paper's figures and ours: the runs behind them, what they cost, and one report."""

from discern.reproduce.figures import FIGURES, draw_runs
from discern.reproduce.programme import reproduce
from discern.reproduce.runs import METHODS, Run

__all__ = ["FIGURES", "METHODS", "Run", "draw_runs", "reproduce"]
