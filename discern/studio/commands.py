"""The commands that open the studio's page, without what the page needs."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from discern.checks import Range
from discern.machine import require

Port = Annotated[int, Range("lie between 1 and 65535", lambda x: 1 <= x <= 65535)]


@dataclass(frozen=True)
class Page:
    """Where the page is served, and to whom."""

    port: Port = 7860
    host: str = "127.0.0.1"
    """The address to serve at; any but this machine's own asks for a password."""
    password: str | None = None
    """What visitors must enter; None: nothing on this machine's own address, else something random that is printed."""


@dataclass(frozen=True)
class Studio(Page):
    """Open a page to watch agents reach goals, play their worlds, and start and follow runs."""

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")] = None
    """The agent to begin with; by default the first of agents/ and runs/."""


@dataclass(frozen=True)
class Play(Page):
    """Play a world on the studio's page, with or without an agent, and make goals of what is seen."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")] = "arena"


def open_studio(read: Callable[[list[str]], Any], wanted: Studio | Play) -> None:
    """Opens the page; `read` parses the command lines of runs that are started there."""
    require("studio", "the studio")
    from discern.studio.page import open_page

    run, world = (wanted.run, None) if isinstance(wanted, Studio) else (None, wanted.env)
    open_page(read, run, wanted.port, wanted.host, wanted.password, world)
