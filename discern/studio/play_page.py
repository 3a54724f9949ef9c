"""The Play tab: a world in the visitor's hands, and goals made there."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gradio as gr
import numpy as np

from discern.envs import make_scored_env
from discern.envs.base import EnvSpec
from discern.inference import as_observation
from discern.presets import preset
from discern.studio import pictures
from discern.studio.goals_page import CLICKS, HAND, GoalsTab, Visit, still, told
from discern.studio.made import Box, Fill, background, box_within, erase, paste, save_goal, saved_goals
from discern.studio.playing import Play, Plays, keys_of, names_of, refuse_code
from discern.studio.uploads import read_upload
from discern.studio.watching import Goal, Library
from discern.types import UserError

HERE = Path(__file__).parent
PAD, EASEL = (HERE / "pad.js").read_text(), (HERE / "easel.js").read_text()
FILLS: tuple[Fill, ...] = ("median", "mean")
ROLES = ("the goal", "the picture to take a part from")
FEWEST_FRAMES = 8  # that tell what stands still
MOST_DRAWN = 20  # strokes that can be undone
NO_GOALS = "No goal of this world was saved yet."
HINT = "Play with the buttons or their keys; Backspace undoes a step."
GOAL, OTHER = "goal made by hand", "picture to take a part from"
Parts = dict[str, Any]


class Draft(NamedTuple):
    """The goal that a visitor is making."""

    spec: EnvSpec | None = None  # of the world it is a goal of
    goal: Goal | None = None
    box: Box | None = None
    other: np.ndarray | None = None  # uint8 [H, W, 3]
    part: Box | None = None
    saved: tuple[Goal, ...] = ()
    earlier: tuple[Goal, ...] = ()  # before each stroke

    @property
    def world(self) -> str:
        return self.spec.name if self.spec else ""

    def drawn(self, image: np.ndarray) -> "Draft":
        """After another stroke; nobody knows the measures of what was drawn."""
        assert self.goal is not None
        return self._replace(goal=Goal(image, HAND), earlier=(*self.earlier, self.goal)[-MOST_DRAWN:])


def play_tab(answers: "PlayAnswers", tab: gr.Tab, tabs: gr.Tabs, agent: gr.Dropdown, goals: GoalsTab) -> None:
    """Lays the tab out and wires it."""
    draft = gr.State(Draft())
    with gr.Row():
        with gr.Column(scale=3):
            of = _hand_column(answers)
        with gr.Column(scale=2):
            of |= _goal_column()
    hidden: Any = {"show_progress": "hidden"}
    begun = [draft, of["world"], of["hand"], of["pad"], of["easel"], of["other"], of["saved"], of["notice"]]
    chosen, hand, drawn = [of["world"], of["seed"], agent, draft], [of["hand"], of["notice"]], [draft, of["easel"]]
    drawn.append(of["notice"])
    others = [draft, of["easel"], of["other"]]
    gr.on([of["begin"].click, of["world"].input], answers.begin, chosen, begun, **hidden)
    tab.select(answers.enter, chosen, begun, **hidden)
    agent.change(answers.follow, agent, of["world"], **hidden)
    of["pad"].select(answers.act, None, hand, trigger_mode="multiple", **hidden)
    of["undo"].click(answers.undo, None, hand, **hidden)
    of["reset"].click(answers.reset, of["seed"], hand, **hidden)
    stops: Any = {"cancels": goals.running, **hidden}
    of["mine"].click(answers.take, [draft, goals.visit], [*drawn, goals.visit, goals.stage], **stops)
    of["pursue"].click(answers.pursue, [draft, goals.visit], [goals.visit, goals.stage, tabs], **stops)
    for part in ("easel", "other"):
        of[part].select(answers.mark, draft, draft, **hidden)
    of["erase"].click(answers.erase, [draft, of["fill"], goals.visit], drawn, **hidden)
    of["paste"].click(answers.paste, draft, drawn, **hidden)
    of["unstroke"].click(answers.unstroke, draft, drawn, **hidden)
    kept = [draft, of["saved"], of["notice"], of["name"]]
    gr.on([of["save"].click, of["name"].submit], answers.save, [draft, of["name"]], kept, **hidden)
    of["saved"].select(answers.pick, [draft, of["role"]], others, **hidden)
    of["file"].upload(answers.upload, [draft, of["file"]], [*others, of["file"]], **hidden)


def _hand_column(answers: "PlayAnswers") -> Parts:
    small: Any = {"min_width": 90}
    of: Parts = {}
    with gr.Row(elem_classes="fields"):
        of["world"] = gr.Dropdown(
            answers.worlds(), value=answers.first, label="world", allow_custom_value=True, elem_id="world", scale=3
        )
        most = 2**31 - 1
        of["seed"] = gr.Number(0, label="seed", precision=0, minimum=0, maximum=most, elem_id="play-seed", **small)
        of["begin"] = gr.Button("Begin", variant="primary", elem_id="begin", **small)
    of["hand"] = gr.HTML(elem_id="hand")
    of["pad"] = gr.HTML(js_on_load=PAD, elem_id="pad")
    with gr.Row(elem_classes="controls"):
        of["undo"] = gr.Button("Undo a step", elem_id="undo", **small)
        of["reset"] = gr.Button("Reset", elem_id="reset", **small)
        of["mine"] = gr.Button("Make this my goal", variant="primary", elem_id="mine", min_width=160)
    of["notice"] = gr.HTML(elem_id="play-notice")
    return of


def _goal_column() -> Parts:
    small: Any = {"min_width": 90}
    of: Parts = {}
    with gr.Row():
        for part in ("easel", "other"):
            with gr.Column(min_width=140):
                of[part] = gr.HTML(js_on_load=EASEL, elem_id=part)
    with gr.Row(elem_classes="controls"):
        of["erase"] = gr.Button("Erase", elem_id="erase", **small)
        of["paste"] = gr.Button("Paste", elem_id="paste", **small)
        of["unstroke"] = gr.Button("Undo", elem_id="unstroke", **small)
    of["fill"] = gr.Radio(list(FILLS), value=FILLS[0], label="erasing shows the background: of what was seen, the")
    with gr.Row(elem_classes="fields"):
        of["name"] = gr.Textbox(label="name", max_length=60, elem_id="goal-name", scale=2, min_width=120)
        of["save"] = gr.Button("Save", elem_id="save", **small)
        of["pursue"] = gr.Button("Pursue it", variant="primary", elem_id="pursue", **small)
    with gr.Tabs():
        with gr.Tab("Saved goals"):
            of["role"] = gr.Radio(list(ROLES), value=ROLES[0], label="a click makes it", elem_id="role")
            of["saved"] = gr.HTML(js_on_load=CLICKS, elem_id="saved")
        with gr.Tab("Another picture"):
            of["file"] = gr.File(label=OTHER, height=140, elem_id="other-file")
    return of


class PlayAnswers:
    """What the tab answers; the world that a visitor plays is theirs alone."""

    def __init__(self, library: Library, plays: Plays, worlds: Callable[[], list[str]], named: str | None):
        """`named` is the world that whoever opened the page asked for; it may be code."""
        self._library, self._plays, self.worlds, self._named = library, plays, worlds, named
        self.first = named or worlds()[0]

    def follow(self, agent: str | None) -> Any:
        """Who chooses an agent will want to play its world."""
        return (agent and self._library.world_of(agent)) or gr.skip()

    def enter(self, world: str, seed: float | None, agent: str | None, draft: Draft, request: gr.Request) -> list[Any]:
        """The tab is seen: a world is begun where none is, or another was chosen."""
        if self._plays.world_of(_visitor(request)) == world:
            return [gr.skip()] * 8
        return self.begin(world, seed, agent, draft, request)

    @told
    def begin(self, world: str, seed: float | None, agent: str | None, draft: Draft, request: gr.Request) -> list[Any]:
        """A world of the visitor's own, as the chosen agent sees it where it lives there."""
        play = self._begun(world, int(seed or 0), agent, _visitor(request))
        names, saved = names_of(play.spec), tuple(saved_goals(play.spec))
        draft = (draft if draft.world == world else Draft(play.spec))._replace(saved=saved)
        pad, tiles = pictures.pad(names, keys_of(names)), pictures.tiles(list(saved), NO_GOALS)
        return [draft, world, _hand(play), pad, *_easels(draft), tiles, pictures.note(HINT)]

    def _begun(self, world: str, seed: int, agent: str | None, visitor: str) -> Play:
        if agent and self._library.world_of(agent) == world:
            return self._plays.begin(visitor, self._library.watch(agent).agent.make_scored_env, seed)
        refuse_code(preset(world), self._named)
        return self._plays.begin(visitor, partial(make_scored_env, world), seed)

    @told
    def act(self, event: gr.EventData, request: gr.Request) -> tuple[str, Any]:
        """A press of button `index`."""
        play = self._plays.of(_visitor(request))
        play.act(int(event.index))
        return _hand(play), gr.skip()

    @told
    def undo(self, request: gr.Request) -> tuple[str, str]:
        play = self._plays.of(_visitor(request))
        why = play.undo()
        return _hand(play), pictures.note(why, "bad") if why else pictures.note(HINT)

    @told
    def reset(self, seed: float | None, request: gr.Request) -> tuple[str, str]:
        play = self._plays.of(_visitor(request))
        play.reset(int(seed or 0))
        return _hand(play), pictures.note(HINT)

    @told
    def take(self, draft: Draft, visit: Visit | None, request: gr.Request) -> tuple[Any, ...]:
        """What is seen becomes the goal: to draw on, and to pursue where the chosen agent lives here."""
        seen = self._plays.of(_visitor(request)).seen
        goal = Goal(seen.frame, HAND, seen.measures)
        draft = draft._replace(goal=goal, box=None, earlier=())
        if visit is None or self._library.world_of(visit.agent) != draft.world:
            advice = f"The goal is made: draw on it, or save it. To pursue it, choose an agent of {draft.world}."
            return draft, _easels(draft)[0], pictures.note(advice, "good"), gr.skip(), gr.skip()
        stage, note = self._staged(visit, draft), "This is the goal now: see the Goals tab, or draw on it first."
        return draft, _easels(draft)[0], pictures.note(note, "good"), visit._replace(goal=goal), stage

    @told
    def pursue(self, draft: Draft, visit: Visit | None) -> tuple[Any, ...]:
        """The goal as it is drawn, in the Goals tab."""
        goal = _goal(draft)
        if visit is None or self._library.world_of(visit.agent) != draft.world:
            raise UserError(f"choose an agent of {draft.world} above: this goal is of that world")
        return visit._replace(goal=goal), self._staged(visit, draft), gr.Tabs(selected="goals")

    def _staged(self, visit: Visit, draft: Draft) -> str:
        return still(self._library.watch(visit.agent), _goal(draft))

    def mark(self, draft: Draft, event: gr.EventData) -> Any:
        """A rectangle was drawn, between two corners [x, y, x, y] in pixels."""
        image = draft.other if event.source == "other" else draft.goal and draft.goal.image
        if image is None:
            return gr.skip()
        try:
            box = box_within([float(end) for end in event.box], image.shape)
        except (UserError, ValueError, OverflowError):
            return gr.skip()
        return draft._replace(part=box) if event.source == "other" else draft._replace(box=box)

    @told
    def erase(self, draft: Draft, kind: Fill, visit: Visit | None, request: gr.Request) -> tuple[Any, ...]:
        """The background in place of what is in the rectangle."""
        goal, box = _goal(draft), _box(draft.box, GOAL)
        play = self._plays.of(_visitor(request))
        frames = list(play.seen_frames)
        if visit is not None and self._library.world_of(visit.agent) == draft.world:
            frames += [one.image for one in visit.lists["goal set"]]
        if len(frames) < FEWEST_FRAMES:
            raise UserError(f"play {FEWEST_FRAMES} steps first: the background is what stands still in what was seen")
        return self._redrawn(draft.drawn(erase(goal.image, box, background(frames, kind))))

    @told
    def paste(self, draft: Draft) -> tuple[Any, ...]:
        """The other picture's rectangle at the goal's; at the same place where none was drawn on the goal."""
        goal = _goal(draft)
        if draft.other is None:
            raise UserError("choose another picture first: a saved goal, or a file")
        part = _box(draft.part or draft.box, OTHER)
        return self._redrawn(draft.drawn(paste(goal.image, draft.box or part, draft.other, part)))

    def unstroke(self, draft: Draft) -> tuple[Any, ...]:
        if not draft.earlier:
            return gr.skip(), gr.skip(), pictures.note("Nothing was drawn yet.")
        return self._redrawn(draft._replace(goal=draft.earlier[-1], earlier=draft.earlier[:-1]))

    def _redrawn(self, draft: Draft) -> tuple[Any, ...]:
        return draft, _easels(draft)[0], gr.skip()

    @told
    def save(self, draft: Draft, name: str) -> tuple[Any, ...]:
        path = save_goal(_goal(draft), name or "", draft.world)
        assert draft.spec is not None  # it has a goal
        saved = tuple(saved_goals(draft.spec))
        tiles = pictures.tiles(list(saved), NO_GOALS)
        return draft._replace(saved=saved), tiles, pictures.note(f"Saved as {path}.", "good"), ""

    def pick(self, draft: Draft, role: str, event: gr.EventData) -> tuple[Any, ...]:
        """A click on saved goal `index`."""
        goal = draft.saved[event.index]
        if role == ROLES[0]:
            draft = draft._replace(goal=goal, box=None, earlier=())
        else:
            draft = draft._replace(other=goal.image, part=None)
        return draft, *_easels(draft)

    @told
    def upload(self, draft: Draft, path: str) -> tuple[Any, ...]:
        """A picture to take a part from, in the world's size."""
        pixels, _ = read_upload(path)
        shape = _goal(draft).image.shape
        draft = draft._replace(other=as_observation(pixels, shape, Path(path).name), part=None)
        return draft, *_easels(draft), None


def _visitor(request: gr.Request) -> str:
    return request.session_hash or "visitor"


def _hand(play: Play) -> str:
    measures = [dimension.name for dimension in play.spec.dimensions]
    return pictures.played(play.spec.name, play.seen, play.seed, measures, names_of(play.spec))


def _easels(draft: Draft) -> tuple[str, str]:
    goal = None if draft.goal is None else draft.goal.image
    return pictures.easel(goal, draft.box, GOAL), pictures.easel(draft.other, draft.part, OTHER)


def _goal(draft: Draft) -> Goal:
    if draft.goal is None:
        raise UserError("make a goal first: play, and press “Make this my goal”, or choose a saved one")
    return draft.goal


def _box(box: Box | None, what: str) -> Box:
    if box is None:
        raise UserError(f"draw a rectangle on the {what} first")
    return box
