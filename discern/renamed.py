"""What settings and arrays were once called, so that older runs and agents go on loading."""

from typing import Any

FIELDS: dict[str, str | None] = {  # None: gone, because nothing depended on it
    "network.centre": "network.subtract_mean_image",
    "reward.hide": "reward.random_erasing",
    "reward.trains_features": None,
    "learner.average_decay": "learner.ema_decay",
    "learner.inverse": "learner.inverse_dynamics",
    "actor.persistence": "actor.ez_greedy",
}
ZERO_WAS_NONE = [
    "steps",
    "minutes",
    "evaluate_every",
    "reward.hidden",
    "reward.decoy_pool",
    "reward.inverse_temperature",
    "learner.target_interval",
    "learner.updates_per_call",
    "actor.persistence",
    "actor.steps_per_turn",
    "actor.warm_up",
    "atari.threads",
]

ARRAYS = {  # parts of the names that checkpoints give to arrays
    "learner.average.": "learner.ema.",
    ".torso.centre": ".torso.mean_image",
    ".inverse.": ".inverse_dynamics.",
    "replay.stored.in_hand": "replay.stored.controllable",
    ".whims.": ".extended.",
}


def settings_by_new_names(values: Any) -> Any:
    """The JSON of a config with today's names and meanings; what is no config is left for others to refuse."""
    if not isinstance(values, dict):
        return values
    values = {room: dict(fields) if isinstance(fields, dict) else fields for room, fields in values.items()}
    for path in ZERO_WAS_NONE:
        room, _, name = path.rpartition(".")
        fields = values.get(room) if room else values
        if isinstance(fields, dict) and fields.get(name) == 0 and not isinstance(fields[name], bool):
            fields[name] = None
    for old, new in FIELDS.items():
        room, _, name = old.rpartition(".")
        if isinstance(values.get(room), dict) and name in values[room]:
            value = values[room].pop(name)
            if new is not None:
                values[room].setdefault(new.rpartition(".")[2], value)
    return values


def array_by_new_name(name: str) -> str:
    for old, new in ARRAYS.items():
        name = name.replace(old, new)
    return name
