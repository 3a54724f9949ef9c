"""The arrays that travel between the rooms: shapes and dtypes, written once.

Axes: B trajectories, T steps, G goals for one trajectory, K decoys, N environments, F features, A actions,
D scored dimensions; an image is uint8 [H, W, 3].
"""

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from jax import Array
else:
    Array = Any  # JAX takes seconds to import, and errors and settings have no use for it

Params = Any
Precision = Literal["int8", "float32"]  # of an exported agent's weights
PRNGKey = Array


class Trajectories(NamedTuple):
    """Whole trajectories: T actions and the T + 1 observations around them, under one intended goal."""

    observations: Array  # uint8 [B, T+1, H, W, 3]
    actions: Array  # int32 [B, T]
    goal: Array  # uint8 [B, H, W, 3]
    goal_slot: Array  # int32 [B], where in the goal buffer the goal stood
    controllable: Array  # bool [B], whether the world heeded actions at the end
    measures: Array  # float32 [B, T+1, D], the scored dimensions, which no network sees; D is 0 where unknown
    goal_measures: Array  # float32 [B, D]


class Batch(NamedTuple):
    """Trajectories with the goals they are replayed under.

    A goal is a row of the table `rows(batch)`: first all observations, trajectory by trajectory, then
    `extra_goals`. So a goal that is itself a frame of the batch costs no second pass through the network.
    """

    trajectories: Trajectories
    extra_goals: Array  # uint8 [B, E, H, W, 3]
    extra_measures: Array  # float32 [B, E, D]
    goal_row: Array  # int32 [B, G], the goals of the policy's update
    end: Array  # int32 [B, G], the frame that is to show the goal: T, or one before it
    is_hindsight: Array  # bool [B, G]
    achieved_row: Array  # int32 [B], the achieved frame of the teacher's update
    teacher_row: Array  # int32 [B], the goal of the teacher's update
    teacher_is_hindsight: Array  # bool [B]
    decoys: Array  # uint8 [B, K, H, W, 3], or [1, K, H, W, 3] where all goals share them
    seed: Array  # uint32 [], of what the teacher's loss draws by itself


class Frames(NamedTuple):
    """Images in the forms a reward may look at."""

    features: Array  # float32 [..., F], h of the image
    pixels: Array  # uint8 [..., H, W, 3]
    measures: Array | None = None  # float32 [..., D], for the oracle alone


class LearnerState(NamedTuple):
    """Everything gradient steps change."""

    params: Params
    target_params: Params  # None where no target network is used
    ema: Params  # exponential moving average of params, the agent that is evaluated; None: params are
    optimiser: Any
    updates: Array  # int32 []

    @property
    def agent(self) -> Params:
        """The parameters to evaluate and to ship."""
        return self.params if self.ema is None else self.ema


class LstmState(NamedTuple):
    """The recurrent state; zero at each new goal."""

    cell: Array  # float32 [..., U]
    hidden: Array  # float32 [..., U]


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
