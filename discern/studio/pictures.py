"""The studio's pictures as HTML and SVG: strings from arrays."""

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np
from PIL import Image

from discern.envs.base import Dimension
from discern.studio.made import Box
from discern.studio.playing import Seen
from discern.studio.running import Summary
from discern.studio.watching import Averages, Goal, Moment

COLOURS = ("#ffdc3c", "#8b93a7", "#5ab0ff")
SCALE = np.array([[68, 58, 140], [33, 145, 140], [253, 231, 80]], float)  # low, middle, high
COLUMNS = 10  # of a sheet of images
POINTS = 300  # of a curve
Curve = tuple[Sequence[float], Sequence[float]]
PANELS = {
    "held-out goals reached": ("success", "random"),
    "held-out goals told apart": ("told_apart", "told_apart_pixels", "told_apart_random"),
    "teacher's accuracy": ("teacher_accuracy",),
    "learned reward, mean": ("reward_mean",),
    "loss": ("td_loss", "teacher_loss"),
    "agent steps a second": ("steps_per_second",),
}


SHARES = tuple(title for title in PANELS if title.startswith(("held", "teacher", "learned")))  # their axes reach 1
KEYS = {"ArrowUp": "↑", "ArrowDown": "↓", "ArrowLeft": "←", "ArrowRight": "→", " ": "space"}


def note(text: str, kind: str = "plain") -> str:
    return f'<p class="note {kind}">{escape(text)}</p>'


def stage(goal: Goal, moment: Moment, steps: int, actions: Sequence[str] = (), agent: str = "") -> str:
    """Goal and world side by side; beside them the learned reward so far and the Q-values of each action."""
    marks = "".join(f'<i class="{"hit" if hit else "miss"}">{escape(n)}</i>' for n, hit in moment.reached.items())
    verdict = "under-way" if moment.action >= 0 else "reached" if all(moment.reached.values()) else "missed"
    rewards = moment.rewards
    ends = (min(0.0, *rewards), max(1.0, *rewards))
    title = f"<h3>{escape(agent)}</h3>" if agent else ""
    return f"""<div class="stage" data-step="{moment.step}">{title}
      <figure><img src="{data_uri(goal.image)}" alt="goal">
        <figcaption>goal <b>{escape(goal.name)}</b></figcaption></figure>
      <figure><img src="{data_uri(moment.frame)}" alt="world" class="{verdict if moment.reached else "unmeasured"}">
        <figcaption>world <b>step {moment.step}/{steps}</b>{marks}</figcaption></figure>
      <section><h4>learned reward <b>{rewards[-1]:.2f}</b></h4>
        {chart({"reward": (range(len(rewards)), rewards)}, steps, ends)}
        <h4>value of each action</h4>{bars(moment.q_values, moment.action, actions)}</section></div>"""


def bars(values: np.ndarray, chosen: int, names: Sequence[str] = ()) -> str:
    """One bar for each action, from a little under the lowest value to the highest; the chosen one stands out."""
    parts = []
    for action, value in enumerate(values):
        share = 0.1 + 0.9 * (value - values.min()) / max(float(np.ptp(values)), 1e-6)
        name = escape(names[action] if names else str(action))
        bar = f'<span style="--share:{share:.2f}"></span><b>{value:.2f}</b>'
        parts.append(f'<div class="{"chosen" if action == chosen else ""}"><i title="{name}">{name}</i>{bar}</div>')
    return f'<div class="bars{" many" if len(values) > 9 else ""}">{"".join(parts)}</div>'


def played(world: str, seen: Seen, seed: int, measures: Sequence[str], actions: Sequence[str]) -> str:
    """A world in someone's hands."""
    last = "reset" if seen.action < 0 else actions[seen.action]
    marks = "".join(f"<i>{escape(n)} {v:.2f}</i>" for n, v in zip(measures, seen.measures, strict=True))
    over = "<i>the episode is over: whatever you do begins another</i>" if seen.is_last else ""
    return f"""<div class="stage hand" data-moves="{seen.steps}"><figure>
      <img src="{data_uri(seen.frame)}" alt="the world you play" class="unmeasured"><figcaption>{escape(world)}
      <b>step {seen.steps}</b> <span>seed {seed}</span> <b class="last">{escape(last)}</b>{marks}{over}</figcaption>
      </figure></div>"""


def pad(actions: Sequence[str], keys: Sequence[str]) -> str:
    """A button for each action, and the key that does the same."""
    parts = []
    for i, (name, key) in enumerate(zip(actions, keys, strict=True)):
        shown = f"<kbd>{escape(KEYS.get(key, key))}</kbd>" if key else ""
        pressed = (
            f'data-key="{escape(key)}" aria-keyshortcuts="{escape("Space" if key == " " else key)}"' if key else ""
        )
        parts.append(f'<button type="button" data-index="{i}" {pressed}>{shown}{escape(name)}</button>')
    return f'<div class="pad" role="group" aria-label="actions">{"".join(parts)}</div>'


