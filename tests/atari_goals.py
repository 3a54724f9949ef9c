"""How the Atari games' goal sets ship: python -m tests.atari_goals writes them again, and prints their digests."""

import json

from PIL import Image

from discern.envs.atari.goals import COLUMNS, COUNT, DIGESTS, SHIPPED, SIDE, digest, make_goals


def ship(game: str, name: str) -> str:
    """Writes a goal set as one sheet of pictures with its measures beside it, and returns its digest."""
    images, measures = make_goals(game, name)
    rows = COUNT // COLUMNS
    sheet = images.reshape((rows, COLUMNS, SIDE, SIDE, 3)).swapaxes(1, 2).reshape((rows * SIDE, COLUMNS * SIDE, 3))
    Image.fromarray(sheet).save(SHIPPED / f"{game}_{name}.png", optimize=True)
    (SHIPPED / f"{game}_{name}.json").write_text(json.dumps(measures.tolist()) + "\n")
    return digest(images, measures)


if __name__ == "__main__":
    for which in DIGESTS:
        print(which, ship(*which.split("/")))
