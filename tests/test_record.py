"""Videos: they play, and show the goal, the world and the reward."""

import sys

import av
import numpy as np
import pytest
from PIL import Image

from discern.cli import main
from discern.evaluation.record import read_image, record
from discern.evaluation.video import side_by_side, write_video
from discern.types import UserError


def frames_of(path) -> np.ndarray:
    """Every frame of a video, RGB."""
    if path.suffix == ".gif":
        with Image.open(path) as image:
            found = []
            for i in range(image.n_frames):
                image.seek(i)
                found.append(np.asarray(image.convert("RGB")))
            return np.stack(found)
    with av.open(str(path)) as video:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)])


def test_goal_and_world_stand_side_by_side_above_the_curve():
    goal, world = np.full((64, 64, 3), 200, np.uint8), np.zeros((3, 64, 64, 3), np.uint8)
    world[2] = 255
    frames = side_by_side(goal, world, np.array([0.0, 0.5, 1.0]))
    assert frames.shape == (3, 256 + 64 + 24, 2 * 256 + 24, 3)
    assert (frames[:, 8:264, 8:264] == 200).all()
    assert (frames[1, 8:264, 272:528] == 0).all() and (frames[2, 8:264, 272:528] == 255).all()
    heights = []
    for frame in frames:
        rows, columns = np.nonzero((frame[272:336] == (96, 208, 128)).all(-1))
        heights.append(rows[columns >= columns.max() - 4].mean())
    assert heights[0] > heights[1] > heights[2]  # the reward rises
    low = side_by_side(goal, world, np.array([-7.0, -3.0, -1.0]))  # log q̂ is negative
    assert low.shape == frames.shape


@pytest.mark.parametrize("ending", ["mp4", "gif"])
def test_videos_play(tmp_path, ending):
    path = tmp_path / f"video.{ending}"
    shades = [np.full((64, 48, 3), (10 * i, 100, 250 - 10 * i), np.uint8) for i in range(20)]
    assert write_video(path, iter(shades), 10) == 20
    played = frames_of(path)
    assert played.shape == (20, 64, 48, 3)
    np.testing.assert_allclose(played.mean((1, 2)), [shade[0, 0] for shade in shades], atol=12)
    assert list(tmp_path.iterdir()) == [path]


def test_browsers_play_it_before_it_is_whole(tmp_path):
    path = tmp_path / "video.mp4"
    frames = side_by_side(np.zeros((24, 24, 3), np.uint8), np.ones((7, 24, 24, 3), np.uint8), np.linspace(0, 1, 7))
    write_video(path, frames, 5)
    with av.open(str(path)) as video:
        (stream,) = video.streams
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert (stream.height, stream.width, stream.frames, stream.average_rate) == (352, 552, 7, 5)
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_a_video_that_fails_leaves_nothing(tmp_path):
    def frames():
        yield np.zeros((64, 64, 3), np.uint8)
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        write_video(tmp_path / "video.mp4", frames(), 10)
    assert not list(tmp_path.iterdir())


def test_goals_of_the_set_are_filmed(tiny_run, tmp_path, monkeypatch, capsys):
    out = tmp_path / "video.mp4"
    monkeypatch.setattr(sys, "argv", f"discern record {tiny_run} --goals 3 --out {out} --fps 5".split())
    main()
    assert "33 frames, 3 goals" in capsys.readouterr().out
    assert len(frames_of(out)) == 3 * (6 + 5)


def test_an_image_is_the_goal(tiny_run, tmp_path):
    picture = tmp_path / "goal.png"
    Image.new("RGB", (50, 40), (250, 20, 20)).save(picture)
    filmed = record(tiny_run, tmp_path / "video.gif", goal=picture)
    played = frames_of(tmp_path / "video.gif")
    assert filmed["goals"] == 1 and filmed["frames"] == 6 + 10
    assert -1.0 <= filmed["final_reward"] <= 1.0
    assert np.abs(played[0, 100, 100].astype(int) - (250, 20, 20)).max() < 12


def test_bad_images_are_told(tmp_path):
    (tmp_path / "text.png").write_text("not a picture")
    with pytest.raises(UserError, match=r"text\.png is not an image"):
        read_image(tmp_path / "text.png")
    with pytest.raises(UserError, match="there is no image"):
        read_image(tmp_path / "nothing.png")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(tmp_path / "whole.png")
    (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:3000])
    with pytest.raises(UserError, match=r"half\.png cannot be read as an image"):
        read_image(tmp_path / "half.png")
    Image.new("1", (20_000, 20_000)).save(tmp_path / "huge.png")
    with pytest.raises(UserError, match=r"huge\.png is too large"):
        read_image(tmp_path / "huge.png")
    with pytest.raises(UserError, match="cannot be read as an image"):
        read_image(tmp_path)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--out video.avi", "cannot film video.avi: name a .mp4 or .gif in a folder that exists"),
        ("--out nowhere/video.mp4", "in a folder that exists"),
        ("--out video.mp4 --goal a.png --goals 2", "not both"),
        ("--out video.mp4 --goals 0", "--goals must lie between 1 and 1000"),
        ("--out video.mp4 --fps 0", "--fps must lie between 1 and 60"),
        ("--out video.mp4 --goal nothing.png", "there is no image nothing.png"),
        ("--out video.mp4", "is not a run"),
    ],
)
def test_mistakes_are_one_sentence_and_create_nothing(monkeypatch, capsys, tmp_path, line, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["discern", "record", "nothing-here", *line.split()])
    with pytest.raises(SystemExit) as leave:
        main()
    error = capsys.readouterr().err
    assert leave.value.code == 2
    assert sentence in error and error.strip().count("\n") == 0
    assert not list(tmp_path.iterdir())
