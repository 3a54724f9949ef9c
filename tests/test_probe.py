import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.learner import Learner
from discern.cli import main
from discern.config import replace
from discern.envs import Hosted, make_env
from discern.envs.base import Dimension, EnvSpec
from discern.evaluation import probe as shell
from discern.evaluation.achievement import Score
from discern.evaluation.probes import Reward, as_targets, left_of_reward, linear_probe, pairs_of_frames, sight, verdict
from discern.inference import Agent
from discern.types import UserError
from tests.counting import Counting

ROOT = Path(__file__).parent.parent
X, ANGLE = Dimension("x", 0.0, 2.0), Dimension("angle", -np.pi, np.pi, wraps=True)


def test_a_probe_reads_what_is_linear_and_nothing_else():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, 40)).astype(np.float32)
    features[:, 7] = 0.0  # a unit that never fires
    noise = rng.normal(size=2000)
    targets = np.stack([3 * features[:, 0] - features[:, 1] + 5, features[:, 2] + noise, noise, np.ones(2000)], 1)
    r2 = linear_probe(features[:1000], targets[:1000], features[1000:], targets[1000:])
    assert r2[0] > 0.999
    assert r2[1] == pytest.approx(0.5, abs=0.1)  # half of the variance is noise
    assert r2[2] == pytest.approx(0.0, abs=0.05)  # the penalty keeps it from fitting noise
    assert np.isnan(r2[3])


def test_a_probe_by_hand():
    """One feature, target 2x: a vanishing penalty, so R² is one minus what noise of ±0.5 leaves of a variance of 5."""
    x = np.tile([-1.0, 1.0], 20)[:, None]
    test = np.array([[-1.0], [1.0], [-1.0], [1.0]])
    targets = np.array([[-2.5], [2.5], [-1.5], [1.5]])
    np.testing.assert_allclose(linear_probe(x, 2 * x, test, targets), [1 - 0.25 / 4.25], atol=1e-4)


def test_an_angle_is_read_as_sine_and_cosine():
    turns = np.linspace(-np.pi, 3 * np.pi, 9)
    targets = as_targets(turns, ANGLE)
    np.testing.assert_allclose(targets, np.stack([-np.sin(turns), -np.cos(turns)], 1), atol=1e-9)
    np.testing.assert_allclose(as_targets(np.array([-1.0, 1.0, 9.0]), X), [[0.0], [0.5], [1.0]])


def test_sight_tells_a_half_turn_from_a_whole_one():
    """Features of a rod that looks the same after half a turn, and of a place."""
    rng = np.random.default_rng(0)
    measures = np.stack([rng.uniform(0, 2, 800), rng.uniform(-9, 9, 800), np.ones(800)], 1)
    features = np.stack([measures[:, 0], np.sin(2 * measures[:, 1]), np.cos(2 * measures[:, 1])], 1)
    still, is_train = Dimension("still", 0.0, 2.0), np.arange(800) < 400
    seen = sight(features, measures, is_train, (X, ANGLE, still))
    assert seen["x"] > 0.99
    assert abs(seen["angle"]) < 0.1
    assert np.isnan(seen["still"])
    assert sight(features, measures, is_train, (X, ANGLE, still), cycles=2)["angle"] > 0.99


def test_pairs_are_of_the_kind_they_are_said_to_be():
    rng = np.random.default_rng(0)
    measures = np.stack([rng.uniform(0, 2, 900), rng.uniform(-9, 9, 900)], 1)
    trajectory, moment = np.repeat(np.arange(90), 10), np.tile(np.arange(1, 11), 90)
    pairs = pairs_of_frames(measures, trajectory, moment, (X, ANGLE), 10, rng)
    assert list(pairs) == ["match", "match_at_other_moments", "off:x", "off:angle", "everything_off"]
    for kind, (first, second) in {kind: some.T for kind, some in pairs.items()}.items():
        assert len(first) == 300
        assert (trajectory[first] != trajectory[second]).all()
        x = np.abs(measures[first, 0] - measures[second, 0]) / 2
        turn = np.abs(np.angle(np.exp(1j * (measures[first, 1] - measures[second, 1])))) / (2 * np.pi)
        if kind == "off:x":
            assert (x > 0.2).all()
            assert (turn <= 0.1).all()
        elif kind == "everything_off":
            assert ((x > 0.2) & (turn > 0.2)).all()
        elif kind.startswith("match"):
            assert ((x <= 0.05) & (turn <= 0.05)).all()
    apart = np.abs(np.diff(moment[pairs["match_at_other_moments"]], axis=1))
    assert apart.min() >= 3


