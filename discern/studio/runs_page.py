"""The Training and Runs tabs: start, stop and resume runs, follow one, and see all of them."""

from pathlib import Path
from typing import Any

import gradio as gr

from discern.storage.run_folder import RunFolder
from discern.studio import pictures
from discern.studio.goals_page import CLICKS
from discern.studio.running import Form, Runs, summaries
from discern.studio.watching import Library
from discern.types import UserError

NO_RUN = "No run to follow in runs/ yet: start one above, or with “discern train”."
FLAGS = "--learner.batch 32 --relabel.ends (every flag of discern train)"


def training_tab(answers: "RunsAnswers", tab: gr.Tab, tabs: gr.Tabs) -> gr.Dropdown:
    """Lays the tab out and wires it; curves are drawn anew while it is the one that is seen."""
    small: Any = {"min_width": 120}
    with gr.Row(elem_classes="fields"):
        world = gr.Dropdown(
            answers.worlds(), value="arena", label="world", allow_custom_value=True, elem_id="train-world"
        )
        minutes = gr.Textbox(label="minutes", elem_id="train-minutes", placeholder="as usual", **small)
        steps = gr.Textbox(label="agent steps", elem_id="train-steps", placeholder="as usual", **small)
        seed = gr.Textbox("0", label="seed", elem_id="train-seed", **small)
        name = gr.Textbox(label="name", placeholder="runs/…", max_length=60, elem_id="train-name", **small)
    with gr.Row(elem_classes="fields"):
        flags = gr.Textbox(label="flags", placeholder=FLAGS, max_length=2000, scale=4, elem_id="train-flags")
        start = gr.Button("Start a run", variant="primary", elem_id="train-start", min_width=160)
    notice = gr.HTML(elem_id="train-notice")
    with gr.Row(elem_classes="fields"):
        run = gr.Dropdown([], label="run", elem_id="run", scale=3)
        stop = gr.Button("Stop and save", elem_id="train-stop", **small)
        resume = gr.Button("Resume", elem_id="train-resume", **small)
    curves, timer = gr.HTML(), gr.Timer(2, active=False)
    hidden: Any = {"show_progress": "hidden"}
    run.focus(lambda: gr.Dropdown(choices=answers.listed()), None, run, **hidden)
    tabs.select(answers.watch, None, timer, **hidden)
    form = [world, minutes, steps, seed, name, flags]
    gr.on([tab.select, timer.tick, run.input], answers.follow, run, [run, curves], **hidden)
    start.click(answers.start, form, [run, notice, curves], **hidden)
    stop.click(answers.stop, run, [notice, curves], **hidden)
    resume.click(answers.resume, [run, minutes, steps], [notice, curves], **hidden)
    return run


def gallery_tab(answers: "RunsAnswers", tab: gr.Tab, tabs: gr.Tabs, run: gr.Dropdown) -> None:
    shown = gr.HTML(js_on_load=CLICKS, elem_id="runs")
    listed = gr.State([])
    tab.select(answers.gallery, None, [shown, listed], show_progress="hidden")
    shown.select(answers.open, listed, [run, tabs], show_progress="hidden")


class RunsAnswers:
    """What both tabs answer."""

    def __init__(self, library: Library, runs: Runs, first_worlds: list[str]):
        self.library, self.runs, self._first_worlds = library, runs, first_worlds

    def worlds(self) -> list[str]:
        return list(
            dict.fromkeys([*self._first_worlds, *filter(None, map(self.library.world_of, self.library.agents()))])
        )

    def listed(self) -> list[str]:
        """What this studio started first, even where nothing was written yet, then every run with metrics."""
        return list(dict.fromkeys([*self.runs.started(), *self.library.trainings()]))

    def watch(self, chosen: gr.SelectData) -> gr.Timer:
        """Curves are drawn while somebody sees them."""
        return gr.Timer(active=chosen.value == "Training")

    def start(self, *typed: str | None) -> tuple[Any, str, Any]:
        try:
            folder = self.runs.start(Form(*((text or "").strip() for text in typed)))
        except UserError as error:
            return gr.skip(), pictures.note(f"Not started: {error}.", "bad"), gr.skip()
        chosen = gr.Dropdown(choices=self.listed(), value=folder)
        return chosen, pictures.note(f"{folder} has begun; it compiles first.", "good"), self._drawn(folder)

    def stop(self, run: str | None) -> tuple[str, Any]:
        try:
            self.runs.stop(run or "no run")
        except UserError as error:
            return pictures.note(f"Not stopped: {error}.", "bad"), gr.skip()
        return pictures.note(f"{run} saves and stops; Resume goes on with it.", "good"), self._drawn(run or "")

    def resume(self, run: str | None, minutes: str, steps: str) -> tuple[str, Any]:
        """Goes on, with the budget of the form where one is given."""
        try:
            if run not in self.library.trainings():
                raise UserError("choose a run that has begun")
            self.runs.resume(run, minutes, steps)
        except UserError as error:
            return pictures.note(f"Not resumed: {error}.", "bad"), gr.skip()
        return pictures.note(f"{run} goes on.", "good"), self._drawn(run)

    def follow(self, run: str | None) -> tuple[Any, str]:
        """The curves and the newest goals of a run, as far as it is; of the newest run where none is chosen."""
        found = self.listed()
        if not found:
            return gr.skip(), pictures.note(NO_RUN)
        chosen = run if run in found else found[0]
        return gr.skip() if run == chosen else gr.Dropdown(choices=found, value=chosen), self._drawn(chosen)

    def gallery(self) -> tuple[str, list[str]]:
        found = self.library.trainings()
        runs = summaries(found, self.runs.state)
        return (pictures.gallery(runs) if runs else pictures.note(NO_RUN)), found

    def open(self, listed: list[str], event: gr.EventData) -> tuple[Any, Any]:
        """A click on a card follows that run."""
        chosen = gr.Dropdown(choices=self.listed(), value=listed[event.index])
        return chosen, gr.Tabs(selected="training")

    def _drawn(self, run: str) -> str:
        folder, said = RunFolder(run), self.runs.said(run)
        picture = Path(run) / "goals.png"
        drawn = pictures.training(
            folder.metrics(), self.runs.state(run), picture.read_bytes() if picture.exists() else b""
        )
        return (pictures.note(f"It ended: {said}.".replace("..", "."), "bad") if said else "") + drawn
