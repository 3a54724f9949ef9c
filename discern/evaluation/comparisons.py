"""Figures that compare runs: bars, curves, heat maps and strips, as PNG and as SVG; readable in black and white."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no display is needed, and none is asked for
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import EngFormatter

from discern.evaluation.statistics import interquartile_mean, stratified_bootstrap

Curve = list[tuple[float, float]]  # (agent steps, success) of one seed

SHADES = ("0.15", "0.45", "0.7", "0.9", "0.3", "0.6")
HATCHES = ("", "//", "..", "xx", "\\\\", "--")
SUCCESS = "held-out goals reached (tune half), %"
LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 4)))
plt.rcParams["svg.fonttype"] = "none"  # words stay words
MARKERS = ("o", "s", "^", "D", "v", "x")
STRIP = 8


def draw_bars(panels: dict[str, dict[str, dict[str, list[float]]]], random: dict[str, float], path: Path) -> None:
    """Success of each method (groups) under each buffer strategy (bars), a panel for each world; values are seeds'.

    Bars are interquartile means, the lines on them 95 % bootstrap intervals.
    """
    wide = max(6.0, 0.8 * max(map(len, panels.values())))
    figure, axes = plt.subplots(1, len(panels), figsize=(wide * len(panels), 4), layout="constrained", squeeze=False)
    for panel, (world, methods) in zip(axes[0], panels.items(), strict=True):
        strategies = list(dict.fromkeys(name for bars in methods.values() for name in bars))
        width = 0.8 / len(strategies)
        for i, strategy in enumerate(strategies):
            aside = (i - (len(strategies) - 1) / 2) * width
            places = [m + aside for m, bars in enumerate(methods.values()) if strategy in bars]
            seeds = [bars[strategy] for bars in methods.values() if strategy in bars]
            heights = [100 * float(interquartile_mean(np.array(values))) for values in seeds]
            ends = [[100 * end for end in stratified_bootstrap([values])] for values in seeds]
            errors = np.array([[h - low, high - h] for h, (low, high) in zip(heights, ends, strict=True)]).T
            panel.bar(places, heights, width, color=SHADES[i], hatch=HATCHES[i], edgecolor="black", label=strategy)
            panel.errorbar(places, heights, np.maximum(errors, 0), fmt="none", ecolor="black", capsize=3)
        panel.axhline(100 * random[world], color="black", linestyle=":", label="random policy")
        panel.set_xticks(range(len(methods)), list(methods), rotation=20, ha="right", rotation_mode="anchor")
        panel.set(title=world, ylabel="held-out goals reached (test half), %", ylim=(0, 102))
    shown = dict(reversed(pair) for panel in axes[0] for pair in zip(*panel.get_legend_handles_labels(), strict=True))
    figure.legend(shown.values(), shown, title="goal buffer", fontsize=8, loc="outside right upper")
    _save(figure, path)


def draw_curves(
    panels: dict[str, dict[str, list[Curve]]],
    path: Path,
    labels: dict[str, str] | None = None,
    random: dict[str, float] | None = None,
) -> None:
    """Success over agent steps, or what `labels` says, a panel for each world, a line for each method.

    Lines are interquartile means over seeds, as far as all of them go, the bands around them 95 % bootstrap intervals;
    `random` is the random policy's success.
    """
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(5 * columns, 3.6 * rows), layout="constrained", squeeze=False)
    for panel in axes.ravel()[len(panels) :]:
        panel.axis("off")
    for panel, (world, methods) in zip(axes.ravel(), panels.items(), strict=False):
        for i, (method, curves) in enumerate(methods.items()):
            steps, values = common_grid(curves)
            style = {"color": SHADES[i % 3], "linestyle": LINES[i % len(LINES)], "marker": MARKERS[i % len(MARKERS)]}
            every = max(1, len(steps) // 8)
            middle = 100 * interquartile_mean(values.T)
            panel.plot(steps, middle, markersize=3, markevery=every, label=method, **style)
            if len(values) > 1:
                low, high = 100 * np.array([stratified_bootstrap([seeds]) for seeds in values.T]).reshape((-1, 2)).T
                panel.fill_between(steps, low, high, color=style["color"], alpha=0.2)
        if world in (random or {}):
            panel.axhline(
                100 * (random or {})[world], color="0.5", linewidth=1, linestyle=(0, (1, 2)), label="random policy"
            )
        panel.set(title=world, xlabel="agent steps", ylabel=(labels or {}).get(world) or SUCCESS, ylim=(0, 102))
        panel.xaxis.set_major_formatter(EngFormatter())
        panel.grid(alpha=0.3)
        if not any(any(curves) for curves in methods.values()):
            panel.set_xticks([])  # of an axis on which nothing is
        bands = any(len(curves) > 1 for curves in methods.values())
        title = "interquartile mean of seeds, 95 % interval" if bands else None
        panel.legend(title=title, fontsize=8, title_fontsize=8)
    _save(figure, path)


def common_grid(curves: list[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Curves of several seeds at the same steps, as far as the shortest goes: [P], [S, P]."""
    arrays = [np.array(curve, float).reshape((-1, 2)) for curve in curves if len(curve)]
    if not arrays:
        return np.zeros(0), np.zeros((1, 0))
    first, last = max(a[0, 0] for a in arrays), min(a[-1, 0] for a in arrays)
    steps = arrays[0][:, 0]
    steps = steps[(steps >= first) & (steps <= last)]
    return steps, np.stack([np.interp(steps, a[:, 0], a[:, 1]) for a in arrays])


