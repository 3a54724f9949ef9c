"""The file of an exported agent: what is written comes back, and what a stranger wrote is refused and never run."""

import json
import pickle
import re
import resource
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

import discern
from discern import config as configs
from discern.agent.learner import Learner
from discern.cli import main
from discern.envs import make_env
from discern.evaluation.report import evaluate
from discern.storage.agent_file import _digest, find_agent_file, quantise, read_agent, write_agent
from discern.storage.checkpoint import named_arrays
from discern.storage.run_folder import RunFolder
from discern.studio.watching import Watched
from discern.types import UserError

ROOT = Path(__file__).parent.parent
ARENA = ROOT / "agents" / "arena"
SPEC = make_env("arena").spec


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """The file of a tiny agent, exported in float32."""
    agent = discern.load(ROOT / "tests" / "older_agent")
    return agent.save(tmp_path_factory.mktemp("exported") / "agent", "float32") / "agent.safetensors"


def forge(small: Path, path: Path, change: Callable[[dict, dict], None]) -> Path:
    """The small agent's file with other metadata and tensors, and with the digest that fits them."""
    with safe_open(small, framework="numpy") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del metadata["sha256"]
    change(metadata, tensors)
    path.write_bytes(save(tensors, metadata | {"sha256": _digest(metadata, tensors)}))
    return path


def q_values(agent: discern.Agent, images: np.ndarray) -> np.ndarray:
    """Of a pursuit of the first image that sees the others."""
    pursuer, found = agent.pursue(images[0]), []
    for image in images[1 : agent.horizon + 1]:
        pursuer.act(image)
        found.append(pursuer.q_values)
    return np.stack(found)


def test_float32_is_exact(tmp_path):
    """Q-values, rewards and embeddings are the same to the bit, from the folder and from the file."""
    agent = discern.load(ARENA)
    images = agent.goal_images
    folder = agent.save(tmp_path / "agent", "float32")
    for path in (folder, folder / "agent.safetensors", str(folder)):
        again = discern.load(path)
        assert (again.config, again.spec, again.steps) == (agent.config, agent.spec, 480_000)
        np.testing.assert_array_equal(q_values(again, images), q_values(agent, images))
        np.testing.assert_array_equal(again.reward(images[:5], images[5:10]), agent.reward(images[:5], images[5:10]))
        np.testing.assert_array_equal(again.embed(images), agent.embed(images))
        np.testing.assert_array_equal(again.goal_images, images)


@pytest.mark.parametrize("kind", get_args(configs.RewardConfig.__dataclass_fields__["kind"].type))
def test_every_reward_can_be_handed_on(tmp_path, tiny, kind):
    config = configs.replace(tiny, {"reward.kind": kind, "actor.twins": 2, "learner.inverse_dynamics": 0.1})
    images = np.random.default_rng(0).integers(0, 256, (16, 24, 24, 3), dtype=np.uint8)
    params = Learner(config, SPEC).init(jax.random.key(0), jnp.asarray(images)).params
    agent = discern.Agent(config, SPEC, params, images, 7)
    again = discern.load(agent.save(tmp_path / "agent", "float32"))
    kept = {name: array for name, array in named_arrays(params).items() if not name.startswith("inverse_dynamics.")}
    found = named_arrays(again.params)
    assert set(found) == set(kept)
    for name, array in kept.items():
        np.testing.assert_array_equal(found[name], array)
        assert (found[name].shape, found[name].dtype) == (array.shape, np.float32)


def test_weights_in_eight_bits_by_hand():
    kernel = np.array([[1.0, -254.0, 0.0], [0.25, 127.2, 0.0]], np.float32)
    weights, scale = quantise(kernel)
    np.testing.assert_array_equal(weights, [[127, -127, 0], [32, 64, 0]])
    np.testing.assert_allclose(scale, [1 / 127, 2.0, 0.0], rtol=1e-7)
    assert (weights.dtype, scale.dtype) == (np.int8, np.float32)
    np.testing.assert_allclose(weights * scale, kernel, atol=1.0)


