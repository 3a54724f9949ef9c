"""Words, settings and images that make no sense: each is answered with one sentence, and nothing is written."""

from pathlib import Path

import numpy as np
import pytest

import discern
from discern.config import Config, from_json, replace, to_json
from discern.diagnostics.bench import bench
from discern.evaluation.record import record
from discern.inference import as_observation
from discern.presets import preset
from discern.reproduce import reproduce
from discern.types import UserError
from tests.refusals import Refused, refused

__all__ = ["refused"]

COMMANDS = [
    ("trian", "there is no command 'trian': did you mean train?"),
    ("evalute runs/mine", "did you mean evaluate?"),
    ("Doctor", "did you mean doctor?"),
    ("dance", "there is no command 'dance'; there are: train, evaluate,"),
    ("''", "there is no command ''; there are: train"),
    ("--json doctor", "there is no command '--json'; there are: train"),
    ("arena", "there is no command 'arena'"),
    ("--tyro-print-completion", "needs the name of a shell, bash, zsh, fish or tcsh"),
    ("--tyro-print-completion tcl", "needs the name of a shell, bash, zsh, fish or tcsh"),
    ("doctor extra", "discern doctor has no use for 'extra'"),
    ("doctor --jsn", "discern doctor has no flag --jsn: did you mean --json?"),
    ("evaluate", "discern evaluate needs RUN"),
    ("evaluate --run a", "discern evaluate has no flag --run: give its value without it"),
    ("evaluate a b", "discern evaluate has no use for 'b'"),
    ("evaluate a --trials 0", "--trials must be at least 1, not 0"),
    ("evaluate a --trials -3", "--trials must be at least 1, not -3"),
    ("evaluate a --trials many", "--trials takes a whole number, not 'many'"),
    ("evaluate a --trials", "--trials needs a value: a whole number"),
    ("evaluate a --trails 3", "did you mean --trials?"),
    ("evaluate a --count 0", "--count must be at least 1"),
    ("evaluate a --seed -1", "--seed must lie between 0 and 4294967295"),
    ("evaluate a --goals", "--goals needs a value"),
    ("evaluate a --json yes", "has no use for 'yes'"),
    ("reproduce", "name the figures to draw: all, atari-success"),
    ("reproduce moon", "there is no figure 'moon'; there are: all"),
    ("reproduce all --seeds 0", "--seeds must be at least 1"),
    ("reproduce all --budget -1", "--budget must be above 0"),
    ("reproduce all --budget nan", "--budget must be a finite number"),
    ("reproduce all --preset slow", "--preset takes fast, paper or tiny, not 'slow'"),
    ("figures", "name at least one run to draw"),
    ("figures nowhere", "nowhere is not a run"),
    ("compare", "name at least one run to compare"),
    ("compare nowhere", "nowhere is not a run"),
    ("compare nowhere --out curves.pdf", "cannot draw curves.pdf: name a .png"),
    ("record", "discern record needs RUN and --out"),
    ("record a", "discern record needs --out"),
    ("record --out a.mp4", "discern record needs RUN"),
    ("record a --out a.mp4 --goals 0", "--goals must lie between 1 and 1000, not 0"),
    ("record a --out a.mp4 --goals x", "--goals takes a whole number, not 'x'"),
    ("record a --out a.mp4 --goals 1001", "--goals must lie between 1 and 1000"),
    ("record a --out a.mp4 --fps 0", "--fps must lie between 1 and 60"),
    ("record a --out a.mp4 --fps 61", "--fps must lie between 1 and 60"),
    ("record a --out a.mp4 --seed -1", "--seed must lie between 0 and"),
    ("record a --out a.mp4 --goal b.png --goals 2", "not both"),
    ("export", "discern export needs RUN and DEST"),
    ("export a", "discern export needs DEST"),
    ("studio --port 0", "--port must lie between 1 and 65535, not 0"),
    ("studio --port 70000", "--port must lie between 1 and 65535"),
    ("studio --port http", "--port takes a whole number, not 'http'"),
    ("studio a b", "has no use for 'b'"),
    ("bench --seconds 0", "--seconds must be above 0"),
    ("bench --seconds -1", "--seconds must be above 0"),
    ("bench --seconds nan", "--seconds must be a finite number"),
    ("bench --seconds inf", "--seconds must be a finite number"),
    ("bench arena --learner.batch 1", "--learner.batch must be at least 2"),
    ("bench --run a", "discern bench has no flag --run"),
    ("bench moon", "there is no world 'moon'"),
]

