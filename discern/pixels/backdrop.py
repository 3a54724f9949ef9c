"""The part of a scene that never changes, painted once: floor, walls, sky, and what stands fixed between them.

Planes are lit at the corners of a coarse grid and interpolated in between, as OpenGL's fixed pipeline lights them.
"""

from typing import NamedTuple

import mujoco
import numpy as np

from discern.pixels.scene import Camera, Scene
from discern.pixels.shading import constant, shine, towards
from discern.pixels.shapes import MISS, PLANE, Array, Solid, Vector, add, blocks, dot, meet, normalise, scale, subtract, where

SAMPLES = 4  # along each side of a pixel
GRID_LINES = 200  # the most that MuJoCo divides a plane into


class Textures(NamedTuple):
    """Pictures on planes by drawn geom, and the sky's six faces."""

    planes: dict[int, np.ndarray]  # float32 [H, W, 3]
    repeat: dict[int, np.ndarray]  # float32 [2]
    sky: np.ndarray  # float32 [6, S, S, 3]


class Backdrop(NamedTuple):
    """What every pixel shows while nothing moves in front of it; P pixels, row by row."""

    base: np.ndarray  # float32 [3, P], without the lamp
    lamp: np.ndarray  # float32 [3, P], what the lamp adds where nothing shades it
    depth: np.ndarray  # float32 [P], distance from the ray's origin
    origin: np.ndarray  # float32 [3, P], on each pixel's ray, near what happens
    ray: np.ndarray  # float32 [3, P]


def read_textures(model: mujoco.MjModel, scene: Scene) -> Textures:
    """The model's pictures as numbers in [0, 1]."""
    planes, repeat, sky = {}, {}, np.zeros((6, 1, 1, 3), np.float32)
    role = mujoco.mjtTextureRole.mjTEXROLE_RGB
    for g, material in enumerate(scene.drawn.material):
        texture = model.mat_texid[material, role] if material >= 0 else -1
        if texture >= 0 and scene.drawn.kind[g] == PLANE:
            planes[g] = _picture(model, texture)
            repeat[g] = model.mat_texrepeat[material].astype(np.float32)
    for texture in range(model.ntex):
        if model.tex_type[texture] == mujoco.mjtTexture.mjTEXTURE_SKYBOX:
            picture = _picture(model, texture)
            sky = picture.reshape((6, -1, picture.shape[1], 3))
    return Textures(planes, repeat, sky)


def _picture(model: mujoco.MjModel, texture: int) -> np.ndarray:
    height, width, channels = (int(n[texture]) for n in (model.tex_height, model.tex_width, model.tex_nchannel))
    start = model.tex_adr[texture]
    data = model.tex_data[start : start + height * width * channels]
    return data.reshape((height, width, channels))[..., :3].astype(np.float32) / 255.0


def paint(scene: Scene, textures: Textures, side: int) -> Backdrop:
    """The backdrop at side × side pixels, averaged over SAMPLES² rays a pixel."""

    def sample(x: float, y: float) -> tuple[Vector, Vector, Array]:
        across, up, back = pixel_rays(scene.camera, side, x, y)
        return _look(scene, textures, constant(scene.camera.position), (across, up, back))

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
    rotation = scene.drawn.rotation[g]
    x, y, z = (constant(rotation[:, i]) for i in range(3))
    return Solid(int(scene.drawn.kind[g]), scene.drawn.size[g], constant(scene.drawn.position[g]), (x, y, z))


def _look(scene: Scene, textures: Textures, eye: Vector, ray: Vector) -> tuple[Vector, Vector, Array]:
    """Colours without and from the lamp, and the distance, along rays [R]; floors mirror what stands on them."""
    base, lamp, distance, mirror = _first(scene, textures, eye, eye, ray)
    still = _still(scene)
    mirrors = [g for g in still if scene.drawn.reflectance[g] > 0 and scene.drawn.kind[g] == PLANE]
    for g in mirrors[:1]:  # OpenGL's pipeline mirrors in the first one only
        plane, reflectance = solid(scene, g), float(scene.drawn.reflectance[g])
        point, normal = add(eye, scale(ray, distance)), plane.axes[2]
        back = subtract(ray, scale(normal, 2.0 * dot(ray, normal)))
        behind = subtract(eye, scale(normal, 2.0 * dot(subtract(eye, plane.centre), normal)))
        image, image_lamp, found, _ = _first(scene, textures, behind, point, back, g, reflectance)
        bright = add(image, image_lamp)
        seen = (mirror == g) & (found < MISS)
        base = where(seen, add(base, bright), base)
    sky = _sky(textures.sky, ray)
    nothing = distance >= MISS
    black = constant(np.zeros(3))
    return where(nothing, sky, base), where(nothing, black, lamp), distance


def _still(scene: Scene) -> list[int]:
    return [g for g in range(len(scene.drawn.kind)) if not scene.drawn.moves[g]]


