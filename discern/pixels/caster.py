"""Pictures of a scene from the poses of what moves in it: one ray a pixel, batched, one fused kernel.

What stands still was painted beforehand; rays are tested only against what moves, and shadows of what moves fall on
the backdrop.
"""

from typing import NamedTuple

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array, lax

from discern.pixels.backdrop import Backdrop, paint, read_textures
from discern.pixels.scene import Scene, String, read_scene
from discern.pixels.shading import constant, shine, towards
from discern.pixels.shapes import Solid, Vector, add, blocks, meet, scale, where
from discern.pixels.strings import cover, hang


class Poses(NamedTuple):
    """Where the M things stand that move, in the order of the scene; a string's two ends come last."""

    position: Array  # float32 [N, M (+ 2), 3]
    rotation: Array  # float32 [N, M, 3, 3]


class Stage(NamedTuple):
    """A scene ready to be drawn."""

    scene: Scene
    backdrop: Backdrop
    side: int
    shadows: bool


def set_stage(
    model: mujoco.MjModel, data: mujoco.MjData, placed: tuple[str, ...] = (), side: int = 84, shadows: bool = True
) -> Stage:
    """Reads the scene around a forwarded state and paints its backdrop."""
    scene = read_scene(model, data, placed)
    return Stage(scene, paint(scene, read_textures(model, scene), side), side, shadows)


def draw(stage: Stage, poses: Poses) -> Array:
    """uint8 [N, side, side, 3]."""
    packed = _packed(stage, poses)
    channels = lax.bitcast_convert_type(lax.optimization_barrier(packed), jnp.uint8)[..., :3]
    return channels.reshape((-1, stage.side, stage.side, 3))


def silhouettes(stage: Stage, poses: Poses) -> Array:
    """Which moving thing each pixel shows, -1: none. int32 [N, side, side]."""
    _, _, which = _nearest(_movers(stage.scene, poses), stage.backdrop)
    return which.reshape((-1, stage.side, stage.side))


def _packed(stage: Stage, poses: Poses) -> Array:
    """The three channels in one number, so that a pixel is computed once and not once a channel: uint32 [N, P]."""
    scene, backdrop = stage.scene, stage.backdrop
    solids = _movers(scene, poses)
    distance, normal, which = _nearest(solids, backdrop)
    origin, ray = _rows(backdrop.origin), _rows(backdrop.ray)
    point = add(origin, scale(ray, distance))
    colour = _pick(scene.drawn.colour[scene.drawn.moves], which)
    view, hit = scale(ray, -1.0), which >= 0
    base, lamp = (
        where(hit, shine(scene, light, point, normal, view, colour), still)
        for light, still in ((scene.headlight, _rows(backdrop.base)), (scene.lamp, _rows(backdrop.lamp)))
    )
    if stage.shadows:
        way, reach = towards(scene.lamp, point)
        dark = jnp.zeros(which.shape, bool)
        for solid in solids:
            dark |= blocks(solid, point, way, reach)
        lamp = where(dark, constant(np.zeros(3)), lamp)
    picture = add(base, lamp)
    if scene.string is not None:
        picture = _with_string(stage, scene.string, poses, picture, distance)
    red, green, blue = (jnp.round(jnp.clip(c, 0, 1) * 255).astype(jnp.uint32) for c in picture)
    return red | (green << 8) | (blue << 16)


def _movers(scene: Scene, poses: Poses) -> list[Solid]:
    """The moving solids, their coordinates [N, 1]; the barrier keeps them from being worked out again at each pixel."""
    position, rotation = lax.optimization_barrier((poses.position, poses.rotation))
    solids = []
    for i, g in enumerate(np.flatnonzero(scene.drawn.moves)):
        x, y, z = (_columns(rotation[:, i, :, k]) for k in range(3))
        solids.append(Solid(int(scene.drawn.kind[g]), scene.drawn.size[g], _columns(position[:, i]), (x, y, z)))
    return solids


def _nearest(solids: list[Solid], backdrop: Backdrop) -> tuple[Array, Vector, Array]:
    """Distance [N, P] and normal of what each ray meets first, and which of the solids it is, -1: the backdrop."""
    origin, ray = _rows(backdrop.origin), _rows(backdrop.ray)
    shape = jnp.broadcast_shapes(solids[0].centre[0].shape, ray[0].shape)
    distance = jnp.broadcast_to(backdrop.depth[None], shape)
    which = jnp.full(shape, -1)
    normal: Vector = (jnp.zeros(shape),) * 3
    for i, solid in enumerate(solids):
        length, outward = meet(solid, origin, ray)
        nearer = length < distance
        distance = jnp.where(nearer, length, distance)
        which = jnp.where(nearer, i, which)
        normal = where(nearer, outward, normal)
    return distance, normal, which


def _pick(colours: np.ndarray, which: Array) -> Vector:
    """The colour of each pixel's thing; selects over the few different colours fuse, a gather would not."""
    red, green, blue = (jnp.full(which.shape, c) for c in colours[0])
    for different in np.unique(colours, axis=0):
        own = jnp.zeros(which.shape, bool)
        for i in np.flatnonzero((colours == different).all(1)):
            own |= which == i
        red, green, blue = where(own, constant(different), (red, green, blue))
    return red, green, blue


def _with_string(stage: Stage, string: String, poses: Poses, picture: Vector, distance: Array) -> Vector:
    """Hung into the picture where nothing stands before it; it pulls when its ends are as far apart as it is long."""
    backdrop, side, light = stage.backdrop, stage.side, stage.scene.headlight
    reach = (string.depth - backdrop.origin[1]) / backdrop.ray[1]
    x, z = (backdrop.origin[i] + backdrop.ray[i] * reach for i in (0, 2))
    pixel = np.abs(np.gradient(x.reshape((side, side)), axis=1)).reshape(-1)
    first, last = poses.position[:, -2, ::2], poses.position[:, -1, ::2]
    pulls = ((last - first) ** 2).sum(1, keepdims=True) >= string.length**2
    points, pulls = lax.optimization_barrier((hang(first, last, string.length), pulls))
    covered = jnp.where(reach < distance, cover(points, x, z, string.radius, pixel), 0.0)
    bright = light.ambient + light.diffuse
    tone = where(pulls, constant(np.clip(string.taut * bright, 0, 1)), constant(np.clip(string.slack * bright, 0, 1)))
    return add(scale(picture, 1.0 - covered), scale(tone, covered))


def _columns(vector: Array) -> Vector:
    return vector[:, :1], vector[:, 1:2], vector[:, 2:]


def _rows(vector: np.ndarray) -> Vector:
    x, y, z = (jnp.asarray(v)[None] for v in vector)
    return x, y, z
