"""Pictures of a scene from the poses of what moves in it: one ray a pixel, batched, one fused kernel.

What stands still was painted beforehand; rays are tested only against what moves, and shadows of what moves fall on
the backdrop.
"""

from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array, lax

from discern.rendering.backdrop import Backdrop, paint, read_textures
from discern.rendering.scene import Scene, String, read_scene
from discern.rendering.shading import constant, shine, towards
from discern.rendering.shapes import Solid, Vector, add, blocks, meet, scale, where
from discern.rendering.strings import cover, hang


class Poses(NamedTuple):
    """Where the M things stand that move, in the order of the scene; a string's two ends come last."""

    position: Array | np.ndarray  # float32 [N, M (+ 2), 3]
    rotation: Array | np.ndarray  # float32 [N, M, 3, 3]


class Stage(NamedTuple):
    """A scene ready to be drawn."""

    scene: Scene
    backdrop: Backdrop
    side: int
    shadows: bool = True


def set_stage(model: mujoco.MjModel, data: mujoco.MjData, placed: tuple[str, ...] = (), side: int = 84) -> Stage:
    """Reads the scene around a forwarded state and paints its backdrop."""
    scene = read_scene(model, data, placed)
    return Stage(scene, paint(scene, read_textures(model, scene), side), side)


def draw(stage: Stage, poses: Poses) -> Array:
    """uint8 [N, side, side, 3]."""
    packed = lax.platform_dependent(poses, cpu=partial(_packed_apart, stage), default=partial(_packed, stage))
    channels = lax.bitcast_convert_type(lax.optimization_barrier(packed), jnp.uint8)[..., :3]
    return channels.reshape((-1, stage.side, stage.side, 3))


def silhouettes(stage: Stage, poses: Poses) -> Array:
    """Where something is seen that moves: bool [N, side, side]."""
    distance, _, _ = _nearest(stage, _movers(stage.scene, poses))
    return (distance < stage.backdrop.depth).reshape((-1, stage.side, stage.side))


def _packed_apart(stage: Stage, poses: Poses) -> Array:
    """The same behind a condition that always holds: XLA's CPU back end ignores the barrier, and fuses across it."""
    nothing = jnp.zeros((len(poses.position), stage.side**2), jnp.uint32)
    return lax.cond(jnp.isfinite(poses.position[0, 0, 0]), partial(_packed, stage), lambda _: nothing, poses)


def _packed(stage: Stage, poses: Poses) -> Array:
    """The three channels in one number, so that a pixel is computed once and not once a channel: uint32 [N, P]."""
    scene, backdrop = stage.scene, stage.backdrop
    solids = _movers(scene, poses)
    distance, normal, colour = _nearest(stage, solids)
    origin, ray = tuple(backdrop.origin), tuple(backdrop.ray)
    point = add(origin, scale(ray, distance))
    view, hit = scale(ray, -1.0), distance < backdrop.depth
    base, lamp = (
        where(hit, shine(scene, light, point, normal, view, colour), still)
        for light, still in ((scene.headlight, tuple(backdrop.base)), (scene.lamp, tuple(backdrop.lamp)))
    )
    if stage.shadows:
        way, reach = towards(scene.lamp, point)
        dark = jnp.zeros(distance.shape, bool)
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


def _nearest(stage: Stage, solids: list[Solid]) -> tuple[Array, Vector, Vector]:
    """Distance [N, P] of what each ray meets first, and its normal and colour where that is not the backdrop."""
    origin, ray = tuple(stage.backdrop.origin), tuple(stage.backdrop.ray)
    shape = jnp.broadcast_shapes(solids[0].centre[0].shape, ray[0].shape)
    distance = jnp.broadcast_to(stage.backdrop.depth, shape)
    normal: Vector = (jnp.zeros(shape),) * 3
    colour = normal
    for solid, own in zip(solids, stage.scene.drawn.colour[stage.scene.drawn.moves], strict=True):
        length, outward = meet(solid, origin, ray)
        nearer = length < distance
        distance = jnp.where(nearer, length, distance)
        normal, colour = where(nearer, outward, normal), where(nearer, constant(own), colour)
    return distance, normal, colour


def _with_string(stage: Stage, string: String, poses: Poses, picture: Vector, distance: Array) -> Vector:
    """Hung into the picture where nothing stands before it; it pulls when its ends are as far apart as it is long."""
    backdrop, side, light = stage.backdrop, stage.side, stage.scene.headlight
    reach = (string.depth - backdrop.origin[1]) / backdrop.ray[1]
    x, z = (backdrop.origin[i] + backdrop.ray[i] * reach for i in (0, 2))
    pixel = np.abs(np.gradient(x.reshape((side, side)), axis=1)).reshape(-1)
    first, last = (jnp.asarray(poses.position[:, end, ::2]) for end in (-2, -1))
    pulls = ((last - first) ** 2).sum(1, keepdims=True) >= string.length**2
    points, pulls = lax.optimization_barrier((hang(first, last, string.length), pulls))
    covered = jnp.where(reach < distance, cover(points, x, z, string.radius, pixel), 0.0)
    bright = light.ambient + light.diffuse
    tone = where(pulls, constant(np.clip(string.taut * bright, 0, 1)), constant(np.clip(string.slack * bright, 0, 1)))
    return add(scale(picture, 1.0 - covered), scale(tone, covered))


def _columns(vector: Array) -> Vector:
    return vector[:, :1], vector[:, 1:2], vector[:, 2:]