def easel(image: np.ndarray | None, box: Box | None, what: str) -> str:
    """A picture on which a rectangle can be drawn, by pointer or keys."""
    if image is None:
        return note(f"No {what} yet.")
    height, width = image.shape[:2]
    place = ""
    if box is not None:
        spans = (box.left / width, box.top / height, (box.right - box.left) / width, (box.bottom - box.top) / height)
        left, top, across, down = (f"{100 * span:.2f}%" for span in spans)
        place = f"left:{left};top:{top};width:{across};height:{down}"
    said = f"{what}; draw a rectangle, or move one with the arrow keys and size it with Shift and the arrow keys"
    drawn, picture = ",".join(map(str, box or ())), f'<img src="{data_uri(image)}" alt="{escape(what)}"'
    return f"""<div class="easel" tabindex="0" role="application" aria-label="{escape(said)}" data-width="{width}"
      data-height="{height}" data-box="{drawn}">{picture} draggable="false">
      <span class="box" style="{place or "display:none"}"></span></div>"""


def gallery(runs: Sequence[Summary]) -> str:
    """A card for each run: its goals above what was achieved, how it stands, and how many goals it reached."""
    parts = []
    for i, run in enumerate(runs):
        picture = (
            f'<img src="{as_uri(run.picture)}" alt="goals above, achieved below">'
            if run.picture
            else "<p>no picture yet</p>"
        )
        success = "" if run.success is None else f"<b>{run.success:.1%} reached</b>"
        parts.append(f"""<button type="button" class="card" data-index="{i}">{picture}
          <strong>{escape(run.name)}</strong>
          <span>{escape(run.world)} · {run.state} · {run.steps:,} steps</span>{success}</button>""")
    return f'<div class="gallery">{"".join(parts)}</div>'


def tiles(goals: list[Goal], nothing: str = "") -> str:
    """A grid of goals to click on, or why there are none."""
    if not goals:
        return note(nothing)
    parts = []
    for i, goal in enumerate(goals):
        where = f"background-position:{place(i, len(goals))}"
        parts.append(f'<button data-index="{i}" {reachable(i, goal)} style="{where}"></button>')
    return f'<div class="tiles" role="group" aria-label="goals" style="{sheet_style(goals)}">{"".join(parts)}</div>'


def reachable(index: int, goal: Goal) -> str:
    """What makes one of many a button for the keyboard: Tab comes to the first, arrow keys to the others."""
    return f'tabindex="{-1 if index else 0}" role="button" title="{escape(goal.name)}" aria-label="{escape(goal.name)}"'


def scatter(goals: list[Goal], points: np.ndarray, coloured: tuple[int, Dimension] | None) -> str:
    """Goals where their embedding lies, [M, 2], coloured by a scored dimension; hovering shows them."""
    places = (points - points.min(0)) / np.maximum(np.ptp(points, axis=0), 1e-9)
    parts = []
    for i, ((x, y), goal) in enumerate(zip(places, goals, strict=True)):
        paint = 'r="3.5" class="unknown"'
        if coloured and goal.measures is not None:
            paint = f'r="6" fill="{colour(float(goal.measures[coloured[0]]), coloured[1])}"'
        where = f'cx="{24 + 352 * x:.1f}" cy="{376 - 352 * y:.1f}"'
        paint += f' data-place="{place(i, len(goals))}" {reachable(i, goal)}'
        parts.append(f'<circle data-index="{i}" {where} {paint}></circle>')
    return f"""<div class="plane" style="{sheet_style(goals)}"><svg viewBox="0 0 400 400">{"".join(parts[::-1])}</svg>
      <div class="peek"></div></div>
      <p class="note">Goals as the teacher sees them: what it takes for alike lies together. Grey points are of the goal
      buffer, where nothing is measured. Hover to see one; click to make it the goal.</p>"""


def strip(goals: list[Goal], averages: Averages) -> str:
    """Goals above the mean of what attempts at them ended in, with how often they were reached."""
    parts = []
    for goal, image, share in zip(goals, averages.images, averages.shares, strict=True):
        often = "" if np.isnan(share) else f"{share:.0%}"
        images = "".join(f'<img src="{data_uri(one)}" title="{escape(goal.name)}">' for one in (goal.image, image))
        parts.append(f"<figure>{images}<figcaption>{often}</figcaption></figure>")
    return f"""<div class="strip" data-attempts="{averages.attempts}">{"".join(parts)}</div>
      <p class="note">Above, goals; below, the mean of the last frames of {averages.attempts} attempts at each, and
      how often it was reached. What stays sharp is what the agent controls.</p>"""


