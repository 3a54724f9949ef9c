"""The file of an agent that is handed on: safetensors, in which nothing can run; docs/agent_file.md has its fields."""

import hashlib
import json
import os
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from discern.checks import SettingError, first_problem
from discern.config import Config, from_json, to_json
from discern.envs.base import Dimension, EnvSpec
from discern.storage.run_folder import AGENT_FILE
from discern.types import Precision, UserError

KIND, VERSION = "discern-agent", 1
GOALS = 100  # of the goal buffer: as many as the studio shows
GOAL_BYTES = 500_000  # that they are written in; of pictures that compress badly, there are fewer
LARGEST = 2**28  # bytes of goal images
LARGEST_FILE = 2**29  # bytes; a sparse file may claim to be larger than any memory
SMALLEST = 2**14  # weights of a kernel in int8; in smaller ones, such as the head's, an error shows in every Q-value
DTYPES = {"F32", "I8", "U8"}


class AgentFile(NamedTuple):
    """What an agent file holds; parameters go by the names they have in the tree, `core.value.kernel`."""

    config: Config
    spec: EnvSpec
    params: dict[str, np.ndarray]  # float32
    goal_images: np.ndarray  # uint8 [M, H, W, 3]
    steps: int


def find_agent_file(path: str | Path) -> Path | None:
    """The file itself, or the one in a folder; None where there is none."""
    path = Path(path)
    return next((file for file in (path, path / AGENT_FILE) if file.is_file()), None)


def write_agent(path: Path, agent: AgentFile, precision: Precision) -> None:
    """Writes the file whole or not at all."""
    tensors = {"goal_images": _deflated(agent.goal_images, agent.config.reward.decoys)}
    for name, values in agent.params.items():
        if precision == "int8" and name.endswith("kernel") and values.size >= SMALLEST:
            tensors[name], tensors[f"{name}_scale"] = quantise(values)
        else:
            tensors[name] = values.astype(np.float32)
    tensors = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    spec = asdict(agent.spec)
    del spec["action_names"]  # for people who play; earlier readers know of none
    metadata = {
        "format": f"{KIND}/{VERSION}",
        "config": to_json(agent.config),
        "spec": json.dumps(spec),
        "steps": str(agent.steps),
    }
    unfinished = path.with_suffix(".tmp")
    try:
        unfinished.write_bytes(save(tensors, metadata | {"sha256": _digest(metadata, tensors)}))
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UserError(f"could not write {path} ({(error.strerror or str(error)).lower()})") from error


def config_in(path: Path) -> Config:
    """The config of an agent file, read alone; whether the rest is whole is not asked."""
    try:
        with safe_open(path, framework="numpy") as file:
            return from_json((file.metadata() or {})["config"])
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise UserError(f"{path} is no agent file that can be read: {_printable(error)}") from None


def read_agent(path: Path) -> AgentFile:
    """What a file holds, after checking that it is an agent of this version and is whole."""
    try:
        _refuse_if(path.stat().st_size > LARGEST_FILE, path, f"it is larger than {LARGEST_FILE // 2**20} MiB")
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            _refuse_unless_ours(path, metadata.get("format", ""))
            kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
            _refuse_if(set(kinds.values()) - DTYPES, path, "it holds tensors of an unknown type")
            tensors = {name: file.get_tensor(name) for name in kinds}
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is no agent file, or was cut short: {_printable(error)}") from None
    said = metadata.pop("sha256", None)
    _refuse_if(said != _digest(metadata, tensors), path, "its contents are not the ones that were saved")
    try:
        config, spec, steps = from_json(metadata["config"]), _read_spec(metadata["spec"]), int(metadata["steps"])
        if not all(map(str.isprintable, (config.env, spec.name, spec.unscored, *(d.name for d in spec.dimensions)))):
            raise ValueError("its world has names that cannot be printed")
        images = _inflated(tensors.pop("goal_images"), spec.image_shape)
        return AgentFile(config, spec, _dequantised(tensors), images, steps)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError, zlib.error) as error:
        raise UserError(f"{path} does not hold what an agent file should: {_printable(error)}") from None


