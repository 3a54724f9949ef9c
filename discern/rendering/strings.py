"""A slack string: how it hangs between its ends, and which pixels it covers."""

import jax.numpy as jnp
import numpy as np
from jax import Array

PIECES = 12


def hang(start: Array, end: Array, length: float) -> tuple[Array, Array]:
    """A catenary as PIECES straight pieces: ends [N, 2] (x, z) → x and z of its points, each [N, PIECES + 1].

    A string no longer than the distance of its ends is straight.
    """
    span, rise = end[:, 0] - start[:, 0], end[:, 1] - start[:, 1]
    share = jnp.linspace(0.0, 1.0, PIECES + 1)
    direction = jnp.where(span < 0, -1.0, 1.0)
    width = jnp.maximum(jnp.abs(span), 1e-3)
    slack = length**2 - rise**2
    taut = slack <= width**2 * 1.0001
    bend = _half_bend(jnp.sqrt(jnp.where(taut, 2.0 * width**2, slack)) / width)
    scale = width / (2.0 * bend)
    tilt = jnp.arctanh(jnp.clip(rise / length, -0.9999, 0.9999))
    first, last = jnp.sinh(tilt - bend), jnp.sinh(tilt + bend)
    slope = first[:, None] + (last - first)[:, None] * share
    x = (jnp.arcsinh(slope) - (tilt - bend)[:, None]) * (scale * direction)[:, None]
    z = (jnp.sqrt(1.0 + slope**2) - jnp.cosh(tilt - bend)[:, None]) * scale[:, None]
    x, z = (jnp.where(taut[:, None], whole[:, None] * share, bent) for whole, bent in ((span, x), (rise, z)))
    return start[:, :1] + x, start[:, 1:] + z


def _half_bend(ratio: Array) -> Array:
    """The b > 0 with sinh(b) / b = ratio > 1, by Newton's method from above."""
    bend = jnp.minimum(jnp.sqrt(6.0 * (ratio - 1.0)), 2.0 * jnp.log(2.0 * ratio))
    for _ in range(8):
        bend = bend - (jnp.sinh(bend) - ratio * bend) / (jnp.cosh(bend) - ratio)
    return bend


def cover(points: tuple[Array, Array], x: np.ndarray, z: np.ndarray, radius: float, pixel: np.ndarray) -> Array:
    """How much of each pixel the string covers: x, z and pixel widths [P] in the string's plane → [N, P]."""
    nearest = jnp.float32(1e9)
    px, pz = points
    for i in range(PIECES):
        ax, az = px[:, i : i + 1], pz[:, i : i + 1]
        dx, dz = px[:, i + 1 : i + 2] - ax, pz[:, i + 1 : i + 2] - az
        along = jnp.clip(((x - ax) * dx + (z - az) * dz) / jnp.maximum(dx**2 + dz**2, 1e-12), 0.0, 1.0)
        nearest = jnp.minimum(nearest, (x - ax - along * dx) ** 2 + (z - az - along * dz) ** 2)
    return jnp.clip((radius + pixel / 2 - jnp.sqrt(nearest)) / pixel, 0.0, np.minimum(2 * radius / pixel, 1.0))