TRAINING = [
    ("arena arena/84", "discern train has no use for 'arena/84'"),
    ("--config slow", "--config takes fast or paper, not 'slow'"),
    ("--config", "--config needs a value: {fast,paper}"),
    ("--config= arena", "--config takes fast or paper, not ''"),
    ("--env arena", "discern train has no flag --env: give its value without it"),
    ("--cfg paper", "has no flag --cfg"),
    ("--actors 2", "--actors is for a cluster"),
    ("--actors -1 --cluster local", "--actors must be at least 1"),
    ("--run", "--run needs a value: a path"),
    ("--sed 3", "did you mean --seed?"),
    ("-s 3", "discern train has no flag -s"),
    ("--batch 32", "did you mean --learner.batch?"),
    ("--learner.bach 32", "did you mean --learner.batch?"),
    ("--learner_batch=32", "did you mean --learner.batch?"),
    ("--no-such-thing", "discern train has no flag --no-such-thing: `discern train --help` lists them"),
    ("--resume", "--resume needs a value: a path"),
    ("--resume nowhere", "nowhere is not a run: it has no config.json"),
    ("--minutes 2 --resume=nowhere", "nowhere is not a run"),
    ("--resume nowhere --steps -5", "--steps must be at least 1, not -5"),
    ("--resume nowhere --steps x", "--steps takes a whole number, not 'x'"),
    ("--resume nowhere --minutes nan", "--minutes must be a finite number"),
    ("--resume nowhere --minutes -2", "--minutes must be above 0"),
    ("--resume nowhere --seed 3", "--seed is for a new run: one that goes on takes --resume, --steps, --minutes"),
    ("--resume nowhere --learner.batch 3", "--learner.batch is for a new run"),
    ("--resume nowhere --minuts 3", "did you mean --minutes?"),
    ("--resume nowhere --actors 3", "--actors is for a cluster"),
    ("arena --resume nowhere", "has no use for 'arena'"),
    ("--seed -1", "--seed must lie between 0 and 4294967295, not -1"),
    ("--seed 4294967296", "--seed must lie between 0 and 4294967295"),
    ("--seed 1.5", "--seed takes a whole number, not '1.5'"),
    ("--seed three", "--seed takes a whole number, not 'three'"),
    ("--seed=", "--seed takes a whole number, not ''"),
    ("--seed", "--seed needs a value: a whole number"),
    ("--steps -5", "--steps must be at least 1, not -5"),
    ("--steps 1e6", "--steps takes a whole number, not '1e6'"),
    ("--minutes -1", "--minutes must be above 0, not -1.0"),
    ("--minutes nan", "--minutes must be a finite number, not nan"),
    ("--minutes inf", "--minutes must be a finite number, not inf"),
    ("--minutes two", "--minutes takes a number, not 'two'"),
    ("--replay-capacity 0", "--replay-capacity must be at least 1"),
    ("--replay-capacity 10", "--replay-capacity must be at least --actor.environments"),
    ("--replay-capacity 70 --learner.batch 80", "--replay-capacity must be at least --learner.batch"),
    ("--evaluate-every -1", "--evaluate-every must be at least 1"),
    ("--evaluation-goals 0", "--evaluation-goals must be at least 1"),
    ("--evaluation-trials 0", "--evaluation-trials must be at least 1"),
    ("--log-seconds -1", "--log-seconds must be 0 or more"),
    ("--log-seconds nan", "--log-seconds must be a finite number"),
    ("--checkpoint-seconds -1", "--checkpoint-seconds must be 0 or more"),
    ("--checkpoint-seconds inf", "--checkpoint-seconds must be a finite number"),
    ("--network.torso deep", "--network.torso takes shallow or residual, not 'deep'"),
    ("--network.channels 0", "each of --network.channels must be at least 1"),
    ("--network.channels 4 x", "--network.channels takes a list, each a whole number, not '4 x'"),
    ("--network.channels 4 8", "--network.channels, --network.kernels and --network.strides must be equally long"),
    ("--network.channels --network.torso residual", "--network.channels must name at least one layer"),
    ("--network.kernels -1", "each of --network.kernels must be at least 1"),
    ("--network.strides 0", "each of --network.strides must be at least 1"),
    ("--network.features 0", "--network.features must be at least 1"),
    ("--network.lstm 0", "--network.lstm must be at least 1"),
    ("--network.time-units 0", "--network.time-units must be at least 1"),
    ("--goal-buffer.capacity 0", "--goal-buffer.capacity must be at least 1"),
    ("--goal-buffer.capacity 4", "--goal-buffer.capacity must exceed --reward.decoys and --reward.decoy-pool"),
    ("--goal-buffer.strategy some", "--goal-buffer.strategy takes uniform or diverse"),
    ("--goal-buffer.closeness far", "--goal-buffer.closeness takes mean or nearest"),
    ("--goal-buffer.p-replace 1.5", "--goal-buffer.p-replace must lie in [0, 1], not 1.5"),
    ("--goal-buffer.p-replace nan", "--goal-buffer.p-replace must be a finite number"),
    ("--goal-buffer.p-add-non-diverse -1", "--goal-buffer.p-add-non-diverse must lie in [0, 1]"),
    ("--relabel.goals moon", "--relabel.goals takes draw, random, hindsight or other, not 'moon'"),
    ("--relabel.goals", "--relabel.goals must name at least one kind of goal"),
    ("--relabel.p-hindsight -0.1", "--relabel.p-hindsight must lie in [0, 1]"),
    ("--relabel.hindsight-window 0", "--relabel.hindsight-window must be at least 1"),
    ("--relabel.hindsight-window 99", "--relabel.hindsight-window must lie between 1 and --actor.horizon"),
    ("--reward.kind money", "--reward.kind takes discern, log_likelihood,"),
    ("--reward.pair-gap 0.5", "--reward.pair-gap must be at least 1"),
    ("--reward.embedding 0", "--reward.embedding must be at least 1"),
    ("--reward.hidden -1", "--reward.hidden must be at least 1"),
    ("--reward.random-erasing 1.5", "--reward.random-erasing must lie in [0, 1]"),
    ("--reward.decoys 0", "--reward.decoys must be at least 1"),
    ("--reward.decoy-pool 2", "--reward.decoy-pool must be at least --reward.decoys"),
    ("--reward.decoy-pool -1", "--reward.decoy-pool must be at least 1"),
    ("--reward.inverse-temperature -1", "--reward.inverse-temperature must be above 0"),
    ("--reward.pixel-sigma-scale 0", "--reward.pixel-sigma-scale must be above 0"),
    ("--learner.batch 1", "--learner.batch must be at least 2, not 1"),
    ("--learner.batch -8", "--learner.batch must be at least 2"),
    ("--learner.discount 1.1", "--learner.discount must lie in [0, 1]"),
    ("--learner.lambda_ -0.1", "--learner.lambda_ must lie in [0, 1]"),
    ("--learner.optimiser sgd", "--learner.optimiser takes rmsprop or adam, not 'sgd'"),
    ("--learner.learning-rate 0", "--learner.learning-rate must be above 0"),
    ("--learner.learning-rate nan", "--learner.learning-rate must be a finite number"),
    ("--learner.epsilon 0", "--learner.epsilon must be above 0"),
    ("--learner.clip 0", "--learner.clip must be above 0"),
    ("--learner.clip inf", "--learner.clip must be a finite number"),
    ("--learner.target-interval -1", "--learner.target-interval must be at least 1"),
    ("--learner.ema-decay 1", "--learner.ema-decay must lie in [0, 1), not 1.0"),
    ("--learner.inverse-dynamics -1", "--learner.inverse-dynamics must be 0 or more"),
    ("--learner.replay-ratio 0", "--learner.replay-ratio must be above 0"),
    ("--learner.updates-per-call -1", "--learner.updates-per-call must be at least 1"),
    ("--actor.environments 0", "--actor.environments must be at least 1"),
    ("--actor.horizon 1", "--actor.horizon must be at least 2"),
    ("--actor.epsilon-base 1.1", "--actor.epsilon-base must lie in [0, 1]"),
    ("--actor.epsilon-exponent -1", "--actor.epsilon-exponent must be 0 or more"),
    ("--actor.ez-greedy -1", "--actor.ez-greedy must be 0 or more"),
    ("--actor.steps-per-turn -1", "--actor.steps-per-turn must be at least 1"),
    ("--actor.warm-up -1", "--actor.warm-up must be at least 1"),
    ("--actor.twins 0", "--actor.twins must be at least 1"),
    ("--actor.twins 3", "--actor.twins must divide --actor.environments, --learner.batch and --replay-capacity"),
    ("--reward.kind twins", "--reward.kind with twins needs --actor.twins of at least 2"),
    ("--actor.p-restart 2", "--actor.p-restart must lie in [0, 1]"),
    ("--actor.host-groups 0", "--actor.host-groups must be at least 1"),
    ("atari/seaquest --atari.sticky 1", "--atari.sticky must lie in [0, 1)"),
    ("atari/seaquest --atari.shrink me", "--atari.shrink takes auto, emulator or accelerator"),
    ("atari/seaquest --atari.threads -1", "--atari.threads must be at least 1"),
    ("control/reacher-hard --control.episode 0", "--control.episode must be at least 1"),
    ("control/reacher-hard --control.episode 20", "--control.episode must be at least --actor.horizon"),
    ("--control.pixels paint", "--control.pixels takes rays or opengl"),
    ("--gym.frame-skip 0 gym/CartPole-v1", "--gym.frame-skip must be at least 1"),
    ("gym/CartPole-v1 --gym.size 7", "--gym.size must be at least 8"),
    ("gym/CartPole-v1 --gym.step-timeout 0", "--gym.step-timeout must be above 0"),
    ("gym/CartPole-v1 --gym.step-timeout nan", "--gym.step-timeout must be a finite number"),
    ("arena --gym.size 40", "--gym.size is for worlds gym/…: arena has no such setting"),
    ("--gym.render watermaze", "--gym.render is for worlds gym/…: watermaze has no such setting"),
    ("atari/seaquest --control.episode 500", "--control.episode is for worlds control/…"),
    ("my_module:factory --atari.sticky 0.1", "--atari.sticky is for worlds atari/…"),
    ("--config paper --minutes -1 arena/84", "--minutes must be above 0"),
]