def test_int8_is_small_and_nearly_the_same(tmp_path):
    """Kernels of 2¹⁴ weights and more are rounded, by half of their channel's scale at most; the rest is exact."""
    agent = discern.load(ARENA)
    rng = np.random.default_rng(0)
    full = {name: rng.normal(size=array.shape).astype(np.float32) for name, array in named_arrays(agent.params).items()}
    content = read_agent(ARENA / "agent.safetensors")._replace(params=full)
    for precision, size in (("int8", 450_000), ("float32", 1_480_000)):
        write_agent(tmp_path / precision, content, precision)
        assert (tmp_path / precision).stat().st_size < size
    kept = read_agent(tmp_path / "int8").params
    assert set(kept) == set(full)
    for name, array in full.items():
        if name.endswith("kernel") and array.size >= 2**14:
            step = np.abs(array).reshape((-1, array.shape[-1])).max(0) / 127
            assert 0.4 < (np.abs(kept[name] - array) / step).max() < 0.501
        else:
            np.testing.assert_array_equal(kept[name], array)


def test_what_is_exported_twice_is_the_same_agent(tmp_path):
    agent = discern.load(ARENA)
    again = discern.load(agent.save(tmp_path / "again"))
    for name, array in named_arrays(agent.params).items():
        np.testing.assert_allclose(named_arrays(again.params)[name], array, rtol=1e-6)


def test_goals_are_spread_over_the_buffer(tmp_path):
    content = read_agent(ARENA / "agent.safetensors")
    images = np.arange(1024, dtype=np.uint32).view(np.uint8).reshape((1024, 4))  # image i holds the number i
    images = np.pad(images, ((0, 0), (0, 24 * 24 * 3 - 4))).reshape((1024, 24, 24, 3))
    write_agent(tmp_path / "agent", content._replace(goal_images=images), "int8")
    kept = read_agent(tmp_path / "agent").goal_images
    slots = kept.reshape((100, -1))[:, :4].copy().view(np.uint32)[:, 0]
    assert (slots[0], slots[-1]) == (0, 1023)
    assert set(np.diff(slots)) == {10, 11}


def test_goals_that_compress_badly_are_fewer(tmp_path):
    content, noise = read_agent(ARENA / "agent.safetensors"), np.random.default_rng(0)
    content = content._replace(spec=replace(content.spec, image_shape=(84, 84, 3)))
    images = noise.integers(0, 256, (1024, 84, 84, 3)).astype(np.uint8)
    write_agent(tmp_path / "agent", content._replace(goal_images=images), "int8")
    kept = read_agent(tmp_path / "agent").goal_images
    assert len(kept) == 500_000 // (84 * 84 * 3) == 23
    np.testing.assert_array_equal(kept[[0, -1]], images[[0, -1]])


def test_the_command_writes_the_precision_that_is_asked_for(tmp_path, monkeypatch, capsys):
    sizes = []
    for words in (["a"], ["b", "--precision", "float32"]):
        monkeypatch.setattr(sys, "argv", ["discern", "export", str(ARENA), str(tmp_path / words[0]), *words[1:]])
        main()
        assert capsys.readouterr().out.strip() == str(tmp_path / words[0])
        sizes.append((tmp_path / words[0] / "agent.safetensors").stat().st_size)
    assert sizes[0] < 450_000 and sizes[1] > 1_400_000


def test_the_page_says_how_to_read_one_without_a_library():
    page = (ROOT / "docs" / "agent_file.md").read_text()
    code = re.search(r"```python\n(.*?)```", page, re.S)[1]
    assert len([line for line in code.splitlines() if line.strip() and not line.startswith("import")]) <= 5
    found: dict = {"path": ARENA / "agent.safetensors"}

    def read(name: str) -> np.ndarray:
        exec(code, found | {"name": name}, found)
        return found["tensor"]

    agent = discern.load(ARENA)
    kept = named_arrays(agent.params)
    for name in ("core.value.kernel", "torso.LayerNorm_0.scale"):
        np.testing.assert_array_equal(read(name), kept[name])
    whole = read("core.goal_share.kernel") * read("core.goal_share.kernel_scale")
    np.testing.assert_array_equal(whole, kept["core.goal_share.kernel"])
    images = np.frombuffer(zlib.decompress(read("goal_images")), np.uint8).reshape((-1, *agent.spec.image_shape))
    np.testing.assert_array_equal(images, agent.goal_images)
    assert json.loads(found["header"]["__metadata__"]["config"])["env"] == "arena"


