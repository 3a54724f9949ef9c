"""The studio in a real browser, beside the agents that ship. Its screenshots are kept in screenshots/."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Error, Page, expect, sync_playwright

import discern
from discern.config import to_json
from tests.needs import skip_for_lack_of
from tests.test_studio import bad_uploads, ends_agent

ROOT = Path(__file__).parent.parent
SCREENSHOTS = ROOT / "screenshots"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LONG = 60_000  # milliseconds; a busy machine compiles slowly


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The address of a studio on the shipped agents, and the folder it was started in."""
    folder = tmp_path_factory.mktemp("studio")
    (folder / "agents").symlink_to(ROOT / "agents")
    ends_agent(discern.load(ROOT / "agents" / "arena"), folder / "runs" / "ends")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", "from discern.cli import main; main()", "studio", "agents/arena"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert f"http://127.0.0.1:{port}" in said, said
        yield f"http://127.0.0.1:{port}", folder
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

    def visit() -> Page:
        contexts.append(browser.new_context(viewport={"width": 1440, "height": 1000}))
        page = contexts[-1].new_page()
        page.goto(studio[0])
        page.wait_for_selector(".stage", timeout=LONG)
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
    page.wait_for_function(f"document.querySelector('.stage')?.dataset.step >= {least}", timeout=LONG)


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
    expect(number).to_have_count(0)
    page.locator("#agent input").click()
    page.get_by_role("option", name="runs/ends").click()
    expect(number).to_have_value("20", timeout=LONG)
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
    page.wait_for_selector(".strip[data-attempts='10']", timeout=LONG)
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
    expect(page.locator("body")).to_contain_text("No run to follow", timeout=LONG)
    run = studio[1] / "runs" / "live"
    run.mkdir(parents=True)
    (run / "config.json").write_text(to_json(discern.preset("arena")))
    metrics = run / "metrics.jsonl"
    rows = [{"steps": 1000 * i, "success": 0.01 * i, "td_loss": 1 / i, "seconds": float(i)} for i in range(1, 50)]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expect(page.locator("#run input")).to_have_value("runs/live", timeout=LONG)
    expect(page.locator(".training")).to_contain_text("live · 49,000 steps", timeout=LONG)
    Image.new("RGB", (240, 48), "navy").save(run / "goals.png")
    with metrics.open("a") as file:
        file.write(json.dumps({"steps": 77_000, "success": 0.66, "seconds": 60.0}) + "\n")
    expect(page.locator(".training")).to_contain_text("77,000 steps · 60 s · 66.0% of goals reached", timeout=LONG)
    expect(page.locator(".goals img")).to_be_visible()
    keep(page, "5-training")


def test_only_this_machine_is_served(studio):
    port = int(studio[0].rpartition(":")[2])
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    with pytest.raises(ConnectionRefusedError):  # bound to all addresses, it would answer on this one too
        socket.create_connection(("127.0.0.2", port), timeout=5)
