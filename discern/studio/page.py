"""The studio's page, on Gradio: the tabs together, and the server they are served by."""

import hmac
import ipaddress
import os
import secrets
import signal
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gradio as gr

from discern.envs import make_scored_env, opened
from discern.studio.goals_page import GoalsAnswers, goals_tab
from discern.studio.play_page import PlayAnswers, play_tab
from discern.studio.playing import Plays
from discern.studio.running import Read, Runs
from discern.studio.runs_page import RunsAnswers, gallery_tab, training_tab
from discern.studio.uploads import MAX_BYTES
from discern.studio.watching import Library
from discern.types import UserError

HERE = Path(__file__).parent
HEADER = "<header><h1>discern <em>studio</em></h1><p>Choose a picture; watch the agent bring it about.</p></header>"
LOOPBACK = "127.0.0.1"
ENTRY = "Any name will do; the password was said where the studio was started."
SHORTEST = 8  # letters of a password
LOOK_AFTER_SECONDS = 20.0
WORLDS = ["arena", "arena/84", "watermaze", "atari/seaquest", "control/reacher-hard"]


def open_page(
    read: Read,
    named: Path | None,
    port: int,
    host: str = LOOPBACK,
    password: str | None = None,
    world: str | None = None,
) -> None:
    """Serves the page until it is interrupted, on this machine's own address unless there is a password to enter.

    `read` parses a command line; `world` is what to play first, for which no agent is needed.
    """
    if not 1 <= port <= 65535:
        raise UserError(f"there is no port {port}: choose one from 1 to 65535")
    password = password_for(host, password)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # runs that the page starts need memory too
    library = Library(named)
    if world is not None:
        with opened(make_scored_env(world)):  # what cannot be made or loaded is said before the page opens
            pass
    elif library.agents():
        library.watch(library.agents()[0])
    with (
        tempfile.TemporaryDirectory(prefix="discern-films-") as films,
        closing(Runs(read, world)) as runs,
        closing(Plays()) as plays,
        closing(library),
    ):
        page = build(library, runs, plays, Path(films), world).queue(default_concurrency_limit=8)
        _look_after(plays.close_idle, library.close_idle)
        _serve(page, host, port, password)


def password_for(host: str, password: str | None) -> str | None:
    """What must be entered: what was chosen, something random where others could come in, else nothing."""
    if password is not None and len(password) < SHORTEST:
        raise UserError(f"--password needs at least {SHORTEST} letters")
    return password or (None if is_loopback(host) else secrets.token_urlsafe(12))


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _serve(page: gr.Blocks, host: str, port: int, password: str | None) -> None:
    launch(page, host, port, password)
    entry = "" if password is None else f", password {password}"
    print(f"the studio is open at http://{host}:{port}{entry} (Ctrl-C closes it)", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # runs are saved and worlds closed then too
    page.block_thread()


def launch(page: gr.Blocks, host: str, port: int, password: str | None) -> None:
    """Opens the page at an address, behind a password where there is one, and returns."""
    theme = gr.themes.Base(primary_hue="amber", neutral_hue="slate", font=gr.themes.Font("system-ui"))
    look: dict[str, Any] = {"css_paths": HERE / "style.css", "theme": theme, "footer_links": [], "ssr_mode": False}
    look["js"] = "() => document.body.classList.add('dark')"
    where: dict[str, Any] = {"server_name": host, "server_port": port, "share": False}
    if password is not None:
        where |= {"auth": lambda _, entered: hmac.compare_digest(entered.encode(), password.encode())}
        where["auth_message"] = ENTRY
    try:
        page.launch(prevent_thread_lock=True, quiet=True, max_file_size=MAX_BYTES, **where, **look)
    except OSError:
        other = "" if host == LOOPBACK else f", or another --host of this machine than {host}"
        raise UserError(f"port {port} is taken: choose another with --port{other}") from None


def _look_after(*tasks: Callable[[], None]) -> None:
    """Does what has to be done every so often, for as long as the studio is open."""

    def work() -> None:
        while True:
            threading.Event().wait(LOOK_AFTER_SECONDS)
            for task in tasks:
                task()

    threading.Thread(target=work, daemon=True, name="studio housekeeping").start()


def build(library: Library, runs: Runs, plays: Plays, films: Path, world: str | None) -> gr.Blocks:
    """The whole page."""
    goals_of, training_of = GoalsAnswers(library, films), RunsAnswers(library, runs, WORLDS)
    first = next((name for name in library.agents() if world in (None, library.world_of(name))), None)
    known = [library.world_of(first)] if first and world is None else []
    playing_of = PlayAnswers(library, plays, lambda: list(dict.fromkeys([*known, *training_of.worlds()])), world)
    with gr.Blocks(title="discern studio", analytics_enabled=False, delete_cache=(600, 600), fill_width=True) as page:
        with gr.Row(elem_id="top"):
            gr.HTML(HEADER)
            with gr.Column(scale=0, min_width=320):
                agent = gr.Dropdown(library.agents(), value=first, label="agent", elem_id="agent")
        with gr.Tabs(selected="play" if world else "goals", overflow_behavior="wrap") as tabs:
            with gr.Tab("Goals", id="goals") as goals:
                shared = goals_tab(goals_of, page, agent, goals)
            with gr.Tab("Play", id="play") as play:
                play_tab(playing_of, play, tabs, agent, shared)
            with gr.Tab("Training", id="training") as training:
                run = training_tab(training_of, training, tabs)
            with gr.Tab("Runs", id="runs") as every:
                gallery_tab(training_of, every, tabs, run)
        agent.focus(lambda: gr.Dropdown(choices=library.agents()), None, agent, show_progress="hidden")

        def leave(request: gr.Request) -> None:
            plays.leave(request.session_hash or "")
            goals_of.forget(request)

        page.unload(leave)
    return page
