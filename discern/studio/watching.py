"""What the studio shows, without the page: agents, goals to choose from, pursuits step by step, the embedding's map."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from discern.envs import is_host
from discern.envs.base import Hosted, ScoredHostEnv
from discern.evaluation.achievement import evaluator, reached
from discern.evaluation.final import is_finished, load_final
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.evaluation.video import side_by_side, write_video
from discern.inference import Agent, load, newest
from discern.machine import require
from discern.storage.agent_file import config_in, find_agent_file
from discern.storage.checkpoint import list_checkpoints
from discern.storage.run_folder import AGENT_FILE, RunFolder
from discern.studio.playing import names_of
from discern.types import UserError

SHOWN = 100  # goals of a list
STRIP = 8  # goals of a strip
IDLE_SECONDS = 900.0  # after which the worlds of an agent that nobody watches are closed


class Goal(NamedTuple):
    """An image to bring about."""

    image: np.ndarray  # uint8 [H, W, 3]
    name: str
    measures: np.ndarray | None = None  # float32 [D], the scored dimensions; None where they are not known


class Moment(NamedTuple):
    """One step of a pursuit, and the learned reward up to it."""

    step: int
    frame: np.ndarray  # uint8 [H, W, 3]
    rewards: list[float]  # [step + 1]
    q_values: np.ndarray  # float32 [A], those of the last action once the pursuit has ended
    action: int  # the best one; −1: the pursuit has ended
    measures: np.ndarray  # float32 [D]
    reached: dict[str, np.bool]  # of each scored dimension; empty where the goal's are not known


class Attempt(NamedTuple):
    """A pursuit that has ended, to be filmed."""

    goal: np.ndarray  # uint8 [H, W, 3]
    frames: list[np.ndarray]  # n + 1 times uint8 [H, W, 3]
    rewards: list[float]  # [n + 1]


class Averages(NamedTuple):
    """What attempts at M goals ended in, so far."""

    attempts: int
    images: np.ndarray  # uint8 [M, H, W, 3], mean last frames
    shares: np.ndarray  # float32 [M], attempts that reached the goal; NaN where its measures are not known


class Watched:
    """An agent and the worlds it acts in; visitors share what is compiled, and never a world."""

    def __init__(self, folder: RunFolder):
        self.folder = folder
        self.checkpoint = newest(folder.path)
        self.agent: Agent = load(folder.path)
        self._idle: list[ScoredHostEnv] = []
        self._closed = False
        self._idle_lock, self._strip_lock = threading.Lock(), threading.Lock()
        self.used = time.monotonic()
        self._strip_env = self.agent.make_scored_env(STRIP)
        self.actions = names_of(self._strip_env.spec)
        self._evaluate = evaluator(self.agent.learner.imitator, self._strip_env)
        fixed = goal_set(self._strip_env, count=SHOWN)
        self.goal_set = [
            Goal(image, f"no. {i + 1} of the set “{fixed.name}”", measures)
            for i, (image, measures) in enumerate(zip(fixed.images, fixed.measures, strict=True))
        ]

    def refresh(self) -> None:
        """Takes over the parameters and goals of a newer checkpoint, where the run has written one."""
        checkpoint = newest(self.folder.path)
        if checkpoint != self.checkpoint:
            newer = load(self.folder.path)
            self.agent.params, self.agent.steps = newer.params, newer.steps
            self.agent.goal_images, self.checkpoint = newer.goal_images, checkpoint

    def goal_buffer(self) -> list[Goal]:
        """Goals spread over the buffer that the agent was trained with; images of one colour are empty slots."""
        held = [i for i, image in enumerate(self.agent.goal_images) if np.ptp(image)]
        spread = np.linspace(0, len(held) - 1, min(SHOWN, len(held))).round().astype(int)
        return [Goal(self.agent.goal_images[held[i]], f"no. {held[i] + 1} from the goal buffer") for i in spread]

    def achieved(self) -> list[Goal]:
        """What the run had achieved when it finished; nothing where it has not, or where only its agent is there."""
        if not is_finished(self.folder.path):
            return []
        images = load_final(self.folder.path).achieved[:SHOWN]
        return [Goal(image, f"achieved by the run for no. {i + 1}") for i, image in enumerate(images)]

    def steps(self, wanted: float | None = None) -> int:
        """The steps to reach a goal in: those wanted, as far as the agent knows other numbers than T."""
        most = self.agent.horizon
        return min(max(1, round(wanted or most)), most) if self.agent.config.relabel.ends else most

    def pursue(self, goal: Goal, seed: int, steps: int | None = None) -> Iterator[Moment]:
        """n + 1 moments from a fresh start of a world of the pursuit's own."""
        pursuer, rewards = self.agent.pursue(goal.image, steps), list[float]()
        dimensions = self.agent.spec.dimensions
        names = [dimension.name for dimension in dimensions]
        with self._world() as world:
            step = world.reset(seed)
            while True:
                frame, measures = np.asarray(world.observe(step.raw))[0], world.measure(step.raw)[0]
                rewards.append(float(self.agent.reward(frame, pursuer.goal)))
                ended = pursuer.finished
                action = -1 if ended else pursuer.act(frame)
                wanted = goal.measures
                hits = {} if wanted is None else dict(zip(names, reached(measures, wanted, dimensions), strict=True))
                yield Moment(len(rewards) - 1, frame, list(rewards), pursuer.q_values, action, measures, hits)
                if ended:
                    return
                world.send(np.array([action], np.int32))
                step = world.recv()

    def average(self, goals: list[Goal], attempts: int, steps: int | None = None) -> Iterator[Averages]:
        """Attempts at every goal, one after another, and the mean of what they ended in so far."""
        images = np.stack([self.agent.image(goal.image) for goal in goals])
        unknown = np.full(len(self.agent.spec.dimensions), np.nan, np.float32)
        measures = np.stack([unknown if goal.measures is None else goal.measures for goal in goals])
        total, hits = np.zeros(images.shape, np.uint32), np.zeros(len(goals), np.float32)
        for attempt in range(attempts):
            self.used = time.monotonic()
            chosen = GoalSet("chosen", images, measures, "")
            with self._strip_lock:
                score = self._evaluate(self.agent.params, chosen, 1, seed=attempt, steps=steps)
            total += score.final_images
            hits += np.where(np.isnan(measures).any(-1) | (measures.shape[-1] == 0), np.nan, score.by_goal)
            yield Averages(attempt + 1, (total / (attempt + 1)).round().astype(np.uint8), hits / (attempt + 1))

    def layout(self, goals: list[Goal], kind: str) -> np.ndarray:
        """The teacher's embedding of the goals on a plane, [M, 2]: one of LAYOUTS."""
        return LAYOUTS[kind](self.agent.embed(np.stack([goal.image for goal in goals])))

    @contextmanager
    def _world(self) -> Iterator[ScoredHostEnv]:
        """A world that nobody else acts in; it is kept for the next one, unless it broke."""
        self.used = time.monotonic()
        with self._idle_lock:
            world = self._idle.pop() if self._idle else None
        if world is None:
            env = self.agent.make_scored_env()
            world = cast(ScoredHostEnv, env if is_host(env) else Hosted(env, 1))
        try:
            yield world
        except Exception:
            world.close()
            raise
        except GeneratorExit:  # the visitor has left, the world is whole
            self._give_back(world)
            raise
        self._give_back(world)

    def _give_back(self, world: ScoredHostEnv) -> None:
        with self._idle_lock:
            if not self._closed:
                self._idle.append(world)
                return
        world.close()

    def close(self) -> None:
        """Closes every world that is not being acted in."""
        with self._idle_lock:
            worlds, self._idle, self._closed = self._idle, [], True
        for world in worlds:
            world.close()
        with self._strip_lock:
            if is_host(self._strip_env):
                self._strip_env.close()