def _first(
    scene: Scene, textures: Textures, eye: Vector, origin: Vector, ray: Vector, without: int = -1, dim: float = 1.0
) -> tuple[Vector, Vector, Array, Array]:
    """Colours without and from the lamp of the first thing that stands still, its distance and its number."""
    distance, which = np.full(ray[0].shape, MISS), np.full(ray[0].shape, -1)
    base = lamp = (np.zeros(ray[0].shape),) * 3
    still = [g for g in _still(scene) if g != without]
    for g in still:
        thing = solid(scene, g)
        length, normal = meet(thing, origin, ray)
        point = add(origin, scale(ray, length))
        own, lit = (
            _lit_plane(scene, g, eye, point, dim) if thing.kind == PLANE else _lit(scene, g, point, normal, ray, dim)
        )
        if g in textures.planes:
            picture = _on_plane(textures.planes[g], textures.repeat[g], thing, point)
            own, lit = ((a[0] * picture[0], a[1] * picture[1], a[2] * picture[2]) for a in (own, lit))
        nearer = length < distance
        distance, which = np.where(nearer, length, distance), np.where(nearer, g, which)
        base, lamp = where(nearer, own, base), where(nearer, lit, lamp)
    if without < 0:
        point = add(origin, scale(ray, distance))
        way, reach = towards(scene.lamp, point)
        for g in still:
            if scene.drawn.kind[g] != PLANE:
                dark = blocks(solid(scene, g), point, way, reach)
                lamp = scale(lamp, np.where(dark, 0.0, 1.0))
    return base, lamp, distance, which


def _lit(scene: Scene, g: int, point: Vector, normal: Vector, ray: Vector, dim: float) -> tuple[Vector, Vector]:
    colour, view = constant(scene.drawn.colour[g] * dim), scale(ray, -1.0)
    own, lit = (shine(scene, light, point, normal, view, colour) for light in (scene.headlight, scene.lamp))
    return own, lit


def _lit_plane(scene: Scene, g: int, eye: Vector, point: Vector, dim: float) -> tuple[Vector, Vector]:
    """Lit at the corners of the plane's grid, and linear on the two triangles of each of its cells."""
    plane = solid(scene, g)
    lines = [grid_lines(float(scene.drawn.size[g, i]), float(scene.drawn.size[g, 2])) for i in range(2)]
    xs, ys = (axis.astype(np.float32) for axis in np.meshgrid(*lines, indexing="ij"))
    corner = add(plane.centre, add(scale(plane.axes[0], xs), scale(plane.axes[1], ys)))
    way = subtract(corner, eye)
    at_corners = _lit(scene, g, corner, plane.axes[2], normalise(way), dim)
    offset = subtract(point, plane.centre)
    column, u = _cell(lines[0], dot(offset, plane.axes[0]))
    row, v = _cell(lines[1], dot(offset, plane.axes[1]))

    def between(values: Array) -> Array:
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


def _cell(lines: np.ndarray, where_: Array) -> tuple[Array, Array]:
    """The cell between grid lines that a place lies in, and how far across it."""
    edges = lines.astype(np.float32)
    cell = np.clip(np.searchsorted(edges, where_, side="right") - 1, 0, len(lines) - 2)
    return cell, (where_ - edges[cell]) / (edges[cell + 1] - edges[cell])


def _on_plane(picture: Array, repeat: Array, plane: Solid, point: Vector) -> Vector:
    """A picture laid out uniformly: it spans two units at one repetition, and starts at a corner."""
    offset = subtract(point, plane.centre)
    s = 0.5 * repeat[0] * (dot(offset, plane.axes[0]) + float(plane.size[0]))
    t = 0.5 * repeat[1] * (float(plane.size[1]) - dot(offset, plane.axes[1]))
    height, width, _ = picture.shape
    texel = picture[np.floor((t % 1) * height).astype(int), np.floor((s % 1) * width).astype(int)]
    return texel[..., 0], texel[..., 1], texel[..., 2]


def _sky(faces: Array, ray: Vector) -> Vector:
    """The cube around the scene, which MuJoCo turns so that up is z."""
    x, y, z = ray[0], ray[2], -ray[1]
    size = np.stack([np.abs(x), np.abs(y), np.abs(z)])
    axis = np.argmax(size, axis=0)
    positive = np.take_along_axis(np.stack([x, y, z]), axis[None], axis=0)[0] > 0
    across = np.stack([np.where(positive, -z, z), x, np.where(positive, x, -x)])
    down = np.stack([-y, np.where(positive, z, -z), -y])
    pick = lambda options: np.take_along_axis(options, axis[None], axis=0)[0] / np.max(size, axis=0)  # noqa: E731
    last = faces.shape[1] - 1
    s, t = (np.clip(((pick(o) + 1) / 2 * faces.shape[1]).astype(int), 0, last) for o in (across, down))
    texel = faces[2 * axis + np.where(positive, 0, 1), t, s]
    return texel[..., 0], texel[..., 1], texel[..., 2]
