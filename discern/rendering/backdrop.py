"""The part of a scene that never changes, painted once: floor, walls, sky, and what stands fixed between them.

Planes are lit at the corners of a coarse grid and interpolated in between, as OpenGL's fixed pipeline lights them.
"""

from typing import NamedTuple

import mujoco
import numpy as np

from discern.rendering import shapes
from discern.rendering.scene import Camera, Scene
from discern.rendering.shading import constant, shine, towards
from discern.rendering.shapes import MISS, PLANE, Solid, Vector, add, dot, normalise, scale, subtract, where

Textures = dict[int, np.ndarray]
SKY = -1
SAMPLES = 4  # along each side of a pixel
GRID_LINES = 200  # the most that MuJoCo divides a plane into


class Backdrop(NamedTuple):
    """What every pixel shows while nothing moves in front of it; P pixels, row by row."""

    base: np.ndarray  # float32 [3, P], without the lamp
    lamp: np.ndarray  # float32 [3, P], what the lamp adds where nothing shades it
    depth: np.ndarray  # float32 [P], distance from the ray's origin
    origin: np.ndarray  # float32 [3, P], on each pixel's ray, near what happens
    ray: np.ndarray  # float32 [3, P]


def read_textures(model: mujoco.MjModel, scene: Scene) -> Textures:
    """Pictures in [0, 1] by drawn geom, float32 [H, W, 3]; the six faces of the sky are at SKY, one below the other."""
    pictures = {SKY: np.zeros((6, 1, 3), np.float32)}
    for texture in np.flatnonzero(model.tex_type == mujoco.mjtTexture.mjTEXTURE_SKYBOX):
        pictures[SKY] = _picture(model, texture)
    for g in np.flatnonzero((scene.drawn.kind == PLANE) & (scene.drawn.material >= 0)):
        texture = model.mat_texid[scene.drawn.material[g], mujoco.mjtTextureRole.mjTEXROLE_RGB]
        if texture >= 0:
            pictures[int(g)] = _picture(model, texture)
    return pictures


def _picture(model: mujoco.MjModel, texture: np.integer) -> np.ndarray:
    height, width, channels = (int(n[texture]) for n in (model.tex_height, model.tex_width, model.tex_nchannel))
    start = model.tex_adr[texture]
    data = model.tex_data[start : start + height * width * channels]
    return data.reshape((height, width, channels))[..., :3].astype(np.float32) / 255.0


def paint(scene: Scene, textures: Textures, side: int) -> Backdrop:
    """The backdrop at side × side pixels, averaged over SAMPLES² rays a pixel."""

    def sample(x: float, y: float) -> tuple[Vector, Vector, np.ndarray]:
        return _look(scene, textures, constant(scene.camera.position), tuple(pixel_rays(scene.camera, side, x, y)))

    steps = (np.arange(SAMPLES) + 0.5) / SAMPLES
    seen = [sample(x, y) for x in steps for y in steps]
    ray = pixel_rays(scene.camera, side, 0.5, 0.5)
    _, _, distance = sample(0.5, 0.5)
    start = ray.T @ (scene.centre - scene.camera.position)  # long rays from a far camera would lose digits
    return Backdrop(
        base=np.mean([s[0] for s in seen], axis=0),
        lamp=np.mean([s[1] for s in seen], axis=0),
        depth=distance - start,
        origin=scene.camera.position[:, None] + ray * start,
        ray=ray,
    )


def pixel_rays(camera: Camera, side: int, x: float, y: float) -> np.ndarray:
    """Unit directions through the same spot (x right, y down, in [0, 1]) of every pixel: float32 [3, P]."""
    focal = side / 2 / np.tan(camera.fovy / 2)
    down, right = np.mgrid[:side, :side].reshape((2, -1)).astype(np.float64)
    local = np.stack([(right + x - side / 2) / focal, -(down + y - side / 2) / focal, -np.ones(side * side)])
    return (camera.rotation.astype(np.float64) @ (local / np.linalg.norm(local, axis=0))).astype(np.float32)


def solid(scene: Scene, g: int) -> Solid:
    """A drawn geom where it stood when the scene was read."""
    x, y, z = (constant(axis) for axis in scene.drawn.rotation[g].T)
    return Solid(int(scene.drawn.kind[g]), scene.drawn.size[g], constant(scene.drawn.position[g]), (x, y, z))


