"""The studio's pictures as HTML and SVG: strings from arrays."""

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

from discern.envs.base import Dimension
from discern.studio.watching import Averages, Goal, Moment

COLOURS = ("#ffdc3c", "#8b93a7", "#5ab0ff", "#5ac878")
SCALE = np.array([[68, 58, 140], [33, 145, 140], [253, 231, 80]], float)  # low, middle, high
COLUMNS = 10  # of a sheet of images
POINTS = 300  # of a curve
Curve = tuple[Sequence[float], Sequence[float]]


def stage(goal: Goal, moment: Moment, horizon: int) -> str:
    """Goal and world side by side; beside them the learned reward so far and the Q-values of each action."""
    ended, whole = moment.action < 0, bool(moment.reached) and all(moment.reached.values())
    marks = "".join(f'<i class="{"hit" if hit else "miss"}">{escape(n)}</i>' for n, hit in moment.reached.items())
    verdict = "" if not ended else "reached" if whole else "not reached" if moment.reached else "done"
    steps, rewards = list(range(len(moment.rewards))), moment.rewards
    low, high = min(0.0, *rewards), max(1.0, *rewards)
    curve = chart({"reward": (steps, rewards)}, (0, horizon), (low, high))
    return f"""<div class="stage" data-step="{moment.step}" data-verdict="{verdict}">
      <figure><img src="{data_uri(goal.image)}" alt="goal">
        <figcaption>goal <b>{escape(goal.name)}</b></figcaption></figure>
      <figure><img src="{data_uri(moment.frame)}" alt="world" class="world {verdict.replace(" ", "-")}">
        <figcaption>world <b>step {moment.step}/{horizon}</b>{marks}</figcaption></figure>
      <section><h4>learned reward <b>{rewards[-1]:.2f}</b></h4>{curve}
        <h4>value of each action</h4>{bars(moment.q_values, moment.action)}</section></div>"""


def bars(values: np.ndarray, chosen: int) -> str:
    """One bar for each action, from a little under the lowest value to the highest; the chosen one stands out."""
    low, high = float(values.min()), float(values.max())
    parts = []
    for action, value in enumerate(values):
        height = 12 + 88 * (value - low) / max(high - low, 1e-6)
        label = f"<b>{value:.2f}</b>" if len(values) <= 9 else ""
        kind = "chosen" if action == chosen else ""
        parts.append(f'<div class="{kind}">{label}<span style="height:{height:.0f}%"></span><i>{action}</i></div>')
    return f'<div class="bars">{"".join(parts)}</div>'