@pytest.mark.parametrize(("line", "sentence"), COMMANDS)
def test_commands(refused: Refused, line, sentence):
    assert sentence in refused(line)


@pytest.mark.parametrize(("line", "sentence"), TRAINING)
def test_settings(refused: Refused, line, sentence):
    assert sentence in refused(f"train {line}")


SETTINGS = [
    ({"learner.speed": 1}, "there is no setting 'learner.speed'"),
    ({"learner.bach": 1}, "did you mean learner.batch?"),
    ({"batch": 1}, "did you mean learner.batch?"),
    ({"learner": 3}, "learner must be a LearnerConfig, not 3"),
    ({"learner.batch": 2.5}, "learner.batch takes a whole number, not 2.5"),
    ({"learner.batch": "8"}, "learner.batch takes a whole number, not '8'"),
    ({"learner.batch": True}, "learner.batch takes a whole number, not True"),
    ({"learner.batch": None}, "learner.batch takes a whole number, not None"),
    ({"learner.discount": "high"}, "learner.discount takes a number, not 'high'"),
    ({"learner.discount": float("nan")}, "learner.discount must be a finite number"),
    ({"learner.optimiser": "sgd"}, "learner.optimiser takes rmsprop or adam, not 'sgd'"),
    ({"network.channels": 8}, "network.channels takes a list, each a whole number, not 8"),
    ({"network.channels": (8.0,)}, "network.channels takes a list, each a whole number"),
    ({"network.channels": (-8,)}, "each of network.channels must be at least 1, not -8"),
    ({"network.subtract_mean_image": 1}, "network.subtract_mean_image takes true or false, not 1"),
    ({"relabel.goals": ("moon",)}, "relabel.goals takes a list, each draw or random or hindsight or other"),
    ({"env": 3}, "env takes a text, not 3"),
    ({"steps": -1}, "steps must be at least 1, not -1"),
]

