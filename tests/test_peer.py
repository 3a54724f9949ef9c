"""The peers: returns, how they are called, and the JSON that sets ours beside them; none of it needs PyTorch."""

import json

import numpy as np
import pytest

from benchmarks.peers import compare, opengl_loop, pqn_lstm
from benchmarks.peers.compare import ARMS, Compare, arm_of, command, in_common, ratios
from discern.presets import preset

THEIRS = {"steps_per_second": 100.0, "frames_per_second": 400.0, "updates_per_second": 2.0, "replay_ratio": 2}
THEIRS |= {"trained_steps_per_second": 200.0, "parameters": 7, "torch": "2.11"}
OURS = {"whole_steps_per_second": 150, "replay_ratio": 16.0, "batch": 128, "horizon": 25, "goals_a_trajectory": 3}
OURS |= {"parameters": {"torso": 4, "core": 2, "reward": 9}, "machine": {"device": "cpu", "cores": 2}}


def test_lambda_returns_by_hand():
    rewards, ends, best = [1.0, 0.0, 2.0], [0, 1, 0], [9.0, 4.0, 6.0, 8.0]
    # last: 2 + ½ · 8 = 6; the one before ends an episode: 0; first: 1 + ½ (¼ · 0 + ¾ · 4) = 2.5
    assert pqn_lstm.lambda_returns(rewards, ends, best, discount=0.5, lambda_=0.25) == [2.5, 0.0, 6.0]
    one_step = [r + 0.5 * (1 - e) * b for r, e, b in zip(rewards, ends, best[1:], strict=True)]
    assert pqn_lstm.lambda_returns(rewards, ends, best, discount=0.5, lambda_=0.0) == one_step


def test_an_lstm_unrolls_until_any_environment_begins_anew():
    is_first = np.zeros((6, 3), bool)
    is_first[0] = is_first[2, 1] = is_first[5, 0] = is_first[5, 2] = True
    assert pqn_lstm.stretches(is_first) == [(0, 2), (2, 5), (5, 6)]
    assert pqn_lstm.stretches(np.zeros((4, 2), bool)) == [(0, 4)]


def test_both_are_of_one_size():
    config = preset("atari/seaquest")
    words = command("peer", Compare())
    assert words[:2] == ["-m", "benchmarks.peers.pqn_lstm"]
    asked = pqn_lstm.parse(words[2:])
    assert asked.environments == config.actor.environments
    assert asked.lstm == config.network.lstm
    convolutions, features = pqn_lstm.NETWORKS[asked.network]
    network = config.network
    assert convolutions == tuple(zip(network.channels, network.kernels, network.strides, strict=True))
    assert features == network.features
    batch = asked.environments / asked.minibatches * asked.rollout
    assert batch == pytest.approx(config.learner.batch * config.actor.horizon, rel=0.1)
    assert (asked.epsilon, asked.rgb) == (1.0, True)
    at_its_ratio = command("ours_at_the_peers_ratio", Compare(ours="--atari.threads 3"))
    assert at_its_ratio[at_its_ratio.index("--learner.replay-ratio") + 1] == str(asked.epochs)
    assert at_its_ratio[-2:] == ["--atari.threads", "3"]


def test_ours_and_theirs_under_the_same_names():
    ours = in_common(OURS)
    assert in_common(THEIRS) == THEIRS
    assert (ours["steps_per_second"], ours["frames_per_second"], ours["parameters"]) == (150, 600, 6)
    assert ours["trained_steps_per_second"] == 2400
    assert ours["updates_per_second"] == pytest.approx(2400 / 128 / 25)
    arms = {"peer": arm_of([THEIRS, THEIRS | {"steps_per_second": 300.0}, THEIRS]), "ours": arm_of([OURS])}
    assert arms["peer"]["steps_per_second"] == {"least": 100.0, "median": 100.0, "most": 300.0}
    assert ratios(arms) == {"steps, ours over peer": 1.5, "trained_steps, ours over peer": 12.0}
    assert ratios({"ours": arms["ours"]}) == {}


def test_arms_take_turns_and_the_json_is_whole_after_each(monkeypatch, tmp_path):
    out, seen = tmp_path / "peer.json", []

    def run(words):
        seen.append(len(json.loads(out.read_text())["arms"]) if out.exists() else 0)
        return dict(THEIRS if "benchmarks.peers.pqn_lstm" in words else OURS)

    monkeypatch.setattr(compare, "run", run)
    monkeypatch.setattr(compare, "keep_compiled", lambda: None)
    monkeypatch.setattr("sys.argv", ["compare", "--out", str(out), "--commit", "0123456", "--environments", "96"])
    compare.main()
    made = json.loads(out.read_text())
    assert seen == [0, 1, 2, 3, 3, 3]
    assert list(made["arms"]) == list(ARMS)
    assert all(len(arm["runs"]) == 2 for arm in made["arms"].values())
    assert made["machine"] == {"device": "cpu", "cores": 2, "torch": "2.11"}
    assert made["environments"] == 96
    assert made["commit"] == "0123456"
    assert {"what", "command", "date", "seeds", "ratios"} <= set(made)
    assert not any(arm["command"].startswith("/") for arm in made["arms"].values())


def test_ours_over_opengl():
    rates = {"opengl, 1 processes": [40.0, 50.0, 60.0], "opengl, 2 processes": [100.0], "ours, acting": [700.0]}
    found = opengl_loop.summary(rates)
    assert found["ours, acting, over"] == {"opengl, 1 processes": 14.0, "opengl, 2 processes": 7.0}
    assert found["steps_per_second"]["opengl, 1 processes"] == {"least": 40.0, "median": 50.0, "most": 60.0}
