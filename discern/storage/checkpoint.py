"""Saving and restoring a run: Orbax arrays under a manifest of hashes, put in place by one rename.

A checkpoint holds arrays and numbers only, so loading one runs no code from it.
"""

import hashlib
import json
import logging
import shutil
import uuid
from pathlib import Path
from typing import Any

import jax
import numpy as np

from discern.renamed import array_by_new_name
from discern.types import UserError

FORMAT = "discern-checkpoint/1"
MANIFEST = "manifest.json"
KEPT = 2


def save_checkpoint(folder: Path, step: int, tree: Any, about: dict[str, Any]) -> Path:
    """Writes `folder/step`, or nothing: it is complete before it gets its name; the oldest beyond two go."""
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in folder.glob(".saving-*"):
        shutil.rmtree(left_over)
    unfinished = folder / f".saving-{uuid.uuid4().hex[:8]}"
    final = folder / f"{step:012d}"
    try:
        unfinished.mkdir()
        arrays = {name: array for name, array in named_arrays(tree).items() if array.size}  # Orbax saves no empty ones
        _write_arrays(unfinished / "arrays", arrays)
        manifest = {"format": FORMAT, "step": step, "about": about, "files": _digests(unfinished)}
        manifest["seal"] = _seal(manifest)
        (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1))
        if final.exists():
            shutil.rmtree(final)
        unfinished.rename(final)
    except Exception as error:  # Orbax reports a full disk as errors of several kinds
        shutil.rmtree(unfinished, ignore_errors=True)
        raise UserError(f"could not save a checkpoint in {folder} ({_first_line(error)})") from error
    for old in list_checkpoints(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def list_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir())


def latest_checkpoint(folder: Path) -> Path:
    found = list_checkpoints(folder)
    if not found:
        raise UserError(f"there is no checkpoint in {folder}: the run ended before it saved one, so start it again")
    return found[-1]


def load_checkpoint(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays by name and the `about` of a checkpoint, after checking that it is one and is whole."""
    about = read_manifest(path)["about"]
    return _read_arrays(path / "arrays"), about


def read_manifest(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself, after checking that it is one and is whole."""
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        ours = manifest["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise UserError(f"{path} is not a checkpoint of this program ({FORMAT}): remove it, or name another run")
    if _seal(manifest) != manifest.get("seal") or _digests(path) != manifest["files"]:
        raise UserError(
            f"the checkpoint {path} is damaged, its files are not the ones that were saved: remove it to fall back on "
            f"the one before"
        )
    return manifest


def fill(template: Any, arrays: dict[str, np.ndarray], prefix: str, path: Path) -> Any:
    """A tree like the template, its leaves taken from the arrays saved under `prefix`."""
    names, structure = _names(template, prefix)
    leaves = []
    for name, wanted in names:
        found = arrays.get(name, np.zeros(wanted.shape) if wanted.size == 0 else None)  # nothing need not be saved
        if found is None or found.shape != wanted.shape:
            shape = "is missing" if found is None else f"has shape {found.shape}, not {wanted.shape}"
            raise UserError(f"{path} belongs to another agent: {name} {shape}")
        leaves.append(jax.numpy.asarray(found, wanted.dtype))
    return jax.tree.unflatten(structure, leaves)


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a tree by their dotted names."""
    return {name: np.asarray(jax.device_get(leaf)) for name, leaf in _names(tree)[0]}


def _names(tree: Any, prefix: str = "") -> tuple[list[tuple[str, Any]], Any]:
    pairs, structure = jax.tree_util.tree_flatten_with_path(tree)
    return [(prefix + jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in pairs], structure


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / MANIFEST
    }


def _seal(manifest: dict[str, Any]) -> str:
    """A digest of all that the manifest says."""
    said = {name: value for name, value in manifest.items() if name != "seal"}
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with _orbax() as checkpointer:
        checkpointer.save(path.absolute(), arrays)
    (path / "commit_success.txt").unlink(missing_ok=True)  # names this machine's folders; the manifest says as much


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    with _orbax() as checkpointer:
        metadata = checkpointer.metadata(path.absolute()).item_metadata
        as_numpy = {name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in metadata.items()}
        arrays = checkpointer.restore(path.absolute(), as_numpy)
    return {array_by_new_name(name): array for name, array in arrays.items()}


def _orbax():
    import orbax.checkpoint as ocp

    logging.getLogger("absl").setLevel(logging.ERROR)
    return ocp.StandardCheckpointer()


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
