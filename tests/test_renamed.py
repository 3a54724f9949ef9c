"""Runs and agents from before settings had today's names: `older_run` was written then, replay and all."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from discern import load
from discern.config import from_json, replace, to_json
from discern.presets import preset
from discern.renamed import FIELDS, array_by_new_name, settings_by_new_names
from discern.storage.run_folder import RunFolder
from discern.training.loop import resume

OLDER = Path(__file__).parent / "older_run"
OLDER_AGENT = Path(__file__).parent / "older_agent"  # as agents were exported before they were one file


def test_an_older_config_says_the_same_by_new_names():
    config = RunFolder(OLDER).config()
    assert (config.learner.inverse_dynamics, config.learner.ema_decay, config.actor.ez_greedy) == (0.5, 0.9, 1.0)
    assert (config.reward.random_erasing, config.network.subtract_mean_image) == (0.5, True)
    assert (config.steps, config.minutes, config.evaluate_every, config.reward.decoy_pool) == (1200, None, None, None)
    assert not config.relabel.ends
    assert from_json(to_json(config)) == config


def test_what_has_todays_names_is_left_alone():
    for env in ("arena", "atari/seaquest", "control/reacher-hard"):
        config = preset(env)
        assert from_json(to_json(config)) == config
    flat = replace(preset("arena"), {"actor.ez_greedy": 0.0})  # every number of repeats as likely; None: no repeats
    assert from_json(to_json(flat)) == flat
    assert settings_by_new_names({"actor": {"persistence": 0.0}}) == {"actor": {"ez_greedy": None}}
    assert settings_by_new_names([1]) == [1]
    assert settings_by_new_names({"learner": 3}) == {"learner": 3}
    assert array_by_new_name("learner.params.torso.Dense_0.kernel") == "learner.params.torso.Dense_0.kernel"


def test_every_new_name_is_a_setting():
    config = preset("arena")
    for new in filter(None, FIELDS.values()):
        room, name = new.split(".")
        assert hasattr(getattr(config, room), name)


def test_an_older_agent_acts_as_it_did():
    """Numbers recorded with the code that wrote it."""
    agent = load(OLDER)
    goals = agent.goal_images
    pursuer = agent.pursue(goals[0])
    assert [pursuer.act(goals[i]) for i in range(1, 5)] == [1, 1, 1, 1]
    recorded = [float.fromhex(value) for value in ("0x1.6a1ea8p-2", "0x1.087d42p+0", "0x1.f35b2cp-2")]
    np.testing.assert_allclose(pursuer.q_values[:3], recorded, rtol=1e-5)
    assert agent.reward(goals[0], goals[1]) == pytest.approx(float.fromhex("0x1.a012cp-1"), rel=1e-5)


def test_an_agent_exported_as_a_checkpoint_acts_as_it_did(tmp_path):
    """Numbers recorded with the code that wrote it."""
    agent = load(OLDER_AGENT)
    assert (agent.steps, agent.goal_images.shape) == (2000, (16, 24, 24, 3))
    recorded = [float.fromhex(value) for value in ("0x1.b253e6p-1", "0x1.05590cp+0", "-0x1.f5e6p-5")]
    for again in (agent, load(agent.save(tmp_path / "float32", "float32"))):
        goals, pursuer = again.goal_images, again.pursue(again.goal_images[0])
        assert [pursuer.act(goals[i]) for i in range(1, 5)] == [4, 4, 4, 4]
        np.testing.assert_allclose(pursuer.q_values[:3], recorded, rtol=1e-5)
        assert again.reward(goals[0], goals[1]) == pytest.approx(float.fromhex("0x1.7f883p-1"), rel=1e-5)


def test_an_older_run_goes_on_with_its_replay(tmp_path):
    run = shutil.copytree(OLDER, tmp_path / "run")
    resume(run, steps=1500, console=Console(quiet=True))
    rows = RunFolder(run).metrics()
    assert rows[-1]["steps"] >= 1500
    assert rows[-1]["updates"] > max(row["updates"] for row in rows if row["steps"] <= 1200)
    assert '"ema_decay": 0.9' in (run / "config.json").read_text()
