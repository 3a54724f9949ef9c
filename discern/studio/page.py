"""The studio's page, on Gradio."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np

from discern.run.final import is_finished
from discern.run.folder import RunFolder
from discern.studio import pictures
from discern.studio.uploads import MAX_BYTES, read_upload
from discern.studio.watching import LAYOUTS, STRIP, Goal, Library, Watched
from discern.types import UserError

HEADER = """<header><h1>discern <em>studio</em></h1>
<p>Choose a picture; watch the agent bring it about.</p></header>"""
CLICKS = """
element.addEventListener('click', event => {
  const hit = event.target.closest('[data-index]');
  if (!hit) return;
  document.querySelectorAll('.picked').forEach(other => other.classList.remove('picked'));
  hit.classList.add('picked');
  trigger('select', {index: Number(hit.dataset.index)});
});
element.addEventListener('mouseover', event => {
  const peek = element.querySelector('.peek');
  if (!peek) return;
  const hit = event.target.closest('[data-place]');
  peek.classList.toggle('shown', Boolean(hit));
  if (!hit) return;
  const [x, y] = [hit.getAttribute('cx') / 4, hit.getAttribute('cy') / 4];
  peek.style.backgroundPosition = hit.dataset.place;
  peek.style.left = x + '%';
  peek.style.top = y + '%';
  peek.style.translate = (x > 50 ? '-115% ' : '15% ') + (y > 50 ? '-115%' : '15%');
});
element.addEventListener('mouseleave', () => element.querySelector('.peek')?.classList.remove('shown'));"""
LIVE_SECONDS = 120  # a run that has written nothing for longer is taken to have stopped
AVERAGES = '<p class="note">Attempts at eight goals, averaged: what stays sharp is what the agent controls.</p>'
SOURCES = ("goal set", "goal buffer", "achieved", "map")


@dataclass
class Visit:
    """What one visitor has chosen and seen."""

    agent: str
    goal: Goal
    lists: dict[str, list[Goal]]
    achieved: list[Goal] = field(default_factory=list)

    def choices(self, source: str) -> list[Goal]:
        return self.achieved[::-1] + self.lists["achieved"] if source == "achieved" else self.lists[source]


def open_page(named: Path | None, port: int) -> None:
    """Serves the page on this machine's own address until it is interrupted."""
    if not 1 <= port <= 65535:
        raise UserError(f"there is no port {port}: choose one from 1 to 65535")
    library = Library(named)
    _enter(library, library.agents()[0])  # so that the first visitor finds everything compiled
    page = build(library).queue(default_concurrency_limit=8)
    try:
        _, address, _ = page.launch(
            server_name="127.0.0.1",
            server_port=port,
            share=False,
            quiet=True,
            prevent_thread_lock=True,
            max_file_size=MAX_BYTES,
            css_paths=Path(__file__).with_name("style.css"),
            theme=gr.themes.Base(primary_hue="amber", neutral_hue="slate", font=gr.themes.Font("system-ui")),
            js="() => document.body.classList.add('dark')",
            footer_links=[],
            ssr_mode=False,
        )
    except OSError:
        raise UserError(f"port {port} is taken: choose another with --port") from None
    print(f"the studio is open at {address} (Ctrl-C closes it)", flush=True)
    page.block_thread()


def build(library: Library) -> gr.Blocks:
    """The whole page."""
    with gr.Blocks(title="discern studio", analytics_enabled=False, delete_cache=(600, 600), fill_width=True) as page:
        with gr.Row(elem_id="top"):
            gr.HTML(HEADER)
            with gr.Column(scale=0, min_width=340):
                agent = gr.Dropdown(library.agents(), label="agent", elem_id="agent")
        with gr.Tabs():
            with gr.Tab("Goals") as goals:
                _goals_tab(library, page, agent)
            with gr.Tab("Training") as training:
                _training_tab(library, training, goals)
    return page


