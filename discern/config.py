"""Every setting of a run: frozen dataclasses with literal defaults.

The defaults are the paper's values, and where it is silent the ones in docs/paper_map.md; presets.py makes the two
named configurations from them.
"""

import dataclasses
import json
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import tyro

from discern.checks import (
    AboveZero,
    Amount,
    AtLeastOne,
    Positive,
    Range,
    Seed,
    SettingError,
    Several,
    Share,
    ShareBelowOne,
    first_problem,
    nearest,
)
from discern.renamed import settings_by_new_names

Side = Annotated[int, Range("be at least 8", lambda x: x >= 8)]
GoalKind = Literal["draw", "random", "hindsight", "other"]


@dataclass(frozen=True)
class NetworkConfig:
    """The imitator's network."""

    torso: Literal["shallow", "residual"] = "shallow"
    channels: tuple[Positive, ...] = (16, 32)
    """Feature maps of each convolution (shallow) or section (residual)."""
    kernels: tuple[Positive, ...] = (8, 4)
    """Kernel sizes of the shallow torso."""
    strides: tuple[Positive, ...] = (4, 2)
    """Strides of the shallow torso."""
    features: Positive = 256
    """Size of h, the torso's output."""
    lstm: Positive = 256
    time_units: Positive = 64
    """ReLU units over the periodic clock."""
    layer_norm: bool = False
    """Normalise h and the LSTM's output."""
    subtract_mean_image: bool = False
    """Subtract the mean of the first goal buffer from every image, so that what never changes is not seen."""
    bfloat16: bool = False
    """Convolutions in bfloat16, where there is an accelerator, and on Hopper GPUs the LSTM's recurrent products too."""


@dataclass(frozen=True)
class GoalBufferConfig:
    """The buffer of past observations that goals and decoys come from (App. A3)."""

    capacity: Positive = 1024
    strategy: Literal["uniform", "diverse"] = "uniform"
    closeness: Literal["mean", "nearest"] = "mean"
    """What «closer to the rest of the buffer» means to the diverse strategy."""
    p_replace: Share = 1e-3
    p_add_non_diverse: Share = 1e-3


@dataclass(frozen=True)
class RelabelConfig:
    """Which goals a trajectory is replayed under."""

    goals: tuple[GoalKind, ...] = ("draw",)
    """draw: the paper's own (the intended goal, or a hindsight frame); random: one from the goal buffer;
    hindsight: a late frame of the trajectory, reward 1; other: the last frame of another trajectory."""
    p_hindsight: Share = 0.25
    hindsight_window: Positive = 3
    """A hindsight goal is one of this many last frames."""
    ends: bool = False
    """Replay a trajectory as if it had ended sooner: for each goal an end is drawn, the last frame in half of the cases
    and else any frame after the first quarter. The agent then learns to be at a goal in any number of steps up to T."""


@dataclass(frozen=True)
class RewardConfig:
    """How achieving a goal is rewarded."""

    kind: Literal[
        "discern", "log_likelihood", "temporal", "twins", "temporal_twins", "autoencoder", "wgan", "pixels", "oracle"
    ] = "discern"
    """discern: max(0, similarity); log_likelihood: log q̂ of the same teacher; temporal and twins: the similarity of an
    embedding trained on pairs of frames of one trajectory, against frames of other trajectories or of the trajectory's
    twins; temporal_twins: against both; autoencoder, wgan and pixels: the paper's baselines; oracle: the true distance
    in the scored dimensions, the ceiling of any reward."""
    pair_gap: AtLeastOne = 3.0
    """Mean number of steps between the two frames of a pair of the temporal and twins teachers."""
    embedding: Positive = 32
    hidden: Positive | None = None
    """ReLU units between h and the teacher's embedding; None, as in the paper: no hidden layer."""
    random_erasing: Share = 0.0
    """Half of the teacher's loss is on images with a random rectangle erased, up to this share of a side long (Zhong et
    al. 2020): it then learns to go by each thing it can see, and not by several at once."""
    decoys: Positive = 4
    decoy_pool: Positive | None = None
    """A curriculum of decoys: this many for all goals of a batch together, which count for as many as the teacher can
    tell half of its goals from, and at least for `decoys`; the more count, the less hindsight goals weigh in the
    teacher's loss. None, as in the paper: each goal has its own `decoys`."""
    inverse_temperature: AboveZero | None = None
    """β of the teacher's softmax; None: the paper's K + 1, or 10 where the teacher learns from pairs."""
    pixel_sigma_scale: AboveZero = 1.0
    """σ_pixel in medians of the squared distance between two goals of the buffer."""
    gradient_penalty: Amount = 10.0
    """Weight of the WGAN critic's gradient penalty (Gulrajani et al. 2017)."""


