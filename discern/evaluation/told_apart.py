"""Told apart: how often an attempt's last frame is nearer to its own goal than to 31 others, in any world.

Nothing need be scored for it. Nearness is that of pixels, and of an embedding that neither the policy nor its teacher
trained: pairs of frames of random play that no agent learns from, the same for every seed and every run in a world.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from discern.agent.networks import Torso
from discern.agent.rewards.discern import embed
from discern.agent.rewards.pairs import PairReward
from discern.config import Config, NetworkConfig, replace
from discern.envs import Hosted, HostEnv, is_host, make_env, opened
from discern.envs.base import Attempts, Dimension, ScoredHostEnv, measured, where_rows
from discern.evaluation.achievement import TOLERANCE, apart
from discern.evaluation.goal_sets import GoalSet
from discern.presets import preset, suite_of
from discern.types import Params

OTHERS = 31
SEEDS = 20_190_508, 20_190_509  # of two plays of the same actions: one to train on, one that is not seen before
P_NEW_ACTION = 0.25  # random play keeps an action for four steps on average, so that it gets somewhere
TWINS, GROUPS = 8, {"gym": 4, "lab": 2, "atari": 8, "control": 4}  # a step of some worlds is dear
BYTES = 2**26  # of a play's frames, at most, where steps are cheap
UPDATES, PAIRS, GROUPS_AT_ONCE, MEAN_GAP = 300, 2, 8, 3.0


class Play(NamedTuple):
    """N trajectories of random play, whole groups of twins side by side."""

    frames: np.ndarray  # uint8 [N, T+1, H, W, 3]
    measures: np.ndarray  # float32 [N, T+1, D]; D is 0 where nothing can be measured


class Shares(NamedTuple):
    """How many last frames are told apart, with nearness in the embedding and in pixels."""

    embedded: float
    pixels: float


def squared_distances(these: np.ndarray, those: np.ndarray) -> np.ndarray:
    """‖a − b‖² in float64, which is exact for bytes: [N, E], [M, E] → [N, M]."""
    a, b = (np.asarray(vectors, np.float64) for vectors in (these, those))
    return np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T


def rivals(distances: np.ndarray, own: np.ndarray) -> np.ndarray:
    """How many other goals are at least as near as the own one: [N, M], int [N] → int [N]."""
    to_own = distances[np.arange(len(own)), own]
    return np.asarray((distances <= to_own[:, None] + 1e-9).sum(1) - 1)


def share_told_apart(rivals: np.ndarray, goals: int) -> float:
    """The share of frames with so many rivals, int [N], that have none among 31 of the other goals, or as many as there
    are: the mean over every choice of the 31, ∏ᵢ (M − 1 − rivals − i) / (M − 1 − i)."""
    others = goals - 1
    drawn = np.arange(min(OTHERS, others))
    return float((np.maximum(0, others - rivals[:, None] - drawn) / (others - drawn)).prod(1).mean())


def chance(goals: int) -> float:
    """What a last frame that knows nothing of its goal gets."""
    return 1 / (1 + min(OTHERS, goals - 1))


def row(agent: Shares | None, random: Shares | None, ceiling: Shares | None) -> dict[str, float]:
    """What metrics.jsonl says of an evaluation: nothing where goals were not told apart."""
    if agent is None:
        return {}
    others = {"random": random, "ceiling": ceiling}
    known = {f"told_apart_{name}": share.embedded for name, share in others.items() if share is not None}
    return {"told_apart": agent.embedded, "told_apart_pixels": agent.pixels} | known


def sentence(agent: Shares, random: Shares | None, ceiling: Shares | None, goals: int, attempts: int) -> str:
    """The same to read, with the chance that goes with so many goals, and of how many attempts it is."""
    beside = {"random policy": random and random.embedded, "at best": ceiling and ceiling.embedded}
    shown = {name: share for name, share in beside.items() if share is not None} | {"chance": chance(goals)}
    among = f"told apart from {min(OTHERS, goals - 1)} other goals {agent.embedded:.1%} of {attempts} attempts"
    compared = ", ".join(f"{name} {share:.1%}" for name, share in shown.items())
    return f"{among}, by pixels {agent.pixels:.1%} ({compared})"


class ToldApart:
    """A world's embedding, and what it says of last frames."""

    def __init__(self, params: Params, seen: Play, unseen: Play):
        """Two plays of the same actions after other starts: the embedding was trained on the first."""
        self._params, self._ends, self._unseen = params, seen.frames[:, -1], unseen

    def rivals(self, images: np.ndarray, goals: np.ndarray, own: np.ndarray) -> np.ndarray:
        """How many goals rival the own one of last frames, in the embedding and in pixels: uint8 [N, H, W, 3] and
        [M, H, W, 3], int [N] → int [2, N]."""
        seen = [np.asarray(embedded(self._params, some)) for some in (images, goals)]
        flat = [np.reshape(some, (len(some), -1)) for some in (images, goals)]
        return np.stack([rivals(squared_distances(*pair), own) for pair in (seen, flat)])

    @staticmethod
    def shares(rivals: np.ndarray, goals: int) -> Shares:
        """From how many of so many goals rival each frame's own."""
        return Shares(*(share_told_apart(of_one, goals) for of_one in rivals))

    def ceiling(self, goals: GoalSet, dimensions: tuple[Dimension, ...]) -> Shares | None:
        """What frames of the goals' own states get: for each goal, the frame of play that is nearest to it in the
        scored dimensions, if that reaches it; where none can be measured, what its own actions end in after another
        start, for goals that are ends of play."""
        images, ends, own = self._ends, self._unseen.frames[:, -1], np.arange(len(self._ends))
        frames, measures = (np.concatenate(part) for part in self._unseen)
        if measures.shape[-1]:
            nearest, reaches = nearest_frames(measures, goals.measures, dimensions)
            images, ends, own = goals.images, frames[nearest[reaches]], np.flatnonzero(reaches)
        return self.shares(self.rivals(ends, images, own), len(images)) if len(own) else None


