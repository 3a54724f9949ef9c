"""The LSTM's recurrence as one kernel forward and one backward, for Hopper GPUs (Pallas' Mosaic GPU back end).

A tile of rows belongs to a cluster of U / 64 blocks. Each block keeps 64 units' share of the recurrent kernel in its
shared memory for all T steps; after each step the blocks write into one another's shared memory. Inside, units come
before rows, since the tensor cores' products have at least 64 rows but as few columns as a tile has rows of the batch.
"""

import importlib
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

plgpu: Any
try:
    plgpu = importlib.import_module("jax.experimental.pallas.mosaic_gpu")
except ImportError:  # jaxlib without GPU dialects
    plgpu = None

SLICE = 64  # units of one block: the rows of the tensor cores' smallest product
ROWS = 16  # of a tile; 32 take longer: fewer blocks, and registers are spilled
UNITS = (128, 256)  # two or four blocks in a cluster; with more, a block's 4U × 64 weights outgrow its shared memory


class Kept(NamedTuple):
    """What the backward kernel reads: the whole gates [T, 4, U, R]; the states before each step, and the last."""

    whole: jax.Array
    cells: jax.Array  # [T + 1, U, R]
    hiddens: jax.Array  # [T + 1, U, R]


def supported(units: int) -> bool:
    """Whether there are kernels for so many units, on a GPU that has what they need."""
    return plgpu is not None and jax.__version_info__ >= (0, 11) and units in UNITS


@jax.custom_vjp
def unroll(gates: jax.Array, kernel: jax.Array) -> jax.Array:
    """As lstm.lstm_unroll, with products in bfloat16: [T, ..., 4U], [U, 4U] → [T, ..., U]."""
    return _unroll_and_keep(gates, kernel)[0]


def _unroll_and_keep(gates: jax.Array, kernel: jax.Array) -> tuple[jax.Array, tuple[Kept, jax.Array]]:
    hidden, kept = forwards(_of_rows(gates), kernel)
    return hidden.reshape((*gates.shape[:-1], -1)), (kept, kernel)


def _back(kept: tuple[Kept, jax.Array], from_above: jax.Array) -> tuple[jax.Array, jax.Array]:
    by_gates, by_kernel = backwards(*kept, _of_rows(from_above))
    return by_gates.reshape((*from_above.shape[:-1], -1)), by_kernel


unroll.defvjp(_unroll_and_keep, _back)


def _of_rows(x: jax.Array) -> jax.Array:
    """[T, ..., any] → [T, R, any]."""
    return x.reshape((x.shape[0], -1, x.shape[-1]))


def forwards(gates: jax.Array, kernel: jax.Array) -> tuple[jax.Array, Kept]:
    """Inputs' share of the gates [T, R, 4U], the recurrent kernel [U, 4U] → hidden states [T, R, U], what to keep."""
    steps, count, width = gates.shape
    units = width // 4
    padded = _padded(gates).reshape(steps, -1, 4, units).transpose(0, 2, 3, 1)
    state = jax.ShapeDtypeStruct((steps + 1, *padded.shape[2:]), jnp.float32)
    peers = units // SLICE
    # [U, 4U] → [blocks, 4 × 64 gates, U]
    weights = kernel.reshape(units, 4, peers, SLICE).transpose(2, 1, 3, 0).reshape(peers, 4 * SLICE, units)
    run = _kernel(
        _forwards,
        [jax.ShapeDtypeStruct(padded.shape, jnp.float32), state, state],
        [_tiles((4 * SLICE, units), jnp.bfloat16), _tiles((2, peers, SLICE, ROWS), jnp.bfloat16)],
        padded.shape,
    )
    kept = Kept(*run(padded, weights.astype(jnp.bfloat16)))
    return jnp.swapaxes(kept.hiddens[1:, :, :count], 1, 2), kept


