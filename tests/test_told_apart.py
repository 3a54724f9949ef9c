"""Goals told apart: by hand, at chance, by an oracle, in a world that nothing is scored in; and how far to trust it."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from rich.console import Console

from benchmarks.told_apart import luck, over_agents, recorded
from discern import cli
from discern.agent.learner import Learner
from discern.config import replace
from discern.envs import Hosted, make_scored_env
from discern.envs.base import Attempts, Dimension
from discern.evaluation import told_apart
from discern.evaluation.compare import as_table, compare
from discern.evaluation.final import load_final
from discern.evaluation.goal_sets import GoalSet, goal_set
from discern.evaluation.report import evaluate
from discern.evaluation.statistics import rank_correlation
from discern.evaluation.told_apart import (
    Play,
    Shares,
    ToldApart,
    chance,
    draw,
    learn,
    nearest_frames,
    play,
    plays,
    rivals,
    share_told_apart,
    squared_distances,
    told_apart_in,
)
from discern.presets import preset
from discern.storage.run_folder import RunFolder
from discern.training import scoring
from discern.training.loop import train
from discern.training.scoring import Scoring, fixed_goals
from discern.types import UserError
from tests.conftest import TINY
from tests.counting import Counting

STAND_IN = str(Path(__file__).parent / "stand_in")
RESULTS = Path(__file__).parent.parent / "results"
NOISE = np.random.default_rng(0).integers(0, 256, (100, 8, 8, 3), dtype=np.uint8)


def a_play(frames: np.ndarray, dimensions: int = 0) -> Play:
    return Play(frames, np.zeros((*frames.shape[:2], dimensions), np.float32))


@pytest.fixture(scope="module")
def ignorant() -> ToldApart:
    """An embedding that has hardly learned, of images of noise."""
    trajectories = a_play(NOISE[:96].reshape((16, 6, 8, 8, 3)))
    return ToldApart(learn(trajectories.frames, 8), trajectories, trajectories)


def test_rivals_on_a_toy_embedding():
    """Four goals on a line, and where three attempts at the first, second and last of them ended."""
    goals, ends = np.array([[0.0], [1.0], [2.0], [9.0]]), np.array([[0.4], [1.9], [9.0]])
    distances = squared_distances(ends, goals)
    np.testing.assert_allclose(distances[0], [0.16, 0.36, 2.56, 73.96])
    np.testing.assert_array_equal(rivals(distances, np.array([0, 1, 3])), [0, 1, 0])
    np.testing.assert_array_equal(rivals(distances, np.array([3, 0, 2])), [3, 2, 1])
    twice = squared_distances(ends[:1], np.array([[0.0], [0.0]]))
    assert rivals(twice, np.array([0])).tolist() == [1]  # what is no nearer is not told apart


def test_bytes_are_compared_exactly():
    white, almost = np.full((1, 21168), 255, np.uint8), np.full((1, 21168), 255, np.uint8)
    almost[0, 0] = 254
    np.testing.assert_array_equal(
        squared_distances(white, np.concatenate([white, almost, 0 * white])), [[0, 1, 21168 * 255**2]]
    )


@pytest.mark.parametrize(
    ("counts", "goals", "share"),
    [
        ([0, 0, 3, 1], 4, 0.5),  # three others: all of them count
        ([0], 33, 1.0),
        ([1], 33, 1 / 32),  # the rival is the one of 32 others that is not drawn
        ([2], 33, 0.0),
        ([1], 63, 0.5),  # the rival is among 31 of 62 others in half of the choices
        (list(range(100)), 100, 1 / 32),  # any rank equally often: chance
        (list(range(16)), 16, 1 / 16),
    ],
)
def test_the_share_is_a_mean_over_choices_of_others(counts, goals, share):
    assert share_told_apart(np.array(counts), goals) == pytest.approx(share)


def test_chance_goes_with_the_number_of_goals():
    assert [chance(goals) for goals in (1, 2, 16, 32, 100)] == [1, 1 / 2, 1 / 16, 1 / 32, 1 / 32]


def test_an_oracle_tells_all_apart_and_noise_is_at_chance(ignorant):
    own = np.arange(100)
    assert ignorant.shares(ignorant.rivals(NOISE, NOISE, own), 100) == Shares(1.0, 1.0)
    same = np.zeros_like(NOISE)
    assert ignorant.shares(ignorant.rivals(NOISE, same, own), 100) == Shares(0.0, 0.0)
    rng = np.random.default_rng(1)
    ends = rng.integers(0, 256, (800, 8, 8, 3), dtype=np.uint8)
    shares = ignorant.shares(ignorant.rivals(ends, NOISE, rng.integers(100, size=800)), 100)
    np.testing.assert_allclose(shares, 1 / 32, atol=0.02)


def test_the_ceiling_is_of_frames_where_the_goal_is_reached(ignorant):
    """A frame of play at the first goal, one a little off the second, and none near the third."""
    line = (Dimension("x", 0.0, 10.0),)
    nearest, reaches = nearest_frames(np.array([[0.0], [4.6], [4.5], [np.nan]]), np.array([[0.0], [4.0], [9.0]]), line)
    assert (nearest[:2].tolist(), reaches.tolist()) == ([0, 2], [True, True, False])
    goals = GoalSet("", NOISE[:3], np.array([[0.0], [4.0], [9.0]], np.float32), "")
    measures = np.array([[[0.0], [4.5], [4.6]]], np.float32)
    right, wrong = (Play(NOISE[None, order], measures) for order in ([0, 1, 5], [0, 2, 5]))
    assert ToldApart(ignorant._params, right, right).ceiling(goals, line) == Shares(1.0, 1.0)
    assert ToldApart(ignorant._params, wrong, wrong).ceiling(goals, line) == Shares(0.5, 0.5)
    nowhere = Play(NOISE[None, :1], np.full((1, 1, 1), np.nan, np.float32))
    assert ToldApart(ignorant._params, nowhere, nowhere).ceiling(goals, line) is None


def test_where_nothing_is_measured_the_ceiling_is_of_the_same_actions_again(ignorant):
    goals, first = GoalSet("", NOISE[:3], np.zeros((3, 0)), ""), a_play(NOISE[None, :4].swapaxes(0, 1))
    assert ToldApart(ignorant._params, first, first).ceiling(goals, ()) == Shares(1.0, 1.0)
    swapped = a_play(NOISE[None, [0, 1, 3, 2]].swapaxes(0, 1))
    assert ToldApart(ignorant._params, first, swapped).ceiling(goals, ()) == Shares(0.5, 0.5)


def test_pairs_are_of_the_same_moments_in_all_twins():
    """Frames that say whose they are and when: groups of four, P = 2 first frames and what follows them."""
    numbered = np.arange(12)[:, None] * 100 + np.arange(7)
    frames = np.broadcast_to(numbered[..., None, None, None], (12, 7, 1, 1, 3)).astype(np.int32)
    drawn = draw(np.random.default_rng(0), frames, 4)[..., 0, 0, 0].reshape((-1, 4, 4))
    who, when = drawn // 100, drawn % 100
    assert (when == when[:, :1]).all()
    assert (when[..., 2:] > when[..., :2]).all()
    assert (who == who[:, :1, :1] + np.arange(4)[:, None]).all() and (who[:, 0, 0] % 4 == 0).all()
    assert sorted(who[:, 0, 0]) == [0, 4, 8]


def test_play_stands_still_after_an_episode():
    world = Hosted(Counting(length=3), 4, Attempts(5, 2))
    actions = np.zeros((5, 4), np.int32)
    seen = play(world, world.observe, actions, 0)
    np.testing.assert_array_equal(seen.frames[:, :, 0, 0, 1], [[0, 1, 2, 3, 3, 3]] * 4)
    np.testing.assert_array_equal(seen.measures[..., 0], seen.frames[:, :, 0, 0, 1])
    identity = seen.frames[:, :, 0, 0, 0]
    assert (identity == identity[:, :1]).all() and (identity[::2] == identity[1::2]).all()


@pytest.mark.usefixtures("optimised")
def test_the_arena_is_seen_through_its_distractors(monkeypatch):
    """The dot's own place is told apart far better than chance among discs that are elsewhere, and chance stays so."""
    monkeypatch.setattr(told_apart, "BYTES", 2**21)
    monkeypatch.setattr(told_apart, "UPDATES", 80)
    config = preset("arena/16")
    seen, unseen = plays(config)
    told = ToldApart(learn(seen.frames, 8), seen, unseen)
    env = make_scored_env("arena/16")
    goals = goal_set(env, "tune")
    ceiling = told.ceiling(goals, env.spec.dimensions)
    assert ceiling.embedded > 0.5
    ends = unseen.frames[:, -1]
    anyhow = told.shares(told.rivals(ends, goals.images, np.arange(len(ends)) % 100), 100)
    assert anyhow.embedded < 0.08