class Library:
    """The agents under agents/ and runs/ and the one that was named, each loaded once for all visitors."""

    def __init__(self, named: Path | None = None):
        self.named = named
        self._watched: dict[str, Watched] = {}
        self._lock = threading.Lock()
        self._worlds: dict[Path, str] = {}
        if named is not None and find_agent_file(named) is None:
            RunFolder(named).config()

    def folders(self) -> list[RunFolder]:
        """The named one first, then what ships, then runs, the newest first."""
        shipped, runs = (
            [file for name in (AGENT_FILE, "config.json") for file in Path(folder).glob(f"*/{name}")]
            for folder in ("agents", "runs")
        )
        runs.sort(key=lambda file: file.stat().st_mtime, reverse=True)
        found = [file.parent for file in (*sorted(shipped), *runs)]
        return [RunFolder(path) for path in dict.fromkeys([*([self.named] if self.named else []), *found])]

    def agents(self) -> list[str]:
        return [
            str(folder.path)
            for folder in self.folders()
            if find_agent_file(folder.path) or list_checkpoints(folder.checkpoints)
        ]

    def world_of(self, name: str) -> str:
        """The world that a listed agent lives in; nothing where its config cannot be read."""
        try:
            file = find_agent_file(name) or RunFolder(name).config_file
            if file not in self._worlds:
                config = RunFolder(name).config() if file.name == "config.json" else config_in(file)
                self._worlds[file] = config.env
            return self._worlds[file]
        except UserError:
            return ""

    def rivals(self, name: str) -> list[str]:
        """Other agents of the same world."""
        world = self.world_of(name)
        return [other for other in self.agents() if other != name and self.world_of(other) == world]

    def close_idle(self, seconds: float = IDLE_SECONDS) -> None:
        """Lets go of agents that nobody has watched for long, and closes their worlds."""
        with self._lock:
            idle = [name for name, one in self._watched.items() if time.monotonic() - one.used >= seconds]
            for name in idle:
                self._watched.pop(name).close()

    def close(self) -> None:
        self.close_idle(0.0)

    def trainings(self) -> list[str]:
        return [str(folder.path) for folder in self.folders() if folder.metrics_file.exists()]

    def watch(self, name: str) -> Watched:
        """The agent of a listed folder, as its newest checkpoint has it."""
        if name not in self.agents():
            raise UserError(f"there is no agent in {name} any more")
        with self._lock:
            if name not in self._watched:
                self._watched[name] = Watched(RunFolder(name))
            self._watched[name].refresh()
            self._watched[name].used = time.monotonic()
            return self._watched[name]


