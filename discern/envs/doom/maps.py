"""The worlds of the suite: what is scored in each, and the round room as a WAD, the file that Doom reads levels from.

The room is written in UDMF, the Universal Doom Map Format, which is text; the engine does the rest.
"""

import struct
from dataclasses import dataclass

import numpy as np

from discern.envs.base import Dimension

INRADIUS, HEIGHT = 512.0, 256
PLAYER_HALF = 16.0
INNER = INRADIUS - PLAYER_HALF - 1  # the engine moves players to whole units
PICTURES = (  # of Freedoom, one for each wall, clockwise from the x axis; none of them moves
    *("AQLITE07", "BRICK11", "PANBOOK", "AQLITE09", "CEMENT9", "AQLITE15", "MARBFACE", "GRAYPOIS"),
    *("AQLITE13", "PANBLUE", "COMPSTA1", "AQLITE11", "A-CAMO5", "AQTRIM07", "SKULWALL", "DOC1"),
)
ANGLE = Dimension("angle", 0.0, 360.0, wraps=True)


@dataclass(frozen=True)
class World:
    """One level; the player starts where the scenario says, or anywhere within `reach` of the middle."""

    dimensions: tuple[Dimension, ...]
    scenario: str | None = None  # a file of ViZDoom's own; None: the round room
    reach: float | None = None


WORLDS = {
    "watermaze": World((Dimension("x", -INRADIUS, INRADIUS), Dimension("y", -INRADIUS, INRADIUS), ANGLE), reach=INNER),
    "my_way_home": World(
        (Dimension("x", 160.0, 1120.0), Dimension("y", -704.0, 128.0), ANGLE), scenario="my_way_home.wad"
    ),
}


def room() -> bytes:
    """The round room: a polygon with a picture on each of its walls, under the sky."""
    count = len(PICTURES)
    angles = -2 * np.pi * (np.arange(count) - 0.5) / count  # clockwise, so that the walls' fronts are inside
    corners = INRADIUS / np.cos(np.pi / count) * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    player = {"x": 0.0, "y": 0.0, "angle": 0, "type": 1, "single": True, "skill3": True}
    sector = {"heightfloor": 0, "heightceiling": HEIGHT, "lightlevel": 220}
    blocks = [
        ("thing", player),
        *(("vertex", {"x": round(x, 3), "y": round(y, 3)}) for x, y in corners.tolist()),
        *(("linedef", {"v1": i, "v2": (i + 1) % count, "sidefront": i, "blocking": True}) for i in range(count)),
        *(("sidedef", {"sector": 0, "texturemiddle": picture} | TWICE_AS_LARGE) for picture in PICTURES),
        ("sector", sector | {"texturefloor": "FLAT5_4", "textureceiling": "F_SKY1"}),
    ]
    text = 'namespace="zdoom";\n' + "".join(_block(kind, fields) for kind, fields in blocks)
    return wad({"MAP01": b"", "TEXTMAP": text.encode(), "ENDMAP": b""})


TWICE_AS_LARGE = {"scalex_mid": 0.5, "scaley_mid": 0.5}


def _block(kind: str, fields: dict[str, float | str]) -> str:
    return kind + "{" + "".join(f"{name}={_value(value)};" for name, value in fields.items()) + "}\n"


def _value(value: float | str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def wad(lumps: dict[str, bytes]) -> bytes:
    """A PWAD: a header, the lumps one after the other, and a directory of where each lies, how long it is and its
    name."""
    head = struct.calcsize("<4sii")
    starts = head + np.cumsum([0, *map(len, lumps.values())])
    entries = [
        struct.pack("<ii8s", start, len(lump), name.encode())
        for start, (name, lump) in zip(starts.tolist(), lumps.items(), strict=False)
    ]
    return b"".join([struct.pack("<4sii", b"PWAD", len(lumps), starts[-1]), *lumps.values(), *entries])
