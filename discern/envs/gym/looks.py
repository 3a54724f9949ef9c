"""What is seen and measured of an environment, and how one is refused; nothing of discern is imported here."""

import re
from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces

STEP = "observation, reward, terminated, truncated, info"
RESET = "observation, info"
ELEMENT = re.compile(r"observation\[(\d+)\]")  # a scored dimension that is not in `info`


class RefusedError(Exception):
    """Why an environment cannot be acted in; its text goes to the user."""

    as_it_is = True


def parts(answer: Any, method: str, wanted: str) -> tuple:
    """What a method of the environment returned, if it is as Gymnasium has it."""
    if not isinstance(answer, tuple) or len(answer) != len(wanted.split(", ")):
        got = f"{len(answer)} values" if isinstance(answer, tuple) else type(answer).__name__
        raise RefusedError(f"is no environment of Gymnasium 1: its {method}() must return {wanted}, not {got}")
    return answer


def is_image(space: gymnasium.Space) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3 and space.shape[2] == 3


def rendered(env: Any) -> Any:
    """What the environment renders; None where it cannot."""
    try:
        return env.render()
    except NotImplementedError:
        return None


def shrunk(image: Any, size: int, did: str) -> np.ndarray:
    """The image that the environment observed or rendered as uint8 [size, size, 3]."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.shape[2:] != (3,) or not image.size:
        got = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else repr(image)[:40]
        raise RefusedError(
            f"shows no pixels: it must observe uint8 [height, width, 3] or render it in the mode rgb_array, but "
            f"it {did} {got}"
        )
    if image.shape[:2] == (size, size):
        return image.copy()
    return cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)


def measure(name: str, observation: Any, info: dict[str, Any]) -> float:
    """The number called `name` in `info`, or an element of the observation; NaN where there is none."""
    element = ELEMENT.fullmatch(name)
    try:
        if name not in info and element:
            return float(np.ravel(observation)[int(element[1])])
        return float(np.asarray(info[name]).item())
    except (KeyError, IndexError, TypeError, ValueError):
        return float("nan")


def refuse_unmeasured(measures: np.ndarray, names: list[str], info: dict[str, Any]) -> None:
    """A RefusedError where one of the measures [D] is no number."""
    if not np.isfinite(measures).all():
        known = ", ".join(str(key) for key in info if not str(key).startswith("_")) or "nothing"
        raise RefusedError(
            f"has no number '{names[int(np.isnan(measures).argmax())]}' to score: its info holds {known}"
        )


def numbers(observation: Any, info: dict[str, Any]) -> dict[str, float]:
    """Every number that could be scored: those of `info`, and the elements of an observation that is a vector."""
    names = [name for name, value in info.items() if isinstance(name, str) and not isinstance(value, bool | np.bool_)]
    elements = np.size(observation) if np.ndim(observation) == 1 else 0
    names += [f"observation[{i}]" for i in range(elements)]
    values = {name: measure(name, observation, info) for name in names}
    return {name: value for name, value in values.items() if np.isfinite(value)}
