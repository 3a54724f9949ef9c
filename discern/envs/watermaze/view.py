"""What can be seen in the watermaze: one ray for each column of the image finds its wall, rows are arithmetic.

Everything is drawn in closed form with edges as soft as a pixel is wide, so that N images are one elementwise
computation and a step of less than a pixel shows. Lengths are those of the level, in its units.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

SIZE = 84
SIDES = 16
INRADIUS = 760.0
WATER, EYE, WALL_TOP = 16.0, 66.0, 192.0  # the eye of a Quake player, 50 above the water he stands on
FOCAL = SIZE / 2  # in pixels: a field of view of 90°, both ways

PICTURE_HEIGHT, PICTURE_HALF = 96.0, 76.0
MAT_HALF = 0.84  # of the half of a picture; what is outside is its frame

SIDE_ANGLES = (np.arange(SIDES) * 2 * np.pi / SIDES).astype(np.float32)
ACROSS = ((np.arange(SIZE) + 0.5) / FOCAL - 1).astype(np.float32)  # to the right, at depth 1
UP = (1 - (np.arange(SIZE) + 0.5) / FOCAL).astype(np.float32)[:, None]
TILE = 128.0
WATER_DEPTH = (EYE - WATER) / np.maximum(-UP, 0.5 / FOCAL)  # of the water in each row
WATER_DETAIL = np.clip(1.4 - 2.5 * WATER_DEPTH**2 / (FOCAL * (EYE - WATER)) / TILE, 0.0, 1.0)  # finer than a pixel: 0

SKY, WALL_BLUE = (158, 190, 224), (46, 92, 178)
WATER_BLUE, FRAME = (28, 66, 134), (70, 44, 26)


class Picture(NamedTuple):
    """A shape on a mat: `outline` is below 0 inside it, for coordinates in [-1, 1] to the right and up."""

    outline: Callable[[jax.Array, jax.Array], jax.Array]
    ink: tuple[int, int, int]
    mat: tuple[int, int, int]


def _disc(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.sqrt(a * a + b * b) - 0.55


def _cross(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.maximum(jnp.minimum(abs(a), abs(b)) - 0.2, jnp.maximum(abs(a), abs(b)) - 0.66)


def _triangle(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.maximum(0.894 * abs(a) + 0.447 * b - 0.28, -b - 0.55)


def _uprights(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.maximum(abs(abs(a) - 0.36) - 0.17, abs(b) - 0.62)


def _ring(a: jax.Array, b: jax.Array) -> jax.Array:
    return abs(jnp.sqrt(a * a + b * b) - 0.46) - 0.15


def _saltire(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.maximum(0.707 * abs(abs(a) - abs(b)) - 0.17, jnp.maximum(abs(a), abs(b)) - 0.64)


def _lower_half(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.maximum(b, abs(a) - 1)


def _diamond(a: jax.Array, b: jax.Array) -> jax.Array:
    return 0.707 * (abs(a) + abs(b) - 0.72)


PICTURES = (  # every 45°, anticlockwise from the x axis
    Picture(_disc, (214, 40, 40), (244, 240, 228)),
    Picture(_cross, (250, 250, 250), (196, 30, 46)),
    Picture(_triangle, (28, 120, 52), (250, 214, 64)),
    Picture(_uprights, (30, 30, 34), (244, 140, 36)),
    Picture(_ring, (252, 226, 60), (112, 36, 130)),
    Picture(_saltire, (36, 26, 40), (120, 206, 96)),
    Picture(_lower_half, (206, 62, 140), (250, 204, 222)),
    Picture(_diamond, (240, 240, 240), (30, 30, 34)),
)
INKS, MATS = (np.array([getattr(p, part) for p in PICTURES], np.float32) for part in ("ink", "mat"))


class Columns(NamedTuple):
    """What the ray of each column meets, [W]; colours [3, W]."""

    x: jax.Array  # the ray's way at depth 1
    y: jax.Array
    depth: jax.Array
    along: jax.Array  # where on the wall, to the right of its middle
    picture: jax.Array  # which one hangs on the wall; len(PICTURES) if none does
    ink: jax.Array
    mat: jax.Array


def view(place: jax.Array, yaw: jax.Array) -> jax.Array:
    """The image at a place [2], looking along yaw []: uint8 [84, 84, 3]."""
    columns = cast(place, yaw)
    height = EYE + jnp.asarray(UP) * columns.depth
    sharpness = FOCAL / columns.depth  # pixels in a unit of the wall
    wall_cover = _soft((WALL_TOP - height) * sharpness)
    water_cover = _soft((WATER - height) * sharpness)
    wall = _wall_shade(columns, height)
    water = _water_shade(place, columns)
    cover, picture = _picture(columns, height, sharpness)
    channels = []
    for c in range(3):
        hung = _blend(WALL_BLUE[c] * wall, picture[c], cover)
        channels.append(_blend(_blend(SKY[c], hung, wall_cover), WATER_BLUE[c] * water, water_cover))
    return _interleave(channels)


def cast(place: jax.Array, yaw: jax.Array) -> Columns:
    """The wall that each column's ray meets first."""
    off = (yaw - SIDE_ANGLES)[:, None]
    ahead, aside = jnp.cos(off), jnp.sin(off)
    x, y = place
    cos, sin = np.cos(SIDE_ANGLES)[:, None], np.sin(SIDE_ANGLES)[:, None]
    approach = ahead + ACROSS * aside  # towards a side, for each unit of depth
    depths = jnp.where(approach > 1e-6, (INRADIUS - x * cos - y * sin) / jnp.maximum(approach, 1e-6), jnp.inf)
    side = jnp.argmin(depths, axis=0) == jnp.arange(SIDES)[:, None]
    depth = depths.min(0)
    along = _pick(side, x * sin - y * cos + depth * (ACROSS * ahead - aside))
    shown = side[::2]
    return Columns(
        x=jnp.cos(yaw) + ACROSS * jnp.sin(yaw),
        y=jnp.sin(yaw) - ACROSS * jnp.cos(yaw),
        depth=depth,
        along=along,
        picture=jnp.where(shown.any(0), jnp.argmax(shown, axis=0), len(PICTURES)),
        ink=_pick(shown[:, None], INKS[..., None]),
        mat=_pick(shown[:, None], MATS[..., None]),
    )