@dataclass(frozen=True)
class LearnerConfig:
    """One gradient step, and how many."""

    batch: Several = 32
    """Trajectories in a batch."""
    discount: Share = 0.99
    lambda_: Share = 0.9
    optimiser: Literal["rmsprop", "adam"] = "rmsprop"
    learning_rate: AboveZero = 1e-4
    epsilon: AboveZero = 1e-5
    clip: AboveZero = 40.0
    """Largest global norm of the gradient."""
    target_interval: Positive | None = None
    """Updates between two copies to the target network; None: no target network."""
    ema_decay: ShareBelowOne = 0.0
    """The agent that is evaluated is an exponential moving average of the parameters with this decay (Polyak and
    Juditsky 1992)."""
    anneal: Share = 0.0
    """The last part of the budget, over which the learning rate falls linearly to 0."""
    inverse_dynamics: Amount = 0.0
    """Weight of an inverse dynamics loss (Pathak et al. 2017): h has to tell which action lies between two frames, and
    so sees first what the agent moves."""
    replay_ratio: AboveZero = 1.0
    """How often a collected step is trained on, on average."""
    updates_per_call: Positive | None = None
    """Updates scanned in one call to the accelerator; None: 1 on a CPU and beside host environments, 8 elsewhere."""


@dataclass(frozen=True)
class ActorConfig:
    """Who collects, and how boldly."""

    environments: Positive = 256
    horizon: Several = 50
    """T, the actions a goal is pursued for."""
    epsilon_base: Share = 0.4
    epsilon_exponent: Amount = 7.0
    """Environment i of N explores with ε = base^(1 + exponent · i / (N − 1))."""
    ez_greedy: Amount | None = None
    """Temporally extended ε-greedy exploration (εz-greedy, Dabney et al. 2021): an exploring action is repeated n times
    with probability ∝ n^−ez_greedy. None: the paper's ε-greedy."""
    steps_per_turn: Positive | None = None
    """Steps an environment makes between two turns of the learner; None: the horizon inside jit, 1 on the host."""
    warm_up: Positive | None = None
    """Random steps between two fillings of the goal buffer before training; None: the horizon."""
    twins: Positive = 1
    """Environments in a group that begin each attempt in one state, with the same random numbers; 1: no groups."""
    p_restart: Share = 0.0
    """Chance that an attempt begins at an episode's start; the others go on where one ended, as all do in the paper."""
    host_groups: Positive = 2
    """Groups of host environments that take turns: one is decided for while the others step."""
    in_order: bool = True
    """Decide for groups in a fixed order, so that a seed repeats a run; else as they come back, which is faster."""
    host: bool = False
    """Run a world that could live inside jit through the host loop."""


@dataclass(frozen=True)
class AtariConfig:
    """The Atari games' emulator."""

    sticky: ShareBelowOne = 0.0
    """Probability that a frame repeats the last action instead of the chosen one."""
    await_control: bool = False
    """Goals are given where the avatar is controllable, and only what ends there teaches the teacher: after a lost life
    Seaquest ignores all actions for half a trajectory."""
    shrink: Literal["auto", "emulator", "accelerator"] = "auto"
    """Who shrinks screens to 84×84; auto: the accelerator where there is one."""
    threads: Positive | None = None
    """Emulators that run at once, each in a process; None: as many as cores."""


