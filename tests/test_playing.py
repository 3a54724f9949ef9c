"""Worlds in someone's hands and goals made there, without the page."""

import json
import time

import numpy as np
import pytest
from PIL import Image

from discern.envs import make_env, make_scored_env, opened
from discern.envs.base import EnvSpec, HostStep
from discern.presets import preset
from discern.studio import pictures
from discern.studio.made import Box, background, box_within, erase, folder_of, paste, save_goal, saved_goals
from discern.studio.playing import Play, Plays, keys_of, names_of, refuse_code
from discern.studio.watching import Goal
from discern.types import UserError
from tests.refusals import Refused, refused

__all__ = ["refused"]

RIGHT, DOWN = 1, 3


def arena():
    return make_scored_env("arena")


class Dial:
    """A host world that shows how often it was turned; a moody one shows its mood, which no seed decides."""

    size, moods = 1, 0

    def __init__(self, moody: bool = False):
        self.spec, self.moody, self.closed = EnvSpec("dial", (4, 4, 3), 2), moody, False

    def reset(self, seed):
        self.shown, Dial.moods = seed, Dial.moods + 1
        return self.recv()

    def send(self, actions):
        self.shown += 10 * int(actions[0]) + self.moody * Dial.moods

    def recv(self):
        return HostStep(np.full((1, 4, 4, 3), self.shown, np.uint8), np.array([False]), np.array([self.shown > 90]))

    def observe(self, raw):
        return raw

    def measure(self, raw):
        return np.zeros((1, 0), np.float32)

    def close(self):
        self.closed = True


@pytest.mark.parametrize(
    ("world", "some"),
    [
        ("arena", {1: "right", 4: "up"}),
        ("arena/two", {5: "slider right"}),
        ("arena/maze", {1: "right"}),
        ("watermaze", {0: "forward", 7: "forward, turn right", 8: "rest"}),
    ],
)
def test_actions_have_names(world, some):
    with opened(make_env(world, 1)) as env:
        names = names_of(env.spec)
    assert len(names) == len(set(names)) == env.spec.actions
    assert {number: names[number] for number in some} == some


def test_names_are_those_of_the_emulator_the_actuators_and_the_environment():
    import gymnasium
    from ale_py import Action

    from discern.envs.atari.worlds import atari_spec
    from discern.envs.control.tasks import DOMAINS, Starts, action_names, action_table
    from discern.envs.gym.actions import action_list, known_names

    assert [Action(i).name for i in range(18)] == list(names_of(atari_spec("seaquest")))
    model, domain = Starts("reacher-hard").model, DOMAINS["reacher-hard"]
    pushes = dict(zip(action_names(model, domain), action_table(model, domain).tolist(), strict=True))
    assert (pushes["shoulder −, wrist +"], pushes["rest"], len(pushes)) == ([-1, 1], [0, 0], 9)
    acrobot = gymnasium.make("Acrobot-v1")
    assert action_list(acrobot.action_space, {"only": ()}, known_names(acrobot)).names == (
        "torque −",
        "none",
        "torque +",
    )