IMAGES = [
    (None, "must be [height, width]"),
    ("picture.png", "must be [height, width]"),
    ({"pixels": 3}, "must be [height, width]"),
    ([[1], [1, 2]], "is not an array of pixels"),
    (np.uint8(3), "must be [height, width]"),
    (np.zeros(5), "must be [height, width]"),
    (np.zeros((4, 4, 2), np.uint8), "1, 3 or 4], not (4, 4, 2)"),
    (np.zeros((4, 4, 5), np.uint8), "1, 3 or 4], not (4, 4, 5)"),
    (np.zeros((1, 4, 4, 3), np.uint8), "1, 3 or 4], not (1, 4, 4, 3)"),
    (np.zeros((3, 24, 24), np.uint8), "1, 3 or 4], not (3, 24, 24)"),
    (np.zeros((0, 4, 3), np.uint8), "1, 3 or 4], not (0, 4, 3)"),
    (np.zeros((4, 0), np.uint8), "not (4, 0)"),
    (np.full((4, 4, 3), 2.0), "holds floats outside [0, 1]"),
    (np.full((4, 4, 3), -0.1), "holds floats outside [0, 1]"),
    (np.full((4, 4, 3), 255.0), "holds floats outside [0, 1]"),
    (np.full((4, 4, 3), np.nan), "holds floats outside [0, 1]"),
    (np.full((4, 4, 3), np.inf), "holds floats outside [0, 1]"),
    (np.full((4, 4, 3), 256), "holds integers outside 0 … 255"),
    (np.full((4, 4, 3), -1), "holds integers outside 0 … 255"),
    (np.zeros((4, 4, 3), bool), "must hold bytes or floats in [0, 1], not bool"),
    (np.zeros((4, 4, 3), complex), "must hold bytes or floats in [0, 1], not complex128"),
    (np.zeros((4, 4, 3), object), "must hold bytes or floats in [0, 1], not object"),
    (np.full((4, 4, 3), "x"), "must hold bytes or floats in [0, 1], not <U1"),
    (np.zeros((4, 4, 3), "datetime64[s]"), "must hold bytes or floats in [0, 1], not datetime64[s]"),
]