def tiles(goals: list[Goal], nothing: str) -> str:
    """A grid of goals to click on, or why there are none."""
    if not goals:
        return f'<p class="nothing">{escape(nothing)}</p>'
    sheet, rows = data_uri(sheet_of([goal.image for goal in goals])), -(-len(goals) // COLUMNS)
    parts = [
        f'<button data-index="{i}" title="{escape(goal.name)}" style="background-position:{place(i, rows)}"></button>'
        for i, goal in enumerate(goals)
    ]
    style = f"--sheet:url({sheet});--size:{100 * COLUMNS}% {100 * rows}%"
    return f'<div class="tiles" style="{style}">{"".join(parts)}</div>'


def scatter(goals: list[Goal], points: np.ndarray, dimension: Dimension | None, index: int) -> str:
    """Goals where their embedding lies, [M, 2], coloured by scored dimension `index`; hovering shows them."""
    places = (points - points.min(0)) / np.maximum(np.ptp(points, axis=0), 1e-9)
    rows, parts = -(-len(goals) // COLUMNS), []
    for i, ((x, y), goal) in enumerate(zip(places, goals, strict=True)):
        paint, radius = 'class="unknown"', 3.5
        if dimension is not None and goal.measures is not None:
            paint, radius = f'fill="{colour(float(goal.measures[index]), dimension)}"', 6
        parts.append(
            f'<circle data-index="{i}" data-place="{place(i, rows)}" '
            f'cx="{24 + 352 * x:.1f}" cy="{376 - 352 * y:.1f}" r="{radius}" {paint}></circle>'
        )
    sheet = data_uri(sheet_of([goal.image for goal in goals]))
    style = f"background-image:url({sheet});background-size:{100 * COLUMNS}% {100 * rows}%"
    return f"""<div class="plane"><svg viewBox="0 0 400 400">{"".join(parts)}</svg>
      <div class="peek" style="{style}"></div></div>
      <p class="note">Goals as the teacher sees them: what it takes for alike lies together. Grey points are of the goal
      buffer, where nothing is measured. Hover to see one; click to make it the goal.</p>"""


def strip(goals: list[Goal], averages: Averages) -> str:
    """Goals above the mean of what attempts at them ended in, with how often they were reached."""
    parts = []
    for goal, image, share in zip(goals, averages.images, averages.shares, strict=True):
        often = "" if np.isnan(share) else f"{share:.0%}"
        parts.append(
            f'<figure><img src="{data_uri(goal.image)}" alt="goal" title="{escape(goal.name)}">'
            f'<img src="{data_uri(image)}" alt="average"><figcaption>{often}</figcaption></figure>'
        )
    return f"""<div class="strip" data-attempts="{averages.attempts}">{"".join(parts)}</div>
      <p class="note">Above, goals; below, the mean of the last frames of {averages.attempts} attempts at each, and
      how often it was reached. What stays sharp is what the agent controls.</p>"""


def training(rows: list[dict], state: str, goals_png: bytes | None) -> str:
    """Curves of a run, how far it is, and its newest goals above what was achieved."""
    if not rows:
        return f'<p class="nothing">{escape(state)}: nothing is measured yet.</p>'
    latest: dict = {}
    for row in rows:
        latest |= row
    reach = (0, max(float(latest["steps"]), 1.0))
    panels = [
        ("held-out goals reached", ("success", "random", "teacher_accuracy"), 1.0),
        ("loss", ("td_loss", "teacher_loss"), 0.0),
        ("learned reward, mean", ("reward_mean",), 1.0),
        ("agent steps a second", ("steps_per_second",), 0.0),
    ]
    parts = []
    for title, names, least in panels:
        curves = {name: curve_of(rows, name) for name in names if any(name in row for row in rows)}
        values = [value for _, ys in curves.values() for value in ys[len(ys) // 10 :]]  # first losses tower above all
        ends = (min([0.0, *values]), max([least, *values]) or 1.0)
        parts.append(f"<section><h4>{title}</h4>{chart(curves, reach, ends)}</section>")
    share = 100 * min(1.0, float(latest.get("budget_spent", 0.0)))
    success = f" · {latest['success']:.1%} of goals reached" if "success" in latest else ""
    picture = ""
    if goals_png:
        uri = "data:image/png;base64," + base64.b64encode(goals_png).decode()
        picture = f'<figure class="goals"><img src="{uri}" alt="goals above, achieved below">'
        picture += "<figcaption>goals above, achieved below, at the newest evaluation</figcaption></figure>"
    return f"""<div class="training" data-steps="{latest["steps"]}"><p><b>{escape(state)}</b> ·
      {latest["steps"]:,} steps · {latest.get("seconds", 0.0):,.0f} s{success}</p>
      <div class="budget"><span style="width:{share:.1f}%"></span></div>
      <div class="panels">{"".join(parts)}</div>{picture}</div>"""


def curve_of(rows: list[dict], name: str) -> Curve:
    """A metric over agent steps, thinned to what a chart can show."""
    points = [(float(row["steps"]), float(row[name])) for row in rows if name in row]
    thinned = points[:: -(-len(points) // POINTS)]
    if thinned[-1] != points[-1]:
        thinned.append(points[-1])
    return [x for x, _ in thinned], [y for _, y in thinned]


def chart(curves: dict[str, Curve], reach: tuple[float, float], ends: tuple[float, float]) -> str:
    """Lines over a common axis, in SVG, with the ends of both axes and, for several, their names."""
    width, height, (left, right), (low, high) = 320, 110, reach, ends
    parts = []
    for (xs, ys), paint in zip(curves.values(), COLOURS, strict=False):
        across = width * (np.asarray(xs, float) - left) / max(right - left, 1e-9)
        down = height * (high - np.asarray(ys, float)) / max(high - low, 1e-9)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        parts.append(f'<polyline points="{line}" stroke="{paint}"/>')
        parts.append(f'<circle cx="{across[-1]:.1f}" cy="{down[-1]:.1f}" r="3.5" fill="{paint}"/>')
    names = [f'<i style="color:{paint}">{n.replace("_", " ")}</i>' for n, paint in zip(curves, COLOURS, strict=False)]
    legend = f"<p class='legend'>{' '.join(names)}</p>" if len(names) > 1 else ""
    shown = [f"{end:,.0f}" if abs(end) >= 100 else f"{end:.3g}" for end in ends]
    return f"""<div class="chart"><svg viewBox="-6 -6 {width + 12} {height + 12}">
      <path d="M0 0H{width}M0 {height / 2}H{width}M0 {height}H{width}"/>{"".join(parts)}</svg>
      <span class="high">{shown[1]}</span><span class="low">{shown[0]}</span>
      <span class="end">{right:,.0f} steps</span></div>{legend}"""


def colour(value: float, dimension: Dimension) -> str:
    """Along the dimension's range: from dark to bright, or around the wheel where it wraps."""
    share = float(np.clip((value - dimension.low) / (dimension.high - dimension.low), 0.0, 1.0))
    if dimension.wraps:
        return f"hsl({360 * share:.0f} 70% 60%)"
    red, green, blue = (np.interp(share, (0, 0.5, 1), SCALE[:, channel]) for channel in range(3))
    return f"rgb({red:.0f} {green:.0f} {blue:.0f})"


def sheet_of(images: list[np.ndarray]) -> np.ndarray:
    """M images on one sheet, row by row: uint8 [rows · H, COLUMNS · W, 3]."""
    height, width, channels = images[0].shape
    rows = -(-len(images) // COLUMNS)
    sheet = np.zeros((rows * COLUMNS, height, width, channels), np.uint8)
    sheet[: len(images)] = np.stack(images)
    lines = sheet.reshape((rows, COLUMNS, height, width, channels)).swapaxes(1, 2)
    return lines.reshape((rows * height, COLUMNS * width, channels))


def place(index: int, rows: int) -> str:
    """Where image `index` of a sheet lies, as a CSS background-position."""
    across, down = index % COLUMNS, index // COLUMNS
    return f"{100 * across / (COLUMNS - 1):.3f}% {100 * down / max(rows - 1, 1):.3f}%"


def data_uri(image: np.ndarray) -> str:
    """The image as a PNG inside an address."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
