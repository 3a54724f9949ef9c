"""The studio's page, on Gradio."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
import numpy as np

from discern.evaluation.final import is_finished
from discern.storage.run_folder import RunFolder
from discern.studio import pictures
from discern.studio.uploads import MAX_BYTES, read_upload
from discern.studio.watching import LAYOUTS, STRIP, Goal, Library, Watched
from discern.types import UserError

HERE = Path(__file__).parent
CLICKS = (HERE / "clicks.js").read_text()
HEADER = "<header><h1>discern <em>studio</em></h1><p>Choose a picture; watch the agent bring it about.</p></header>"
NOTHING = {
    "goal set": "This world has no fixed goals.",
    "goal buffer": "This agent came without its goal buffer.",
    "achieved": "Nothing yet: what your attempts end in appears here, and what a finished run had achieved.",
}
AVERAGES = "Attempts at eight goals, averaged: what stays sharp is what the agent controls."
NO_RUN = "No run to follow in runs/ yet: start one with “discern train”."
LIVE_SECONDS = 120  # a run that has written nothing for longer is taken to have stopped


class Visit(NamedTuple):
    """What one visitor has chosen, and may choose from."""

    agent: str
    goal: Goal
    lists: dict[str, list[Goal]]
    attempts: int = 0


def open_page(named: Path | None, port: int) -> None:
    """Serves the page on this machine's own address until it is interrupted."""
    if not 1 <= port <= 65535:
        raise UserError(f"there is no port {port}: choose one from 1 to 65535")
    answers = Answers(Library(named))
    answers.library.watch(answers.library.agents()[0])  # what cannot be loaded is said before the page opens
    page = build(answers).queue(default_concurrency_limit=8)
    theme = gr.themes.Base(primary_hue="amber", neutral_hue="slate", font=gr.themes.Font("system-ui"))
    look: dict[str, Any] = {"css_paths": HERE / "style.css", "theme": theme, "footer_links": [], "ssr_mode": False}
    look["js"] = "() => document.body.classList.add('dark')"
    local: dict[str, Any] = {"server_name": "127.0.0.1", "server_port": port, "share": False}
    try:
        page.launch(prevent_thread_lock=True, quiet=True, max_file_size=MAX_BYTES, **local, **look)
    except OSError:
        raise UserError(f"port {port} is taken: choose another with --port") from None
    print(f"the studio is open at http://127.0.0.1:{port} (Ctrl-C closes it)", flush=True)
    page.block_thread()


def build(answers: "Answers") -> gr.Blocks:
    """The whole page."""
    with gr.Blocks(title="discern studio", analytics_enabled=False, delete_cache=(600, 600), fill_width=True) as page:
        with gr.Row(elem_id="top"):
            gr.HTML(HEADER)
            with gr.Column(scale=0, min_width=340):
                agent = gr.Dropdown(answers.library.agents(), label="agent", elem_id="agent")
        with gr.Tab("Goals") as goals:
            _goals_tab(answers, page, agent)
        with gr.Tab("Training") as training:
            run, curves = gr.Dropdown([], label="run", elem_id="run"), gr.HTML()
            timer = gr.Timer(2, active=False)
        agent.focus(lambda: gr.Dropdown(choices=answers.library.agents()), None, agent, show_progress="hidden")
        run.focus(lambda: gr.Dropdown(choices=answers.library.trainings()), None, run, show_progress="hidden")
        for tab, active in ((training, True), (goals, False)):
            tab.select(partial(gr.Timer, active=active), None, timer, show_progress="hidden")
        gr.on([training.select, timer.tick, run.input], answers.follow, run, [run, curves], show_progress="hidden")
    return page


def _goals_tab(answers: "Answers", page: gr.Blocks, agent: gr.Dropdown) -> None:
    visit, lists = gr.State(), {}
    with gr.Row():
        with gr.Column(scale=3):
            stage = gr.HTML(elem_id="stage")
            with gr.Row(elem_classes="controls"):
                start = gr.Button("Start", variant="primary", elem_id="start", min_width=100)
                stop = gr.Button("Stop", elem_id="stop", min_width=100)
                speed = gr.Slider(2, 30, 10, step=1, label="frames a second", scale=2, buttons=[])
                steps = gr.Slider(1, 2, 2, step=1, label="steps", scale=2, buttons=[], visible=False)
            with gr.Row(elem_classes="controls"):
                average = gr.Button(f"Average attempts at {STRIP} goals", elem_id="average", min_width=220)
                attempts = gr.Slider(2, 50, 10, step=1, label="attempts at each", buttons=[])
            strip = gr.HTML()
        with gr.Column(scale=2), gr.Tabs():
            for source in NOTHING:
                with gr.Tab(source.capitalize()):
                    lists[source] = gr.HTML(js_on_load=CLICKS, elem_id=source)
            with gr.Tab("Map"):
                with gr.Row():
                    layout = gr.Radio(list(LAYOUTS), value=next(iter(LAYOUTS)), label="laid out by")
                    colour = gr.Radio([], label="coloured by", min_width=120)
                lists["map"] = gr.HTML(js_on_load=CLICKS, elem_id="map")
            with gr.Tab("Upload"):
                file = gr.File(label="an image: PNG, JPEG, WebP, GIF or BMP", height=200, elem_id="upload")
                notice = gr.HTML(elem_id="notice")
    hidden: Any = {"show_progress": "hidden"}
    running = start.click(answers.pursue, [visit, speed, steps], [visit, stage, lists["achieved"]], **hidden)
    averaging = average.click(answers.average, [visit, attempts, steps], strip, **hidden)
    both: list[Any] = [running, averaging]
    stop.click(None, cancels=both)
    entered = [visit, stage, *lists.values(), layout, colour, strip, steps]
    gr.on([page.load, agent.change], answers.enter, agent, entered, cancels=both, show_progress_on=stage)
    gr.on([shown.select for shown in lists.values()], answers.choose, visit, [visit, stage], cancels=both[:1], **hidden)
    gr.on([layout.input, colour.input], answers.draw_map, [visit, layout, colour], lists["map"], **hidden)
    file.upload(answers.upload, [visit, file], [visit, stage, notice, file], cancels=both[:1])


