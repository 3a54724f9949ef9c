"""Rays against solids by hand, and whole pictures against dm_control's own OpenGL."""

import jax.numpy as jnp
import numpy as np
import pytest

from discern.rendering.backdrop import grid_lines
from discern.rendering.shapes import BOX, CAPSULE, CYLINDER, ELLIPSOID, MISS, PLANE, SPHERE, Solid, blocks, meet
from discern.rendering.strings import hang
from tests.needs import skip_for_lack_of
from tests.opengl import NAMES, SHIPPED_STATES, Reference, compare, draw_with_opengl, shipped

UPRIGHT = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
LYING = ((0.0, 0.0, -1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))  # its own z points along the world's x


def vector(*components: float):
    return tuple(np.full(1, c, np.float32) for c in components)


def solid(kind: int, size: tuple, centre=(0.0, 0.0, 0.0), axes=UPRIGHT) -> Solid:
    return Solid(kind, np.array(size, np.float32), centre, axes)


RAYS = [
    # a solid, a ray's origin and direction, distance, normal
    (solid(SPHERE, (1, 0, 0)), (0, -3, 0), (0, 1, 0), 2.0, (0, -1, 0)),
    (solid(SPHERE, (1, 0, 0)), (0.6, -3, 0), (0, 1, 0), 2.2, (0.6, -0.8, 0)),
    (solid(SPHERE, (1, 0, 0)), (1.1, -3, 0), (0, 1, 0), None, None),
    (solid(CAPSULE, (1, 2, 0)), (0, -3, 1.5), (0, 1, 0), 2.0, (0, -1, 0)),
    (solid(CAPSULE, (1, 2, 0)), (0, -3, 2.6), (0, 1, 0), 2.2, (0, -0.8, 0.6)),
    (solid(CAPSULE, (1, 2, 0)), (0, 0, 5), (0, 0, -1), 2.0, (0, 0, 1)),
    (solid(CAPSULE, (1, 2, 0)), (0, -3, 3.1), (0, 1, 0), None, None),
    (solid(CAPSULE, (1, 2, 0), axes=LYING), (2.6, -3, 0), (0, 1, 0), 2.2, (0.6, -0.8, 0)),
    (solid(CYLINDER, (1, 2, 0)), (0.6, -3, 1.9), (0, 1, 0), 2.2, (0.6, -0.8, 0)),
    (solid(CYLINDER, (1, 2, 0)), (0, -3, 2.1), (0, 1, 0), None, None),
    (solid(CYLINDER, (1, 2, 0)), (0.5, 0.5, 5), (0, 0, -1), 3.0, (0, 0, 1)),
    (solid(CYLINDER, (1, 2, 0)), (0, -1.5, 2.5), (0, 0.6, -0.8), 0.5 / 0.6, (0, -1, 0)),
    (solid(CYLINDER, (1, 2, 0)), (0, -1.2, 2.8), (0, 0.6, -0.8), 1.0, (0, 0, 1)),
    (solid(ELLIPSOID, (1, 2, 3)), (0, -5, 0), (0, 1, 0), 3.0, (0, -1, 0)),
    (solid(ELLIPSOID, (1, 2, 3)), (0, 0, 7), (0, 0, -1), 4.0, (0, 0, 1)),
    (solid(BOX, (1, 2, 3)), (0.5, -5, 2.9), (0, 1, 0), 3.0, (0, -1, 0)),
    (solid(BOX, (1, 2, 3), axes=LYING), (2.9, 0, 5), (0, 0, -1), 4.0, (0, 0, 1)),
    (solid(BOX, (1, 2, 3)), (1.1, -5, 0), (0, 1, 0), None, None),
    (solid(PLANE, (1, 1, 0)), (0.5, 0.5, 2), (0, 0, -1), 2.0, (0, 0, 1)),
    (solid(PLANE, (1, 1, 0)), (1.5, 0.5, 2), (0, 0, -1), None, None),
    (solid(PLANE, (1, 1, 0)), (0.5, 0.5, -2), (0, 0, 1), None, None),
]