def test_what_is_left_of_the_reward():
    rewards = {"match": Reward(0.9, 300), "off:x": Reward(0.5, 300), "off:y": Reward(0.9, 3), "off:z": Reward(None, 0)}
    assert left_of_reward(rewards, lowest=0.1) == {"x": pytest.approx(0.5)}
    assert left_of_reward(rewards | {"match": Reward(0.9, 4)}, lowest=0.1) == {}
    negative = {"match": Reward(-1.0, 300), "off:x": Reward(-1.1, 300)}
    assert left_of_reward(negative, lowest=-2.0) == {"x": pytest.approx(0.9)}


def scored(success: float, at_some_step: float, x: float = 0.9, y: float = 0.9) -> Score:
    nothing = np.zeros(0, np.uint8)
    return Score(success, at_some_step, {"x": x, "y": y}, nothing, nothing, nothing)


@pytest.mark.parametrize(
    ("agent", "seen", "left", "expected"),
    [
        (scored(0.96, 0.97), {"x": 0.1, "y": 0.1}, {"x": 1.0}, ("nothing", None)),
        (scored(0.3, 0.9), {"x": 0.4, "y": 0.3}, {"x": 1.0}, ("sight", "y")),
        (scored(0.3, 0.9), {"x": 0.9, "y": float("nan")}, {"x": 0.2, "y": 0.9}, ("reward", "y")),
        (scored(0.3, 0.7, y=0.4), {"x": 0.9, "y": 0.9}, {"x": 0.2, "y": 0.8}, ("timing", "y")),
        (scored(0.3, 0.7, x=0.4), {"x": 0.9, "y": 0.9}, {}, ("timing", "x")),
        (scored(0.3, 0.5, x=0.4), {"x": 0.9, "y": 0.9}, {"x": 0.2}, ("control", "x")),  # as often as by chance
        (scored(0.8, 0.9, y=0.8), {"x": 0.9, "y": 0.9}, {"x": 0.2}, ("control", "y")),
    ],
)
def test_the_verdict_names_what_is_missing_first(agent, seen, left, expected):
    found = verdict(agent, scored(0.05, 0.4), seen, left)
    assert (found.missing, found.dimension) == expected
    assert found.dimension is None or found.dimension in found.because


def test_a_picture_that_looks_the_same_half_a_turn_on_is_named():
    found = verdict(scored(0.2, 0.3), scored(0.0, 0.0), {"x": 0.0, "y": 0.9}, {}, {"x": 0.98})
    assert "modulo half its range it can, 0.98" in found.because


@pytest.fixture
def agent(tiny) -> Agent:
    """One that has learned nothing."""
    spec = make_env("arena").spec
    images = jnp.zeros((16, *spec.image_shape), jnp.uint8)
    state = jax.jit(Learner(tiny, spec).init)(jax.random.key(0), images)
    return Agent(tiny, spec, state.params, np.zeros((16, *spec.image_shape), np.uint8), 0)


def test_the_command_says_what_an_agent_lacks(agent, monkeypatch, capsys):
    monkeypatch.setattr(shell, "load", lambda run: agent)
    monkeypatch.setattr("sys.argv", ["discern", "probe", "somewhere", "--json", "--seed", "3"])
    main()
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"]["missing"] in ("sight", "reward", "timing", "control")
    assert (report["seed"], report["steps"], report["trajectories"], report["frames"]) == (3, 5, 400, 2000)
    assert report["goals"]["digest"] == "c2eb27cf6bda88f7"
    assert report["dimensions"]["x"].keys() >= {"r2_h", "r2_teacher", "reward_off", "success", "random"}
    assert report["dimensions"]["x"]["reward_off"]["pairs"] == 300
    assert report["success"] <= report["at_some_step"]
    table = shell.as_table(report)
    assert table.splitlines()[0] == "arena: 2000 frames of 400 trajectories"
    assert table.splitlines()[-1].startswith(f"missing: {report['verdict']['missing']} (")
    again = shell.probe("somewhere", 3)
    assert all(again[name] == report[name] for name in ("verdict", "dimensions", "reward", "success"))


