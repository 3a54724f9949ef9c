"""The studio in a real browser, beside the agents that ship. Its screenshots are kept in screenshots/."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Error, Page, expect, sync_playwright

import discern
from discern.config import flag, to_json
from discern.storage.checkpoint import list_checkpoints
from tests.conftest import TINY
from tests.needs import skip_for_lack_of
from tests.test_studio import bad_uploads, without_ends

ROOT = Path(__file__).parent.parent
SCREENSHOTS = ROOT / "screenshots"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LONG = 60_000  # milliseconds to wait for anything; a busy machine compiles slowly
expect.set_options(timeout=LONG)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The address of a studio on the shipped agents, the folder it was started in, and its process."""
    folder = tmp_path_factory.mktemp("studio")
    (folder / "agents").symlink_to(ROOT / "agents")
    without_ends(discern.load(ROOT / "agents" / "arena"), folder / "runs" / "whole")
    port = free_port()
    command = [sys.executable, "-c", "from discern.cli import main; main()", "studio", "agents/arena"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert f"http://127.0.0.1:{port}" in said, said
        yield f"http://127.0.0.1:{port}", folder, process.pid
        process.terminate()


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, BROWSERS)), playwright.chromium.executable_path)
        if not Path(path).exists():
            skip_for_lack_of("browser (apt-get install chromium)")
        try:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            skip_for_lack_of(f"browser that starts ({str(error).splitlines()[0]})")
        yield browser
        browser.close()


@pytest.fixture
def visitor(browser, studio):
    """Opens the page as another visitor, each with cookies and a session of its own."""
    contexts = []

    def visit(width: int = 1440, height: int = 1000) -> Page:
        contexts.append(browser.new_context(viewport={"width": width, "height": height}))
        contexts[-1].set_default_timeout(LONG)
        page = contexts[-1].new_page()
        page.goto(studio[0])
        page.wait_for_selector(".stage")
        return page

    yield visit
    for context in contexts:
        context.close()