def test_a_full_disk_leaves_no_half_a_file(tmp_path):
    agent = discern.load(ARENA)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(UserError, match=r"could not write .*agent.safetensors \(file too large\)"):
            agent.save(tmp_path / "agent")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list((tmp_path / "agent").iterdir())
    assert find_agent_file(agent.save(tmp_path / "agent"))


class Bomb:
    """Writes a file where it is unpickled."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def pickled(path: Path, marker: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb(marker)))


def zipped(path: Path, marker: Path) -> None:
    """As PyTorch saves them."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Bomb(marker)))


def numpy_objects(path: Path, marker: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.array([Bomb(marker)], dtype=object), allow_pickle=True)


def with_header(header: bytes, length: int | None = None, data: bytes = b"") -> Callable[[Path, Path], None]:
    said = struct.pack("<Q", len(header) if length is None else length)
    return lambda path, marker: path.write_bytes(said + header + data) and None


def one_tensor(**about) -> bytes:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **about}
    return json.dumps({"__metadata__": {"format": "discern-agent/1"}, "x": entry}).encode()


NO_FILES = {
    "empty": lambda path, marker: path.write_bytes(b""),
    "text": lambda path, marker: path.write_text("dear stranger"),
    "noise": lambda path, marker: path.write_bytes(np.random.default_rng(0).bytes(10_000)),
    "pickle": pickled,
    "zip": zipped,
    "npy of objects": numpy_objects,
    "header of 2⁶⁴ − 1 bytes": with_header(b"{}", 2**64 - 1),
    "header of 2⁶³ bytes": with_header(b"{}", 2**63),
    "header of 99 MB": with_header(b"{}", 99_000_000),
    "header of no bytes": with_header(b""),
    "header no JSON": with_header(b"config = 3"),
    "header a list": with_header(b"[]"),
    "header of lists": with_header(b"[" * 100_000),
    "header no text": with_header(b"\xff" * 64),
    "header empty": with_header(b"{}"),
    "of something else": with_header(b'{"__metadata__": {"format": "pt"}}'),
    "no metadata": with_header(json.dumps({"x": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}).encode()),
    "tensor beyond the end": with_header(one_tensor(shape=[10**6], data_offsets=[0, 4 * 10**6]), data=bytes(4)),
    "tensor of another size": with_header(one_tensor(shape=[2]), data=bytes(4)),
    "tensor that overflows": with_header(one_tensor(shape=[2**62, 2**62, 2**62]), data=bytes(4)),
    "tensor of negative size": with_header(one_tensor(shape=[-1]), data=bytes(4)),
    "tensor of unknown type": with_header(one_tensor(dtype="OBJ"), data=bytes(4)),
    "tensor of another type": with_header(one_tensor(dtype="BF16", shape=[2]), data=bytes(4)),
    "more than its tensors": with_header(one_tensor(), data=bytes(9)),
}


@pytest.mark.parametrize("name", NO_FILES)
def test_what_is_no_agent_file_is_refused_and_not_run(tmp_path, name):
    file, marker = tmp_path / "agent.safetensors", tmp_path / "marker"
    NO_FILES[name](file, marker)
    for path in (file, tmp_path):
        with pytest.raises(UserError, match="is no agent file") as refusal:
            discern.load(path)
        assert str(refusal.value).isprintable() and len(str(refusal.value)) < 500
    assert not marker.exists()