def test_the_measure_is_the_worlds_whatever_the_run(tiny, monkeypatch):
    """One for all runs in a world that differ in their own settings; another where the world does."""
    learned = []
    monkeypatch.setattr(told_apart, "LEARNED", {})
    monkeypatch.setattr(told_apart, "plays", lambda config: (a_play(NOISE[None]), a_play(NOISE[None])))
    monkeypatch.setattr(told_apart, "learn", lambda frames, twins: learned.append(twins))
    first = told_apart_in(tiny)
    for changes in ({"seed": 7}, {"actor.horizon": 9}, {"network.features": 16}, {"control.action_repeat": 9}):
        assert told_apart_in(replace(tiny, changes)) is first
    for changes in ({"env": "arena/16"}, {"gym.size": 20}):
        assert told_apart_in(replace(tiny, changes)) is not first
    assert learned == [8] * 3


def test_learning_it_again_gives_the_same(ignorant):
    again = learn(NOISE[:96].reshape((16, 6, 8, 8, 3)), 8)
    jax.tree.map(np.testing.assert_array_equal, ignorant._params, again)


def test_a_world_that_nothing_is_scored_in_trains_and_ends_with_a_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(STAND_IN)
    changes = {"gym.size": 18, "actor.warm_up": 1, "network.kernels": (6,), "network.strides": (6,), "steps": 300}
    config = replace(preset("tiny_worlds:Dot"), TINY | changes | {"evaluate_every": 100, "evaluation_goals": 6})
    run = train(config, tmp_path / "run", Console(width=500))
    said = capsys.readouterr().out
    assert "score it with --gym.score x:0:14" in said and "y:0:14" in said
    assert "told_apart_pixels" in said
    assert "has no success rate" in said and "told apart from 5 other goals" in said and "chance 16.7%" in said
    assert "of 6 attempts" in said and "nothing was learned" not in said
    rows = [row for row in RunFolder(run).metrics() if "told_apart" in row]
    assert len(rows) >= 3 and "success" not in rows[-1]
    names = ("told_apart", "told_apart_pixels", "told_apart_random", "told_apart_ceiling")
    assert all(0 <= row[name] <= 1 for row in rows for name in names)
    final = load_final(run)
    assert 0 <= final.told_apart <= 1 and np.isnan(final.success)
    (row,) = compare([run])
    assert (row["told_apart"], row["success"], row["rank_correlation"]) == (final.told_apart, None, None)
    cli.HANDLERS[cli.Evaluate](cli.read(["evaluate", str(run), "--trials", "1", "--count", "6"]))
    said = capsys.readouterr().out
    assert "no success rate, because none of its quantities is named" in said
    assert "told apart" in said and "by pixels" in said and "chance 16.7%" in said
    report = evaluate(run, "random:tune", trials=1, count=6)  # the embedding, goals and attempts of the curve's end
    for name in names:
        assert report[name] == pytest.approx(rows[-1][name])
    with pytest.raises(UserError, match="has no success rate, because none of its quantities is named"):
        evaluate(run, budgets=(2,))


