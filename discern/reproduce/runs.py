"""The training runs of the programme: which worlds, methods and goal buffers, and what each is on the command line."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from discern.config import Config, flag, replace
from discern.presets import ConfigName, PresetName, preset

METHODS: dict[str, dict[str, Any]] = {
    "DISCERN": {"reward.kind": "discern"},
    "autoencoder": {"reward.kind": "autoencoder"},
    "WGAN": {"reward.kind": "wgan"},
    "pixel L2": {"reward.kind": "pixels"},
    "no hindsight": {"relabel.p_hindsight": 0.0},
    "hindsight only": {"relabel.p_hindsight": 1.0, "relabel.goals": ("hindsight",)},
    "temporal pairs": {"reward.kind": "temporal"},
    "oracle": {"reward.kind": "oracle"},
    "preset": {},
}
PAPERS = tuple(METHODS)[:6]
REWARDS = PAPERS[:4]

TRIALS: dict[str, tuple[dict[str, Any], ...]] = {  # what a reward is tuned by, beside a third of the learning rate
    "DISCERN": ({"reward.decoys": 16}, {"reward.inverse_temperature": 10.0}),
    "autoencoder": ({"reward.embedding": 8}, {"reward.embedding": 128}),
    "WGAN": ({"reward.gradient_penalty": 1.0}, {"reward.gradient_penalty": 100.0}),
    "pixel L2": ({"reward.pixel_sigma_scale": 0.1}, {"reward.pixel_sigma_scale": 0.3}),
    "temporal pairs": ({"reward.pair_gap": 1.0}, {"reward.pair_gap": 8.0}),
    "oracle": ({"learner.lambda_": 0.8}, {"learner.lambda_": 1.0}),
}
TRIAL_SEED = 1000  # settings are chosen by runs of this seed, on goals to choose by

PARTS: dict[str, dict[str, Any]] = {  # the preset with one part left out
    "no ends": {"relabel.ends": False},
    "one goal": {"relabel.goals": ("draw",)},
    "the paper's teacher": {"reward.kind": "discern"},
    "ε-greedy": {"actor.ez_greedy": None},
    "no annealing": {"learner.anneal": 0.0},
    "hindsight of 3 frames": {"relabel.hindsight_window": 3},
    "no layer norm": {"network.layer_norm": False},
    "no EMA": {"learner.ema_decay": 0.0},
    "λ 0": {"learner.lambda_": 0.0},
    "λ 1": {"learner.lambda_": 1.0},
}

TINY: dict[str, Any] = {
    "steps": 16_000,
    "minutes": None,
    "actor.environments": 32,
    "evaluate_every": 8_000,
    "evaluation_goals": 50,
    "checkpoint_seconds": 10.0,
    "replay_capacity": 1024,
    "goal_buffer.capacity": 256,
    "learner.batch": 32,
}

GAMES = ("atari/seaquest", "atari/montezuma_revenge")
SIX = tuple(
    f"control/{name}"
    for name in (
        "point_mass-easy",
        "reacher-hard",
        "pendulum-swingup",
        "finger-spin",
        "ball_in_cup-catch",
        "cartpole-swingup",
    )
)


@dataclass(frozen=True)
class Run:
    """One training run of the programme."""

    env: str
    method: str
    strategy: str
    seed: int
    trial: int | None = None  # which of the settings that its reward is tuned by

    def trials(self) -> list["Run"]:
        """The runs by which its reward is tuned in its world: as it is, its learning rate cut, and its own settings."""
        count = 2 + len(TRIALS[self.method])
        return [dataclasses.replace(self, seed=TRIAL_SEED, trial=trial) for trial in range(count)]

    def changes(self, minutes: float | None, preset_name: PresetName) -> dict[str, Any]:
        """What differs from the world's own preset."""
        changes: dict[str, Any] = {"seed": self.seed, **(METHODS | PARTS)[self.method]}
        if self.strategy != "preset":
            changes["goal_buffer.strategy"] = self.strategy
        if self.method == "no hindsight":
            kinds = preset(self.env, config_name(preset_name)).relabel.goals
            changes["relabel.goals"] = tuple(kind for kind in kinds if kind != "hindsight")
        if self.trial == 1:
            changes["learner.learning_rate"] = preset(self.env, config_name(preset_name)).learner.learning_rate / 3
        elif self.trial:
            changes |= TRIALS[self.method][self.trial - 2]
        if preset(self.env, config_name(preset_name)).steps:
            changes["minutes"] = None  # methods are compared after equal steps, however long these take
        if preset_name == "tiny":
            changes |= TINY
        if minutes:
            changes |= {"minutes": minutes, "steps": None}
        return changes

    def config(self, minutes: float | None, preset_name: PresetName) -> Config:
        return replace(preset(self.env, config_name(preset_name)), self.changes(minutes, preset_name))

    def leaves_nothing_out(self, preset_name: PresetName) -> bool:
        """Whether it is to lack a part that the world's preset lacks anyway."""
        plain = Run(self.env, "preset", self.strategy, self.seed)
        return self.method in PARTS and self.config(None, preset_name) == plain.config(None, preset_name)

    def command(self, minutes: float | None, preset_name: PresetName) -> str:
        """The same run by hand."""
        words = ["discern", "train", self.env]
        if preset_name == "paper":
            words += ["--config", "paper"]
        for name, value in self.changes(minutes, preset_name).items():
            words += _flag(name, value)
        return " ".join(words)

    @property
    def name(self) -> str:
        trial = "" if self.trial is None else f"-trial-{self.trial}"
        return f"{self.env}/{self.method}/{self.strategy}{trial}/{self.seed}".replace(" ", "-").replace("'", "").lower()


def config_name(preset_name: PresetName) -> ConfigName:
    """What a preset of the programme is a size of."""
    return "paper" if preset_name == "paper" else "fast"


def _flag(name: str, value: Any) -> list[str]:
    """A setting as it is typed."""
    if isinstance(value, bool):
        room, _, last = name.rpartition(".")
        return [flag(name if value else f"{room}.no_{last}")]
    return [flag(name), *map(str, value if isinstance(value, tuple) else (value,))]
