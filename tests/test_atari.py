"""The real emulator: pixels, resets, goals, and the refusal of what is not known."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import cv2
import jax
import numpy as np
import psutil
import pytest
from ale_py.vector_env import AtariVectorEnv

import discern
from discern.agent.learner import Learner
from discern.agent.replay import Memory, empty_replay
from discern.config import AtariConfig, replace
from discern.diagnostics.bench import bench
from discern.envs import is_host, make_env, make_scored_env
from discern.envs.atari.avatars import AVATARS, LEFT, RIGHT, Emulator, positions
from discern.envs.atari.games import NOOP, Game, Look
from discern.envs.atari.goals import DIGESTS, digest, make_goals, steps_to
from discern.envs.atari.worlds import Atari, ScoredAtari, area_weights, shrink
from discern.envs.base import Attempts, HostStep
from discern.evaluation.goal_sets import goal_set
from discern.presets import preset
from discern.training.collect import HostCollector, make_worlds
from discern.types import UserError

ON_HOST, ON_DEVICE = AtariConfig(shrink="emulator"), AtariConfig(shrink="accelerator")
LIVES = 59  # Seaquest's byte of them
TINY = {
    "minutes": None,
    "steps": 1500,
    "actor.environments": 4,
    "actor.horizon": 10,
    "learner.batch": 4,
    "learner.replay_ratio": 1.0,
    "replay_capacity": 64,
    "goal_buffer.capacity": 16,
    "reward.decoy_pool": 8,
    "reward.hidden": 8,
    "network.channels": (4, 4),
    "network.features": 8,
    "network.lstm": 8,
    "evaluation_goals": 4,
    "evaluate_every": None,
}


def play(env: Atari, actions: np.ndarray) -> np.ndarray:
    """Images of every step, uint8 [T, N, 84, 84, 3]."""
    return np.stack([np.array(env.observe(step(env, action).raw)) for action in actions])  # each writes over raw


def step(env: Atari, action: np.ndarray) -> HostStep:
    env.send(action)
    return env.recv()


def random_actions(steps: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 18, (steps, n), dtype=np.int32)


def test_shrinking_is_by_area():
    np.testing.assert_allclose(area_weights(4, 2), [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])
    np.testing.assert_allclose(area_weights(3, 2), [[2 / 3, 1 / 3, 0], [0, 1 / 3, 2 / 3]], rtol=1e-6)
    noise = np.random.default_rng(0).integers(0, 256, (8, 210, 160, 3), dtype=np.uint8)
    ours = np.asarray(jax.jit(shrink)(noise)).astype(int)
    theirs = np.stack([cv2.resize(image, (84, 84), interpolation=cv2.INTER_AREA) for image in noise])
    assert np.abs(ours - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.01


@pytest.mark.parametrize("game", ["seaquest", "montezuma_revenge"])
def test_both_ways_to_shrink_show_the_same(game):
    actions = random_actions(60, 2)
    seen = []
    for config in (ON_HOST, ON_DEVICE):
        env = Atari(game, 2, config)
        first = np.array(env.observe(env.reset(3).raw))
        seen.append(np.concatenate([first[None], play(env, actions)]).astype(int))
        env.close()
    assert np.abs(seen[0] - seen[1]).max() <= 1


def test_how_games_are_shared_out_does_not_change_them(monkeypatch):
    """A score or a run must not depend on the number of cores, even where chance plays along."""
    monkeypatch.setattr("discern.envs.atari.worlds.GAMES_PER_PROCESS", 1)
    actions = random_actions(40, 6)
    seen, processes = [], []
    for threads in (1, 3):
        env = Atari("breakout", 6, AtariConfig(shrink="emulator", sticky=0.25, threads=threads), Attempts(15, 2, 0.5))
        first = np.array(env.observe(env.reset(3).raw))
        seen.append(np.concatenate([first[None], play(env, actions)]))
        processes.append(len(env._games.running))
        env.close()
    assert processes == [1, 3]
    np.testing.assert_array_equal(*seen)
    assert (seen[0][-1, 0] != seen[0][-1, 2]).any()  # each group has a seed of its own


@pytest.mark.parametrize("game", ["seaquest", "montezuma_revenge"])
@pytest.mark.parametrize("side", [(84, 84), (210, 160)], ids=["emulator", "accelerator"])
def test_a_game_shows_the_pixels_of_the_emulators_own_vector_environment(game, side):
    """The same game after the same idle frames and the same actions."""
    settings = {"grayscale": False, "stack_num": 1, "full_action_space": True, "use_fire_reset": False}
    theirs = AtariVectorEnv(game, 1, img_height=side[0], img_width=side[1], **settings)
    first, info = theirs.reset(seed=5)
    ours = Game(
        game, Look(np.empty((*side, 3), np.uint8), np.empty(128, np.uint8)), np.empty((2, 210, 160, 3), np.uint8)
    )
    ours.go_on_from(ours.starts(0, 0)[int(info["episode_frame_number"][0])])
    np.testing.assert_array_equal(ours.look.screen, first[0, 0])
    for action in random_actions(180, 1):
        ours.play(int(action[0]))
        np.testing.assert_array_equal(ours.look.screen, theirs.step(action)[0][0, 0])
    theirs.close()


@pytest.mark.parametrize("game", ["seaquest", "montezuma_revenge"])
def test_training_and_scored_worlds_are_the_same_games(game):
    actions = random_actions(40, 2)
    worlds = ScoredAtari(game, 2, ON_DEVICE), Atari(game, 2, ON_DEVICE, Attempts(40, p_restart=1.0))
    assert worlds[0].observe(worlds[0].reset(7).raw).shape == worlds[1].observe(worlds[1].reset(7).raw).shape
    for action in actions:
        scored, training = (step(world, action) for world in worlds)
        np.testing.assert_array_equal(scored.raw.screen, training.raw.screen)
        np.testing.assert_array_equal(*(world.measure(training.raw) for world in worlds))
    for world in worlds:
        world.close()


def test_no_trajectory_crosses_a_reset(monkeypatch):
    """Breakout is soon over under random play; every stored trajectory must be one stretch of one game."""
    config = replace(preset("atari/breakout"), {**TINY, "actor.steps_per_turn": 420, "replay_capacity": 256})
    config = replace(config, {"goal_buffer.p_replace": 0.0, "actor.epsilon_exponent": 0.0, "actor.epsilon_base": 1.0})
    groups = [Atari("breakout", 2, ON_HOST), Atari("breakout", 2, ON_HOST)]
    stream: list[list[tuple]] = [[], []]

    def record(which: int) -> None:
        group, send, receive = groups[which], groups[which].send, groups[which].recv

        def recv():
            received = receive()
            if sent:
                stream[which].append((received.raw.screen.copy(), received.is_first, sent[-1]))
            return received

        sent: list[np.ndarray] = []
        monkeypatch.setattr(group, "recv", recv)
        monkeypatch.setattr(group, "send", lambda actions: (sent.append(actions.copy()), send(actions))[1])

    for which in (0, 1):
        record(which)
    learner = Learner(config, groups[0].spec)
    collector = HostCollector(config, groups, learner.imitator)
    state, goals, _ = collector.start(jax.random.key(0), first_slot=256)
    params = jax.jit(learner.init)(jax.random.key(1), goals.images).params
    memory = Memory(empty_replay(256, 4, 10, (84, 84, 3)), goals)
    state, memory = collector.turn(params, state, memory, jax.random.key(2))
    collector.close()
    counts = collector.counts(state)
    assert counts["dropped"] > 0
    replay = memory.replay
    whole = np.asarray(replay.queue)[: int(replay.filled)]
    observations, actions = np.asarray(replay.stored.observations)[whole], np.asarray(replay.stored.actions)[whole]
    assert len(whole) == counts["trajectories"] > 100

    where: dict[bytes, list[tuple[int, int, int]]] = {}
    for which in (0, 1):
        for t, (screens, _, _) in enumerate(stream[which]):
            for env in (0, 1):
                where.setdefault(screens[env].tobytes(), []).append((which, env, t))
    for frames, chosen in zip(observations, actions, strict=True):
        stretches = [
            (which, env, t)
            for which, env, t in where[frames[0].tobytes()]
            if t + 10 < len(stream[which])
            and all(stream[which][t + i][0][env].tobytes() == frames[i].tobytes() for i in range(11))
            and all(stream[which][t + i + 1][2][env] == chosen[i] for i in range(10))
        ]
        assert stretches  # no frame or action is lost, doubled or out of order
        for which, env, t in stretches:
            assert not any(stream[which][t + i][1][env] for i in range(1, 11))


def test_a_game_that_ends_starts_over_and_says_so():
    env = Atari("breakout", 1, ON_HOST)
    now = env.reset(0)
    assert now.is_first.all()
    assert not now.is_last.any()
    flags = []
    for action in random_actions(300, 1, seed=1):
        now = step(env, action)
        flags.append((bool(now.is_first[0]), bool(now.is_last[0])))
    env.close()
    last = [t for t, flag in enumerate(flags) if flag[1]]
    assert last
    assert [t for t, flag in enumerate(flags) if flag[0]] == [t + 1 for t in last if t + 1 < len(flags)]


def test_sticky_actions_are_a_setting():
    actions = random_actions(80, 1)

    def images(sticky: float) -> np.ndarray:
        env = ScoredAtari("seaquest", 1, AtariConfig(shrink="emulator", sticky=sticky))
        env.reset(0)
        images = play(env, actions)
        env.close()
        return images

    np.testing.assert_array_equal(images(0.0), images(0.0))
    assert (images(0.0) != images(0.5)).any()


@pytest.mark.parametrize(("game", "start"), [("seaquest", (76, 13)), ("montezuma_revenge", (77, 235))])
def test_the_avatar_is_where_memory_says(game, start):
    emulator = Emulator(game)
    emulator.start(np.random.default_rng(0))
    np.testing.assert_array_equal(emulator.position, start)
    assert emulator.is_controllable()
    emulator.skip(RIGHT)
    np.testing.assert_array_equal(emulator.position, (start[0] + 4, start[1]))
    assert [d.name for d in make_scored_env(f"atari/{game}").spec.dimensions] == ["x", "y"]


def test_before_it_obeys_the_submarine_is_locked():
    emulator = Emulator("seaquest")
    emulator._ale.reset_game()
    assert not emulator.is_controllable()


def test_outside_the_first_room_nothing_is_measured():
    ram = np.zeros((2, 128), np.uint8)
    ram[:, 42], ram[:, 43], ram[:, 3] = 80, 200, (1, 2)
    np.testing.assert_array_equal(positions(AVATARS["montezuma_revenge"], ram), [[80, 200], [np.nan, np.nan]])


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_goal_sets_are_made_again_the_same(name):
    game, which, half = name.split("/")
    images, measures = make_goals(game, which, half)
    assert digest(images, measures) == DIGESTS[name]
    shipped = goal_set(make_scored_env(f"atari/{game}"), f"{which}:{half}")
    np.testing.assert_array_equal(shipped.images, images)
    np.testing.assert_array_equal(shipped.measures, measures)


def test_montezumas_goals_know_their_fewest_steps():
    env, start = make_scored_env("atari/montezuma_revenge"), np.array([[77.0, 235.0]])
    for half, far in (("tune", 27), ("test", 24)):
        goals = goal_set(env, f"even:{half}").measures
        fewest = env.fewest_steps(start, goals)
        np.testing.assert_array_equal(fewest, steps_to(goals))
        assert (fewest > 25).sum() == far and fewest.min() == 1 and fewest.max() <= 50
    assert np.isnan(env.fewest_steps(start, goal_set(env, "paper:tune").measures)).any()
    assert not hasattr(make_scored_env("atari/seaquest"), "fewest_steps")


def test_goals_lie_in_the_playable_area_and_cover_it():
    for game in AVATARS:
        goals = goal_set(make_scored_env(f"atari/{game}"), "even")
        for d, values in zip(AVATARS[game].dimensions, goals.measures.T, strict=True):
            assert values.min() >= d.low
            assert values.max() <= d.high
            assert np.ptp(values) > 0.8 * (d.high - d.low)
    with pytest.raises(UserError, match="even, paper"):
        goal_set(make_scored_env("atari/seaquest"), "odd")
    with pytest.raises(UserError, match="has 100 goals"):
        goal_set(make_scored_env("atari/seaquest"), "even", 101)
    assert len(goal_set(make_scored_env("atari/seaquest"), "even:tune", 7).images) == 7


@pytest.mark.parametrize("game", sorted(AVATARS))
@pytest.mark.parametrize("name", ["even", "paper"])
def test_no_picture_is_in_both_halves(game, name):
    goals = goal_set(make_scored_env(f"atari/{game}"), name)
    assert len({image.tobytes() for image in goals.images}) == 200
    if name == "even":
        span = np.array([d.high - d.low for d in AVATARS[game].dimensions])
        tune, test = np.split(goals.measures / span, 2)
        np.testing.assert_allclose(tune.mean(0), test.mean(0), atol=0.02)
        np.testing.assert_allclose(tune.std(0), test.std(0), atol=0.02)
        shared = {tuple(place) for place in tune.tolist()} & {tuple(place) for place in test.tolist()}
        assert len(shared) == (7 if game == "seaquest" else 0)


def test_where_one_process_dies_the_others_end(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    games = ScoredAtari("seaquest", 12, ON_HOST)
    games.reset(7)
    first, second = (process.pid for process in games._games.running)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(UserError, match="atari/seaquest died with exit code -9 while stepping"):
        play(games, random_actions(2, 12))
    assert not psutil.pid_exists(second)
    games.close()


def test_an_unknown_game_is_refused():
    with pytest.raises(UserError, match="did you mean seaquest"):
        make_env("atari/seequest")
    assert is_host(make_env("atari/pong"))


def test_a_game_without_a_known_avatar_trains_shows_goals_and_tells_them_apart(tmp_path):
    run = tmp_path / "pong"
    config = replace(preset("atari/pong"), TINY | {"steps": 600})
    discern.train(config, run)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["steps"] >= 600
    assert not any("success" in row or "random" in row for row in rows)
    assert (run / "goals.png").stat().st_size > 1000
    report = discern.evaluate(run, trials=1, count=4)
    assert report["success"] is None
    assert 0.0 <= report["told_apart"] <= 1.0
    assert report["told_apart_chance"] == 0.25


def test_a_run_is_scored_on_both_goal_sets_and_resumes(tmp_path):
    run = tmp_path / "seaquest"
    twins = {"actor.twins": 2, "actor.host_groups": 2, "actor.p_restart": 0.3}
    discern.train(replace(preset("atari/seaquest"), TINY | twins | {"steps": 600}), run)
    for goals in ("even:test", "paper:tune"):
        report = discern.evaluate(run, goals, trials=1, count=4)
        assert report["goals"]["set"] == goals
        assert 0.0 <= report["success"] <= 1.0
        assert 0.0 <= report["random"] <= 1.0
    discern.resume(run, steps=900)
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["steps"] >= 900
    agent = discern.load(run)
    reached = agent.reach(make_env("atari/seaquest", 1), np.zeros((84, 84, 3), np.uint8))
    assert reached.observations.shape == (11, 84, 84, 3)
    assert (reached.observations[1:] != reached.observations[:-1]).any(axis=(1, 2, 3)).all()


def test_the_bench_times_the_emulator_alone():
    report = bench(replace(preset("atari/seaquest"), TINY), seconds=0.3)
    assert report["whole_over_world"] == pytest.approx(
        report["whole_steps_per_second"] / report["world_steps_per_second"], rel=0.01
    )
    assert report["world_steps_per_second"] > report["whole_steps_per_second"] > 0


def test_emulators_end_with_their_parent():
    """A killed run leaves no process of emulators behind."""
    code = (
        "from discern.envs import make_scored_env; import os\n"
        "games = make_scored_env('atari/pong', 1); games.reset(0)\n"
        "print(games._games.running[0].pid, flush=True); os._exit(9)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    pid = int(out.stdout.split()[-1])
    deadline = time.monotonic() + 10
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "the process of emulators lives on"
            time.sleep(0.1)


def is_well(emulator: Emulator) -> bool:
    return all(emulator.look.ram[byte] <= most for byte, most in emulator.avatar.helpless)


@pytest.mark.parametrize("game", ["seaquest", "montezuma_revenge"])
def test_before_a_lost_life_the_avatar_is_helpless_and_after_it_locked(game):
    emulator, chance = Emulator(game), np.random.default_rng(0)
    emulator.start(chance)
    assert is_well(emulator)
    lives, action = emulator.lives, 0
    while emulator.lives == lives:
        before = is_well(emulator)
        action = int(chance.integers(18)) if chance.random() < 0.2 else action
        emulator.play(action)
    assert not before
    for _ in range(AVATARS[game].locked_after_loss - 1):
        assert not emulator.is_controllable(steps=1)
        emulator.skip(NOOP)
    emulator.skip(NOOP)
    emulator.skip(NOOP)
    assert emulator.is_controllable()


def test_the_world_is_in_hand_where_the_avatar_obeys():
    world = Atari("seaquest", 2, AtariConfig(shrink="emulator", await_control=True))
    first = world.reset(0)
    controllable, lives = [first.controllable], [first.raw.ram[:, LIVES].copy()]
    for t in range(500):
        now = step(world, np.full(2, t // 8 % 18, np.int32))
        controllable.append(now.controllable)
        lives.append(now.raw.ram[:, LIVES].copy())
    world.close()
    assert not np.any(controllable[:32])
    assert np.all(controllable[32:40])
    losses = np.argwhere(np.diff(np.array(lives, int), axis=0) < 0)
    assert len(losses) >= 1
    for t, which in losses:
        assert not np.any(np.array(controllable)[t + 1 : t + 31, which])
    plain = Atari("seaquest", 1, AtariConfig(shrink="emulator"))
    assert plain.reset(0).controllable is True
    plain.close()


# --- attempts in groups of twins


@pytest.mark.parametrize(("game", "enemies"), [("seaquest", range(30, 34)), ("montezuma_revenge", [47])])
def test_twins_share_everything_but_their_actions(game, enemies):
    env = Atari(game, 4, AtariConfig(shrink="emulator", sticky=0.25), Attempts(12, 4, 1.0))
    env.reset(2)
    for action in random_actions(12, 1):
        same = step(env, np.repeat(action, 4)).raw
        assert (same.screen == same.screen[0]).all()
        assert (same.ram == same.ram[0]).all()
    step(env, np.zeros(4, np.int32))
    for _ in range(3):
        parted = step(env, np.array([NOOP, RIGHT, LEFT, NOOP], np.int32)).raw
    assert (parted.ram[:, enemies] == parted.ram[0, enemies]).all()
    x = env.measure(parted)[:, 0]
    assert x[2] < x[0] == x[3] < x[1]
    assert (parted.screen[0] == parted.screen[3]).all()
    assert (parted.screen[0] != parted.screen[1]).any()
    env.close()


def attempts_of(env: Atari, count: int, seed: int = 0) -> list[list[HostStep]]:
    """Attempts of random play, each from its first step to its last, in which every environment's are as long."""
    chance = np.random.default_rng(seed)
    attempts, now = [], env.reset(seed)
    while len(attempts) < count:
        attempt = []
        while not (attempt and attempt[-1].is_last.all()):
            kept = now._replace(raw=Look(*(part.copy() for part in now.raw)))
            assert now.is_first.all() == (not attempt)
            assert now.is_first.any() == (not attempt)
            attempt.append(kept)
            now = step(env, chance.integers(0, 18, env.size, dtype=np.int32))
        attempts.append(attempt)
    return attempts