def together(pursuits: Sequence[Iterator[Moment]]) -> Iterator[list[Moment]]:
    """Several pursuits in step; who has ended waits for the others."""
    latest = [next(pursuit) for pursuit in pursuits]
    while True:
        yield latest
        if all(moment.action < 0 for moment in latest):
            return
        latest = [next(pursuit, moment) for pursuit, moment in zip(pursuits, latest, strict=True)]


def film(attempts: Sequence[Attempt], path: Path, frames_per_second: int) -> Path:
    """Writes attempts side by side as an .mp4; the shorter ones wait at their end."""
    require("video", "a film")
    films = [side_by_side(one.goal, np.stack(one.frames), np.array(one.rewards)) for one in attempts]
    longest = max(map(len, films)) + frames_per_second  # what was achieved is shown for a second
    whole = [np.concatenate([frames, frames[-1:].repeat(longest - len(frames), 0)]) for frames in films]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_video(path, np.concatenate(whole, axis=2), frames_per_second)
    return path


def principal_axes(vectors: np.ndarray) -> np.ndarray:
    """Vectors [M, E] along their two widest directions, [M, 2]."""
    left, widths, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    return left[:, :2] * widths[:2]


def neighbours(vectors: np.ndarray) -> np.ndarray:
    """Unit vectors [M, E] so that like ones lie together: the slowest two waves of the graph of likeness, [M, 2]."""
    likeness = (
        np.maximum(0.0, vectors.astype(np.float64) @ vectors.T) ** 4
    )  # far ones, all somewhat alike, must not pull
    degree = np.sqrt(likeness.sum(1, keepdims=True))
    _, waves = np.linalg.eigh(likeness / (degree * degree.T))
    return waves[:, -2:-4:-1] / degree


LAYOUTS = {"neighbours": neighbours, "principal axes": principal_axes}
