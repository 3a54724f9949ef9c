"""How the Atari games' goal sets ship: python -m tests.atari_goals writes them again, and prints their digests."""

import json

from PIL import Image

from discern.envs.atari.goals import (
    COLUMNS,
    COUNT,
    DIGESTS,
    SEARCHED,
    SHIPPED,
    SIDE,
    digest,
    make_goals,
    steps_file,
    steps_to,
)
from discern.envs.base import Half


def ship(game: str, name: str, half: Half) -> str:
    """Writes half a goal set as one sheet of pictures with its measures beside it, and the fewest steps to its goals
    where a search knows them; returns its digest."""
    images, measures = make_goals(game, name, half)
    rows = COUNT // COLUMNS
    sheet = images.reshape((rows, COLUMNS, SIDE, SIDE, 3)).swapaxes(1, 2).reshape((rows * SIDE, COLUMNS * SIDE, 3))
    Image.fromarray(sheet).save(SHIPPED / f"{game}_{name}_{half}.png", optimize=True)
    file = SHIPPED / f"{game}_{name}_{half}"
    file.with_suffix(".json").write_text(json.dumps(measures.tolist()) + "\n")
    if (game, name) == (SEARCHED, "even"):
        steps_file(file).write_text(json.dumps(steps_to(measures).tolist()) + "\n")
    return digest(images, measures)


if __name__ == "__main__":
    for which in DIGESTS:
        game, name, half = which.split("/")
        print(which, ship(game, name, "tune" if half == "tune" else "test"))
