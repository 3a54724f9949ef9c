"""The Goals tab: choose a picture, watch one agent or two bring it about."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

import gradio as gr
import numpy as np

from discern.machine import installed
from discern.studio import pictures
from discern.studio.made import saved_goals
from discern.studio.uploads import read_upload
from discern.studio.watching import LAYOUTS, STRIP, Attempt, Goal, Library, Moment, Watched, film, together
from discern.types import UserError

CLICKS = (Path(__file__).parent / "clicks.js").read_text()
HAND = "made by hand"
NOTHING = {
    "goal set": "This world has no fixed goals.",
    "goal buffer": "This agent came without its goal buffer.",
    "achieved": "Nothing yet: what your attempts end in appears here, and what a finished run had achieved.",
    HAND: "Nothing yet: make goals in the Play tab, or put pictures into goals/ and the world's name.",
}
AVERAGES = "Attempts at eight goals, averaged: what stays sharp is what the agent controls."
NO_AGENT = "There is no agent in agents/ or runs/ yet: train one in the Training tab, and choose it above."
P = ParamSpec("P")
R = TypeVar("R")
ALONE = "nobody"
FILM = "Film of this attempt" if installed("av") else "A film needs pip install 'discern[video]'"


def told(answer: Callable[P, R]) -> Callable[P, R]:
    """The same, but what the visitor can mend is shown to them."""

    @wraps(answer)
    def ask(*words: P.args, **named: P.kwargs) -> R:
        try:
            return answer(*words, **named)
        except UserError as error:
            raise gr.Error(str(error), duration=6, print_exception=False) from None

    return ask


class GoalsTab(NamedTuple):
    """What other tabs need, which choose goals too."""

    visit: gr.State
    stage: gr.HTML
    running: list[Any]  # events that a new goal cancels


class Visit(NamedTuple):
    """What one visitor has chosen, and may choose from."""

    agent: str
    goal: Goal
    lists: dict[str, list[Goal]]
    attempts: int = 0


def goals_tab(answers: "GoalsAnswers", page: gr.Blocks, agent: gr.Dropdown, tab: gr.Tab) -> GoalsTab:
    """Lays the tab out and wires it."""
    visit, lists = gr.State(), {}
    kept = gr.State([])  # goals made by hand; apart from the visit, which a pursuit writes as it was when it began
    with gr.Row():
        with gr.Column(scale=3):
            stage = gr.HTML(elem_id="stage")
            with gr.Row(elem_classes="controls"):
                start = gr.Button("Start", variant="primary", elem_id="start", min_width=100)
                stop = gr.Button("Stop", elem_id="stop", min_width=100)
                speed = gr.Slider(2, 30, 10, step=1, label="frames a second", scale=2, min_width=180, buttons=[])
                steps = gr.Slider(1, 2, 2, step=1, label="steps", scale=2, min_width=180, buttons=[], visible=False)
            with gr.Row(elem_classes="controls"):
                rival = gr.Dropdown([ALONE], value=ALONE, label="compare with", elem_id="rival", min_width=200)
                film_button = gr.DownloadButton(FILM, interactive=False, elem_id="film", min_width=200)
            with gr.Row(elem_classes="controls"):
                average = gr.Button(f"Average attempts at {STRIP} goals", elem_id="average", min_width=220)
                attempts = gr.Slider(2, 50, 10, step=1, label="attempts at each", min_width=180, buttons=[])
            strip = gr.HTML()
        with gr.Column(scale=2), gr.Tabs(overflow_behavior="wrap"):
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
    shown = [visit, stage, lists["achieved"], film_button]
    running = start.click(answers.pursue, [visit, speed, steps, rival], shown, **hidden)
    averaging = average.click(answers.average, [visit, attempts, steps], strip, **hidden)
    both: list[Any] = [running, averaging]
    stop.click(None, cancels=both)
    entered = [visit, stage, *lists.values(), layout, colour, strip, steps, rival, film_button, kept]
    gr.on([page.load, agent.change], answers.enter, agent, entered, cancels=both, show_progress_on=stage)
    gr.on(
        [one.select for one in lists.values()],
        answers.choose,
        [visit, kept],
        [visit, stage],
        cancels=both[:1],
        **hidden,
    )
    gr.on([layout.input, colour.input], answers.draw_map, [visit, layout, colour], lists["map"], **hidden)
    file.upload(answers.upload, [visit, file], [visit, stage, notice, file], cancels=both[:1])
    tab.select(answers.refresh, visit, [kept, lists[HAND]], **hidden)
    return GoalsTab(visit, stage, both[:1])


class GoalsAnswers:
    """What the tab answers to its visitors; what a visitor has chosen travels in a Visit of their own."""

    def __init__(self, library: Library, films: Path):
        self.library, self._films = library, films

    def watched(self, agent: str | None) -> Watched:
        return told(self.library.watch)(agent or "a page older than the studio")

    def visited(self, visit: Visit | None) -> Watched:
        if visit is None:
            raise gr.Error(NO_AGENT, print_exception=False)
        return self.watched(visit.agent)

    def enter(self, agent: str | None) -> list[Any]:
        """A visitor begins with an agent: its goals, the first of them on stage, and the map."""
        if not agent:
            return [None, pictures.note(NO_AGENT), *[gr.skip()] * (len(NOTHING) + 8)]
        watched = self.watched(agent)
        lists = {"goal set": watched.goal_set, "goal buffer": watched.goal_buffer(), "achieved": watched.achieved()}
        lists["map"] = lists["goal set"] + lists["goal buffer"]
        visit = Visit(agent, lists["map"][0], lists)
        names, layout = [dimension.name for dimension in watched.agent.spec.dimensions], next(iter(LAYOUTS))
        first = names[0] if names else None
        kept = saved_goals(watched.agent.spec)
        shown = [pictures.tiles((lists | {HAND: kept})[source], nothing) for source, nothing in NOTHING.items()]
        shown += [self.draw_map(visit, layout, first), layout]
        colour = gr.Radio(choices=names, value=first, visible=bool(names))
        most, ends = watched.agent.horizon, watched.agent.config.relabel.ends
        steps = gr.Slider(1, most, most, step=1, visible=ends)
        rival = gr.Dropdown(choices=[ALONE, *self.library.rivals(agent)], value=ALONE)
        film_button = gr.DownloadButton(value=None, interactive=False)
        first_seen = [visit, still(watched, visit.goal), *shown, colour, pictures.note(AVERAGES)]
        return [*first_seen, steps, rival, film_button, kept]

    def refresh(self, visit: Visit | None) -> tuple[Any, Any]:
        """Goals that were made since the tab was last seen."""
        if visit is None:
            return gr.skip(), gr.skip()
        kept = saved_goals(self.watched(visit.agent).agent.spec)
        return kept, pictures.tiles(kept, NOTHING[HAND])

    def choose(self, visit: Visit, kept: list[Goal], event: gr.EventData) -> tuple[Visit, str]:
        """A click on goal `index` of a list or of the map."""
        goal = (visit.lists | {HAND: kept})[event.source][event.index]
        return visit._replace(goal=goal), still(self.watched(visit.agent), goal)

    def draw_map(self, visit: Visit, layout: str, name: str | None) -> str:
        watched, goals = self.visited(visit), visit.lists["map"]
        known = {dimension.name: (i, dimension) for i, dimension in enumerate(watched.agent.spec.dimensions)}
        return pictures.scatter(goals, watched.layout(goals, layout), known.get(name or ""))

    def pursue(
        self, visit: Visit, speed: float, wanted: float, rival: str | None, request: gr.Request
    ) -> Iterator[tuple[Any, ...]]:
        """The stage, moment after moment; what the pursuit ended in becomes a goal to choose, and a film."""
        who = [self.visited(visit)]
        if rival in self.library.rivals(visit.agent):
            who.append(self.watched(rival))
        names = [visit.agent, rival] if len(who) > 1 else [""]
        budgets, seed = [one.steps(wanted) for one in who], int(np.random.default_rng().integers(2**31))
        pursuits = [one.pursue(visit.goal, seed, n) for one, n in zip(who, budgets, strict=True)]
        seen: list[list[Moment]] = []
        for moments in together(pursuits):
            seen.append(moments)
            stages = [
                pictures.stage(visit.goal, moment, n, one.actions, name or "")
                for moment, n, one, name in zip(moments, budgets, who, names, strict=True)
            ]
            yield gr.skip(), "".join(stages), gr.skip(), gr.skip()
            time.sleep(1 / speed)
        ends = [
            Goal(
                moment.frame, f"where attempt {visit.attempts + 1} ended" + f", by {name}" * bool(name), moment.measures
            )
            for moment, name in zip(moments, names, strict=True)
        ]
        lists = visit.lists | {"achieved": [*ends, *visit.lists["achieved"]]}
        visit = visit._replace(attempts=visit.attempts + 1, lists=lists)
        yield visit, gr.skip(), pictures.tiles(lists["achieved"]), self._filmed(visit, who, seen, speed, request)

    def _filmed(
        self, visit: Visit, who: list[Watched], seen: list[list[Moment]], speed: float, request: gr.Request
    ) -> Any:
        """The attempt as a file to download, in place of the visitor's one before."""
        if not installed("av"):
            return gr.skip()
        attempts = []
        for i, one in enumerate(who):
            own = [moments[i] for t, moments in enumerate(seen) if t < 1 or seen[t - 1][i].action >= 0]
            attempts.append(Attempt(one.agent.image(visit.goal.image), [m.frame for m in own], own[-1].rewards))
        folder = self._films / (request.session_hash or "visitor")
        self.forget(request)
        path = film(attempts, folder / f"{Path(visit.agent).name}-attempt-{visit.attempts}.mp4", int(speed))
        return gr.DownloadButton(value=str(path), interactive=True)

    def forget(self, request: gr.Request) -> None:
        """What a visitor who leaves has no more use for."""
        with suppress(OSError):
            shutil.rmtree(self._films / (request.session_hash or "visitor"))

    def average(self, visit: Visit, attempts: float, wanted: float) -> Iterator[str]:
        """The chosen goal and others of the set, each attempted again and again."""
        watched = self.visited(visit)
        others = np.linspace(0, len(watched.goal_set) - 1, STRIP).round().astype(int)[1:]
        goals = [visit.goal, *(watched.goal_set[i] for i in others)]
        for averages in watched.average(goals, int(attempts), watched.steps(wanted)):
            yield pictures.strip(goals, averages)

    def upload(self, visit: Visit, path: str) -> tuple[Any, ...]:
        """The uploaded image as a goal, or why not."""
        watched, name = self.visited(visit), Path(path).name
        try:
            pixels, converted = read_upload(path)
        except UserError as error:
            return gr.skip(), gr.skip(), pictures.note(f"{name} was refused: {error}.", "bad"), None
        goal = Goal(watched.agent.image(pixels), "your image")
        seen = f"{name} is the goal, shown as the agent sees it{converted}."
        return visit._replace(goal=goal), still(watched, goal), pictures.note(seen, "good"), None


def still(watched: Watched, goal: Goal) -> str:
    """The goal beside a world in which nothing has been done yet."""
    return pictures.stage(goal, next(watched.pursue(goal, seed=0)), watched.agent.horizon, watched.actions)
