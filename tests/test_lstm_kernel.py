"""The LSTM's kernels without a GPU: their bodies against the scan, on stand-ins for a GPU's parts; their lowering."""

import threading
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discern.agent import lstm_kernel
from discern.agent.lstm import lstm_unroll, unroll_for

T, ROWS, U = 3, 32, 128  # two blocks to a cluster, two clusters


class Ref:
    """An array that is written in place, indexed as Pallas' references are."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.at = self
        self.dtype = array.dtype

    def __getitem__(self, where: Any) -> "Ref":
        if not isinstance(where, tuple):
            where = (where,)
        return Ref(self.array[tuple(i if isinstance(i, slice) else slice(int(i), int(i) + 1) for i in where)])

    def __setitem__(self, where: Any, value: Any) -> None:
        part = self[where].array
        part[...] = np.asarray(value).reshape(part.shape)

    def read(self) -> jax.Array:
        return jnp.asarray(self.array.reshape(self.array.shape[-2:]))


class Barrier:
    """Counts arrivals; its phases are waited for one after another."""

    def __init__(self, arrivals: int) -> None:
        self.left = self.arrivals = arrivals
        self.passed = self.waited = 0
        self.changed = threading.Condition()

    def arrive(self) -> None:
        with self.changed:
            assert self.passed - self.waited < 2, "a phase was overrun"
            self.left -= 1
            if self.left == 0:
                self.left, self.passed = self.arrivals, self.passed + 1
                self.changed.notify_all()

    def wait(self) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.passed > self.waited, timeout=60)
            self.waited += 1


class Barriers:
    def __init__(self, arrivals: int, count: int) -> None:
        self.at = self
        self.barriers = [Barrier(arrivals) for _ in range(count)]

    def __getitem__(self, index: Any) -> Barrier:
        return self.barriers[int(index)]


class Cluster:
    """Runs a kernel's body with a thread for each block, whose shared memories the others may write."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[int, int], dict[int, Any]] = {}
        self.own = threading.local()
        self.twins: dict[int, Any] = {}

    def run(self, body: Any, out: list[Any], scratch: list[Any], shape: tuple[int, ...]) -> Any:
        steps, _, units, count = shape
        peers = units // lstm_kernel.SLICE

        def on(*inputs: jax.Array) -> list[jax.Array]:
            given = [Ref(np.array(x)) for x in inputs]
            outputs = [Ref(np.full(x.shape, np.nan, jnp.dtype(x.dtype))) for x in out]
            for tile in range(count // lstm_kernel.ROWS):
                made = [
                    [*(Ref(np.full(s, np.nan, d)) for s, d in scratch), Barrier(1), Barriers(peers, 2)]
                    for _ in range(peers)
                ]
                self.made = made
                failures: list[BaseException] = []

                def block(index: int, tile: int = tile, made: Any = made, failures: Any = failures) -> None:
                    self.own.axes = {"units": index, "rows": tile}
                    try:
                        body(*given, *outputs, *made[index], steps=steps, peers=peers)
                    except BaseException as failure:
                        failures.append(failure)

                threads = [threading.Thread(target=block, args=(index,)) for index in range(peers)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert not failures, failures
            return [jnp.asarray(ref.array) for ref in outputs]

        return on

    def axis_index(self, name: str) -> int:
        return int(self.own.axes[name])

    def send(self, value: jax.Array, ref: Ref, arrived: Barrier, peer: int) -> None:
        """Into the same place of the peer's memory, found by where `ref` lies in one's own."""
        own, other = self.made[self.axis_index("units")], self.made[peer]
        for mine, theirs in zip(own[:-2], other[:-2], strict=True):
            base = ref.array
            if np.shares_memory(base, mine.array):
                offset = (
                    base.__array_interface__["data"][0] - mine.array.__array_interface__["data"][0]
                ) // base.itemsize
                theirs.array.reshape(-1)[offset : offset + base.size] = np.asarray(value).reshape(-1)
        other[-1].barriers[own[-1].barriers.index(arrived)].arrive()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()

    def fori_loop(start: int, stop: int, body: Any, carry: Any) -> Any:
        for i in range(start, stop):
            carry = body(i, carry)
        return carry

    def product(shape: tuple[int, int], operands: list[tuple[Ref, Ref]]) -> jax.Array:
        return sum(
            (jnp.dot(a.read(), b.read(), preferred_element_type=jnp.float32) for a, b in operands), jnp.zeros(shape)
        )

    def copy(source: Ref, target: Ref, barrier: Barrier) -> None:
        target.array[...] = source.array.reshape(target.array.shape)
        barrier.arrive()

    monkeypatch.setattr(lstm_kernel, "_kernel", cluster.run)
    monkeypatch.setattr(lstm_kernel, "_tiles", lambda shape, dtype: (shape, dtype))
    monkeypatch.setattr(lstm_kernel, "_send", cluster.send)
    monkeypatch.setattr(lstm_kernel, "_load", lambda ref: ref.read().astype(jnp.float32))
    monkeypatch.setattr(lstm_kernel, "_product", product)
    monkeypatch.setattr(lstm_kernel, "_zeros", lambda: jnp.zeros((lstm_kernel.SLICE, lstm_kernel.ROWS)))
    lax = SimpleNamespace(axis_index=cluster.axis_index, fori_loop=fori_loop, rem=lambda a, b: a % b)
    monkeypatch.setattr(lstm_kernel, "lax", lax)
    monkeypatch.setattr(lstm_kernel, "pl", SimpleNamespace(ds=lambda start, size: slice(start, start + size)))
    waits = SimpleNamespace(barrier_wait=lambda barrier: barrier.wait(), copy_gmem_to_smem=copy)
    monkeypatch.setattr(lstm_kernel, "plgpu", waits)
    return cluster


def random_inputs(rows: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 3)
    gates = jax.random.normal(keys[0], (T, rows, 4 * U))
    kernel = jax.random.normal(keys[1], (U, 4 * U)) / U**0.5
    return gates, kernel, jax.random.normal(keys[2], (T, rows, U))


def closeness(found: jax.Array, wanted: jax.Array) -> float:
    assert found.shape == wanted.shape
    return float(jnp.linalg.norm(found - wanted) / jnp.linalg.norm(wanted))


@pytest.mark.parametrize("rows", [ROWS, ROWS - 5])  # the last tile is filled up
@pytest.mark.usefixtures("cluster")
def test_kernels_are_the_scan(rows: int) -> None:
    gates, kernel, from_above = random_inputs(rows)
    hidden, kept = lstm_kernel.forwards(gates, kernel)
    by_gates, by_kernel = lstm_kernel.backwards(kept, kernel, from_above)
    wanted, back = jax.vjp(lstm_unroll, gates, kernel)
    wanted_by_gates, wanted_by_kernel = back(from_above)
    assert closeness(hidden, wanted) < 3e-3  # operands have 8 bits
    assert closeness(by_gates, wanted_by_gates) < 5e-3
    assert closeness(by_kernel, wanted_by_kernel) < 5e-3


def test_kernels_lower_for_a_gpu() -> None:
    if jax.__version_info__ < (0, 11):
        assert not lstm_kernel.supported(256)
        return

    def loss(gates: jax.Array, kernel: jax.Array) -> jax.Array:
        return lstm_kernel.unroll(gates, kernel).sum()

    gates, kernel = jnp.zeros((T, 5, 3, 4 * 256)), jnp.zeros((256, 4 * 256))
    lowered = jax.jit(jax.grad(loss, (0, 1))).trace(gates, kernel).lower(lowering_platforms=("cuda",)).as_text()
    assert lowered.count("stablehlo.custom_call @mosaic_gpu") == 2


def test_no_kernel_without_a_hopper_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where products are not to be in bfloat16, as in `paper`, nor for other units."""
    assert unroll_for(256, bfloat16=True) is lstm_unroll
    hopper = SimpleNamespace(platform="gpu", compute_capability="9.0")
    monkeypatch.setattr(jax, "devices", lambda: [hopper])
    assert unroll_for(256, bfloat16=False) is lstm_unroll
    assert unroll_for(100, bfloat16=True) is lstm_unroll
    assert (unroll_for(256, bfloat16=True) is lstm_kernel.unroll) == lstm_kernel.supported(256)