def test_any_cut_and_any_change_is_noticed(small, tmp_path):
    whole, file = small.read_bytes(), tmp_path / "agent.safetensors"
    rng = np.random.default_rng(0)
    for end in (*range(12), *rng.integers(12, len(whole), 40), len(whole) - 1):
        file.write_bytes(whole[:end])
        with pytest.raises(UserError, match="is no agent file"):
            discern.load(file)
    for place in rng.integers(0, len(whole), 400):
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.integers(8)
        file.write_bytes(changed)
        with pytest.raises(UserError, match="agent"):
            discern.load(file)


def with_metadata(**values) -> Callable[[dict, dict], None]:
    return lambda metadata, tensors: metadata.update(values)


def with_spec(**values) -> Callable[[dict, dict], None]:
    def change(metadata: dict, tensors: dict) -> None:
        metadata["spec"] = json.dumps(json.loads(metadata["spec"]) | values)

    return change


def with_settings(**values) -> Callable[[dict, dict], None]:
    def change(metadata: dict, tensors: dict) -> None:
        config = json.loads(metadata["config"])
        for path, value in values.items():
            room, _, name = path.rpartition("__")
            (config[room] if room else config)[name] = value
        metadata["config"] = json.dumps(config)

    return change


def with_tensor(name: str, tensor: np.ndarray) -> Callable[[dict, dict], None]:
    return lambda metadata, tensors: tensors.update({name: tensor})


def with_scale(scale: float) -> Callable[[dict, dict], None]:
    def change(metadata: dict, tensors: dict) -> None:
        tensors["core.value.kernel"] = np.full((8, 1), 100, np.int8)
        tensors["core.value.kernel_scale"] = np.full(1, scale, np.float32)

    return change


def without(name: str) -> Callable[[dict, dict], None]:
    def change(metadata: dict, tensors: dict) -> None:
        del (metadata if name in metadata else tensors)[name]

    return change


def with_black_goals(megabytes: int, cut: int = 0) -> Callable[[dict, dict], None]:
    def change(metadata: dict, tensors: dict) -> None:
        deflating = zlib.compressobj()
        stream = b"".join(deflating.compress(bytes(2**20)) for _ in range(megabytes)) + deflating.flush()
        tensors["goal_images"] = np.frombuffer(stream[: len(stream) - cut], np.uint8)

    return change