def test_keys_fit_the_names():
    arena_keys = keys_of(("stay", "right", "left", "down", "up"))
    assert arena_keys == [".", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"]
    atari = keys_of(names_of(EnvSpec("atari", (1, 1, 3), 18)))
    assert len(set(atari)) == 18
    assert keys_of(("a", "forward", "b"))[1] == "ArrowUp"
    many = keys_of(tuple(map(str, range(50))))
    assert many[35:] == ["0"] + [""] * 14
    shown = pictures.pad(("fire", "<b>"), (" ", "1"))
    assert 'aria-keyshortcuts="Space"' in shown
    assert "&lt;b&gt;" in shown


def test_a_world_is_played_and_steps_are_undone():
    play = Play(arena, seed=3)
    begun = play.seen
    assert (begun.steps, begun.action, len(begun.measures)) == (0, -1, 2)
    right = play.act(RIGHT)
    assert right.measures[0] == pytest.approx(min(1.0, begun.measures[0] + 0.1))
    down = play.act(DOWN)
    assert play.undo() == ""
    np.testing.assert_array_equal(play.seen.frame, right.frame)
    assert (play.seen.steps, play.seen.action) == (1, RIGHT)
    np.testing.assert_array_equal(play.act(DOWN).frame, down.frame)  # as if nothing had been undone
    assert [play.undo(), play.undo()] == ["", ""]
    np.testing.assert_array_equal(play.seen.frame, begun.frame)
    assert play.undo() == "Nothing was done yet."
    np.testing.assert_array_equal(play.reset(3).frame, begun.frame)
    with pytest.raises(UserError, match="arena has no action 5"):
        play.act(5)
    play.close()


def test_what_keeps_no_states_is_played_again_from_its_seed():
    play = Play(Dial, seed=5)
    for action in (1, 0, 1):
        play.act(action)
    assert play.seen.frame[0, 0, 0] == 25
    assert play.undo() == ""
    assert (play.seen.frame[0, 0, 0], play.seen.steps, play.seen.action) == (15, 2, 0)


def test_a_world_that_cannot_repeat_itself_says_so():
    play = Play(lambda: Dial(moody=True), seed=0)
    play.act(1)
    play.act(1)
    assert "dial cannot repeat itself" in play.undo()
    assert play.seen.steps == 1


def test_every_visitor_has_a_world_of_their_own_and_it_is_closed_behind_them():
    made = []

    def make():
        made.append(Dial())
        return made[-1]

    plays = Plays(idle_seconds=0.2)
    first, second = plays.begin("a", make, 0), plays.begin("b", make, 7)
    first.act(1)
    assert (first.seen.frame[0, 0, 0], second.seen.frame[0, 0, 0]) == (10, 7)
    plays.begin("a", make, 0)
    plays.leave("b")
    assert [world.closed for world in made] == [True, True, False]
    with pytest.raises(UserError, match="this world is closed"):
        plays.of("b")
    plays.close_idle()
    assert plays.world_of("a") == "dial"
    time.sleep(0.25)
    plays.close_idle()
    assert plays.world_of("a") is None
    assert made[2].closed


def test_a_page_makes_no_world_of_code_that_its_owner_did_not_name():
    config = preset("subprocess:run")
    with pytest.raises(UserError, match="names code to run: open the page with `discern play subprocess:run`"):
        refuse_code(config, None)
    refuse_code(config, "subprocess:run")
    refuse_code(preset("arena"), None)


def test_a_rectangle_is_erased_or_pasted():
    image = np.arange(6 * 6 * 3, dtype=np.uint8).reshape(6, 6, 3)
    black, box = np.zeros_like(image), Box(1, 2, 3, 4)
    erased = erase(image, box, black)
    assert (erased[2:4, 1:3] == 0).all()
    assert (erased != image).sum() == (image[2:4, 1:3] != 0).sum()
    pasted = paste(black, Box(4, 4, 5, 5), image, Box(0, 0, 3, 1))  # two of three columns fit
    np.testing.assert_array_equal(pasted[4, 4:], image[0, :2])
    assert (pasted.sum(-1) > 0).sum() == 2


def test_rectangles_lie_within_the_picture():
    assert box_within([5, 1, 2, 3], (6, 6, 3)) == Box(2, 1, 5, 3)
    assert box_within([-3, -3, 2, 99], (6, 6, 3)) == Box(0, 0, 2, 6)
    assert box_within([2, 2, 2, 2], (6, 6, 3)) == Box(2, 2, 3, 3)
    with pytest.raises(UserError, match="outside"):
        box_within([7, 0, 9, 3], (6, 6, 3))


def test_the_background_is_what_stands_still():
    frames = [np.full((2, 2, 3), 10, np.uint8) for _ in range(5)]
    frames[0][0, 0] = 110
    assert background(frames, "median")[0, 0, 0] == 10
    assert background(frames, "mean")[0, 0, 0] == 30


def test_goals_are_kept_with_their_measures(tmp_path):
    spec = make_scored_env("arena").spec
    frame = np.random.default_rng(0).integers(0, 256, spec.image_shape, dtype=np.uint8)
    path = save_goal(Goal(frame, "any", np.array([0.25, 0.5], np.float32)), " top left ", "arena", tmp_path)
    assert path == tmp_path / "arena" / "top left.png"
    save_goal(Goal(frame, "drawn"), "drawn", "arena", tmp_path)
    Image.new("RGB", (100, 50)).save(tmp_path / "arena" / "photo.png")
    (tmp_path / "arena" / "broken.png").write_text("no picture")
    goals = {goal.name: goal for goal in saved_goals(spec, tmp_path)}
    assert set(goals) == {"top left", "drawn", "photo"}
    np.testing.assert_array_equal(goals["top left"].image, frame)
    np.testing.assert_array_equal(goals["top left"].measures, [0.25, 0.5])
    assert goals["drawn"].measures is None
    assert goals["photo"].image.shape == spec.image_shape
    for name, sentence in {
        "drawn": "there is a goal “drawn” already",
        "../up": "name the goal",
        "": "name the",
    }.items():
        with pytest.raises(UserError, match=sentence):
            save_goal(Goal(frame, "any"), name, "arena", tmp_path)


def test_measures_that_make_no_sense_are_not_believed(tmp_path):
    from PIL.PngImagePlugin import PngInfo

    spec = make_scored_env("arena").spec
    (tmp_path / "arena").mkdir()
    for name, text in {"few": "[1]", "words": '["a", "b"]', "none": "null", "huge": "[1e999, 0]"}.items():
        info = PngInfo()
        info.add_text("discern measures", text)
        Image.new("RGB", (24, 24)).save(tmp_path / "arena" / f"{name}.png", pnginfo=info)
    assert json.loads("[1e999]")[0] == float("inf")
    assert [goal.measures for goal in saved_goals(spec, tmp_path)] == [None] * 4


def test_a_world_has_a_folder_for_its_goals(tmp_path):
    assert folder_of("atari/seaquest", tmp_path) == tmp_path / "atari" / "seaquest"
    assert folder_of("my_module:make", tmp_path) == tmp_path / "my_module-make"
    assert folder_of("../../etc", tmp_path) == tmp_path / "etc"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("play nowhere", "there is no world 'nowhere'"),
        ("play arena --port 0", "--port must lie between 1 and 65535, not 0"),
        ("play arena --password short", "--password needs at least 8 letters"),
    ],
)
def test_mistakes_are_one_sentence(refused: Refused, line, sentence):
    assert sentence in refused(line)