def draw_heat_maps(panels: dict[str, tuple[list[str], np.ndarray, np.ndarray]], path: Path) -> None:
    """How often each dimension (rows) was reached as training went on (columns), a panel for each method: names [D],
    steps [P], shares [D, P]."""
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(7, 0.9 + 1.3 * len(panels)), layout="constrained", squeeze=False
    )
    for panel, (method, (names, steps, shares)) in zip(axes[:, 0], panels.items(), strict=True):
        reach = float(steps[-1]) if len(steps) else 1.0
        picture = panel.imshow(
            100 * shares, aspect="auto", cmap="gray", vmin=0, vmax=100, extent=(0, reach, len(names) - 0.5, -0.5)
        )
        panel.set_yticks(range(len(names)), list(names))
        panel.tick_params(axis="x", labelsize=7)
        panel.set_title(method, fontsize=9)
    axes[-1, 0].set_xlabel("agent steps")
    figure.colorbar(picture, ax=axes[:, 0].tolist(), label="reached, %")
    _save(figure, path)


def draw_strips(rows: dict[str, np.ndarray], path: Path, title: str) -> None:
    """Rows of images uint8 [M, H, W, 3] under one another, spread over the M: goals first, then what was achieved."""
    count = min(len(images) for images in rows.values())
    chosen = np.linspace(0, count - 1, min(STRIP, count)).round().astype(int)
    size = (1.6 + 1.2 * len(chosen), 0.4 + 1.2 * len(rows))
    figure, axes = plt.subplots(len(rows), len(chosen), figsize=size, layout="constrained", squeeze=False)
    for line, (label, images) in zip(axes, rows.items(), strict=True):
        for cell, index in zip(line, chosen, strict=True):
            cell.imshow(images[index], interpolation="nearest")
            cell.set(xticks=[], yticks=[])
        line[0].set_ylabel(label, fontsize=8, rotation=0, ha="right", va="center")
    figure.suptitle(title, fontsize=9)
    _save(figure, path)


def _save(figure: plt.Figure, path: Path) -> None:
    for ending in (".png", ".svg"):
        figure.savefig(path.with_suffix(ending), dpi=120, metadata={"Date": None} if ending == ".svg" else None)
    plt.close(figure)
