"""The LSTM's recurrence: one step, and whole sequences with a gradient of few launches."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from discern.types import LstmState

UNROLL = 5  # steps in one round of a loop: on a GPU a round costs several launches besides its products


def initial_lstm(lead: tuple[int, ...], units: int) -> LstmState:
    """The zero state, float32 [*lead, U] twice."""
    return LstmState(jnp.zeros((*lead, units)), jnp.zeros((*lead, units)))


def lstm_cell(lstm: LstmState, gates: jax.Array) -> LstmState:
    """One LSTM step from the summed gate inputs [..., 4U]; the forget gate starts open (bias 1)."""
    keep, write, new, read = _activated(gates)
    cell = keep * lstm.cell + write * new
    return LstmState(cell, read * jnp.tanh(cell))


def _activated(gates: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    keep, write, new, read = jnp.split(gates, 4, axis=-1)
    return jax.nn.sigmoid(keep + 1.0), jax.nn.sigmoid(write), jnp.tanh(new), jax.nn.sigmoid(read)


def unroll_for(units: int, bfloat16: bool) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """`lstm_unroll`, or where products may be in bfloat16 on a Hopper GPU, the same as one kernel each way."""
    device = jax.devices()[0]
    if not (bfloat16 and device.platform == "gpu" and device.compute_capability.startswith("9.")):
        return lstm_unroll
    from discern.agent import lstm_kernel  # takes half a second to import

    return lstm_kernel.unroll if lstm_kernel.supported(units) else lstm_unroll


@jax.custom_vjp
def lstm_unroll(gates: jax.Array, kernel: jax.Array) -> jax.Array:
    """Hidden states from zero: the inputs' share of the gates [T, ..., 4U], the recurrent kernel [U, 4U] → [T, ..., U].

    Differentiated by scan, every step would add its share to the kernel's gradient; here one product does it for all.
    """
    return _forwards(gates, kernel)[1].hidden


def _forwards(gates: jax.Array, kernel: jax.Array) -> tuple[jax.Array, LstmState]:
    """The whole gates [T, ..., 4U], and the states [T, ..., U] after each step."""

    def step(lstm: LstmState, of_inputs: jax.Array) -> tuple[LstmState, tuple[jax.Array, LstmState]]:
        whole = of_inputs + lstm.hidden @ kernel
        lstm = lstm_cell(lstm, whole)
        return lstm, (whole, lstm)

    _, (whole, states) = jax.lax.scan(step, initial_lstm(gates.shape[1:-1], kernel.shape[0]), gates, unroll=UNROLL)
    return whole, states


def _unroll_and_keep(gates: jax.Array, kernel: jax.Array) -> tuple[jax.Array, tuple[jax.Array, LstmState, jax.Array]]:
    whole, states = _forwards(gates, kernel)
    return states.hidden, (whole, states, kernel)


def _backwards(kept: tuple[jax.Array, LstmState, jax.Array], from_above: jax.Array) -> tuple[jax.Array, jax.Array]:
    whole, states, kernel = kept
    before = jax.tree.map(lambda x: jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]]), states)

    def step(later: LstmState, now: tuple[jax.Array, jax.Array, jax.Array, jax.Array]) -> tuple[LstmState, jax.Array]:
        """`later` is the loss's gradient by the state that this step leaves, as far as later steps see it."""
        gates, cell_before, cell, by_hidden = now
        keep, write, new, read = _activated(gates)
        squashed = jnp.tanh(cell)
        by_hidden = by_hidden + later.hidden
        by_cell = later.cell + by_hidden * read * (1.0 - squashed**2)
        by_gates = jnp.concatenate(
            [
                by_cell * cell_before * keep * (1.0 - keep),
                by_cell * new * write * (1.0 - write),
                by_cell * write * (1.0 - new**2),
                by_hidden * squashed * read * (1.0 - read),
            ],
            axis=-1,
        )
        return LstmState(by_cell * keep, by_gates @ kernel.T), by_gates

    zero = initial_lstm(whole.shape[1:-1], kernel.shape[0])
    _, by_gates = jax.lax.scan(step, zero, (whole, before.cell, states.cell, from_above), reverse=True, unroll=UNROLL)
    flat = by_gates.reshape((-1, by_gates.shape[-1]))
    return by_gates, before.hidden.reshape((-1, kernel.shape[0])).T @ flat


lstm_unroll.defvjp(_unroll_and_keep, _backwards)
