"""The login of the review in a real Chromium, before a real agent with a user of any name."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from dashboards.review.login import password_hash
from tests.fakes.reviewed import a_week, trace
from tests.processes import AgentProcess

pytestmark = pytest.mark.chromium
# A busy machine takes its time; what is wrong stays wrong.
expect.set_options(timeout=20_000)

NAME = "<script>window.hit=1</script>\"'Åsa"
PASSWORD = "correct horse battery"
SSO = f"/conversation/sso?turn={trace(2)}"
PAGES = ["/", SSO, f"/promote/{trace(2)}", "/sample", "/nothing-here"]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    folder = tmp_path_factory.mktemp("agent")
    process = AgentProcess(folder, {"review": {"users": {NAME: password_hash(PASSWORD)}}})
    process.data_dir.mkdir()
    a_week().store(process.data_dir)
    with process:
        yield process


@pytest.fixture
def page(chromium: Browser, agent: AgentProcess) -> Iterator[Page]:
    wrong: list[str] = []
    context = chromium.new_context(base_url=agent.urls["review"])
    context.set_default_timeout(10_000)
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Sec" in said.text else None)
    yield page
    context.close()
    assert wrong == []


def log_in(page: Page, password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill(NAME)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    if password == PASSWORD:
        page.wait_for_url(lambda url: "/login" not in url)


def test_no_page_is_reached_without_a_login_and_each_is_after_it(page: Page) -> None:
    for path in PAGES:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        expect(page.locator("body")).not_to_contain_text("SSO")
    page.goto(SSO)
    log_in(page, "a wrong guess")
    expect(page.get_by_role("alert")).to_have_text("Wrong name or password.")
    expect(page.get_by_label("Name")).to_have_value(NAME)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(re.escape(SSO) + "$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Is SSO included in Pro?")
    expect(page.locator("#reviewer")).to_have_text(NAME)
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    for path in PAGES:
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    assert page.evaluate("window.hit") is None


def test_whoever_is_logged_in_signs_what_they_decide(page: Page, agent: AgentProcess) -> None:
    page.goto(SSO)
    log_in(page)
    page.locator("#t2-answer").get_by_role("button", name="incomplete").click()
    expect(page.locator("#told")).to_contain_text("answer incomplete")
    page.keyboard.press("g")
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator("#t2-answer")).to_contain_text(f"by {NAME}")
    done = agent.run_command("review", "report", "--format", "json")
    assert done.returncode == 0, done.stderr
    told = next(c for c in json.loads(done.stdout) if c["conversation_id"] == "sso")
    (label,) = told["labels"]
    assert (label["labeller"], label["verdict"]) == (NAME, "incomplete")


def test_what_was_typed_stays_when_the_session_has_ended(page: Page) -> None:
    page.goto(SSO)
    log_in(page)
    note = page.locator("#t2-note")
    note.fill("not yet saved")
    cookies = page.context.cookies()
    page.context.clear_cookies()
    page.locator("#t2-save").click()
    expect(page.locator("#alarm")).to_contain_text("You are logged out.")
    expect(note).to_have_value("not yet saved")
    page.context.add_cookies(cookies)  # type: ignore[arg-type]
    page.locator("#t2-save").click()
    expect(page.locator("#told")).to_contain_text("cause and note")


def test_the_login_is_for_everybody_in_light_and_dark(page: Page) -> None:
    page.goto("/login")
    log_in(page, "a wrong guess")
    for path in ("", SSO):
        if path:
            page.goto(path)
            log_in(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_commands_of_the_owner_need_no_password_and_others_get_nothing(
    agent: AgentProcess, tmp_path: Path
) -> None:
    told = agent.data_dir / "agent.json"
    assert stat.S_IMODE(told.stat().st_mode) == 0o600
    labels = tmp_path / "labels.jsonl"
    label = {"trace_id": trace(1), "verdict": "correct", "labeller": "Zoe", "drawn": False}
    labels.write_text(json.dumps(label) + "\n")
    done = agent.run_command("labels", "import", str(labels))
    assert done.returncode == 0, done.stderr
    answer = httpx.get(f"{agent.urls['review']}/api/week", trust_env=False)
    assert (answer.status_code, list(answer.json())) == (401, ["error"])
    log = agent.log.read_text()
    assert json.loads(told.read_text())["token"] not in log
    assert PASSWORD not in log
