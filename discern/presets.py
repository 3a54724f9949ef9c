"""The two configurations, `fast` and `paper`, sized for each world."""

from typing import Any, Literal, get_args

from discern.config import Config, replace
from discern.types import UserError

ConfigName = Literal["fast", "paper"]
PresetName = Literal["fast", "paper", "tiny"]
GYMNASIUM = ("gym", "minigrid", "highway")  # suites of Gymnasium's environments, whose settings are those of gym

FAST: dict[str, Any] = {
    "network.layer_norm": True,
    "network.bfloat16": True,
    "relabel.goals": ("draw", "random", "hindsight", "other"),
    "relabel.ends": True,
    "learner.batch": 64,
    "learner.optimiser": "adam",
    "learner.learning_rate": 3e-4,
    "learner.ema_decay": 0.99,
    "learner.replay_ratio": 4.0,
}

FIRST_PERSON: dict[str, Any] = {
    "minutes": 10.0,
    "actor.horizon": 50,
    "replay_capacity": 20_000,
    "evaluate_every": 1_000_000,
    "network.channels": (32, 64),
}

GYM: dict[str, Any] = {  # for a first try on a laptop, where every step costs milliseconds
    "minutes": 10.0,
    "actor.environments": 16,
    "actor.horizon": 25,
    "actor.warm_up": 10,
    "goal_buffer.capacity": 256,
    "replay_capacity": 2_000,
    "evaluate_every": 20_000,
    "evaluation_goals": 32,
    "network.channels": (32, 64),
    "network.kernels": (6, 2),  # equal to the strides: matrix products on a CPU
    "network.strides": (6, 2),
}

ARENA: dict[str, Any] = {
    "steps": 480_000,
    "minutes": 9.0,
    "actor.environments": 64,
    "actor.horizon": 20,
    "replay_capacity": 4096,
    "evaluate_every": 50_000,
    "network.channels": (32,),
    "network.kernels": (4,),
    "network.strides": (4,),
    "network.features": 128,
    "network.lstm": 128,
    "network.time_units": 16,
}

RACING: dict[str, Any] = GYM | {"actor.warm_up": 5, "goal_buffer.capacity": 128, "evaluation_goals": 16}
DRIVING: dict[str, Any] = RACING | {"actor.horizon": 8}  # seconds, of episodes that last ten or more

GRID: dict[str, Any] = ARENA | {
    "steps": None,
    "minutes": 10.0,
    "actor.horizon": 25,
    "evaluation_goals": 50,
    "gym.size": 64,
}
ROOM: dict[str, Any] = GRID | {"gym.only": ("left", "right", "forward", "done")}  # there is nothing to pick up

SIZES: dict[str, dict[str, Any]] = {
    "arena": ARENA,
    "arena/16": ARENA | {"steps": 300_000, "actor.horizon": 14, "network.features": 64, "network.lstm": 64},
    "arena/two": ARENA | {"steps": 1_500_000, "actor.horizon": 32},
    "arena/maze": ARENA | {"steps": 700_000, "actor.horizon": 12},  # a third of the longest way
    "arena/84": {
        "steps": 2_500_000,
        "actor.horizon": 30,
        "replay_capacity": 20_000,
        "evaluate_every": 150_000,
        "network.channels": (32, 64),
    },
    "atari": {"minutes": 10.0, "replay_capacity": 20_000, "evaluate_every": 1_000_000, "network.channels": (32, 64)},
    "watermaze": FIRST_PERSON,
    "lab": FIRST_PERSON | {"actor.environments": 32},  # each is a process
    "doom": FIRST_PERSON | {"actor.environments": 64},  # each is a process
    "control": {
        "minutes": 10.0,
        "actor.horizon": 100,
        "replay_capacity": 5_000,
        "evaluate_every": 500_000,
        "network.channels": (32, 64),
    },
    "gym": GYM,
    "gym/CarRacing-v3": RACING | {"gym.frame_skip": 4},
    "minigrid": GRID,
    "minigrid/MiniGrid-Empty-8x8-v0": ROOM | {"gym.size": 32, "actor.horizon": 20},
    "minigrid/MiniGrid-Empty-16x16-v0": ROOM | {"actor.horizon": 35},
    "minigrid/MiniGrid-FourRooms-v0": ROOM | {"gym.size": 76, "actor.horizon": 45},
    "highway": DRIVING,
    "highway/parking-v0": RACING,
}

LONG: dict[str, Any] = {  # for goals that take many steps: what came of them must reach the first of them soon
    "network.subtract_mean_image": True,
    "relabel.goals": ("draw", "hindsight", "other"),
    "reward.hidden": 256,
    "learner.lambda_": 0.95,
}

DIVERSE: dict[str, Any] = {"goal_buffer.strategy": "diverse", "goal_buffer.closeness": "nearest"}

TWINS: dict[str, Any] = {"reward.kind": "twins", "actor.twins": 8}  # where something in the picture cannot be changed

FIRST_PERSON_FAST: dict[str, Any] = LONG | {
    "actor.horizon": 80,
    "actor.warm_up": 50,
    "replay_capacity": 10_000,
    "reward.kind": "temporal",  # nothing else teaches h to see the pool
    "reward.pair_gap": 8.0,
    "learner.target_interval": 100,  # without it, and with a diverse buffer, success falls after some minutes
    "learner.anneal": 0.6,
}