def quantise(kernel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """8 bits a weight, symmetric, and a scale for each output channel: [..., C] → int8 [..., C], float32 [C]."""
    scale = np.abs(kernel).max(axis=tuple(range(kernel.ndim - 1))).astype(np.float32) / np.float32(127)
    return np.rint(kernel / np.where(scale > 0, scale, 1)).astype(np.int8), scale


def _dequantised(tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    for name in [name for name, tensor in tensors.items() if tensor.dtype == np.int8]:
        scale = tensors.pop(f"{name}_scale")
        if scale.dtype != np.float32 or scale.shape != tensors[name].shape[-1:]:
            raise ValueError(f"{name}_scale is not one float32 for each output channel")
        with np.errstate(over="ignore", invalid="ignore"):  # which is refused below
            tensors[name] = tensors[name] * scale
    odd = [name for name, tensor in tensors.items() if tensor.dtype != np.float32]
    if odd:
        raise ValueError(f"{odd[0]} is neither float32 nor int8")
    infinite = [name for name, tensor in tensors.items() if not np.isfinite(tensor).all()]
    if infinite:
        raise ValueError(f"{infinite[0]} holds numbers that are not finite")
    return tensors


def _deflated(images: np.ndarray, least: int) -> np.ndarray:
    """Images spread evenly over the buffer, as one zlib stream: as many as fit, but no fewer than `least`."""
    count = min(max(GOALS, least), len(images))
    while True:
        spread = np.linspace(0, len(images) - 1, count).round().astype(int)
        stream = zlib.compress(images[spread].tobytes(), 9)
        if len(stream) <= GOAL_BYTES or count <= max(1, least):
            return np.frombuffer(stream, np.uint8)
        count = max(1, least, min(count - 1, int(count * GOAL_BYTES / len(stream))))


def _inflated(stream: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    size = int(np.prod(shape, dtype=object))
    inflating = zlib.decompressobj()
    pixels = inflating.decompress(stream.tobytes(), LARGEST)
    if not inflating.eof or not pixels or len(pixels) % size:
        raise ValueError(f"its goal_images are not a zlib stream of images {shape}")
    return np.frombuffer(pixels, np.uint8).reshape((-1, *shape))


def _read_spec(text: str) -> EnvSpec:
    values = json.loads(text)
    dimensions = tuple(Dimension(**dimension) for dimension in values["dimensions"])
    spec = EnvSpec(**values | {"image_shape": tuple(values["image_shape"]), "dimensions": dimensions})
    problem = next(filter(None, map(first_problem, (spec, *dimensions))), None)
    if problem:
        raise SettingError(problem)
    if len(spec.image_shape) != 3 or min(*spec.image_shape, spec.actions) < 1:
        raise ValueError(f"no world has images {spec.image_shape} and {spec.actions} actions")
    return spec


def _refuse_unless_ours(path: Path, said: str) -> None:
    kind, _, version = said.partition("/")
    _refuse_if(kind != KIND, path, "it is a safetensors file of something else")
    if version != str(VERSION):
        raise UserError(f"{path} is an agent file of version {version[:9]!r}, not {VERSION}: it needs another discern")


def _refuse_if(wrong: Any, path: Path, why: str) -> None:
    if wrong:
        raise UserError(f"{path} is no agent file that can be read: {why}")


def _printable(error: Exception) -> str:
    """What is wrong with a stranger's file, without what would move a terminal's cursor."""
    return "".join(letter for letter in str(error)[:200] if letter.isprintable())


def _digest(metadata: dict[str, str], tensors: dict[str, np.ndarray]) -> str:
    """SHA-256 of all values of the metadata and then of all tensors, each in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(metadata):
        digest.update(metadata[name].encode())
    for name in sorted(tensors):
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()
