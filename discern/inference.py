"""A trained agent in the user's hands: load it, give it a goal image, let it act."""

import os
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int32, UInt8
from PIL import Image

from discern.agent.learner import shared_learner
from discern.agent.policy import Pursuit, act, begin_pursuit
from discern.config import Config
from discern.envs import AnyEnv, Env, ScoredEnv, is_host, make_env, make_scored_env, names_code, opened, spec_of
from discern.envs.base import EnvSpec, Hosted
from discern.planning import ATTEMPTS, Compass, Journey, Planner
from discern.storage.agent_file import AgentFile, find_agent_file, read_agent, write_agent
from discern.storage.checkpoint import fill, latest_checkpoint, named_arrays
from discern.storage.run_folder import AGENT_FILE, RunFolder, make_folder, refuse_unless_free
from discern.storage.state import load_agent
from discern.types import Array, Frames, Params, Precision, UserError

TRUST = "DISCERN_TRUST_WORLD"
PARTS = ("torso", "core", "reward")  # of the parameters, what acts and what judges


class Reached(NamedTuple):
    """What came of pursuing a goal for n steps: observations, actions, Q-values and learned rewards along the way."""

    goal: np.ndarray  # uint8 [H, W, 3]
    observations: np.ndarray  # uint8 [n+1, H, W, 3]
    actions: np.ndarray  # int32 [n]
    q_values: np.ndarray  # float32 [n, A]
    rewards: np.ndarray  # float32 [n+1], how much each observation is like the goal, to the teacher
    waypoints: np.ndarray  # uint8 [W, H, W, 3], what was pursued on the way