DIMENSION = {"name": "x", "low": 0.0, "high": 1.0, "wraps": False}
FORGED = {
    "another version": (
        with_metadata(format="discern-agent/2"),
        "is an agent file of version '2', not 1: it needs another discern",
    ),
    "no version": (with_metadata(format="discern-agent"), "of version ''"),
    "another kind": (with_metadata(format="pt"), "a safetensors file of something else"),
    "no config": (without("config"), "does not hold what an agent file should: 'config'"),
    "no spec": (without("spec"), "does not hold what an agent file should: 'spec'"),
    "no steps": (without("steps"), "does not hold what an agent file should: 'steps'"),
    "config no JSON": (with_metadata(config="env = arena"), "does not hold"),
    "config a list": (with_metadata(config="[]"), "the config should be an object"),
    "config of lists": (with_metadata(config="[" * 100_000), "does not hold"),
    "config foreign": (with_settings(layers=12), "unknown field layers"),
    "config that moves the cursor": (with_settings(**{"\x1b[2J\n": 1}), "unknown field [2J"),
    "config no choice": (with_settings(reward__kind="money"), "reward.kind takes discern or"),
    "steps no number": (with_metadata(steps="many"), "does not hold"),
    "world that moves the cursor": (with_settings(env="\x1b[2J"), "its world has names that cannot be printed"),
    "dimension that does": (with_spec(dimensions=[DIMENSION | {"name": "\n"}]), "its world has names that cannot"),
    "spec a list": (with_metadata(spec="[]"), "does not hold"),
    "spec foreign": (with_spec(colour="red"), "does not hold"),
    "no actions": (with_spec(actions=0), "no world has images (24, 24, 3) and 0 actions"),
    "actions a text": (with_spec(actions="5"), "actions takes a whole number, not '5'"),
    "flat images": (with_spec(image_shape=[24, 24]), "no world has images (24, 24)"),
    "images of no size": (with_spec(image_shape=[24, 0, 3]), "no world has images (24, 0, 3)"),
    "images of no number": (with_spec(image_shape=[24, 24, None]), "image_shape takes a list"),
    "dimension a text": (with_spec(dimensions=["x"]), "does not hold"),
    "dimension foreign": (with_spec(dimensions=[DIMENSION | {"code": 1}]), "does not hold"),
    "dimension no number": (with_spec(dimensions=[DIMENSION | {"low": "0"}]), "low takes a number, not '0'"),
    "other images": (with_spec(image_shape=[20, 20, 3]), "are not a zlib stream of images (20, 20, 3)"),
    "huge images": (with_spec(image_shape=[10**9, 10**9, 3]), "are not a zlib stream of images"),
    "goals no stream": (with_tensor("goal_images", np.zeros(99, np.uint8)), "does not hold"),
    "goals cut": (with_black_goals(1, cut=20), "are not a zlib stream"),
    "no goals": (with_black_goals(0), "are not a zlib stream"),
    "goals gone": (without("goal_images"), "does not hold what an agent file should: 'goal_images'"),
    "goals of 270 MB": (with_black_goals(257), "are not a zlib stream"),
    "more actions": (with_spec(actions=7), "belongs to another agent: core.action_share.kernel has shape (5, 32), not"),
    "larger network": (with_settings(network__features=10**6), "belongs to another agent: core.goal_share.kernel has"),
    "huge network": (with_settings(network__features=10**30), "belongs to another agent: core.goal_share.kernel has"),
    "images of one pixel": (with_spec(image_shape=[1, 1, 3]), "has a config that no network can be made from"),
    "another reward": (with_settings(reward__kind="autoencoder"), "belongs to another agent: reward."),
    "another torso": (with_settings(network__torso="residual"), "belongs to another agent: torso."),
    "a tensor gone": (without("core.value.bias"), "belongs to another agent: core.value.bias is missing"),
    "a tensor more": (with_tensor("core.extra", np.zeros(3, np.float32)), "more tensors than its config asks for"),
    "a tensor of bytes": (with_tensor("core.value.bias", np.zeros(1, np.uint8)), "core.value.bias is neither"),
    "a tensor of doubles": (with_tensor("core.value.bias", np.zeros(1)), "tensors of an unknown type"),
    "a weight that is no number": (
        with_tensor("core.value.bias", np.full(1, np.nan, np.float32)),
        "core.value.bias holds numbers that are not finite",
    ),
    "a weight without end": (
        with_tensor("core.value.bias", np.full(1, -np.inf, np.float32)),
        "core.value.bias holds numbers that are not finite",
    ),
    "a scale that overflows": (with_scale(3e38), "core.value.kernel holds numbers that are not finite"),
    "a scale that is no number": (with_scale(np.nan), "core.value.kernel holds numbers that are not finite"),
    "a tensor that is a path": (
        with_tensor("../../../evil", np.zeros(3, np.float32)),
        "more tensors than its config asks for",
    ),
    "int8 without scale": (with_tensor("core.value.kernel", np.zeros((8, 1), np.int8)), "'core.value.kernel_scale'"),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_does_not_hold_together_is_refused(small, tmp_path, name):
    change, sentence = FORGED[name]
    with pytest.raises(UserError) as refusal:
        discern.load(forge(small, tmp_path / "agent.safetensors", change))
    assert sentence in str(refusal.value)
    assert str(refusal.value).isprintable() and len(str(refusal.value)) < 500


def test_a_scale_for_each_channel_and_no_other(small, tmp_path):
    def change(metadata: dict, tensors: dict) -> None:
        tensors["core.value.kernel"] = np.zeros((8, 1), np.int8)
        tensors["core.value.kernel_scale"] = np.zeros(8, np.float32)

    with pytest.raises(UserError, match=r"core\.value\.kernel_scale is not one float32 for each output channel"):
        discern.load(forge(small, tmp_path / "agent.safetensors", change))


def test_a_file_cannot_name_the_code_of_its_world(tmp_path, monkeypatch, capsys):
    """Loading makes no world; a command that needs one runs no code that a file names, unless it is trusted."""
    monkeypatch.chdir(tmp_path)
    marker = tmp_path / "marker"
    (tmp_path / "evil.py").write_text(f"import pathlib\npathlib.Path({str(marker)!r}).touch()\n")
    agent = discern.load(ARENA)
    for number, (env, args) in enumerate([("evil:World", "{}"), ("gym/evil:World-v0", "{}"), ("gym/A-v0", '{"a": 1}')]):
        config = configs.replace(agent.config, {"env": env, "gym.make_args": args})
        spec = replace(agent.spec, name=env)
        other = discern.Agent(config, spec, agent.params, agent.goal_images, agent.steps)
        folder = other.save(tmp_path / str(number))
        loaded = discern.load(folder)
        loaded.pursue(agent.goal_images[0]).act(agent.goal_images[1])
        with pytest.raises(UserError, match="names code to make its world with"):
            Watched(RunFolder(folder))
        for line in ("evaluate {}", "probe {}", "record {} --out film.mp4"):
            monkeypatch.setattr(sys, "argv", ["discern", *line.format(folder).split()])
            with pytest.raises(SystemExit) as leave:
                main()
            said = capsys.readouterr().err
            assert leave.value.code == 2 and said.count("\n") == 1
            assert f"names code to make its world with, {env} {args!r}: if you trust who wrote it, set" in said
    assert not marker.exists()
    monkeypatch.setenv("DISCERN_TRUST_WORLD", "1")
    with pytest.raises(UserError, match="evil"):  # it has no World
        evaluate(tmp_path / "0", trials=1)
    assert marker.exists()


@pytest.mark.parametrize("env", ["atari/../../evil", "control/../evil-x", "lab/../../evil", "gym/../evil", "../evil"])
def test_a_world_cannot_be_a_path(small, tmp_path, monkeypatch, env):
    """Names of worlds are looked up, not opened."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')")
    file = forge(small, tmp_path / "agent.safetensors", with_settings(env=env))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError) as refusal:
        evaluate(file, trials=1)
    assert str(refusal.value).isprintable()
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_claims_more_than_memory_is_not_read(tmp_path):
    """A sparse file: 64 GB that take no room on the disk, and all of which a tensor says it holds."""
    file, size = tmp_path / "agent.safetensors", 64 * 10**9
    header = one_tensor(shape=[size // 4], data_offsets=[0, size])
    with file.open("wb") as sparse:
        sparse.write(struct.pack("<Q", len(header)) + header)
        sparse.truncate(8 + len(header) + size)
    with pytest.raises(UserError, match="no agent file that can be read: it is larger than 512 MiB"):
        discern.load(file)


def test_links_lead_to_no_other_files_contents(small, tmp_path):
    """A link to a secret shows none of it; one to itself, to a device or to nothing is no agent; one to an agent is."""
    secret, folder = tmp_path / "secret", tmp_path / "agent"
    secret.write_text("correct horse battery staple " * 9)
    folder.mkdir()
    file = folder / "agent.safetensors"
    for target in (secret, file, Path("/dev/zero"), tmp_path / "nowhere", tmp_path):
        file.unlink(missing_ok=True)
        file.symlink_to(target)
        with pytest.raises(UserError) as refusal:
            discern.load(folder)
        assert "horse" not in str(refusal.value) and "\n" not in str(refusal.value)
    file.unlink()
    file.symlink_to(small)
    assert discern.load(folder).steps == discern.load(small).steps


def test_a_world_that_has_changed_is_refused(tmp_path):
    agent = discern.load(ARENA)
    config = configs.replace(agent.config, {"env": "arena/16"})
    folder = discern.Agent(config, agent.spec, agent.params, agent.goal_images, 0).save(tmp_path / "agent")
    with pytest.raises(UserError, match=r"lives in arena: images \(24, 24, 3\), 5 actions; arena/16 has \(16, 16, 3\)"):
        evaluate(folder, trials=1)