def test_attempts_begin_together_where_one_that_obeyed_has_ended():
    env = Atari("montezuma_revenge", 6, AtariConfig(shrink="emulator", await_control=True), Attempts(20, 3))
    attempts = attempts_of(env, 15)
    env.close()
    continued, chosen = 0, set()
    for before, attempt in pairwise(attempts):
        assert len(attempt) == 21
        assert np.all(attempt[0].controllable)
        for group in (slice(0, 3), slice(3, 6)):
            first, last = (now.raw.ram[group] for now in (attempt[0], before[-1]))
            assert (first == first[0]).all()
            dying = np.any([last[:, byte] > most for byte, most in AVATARS["montezuma_revenge"].helpless], axis=0)
            alive = np.flatnonzero(before[-1].controllable[group] & ~dying)
            if len(alive):
                continued += 1
                matching = [i for i in alive if (last[i] == first[0]).all()]
                assert matching
                assert (before[-1].raw.screen[group][matching[0]] == attempt[0].raw.screen[group]).all()
                chosen |= set(matching)
            else:
                np.testing.assert_array_equal(env.measure(attempt[0].raw)[group], [(77, 235)] * 3)
    assert continued > 10
    assert chosen == {0, 1, 2}
    assert (attempts[-1][0].raw.ram[0] != attempts[-1][0].raw.ram[3]).any()


