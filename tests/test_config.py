import dataclasses

import pytest

from discern.config import Config, RelabelConfig, differences, from_json, replace, to_json
from discern.presets import preset


def test_paper_gives_the_papers_values():
    paper = preset("atari/seaquest", "paper")
    assert paper.relabel == RelabelConfig(goals=("draw",), p_hindsight=0.25, hindsight_window=3)
    assert (paper.goal_buffer.capacity, paper.goal_buffer.p_replace) == (1024, 1e-3)
    assert (paper.reward.embedding, paper.reward.decoys) == (32, 4)
    assert (paper.learner.optimiser, paper.learner.learning_rate) == ("rmsprop", 1e-4)
    assert (paper.actor.horizon, paper.network.lstm) == (50, 256)


def test_both_configurations_fit_every_world():
    for env in ("arena", "arena/84", "watermaze"):
        for name in ("fast", "paper"):
            assert preset(env, name).env == env
    paper, fast = preset("arena", "paper"), preset("arena", "fast")
    assert (paper.relabel.goals, paper.learner, paper.network.layer_norm) == (("draw",), Config().learner, False)
    assert "hindsight" in fast.relabel.goals
    assert (paper.actor, paper.network.lstm) == (fast.actor, fast.network.lstm)  # the world's size is the same


def test_json_brings_everything_back():
    config = replace(preset("arena"), {"relabel.goals": ("random",), "learner.batch": 7, "seed": 3})
    assert from_json(to_json(config)) == config


def test_unknown_fields_are_named():
    with pytest.raises(ValueError, match=r"unknown field learner\.speed"):
        from_json(to_json(Config()).replace('"clip"', '"speed"'))
    with pytest.raises(ValueError, match="should be an object"):
        from_json("[]")


def test_differences_name_the_field_and_both_values():
    ours = preset("arena")
    assert differences(ours, ours) == []
    assert differences(ours, replace(ours, {"learner.batch": 5})) == [f"learner.batch: {ours.learner.batch} ≠ 5"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"learner.batch": 1}, "learner.batch must be at least 2"),
        ({"learner.replay_ratio": 0.0}, "replay_ratio must be above 0"),
        ({"relabel.goals": ("moon",)}, "relabel.goals takes a list, each draw or random or hindsight or other, not"),
        ({"relabel.goals": ()}, "at least one kind of goal"),
        ({"relabel.hindsight_window": 99}, "hindsight_window must lie between 1 and actor.horizon"),
        ({"replay_capacity": 10}, "replay_capacity must be at least actor.environments"),
        ({"goal_buffer.capacity": 4}, "goal_buffer.capacity must exceed reward.decoys"),
        ({"network.kernels": (4, 4)}, "must be equally long"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(preset("arena"), changes)


def test_an_episode_has_room_for_a_trajectory():
    with pytest.raises(ValueError, match=r"control\.episode must be at least actor.horizon"):
        replace(preset("control/reacher-hard"), {"control.episode": 20})


def test_configs_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        preset("arena").seed = 3
