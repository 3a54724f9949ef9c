"""Videos of goals being pursued: the goal beside the world, the learned reward as a curve below."""

from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

SIDE = 256  # at least, for each of the two pictures
CURVE = 64
GAP = 8
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
        band[[0, -1]] = LINE
        drawn = np.ascontiguousarray(band)
        cv2.polylines(drawn, [points[: t + 1]], isClosed=False, color=PAST, thickness=2, lineType=cv2.LINE_AA)
        cv2.circle(drawn, points[t].tolist(), 4, PAST, cv2.FILLED, cv2.LINE_AA)
        band[:] = drawn
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
    writer, count = None, 0
    for frame in frames:
        count += 1
        if writer is None:
            codec = cv2.VideoWriter.fourcc(*"mp4v")
            writer = cv2.VideoWriter(str(path), codec, frames_per_second, (frame.shape[1], frame.shape[0]))
            if not writer.isOpened():
                raise OSError(f"cannot write a video to {path.parent}")
        writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    if writer is not None:
        writer.release()
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


def _even(length: int) -> int:
    """Codecs take even sizes only."""
    return length + length % 2
