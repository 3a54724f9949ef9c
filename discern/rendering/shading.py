"""How bright a surface is: ambient, diffuse and specular light as OpenGL's fixed pipeline adds them up."""

import numpy as np

from discern.rendering.scene import Light, Scene
from discern.rendering.shapes import MISS, Array, Vector, add, dot, library, normalise, scale, subtract


def constant(vector: np.ndarray) -> Vector:
    """Three numbers that broadcast against anything."""
    return tuple(np.asarray(vector, float).tolist())


def towards(light: Light, point: Vector) -> tuple[Vector, Array | float]:
    """The direction from a point to a light, and how far away it is."""
    if light.directional:
        return scale(constant(light.direction), -1.0), MISS
    way = subtract(constant(light.position), point)
    square = dot(way, way)
    distance = library(square).sqrt(square)
    return scale(way, 1.0 / distance), distance


def shine(scene: Scene, light: Light, point: Vector, normal: Vector, view: Vector, colour: Vector) -> Vector:
    """The light that one lamp throws from a surface to the eye, each channel in [0, 1]; `view` leads to the eye."""
    xp = library(*point, *normal, *view)
    way, _ = towards(light, point)
    facing = xp.maximum(dot(normal, way), 0.0)
    strength = _cone(light, way)
    gloss = xp.clip(dot(normal, normalise(add(way, view))), 0.0, 1.0)
    gloss = xp.where(facing > 0, gloss ** round(scene.shininess), 0.0) * scene.specular * strength
    red, green, blue = (
        xp.clip(colour[c] * (light.ambient[c] + light.diffuse[c] * facing * strength) + light.specular[c] * gloss, 0, 1)
        for c in range(3)
    )
    return red, green, blue


def _cone(light: Light, way: Vector) -> Array | float:
    if light.directional:
        return 1.0
    along = -dot(way, constant(light.direction))
    return library(along).where(along > light.cutoff, along ** round(light.exponent), 0.0)