def _goals_tab(library: Library, page: gr.Blocks, agent: gr.Dropdown) -> None:
    visit = gr.State()
    with gr.Row():
        with gr.Column(scale=3):
            stage = gr.HTML(elem_id="stage")
            with gr.Row(elem_classes="controls"):
                start = gr.Button("Start", variant="primary", elem_id="start", min_width=100)
                stop = gr.Button("Stop", elem_id="stop", min_width=100)
                speed = gr.Slider(2, 30, 10, step=1, label="frames a second", scale=2, buttons=[])
            with gr.Row(elem_classes="controls"):
                average = gr.Button(f"Average attempts at {STRIP} goals", elem_id="average", min_width=220)
                attempts = gr.Slider(2, 50, 10, step=1, label="attempts at each", buttons=[])
            strip = gr.HTML(elem_id="strip")
        with gr.Column(scale=2):
            lists, layout, colour, file, notice = _sources()
    entered = [visit, stage, *lists.values(), layout, colour, strip]
    running = start.click(_pursue(library), [visit, speed], [visit, stage, lists["achieved"]], show_progress="hidden")
    averaging = average.click(_average(library), [visit, attempts], strip, show_progress="hidden")
    both: list[Any] = [running, averaging]
    gr.on([page.load, agent.change], partial(_enter, library), agent, entered, cancels=both, show_progress_on=stage)
    stop.click(None, cancels=both)
    for source, shown in lists.items():
        shown.select(_choose(library, source), visit, [visit, stage], cancels=[running], show_progress="hidden")
    redraw = partial(_map, library)
    gr.on([layout.input, colour.input], redraw, [visit, layout, colour], lists["map"], show_progress="hidden")
    file.upload(partial(_upload, library), [visit, file], [visit, stage, notice, file], cancels=[running])


def _sources() -> tuple[dict[str, gr.HTML], gr.Radio, gr.Radio, gr.File, gr.HTML]:
    """Where goals come from, a tab for each."""
    lists = {}
    with gr.Tabs():
        for source in SOURCES:
            with gr.Tab(source.capitalize()):
                if source == "map":
                    with gr.Row():
                        layout = gr.Radio(list(LAYOUTS), value=next(iter(LAYOUTS)), label="laid out by")
                        colour = gr.Radio([], label="coloured by", min_width=120)
                lists[source] = gr.HTML(js_on_load=CLICKS, elem_id=source.replace(" ", "-"))
        with gr.Tab("Upload"):
            file = gr.File(label="an image: PNG, JPEG, WebP, GIF or BMP", height=200, elem_id="upload")
            notice = gr.HTML(elem_id="notice")
    return lists, layout, colour, file, notice


def _watch(library: Library, visit: Visit | None) -> Watched:
    if visit is None:
        raise gr.Error("this page is older than the studio: reload it", print_exception=False)
    return _find(library, visit.agent)


def _find(library: Library, agent: str) -> Watched:
    try:
        return library.watch(agent)
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from None


def _enter(library: Library, agent: str) -> list[Any]:
    """A visitor begins with an agent: its goals, the first of them on stage, and the map."""
    watched = _find(library, agent)
    buffer = watched.goal_buffer()
    lists = {"goal set": watched.goal_set, "goal buffer": buffer, "achieved": watched.achieved()}
    lists["map"] = [*watched.goal_set, *buffer]
    visit = Visit(agent, (watched.goal_set or buffer)[0], lists)
    names = [dimension.name for dimension in watched.agent.spec.dimensions]
    return [
        visit,
        _still(watched, visit.goal),
        *(_tiles(visit, source) for source in SOURCES[:-1]),
        _map(library, visit, next(iter(LAYOUTS)), names[0] if names else None),
        next(iter(LAYOUTS)),
        gr.Radio(choices=names, value=names[0] if names else None, visible=bool(names)),
        AVERAGES,
    ]


def _tiles(visit: Visit, source: str) -> str:
    nothing = {
        "goal set": "This world has no fixed goals.",
        "goal buffer": "This agent came without its goal buffer.",
        "achieved": "Nothing yet: what your attempts end in appears here, and what a finished run had achieved.",
    }
    return pictures.tiles(visit.choices(source), nothing[source])