def keep(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def choose(page: Page, index: int) -> None:
    page.locator(f"[id='goal set'] [data-index='{index}']").click()
    expect(page.locator(".stage")).to_contain_text(f"no. {index + 1} of the set")


def wait_for_step(page: Page, least: int) -> None:
    page.wait_for_function(f"document.querySelector('.stage')?.dataset.step >= {least}")


def watch(page: Page, last: int) -> list[tuple[int, str, int]]:
    """(step, world's picture, points of the reward's curve) as they came by, until the last step."""
    seen: dict[int, tuple[int, str, int]] = {}
    look = """() => { const stage = document.querySelector('.stage'), curve = stage.querySelector('polyline');
      return [Number(stage.dataset.step), stage.querySelector('[alt=world]').src, curve.points.length] }"""
    wait_for_step(page, 1)
    while last not in seen:
        step, picture, points = page.evaluate(look)
        seen[step] = (step, picture, points)
        page.wait_for_timeout(30)
    return list(seen.values())


def test_a_goal_is_chosen_and_reached_live(visitor):
    page = visitor()
    keep(page, "1-opened")
    choose(page, 37)
    page.locator("#start").click()
    seen = watch(page, last=20)
    assert len(seen) >= 6
    assert len({picture for _, picture, _ in seen}) >= 5
    assert all(points == step + 1 for step, _, points in seen)
    expect(page.locator(".bars div")).to_have_count(5)
    expect(page.locator(".stage .hit, .stage .miss")).to_have_count(2)
    keep(page, "2-pursued")
    page.get_by_role("tab", name="Achieved").click()
    page.locator("#achieved [data-index='0']").click()
    expect(page.locator(".stage")).to_contain_text("where attempt 1 ended")


def test_an_agent_trained_with_ends_is_given_a_number_of_steps(visitor):
    page = visitor()
    number = page.get_by_label("number input for steps")
    expect(number).to_have_value("20")
    page.locator("#agent input").click()
    page.get_by_role("option", name="runs/whole").click()
    expect(number).to_have_count(0)
    page.locator("#agent input").click()
    page.get_by_role("option", name="agents/arena", exact=True).click()
    number.fill("6")
    number.press("Enter")
    page.locator("#start").click()
    watch(page, last=6)
    expect(page.locator(".stage")).to_contain_text("step 6/6")
    keep(page, "6-steps")
    page.wait_for_timeout(500)
    expect(page.locator(".stage")).to_contain_text("step 6/6")


def test_averages_and_the_map(visitor):
    page = visitor()
    page.locator("#average").click()
    page.wait_for_selector(".strip[data-attempts='10']")
    expect(page.locator(".strip figure")).to_have_count(8)
    page.get_by_role("tab", name="Map").click()
    point = page.locator("#map circle[data-index='42']")
    before = point.get_attribute("fill")
    page.get_by_label("y", exact=True).click()
    expect(point).not_to_have_attribute("fill", before or "")
    point.hover()
    expect(page.locator(".peek")).to_have_class(re.compile("shown"))
    point.click()
    expect(page.locator(".stage")).to_contain_text("no. 43 of the set")
    keep(page, "3-map")
    page.get_by_role("tab", name="Goal buffer").click()
    page.locator("[id='goal buffer'] [data-index='5']").click()
    expect(page.locator(".stage")).to_contain_text("from the goal buffer")


def test_uploads_are_taken_or_refused_with_the_reason(visitor, tmp_path):
    page = visitor()
    page.get_by_role("tab", name="Upload").click()
    good = np.zeros((240, 320, 4), np.uint8)
    good[80:160, 100:200] = (255, 220, 60, 255)
    Image.fromarray(good).save(tmp_path / "mine.png")
    page.set_input_files("#upload input", tmp_path / "mine.png")
    expect(page.locator("#notice")).to_contain_text("mine.png is the goal")
    expect(page.locator("#notice")).to_contain_text("its transparency was laid on black")
    expect(page.locator(".stage")).to_contain_text("your image")
    goal = page.locator(".stage [alt=goal]").get_attribute("src")
    for name, (file, reason) in bad_uploads(tmp_path).items():
        page.set_input_files("#upload input", file)
        if name == "heavy":  # never leaves the browser
            expect(page.locator("body")).to_contain_text('exceed the maximum allowed size of 10.0 Mb: "heavy.png"')
        else:
            expect(page.locator("#notice")).to_contain_text(f"{file.name} was refused: ")
            expect(page.locator("#notice")).to_contain_text(reason)
        keep(page, f"4-refused-{name}")
    assert page.locator(".stage [alt=goal]").get_attribute("src") == goal
    page.locator("#start").click()
    watch(page, last=20)


def test_the_server_itself_bounds_what_is_uploaded(studio, tmp_path):
    with bad_uploads(tmp_path)["heavy"][0].open("rb") as file:
        answer = httpx.post(f"{studio[0]}/gradio_api/upload", files={"files": file}, timeout=60)
    assert answer.status_code == 413


def test_two_visitors_do_not_disturb_each_other(visitor):
    first, second = visitor(), visitor()
    choose(first, 0)
    choose(second, 99)
    for page in (first, second):
        page.get_by_label("number input for frames a second").fill("5")
    first.locator("#start").click()
    second.locator("#start").click()
    wait_for_step(first, 4)
    assert int(second.locator(".stage").get_attribute("data-step") or 0) < 20  # both are under way
    watch(second, last=20)
    wait_for_step(first, 20)
    expect(first.locator(".stage")).to_contain_text("no. 1 of the set")
    expect(second.locator(".stage")).to_contain_text("no. 100 of the set")
    pictures = [page.locator(".stage [alt=world]").get_attribute("src") for page in (first, second)]
    assert pictures[0] != pictures[1]
    for page in (first, second):
        page.get_by_role("tab", name="Achieved").click()
        expect(page.locator("#achieved [data-index]")).to_have_count(1)


def test_a_pursuit_can_be_stopped(visitor):
    page = visitor()
    page.locator("#start").click()
    wait_for_step(page, 3)
    page.locator("#stop").click()
    page.wait_for_timeout(400)
    step = page.locator(".stage").get_attribute("data-step")
    page.wait_for_timeout(700)
    assert page.locator(".stage").get_attribute("data-step") == step
    assert int(step or 20) < 20


def test_a_live_run_is_followed(visitor, studio):
    page = visitor()
    page.get_by_role("tab", name="Training").click()
    run = studio[1] / "runs" / "live"
    run.mkdir(parents=True)
    (run / "config.json").write_text(to_json(discern.preset("arena")))
    metrics = run / "metrics.jsonl"
    rows = [{"steps": 1000 * i, "success": 0.01 * i, "td_loss": 1 / i, "seconds": float(i)} for i in range(1, 50)]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expect(page.locator("#run input")).to_have_value("runs/live")
    expect(page.locator(".training")).to_contain_text("live · 49,000 steps")
    Image.new("RGB", (240, 48), "navy").save(run / "goals.png")
    with metrics.open("a") as file:
        file.write(json.dumps({"steps": 77_000, "success": 0.66, "seconds": 60.0}) + "\n")
    expect(page.locator(".training")).to_contain_text("77,000 steps · 60 s · 66.0% of goals reached")
    expect(page.locator(".goals img")).to_be_visible()
    keep(page, "5-training")


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()
    if name == "Play":
        page.wait_for_selector("#pad button")


def moves(page: Page, count: int) -> None:
    page.wait_for_selector(f"#hand [data-moves='{count}']")


def typed(page: Page, name: str, text: str) -> None:
    page.locator(f"#{name} input, #{name} textarea").first.fill(text)


def draw(page: Page, easel: str, share: float) -> None:
    """A rectangle from the upper left corner over a share of the picture."""
    page.locator(f"#{easel}").scroll_into_view_if_needed()
    frame = page.locator(f"#{easel} .easel").bounding_box()
    assert frame
    page.mouse.move(frame["x"] + 1, frame["y"] + 1)
    page.mouse.down()
    page.mouse.move(frame["x"] + share * frame["width"], frame["y"] + share * frame["height"], steps=3)
    page.mouse.up()
    expect(page.locator(f"#{easel} .box")).to_be_visible()
    page.wait_for_timeout(300)


def test_a_world_is_played_and_its_goal_pursued(visitor, studio):
    page = visitor()
    open_tab(page, "Play")
    for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    moves(page, 3)
    expect(page.locator("#hand .last")).to_have_text("right")
    page.keyboard.press("Backspace")
    moves(page, 2)
    for _ in range(9):
        page.get_by_role("button", name="right").click()
    moves(page, 11)
    seen = page.locator("#hand img").get_attribute("src")
    page.locator("#mine").click()
    expect(page.locator("#easel img")).to_have_attribute("src", seen or "")
    typed(page, "goal-name", "upper right")
    page.locator("#save").click()
    expect(page.locator("#play-notice")).to_contain_text("goals/arena/upper right.png")
    assert (studio[1] / "goals" / "arena" / "upper right.png").exists()
    page.locator("#pursue").click()
    expect(page.locator("#stage .stage [alt=goal]")).to_have_attribute("src", seen or "")
    page.locator("#start").click()
    watch(page, last=20)
    expect(page.locator(".stage .hit, .stage .miss")).to_have_count(2)  # it was measured when it was made
    with page.expect_download() as download:
        page.locator("#film").click()
    assert download.value.suggested_filename == "arena-attempt-1.mp4"
    assert download.value.path().read_bytes()[4:8] == b"ftyp"
    page.get_by_role("tab", name="Made by hand").click()
    page.locator("[id='made by hand'] [data-index='0']").click()
    expect(page.locator("#stage")).to_contain_text("upper right")


def test_a_goal_is_drawn_on(visitor):
    page = visitor()
    open_tab(page, "Play")
    page.locator("#erase").click()
    expect(page.locator("body")).to_contain_text("make a goal first")
    page.get_by_role("button", name="Error Close").click()
    page.locator("#mine").click()
    page.wait_for_selector("#easel .easel")
    begun = page.locator("#easel img").get_attribute("src") or ""
    typed(page, "goal-name", "begun")
    page.locator("#save").click()
    expect(page.locator("#saved [data-index]").first).to_be_visible(timeout=LONG)
    draw(page, "easel", 0.95)
    page.locator("#erase").click()
    expect(page.locator("#easel img")).not_to_have_attribute("src", begun)
    keep(page, "7-erased")
    page.get_by_label("the picture to take a part from").click()
    page.locator("#saved [data-index='0']").click()
    expect(page.locator("#other img")).to_have_attribute("src", begun)
    page.locator("#other .easel").focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowDown"):
        page.keyboard.press(key)
    assert page.locator("#other .easel").get_attribute("data-box") == "9,8,17,17"
    draw(page, "other", 0.95)
    page.locator("#paste").click()
    expect(page.locator("#easel img")).to_have_attribute("src", begun)  # what was erased is back
    page.locator("#unstroke").click()
    expect(page.locator("#easel img")).not_to_have_attribute("src", begun)


def test_two_agents_pursue_one_goal_side_by_side(visitor):
    page = visitor()
    page.locator("#rival input").click()
    page.get_by_role("option", name="runs/whole").click()
    page.get_by_label("number input for frames a second").fill("30")
    page.locator("#start").click()
    stages = page.locator("#stage .stage")
    expect(stages).to_have_count(2)
    expect(stages.nth(1)).to_have_attribute("data-step", "20")
    expect(stages.nth(0)).to_contain_text("agents/arena")
    expect(stages.nth(1)).to_contain_text("runs/whole")
    first, second = (stages.nth(i).locator("[alt=world]").get_attribute("src") for i in range(2))
    assert first == second  # the same parameters, the same seed of the world
    expect(page.locator("#film")).to_be_enabled(timeout=LONG)
    page.get_by_role("tab", name="Achieved").click()
    expect(page.locator("#achieved [data-index]")).to_have_count(2)
    keep(page, "8-compared")


def processes_of(studio: int) -> int:
    """Worlds that the studio has in processes of their own."""
    found = subprocess.run(["pgrep", "-P", str(studio), "-f", "worlds.py"], capture_output=True, text=True, check=False)
    return len(found.stdout.split())


def test_a_visitor_who_leaves_takes_their_world_along(visitor, studio):
    page = visitor()
    open_tab(page, "Play")
    page.locator("#world input").fill("gym/CartPole-v1")
    page.locator("#world input").press("Enter")
    expect(page.locator("#pad")).to_contain_text("left")
    expect(page.locator("#pad button")).to_have_count(2)
    assert processes_of(studio[2]) == 1
    page.locator("#mine").click()
    expect(page.locator("#play-notice")).to_contain_text("choose an agent of gym/CartPole-v1")
    page.close()
    for _ in range(100):
        if not processes_of(studio[2]):
            break
        time.sleep(0.1)
    assert processes_of(studio[2]) == 0


def test_a_run_is_started_and_stopped(visitor, studio):
    page = visitor()
    open_tab(page, "Training")
    typed(page, "train-name", "mine")
    typed(page, "train-flags", "--learner.batchh 4")
    page.locator("#train-start").click()
    expect(page.locator("#train-notice")).to_contain_text("has no flag --learner.batchh: did you mean")
    settings = {name: value for name, value in TINY.items() if name not in ("minutes", "steps")} | {"log_seconds": 0.2}
    words = [
        f"{flag(name)} {' '.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in settings.items()
    ]
    typed(page, "train-flags", " ".join(words))
    page.locator("#train-start").click()
    expect(page.locator("#run input")).to_have_value("runs/mine")
    page.wait_for_function("Number(document.querySelector('.training')?.dataset.steps) > 0", timeout=2 * LONG)
    expect(page.locator(".training")).to_contain_text("learned reward")
    keep(page, "9-run")
    page.locator("#train-stop").click()
    expect(page.locator(".training")).to_contain_text("stopped ·")
    assert list_checkpoints(studio[1] / "runs" / "mine" / "checkpoints")
    open_tab(page, "Runs")
    card = page.locator(".card", has_text="runs/mine")
    expect(card).to_contain_text("stopped")
    card.click()
    expect(page.get_by_role("tab", name="Training", exact=True)).to_have_attribute("aria-selected", "true")


PARTS = {
    "Goals": ("#stage", "#start", "#rival", "#film", "[id='goal set'] .tiles"),
    "Play": ("#world", "#hand img", "#pad button", "#undo", "#reset", "#mine", "#erase", "#save", "#pursue"),
    "Training": ("#train-flags", "#train-start", "#run", "#train-stop", "#train-resume", ".training"),
    "Runs": (".card",),
}


@pytest.mark.parametrize("width", [1280, 400])
def test_every_tab_fits(visitor, studio, width):
    run = studio[1] / "runs" / "shown"
    run.mkdir(parents=True, exist_ok=True)
    (run / "config.json").write_text(to_json(discern.preset("arena")))
    (run / "metrics.jsonl").write_text(
        json.dumps({"steps": 9, "success": 0.5, "reward_mean": 0.1, "seconds": 1.0}) + "\n"
    )
    page = visitor(width, 900)
    for tab, parts in PARTS.items():
        open_tab(page, tab)
        for part in parts:
            expect(page.locator(part).first).to_be_visible(timeout=LONG)
            box = page.locator(part).first.bounding_box()
            assert box and box["x"] >= 0 and box["x"] + box["width"] <= width, part
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        keep(page, f"{tab.lower()}-{width}")


def test_the_keyboard_reaches_everything(visitor):
    page = visitor()
    names = set()
    look = """() => { const on = document.activeElement ?? document.body;
      return [on.tagName, on.id, getComputedStyle(on).outlineStyle] }"""
    for _ in range(40):
        page.keyboard.press("Tab")
        tag, name, outline = page.evaluate(look)
        if tag == "BODY":
            break
        names.add(name)
        assert outline == "solid", name  # where the focus is can be seen
    assert {"start", "stop", "average"} <= names
    page.locator("[id='goal set'] [data-index='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".stage")).to_contain_text("no. 2 of the set")


def test_others_are_let_in_by_a_password():
    from discern.studio.page import password_for  # Gradio takes seconds to import, for each process of the tests

    assert (password_for("127.0.0.1", None), password_for("localhost", None)) == (None, None)
    assert password_for("127.0.0.1", "correct horse") == "correct horse"
    made = password_for("0.0.0.0", None), password_for("example.org", None)
    assert made[0] and made[1] and made[0] != made[1] and len(made[0]) >= 16
    port = free_port()
    code = "import sys, gradio; from discern.studio.page import launch\n"
    code += "with gradio.Blocks() as page: gradio.HTML('inside')\n"
    code += "launch(page, '127.0.0.1', int(sys.argv[1]), 'correct horse'); print('ready', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(port)]  # Gradio leaves event loops open, which warnings are errors for
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
    ):
        assert process.stdout is not None
        assert any(line == "ready\n" for line in process.stdout)
        assert client.get("/config").status_code == 401
        assert client.post("/login", data={"username": "any", "password": "wrong"}).status_code == 400
        assert client.get("/config").status_code == 401
        assert client.post("/login", data={"username": "any", "password": "correct horse"}).status_code == 200
        assert client.get("/config").status_code == 200
        process.kill()


def test_only_this_machine_is_served(studio):
    port = int(studio[0].rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):  # bound to all addresses, it would answer on this one too
        socket.create_connection(("127.0.0.2", port), timeout=5)