def test_what_is_waited_for_is_named(tiny):
    named = []

    def phases(name: str) -> nullcontext:
        named.append(name)
        return nullcontext()

    learner = Learner(tiny, make_scored_env(tiny.env).spec)
    config = replace(tiny, {"evaluate_every": 100})
    Scoring(config, learner, fixed_goals(config, phases), phases)
    assert named == ["making the fixed goals", "learning to tell goals apart", "scoring the random policy"]


def test_the_world_is_asked_for_a_hint_before_anybody_is_scored_in_it(tiny, monkeypatch):
    """The hint comes from the environments, which the scoring thread steps from then on."""
    asked = []
    env = SimpleNamespace(score_hint=lambda: asked.append("hint") or "score it so")
    monkeypatch.setattr(scoring, "make_scored_env", lambda *_: env)
    monkeypatch.setattr(scoring, "goal_set", lambda *_: asked.append("goals"))
    fixed = fixed_goals(tiny)
    assert asked == ["goals", "hint"]
    assert fixed.hint == fixed.hint == "score it so" and len(asked) == 2


@pytest.mark.parametrize(
    ("these", "those", "correlation"),
    [
        ([1, 2, 3, 4], [1, 3, 2, 4], 0.8),
        ([5, 6, 9], [0.3, 0.1, 0.0], -1.0),
        ([1, 1, 2], [1, 2, 3], 1.5 / 3**0.5),
        ([0.1, 0.5, 0.4, 0.9], [1, 30, 20, 1e9], 1.0),
    ],
)
def test_rank_correlation_by_hand(these, those, correlation):
    assert rank_correlation(these, those) == pytest.approx(correlation)