@pytest.mark.parametrize(("changes", "sentence"), SETTINGS)
def test_settings_in_python(changes, sentence):
    with pytest.raises(UserError) as refusal:
        replace(preset("arena"), changes)
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(("image", "sentence"), IMAGES)
def test_images(image, sentence):
    with pytest.raises(UserError) as refusal:
        as_observation(image, (24, 24, 3), "the goal")
    assert str(refusal.value).startswith("the goal ") and sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: discern.preset("arena", "slow"), "there is no configuration 'slow': choose fast or paper"),
        (lambda: discern.make_env("moon"), "there is no world 'moon'"),
        (lambda: discern.load("nowhere"), "nowhere is not a run"),
        (lambda: discern.resume("nowhere"), "nowhere is not a run"),
        (lambda: discern.evaluate("nowhere", trials=0), "trials must be at least 1, not 0"),
        (lambda: discern.evaluate("nowhere", count=0), "count must be at least 1, not 0"),
        (lambda: discern.evaluate("nowhere", seed=-1), "seed must be at least 0, not -1"),
        (lambda: bench(Config(), 0.0), "seconds must be above 0"),
        (lambda: bench(Config(), float("nan")), "seconds must be above 0"),
        (lambda: record("nowhere", "a.mp4", seed=-1), "--seed must be 0 or more"),
        (lambda: reproduce(["all"], Path("a"), budget=float("nan")), "the budget above 0"),
        (lambda: reproduce([], Path("a")), "name the figures to draw"),
        (lambda: from_json(to_json(Config()).replace("0.99", "NaN")), "learner.discount must be a finite number"),
    ],
)
def test_calls(call, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as refusal:
        call()
    assert sentence in str(refusal.value)
    assert not list(tmp_path.iterdir())