@pytest.mark.parametrize("twins", [1, 2])
def test_attempts_begin_at_a_games_start_as_often_as_asked(twins):
    starts = {}
    for p_restart in (1.0, 0.5):
        env = Atari("seaquest", 4, AtariConfig(shrink="emulator", await_control=True), Attempts(6, twins, p_restart))
        attempts = attempts_of(env, 12)
        env.close()
        assert np.all([now.controllable for attempt in attempts for now in attempt])  # nothing is locked
        places = np.concatenate([env.measure(attempt[0].raw) for attempt in attempts])
        starts[p_restart] = (places == (76, 13)).all(axis=1)
    assert starts[1.0].all()
    assert 0.2 < starts[0.5][4:].mean() < 0.8


def test_the_end_of_a_game_ends_the_attempt_of_its_group():
    env = Atari("breakout", 4, AtariConfig(shrink="emulator", await_control=True), Attempts(1000, 2, 0.0))
    now, chance, ends = env.reset(0), np.random.default_rng(0), []
    while len(ends) < 2:
        last = now.is_last.copy(), np.array(now.controllable)
        now = step(env, chance.integers(0, 18, 4, dtype=np.int32))
        assert (now.is_last[::2] == now.is_last[1::2]).all()
        assert (now.is_first == last[0]).all()
        ends += [0] if now.is_last.any() and not now.is_last.all() else []  # of one group, not of both
        assert (now.raw.screen[0] == now.raw.screen[1]).all() or not now.is_first[0]
    env.close()


def test_a_seed_repeats_a_run_of_twins():
    seen = []
    for seed in (1, 1, 2):
        env = Atari("seaquest", 4, AtariConfig(shrink="emulator", sticky=0.25), Attempts(7, 2, 0.3))
        env.reset(seed)
        seen.append(play(env, random_actions(40, 4)))
        env.close()
    assert (seen[0] == seen[1]).all()
    assert (seen[0] != seen[2]).any()


def test_there_is_no_world_without_a_group():
    config = replace(preset("atari/pong"), TINY | {"actor.twins": 2, "actor.host_groups": 3})
    worlds = make_worlds(config)
    assert [world.size for world in worlds if is_host(world)] == [2, 2]
    for world in worlds:
        world.close()
