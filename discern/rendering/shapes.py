"""Where rays meet simple solids; everything is elementwise, so that XLA fuses a whole picture into one kernel.

A vector is a tuple of three arrays that broadcast against each other; directions have length 1. `MISS` stands for a
ray that meets nothing. Sums of products are written out, because a matrix product would end the fusion. The same
functions serve NumPy on the host and JAX under jit: they ask the ray which of the two it belongs to.
"""

from typing import Any, NamedTuple

import numpy as np

Array = Any  # of NumPy or of JAX
Vector = tuple[Array, Array, Array]

MISS = 1e9
PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX = 0, 2, 3, 4, 5, 6  # as MuJoCo numbers them
KINDS = (PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX)
TOUCHING = 0.96  # a solid shades only what is deeper inside it than this part of its radius² says


class Solid(NamedTuple):
    """One geom: what it is, how large, and where."""

    kind: int
    size: np.ndarray  # float32 [3], as MuJoCo gives it: radius and half length, half axes or half edges
    centre: Vector
    axes: tuple[Vector, Vector, Vector]  # its own x, y and z in the world


def library(*arrays: Array) -> Any:
    """numpy or jax.numpy: JAX's where any of the arrays is JAX's."""
    spaces = [a.__array_namespace__() for a in arrays if hasattr(a, "__array_namespace__")]
    return next((space for space in spaces if space is not np), np)


def dot(a: Vector, b: Vector) -> Array:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def add(a: Vector, b: Vector) -> Vector:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


def subtract(a: Vector, b: Vector) -> Vector:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


def scale(a: Vector, factor: Array | float) -> Vector:
    return a[0] * factor, a[1] * factor, a[2] * factor


def normalise(a: Vector) -> Vector:
    square = dot(a, a)
    return scale(a, 1.0 / library(square).sqrt(square))


def where(mask: Array, a: Vector, b: Vector) -> Vector:
    xp = library(mask, *a, *b)
    return xp.where(mask, a[0], b[0]), xp.where(mask, a[1], b[1]), xp.where(mask, a[2], b[2])


def meet(solid: Solid, origin: Vector, ray: Vector) -> tuple[Array, Vector]:
    """How far along the ray its surface is first met (MISS: never), and the outward normal there."""
    shapes = (_plane, _sphere, _capsule, _ellipsoid, _cylinder, _box)
    return shapes[KINDS.index(solid.kind)](solid, subtract(origin, solid.centre), ray)


def blocks(solid: Solid, point: Vector, towards: Vector, reach: Array | float) -> Array:
    """Whether the solid stands between a point and a lamp `reach` away."""
    if solid.kind in (SPHERE, CAPSULE):
        return _near(solid, subtract(point, solid.centre), towards, reach)
    distance, _ = meet(solid, point, towards)
    return (distance > 1e-3 * float(np.max(solid.size))) & (distance < reach)


def _near(solid: Solid, offset: Vector, towards: Vector, reach: Array | float) -> Array:
    """Whether a segment passes nearer to the axis of a sphere or capsule than its radius."""
    xp = library(*offset, *towards)
    along_ray = dot(towards, offset)
    gap = dot(offset, offset)
    if solid.kind == CAPSULE:
        axis, half = solid.axes[2], float(solid.size[1])
        along_axis, lean = dot(axis, offset), dot(axis, towards)
        nearest = (along_axis - lean * along_ray) / xp.maximum(1.0 - lean * lean, 1e-6)
        travelled = xp.clip(xp.clip(nearest, -half, half) * lean - along_ray, 0.0, reach)
        nearest = xp.clip(along_axis + travelled * lean, -half, half)
        gap = gap + nearest * (nearest - 2.0 * (along_axis + travelled * lean))
    else:
        travelled = xp.clip(-along_ray, 0.0, reach)
    gap = gap + travelled * (travelled + 2.0 * along_ray)
    return gap < TOUCHING * float(solid.size[0]) ** 2


def _plane(solid: Solid, offset: Vector, ray: Vector) -> tuple[Array, Vector]:
    """A rectangle that is seen from above only; a half edge of 0 is endless."""
    xp = library(*offset, *ray)
    x, y, z = solid.axes
    fall = -dot(ray, z)
    distance = dot(offset, z) / xp.where(fall > 1e-9, fall, 1.0)
    spot = add(offset, scale(ray, distance))
    inside = (fall > 1e-9) & (distance > 0)
    for axis, half in ((x, float(solid.size[0])), (y, float(solid.size[1]))):
        if half > 0:
            inside &= xp.abs(dot(spot, axis)) <= half
    return xp.where(inside, distance, MISS), z