def test_attempts_in_few_environments_are_those_at_every_goal():
    """30 environments for 100 trajectories: the last round is cut off."""
    world = Hosted(Counting(), 30)
    asked = []

    def begin(index):
        asked.append(index)
        return lambda raw: (index % 3).astype(np.int32)

    played = shell._play(world, begin, np.array([2, 4]), seed=0)
    assert played.frames.shape == (100, 2, 8, 8, 3)
    np.testing.assert_array_equal(played.measures[:, :, 0], np.tile([1, 2, 3, 4], (100, 1)))
    np.testing.assert_array_equal(played.frames[:, :, 0, 0, 1], np.tile([2, 4], (100, 1)))
    np.testing.assert_array_equal(played.frames[:, 0, 0, 0, 2], np.arange(100) % 3)
    assert len(asked) == 4


def test_random_actions_are_held(agent):
    choose = shell._random(agent, 5, np.random.default_rng(0))(np.arange(50))
    actions = np.stack([choose(None) for _ in range(200)])
    changed = (actions[1:] != actions[:-1]).mean()
    assert 0.2 < changed < 0.3  # 1/3 begin anew, a fifth of them with the same action
    assert set(actions.ravel()) == set(range(5))


def test_what_cannot_be_measured_is_left_out_or_refused(agent, monkeypatch):
    frames = np.zeros((4, 2, 1, 1, 3), np.uint8)
    measures = np.arange(4 * 3 * 1, dtype=np.float32).reshape((4, 3, 1))
    measures[1, 0] = np.nan
    _, kept, trajectory, moment = shell._gather([shell.Played(frames, measures)], np.array([1, 3]))
    np.testing.assert_array_equal(kept[:, 0], [0, 2, 5, 6, 8, 9, 11])
    np.testing.assert_array_equal(trajectory, [0, 0, 1, 2, 2, 3, 3])
    np.testing.assert_array_equal(moment, [1, 3, 3, 1, 3, 1, 3])
    monkeypatch.setattr(shell, "load", lambda run: agent)
    monkeypatch.setattr(Hosted, "measure", lambda self, raw: np.full((self.size, 2), np.nan, np.float32))
    with pytest.raises(UserError, match="too little of arena can be measured"):
        shell.probe("somewhere")
    unscored = Agent(agent.config, EnvSpec("arena", (24, 24, 3), 5), agent.params, agent.goal_images, 0)
    monkeypatch.setattr(shell, "load", lambda run: unscored)
    with pytest.raises(UserError, match="arena has no success rate"):
        shell.probe("somewhere")
    with pytest.raises(UserError, match="must not be below 0"):
        shell.probe("somewhere", -1)


def test_every_reward_can_be_probed(agent, monkeypatch):
    for kind in ("wgan", "log_likelihood"):
        config = replace(agent.config, {"reward.kind": kind})
        images = jnp.zeros((16, 24, 24, 3), jnp.uint8)
        params = jax.jit(Learner(config, agent.spec).init)(jax.random.key(0), images).params
        other = Agent(config, agent.spec, params, agent.goal_images, 0)
        monkeypatch.setattr(shell, "load", lambda run, other=other: other)
        report = shell.probe("somewhere")
        assert report["reward"]["match"]["pairs"] == 300
        json.dumps(report, allow_nan=False)


@pytest.mark.parametrize("agent", ["reacher", "ball_in_cup", "finger"])
def test_the_tables_of_the_page_are_their_files(agent):
    recorded = json.loads((ROOT / "results" / f"probe_{agent}.json").read_text())
    assert f"agents/{agent}\n{shell.as_table(recorded)}\n" in (ROOT / "docs" / "probe.md").read_text()
