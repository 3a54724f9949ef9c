import json
import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent.learner import Learner
from discern.agent.replay import Memory
from discern.config import Config
from discern.envs.base import EnvSpec
from discern.presets import preset
from discern.storage.checkpoint import fill, latest_checkpoint, list_checkpoints, load_checkpoint, save_checkpoint
from discern.storage.run_folder import RunFolder
from discern.storage.state import TrainState, save_state
from discern.types import UserError

TREE = {"a": jnp.arange(6.0).reshape(2, 3), "b": (jnp.ones(3, jnp.bfloat16), jnp.int32(7)), "none": None}


def test_what_is_saved_comes_back(tmp_path):
    path = save_checkpoint(tmp_path, 5, TREE, {"counter": 3})
    arrays, about = load_checkpoint(path)
    back = fill(TREE, arrays, "", path)
    assert about == {"counter": 3}
    for ours, theirs in zip(jax.tree.leaves(TREE), jax.tree.leaves(back), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_two_are_kept_and_left_overs_are_cleared(tmp_path):
    (tmp_path / ".saving-dead").mkdir()
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, TREE, {})
    assert [int(path.name) for path in list_checkpoints(tmp_path)] == [2, 3]
    assert not list(tmp_path.glob(".saving-*"))
    assert latest_checkpoint(tmp_path).name.endswith("3")


def test_nothing_there_is_said_so(tmp_path):
    with pytest.raises(UserError, match="there is no checkpoint in"):
        latest_checkpoint(tmp_path)


def test_any_damage_is_noticed(tmp_path):
    path = save_checkpoint(tmp_path, 1, TREE, {})
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.stat().st_size]
    assert len(files) > 3
    for file in files:
        good = file.read_bytes()
        file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(UserError, match=r"damaged|not a checkpoint"):
            load_checkpoint(path)
        file.write_bytes(good)
    manifest = path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"step": 1', '"step": 2'))
    with pytest.raises(UserError, match="damaged"):
        load_checkpoint(path)
    manifest.write_text(manifest.read_text().replace('"step": 2', '"step": 1'))
    load_checkpoint(path)
    next(file for file in files if file.name != "manifest.json").unlink()
    with pytest.raises(UserError, match="damaged"):
        load_checkpoint(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "other/1"}'])
def test_a_foreign_folder_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(UserError, match="is not a checkpoint of this program"):
        load_checkpoint(tmp_path)


def test_another_agents_checkpoint_is_refused(tmp_path):
    path = save_checkpoint(tmp_path, 1, TREE, {})
    arrays, _ = load_checkpoint(path)
    with pytest.raises(UserError, match=r"belongs to another agent: a has shape \(2, 3\), not \(9,\)"):
        fill({"a": jnp.zeros(9)}, arrays, "", path)
    with pytest.raises(UserError, match="belongs to another agent: z is missing"):
        fill({"z": jnp.zeros(9)}, arrays, "", path)


def test_a_full_disk_loses_nothing(tmp_path):
    """A limit on the size of files stands for the disk: the save fails, the older checkpoint stays whole."""
    path = save_checkpoint(tmp_path, 1, TREE, {})
    noise = np.random.default_rng(0).integers(0, 256, 2**20, dtype=np.uint8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(UserError, match="could not save a checkpoint in"):
            save_checkpoint(tmp_path, 2, {"noise": noise}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list_checkpoints(tmp_path) == [path]
    assert not list(tmp_path.glob(".saving-*"))
    load_checkpoint(path)


def test_a_checkpoint_holds_no_code(tmp_path):
    """Every file is an Orbax or TensorStore array file or JSON; none is a pickle."""
    path = save_checkpoint(tmp_path, 1, TREE, {})
    for file in path.rglob("*"):
        if file.is_file():
            assert not file.read_bytes().startswith(b"\x80")
            assert file.suffix not in (".pkl", ".pickle", ".py")


def full_size_state(config: Config) -> TrainState:
    spec = EnvSpec("atari", (84, 84, 3), 18)
    learner = Learner(config, spec)
    frame = np.zeros((84, 84, 3), np.uint8)  # about as busy as a game's screen
    rng = np.random.default_rng(0)
    frame[:] = np.repeat(rng.integers(0, 256, (84, 1, 3)), 84, axis=1)
    frame[rng.random((84, 84)) < 0.05] = 200
    images = np.stack([np.roll(frame, shift, axis=1) for shift in rng.integers(0, 84, 1024)])
    state = jax.jit(learner.init)(jax.random.key(0), images)
    noise = lambda x: x + jax.random.normal(jax.random.key(1), x.shape) * 1e-3 if x.dtype == jnp.float32 else x  # noqa: E731
    state = jax.tree.map(noise, state)  # an optimiser that has seen gradients does not compress
    from discern.agent.goal_buffer import GoalBuffer

    return TrainState(state, None, Memory(None, GoalBuffer(jnp.asarray(images), jnp.zeros((1024, 2)))))


def test_a_checkpoint_without_replay_is_small_at_the_atari_size(tmp_path):
    folder = RunFolder(tmp_path)
    path = save_state(folder, full_size_state(preset("atari/seaquest")), with_replay=False)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    assert size < 16 * 2**20
    assert json.loads((path / "manifest.json").read_text())["about"]["replay"] is False


def test_parameters_that_are_not_finite_are_not_saved(tmp_path, tiny):
    from discern.training.actors import LocalActors
    from discern.training.loop import Loop

    state = Loop(LocalActors(tiny)).start()
    poisoned = state.learner._replace(params=jax.tree.map(lambda x: x * jnp.nan, state.learner.params))
    with pytest.raises(UserError, match="training diverged before step"):
        save_state(RunFolder(tmp_path), state._replace(learner=poisoned), with_replay=False)
    assert not (tmp_path / "checkpoints").exists()
