"""What a MuJoCo model shows to a fixed camera: read once on the host, without OpenGL.

MuJoCo's own abstract visualiser says what is drawn, in which colour and under which lights.
"""

from typing import NamedTuple

import mujoco
import numpy as np

from discern.rendering.shapes import CAPSULE, CYLINDER, KINDS


class Drawn(NamedTuple):
    """What is drawn, G of it: geoms, then sites, each in the model's order."""

    kind: np.ndarray  # int [G]
    size: np.ndarray  # float32 [G, 3]: radius and half length, half axes or half edges
    colour: np.ndarray  # float32 [G, 3]
    material: np.ndarray  # int [G], -1: none
    is_site: np.ndarray  # bool [G]
    number: np.ndarray  # int [G], which geom or site of the model
    moves: np.ndarray  # bool [G]
    position: np.ndarray  # float32 [G, 3]
    rotation: np.ndarray  # float32 [G, 3, 3]


class Light(NamedTuple):
    """One lamp; a directional one shines everywhere alike."""

    directional: bool
    position: np.ndarray  # float32 [3]
    direction: np.ndarray  # float32 [3]
    ambient: np.ndarray  # float32 [3]
    diffuse: np.ndarray  # float32 [3]
    specular: np.ndarray  # float32 [3]
    cutoff: float  # cosine of the half angle of the cone
    exponent: float


class Camera(NamedTuple):
    position: np.ndarray  # float32 [3]
    rotation: np.ndarray  # float32 [3, 3], columns: right, up, back
    fovy: float  # radians


class String(NamedTuple):
    """A tendon between two sites that hangs where it is longer than their distance."""

    ends: tuple[int, int]  # sites
    depth: float  # y of the plane that it hangs in
    length: float
    radius: float
    slack: np.ndarray  # float32 [3], its colour while it hangs
    taut: np.ndarray  # float32 [3], and while it pulls


class Scene(NamedTuple):
    drawn: Drawn
    headlight: Light
    lamp: Light
    camera: Camera
    string: String | None
    centre: np.ndarray  # float32 [3], about where things happen
    specular: float  # how glossy everything is: the suite knows one gloss
    shininess: float


def read_scene(model: mujoco.MjModel, data: mujoco.MjData, placed: tuple[str, ...] = (), camera: int = 0) -> Scene:
    """The scene around a forwarded state; `placed` names geoms of the world that the task puts somewhere else."""
    if model.cam_mode[camera] != mujoco.mjtCamLight.mjCAMLIGHT_FIXED or model.cam_bodyid[camera] != 0:
        raise ValueError("the ray caster needs a camera that stands still")
    view = mujoco.MjvScene(model, maxgeom=1000)
    fixed = mujoco.MjvCamera()
    fixed.type, fixed.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, camera
    mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, fixed, mujoco.mjtCatBit.mjCAT_ALL, view)
    geoms = [view.geoms[i] for i in range(view.ngeom)]
    solids = [g for g in geoms if g.objtype in (mujoco.mjtObj.mjOBJ_GEOM, mujoco.mjtObj.mjOBJ_SITE)]
    shown = sorted((g for g in solids if g.type in KINDS and g.rgba[3] > 0), key=lambda g: (g.objtype, g.objid))
    lights = [_light(view.lights[i]) for i in range(view.nlight)]
    if len(lights) != 2:
        raise ValueError("the ray caster knows scenes of a headlight and one lamp")
    position, rotation = (np.array(pose[camera], np.float32) for pose in (data.cam_xpos, data.cam_xmat))
    return Scene(
        drawn=_drawn(model, shown, placed),
        headlight=lights[0],
        lamp=lights[1],
        camera=Camera(position, rotation.reshape((3, 3)), float(np.deg2rad(model.cam_fovy[camera]))),
        string=_string(model, data),
        centre=np.asarray(model.stat.center, np.float32),
        specular=float(shown[0].specular),
        shininess=128.0 * float(shown[0].shininess),
    )


def _drawn(model: mujoco.MjModel, shown: list, placed: tuple[str, ...]) -> Drawn:
    is_site = np.array([g.objtype == mujoco.mjtObj.mjOBJ_SITE for g in shown])
    number = np.array([g.objid for g in shown])
    bodies = [(model.site_bodyid if site else model.geom_bodyid)[i] for i, site in zip(number, is_site, strict=True)]
    kind, size = np.array([g.type for g in shown]), np.array([g.size for g in shown], np.float32)
    size[np.isin(kind, (CAPSULE, CYLINDER)), 1:] = size[np.isin(kind, (CAPSULE, CYLINDER)), 2:]  # was (r, r, half)
    by_task = np.isin(number, [model.geom(name).id for name in placed]) & ~is_site
    return Drawn(
        kind=kind,
        size=size,
        colour=np.array([g.rgba[:3] for g in shown], np.float32),
        material=np.array([g.matid for g in shown]),
        is_site=is_site,
        number=number,
        moves=(model.body_weldid[bodies] != 0) | by_task,
        position=np.array([g.pos for g in shown], np.float32),
        rotation=np.array([g.mat for g in shown], np.float32).reshape((-1, 3, 3)),
    )


def _light(light: mujoco.MjvLight) -> Light:
    directional = light.type == mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    vectors = (light.pos, light.dir, light.ambient, light.diffuse, light.specular)
    position, direction, ambient, diffuse, specular = (np.array(vector, np.float32) for vector in vectors)
    cutoff = -2.0 if directional else float(np.cos(np.deg2rad(light.cutoff)))
    return Light(directional, position, direction, ambient, diffuse, specular, cutoff, float(light.exponent))


def _string(model: mujoco.MjModel, data: mujoco.MjData) -> String | None:
    """The first tendon that joins two sites and whose length is limited."""
    for i in range(model.ntendon):
        path = slice(model.tendon_adr[i], model.tendon_adr[i] + model.tendon_num[i])
        if list(model.wrap_type[path]) == [mujoco.mjtWrap.mjWRAP_SITE] * 2 and model.tendon_limited[i]:
            first, last = (int(site) for site in model.wrap_objid[path])
            return String(
                ends=(first, last),
                depth=float(data.site_xpos[first, 1]),
                length=float(model.tendon_range[i, 1]),
                radius=float(model.tendon_width[i]),
                slack=model.tendon_rgba[i, :3].astype(np.float32),
                taut=np.array(model.vis.rgba.constraint[:3], np.float32),
            )
    return None