def test_rank_correlation_is_spearmans():
    from scipy import stats  # a second to import, for each process of the tests

    one, other = np.random.default_rng(0).integers(0, 6, (2, 30))
    assert rank_correlation(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)
    assert np.isnan(rank_correlation([1, 1], [1, 2]))


def test_compare_says_how_far_the_measure_follows_success(tiny, tmp_path):
    """Four evaluations, in one of which the order is another."""
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.keep(tiny)
    points = zip((0.0, 0.2, 0.4, 0.9), (0.1, 0.3, 0.2, 0.4), (0.4, 0.3, 0.2, 0.1), strict=True)
    rows = [
        {"steps": n, "updates": n, "seconds": n, "success": a, "told_apart": b, "told_apart_pixels": c}
        for n, (a, b, c) in enumerate(points)
    ]
    folder.metrics_file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (row,) = compare([folder.path])
    assert (row["rank_correlation"], row["rank_correlation_pixels"]) == (pytest.approx(0.8), pytest.approx(-1.0))
    assert "0.80" in as_table([row])


def test_recorded_curves_are_their_sources():
    """Every run with a source is what the benchmark makes of that file."""
    entries = json.loads((RESULTS / "told_apart_cpu.json").read_text())["runs"]
    sources = {run["source"] for run in entries if "source" in run}
    assert sources
    made = [run for source in sorted(sources) for run in recorded(RESULTS / source, 100)]
    assert {run["name"]: run for run in entries if "source" in run} == {run["name"]: run for run in made}


def test_luck_by_hand():
    """Four attempts at each of three evaluations: binomial variances of 1/16, 3/64 and 0."""
    found = luck([0.5, 0.25, 1.0], 4)
    assert found["levels"] == pytest.approx((1 / 16 + 3 / 64) / 3 / np.var([0.5, 0.25, 1.0], ddof=1), abs=1e-3)
    assert found["changes"] == pytest.approx((7 / 64 + 3 / 64) / 2 / np.var([-0.25, 0.75], ddof=1), abs=1e-3)
    assert luck([0.0, 0.0, 0.0], 4) == {"levels": None, "changes": None}


def test_agents_of_one_world_are_ranked():
    def agent(name: str, world: str, success: float, embedded: float, pixels: float) -> dict:
        test = {"success": success, "told_apart": embedded, "told_apart_pixels": pixels}
        return {"name": name, "world": world, "test": test}

    three = [agent("a", "arena", 0.1, 0.2, 0.3), agent("b", "arena", 0.5, 0.3, 0.2), agent("c", "arena", 0.9, 0.9, 0.1)]
    found = over_agents([*three, agent("d", "arena/16", 1, 1, 1), {"name": "e", "world": "arena"}])
    assert set(found) == {"arena"} and set(found["arena"]["test"]) == {"a", "b", "c"}
    assert found["arena"]["rank_correlation"] == pytest.approx(1.0)
    assert found["arena"]["rank_correlation_pixels"] == pytest.approx(-1.0)