def _sphere(solid: Solid, offset: Vector, ray: Vector) -> tuple[Array, Vector]:
    radius = float(solid.size[0])
    distance = _ball(dot(ray, offset), dot(offset, offset) - radius**2)
    return distance, scale(add(offset, scale(ray, distance)), 1.0 / radius)


def _ball(along: Array, excess: Array) -> Array:
    """The nearer root of t² + 2·along·t + excess."""
    xp = library(along, excess)
    inside = along * along - excess
    return xp.where(inside > 0, -along - xp.sqrt(xp.maximum(inside, 0.0)), MISS)


def _capsule(solid: Solid, offset: Vector, ray: Vector) -> tuple[Array, Vector]:
    xp = library(*offset, *ray)
    radius, half, axis = float(solid.size[0]), float(solid.size[1]), solid.axes[2]
    along, square = dot(ray, offset), dot(offset, offset) - radius**2
    height, lean = dot(axis, offset), dot(axis, ray)
    steep = xp.maximum(1.0 - lean * lean, 1e-7)
    across = along - height * lean
    inside = across * across - steep * (square - height * height)
    body = (-across - xp.sqrt(xp.maximum(inside, 0.0))) / steep
    level = height + body * lean
    end = xp.clip(level, -half, half)
    cap = _ball(along - end * lean, square + end * (end - 2.0 * height))
    distance = xp.where(level == end, body, cap)
    level = xp.clip(height + distance * lean, -half, half)
    spot = subtract(add(offset, scale(ray, distance)), scale(axis, level))
    return xp.where(inside > 0, distance, MISS), scale(spot, 1.0 / radius)


def _cylinder(solid: Solid, offset: Vector, ray: Vector) -> tuple[Array, Vector]:
    xp = library(*offset, *ray)
    radius, half, axis = float(solid.size[0]), float(solid.size[1]), solid.axes[2]
    height, lean = dot(axis, offset), dot(axis, ray)
    steep = xp.maximum(1.0 - lean * lean, 1e-7)
    across = dot(ray, offset) - height * lean
    square = dot(offset, offset) - height * height - radius**2
    inside = across * across - steep * square
    body = (-across - xp.sqrt(xp.maximum(inside, 0.0))) / steep
    level = height + body * lean
    side = xp.where(lean > 0, -half, half)
    lid = (side - height) / xp.where(xp.abs(lean) > 1e-7, lean, 1e-7)
    on_lid = steep * lid * lid + 2.0 * across * lid + square <= 0
    on_body = (inside > 0) & (xp.abs(level) <= half)
    distance = xp.where(on_body, body, xp.where(on_lid, lid, MISS))
    spot = subtract(add(offset, scale(ray, body)), scale(axis, level))
    return distance, where(on_body, scale(spot, 1.0 / radius), scale(axis, xp.sign(side)))


def _ellipsoid(solid: Solid, offset: Vector, ray: Vector) -> tuple[Array, Vector]:
    """A unit ball in stretched coordinates."""
    start = _stretch(solid, offset)
    stretched = _stretch(solid, ray)
    length = dot(stretched, stretched)
    distance = _ball(dot(stretched, start) / length, (dot(start, start) - 1.0) / length)
    spot = add(start, scale(stretched, distance))
    x, y, z = (scale(axis, spot[i] / float(solid.size[i])) for i, axis in enumerate(solid.axes))
    return distance, normalise(add(add(x, y), z))


def _stretch(solid: Solid, vector: Vector) -> Vector:
    x, y, z = (dot(vector, axis) / float(half) for axis, half in zip(solid.axes, solid.size, strict=True))
    return x, y, z


def _box(solid: Solid, offset: Vector, ray: Vector) -> tuple[Array, Vector]:
    """The slabs between opposite faces: in through the last near face, out through the first far one."""
    xp = library(*offset, *ray)
    enter, leave = -MISS, MISS
    normal: Vector = solid.axes[0]
    for axis, half in zip(solid.axes, solid.size, strict=True):
        speed = dot(ray, axis)
        speed = xp.where(xp.abs(speed) > 1e-7, speed, 1e-7)
        middle, reach = -dot(offset, axis) / speed, float(half) / xp.abs(speed)
        later = middle - reach > enter
        normal = where(later, scale(axis, -xp.sign(speed)), normal)
        enter = xp.maximum(enter, middle - reach)
        leave = xp.minimum(leave, middle + reach)
    return xp.where(enter < leave, enter, MISS), normal
