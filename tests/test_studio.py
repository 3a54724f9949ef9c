import io
import itertools
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from discern.cli import main
from discern.config import replace
from discern.envs import make_env
from discern.envs.base import Dimension
from discern.evaluation.final import save_strip
from discern.inference import Agent, load
from discern.storage.run_folder import RunFolder
from discern.studio import pictures
from discern.studio.uploads import read_upload
from discern.studio.watching import Attempt, Goal, Library, Watched, film, neighbours, principal_axes, together
from discern.types import UserError

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def watched():
    return Watched(RunFolder(ROOT / "agents" / "arena"))


def saved(path: Path, image: Image.Image, **options) -> Path:
    image.save(path, **options)
    return path


def test_what_can_be_converted_is_and_says_so(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 4), dtype=np.uint8)
    image, note = read_upload(saved(tmp_path / "rgb.png", Image.fromarray(pixels[..., :3])))
    np.testing.assert_array_equal(image, pixels[..., :3])
    assert note == ""
    image, note = read_upload(saved(tmp_path / "rgba.png", Image.fromarray(pixels)))
    assert "transparency was laid on black" in note
    np.testing.assert_allclose(image, pixels[..., :3] * (pixels[..., 3:] / 255), atol=1)
    image, note = read_upload(saved(tmp_path / "grey.png", Image.fromarray(pixels[..., 0])))
    np.testing.assert_array_equal(image, np.repeat(pixels[..., :1], 3, -1))
    assert "L pixels were made RGB" in note
    deep = pixels[..., 0].astype(np.uint16) * 256 + 17
    image, note = read_upload(saved(tmp_path / "deep.png", Image.fromarray(deep)))
    np.testing.assert_array_equal(image, np.repeat(pixels[..., :1], 3, -1))
    assert "16-bit grey was made 8-bit" in note


