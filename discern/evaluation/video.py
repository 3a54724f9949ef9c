"""Videos of goals being pursued: the goal beside the world, the learned reward as a curve below."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIDE = 256  # at least, for each of the two pictures
CURVE = 64
GAP = 8
FINE = 4  # the curve is drawn so many times as large and shrunk, because Pillow's lines have jagged edges
BACKGROUND, LINE, PAST = 24, 96, (96, 208, 128)


def side_by_side(goal: np.ndarray, observations: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Goal [H, W, 3], observations [T+1, H, W, 3] and rewards [T+1] → frames uint8 [T+1, height, width, 3]."""
    assert len(observations) == len(rewards), "an observation has a reward"
    scale = -(-SIDE // min(goal.shape[:2]))
    height, width = (scale * side for side in goal.shape[:2])
    whole = (_even(height + CURVE + 3 * GAP), _even(2 * width + 3 * GAP), 3)
    points = _curve(rewards, whole[1] - 2 * GAP)
    frames = np.full((len(observations), *whole), BACKGROUND, np.uint8)
    for t, (frame, observation) in enumerate(zip(frames, observations, strict=True)):
        for column, image in enumerate((goal, observation)):
            left = GAP + column * (width + GAP)
            frame[GAP : GAP + height, left : left + width] = image.repeat(scale, 0).repeat(scale, 1)
        band = frame[2 * GAP + height : 2 * GAP + height + CURVE, GAP : whole[1] - GAP]
        band[:] = _drawn(points[: t + 1], band.shape[1])
    return frames


def write_video(path: Path, frames: Iterable[np.ndarray], frames_per_second: int) -> int:
    """Writes frames of one size as .mp4 or .gif, whole or not at all, and says how many; OSError where it cannot."""
    unfinished = path.with_name(f".{path.stem}.unfinished{path.suffix}")
    write = _write_gif if path.suffix.lower() == ".gif" else _write_mp4
    try:
        count = write(unfinished, frames, frames_per_second)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _write_mp4(path: Path, frames: Iterable[np.ndarray], frames_per_second: int) -> int:
    """H.264 as browsers play it, with the index in front of the pictures."""
    import av  # an extra

    frames = iter(frames)
    first = next(frames)
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as video:
        stream = video.add_stream("libx264", frames_per_second, options={"crf": "18"})
        stream.height, stream.width = first.shape[:2]
        stream.pix_fmt = "yuv420p"
        count = 0
        for frame in chain([first], frames):
            count += 1
            video.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        video.mux(stream.encode())
    return count


def _write_gif(path: Path, frames: Iterable[np.ndarray], frames_per_second: int) -> int:
    first, *rest = (Image.fromarray(frame) for frame in frames)
    first.save(path, save_all=True, append_images=rest, duration=round(1000 / frames_per_second), loop=0)
    return 1 + len(rest)


def _curve(rewards: np.ndarray, width: int) -> np.ndarray:
    """Where the curve runs in its band, 0 … 1 from bottom to top, or as far as the rewards go: int [T+1, 2]."""
    low, high = min(0.0, float(rewards.min())), max(1.0, float(rewards.max()))
    x = np.linspace(6, width - 7, len(rewards))
    y = 6 + (CURVE - 13) * (high - rewards) / (high - low)
    return np.stack([x, y], axis=1).round().astype(np.int32)


def _drawn(points: np.ndarray, width: int) -> np.ndarray:
    """The curve so far, a dot at its end, between two lines: points int [t+1, 2] → uint8 [CURVE, width, 3]."""
    band = Image.new("RGB", (FINE * width, FINE * CURVE), (BACKGROUND,) * 3)
    pen = ImageDraw.Draw(band)
    fine = [tuple(point) for point in (FINE * points + FINE // 2).tolist()]
    pen.line(fine, PAST, width=2 * FINE, joint="curve")
    pen.circle(fine[-1], 4 * FINE, PAST)
    drawn = np.array(band.reduce(FINE))
    drawn[[0, -1]] = LINE
    return drawn


def _even(length: int) -> int:
    """Codecs take even sizes only."""
    return length + length % 2
