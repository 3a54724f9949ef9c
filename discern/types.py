"""The arrays that travel between the rooms: shapes and dtypes, written once.

Axes: B trajectories, T steps, G goals for one trajectory, E extra goals, K decoys, N environments, F features,
A actions, U units of the LSTM, D scored dimensions, C goals of the buffer; an image is uint8 [H, W, 3]. In front of a
batch's axes there may be others, S: of its shards, or of several batches for one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Float, Float32, Int32, UInt8, UInt32
else:
    Array = Any  # JAX takes seconds to import, and errors and settings have no use for it

Params = Any
Precision = Literal["int8", "float32"]  # of an exported agent's weights
WandbMode = Literal["online", "offline"]
PRNGKey = Array
Metrics = dict[str, Array]


class Trajectories(NamedTuple):
    """Whole trajectories: T actions and the T + 1 observations around them, under one intended goal."""

    observations: UInt8[Array, "*S B T+1 H W 3"]
    actions: Int32[Array, "*S B T"]
    goal: UInt8[Array, "*S B H W 3"]
    goal_slot: Int32[Array, "*S B"]  # where in the goal buffer the goal stood
    controllable: Bool[Array, "*S B"]  # whether the world heeded actions at the end
    measures: Float32[Array, "*S B T+1 D"]  # the scored dimensions, which no network sees; D is 0 where unknown
    goal_measures: Float32[Array, "*S B D"]


class Batch(NamedTuple):
    """Trajectories with the goals they are replayed under.

    A goal is a row of the table `rows(batch)`: first all observations, trajectory by trajectory, then
    `extra_goals`. So a goal that is itself a frame of the batch costs no second pass through the network.
    """

    trajectories: Trajectories
    extra_goals: UInt8[Array, "*S B E H W 3"]
    extra_measures: Float32[Array, "*S B E D"]
    goal_row: Int32[Array, "*S B G"]  # the goals of the policy's update
    end: Int32[Array, "*S B G"]  # the frame that is to show the goal: T, or one before it
    is_hindsight: Bool[Array, "*S B G"]
    achieved_row: Int32[Array, "*S B"]  # the achieved frame of the teacher's update
    teacher_row: Int32[Array, "*S B"]  # the goal of the teacher's update
    teacher_is_hindsight: Bool[Array, "*S B"]
    decoys: UInt8[Array, "*S #B K H W 3"]  # 1 instead of B where all goals share them
    seed: UInt32[Array, "*S"]  # of what the teacher's loss draws by itself


class Frames(NamedTuple):
    """Images in the forms a reward may look at."""

    features: Float[Array, "... F"]  # h of the image
    pixels: UInt8[Array, "... H W 3"]
    measures: Float32[Array, "... D"] | None = None  # for the oracle alone


class LearnerState(NamedTuple):
    """Everything gradient steps change."""

    params: Params
    target_params: Params  # None where no target network is used
    ema: Params  # exponential moving average of params, the agent that is evaluated; None: params are
    optimiser: Any
    updates: Int32[Array, ""]

    @property
    def agent(self) -> Params:
        """The parameters to evaluate and to ship."""
        return self.params if self.ema is None else self.ema


class LstmState(NamedTuple):
    """The recurrent state; zero at each new goal."""

    cell: Float[Array, "... U"]
    hidden: Float[Array, "... U"]


class UserError(Exception):
    """Something the user can mend; its text is one sentence, shown without a traceback."""


class LostError(UserError):
    """Something a run cannot do without is gone, but not what it has learned: `state`, or that before the turn."""

    def __init__(self, message: str, state: Any = None):
        super().__init__(message)
        self.state = state


class StoppedError(Exception):
    """A run was asked to stop, and has saved; `signal` is who asked."""

    def __init__(self, message: str, signal: int):
        super().__init__(message)
        self.signal = signal
