"""Draws growth-cpu.png, and growth-h200.png where that was measured, from results/growth_….json: how costs grow along
each axis, in multiples of the preset's."""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "results"
COLUMNS = 3
LABELS = {
    "environments": "environments",
    "replay": "trajectories in replay",
    "side": "pixels a side",
    "horizon": "T",
    "goals": "goals a trajectory",
    "decoys": "decoys of each goal",
    "pool": "decoys in one pool",
    "batch": "trajectories in a batch",
    "lstm": "units of the LSTM",
}
LINES = {"an update": "#2e5cb2", "a step of the whole loop": "#c22b2b", "peak memory": "#7a8699"}


def costs(point: dict) -> dict[str, np.ndarray]:
    """Least, median and most of what a line shows."""
    update, whole = (
        np.array([point[rate][each] for each in ("least", "median", "most")])
        for rate in ("update_ms", "whole_steps_per_second")
    )
    memory = float(point["card_peak_mib"] or point["host_peak_mib"])
    return dict(zip(LINES, (update, 1 / whole[::-1], np.full(3, memory)), strict=True))


def draw_axis(axes, name: str, axis: dict, base: dict[str, np.ndarray]) -> None:
    found = [point for point in axis["points"] if "failed" not in point]
    values, times = [point["value"] for point in found], []
    for line, colour in LINES.items():
        low, middle, high = np.array([costs(point)[line] / base[line][1] for point in found]).T
        times += [*low, *high]
        axes.errorbar(values, middle, (middle - low, high - middle), color=colour, label=line, marker="o", markersize=3)
    if axis["preset"]:
        axes.plot(values, np.array(values) / axis["preset"], color="#b9c2cf", linestyle=":", label="in proportion")
        axes.axvline(axis["preset"], color="#dde7f6", linewidth=5, zorder=0)
    for point in (point for point in axis["points"] if "failed" in point):
        axes.axvline(point["value"], color="#c22b2b", linestyle="--")
        axes.annotate(point["failed"].partition(":")[0], (point["value"], 1), rotation=90, ha="right", fontsize=7)
    ticks = [point["value"] for point in axis["points"]]
    limits = (min(0.45, 0.9 * min(times)), max(2.2, 1.1 * max(times)))
    axes.set(xscale="log", yscale="log", xlabel=LABELS[name], ylim=limits)
    axes.set_xticks(ticks, [f"{value:,}" for value in ticks])
    axes.set_xticks([], minor=True)
    shown = [value for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if limits[0] <= value <= limits[1]]
    axes.set_yticks(shown, [f"{value:g}×" for value in shown])
    axes.set_yticks([], minor=True)
    axes.grid(axis="y", color="#eef1f5")


def at_preset(measured: dict) -> dict[str, np.ndarray]:
    """The costs of the point that all axes share."""
    for axis in measured["axes"].values():
        for point in axis["points"]:
            if point["value"] == axis["preset"] and "failed" not in point:
                return costs(point)
    raise SystemExit("no axis was measured at the preset's value")


def draw(source: Path, path: Path) -> None:
    measured = json.loads(source.read_text())
    base, shown = at_preset(measured), {name: measured["axes"][name] for name in LABELS if name in measured["axes"]}
    rows = -(-len(shown) // COLUMNS)
    figure, panels = plt.subplots(rows, COLUMNS, figsize=(11, 2.7 * rows), layout="constrained", squeeze=False)
    for axes in panels.ravel()[len(shown) :]:
        axes.set_axis_off()
    for axes, (name, axis) in zip(panels.ravel(), shown.items(), strict=False):
        draw_axis(axes, name, axis, base)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    for source in sorted(RESULTS.glob("growth_*.json")):
        draw(source, HERE / f"{source.stem.replace('_', '-')}.png")