@dataclass(frozen=True)
class ControlConfig:
    """The Control Suite's worlds."""

    episode: Positive = 1000
    """Agent steps between two first states while training; a multiple of the horizon wastes none."""
    action_repeat: Positive | None = None
    """Control steps that every action is held for; None, as in the paper: five in point mass, one elsewhere."""
    pixels: Literal["rays", "opengl"] = "rays"
    """Who draws: our ray caster, or dm_control, hundreds of times slower, through the OpenGL of MUJOCO_GL."""


@dataclass(frozen=True)
class GymConfig:
    """Gymnasium environments: gym/ID, minigrid/ID, highway/ID, or module:factory for a callable that makes one."""

    frame_skip: Positive = 1
    """Frames that every action is played for."""
    size: Side = 84
    """Images are shrunk to this many pixels a side."""
    render: bool = False
    """See what the environment renders, even where its observations are images."""
    score: tuple[str, ...] = ()
    """What success is measured on, each as name:low:high or name:low:high:wraps; a name is a key of `info`, or
    observation[0], observation[1], …"""
    bins: Several = 3
    """Values that each dimension of a continuous action takes, evenly from its lower to its upper bound."""
    actions: Literal["auto", "corners", "one_at_a_time"] = "auto"
    """Every combination of those values (corners), or all at their middle and one dimension at a time at another value;
    auto: corners where they are 27 at most."""
    only: tuple[str, ...] = ()
    """The agent's actions by name, or by number where nobody named them; none given: all there are."""
    vector: bool = False
    """Use an environment's own vectorised implementation; a factory that makes a vector needs no flag."""
    make_args: str = "{}"
    """Arguments for gymnasium.make or the factory, as a JSON object."""
    step_timeout: AboveZero = 30.0
    """Seconds after which an environment that does not answer is given up."""