def _still(watched: Watched, goal: Goal) -> str:
    """The goal beside a world in which nothing has been done yet."""
    pursuit = watched.pursue(goal, seed=0)
    return pictures.stage(goal, next(pursuit), watched.agent.horizon)


def _map(library: Library, visit: Visit, layout: str, name: str | None) -> str:
    watched, goals = _watch(library, visit), visit.lists["map"]
    names = [dimension.name for dimension in watched.agent.spec.dimensions]
    index = names.index(name) if name in names else -1
    dimension = watched.agent.spec.dimensions[index] if index >= 0 else None
    return pictures.scatter(goals, watched.layout(goals, layout), dimension, index)


def _choose(library: Library, source: str) -> Any:
    def choose(visit: Visit, event: gr.EventData) -> tuple[Visit, str]:
        watched, choices = _watch(library, visit), visit.choices(source)
        index = event.index
        if not isinstance(index, int) or not 0 <= index < len(choices):
            raise gr.Error("there is no such goal any more", print_exception=False)
        return replace(visit, goal=choices[index]), _still(watched, choices[index])

    return choose


def _pursue(library: Library) -> Any:
    def pursue(visit: Visit, speed: float) -> Iterator[tuple[Any, ...]]:
        watched = _watch(library, visit)
        for moment in watched.pursue(visit.goal, seed=int(np.random.default_rng().integers(2**31))):
            yield gr.skip(), pictures.stage(visit.goal, moment, watched.agent.horizon), gr.skip()
            time.sleep(1 / speed)
        name = f"where attempt {len(visit.achieved) + 1} ended"
        visit = replace(visit, achieved=[*visit.achieved, Goal(moment.frame, name, moment.measures)])
        yield visit, gr.skip(), _tiles(visit, "achieved")

    return pursue


def _average(library: Library) -> Any:
    def average(visit: Visit, attempts: float) -> Iterator[str]:
        watched = _watch(library, visit)
        fixed = watched.goal_set
        others = [fixed[i] for i in np.linspace(0, len(fixed) - 1, STRIP - 1).round().astype(int)]
        goals = [visit.goal, *others]
        for averages in watched.average(goals, int(attempts)):
            yield pictures.strip(goals, averages)

    return average


def _upload(library: Library, visit: Visit, path: str) -> tuple[Any, ...]:
    watched = _watch(library, visit)
    try:
        pixels, converted = read_upload(path)
    except UserError as error:
        return gr.skip(), gr.skip(), _notice("bad", f"{Path(path).name} was refused: {error}."), None
    goal = Goal(watched.agent.image(pixels), "your image")
    height, width = watched.agent.spec.image_shape[:2]
    note = f"{Path(path).name} is the goal, as the agent sees it: {width} × {height} pixels" + converted
    return replace(visit, goal=goal), _still(watched, goal), _notice("good", f"{note}."), None


def _notice(kind: str, text: str) -> str:
    return f'<p class="notice {kind}">{escape(text)}</p>'


def _training_tab(library: Library, training: gr.Tab, others: gr.Tab) -> None:
    run = gr.Dropdown([], label="run", elem_id="run")
    curves = gr.HTML(elem_id="curves")
    timer = gr.Timer(2, active=False)

    def look(name: str | None) -> tuple[Any, ...]:
        found = library.trainings()
        name = name if name in found else found[0] if found else None
        return gr.Dropdown(choices=found, value=name), _training(name), gr.Timer(active=True)

    training.select(look, run, [run, curves, timer], show_progress="hidden")
    others.select(lambda: gr.Timer(active=False), None, timer, show_progress="hidden")
    gr.on([timer.tick, run.input], lambda name: look(name)[1], run, curves, show_progress="hidden")


def _training(name: str | None) -> str:
    if name is None:
        return '<p class="nothing">No run to follow in runs/ yet: start one with <code>discern train</code>.</p>'
    folder = RunFolder(name)
    fresh = time.time() - folder.metrics_file.stat().st_mtime < LIVE_SECONDS
    state = "finished" if is_finished(folder.path) else "live" if fresh else "stopped"
    picture = folder.path / "goals.png"
    return pictures.training(folder.metrics(), state, picture.read_bytes() if picture.exists() else None)