def backwards(kept: Kept, kernel: jax.Array, from_above: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The loss's gradient by the hidden states [T, R, U] → by the gates [T, R, 4U], by the recurrent kernel [U, 4U]."""
    steps, count, units = from_above.shape
    above = _padded(from_above).swapaxes(1, 2)
    peers = units // SLICE
    # [U, 4U] → [blocks, U, 4 × 64 gates]
    weights = kernel.reshape(units, 4, peers, SLICE).transpose(2, 0, 1, 3).reshape(peers, units, 4 * SLICE)
    run = _kernel(
        _backwards,
        [jax.ShapeDtypeStruct(kept.whole.shape, jnp.float32)],
        [
            _tiles((units, 4 * SLICE), jnp.bfloat16),
            _tiles((2, peers, SLICE, ROWS), jnp.float32),
            _tiles((4, SLICE, ROWS), jnp.bfloat16),
        ],
        kept.whole.shape,
    )
    (by_gates,) = run(kept.whole, kept.cells, above, weights.astype(jnp.bfloat16))
    by_gates = by_gates[..., :count].transpose(0, 3, 1, 2).reshape(steps, count, 4 * units)
    return by_gates, jnp.einsum("tur,trg->ug", kept.hiddens[:-1, :, :count], by_gates)


def _padded(x: jax.Array) -> jax.Array:
    return jnp.pad(x, ((0, 0), (0, -x.shape[1] % ROWS), (0, 0)))


def _tiles(shape: tuple[int, ...], dtype: Any) -> Any:
    """Shared memory as the tensor cores read it, in tiles of 8 × a tile's rows, both operands' alike."""
    width = ROWS * jnp.dtype(dtype).itemsize
    tiling = plgpu.TilingTransform((8, width // jnp.dtype(dtype).itemsize))
    return plgpu.SMEM(shape, dtype, transforms=(tiling, plgpu.SwizzleTransform(width)))


def _kernel(body: Any, out: list[Any], scratch: list[Any], shape: tuple[int, ...]) -> Any:
    _, _, units, count = shape
    peers = units // SLICE
    return plgpu.kernel(
        partial(body, steps=shape[0], peers=peers),
        out_type=out,
        scratch_types=[*scratch, plgpu.Barrier(), plgpu.Barrier(num_arrivals=peers, num_barriers=2)],
        grid=(count // ROWS,),
        grid_names=("rows",),
        cluster=(peers,),
        cluster_names=("units",),
        kernel_name=f"lstm{body.__name__}",
        compiler_params=plgpu.CompilerParams(approx_math=True),  # tanh: no less exact than bfloat16 products
    )


def _load(ref: Any) -> jax.Array:
    """From memory to registers, each thread its own, as the tensor cores leave their results: no copy is shared."""
    loaded: jax.Array = plgpu.load(ref, layout=plgpu.Layout.WGMMA, optimized=False)
    return loaded


def _send(value: jax.Array, ref: Any, arrived: Any, peer: int) -> None:
    """Writes into the shared memory of another block of the cluster (or its own), and tells its barrier."""
    plgpu.async_store_smem(value, ref, arrived, cluster_idx=jnp.int32(peer), cluster_dim="units", optimized=False)


def _product(shape: tuple[int, int], operands: list[tuple[Any, Any]]) -> jax.Array:
    """The sum of the operands' products, whose right sides lie in shared memory since the last barrier."""
    plgpu.commit_smem()

    def added(total: Any) -> jax.Array:
        for left, right in operands:
            plgpu.wgmma(total, left, right)
        found: jax.Array = total[...]
        return found

    product: jax.Array = pl.run_scoped(added, plgpu.ACC(shape, jnp.float32))
    return product


def _activated(gates: list[jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """As lstm._activated; a sigmoid is a tanh, for which the hardware has an instruction."""

    def sigmoid(x: jax.Array) -> jax.Array:
        return 0.5 * jnp.tanh(0.5 * x) + 0.5

    keep, write, new, read = gates
    return sigmoid(keep + 1.0), sigmoid(write), jnp.tanh(new), sigmoid(read)


def _zeros() -> jax.Array:
    zeros: jax.Array = plgpu.layout_cast(jnp.zeros((SLICE, ROWS), jnp.float32), plgpu.Layout.WGMMA)
    return zeros


def _here() -> tuple[Any, Any]:
    """The units and rows of this block."""
    return pl.ds(lax.axis_index("units") * SLICE, SLICE), pl.ds(lax.axis_index("rows") * ROWS, ROWS)


def _forwards(
    gates: Any,  # [T, 4, U, R], like all of these in global memory
    kernel: Any,  # [blocks, 4 × 64, U]
    whole: Any,
    cells: Any,
    hiddens: Any,
    weights: Any,  # [4 × 64, U] in shared memory, as is what follows
    hidden: Any,  # [2, blocks, 64, ROWS]: one step's state is read while the next one's arrives
    loaded: Any,
    arrived: Any,
    *,
    steps: int,
    peers: int,
) -> None:
    block, here = lax.axis_index("units"), _here()
    plgpu.copy_gmem_to_smem(kernel.at[block], weights, loaded)
    plgpu.barrier_wait(loaded)

    def share(state: jax.Array, slot: Any) -> None:
        for peer in range(peers):
            _send(state.astype(jnp.bfloat16), hidden.at[slot, block], arrived.at[slot], peer)

    def inputs(t: Any) -> tuple[jax.Array, ...]:
        return tuple(_load(gates.at[(t, gate, *here)]) for gate in range(4))

    def step(t: Any, carry: tuple[jax.Array, tuple[jax.Array, ...]]) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        cell, of_inputs = carry
        following = inputs(jnp.minimum(t + 1, steps - 1))  # on its way while this step waits
        slot = lax.rem(t, 2)
        plgpu.barrier_wait(arrived.at[slot])
        shares = [(weights.at[:, i * SLICE : (i + 1) * SLICE], hidden.at[slot, i]) for i in range(peers)]
        recurrent = _product((4 * SLICE, ROWS), shares)
        sums = [of_inputs[gate] + recurrent[gate * SLICE : (gate + 1) * SLICE] for gate in range(4)]
        keep, write, new, read = _activated(sums)
        cell = keep * cell + write * new
        state = read * jnp.tanh(cell)
        share(state, 1 - slot)
        for gate in range(4):
            whole[(t, gate, *here)] = sums[gate]
        cells[(t + 1, *here)] = cell
        hiddens[(t + 1, *here)] = state
        return cell, following

    zero = _zeros()
    cells[(0, *here)] = zero
    hiddens[(0, *here)] = zero
    share(zero, 0)
    lax.fori_loop(0, steps, step, (zero, inputs(0)))
    plgpu.barrier_wait(arrived.at[steps % 2])  # no block may end while another still writes to it


def _backwards(
    whole: Any,  # [T, 4, U, R], like all of these in global memory
    cells: Any,
    above: Any,  # [T, U, R]
    kernel: Any,  # [blocks, U, 4 × 64]
    by_gates: Any,
    weights: Any,  # [U, 4 × 64] in shared memory, as is what follows
    by_hidden: Any,  # [2, blocks, 64, ROWS]: what each block's gates add to the gradient by this block's units
    by_own_gates: Any,  # [4, 64, ROWS]
    loaded: Any,
    arrived: Any,
    *,
    steps: int,
    peers: int,
) -> None:
    block, here = lax.axis_index("units"), _here()
    plgpu.copy_gmem_to_smem(kernel.at[block], weights, loaded)
    plgpu.barrier_wait(loaded)

    def inputs(t: Any) -> tuple[jax.Array, ...]:
        gates = (_load(whole.at[(t, gate, *here)]) for gate in range(4))
        return (*gates, _load(cells.at[(t, *here)]), _load(above.at[(t, *here)]))

    def step(i: Any, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        later, cell, *gates, cell_before, from_above = carry
        t = steps - 1 - i
        following = inputs(jnp.maximum(t - 1, 0))  # on its way while this step waits
        keep, write, new, read = _activated(gates)
        squashed = jnp.tanh(cell)
        slot = lax.rem(i, 2)
        plgpu.barrier_wait(arrived.at[slot])
        total = from_above
        for peer in range(peers):
            total += _load(by_hidden.at[slot, peer])
        by_cell = later + total * read * (1.0 - squashed * squashed)
        gradients = [
            by_cell * cell_before * keep * (1.0 - keep),
            by_cell * new * write * (1.0 - write),
            by_cell * write * (1.0 - new * new),
            total * squashed * read * (1.0 - read),
        ]
        for gate in range(4):
            by_own_gates[gate] = gradients[gate].astype(jnp.bfloat16)
        shares = [(weights.at[:, i * SLICE : (i + 1) * SLICE], by_own_gates.at[i]) for i in range(4)]
        partial_sums = _product((peers * SLICE, ROWS), shares)
        for peer in range(peers):
            part = partial_sums[peer * SLICE : (peer + 1) * SLICE]
            _send(part, by_hidden.at[1 - slot, block], arrived.at[1 - slot], peer)
        for gate in range(4):
            by_gates[(t, gate, *here)] = gradients[gate]
        return (by_cell * keep, cell_before, *following)

    zero = _zeros()
    for peer in range(peers):
        _send(zero, by_hidden.at[0, block], arrived.at[0], peer)
    lax.fori_loop(0, steps, step, (zero, _load(cells.at[(steps, *here)]), *inputs(steps - 1)))
    plgpu.barrier_wait(arrived.at[steps % 2])