def training(rows: list[dict], state: str, goals_png: bytes) -> str:
    """Curves of a run, how far it is, and its newest goals above what was achieved."""
    latest = {name: value for row in rows for name, value in row.items()}
    parts = []
    for title, names in PANELS.items():
        curves = {name: curve_of(rows, name) for name in names if name in latest}
        values = [value for _, ys in curves.values() for value in ys[len(ys) // 10 :]]  # first losses tower above all
        ends = (min([0.0, *values]), max([1.0 if title in SHARES else 1e-6, *values]))
        parts.append(f"<section><h4>{title}</h4>{chart(curves, latest['steps'], ends)}</section>" if curves else "")
    success = f" · {latest['success']:.1%} of goals reached" if "success" in latest else ""
    steps, share = latest.get("steps", 0), 100 * min(1.0, latest.get("budget_spent", 0.0))
    caption = "goals above, achieved below, at the newest evaluation"
    strip = f'<img src="{as_uri(goals_png)}"><figcaption>{caption}</figcaption>' if goals_png else ""
    return f"""<div class="training" data-steps="{steps}">
      <p><b>{state}</b> · {steps:,} steps · {latest.get("seconds", 0.0):,.0f} s{success}</p>
      <div class="budget"><span style="width:{share:.1f}%"></span></div>
      <div class="panels">{"".join(parts)}</div><figure class="goals">{strip}</figure></div>"""


def curve_of(rows: list[dict], name: str) -> Curve:
    """A metric over agent steps, thinned to what a chart can show; the newest point always stays."""
    points = [(row["steps"], row[name]) for row in rows if name in row]
    thinned = points[:: -max(1, len(points) // POINTS)][::-1]
    return [x for x, _ in thinned], [y for _, y in thinned]


def chart(curves: dict[str, Curve], right: float, ends: tuple[float, float]) -> str:
    """Lines from 0 to `right` steps between the ends of the other axis, in SVG; several are named."""
    width, height, (low, high) = 320, 110, ends
    lines, names = [], []
    for (name, (xs, ys)), paint in zip(curves.items(), COLOURS, strict=False):
        across = width * np.asarray(xs, float) / max(right, 1)
        down = height * (high - np.asarray(ys, float)) / (high - low)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, down, strict=True))
        lines.append(f'<polyline points="{line}" stroke="{paint}"/>')
        lines.append(f'<circle cx="{across[-1]:.1f}" cy="{down[-1]:.1f}" r="3.5" fill="{paint}"/>')
        names.append(f'<i style="color:{paint}">{name.replace("_", " ")}</i>')
    legend = f'<p class="legend">{"".join(names)}</p>' if len(names) > 1 else ""
    labels = [f"{end:,.0f}" if abs(end) >= 100 else f"{end:.3g}" for end in ends]
    return f"""<div class="chart"><svg viewBox="-6 -6 {width + 12} {height + 12}">
      <path d="M0 0H{width}M0 {height / 2}H{width}M0 {height}H{width}"/>{"".join(lines)}</svg>
      <span class="high">{labels[1]}</span><span class="low">{labels[0]}</span>
      <span class="end">{right:,.0f} steps</span></div>{legend}"""


def colour(value: float, dimension: Dimension) -> str:
    """Along the dimension's range: from dark to bright, or around the wheel where it wraps."""
    share = float(np.clip((value - dimension.low) / (dimension.high - dimension.low), 0.0, 1.0))
    if dimension.wraps:
        return f"hsl({360 * share:.0f} 70% 60%)"
    return f"rgb({' '.join(f'{np.interp(share, (0, 0.5, 1), channel):.0f}' for channel in SCALE.T)})"


def sheet_of(images: list[np.ndarray]) -> np.ndarray:
    """M images on one sheet, row by row, COLUMNS wide: uint8 [rows · H, COLUMNS · W, 3]."""
    empty = [np.zeros_like(images[0])] * (-len(images) % COLUMNS)
    lines = [np.concatenate((images + empty)[i : i + COLUMNS], axis=1) for i in range(0, len(images), COLUMNS)]
    return np.concatenate(lines)


def sheet_style(goals: list[Goal]) -> str:
    size = f"{100 * COLUMNS}% {100 * -(-len(goals) // COLUMNS)}%"
    return f"--sheet:url({data_uri(sheet_of([goal.image for goal in goals]))});--size:{size}"


def place(index: int, count: int) -> str:
    """Where image `index` of a sheet lies, as a CSS background-position."""
    down, across = divmod(index, COLUMNS)
    return f"{100 * across / (COLUMNS - 1):.3f}% {100 * down / max((count - 1) // COLUMNS, 1):.3f}%"


def data_uri(image: np.ndarray) -> str:
    """The image as a PNG inside an address."""
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return as_uri(file.getvalue())


def as_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode()