DOOM_FAST: dict[str, Any] = FIRST_PERSON_FAST | {"actor.horizon": 50, "learner.replay_ratio": 8.0}

ATARI_FAST: dict[str, Any] = (
    LONG
    | DIVERSE
    | {
        "actor.environments": 480,
        "actor.host_groups": 3,
        "actor.horizon": 25,
        "actor.in_order": False,
        "learner.anneal": 0.5,
        "learner.batch": 128,
        "learner.inverse_dynamics": 1.0,
        "learner.replay_ratio": 16.0,
        "goal_buffer.p_replace": 3e-3,
        "replay_capacity": 12_000,
        "relabel.ends": False,
        "reward.decoy_pool": 128,
        "reward.random_erasing": 1.0,
        "atari.await_control": True,
    }
)

CONTROL_FAST: dict[str, Any] = LONG | {
    "actor.environments": 512,
    "actor.host_groups": 4,
    "control.episode": 300,
    "learner.replay_ratio": 8.0,
}
POSED: dict[str, Any] = CONTROL_FAST | TWINS | {"actor.p_restart": 0.33}  # a target that stays out of reach, say
SWUNG: dict[str, Any] = POSED | {  # single random steps swing nothing, and twins alone do not see the whole swing
    "reward.kind": "temporal_twins",
    "actor.ez_greedy": 2.0,
}

GYM_FAST: dict[str, Any] = {"network.subtract_mean_image": True, "learner.batch": 32, "learner.replay_ratio": 8.0}

FAST_IN: dict[str, dict[str, Any]] = {
    "arena": {  # many small updates, at a rate that ends at 0: as good as larger batches, after fewer steps
        "learner.learning_rate": 1e-3,
        "learner.batch": 32,
        "learner.anneal": 0.5,
        "relabel.goals": ("draw", "hindsight", "other"),
        "relabel.hindsight_window": 1,  # to be where one was two steps ago is near, and not there
    },
    "arena/16": {"learner.learning_rate": 2e-3},
    "arena/two": TWINS
    | {"reward.pair_gap": 2.0, "reward.hidden": 128, "learner.learning_rate": 1e-3, "learner.replay_ratio": 8.0}
    | {"learner.anneal": 0.5, "relabel.hindsight_window": 1},
    "arena/maze": {"learner.learning_rate": 1e-3},
    "arena/84": {},
    "atari": ATARI_FAST,
    "atari/montezuma_revenge": ATARI_FAST | {"actor.ez_greedy": 2.0},  # single random steps climb no ladder
    "watermaze": FIRST_PERSON_FAST
    | {"actor.p_restart": 0.33}  # who stands before a wall is asked for walls
    | {"relabel.hindsight_window": 1},
    "lab": FIRST_PERSON_FAST,  # which cannot restart at will
    "doom": DOOM_FAST,
    "doom/my_way_home": DOOM_FAST | {"actor.horizon": 80},  # several rooms lie between a start and some goals
    "control": POSED,
    "control/reacher-hard": POSED
    | {"control.action_repeat": 4, "actor.horizon": 25, "learner.batch": 128}  # half the frames for an update
    | {"reward.pair_gap": 1.5, "relabel.hindsight_window": 1, "replay_capacity": 10_000},
    "control/pendulum-swingup": SWUNG | {"actor.ez_greedy": 1.0},
    "control/cartpole-swingup": SWUNG
    | DIVERSE  # most poles hang, goals stand
    | {"actor.horizon": 140, "control.episode": 420}  # a fifth of the goals is out of anybody's reach in 100 steps
    | {"learner.anneal": 0.5, "learner.batch": 48},
    "control/ball_in_cup-catch": SWUNG | {"actor.ez_greedy": 1.5, "relabel.hindsight_window": 1},
    "control/finger-spin": SWUNG | {"actor.ez_greedy": 1.0},  # a strike takes a few steps
    "gym": GYM_FAST,
    "minigrid": GYM_FAST
    | {"learner.learning_rate": 1e-3}
    | {"reward.kind": "temporal", "reward.pair_gap": 2.0, "reward.hidden": 128},  # discern's stays at chance for long
    "highway": GYM_FAST,
    "highway/parking-v0": GYM_FAST | TWINS | {"actor.twins": 4},  # where the car should park and how it starts
}


def suite_of(env: str) -> str:
    """The family of a world: what comes before the slash; of module:factory, gym."""
    suite = env.split("/")[0]
    return "gym" if ":" in suite else suite


def preset(env: str, name: ConfigName = "fast") -> Config:
    """The configuration `name`, sized for the world `env`: what is said of a world, or else of its suite."""
    if name not in get_args(ConfigName):
        raise UserError(f"there is no configuration '{name}': choose {' or '.join(get_args(ConfigName))}")
    suite = suite_of(env)
    changes = SIZES.get(env, SIZES.get(suite, {}))
    if name == "fast":
        changes = FAST | changes | FAST_IN.get(env, FAST_IN.get(suite, {}))
    return replace(Config(), {"env": env, **changes})