def _look(scene: Scene, textures: Textures, eye: Vector, ray: Vector) -> tuple[Vector, Vector, np.ndarray]:
    """Colours without and from the lamp, and the distance, along rays [R]."""
    distance = np.full(ray[0].shape, MISS, np.float32)
    base, lamp = _sky(textures[SKY], ray), (np.zeros_like(ray[0]),) * 3
    still = [g for g in range(len(scene.drawn.kind)) if not scene.drawn.moves[g]]
    for g in still:
        thing = solid(scene, g)
        length, normal = shapes.meet(thing, eye, ray)
        point = add(eye, scale(ray, length))
        own, lit = _lit_plane(scene, g, point) if thing.kind == PLANE else _lit(scene, g, point, normal, ray)
        if g in textures:
            picture = _on_plane(textures[g], thing, point)
            own, lit = ((a[0] * picture[0], a[1] * picture[1], a[2] * picture[2]) for a in (own, lit))
        nearer = length < distance
        distance = np.where(nearer, length, distance)
        base, lamp = where(nearer, own, base), where(nearer, lit, lamp)
    point = add(eye, scale(ray, distance))
    way, reach = towards(scene.lamp, point)
    for thing in (solid(scene, g) for g in still if scene.drawn.kind[g] != PLANE):
        lamp = scale(lamp, ~shapes.blocks(thing, point, way, reach))
    return base, lamp, distance


def _lit(scene: Scene, g: int, point: Vector, normal: Vector, ray: Vector) -> tuple[Vector, Vector]:
    colour, view = constant(scene.drawn.colour[g]), scale(ray, -1.0)
    own, lit = (shine(scene, light, point, normal, view, colour) for light in (scene.headlight, scene.lamp))
    return own, lit


def _lit_plane(scene: Scene, g: int, point: Vector) -> tuple[Vector, Vector]:
    """Lit at the corners of the plane's grid, and linear on the two triangles of each of its cells."""
    plane = solid(scene, g)
    lines = [grid_lines(float(scene.drawn.size[g, i]), float(scene.drawn.size[g, 2])) for i in range(2)]
    xs, ys = (axis.astype(np.float32) for axis in np.meshgrid(*lines, indexing="ij"))
    corner = add(plane.centre, add(scale(plane.axes[0], xs), scale(plane.axes[1], ys)))
    way = subtract(corner, constant(scene.camera.position))
    at_corners = _lit(scene, g, corner, plane.axes[2], normalise(way))
    offset = subtract(point, plane.centre)
    column, u = _cell(lines[0], dot(offset, plane.axes[0]))
    row, v = _cell(lines[1], dot(offset, plane.axes[1]))

    def between(values: np.ndarray) -> np.ndarray:
        values = np.broadcast_to(values, xs.shape)
        near, far = values[column, row], values[column + 1, row + 1]
        right, up = values[column + 1, row], values[column, row + 1]
        lower = near + u * (right - near) + v * (up - near)
        upper = far + (1 - u) * (up - far) + (1 - v) * (right - far)
        return np.where(u + v < 1, lower, upper)

    own, lit = ((between(c[0]), between(c[1]), between(c[2])) for c in at_corners)
    return own, lit


def grid_lines(half: float, spacing: float) -> np.ndarray:
    """Where MuJoCo divides a plane's side of length 2·half: every 2·spacing about the middle, and at the edges."""
    spacing = max(spacing, half / (GRID_LINES - 2))
    inner = int(half / spacing + 1e-6) // 2 * 2
    middle = (np.arange(inner + 1) - inner / 2) * 2 * spacing
    return np.unique(np.clip(np.concatenate([[-half], middle, [half]]), -half, half).round(7))


def _cell(lines: np.ndarray, where_: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cell between grid lines that a place lies in, and how far across it."""
    edges = lines.astype(np.float32)
    cell = np.clip(np.searchsorted(edges, where_, side="right") - 1, 0, len(lines) - 2)
    return cell, (where_ - edges[cell]) / (edges[cell + 1] - edges[cell])


def _on_plane(picture: np.ndarray, plane: Solid, point: Vector) -> Vector:
    """A picture that spans two units of length and is repeated from a corner on."""
    offset = subtract(point, plane.centre)
    s = 0.5 * (dot(offset, plane.axes[0]) + float(plane.size[0]))
    t = 0.5 * (float(plane.size[1]) - dot(offset, plane.axes[1]))
    height, width, _ = picture.shape
    return tuple(picture[np.floor((t % 1) * height).astype(int), np.floor((s % 1) * width).astype(int)].T)


def _sky(faces: np.ndarray, ray: Vector) -> Vector:
    """The cube around the scene, which MuJoCo turns so that up is z."""
    x, y, z = ray[0], ray[2], -ray[1]
    size = np.stack([np.abs(x), np.abs(y), np.abs(z)])
    axis = np.argmax(size, axis=0)
    positive = np.take_along_axis(np.stack([x, y, z]), axis[None], axis=0)[0] > 0
    across = np.stack([np.where(positive, -z, z), x, np.where(positive, x, -x)])
    down = np.stack([-y, np.where(positive, z, -z), -y])
    pick = lambda options: np.take_along_axis(options, axis[None], axis=0)[0] / np.max(size, axis=0)  # noqa: E731
    edge = faces.shape[1]
    s, t = (np.clip(((pick(o) + 1) / 2 * edge).astype(int), 0, edge - 1) for o in (across, down))
    return tuple(faces[(2 * axis + ~positive) * edge + t, s].T)