@dataclass(frozen=True)
class Config:
    """A whole run. A budget of None is no limit; `steps` counts agent steps over all environments."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="WORLD")] = "arena"
    """The world: arena, arena/84, watermaze, atari/seaquest, control/reacher-hard, lab/rooms_watermaze,
    minigrid/MiniGrid-FourRooms-v0, highway/parking-v0, gym/CarRacing-v3, my_module:factory, …"""
    seed: Seed = 0
    steps: Positive | None = None
    minutes: AboveZero | None = None
    replay_capacity: Positive = 10_000
    """Trajectories kept for replay."""
    evaluate_every: Positive | None = 100_000
    """Agent steps between two evaluations on held-out goals, the tune half; None: success at the end alone, and
    no goals told apart."""
    evaluation_goals: Positive = 100
    """Of each half of the goal set; a run ends with a score on the test half."""
    evaluation_trials: Positive = 1
    log_seconds: Amount = 5.0
    checkpoint_seconds: Amount = 60.0
    save_replay: bool = False
    """Keep the replay in checkpoints, so that a resumed run equals an uninterrupted one."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    goal_buffer: GoalBufferConfig = field(default_factory=GoalBufferConfig)
    relabel: RelabelConfig = field(default_factory=RelabelConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    atari: AtariConfig = field(default_factory=AtariConfig)
    control: ControlConfig = field(default_factory=ControlConfig)
    gym: GymConfig = field(default_factory=GymConfig)

    def __post_init__(self):
        problem = first_problem(self) or _misfit(self)
        if problem:
            raise SettingError(problem)


def _misfit(config: Config) -> str | None:
    """What is wrong with settings that are each in their range, but do not go together."""
    actor, relabel, reward, network = config.actor, config.relabel, config.reward, config.network
    torso_lengths = {len(network.channels), len(network.kernels), len(network.strides)}
    checks = {
        "{reward.kind} with twins needs {actor.twins} of at least 2": "twins" not in reward.kind or actor.twins >= 2,
        "{actor.twins} must divide {actor.environments}, {learner.batch} and {replay_capacity}": not any(
            count % actor.twins for count in (actor.environments, config.learner.batch, config.replay_capacity)
        ),
        "{control.episode} must be at least {actor.horizon}": not config.env.startswith("control/")
        or config.control.episode >= actor.horizon,
        "{relabel.goals} must name at least one kind of goal": len(relabel.goals) >= 1,
        "{relabel.hindsight_window} must lie between 1 and {actor.horizon}": relabel.hindsight_window <= actor.horizon,
        "{goal_buffer.capacity} must exceed {reward.decoys} and {reward.decoy_pool}": (
            config.goal_buffer.capacity > max(reward.decoys, reward.decoy_pool or 0)
        ),
        "{reward.decoy_pool} must be at least {reward.decoys}": (reward.decoy_pool or reward.decoys) >= reward.decoys,
        "{replay_capacity} must be at least {actor.environments}": config.replay_capacity >= actor.environments,
        "{replay_capacity} must be at least {learner.batch}": config.replay_capacity >= config.learner.batch,
        "{network.channels}, {network.kernels} and {network.strides} must be equally long": (
            network.torso == "residual" or len(torso_lengths) == 1
        ),
        "{network.channels} must name at least one layer": len(network.channels) >= 1,
    }
    return next((problem for problem, holds in checks.items() if not holds), None)


def replace(config: Config, changes: dict[str, Any]) -> Config:
    """The config with dotted fields changed: {"learner.batch": 64}."""
    nested: dict[str, Any] = {}
    for path, value in changes.items():
        if path not in FIELDS and not hasattr(config, path):
            raise SettingError(f"there is no setting '{path}'{nearest(path, FIELDS)}")
        room, _, name = path.rpartition(".")
        if room:
            nested.setdefault(room, {})[name] = value
        else:
            nested[path] = value
    for room, fields in nested.items():
        if isinstance(fields, dict):
            nested[room] = dataclasses.replace(getattr(config, room), **fields)
    return dataclasses.replace(config, **nested)


OF_NO_PROGRAM = (
    *("seed", "steps", "minutes", "evaluate_every", "evaluation_goals", "evaluation_trials"),
    *("log_seconds", "checkpoint_seconds", "save_replay"),
)


def of_programs(config: Config) -> Config:
    """The config without what no compiled program depends on: runs that differ in nothing else can share theirs."""
    return dataclasses.replace(config, **{name: getattr(Config, name) for name in OF_NO_PROGRAM})


def to_json(config: Config) -> str:
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(text: str) -> Config:
    """The config that `to_json` wrote, today's or an older one; a field it does not know is an error that names it."""
    return _build(Config, settings_by_new_names(json.loads(text)), "")


def _build(kind: Any, values: Any, path: str) -> Any:
    if not isinstance(values, dict):
        raise ValueError(f"{path or 'the config'} should be an object")
    known = {entry.name: entry for entry in dataclasses.fields(kind)}
    unknown = sorted(set(values) - set(known))
    if unknown:
        raise ValueError(f"unknown field {path}{unknown[0]}")
    built = {}
    for name, value in values.items():
        default = known[name].default_factory
        if dataclasses.is_dataclass(default):
            value = _build(default, value, f"{path}{name}.")
        built[name] = tuple(value) if isinstance(value, list) else value
    return kind(**built)


def differences(ours: Config, theirs: Config) -> list[str]:
    """The dotted fields in which two configs differ, each with both values."""
    mine, yours = _flat(dataclasses.asdict(ours)), _flat(dataclasses.asdict(theirs))
    return [f"{path}: {mine[path]} ≠ {yours[path]}" for path in mine if mine[path] != yours[path]]


def flag(path: str) -> str:
    """A dotted field as it is typed on the command line."""
    return "--" + ".".join(re.sub(r"(?<=.)_(?=.)", "-", part) for part in path.split("."))


def _flat(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{path}{name}.") if isinstance(value, dict) else {path + name: value}
    return flat


FIELDS = tuple(_flat(dataclasses.asdict(Config())))
"""Every setting by its dotted name."""