class Answers:
    """What the page answers to its visitors; what a visitor has chosen travels in a Visit of their own."""

    def __init__(self, library: Library):
        self.library = library

    def watched(self, agent: str | None) -> Watched:
        try:
            return self.library.watch(agent or "a page older than the studio")
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None

    def enter(self, agent: str) -> list[Any]:
        """A visitor begins with an agent: its goals, the first of them on stage, and the map."""
        watched = self.watched(agent)
        lists = {"goal set": watched.goal_set, "goal buffer": watched.goal_buffer(), "achieved": watched.achieved()}
        lists["map"] = lists["goal set"] + lists["goal buffer"]
        visit = Visit(agent, lists["map"][0], lists)
        names, layout = [dimension.name for dimension in watched.agent.spec.dimensions], next(iter(LAYOUTS))
        first = names[0] if names else None
        shown = [pictures.tiles(lists[source], nothing) for source, nothing in NOTHING.items()]
        shown += [self.draw_map(visit, layout, first), layout]
        colour = gr.Radio(choices=names, value=first, visible=bool(names))
        most, ends = watched.agent.horizon, watched.agent.config.relabel.ends
        steps = gr.Slider(1, most, most, step=1, visible=ends)
        return [visit, _still(watched, visit.goal), *shown, colour, pictures.note(AVERAGES), steps]

    def choose(self, visit: Visit, event: gr.EventData) -> tuple[Visit, str]:
        """A click on goal `index` of a list or of the map."""
        goal = visit.lists[event.source][event.index]
        return visit._replace(goal=goal), _still(self.watched(visit.agent), goal)

    def draw_map(self, visit: Visit, layout: str, name: str | None) -> str:
        watched, goals = self.watched(visit.agent), visit.lists["map"]
        known = {dimension.name: (i, dimension) for i, dimension in enumerate(watched.agent.spec.dimensions)}
        return pictures.scatter(goals, watched.layout(goals, layout), known.get(name or ""))

    def pursue(self, visit: Visit, speed: float, wanted: float) -> Iterator[tuple[Any, ...]]:
        """The stage, moment after moment; what the pursuit ended in becomes a goal to choose."""
        watched = self.watched(visit and visit.agent)
        steps = watched.steps(wanted)
        for moment in watched.pursue(visit.goal, int(np.random.default_rng().integers(2**31)), steps):
            yield gr.skip(), pictures.stage(visit.goal, moment, steps), gr.skip()
            time.sleep(1 / speed)
        end = Goal(moment.frame, f"where attempt {visit.attempts + 1} ended", moment.measures)
        lists = visit.lists | {"achieved": [end, *visit.lists["achieved"]]}
        yield visit._replace(attempts=visit.attempts + 1, lists=lists), gr.skip(), pictures.tiles(lists["achieved"])

    def average(self, visit: Visit, attempts: float, wanted: float) -> Iterator[str]:
        """The chosen goal and others of the set, each attempted again and again."""
        watched = self.watched(visit and visit.agent)
        others = np.linspace(0, len(watched.goal_set) - 1, STRIP).round().astype(int)[1:]
        goals = [visit.goal, *(watched.goal_set[i] for i in others)]
        for averages in watched.average(goals, int(attempts), watched.steps(wanted)):
            yield pictures.strip(goals, averages)

    def upload(self, visit: Visit, path: str) -> tuple[Any, ...]:
        """The uploaded image as a goal, or why not."""
        watched, name = self.watched(visit and visit.agent), Path(path).name
        try:
            pixels, converted = read_upload(path)
        except UserError as error:
            return gr.skip(), gr.skip(), pictures.note(f"{name} was refused: {error}.", "bad"), None
        goal = Goal(watched.agent.image(pixels), "your image")
        seen = f"{name} is the goal, shown as the agent sees it{converted}."
        return visit._replace(goal=goal), _still(watched, goal), pictures.note(seen, "good"), None

    def follow(self, run: str | None) -> tuple[Any, str]:
        """The curves and the newest goals of a run, as far as it is; of the newest run where none is chosen."""
        found = self.library.trainings()
        if not found:
            return gr.skip(), pictures.note(NO_RUN)
        chosen = run if run in found else found[0]
        folder = RunFolder(chosen)
        is_fresh = time.time() - folder.metrics_file.stat().st_mtime < LIVE_SECONDS
        state = "finished" if is_finished(folder.path) else "live" if is_fresh else "stopped"
        picture = folder.path / "goals.png"
        drawn = pictures.training(folder.metrics(), state, picture.read_bytes() if picture.exists() else b"")
        return gr.skip() if run == chosen else gr.Dropdown(choices=found, value=chosen), drawn


def _still(watched: Watched, goal: Goal) -> str:
    """The goal beside a world in which nothing has been done yet."""
    return pictures.stage(goal, next(watched.pursue(goal, seed=0)), watched.agent.horizon)
