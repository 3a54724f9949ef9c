"""What a run shows while it trains: a picture on a terminal, today's plain lines everywhere else."""

import io
import os
import pty
import subprocess
import sys
import termios
import time

import pytest
from rich.console import Console

from discern.training import live
from discern.training.live import View, braille, clock
from tests.conftest import PLAYS_LITTLE
from tests.test_train import FLAGS

ROW = {
    "steps": 320_000,
    "updates": 2_000,
    "seconds": 61.0,
    "budget_spent": 0.5,
    "seconds_left": 97.0,
    "steps_per_second": 9_876.5,
    "teacher_accuracy": 0.875,
    "success": 0.9625,
    "random": 0.034,
    "parameter_lag": 4,
}
PLAIN = (
    "steps 320,000  updates 2,000  steps_per_second 9,876  teacher_accuracy 88%  success 96.2%  random 3.4%  "
    "seconds 61  seconds_left 97\n"
)

ON_ITS_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # whose keys are signals
from discern.cli import main
main()
"""


def terminal(**more) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, height=40, **more)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def seen(view: View) -> str:
    """The picture as it stands, without its colours."""
    console = Console(file=io.StringIO(), width=100, height=40)
    console.print(view.picture())
    return printed(console)


def test_a_curve_in_braille():
    """Four columns of dots, four rows: the diagonal has a dot a column, 0x40 and 0x20, then 0x02 and 0x08."""
    assert braille([(0, 0), (1, 1)], 2, 1) == ["\u2860\u280a"]
    assert braille([(0, 1), (0.5, 1), (0.5001, 0), (1, 0)], 2, 1) == ["\u2809\u28c6"]  # a fall without a gap
    assert braille([(0.0, 0.0)], 2, 2) == ["\u2800\u2800", "\u2840\u2800"]  # a point alone
    assert braille([(0.5, 2.0), (1, -1)], 1, 1) == ["\u28b1"]  # inside the chart, whatever is asked


def test_clocks():
    assert [clock(seconds) for seconds in (0, 97.4, 3599.6, 7325)] == ["0:00", "1:37", "1:00:00", "2:02:05"]


def test_a_terminal_sees_the_curve_and_the_numbers():
    with View(terminal()) as view:
        assert view.is_live
        view.show(ROW | {"steps": 1_000, "success": 0.034})
        view.show(ROW)
        with view.phases("scoring"):
            text = seen(view)
    for part in ("96.2%, 3.4% by random play", "88% of goals told from decoys", "9,876 a second", "50%, 1:37 left"):
        assert part in text
    assert "scoring 0 s" in text and "640,000 steps" in text
    lines = text.splitlines()
    assert lines[0].startswith("100 % ┤") and lines[5].startswith("  0 % ┤")
    assert lines[0][7 + 23] != "\u2800" and lines[0][7 + 25 :].strip("\u2800 ") == ""  # half of the budget
    assert "waiting for" not in seen(view)


def test_where_there_is_no_success_rate_a_terminal_sees_goals_told_apart():
    unscored = {name: value for name, value in ROW.items() if name not in ("success", "random")}
    view = View(terminal())
    for steps, share in ((1_000, 0.05), (320_000, 0.25)):
        view.show(unscored | {"steps": steps, "told_apart": share, "told_apart_random": 0.03})
    text = seen(view)
    assert "25.0%, 3.0% by random play" in text and "goals told apart, to 640,000 steps" in text
    assert len(view.curve) == 2 and "goals reached" not in text


def test_a_low_terminal_has_no_chart():
    view = View(Console(file=io.StringIO(), force_terminal=True, width=100, height=12))
    view.show(ROW)
    assert "┤" not in seen(view) and "96.2%" in seen(view)


def test_a_terminal_is_told_what_to_do_next(tmp_path):
    view = View(terminal())
    view.next_steps(tmp_path / "run")
    text = "".join(printed(view.console).split("\x1b[1m")).replace("\x1b[0m", "")
    assert f"discern studio {tmp_path}/run  #" in text and f"discern record {tmp_path}/run --out" in text
    assert f"discern evaluate {tmp_path}/run" in text


@pytest.mark.parametrize("kind", ["pipe", "no colour", "dumb", "ascii"])
def test_elsewhere_lines_are_plain(monkeypatch, tmp_path, kind):
    monkeypatch.delenv("NO_COLOR", raising=False)
    if kind == "pipe":
        console = Console(file=io.StringIO())
    elif kind == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
        console = terminal()
    elif kind == "dumb":
        console = terminal(_environ={"TERM": "dumb"})
    else:
        file = io.TextIOWrapper(io.BytesIO(), "ascii")
        console = Console(file=file, force_terminal=True)
    with View(console) as view:
        assert not view.is_live
        view.show(ROW)
        view.next_steps(tmp_path)
    if kind == "ascii":
        file.seek(0)
        assert file.read() == PLAIN
    else:
        assert printed(console) == PLAIN


def test_a_long_wait_is_said_once_in_a_while_until_there_are_numbers(monkeypatch):
    monkeypatch.setattr(live, "PATIENCE", 0.05)
    console = Console(file=io.StringIO())
    with View(console) as view:
        with view.phases("compiling the update"), view.phases("random play"):
            deadline = time.monotonic() + 20
            while not printed(console) and time.monotonic() < deadline:
                time.sleep(0.01)
        assert printed(console).startswith("compiling the update 0 s, random play 0 s so far\n")
        view.show(ROW)
        time.sleep(0.1)
        lines = printed(console)
        with view.phases("scoring"):
            time.sleep(0.2)
        assert printed(console) == lines and lines.endswith(PLAIN)


def test_an_error_leaves_the_terminal_as_it_was():
    console = terminal()
    with pytest.raises(ZeroDivisionError), View(console) as view, view.phases("making environments"):
        raise ZeroDivisionError
    assert printed(console).rindex("\x1b[?25h") > printed(console).rindex("\x1b[?25l")
    assert not view.phases.running


def test_ctrl_c_on_a_real_terminal(tmp_path):
    """`discern train` on a pseudo-terminal shows its chart, heeds the key, saves, and gives the terminal back."""
    terminal, inside = pty.openpty()
    words = [
        "train",
        *FLAGS.replace("evaluate-every None", "evaluate-every 500").split(),
        "--run",
        str(tmp_path / "run"),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    child = subprocess.Popen(
        [sys.executable, "-c", PLAYS_LITTLE + ON_ITS_TERMINAL, *words],
        env=environment | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"},
        stdin=inside,
        stdout=inside,
        stderr=inside,
        start_new_session=True,
    )
    os.close(inside)
    before, seen, asked = termios.tcgetattr(terminal), b"", False
    while True:
        try:
            some = os.read(terminal, 4096)
        except OSError:  # nobody is at the other end any more
            break
        seen += some
        if not asked and b"goals reached, to" in seen:
            asked = bool(os.write(terminal, b"\x03"))
    text = seen.decode()
    assert asked, text
    assert child.wait(60) == 130, text
    assert "stopped and saved; go on with: discern train --resume" in " ".join(text.split())
    assert "random play, which fills the goal buffer" in text and "┤" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert termios.tcgetattr(terminal) == before
    os.close(terminal)
