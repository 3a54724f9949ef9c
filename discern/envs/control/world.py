"""The Control Suite's seven domains: native MuJoCo physics on threads, pictures by ray casting on the accelerator.

Models, tasks and first states are dm_control's own; no OpenGL is needed. Goals show a pose: a target that the task
draws stays in the picture where the task put it, and no scored dimension speaks of it.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco.batch import Batch

from discern.envs.base import GOAL_SEEDS, Attempts, EnvSpec, Half, HostStep
from discern.envs.control.tasks import DOMAINS, Starts, action_names, action_table, dimensions
from discern.machine import available_cores
from discern.rendering import Poses, Stage, draw, set_stage
from discern.types import UserError

SIDE = 84
EPISODE = 1000  # agent steps, as the suite has it
GOALS = 100
FIELDS = ("qpos", "ctrl", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat")


class Look(NamedTuple):
    """What is needed to draw N environments, and to measure them."""

    position: np.ndarray  # float32 [N, M, 3], of what moves, and of a string's ends
    rotation: np.ndarray  # float32 [N, M, 3, 3]
    qpos: np.ndarray  # float32 [N, D], of the scored joints


class Control:
    """N simulations of one domain, to train in and to score in."""

    goal_sets = ("paper",)

    def __init__(
        self,
        name: str,
        n: int,
        episode: int = EPISODE,
        attempts: Attempts | None = None,
        action_repeat: int | None = None,
    ):
        if name not in DOMAINS:
            known = ", ".join(f"control/{domain}" for domain in DOMAINS)
            raise UserError(f"there is no world 'control/{name}'; there are: {known}")
        self._domain = DOMAINS[name]
        self._name = name
        self._starts = Starts(name)
        model = self._starts.model
        self._controls = action_table(model, self._domain)
        self._substeps = self._starts.substeps * (action_repeat or self._domain.action_repeat)
        scored = dimensions(model, self._domain)
        named = action_names(model, self._domain)
        self.spec = EnvSpec(f"control/{name}", (SIDE, SIDE, 3), len(self._controls), scored, action_names=named)
        self._scored = [int(model.joint(dimension.name).qposadr[0]) for dimension in scored]
        self.size = n
        self._stage = stage_of(name)
        self._batch = Batch(model, nsim=n, nthread=min(n, available_cores()))
        self._fields = {name: self._batch.bind(name) for name in FIELDS}  # a field is filled only after it was bound
        self._placed = np.zeros((n, len(self._domain.placed), 3))
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="control")
        self._stepping: Future[HostStep] | None = None
        self._attempts = attempts
        self._episode = episode if attempts is None else attempts.horizon
        self._age = np.zeros(n, int)
        self._chance = np.random.default_rng(0)

    def reset(self, seed: int) -> HostStep:
        if self._stepping is not None:
            self.recv()
        return self._worker.submit(self._start, seed).result()

    def send(self, actions: np.ndarray) -> None:
        self._stepping = self._worker.submit(self._step, np.array(actions))

    def recv(self) -> HostStep:
        """An environment whose episode has ended ignores its action and starts over."""
        if self._stepping is None:
            raise RuntimeError("recv() before send()")
        step, self._stepping = self._stepping.result(), None
        return step

    def observe(self, raw: Any) -> jax.Array:
        return _draw_on(self._name)(Poses(raw.position, raw.rotation))

    def measure(self, raw: Any) -> np.ndarray:
        return np.asarray(raw.qpos)

    def goals(self, name: str, half: Half, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Images uint8 [M, 84, 84, 3] and measures float32 [M, D]; fewer than a half's 100 are spread over it."""
        if count > GOALS:
            raise UserError(f"each half of the goal set '{name}' of {self.spec.name} has {GOALS} goals, not {count}")
        seed = GOAL_SEEDS[half]
        play, chance = Control(self._domain.goals_from or self._name, GOALS), np.random.default_rng(seed)
        step = play.reset(seed)
        for _ in range(self._domain.goal_steps):
            play.send(chance.integers(self.spec.actions, size=GOALS))
            step = play.recv()
        play.close()
        chosen = np.linspace(0, GOALS - 1, count).round().astype(int)
        return self._drawn(play, chosen), self.measure(step.raw)[chosen]

    def close(self) -> None:
        self._worker.shutdown()

    def _drawn(self, play: "Control", chosen: np.ndarray) -> np.ndarray:
        """Pictures of chosen simulations of another batch, the same whatever the accelerator."""
        with jax.default_device(jax.devices("cpu")[0]):
            return np.asarray(self.observe(jax.tree.map(lambda part: part[chosen], play._look())))

    def _start(self, seed: int) -> HostStep:
        """First episodes differ in length, from one usual length to two, so that later ones do not end together."""
        self._starts.reseed(seed)
        self._chance = np.random.default_rng(seed)
        twins = 1 if self._attempts is None else self._attempts.twins
        self._begin(np.arange(self.size), self._attempts and replace(self._attempts, p_restart=1.0))
        self._age = -(np.arange(self.size) // twins * twins * self._episode // self.size)
        return self._step_of(is_first=np.ones(self.size, bool))

    def _begin(self, which: np.ndarray, attempts: Attempts | None) -> None:
        """Puts simulations into first states; or whole groups of them together into one, or where a member is."""
        self._age[which] = 0
        if attempts is None:
            self._batch.state[which], self._placed[which] = self._starts.draw(len(which))
        else:
            groups = which.reshape((-1, attempts.twins))
            leader = self._chance.choice(attempts.twins, len(groups)) + groups[:, 0]
            states, placed = self._batch.state[leader], self._placed[leader]
            restart = self._chance.random(len(groups)) < attempts.p_restart
            states[restart], placed[restart] = self._starts.draw(int(restart.sum()))
            self._batch.state[which], self._placed[which] = (x.repeat(attempts.twins, 0) for x in (states, placed))
        self._batch.forward(which, stage=mujoco.mjtStage.mjSTAGE_POS.value)

    def _step(self, actions: np.ndarray) -> HostStep:
        over = self._age == self._episode
        self._fields["ctrl"][:] = self._controls[actions]
        self._batch.step(nstep=self._substeps, stage=mujoco.mjtStage.mjSTAGE_POS.value)
        self._age += 1
        if over.any():
            self._begin(np.flatnonzero(over), self._attempts)
        return self._step_of(is_first=over)

    def _step_of(self, is_first: np.ndarray) -> HostStep:
        return HostStep(self._look(), is_first, self._age == self._episode)

    def _look(self) -> Any:
        scene, drawn, fields = self._stage.scene, self._stage.scene.drawn, self._fields
        geoms, sites = (drawn.number[drawn.moves & (drawn.is_site == site)] for site in (False, True))
        ends = [] if scene.string is None else list(scene.string.ends)
        at_geoms = fields["geom_xpos"][:, geoms]
        at_geoms[:, np.searchsorted(geoms, self._starts.placed)] = self._placed
        turned = (fields["geom_xmat"][:, geoms], fields["site_xmat"][:, sites])
        return Look(
            position=np.concatenate([at_geoms, fields["site_xpos"][:, [*sites, *ends]]], 1).astype(np.float32),
            rotation=np.concatenate(turned, 1).reshape((self.size, -1, 3, 3)).astype(np.float32),
            qpos=fields["qpos"][:, self._scored].astype(np.float32),
        )


class View(NamedTuple):
    """N pictures, and what is needed to measure them."""

    image: np.ndarray  # uint8 [N, 84, 84, 3]
    qpos: np.ndarray  # float32 [N, D], of the scored joints


class OpenGLControl(Control):
    """The same worlds drawn by dm_control itself, one picture after the other, where the user has OpenGL."""

    def __init__(self, name: str, n: int, *settings: Any):
        super().__init__(name, n, *settings)
        self._camera = self._worker.submit(self._starts.camera, SIDE).result()  # OpenGL belongs to one thread

    def observe(self, raw: Any) -> jax.Array:
        return jnp.asarray(raw.image)

    def close(self) -> None:
        self._worker.submit(self._starts.close)
        super().close()

    def _drawn(self, play: Control, chosen: np.ndarray) -> np.ndarray:
        return self._worker.submit(self._render, play._batch.state[chosen], play._placed[chosen]).result()

    def _render(self, states: np.ndarray, placed: np.ndarray) -> np.ndarray:
        return np.stack([self._starts.show(self._camera, *one) for one in zip(states, placed, strict=True)])

    def _look(self) -> Any:
        return View(self._render(self._batch.state, self._placed), super()._look().qpos)


@cache
def stage_of(name: str) -> Stage:
    """The domain's scene, painted once for all environments of a process."""
    starts = Starts(name)
    return set_stage(starts.model, starts.data, DOMAINS[name].placed, SIDE)


@cache
def _draw_on(name: str) -> Callable[[Poses], jax.Array]:
    return jax.jit(partial(draw, stage_of(name)))