@pytest.mark.parametrize("library", [np.asarray, jnp.asarray])
@pytest.mark.parametrize(("thing", "origin", "ray", "distance", "normal"), RAYS)
def test_a_ray_meets_a_solid(library, thing, origin, ray, distance, normal):
    start, way = (tuple(library(c) for c in vector(*v)) for v in (origin, ray))
    found, outward = meet(thing, start, way)
    if distance is None:
        assert found[0] == np.float32(MISS)
    else:
        np.testing.assert_allclose(found[0], distance, atol=1e-5)
        np.testing.assert_allclose([np.broadcast_to(c, 1)[0] for c in outward], normal, atol=1e-5)


@pytest.mark.parametrize("kind", [SPHERE, CAPSULE, CYLINDER, ELLIPSOID, BOX])
def test_a_solid_shades_what_lies_behind_it(kind):
    thing = solid(kind, (1, 1, 1))
    up = vector(0, 0, 1)
    assert blocks(thing, vector(0.5, 0, -3), up, MISS)[0]
    assert not blocks(thing, vector(1.5, 0, -3), up, MISS)[0]
    assert not blocks(thing, vector(0.5, 0, -3), up, 0.5)[0], "the lamp stands before the solid"
    assert not blocks(thing, vector(0.5, 0, 3), up, MISS)[0], "the solid is below"


def test_a_round_solid_does_not_shade_its_own_lit_side():
    for angle in np.linspace(0.05, np.pi / 2, 20):
        spot = vector(0, np.cos(angle), np.sin(angle))
        assert not blocks(solid(SPHERE, (1, 0, 0)), spot, vector(0, 0, 1), MISS)[0]
        assert not blocks(solid(CAPSULE, (1, 2, 0), axes=LYING), spot, vector(0, 0, 1), MISS)[0]


def test_planes_are_divided_as_mujoco_divides_them():
    np.testing.assert_allclose(grid_lines(0.3, 0.1), [-0.3, -0.2, 0.0, 0.2, 0.3])
    np.testing.assert_allclose(grid_lines(0.3, 10), [-0.3, 0.0, 0.3])
    np.testing.assert_allclose(grid_lines(2, 0.2), np.linspace(-2, 2, 11))


def test_a_string_keeps_its_length_and_hangs():
    start = jnp.array([[0.0, 0.0], [0.0, 0.0], [0.1, 0.0], [0.0, 0.0]])
    end = jnp.array([[0.2, 0.1], [0.0, -0.1], [-0.1, 0.05], [0.3, 0.3]])
    x, z = hang(start, end, 0.3)
    length = np.hypot(np.diff(x), np.diff(z)).sum(1)
    np.testing.assert_allclose(length[[0, 2]], 0.3, rtol=0.01)
    np.testing.assert_allclose(length[1], 0.3, rtol=0.1)  # a hairpin, whose bend is finer than its pieces
    np.testing.assert_allclose(np.stack([x[:, -1], z[:, -1]], 1), end, atol=2e-3)
    assert (np.min(z, 1)[:3] < np.minimum(start[:, 1], end[:, 1])[:3] - 0.04).all()
    np.testing.assert_allclose(z[3], x[3], atol=1e-6)  # too short: it is pulled straight


def check(name: str, theirs: Reference) -> None:
    """Mean difference at most 8 of 255, and the outlines of what moves agree."""
    found = compare(name, theirs)
    assert found.ours.shape == theirs.images.shape == (len(theirs.images), 84, 84, 3)
    assert found.ours.dtype == np.uint8
    assert found.difference.mean() <= 8
    assert found.overlap >= 0.9


@pytest.mark.parametrize("name", NAMES)
def test_pictures_equal_those_that_opengl_drew(name):
    """They ship, so that every machine compares."""
    theirs = shipped(name)
    assert len(theirs.images) == SHIPPED_STATES
    check(name, theirs)


@pytest.mark.parametrize("name", NAMES)
def test_pictures_equal_opengl(name):
    """Over 50 random states, where there is OpenGL; the pictures that ship are the first of them."""
    theirs = draw_with_opengl(name, 50)
    if theirs is None:
        skip_for_lack_of("OpenGL")
    check(name, theirs)
    before = shipped(name)
    assert np.abs(theirs.images[:SHIPPED_STATES].astype(int) - before.images).mean() < 2
    np.testing.assert_allclose(theirs.poses.position[:SHIPPED_STATES], before.poses.position, atol=1e-3)