def nearest_frames(
    measures: np.ndarray, wanted: np.ndarray, dimensions: tuple[Dimension, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """For each goal the frame that comes nearest in its worst dimension, and whether it reaches the goal: [F, D],
    [M, D] → int [M], bool [M]."""
    off = np.nan_to_num(np.stack([apart(measures, goal, dimensions).max(-1) for goal in wanted]), nan=np.inf)
    return off.argmin(1), off.min(1) <= TOLERANCE


def told_apart_in(config: Config) -> ToldApart:
    """The measure of the config's world, the same for every run there, however long its actions are held; learned once
    in a process."""
    config = replace(config, {"control.action_repeat": None})
    world = (config.env, config.atari, config.control, config.gym)
    if world not in LEARNED:
        seen, unseen = plays(config)
        LEARNED[world] = ToldApart(learn(seen.frames, twins_in(config)), seen, unseen)
    return LEARNED[world]


LEARNED: dict[Any, ToldApart] = {}


def twins_in(config: Config) -> int:
    """Lab cannot go back to a state, so there each is alone."""
    return 1 if suite_of(config.env) == "lab" else TWINS


def plays(config: Config) -> tuple[Play, Play]:
    """The same random actions after two starts, in environments of their own."""
    usual, twins = preset(config.env), twins_in(config)
    steps = usual.actor.horizon * (usual.control.action_repeat or 1)
    attempts = Attempts(steps, twins) if twins > 1 else None
    groups = GROUPS.get(suite_of(config.env))
    with opened(make_env(config.env, TWINS * (groups or 1), config, attempts)) as env:
        if not is_host(env):
            room = BYTES // ((steps + 1) * int(np.prod(env.spec.image_shape)))
            env = Hosted(env, TWINS * min(128, max(1, room // TWINS)), attempts)
        chance = np.random.default_rng(SEEDS[0])
        actions = chance.integers(env.spec.actions, size=(steps, env.size), dtype=np.int32)
        for t in range(1, steps):
            actions[t] = np.where(chance.random(env.size) < P_NEW_ACTION, actions[t], actions[t - 1])
        observe = jax.jit(env.observe)
        first, second = (play(env, observe, actions, seed) for seed in SEEDS)
    return first, second


def play(env: HostEnv, observe: Callable[[Any], Any], actions: np.ndarray, seed: int) -> Play:
    """What comes of the actions, int32 [T, N]; after the end of an episode, its last frame."""

    def look(raw: Any) -> Play:
        measures = cast(ScoredHostEnv, env).measure(raw) if measured(env) else np.zeros((env.size, 0), np.float32)
        return Play(np.array(observe(raw)), np.array(measures))  # copies: the next step may write over them

    step = env.reset(seed)
    seen, over = [look(step.raw)], np.zeros(env.size, bool)
    for chosen in actions:
        over = over | step.is_last
        env.send(chosen)
        step = env.recv()
        seen.append(Play(*jax.tree.map(partial(where_rows, jnp.asarray(over)), seen[-1], look(step.raw))))
    return Play(*(np.stack(part, axis=1) for part in zip(*seen, strict=True)))


@jax.jit
def embedded(params: Params, images: jax.Array) -> jax.Array:
    """Unit vectors of images: uint8 [..., H, W, 3] → [..., E]."""
    features: Any = Torso(network(images.shape[-2])).apply({"params": params["torso"]}, images)
    return embed(params["teacher"], features)


def network(side: int) -> NetworkConfig:
    """The torso for images of so many pixels a side: matrix products, which a CPU does soonest."""
    layers: dict[str, Any] = {"channels": (32, 64), "kernels": (6, 2), "strides": (6, 2), "features": 256}
    if side < 48:
        layers = {"channels": (32,), "kernels": (4,), "strides": (4,), "features": 128}
    return NetworkConfig(**layers, subtract_mean_image=True)


def learn(frames: np.ndarray, twins: int) -> Params:
    """An embedding in which frames that follow one another are near, beside what twins show at the same moment; or,
    where there are none, beside other trajectories' (InfoNCE): from frames [N, T+1, H, W, 3]."""
    reward = PairReward(32, 10.0, hidden=128, temporal=twins == 1, twins=twins if twins > 1 else None)
    config, chance = network(frames.shape[-2]), np.random.default_rng(0)
    torso, key = Torso(config), jax.random.key(0)
    params = {
        "torso": torso.init(key, jnp.asarray(frames[0, :1]))["params"],
        "teacher": reward.init(jax.random.fold_in(key, 1), config.features, (frames.shape[-3], frames.shape[-2], 3)),
    }
    params["torso"]["mean_image"] = frames.mean((0, 1), np.float32) / 255
    optimiser = optax.adam(optax.cosine_decay_schedule(3e-3, UPDATES))

    def loss(params: Params, drawn: jax.Array) -> jax.Array:
        first = jnp.broadcast_to(jnp.arange(PAIRS), (len(drawn), PAIRS))
        similar = reward.similarities(embedded(params, drawn), first, first + PAIRS)
        return -nn.log_softmax(reward.inverse_temperature * similar)[:, 0].mean()

    @jax.jit
    def update(params: Params, state: Any, drawn: jax.Array) -> tuple[Params, Any]:
        changes, state = optimiser.update(jax.grad(loss)(params, drawn), state, params)
        return optax.apply_updates(params, changes), state

    state = optimiser.init(params)
    for _ in range(UPDATES):
        params, state = update(params, state, draw(chance, frames, twins))
    return params


def draw(chance: np.random.Generator, frames: np.ndarray, twins: int) -> np.ndarray:
    """Pairs of frames of some groups, P first ones and P that follow them soon, at the same moments in all twins:
    [N, T+1, H, W, 3] → [B, 2P, H, W, 3]."""
    groups, length = len(frames) // twins, frames.shape[1]
    chosen = chance.permutation(groups)[: GROUPS_AT_ONCE * TWINS // twins]
    gap = np.minimum(chance.geometric(1 / MEAN_GAP, (len(chosen), PAIRS)), length - 1)
    first = chance.integers(length - gap)
    moments = np.concatenate([first, first + gap], axis=1).repeat(twins, axis=0)
    members = (chosen[:, None] * twins + np.arange(twins)).reshape((-1, 1))
    return frames[members, moments]