def bad_uploads(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that must be refused, each with a part of what is said about it."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 4), dtype=np.uint8)
    text = folder / "text.png"
    text.write_text("not an image")
    whole = saved(folder / "whole.png", Image.fromarray(noise))
    cut = folder / "cut.png"
    cut.write_bytes(whole.read_bytes()[:4000])
    huge = folder / "huge.png"
    huge.write_bytes(header_of_png(20_000, 20_000))
    wide = folder / "wide.png"
    wide.write_bytes(header_of_png(9_000, 5_000))
    print_colours = saved(folder / "print.jpg", Image.fromarray(noise, "CMYK"))
    heavy = folder / "heavy.png"
    heavy.write_bytes(whole.read_bytes() + bytes(50 * 2**20))
    return {
        "text": (text, "is not an image that can be read"),
        "cut": (cut, "is cut short or damaged"),
        "huge": (huge, "far too many pixels: at most 4,096 × 4,096"),
        "wide": (wide, "9,000 × 5,000 pixels: at most 4,096 × 4,096"),
        "print": (print_colours, "has CMYK channels: save it as RGB, RGBA or grey"),
        "heavy": (heavy, "has 50 MB: at most 10 MB"),
    }


def header_of_png(width: int, height: int) -> bytes:
    """A small file that claims to be large: the header of one size on the rest of another."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return file.getvalue()[:12] + header + struct.pack(">I", zlib.crc32(header)) + file.getvalue()[33:]


def test_what_cannot_be_read_is_refused_with_the_reason(tmp_path):
    for file, reason in bad_uploads(tmp_path).values():
        with pytest.raises(UserError, match=reason):
            read_upload(file)


def test_a_pursuit_is_what_reach_returns(watched):
    goal = watched.goal_set[37]
    moments = list(watched.pursue(goal, seed=5))
    reached = watched.agent.reach(make_env("arena"), goal.image, seed=5)
    np.testing.assert_array_equal([moment.frame for moment in moments], reached.observations)
    np.testing.assert_allclose(moments[-1].rewards, reached.rewards, atol=0.01)
    np.testing.assert_array_equal([moment.action for moment in moments], [*reached.actions, -1])
    assert [len(moment.rewards) for moment in moments] == list(range(1, 22))
    assert moments[-1].reached == {"x": True, "y": True}


def without_ends(agent: Agent, folder: Path) -> Path:
    """The agent as if it had been trained without ends."""
    config = replace(agent.config, {"relabel.ends": False})
    return Agent(config, agent.spec, agent.params, agent.goal_images, agent.steps).save(folder)


def test_an_agent_trained_with_ends_is_watched_for_fewer_steps(watched, tmp_path):
    unable = Watched(RunFolder(without_ends(watched.agent, tmp_path / "whole")))
    assert (unable.steps(7), unable.steps()) == (20, 20)
    assert [watched.steps(wanted) for wanted in (7, None, 0, 99)] == [7, 20, 20, 20]
    goal = watched.goal_set[37]
    moments = list(watched.pursue(goal, seed=5, steps=7))
    assert [moment.step for moment in moments] == list(range(8))
    assert "step 7/7" in pictures.stage(goal, moments[-1], 7)
    *_, last = watched.average([watched.goal_set[i] for i in range(8)], 1, steps=1)
    assert last.shares.mean() < 0.5


def test_two_pursuits_at_once_do_not_meet(watched):
    goals = watched.goal_set[3], watched.goal_set[96]
    alone = [[moment.frame for moment in watched.pursue(goal, seed=i)] for i, goal in enumerate(goals)]
    pursuits = [watched.pursue(goal, seed=i) for i, goal in enumerate(goals)]
    together = list(zip(*pursuits, strict=True))
    for visitor in range(2):
        np.testing.assert_array_equal(alone[visitor], [moments[visitor].frame for moments in together])


def test_a_world_is_used_again_when_a_pursuit_is_left(watched):
    for _ in range(3):
        pursuit = watched.pursue(watched.goal_set[0], seed=0)
        list(itertools.islice(pursuit, 4))
        pursuit.close()
    assert 1 <= len(watched._idle) <= 2


def test_pursuits_in_step_wait_for_the_longest(watched):
    moments = list(itertools.islice(watched.pursue(watched.goal_set[3], seed=1), 7))
    shorter, longer = ([*moments[:n], moments[n]._replace(action=-1)] for n in (3, 6))
    seen = list(together([iter(shorter), iter(longer)]))
    assert [[moment.step for moment in moments] for moments in seen] == [[min(t, 3), t] for t in range(7)]


def test_a_film_shows_attempts_side_by_side(watched, tmp_path):
    import av

    frames = [moment.frame for moment in itertools.islice(watched.pursue(watched.goal_set[3], seed=1), 6)]
    attempts = [Attempt(frames[-1], frames[:n], [0.5] * n) for n in (3, 6)]
    path = film(attempts, tmp_path / "new" / "both.mp4", 4)
    with av.open(str(path)) as video:
        shown = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    assert len(shown) == 6 + 4
    alone = film(attempts[:1], tmp_path / "one.mp4", 4)
    with av.open(str(alone)) as video:
        assert 2 * next(video.decode(video=0)).width == shown[0].shape[1]


def test_averages_are_sharp_where_the_agent_has_control(watched):
    goals = [*watched.goal_set[10:80:10], Goal(watched.goal_set[5].image, "unmeasured")]
    *_, last = watched.average(goals, 6)
    assert last.attempts == 6
    assert last.shares[:7].mean() > 0.9
    assert np.isnan(last.shares[7])
    assert last.images.shape == (8, 24, 24, 3)
    yellow = last.images[..., 0].astype(int) - last.images[..., 2]
    dots = np.stack([goal.image[..., 0].astype(int) - goal.image[..., 2] for goal in goals])
    assert np.corrcoef(yellow.ravel(), dots.ravel())[0, 1] > 0.5


def test_goals_come_from_the_set_the_buffer_and_the_run(watched):
    assert len(watched.goal_set) == 100
    assert len(watched.goal_buffer()) == 100
    assert watched.achieved() == []
    assert "Nothing yet" in pictures.tiles([], "Nothing yet")
    assert pictures.tiles(watched.goal_set, "").count("data-index") == 100


def test_the_map_puts_alike_goals_together(watched):
    goals = watched.goal_set
    places = watched.layout(goals, "neighbours")
    measures = np.stack([goal.measures for goal in goals])
    fitted = np.linalg.lstsq(np.column_stack([places, places**2, np.ones(100)]), measures, rcond=None)[0]
    left_over = measures - np.column_stack([places, places**2, np.ones(100)]) @ fitted
    assert (left_over.var(0) < 0.4 * measures.var(0)).all()  # x and y can be read off where a goal lies
    assert watched.layout(goals, "principal axes").shape == (100, 2)
    drawn = pictures.scatter(goals, places, (0, watched.agent.spec.dimensions[0]))
    assert drawn.count("<circle") == 100


def test_layouts_of_vectors_that_are_known():
    line = np.outer(np.linspace(-1, 1, 9), [3.0, 4.0, 0.0])
    np.testing.assert_allclose(np.abs(principal_axes(line)[:, 0]), 5 * np.abs(np.linspace(-1, 1, 9)), atol=1e-6)
    turns = np.linspace(0, np.pi / 2, 12)
    along = neighbours(np.stack([np.cos(turns), np.sin(turns)], -1))[:, 0]
    assert (np.diff(along) > 0).all() or (np.diff(along) < 0).all()


def test_colours_wrap_where_the_dimension_does():
    angle, length = Dimension("angle", -1, 1, wraps=True), Dimension("length", 0, 10)
    assert pictures.colour(-1, angle) == "hsl(0 70% 60%)"
    assert pictures.colour(0, angle) == "hsl(180 70% 60%)"
    assert pictures.colour(10, length) == "rgb(253 231 80)"
    assert pictures.colour(99, length) == pictures.colour(10, length)


def test_a_sheet_holds_every_image_in_its_place():
    images = [np.full((2, 3, 3), i, np.uint8) for i in range(13)]
    sheet = pictures.sheet_of(images)
    assert sheet.shape == (4, 30, 3)
    assert (sheet[2:, 6:9] == 12).all()
    assert (pictures.place(12, 13), pictures.place(0, 1)) == ("22.222% 100.000%", "0.000% 0.000%")


def test_training_is_drawn_from_its_metrics():
    rows = [{"steps": 100 * i, "td_loss": 1.0 / i, "success": i / 2000, "seconds": 3.0} for i in range(1, 1001)]
    drawn = pictures.training(rows, "live", b"png")
    assert 'data-steps="100000"' in drawn
    assert "50.0% of goals reached" in drawn
    assert len(pictures.curve_of(rows, "td_loss")[0]) <= 2 * pictures.POINTS
    assert pictures.curve_of(rows, "success")[1][-1] == 0.5
    assert 'data-steps="0"' in pictures.training([], "live", b"")


def test_the_strip_of_a_live_run(tmp_path):
    goals = np.stack([np.full((4, 4, 3), i, np.uint8) for i in range(30)])
    save_strip(goals, goals + 100, tmp_path / "goals.png")
    strip = np.asarray(Image.open(tmp_path / "goals.png"))
    assert strip.shape == (12, 60, 3)
    assert (strip[0, 0, 0], strip[1, 1, 0], strip[10, 58, 0]) == (255, 0, 129)


def test_the_library_knows_what_can_be_watched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Library().agents() == []
    with pytest.raises(UserError, match="is not a run"):
        Library(tmp_path)
    (tmp_path / "agents").symlink_to(ROOT / "agents")
    shipped = sorted(f"agents/{folder.parent.name}" for folder in (ROOT / "agents").glob("*/agent.safetensors"))
    assert {"agents/arena", "agents/arena-84"} <= set(shipped)
    assert Library().agents() == shipped
    assert Library(Path("agents/arena-84")).agents() == [
        "agents/arena-84",
        *(name for name in shipped if name != "agents/arena-84"),
    ]
    library = Library(without_ends(load(ROOT / "agents" / "arena"), tmp_path / "runs" / "whole"))
    assert library.rivals("agents/arena") == [str(tmp_path / "runs" / "whole"), "runs/whole"]
    assert library.world_of("agents/seaquest") == "atari/seaquest"
    assert library.world_of("nowhere") == ""
    with pytest.raises(UserError, match="no agent in /etc any more"):
        Library().watch("/etc")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("studio nowhere", "nowhere is not a run"),
        ("studio --port 70000", "--port must lie between 1 and 65535, not 70000"),
    ],
)
def test_mistakes_are_one_sentence(monkeypatch, capsys, line, sentence):
    monkeypatch.setattr(sys, "argv", ["discern", *line.split()])
    with pytest.raises(SystemExit) as leave:
        main()
    assert leave.value.code == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