class Agent:
    """A goal-reaching policy and its learned reward; one that comes `from_file` may be a stranger's."""

    def __init__(
        self,
        config: Config,
        spec: EnvSpec,
        params: Params,
        goal_images: np.ndarray,
        steps: int,
        from_file: Path | None = None,
        longest: int | None = None,
    ):
        self.config, self.spec, self.params = config, spec, params
        self.goal_images, self.steps, self.from_file = goal_images, steps, from_file
        self.learner = shared_learner(config, spec)
        self.horizon = config.actor.horizon
        self.longest = self.horizon  # what a pursuit takes at most
        self.longest = self.budget(longest)
        imitator = self.learner.imitator

        @jax.jit
        def choose(
            params: Params, pursuit: Pursuit, image: UInt8[Array, "H W 3"]
        ) -> tuple[Pursuit, Int32[Array, " 1"], Float[Array, "1 A"]]:
            return act(imitator, params, pursuit, image[None], jnp.zeros(1), jax.random.key(0))

        @jax.jit
        def reward(
            params: Params, observations: UInt8[Array, "M H W 3"], goals: UInt8[Array, "M H W 3"]
        ) -> Float[Array, " M"]:
            achieved = Frames(imitator.features(params, observations), observations)
            wanted = Frames(imitator.features(params, goals), goals)
            some = jnp.asarray(goal_images[: config.reward.decoys])  # log q̂ needs decoys, the other rewards do not
            decoys = Frames(imitator.features(params, some), some)
            return self.learner.reward.reward(params["reward"], achieved, wanted, decoys)

        @jax.jit
        def embedded(params: Params, images: UInt8[Array, "M H W 3"]) -> Float[Array, "M embedding"]:
            return self.learner.embed(params, imitator.features(params, images))

        self._choose, self._reward, self._embed = choose, reward, embedded
        self._features = jax.jit(imitator.features)

    def budget(self, steps: int | None = None) -> int:
        """The steps to reach a goal in: T unless fewer are asked for; a UserError where the agent knows no fewer."""
        if steps is None:
            return self.longest
        if not 1 <= steps <= self.longest:
            raise UserError(f"this agent takes 1 to {self.longest} steps to a goal, not {steps}")
        if steps < self.horizon and not self.config.relabel.ends:
            raise UserError(f"this agent knows only {self.horizon} steps: for {steps}, train one with --relabel.ends")
        return steps

    def limited(self, longest: int | None) -> "Agent":
        """The same agent with at most so many steps for a pursuit instead of T, if it was trained with ends."""
        return Agent(
            self.config, self.spec, self.params, self.goal_images, self.steps, self.from_file, self.budget(longest)
        )

    def pursue(self, goal: np.ndarray, steps: int | None = None, stop_early: bool = False) -> "Pursuer":
        """A policy for a loop of your own: `.act(observation)` until `.finished`, after T steps or those asked for.

        One that stops early is also finished when `.arrived(observation)` says so.
        """
        arrival = self.arrival if stop_early else None
        return Pursuer(self, self.image(goal, "the goal"), self.budget(steps), arrival)

    def reach(
        self, env: Env, goal: np.ndarray, seed: int = 0, steps: int | None = None, stop_early: bool = False
    ) -> Reached:
        """Pursues the goal for T steps, or those asked for, or until it is there, from a fresh start of the world."""
        self._refuse_other_world(env)
        return self._follow(env, self.pursue(goal, steps, stop_early), seed)

    def plan(
        self, env: Env, goal: np.ndarray, seed: int = 0, steps: int | None = None, stop_early: bool = False
    ) -> Reached:
        """Pursues a far goal over waypoints of the goal buffer, for 3 T steps, or for those asked for."""
        self._refuse_other_world(env)
        return self._follow(env, self.planner.pursue(self.image(goal, "the goal"), steps, stop_early), seed)

    def _follow(self, env: Env, pursuer: "Pursuer | Journey", seed: int) -> Reached:
        host = env if is_host(env) else Hosted(env, 1)
        if host.size != 1:
            raise UserError(f"reach() acts in one environment, not {host.size}: make_env(name, 1)")
        step = host.reset(seed)
        frames, actions, q_values = [np.array(host.observe(step.raw))[0]], [], []
        while not (pursuer.finished or pursuer.arrived(frames[-1])):
            actions.append(pursuer.act(frames[-1]))
            q_values.append(pursuer.q_values)
            host.send(np.array([actions[-1]], np.int32))
            frames.append(np.array(host.observe(host.recv().raw))[0])
        observations = np.stack(frames)
        rewards = self.reward(observations, np.broadcast_to(pursuer.goal, observations.shape))
        values = np.array(q_values, np.float32).reshape((-1, self.spec.actions))
        return Reached(pursuer.goal, observations, np.array(actions, np.int32), values, rewards, pursuer.waypoints)

    @cached_property
    def compass(self) -> Compass:
        """What it expects of pursuits, compiled."""
        return Compass(self.learner, self.params, self.goal_images, self.config.reward.decoys, self.longest)

    @cached_property
    def arrival(self) -> float:
        """The learned reward to stop early at: from attempts of its own, made once, in its own world."""
        with opened(self.make_env(ATTEMPTS)) as env:
            return self.compass.arrival(env if is_host(env) else Hosted(env, ATTEMPTS))

    @cached_property
    def planner(self) -> Planner:
        """Finds ways to far goals: `.pursue(goal)` is `pursue` over waypoints. It practises once, in its own world."""
        with opened(self.make_env(ATTEMPTS)) as env:
            practice = self.compass.practise(env if is_host(env) else Hosted(env, ATTEMPTS))
        return Planner(self.compass, practice, self.arrival)

    def make_env(self, n: int = 1) -> Env:
        """The world it was trained in; worlds that run on the host come as `n` environments."""
        self._refuse_foreign_code()
        return self._in_its_world(make_env(self.config.env, n, self.config))

    def make_scored_env(self, n: int = 1) -> ScoredEnv:
        """The same world, in which it can be measured what was achieved."""
        self._refuse_foreign_code()
        return self._in_its_world(make_scored_env(self.config.env, n, self.config))

    def _refuse_foreign_code(self) -> None:
        """Weights and settings cannot run, but a world may be code, and a file may name any that is installed."""
        if self.from_file and names_code(self.config) and not os.environ.get(TRUST):
            raise UserError(
                f"{self.from_file} names code to make its world with, {self.config.env} {self.config.gym.make_args!r}: "
                f"if you trust who wrote it, set {TRUST}=1"
            )

    def _in_its_world(self, env: AnyEnv) -> AnyEnv:
        try:
            self._refuse_other_world(env)
        except UserError:
            if is_host(env):
                env.close()
            raise
        return env

    def _refuse_other_world(self, env: Env) -> None:
        if env.spec.image_shape != self.spec.image_shape or env.spec.actions != self.spec.actions:
            raise UserError(
                f"this agent lives in {self.spec.name}: images {self.spec.image_shape}, {self.spec.actions} actions; "
                f"{env.spec.name} has {env.spec.image_shape} and {env.spec.actions}"
            )

    def reward(self, observation: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """How much an observation achieves the goal, in [0, 1]; both may have the same leading axes."""
        observation, goal = np.asarray(observation), np.asarray(goal)
        many = observation.ndim > 3 and observation.shape == goal.shape
        if not many:
            observation, goal = self.image(observation, "the observation")[None], self.image(goal, "the goal")[None]
        elif observation.dtype != np.uint8 or goal.dtype != np.uint8 or observation.shape[-3:] != self.spec.image_shape:
            raise UserError(f"many images at once must be uint8 [..., {', '.join(map(str, self.spec.image_shape))}]")
        rewards = np.asarray(self._reward(self.params, jnp.asarray(observation), jnp.asarray(goal)))
        return rewards if many else rewards[0]

    def features(self, images: np.ndarray) -> np.ndarray:
        """h of images, uint8 [M, H, W, 3] → [M, F]."""
        return np.asarray(self._features(self.params, jnp.asarray(images)))

    def embed(self, images: np.ndarray) -> np.ndarray:
        """The teacher's embedding of images, uint8 [M, H, W, 3] → [M, E]; the torso's features where it has none."""
        return np.asarray(self._embed(self.params, jnp.asarray(images)))

    def save(self, path: str | Path, precision: Precision = "int8") -> Path:
        """Writes the agent alone into a new folder, small enough to hand on; `load` reads it.

        In float32 it acts as it does now, to the bit; in int8, the default, it is a quarter as large.
        """
        folder = Path(path)
        refuse_unless_free(folder)
        make_folder(folder)
        params = named_arrays({part: self.params[part] for part in PARTS})
        content = AgentFile(self.config, self.spec, params, self.goal_images, self.steps)
        write_agent(folder / AGENT_FILE, content, precision)
        return folder

    def image(self, image: np.ndarray, what: str = "the image") -> np.ndarray:
        """The image as the agent sees it, uint8 [H, W, 3]: any size, bytes or floats in [0, 1], grey, RGB or RGBA."""
        return as_observation(image, self.spec.image_shape, what)


class Pursuer:
    """One goal being pursued: the clock and the recurrent state are kept inside."""

    waypoints: np.ndarray  # uint8 [0, H, W, 3]: it goes straight for the goal

    def __init__(self, agent: Agent, goal: np.ndarray, budget: int, arrival: float | None = None):
        self.agent, self.goal, self.budget, self.arrival = agent, goal, budget, arrival
        features = agent._features(agent.params, jnp.asarray(goal[None]))
        self._pursuit = begin_pursuit(features, agent.config.network.lstm, agent.horizon - budget)
        self._is_there = False
        self.waypoints = np.zeros((0, *goal.shape), np.uint8)
        self.steps = 0
        self.q_values: np.ndarray = np.zeros(agent.spec.actions, np.float32)

    @property
    def finished(self) -> bool:
        """Whether the actions that the goal was to take are spent, or `arrived` saw the goal."""
        return self.steps >= self.budget or self._is_there

    def arrived(self, observation: np.ndarray) -> bool:
        """Whether the observation shows the goal, to one that stops early; then it is finished."""
        if self.arrival is not None:
            self._is_there |= bool(self.agent.reward(observation, self.goal) >= self.arrival)
        return self._is_there

    def act(self, observation: np.ndarray) -> int:
        """The best action at this observation; the clock moves on by one."""
        if self.finished:
            spent = f"{self.budget} steps are spent" if self.steps >= self.budget else "goal is reached"
            raise UserError(f"this pursuit's {spent}: call pursue() again")
        image = jnp.asarray(self.agent.image(observation, "the observation"))
        self._pursuit, actions, q_values = self.agent._choose(self.agent.params, self._pursuit, image)
        self.steps += 1
        self.q_values = np.asarray(q_values[0])
        return int(actions[0])


def load(path: str | Path) -> Agent:
    """The agent of an exported folder or file, or of a run folder at its newest checkpoint."""
    file = find_agent_file(path)
    if file is not None:
        return _load_file(file)
    folder = RunFolder(path)
    config = folder.config()
    spec = spec_of(config)
    return Agent(config, spec, *load_agent(folder, _shapes(config, spec)))


def newest(path: str | Path) -> Path:
    """The file or checkpoint that `load` reads."""
    return find_agent_file(path) or latest_checkpoint(RunFolder(path).checkpoints)


def _load_file(file: Path) -> Agent:
    config, spec, arrays, goal_images, steps = read_agent(file)
    try:
        shapes = _shapes(config, spec)
    except Exception as error:  # a stranger's numbers may overflow anything
        raise UserError(f"{file} has a config that no network can be made from") from error
    template = {part: shapes[part] for part in PARTS}
    params = fill(template, arrays, "", file)
    if len(arrays) != len(jax.tree.leaves(template)):
        raise UserError(f"{file} belongs to another agent: it holds more tensors than its config asks for")
    return Agent(config, spec, params, goal_images, steps, from_file=file)


@lru_cache(maxsize=16)
def _shapes(config: Config, spec: EnvSpec) -> Params:
    """The shapes of an agent's parameters."""
    goals = jax.ShapeDtypeStruct((config.goal_buffer.capacity, *spec.image_shape), jnp.uint8)
    return jax.eval_shape(shared_learner(config, spec).init, jax.random.key(0), goals).params


def as_observation(image: np.ndarray, shape: tuple[int, int, int], what: str) -> np.ndarray:
    """Any image that makes sense as uint8 of the given shape; a UserError that says why otherwise."""
    try:
        array = np.asarray(image)
    except ValueError:
        raise UserError(f"{what} is not an array of pixels") from None
    if array.dtype == np.uint8 and array.shape == shape:
        return array
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[-1] not in (1, 3, 4) or 0 in array.shape:
        raise UserError(f"{what} must be [height, width] or [height, width, 1, 3 or 4], not {np.shape(image)}")
    if array.dtype == bool or array.dtype.kind not in "uif":
        raise UserError(f"{what} must hold bytes or floats in [0, 1], not {array.dtype}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or array.min() < 0 or array.max() > 1:
            raise UserError(f"{what} holds floats outside [0, 1]")
        array = np.round(array * 255)
    elif array.min() < 0 or array.max() > 255:
        raise UserError(f"{what} holds integers outside 0 … 255")
    array = array.astype(np.uint8)
    array = np.repeat(array, 3, axis=-1) if array.shape[-1] == 1 else array[..., :3]
    if array.shape != shape:
        array = np.asarray(Image.fromarray(array).resize((shape[1], shape[0]), Image.Resampling.BOX))
    return array