def _pick(side: jax.Array, values: jax.Array | np.ndarray) -> jax.Array:
    """The one of the values [S, …, W] whose side was met: […, W]."""
    return jnp.sum(jnp.where(side, values, 0.0), axis=0)


def _soft(pixels: jax.Array) -> jax.Array:
    """How much of a pixel is covered when the edge is that many pixels away."""
    return jnp.clip(0.5 + pixels, 0.0, 1.0)


def _blend(under: jax.Array | float, over: jax.Array, cover: jax.Array) -> jax.Array:
    return under + cover * (over - under)


def _wave(position: jax.Array) -> jax.Array:
    """A triangle wave of period 1 between -1 and 1."""
    return 4 * abs(position - jnp.floor(position) - 0.5) - 1


def _wall_shade(columns: Columns, height: jax.Array) -> jax.Array:
    """Courses and panels that fade with distance, darker towards the corners and the water."""
    fade = jnp.clip(1.2 - columns.depth / 900, 0.0, 1.0)
    corner = abs(columns.along) / (INRADIUS * np.tan(np.pi / SIDES))
    panels = 0.05 * _wave(columns.along / 60) * fade - 0.16 * corner**4
    return 0.9 + panels + 0.06 * fade * _wave(height / 48) + 0.0007 * (height - WATER)


def _water_shade(place: jax.Array, columns: Columns) -> jax.Array:
    """Tiles under ripples, which fade where they are finer than a pixel."""
    x, y = place[0] + WATER_DEPTH * columns.x, place[1] + WATER_DEPTH * columns.y
    joints = jnp.clip(8 * jnp.maximum(_wave(x / TILE), _wave(y / TILE)) - 6.8, 0.0, 1.0)
    ripples = _wave((x + 2 * y) / 400) * _wave((2 * x - y) / 300)
    return 1 + (0.12 * ripples - 0.22 * joints) * WATER_DETAIL


def _picture(columns: Columns, height: jax.Array, sharpness: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
    """Where a framed picture hangs, and its colour there: cover [H, W], three channels [H, W]."""
    a, b = columns.along / PICTURE_HALF, (height - PICTURE_HEIGHT) / PICTURE_HALF
    per_pixel = sharpness * PICTURE_HALF
    reach = jnp.maximum(abs(a), abs(b))
    cover = _soft((1 - reach) * per_pixel) * (columns.picture < len(PICTURES))
    mat_cover = _soft((MAT_HALF - reach) * per_pixel)
    outline = jnp.ones_like(reach)
    for i, picture in enumerate(PICTURES):
        outline = jnp.where(columns.picture == i, picture.outline(a, b), outline)
    ink_cover = _soft(-outline * per_pixel)
    painted = [_blend(mat, ink, ink_cover) for mat, ink in zip(columns.mat, columns.ink, strict=True)]
    return cover, [_blend(frame, paint, mat_cover) for frame, paint in zip(FRAME, painted, strict=True)]


def _interleave(channels: list[jax.Array]) -> jax.Array:
    """Three channels [H, W] in 0 … 255 → uint8 [H, W, 3], by way of one word for each pixel."""
    red, green, blue = (jnp.round(jnp.clip(channel, 0, 255)).astype(jnp.uint32) for channel in channels)
    words = red | (green << 8) | (blue << 16)
    return (words[..., None] >> np.array([0, 8, 16], np.uint32)).astype(jnp.uint8)
