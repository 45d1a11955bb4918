"""Steps in the review that go wrong or are taken back, in a real Chromium, by people in a hurry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from collector.model import Claim
from tests.browser.conftest import Opening
from tests.fakes.reviewed import a_week, trace
from tests.processes import AgentProcess

pytestmark = pytest.mark.chromium
# A busy machine takes its time; what is wrong stays wrong.
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    folder = tmp_path_factory.mktemp("agent")
    golden = folder / "golden.yaml"
    golden.write_text(
        "- {id: old, question: 'Is SSO included in Pro?', gold_sources: [page-212]}\n"
    )
    process = AgentProcess(folder, {"review": {"golden_file": str(golden)}})
    process.data_dir.mkdir()
    week = a_week()
    claim = Claim(text="Dotted.", verdict="NOT_FOUND")
    week.turn(trace(900), "Who is dotted?", "Dotted.", [claim], conversation_id="..")
    week.turn(trace(901), "", "Nothing was asked.", [claim], conversation_id="empty")
    week.store(process.data_dir)
    with process:
        yield process


def told(page: Page, text: str) -> None:
    expect(page.locator("#told")).to_contain_text(text)


def own_label(agent: AgentProcess, conversation: str, reviewer: str) -> dict[str, Any] | None:
    url = f"{agent.urls['review']}/api/conversations/{conversation}"
    params = {"reviewer": reviewer}
    found = httpx.get(url, params=params, trust_env=False, timeout=20).json()
    own: dict[str, Any] | None = found["turns"][0]["labels"]["own"]
    return own


def test_each_step_is_taken_back_one_after_the_other(opened: Opening, agent: AgentProcess) -> None:
    page = opened("/conversation/seats-1")
    for key, said in (("w", "answer wrong"), ("a", "answer correct"), ("a", "without a verdict")):
        page.keyboard.press(key)
        told(page, said)
    page.keyboard.press("g")
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator("#t1-answer .badge")).to_have_text("proposed")
    page.keyboard.press("g")
    page.get_by_label("Reference answer").fill("Ten seats.")
    page.get_by_label("Sources").fill("page-212")
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#t1-answer .badge")).to_have_text("accepted")
    for said, state in (("row accepted", "proposed"), ("row proposed", "unreviewed")):
        page.keyboard.press("u")
        told(page, f"Taken back: golden {said}")
        expect(page.locator("#t1-answer .badge")).to_have_text(state)
    page.goto("/conversation/seats-2")  # also from another page
    for said, verdict in (
        ("answer without a verdict", "correct"),
        ("answer correct", "wrong"),
        ("answer wrong", None),
    ):
        page.keyboard.press("u")
        told(page, f"Taken back: {said}")
        own = own_label(agent, "seats-1", "Ada")
        assert (own and own["verdict"]) == verdict
    page.keyboard.press("u")
    told(page, "There is nothing to take back.")


def test_taking_back_runs_over_nothing_newer(opened: Opening, agent: AgentProcess) -> None:
    here = opened("/conversation/seats-3")
    here.keyboard.press("i")
    told(here, "answer incomplete")
    here.keyboard.press("w")
    told(here, "answer wrong")
    there = here.context.new_page()
    there.goto("/conversation/seats-3")
    there.keyboard.press("a")
    told(there, "answer correct")
    here.keyboard.press("u")
    expect(here.locator("#alarm")).to_contain_text("Ada labelled this in another window")
    expect(here.locator("#t1-answer [aria-pressed=true]")).to_contain_text("correct")
    own = own_label(agent, "seats-3", "Ada")
    assert own is not None
    assert own["verdict"] == "correct"

    # A row that somebody else went on with stays theirs, and older steps can still be undone.
    here.goto("/conversation/seats-4")
    here.keyboard.press("w")
    told(here, "answer wrong")
    here.keyboard.press("g")
    here.get_by_role("button", name="Save draft").click()
    expect(here.locator("#t1-answer .badge")).to_have_text("proposed")
    bo = opened(f"/promote/{trace(204)}", reviewer="Bo")
    bo.get_by_role("button", name="Reject").click()
    expect(bo.locator("#t1-answer .badge")).to_have_text("rejected")
    here.keyboard.press("u")
    expect(here.locator("#alarm")).to_contain_text("Bo rejected it")
    here.keyboard.press("u")
    told(here, "Taken back: answer wrong")
    here.reload()
    expect(here.locator("#t1-answer .badge")).to_have_text("rejected")


def test_the_button_that_takes_back_and_the_key_agree(opened: Opening) -> None:
    page = opened("/conversation/seats-5")
    for state in ("proposed", "edited"):
        page.keyboard.press("g")
        page.get_by_role("button", name="Save draft").click()
        expect(page.locator("#t1-answer .badge")).to_have_text(state)
    page.keyboard.press("g")
    page.get_by_role("button", name="Take “edited” back").click()
    told(page, "Taken back.")
    page.locator("#back").click()
    page.wait_for_url("**/conversation/**")
    page.keyboard.press("u")
    told(page, "Taken back: golden row proposed")
    expect(page.locator("#t1-answer .badge")).to_have_text("unreviewed")


def test_whoever_labels_what_the_judge_no_longer_lists_is_told(opened: Opening) -> None:
    page = opened("/conversation/seats-9")
    page.locator("#t1-c1").evaluate("claim => { claim.dataset.text = 'As it was before.' }")
    page.locator("#t1-c1").get_by_role("button", name="supported").click()
    expect(page.locator("#alarm")).to_contain_text("The judge has listed other claims meanwhile")
    expect(page.locator("#t1-c1 [aria-pressed=true]")).to_have_count(0)


def test_a_row_that_the_golden_set_has_already_is_told_with_the_cure(opened: Opening) -> None:
    page = opened(f"/promote/{trace(2)}")
    page.get_by_label("Reference answer").fill("2 dollars.")
    page.get_by_label("Sources").fill("page-1140")
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#t2-answer .badge")).to_have_text("accepted")
    page.goto("/")
    page.get_by_role("button", name="Add to golden.yaml").click()
    alarm = page.locator("#alarm")
    expect(alarm).to_contain_text(
        "0 added to the golden file, 1 not: it asks the same already in old."
    )
    expect(alarm).to_contain_text("Reject what is left accepted, or change its question.")


def test_no_id_leads_a_browser_elsewhere(opened: Opening) -> None:
    page = opened("/?q=dotted")
    page.get_by_role("link", name="Who is dotted?").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Who is dotted?")
    expect(page.locator(".pager").first).to_contain_text("1 of 1")
    page.keyboard.press("g")
    page.locator("#back").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Who is dotted?")
    page.goto("/conversation/empty")
    page.keyboard.press("g")
    told(page, "There is no question here to promote.")


def test_a_window_and_blind_mode_stay_while_one_filters(opened: Opening) -> None:
    page = opened("/?since=24h&blind=1")
    expect(page.get_by_role("heading", level=1)).to_have_text("The last day")
    page.get_by_role("link", name="lookup", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The last day")
    expect(page.locator(".why").first).to_contain_text("hidden in blind mode")
    page.get_by_label("Search").fill("seats")
    page.keyboard.press("Enter")
    expect(page.locator(".item")).to_have_count(20)
    expect(page.get_by_role("heading", level=1)).to_have_text("The last day")
    page.locator("select[name=week]").select_option(index=1)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(re.compile(r"^Week \d"))
    page.get_by_role("link", name="←").first.click()
    expect(page.locator("[name=blind]")).to_be_checked()


def test_a_key_held_down_says_it_once(opened: Opening, agent: AgentProcess) -> None:
    page = opened("/conversation/seats-6")
    page.keyboard.down("w")
    for _ in range(4):
        page.keyboard.down("w")  # what a keyboard sends while a key is held
    page.keyboard.up("w")
    told(page, "answer wrong")
    own = own_label(agent, "seats-6", "Ada")
    assert own is not None
    assert own["verdict"] == "wrong"


def test_an_agent_that_is_away_is_told_in_words(opened: Opening) -> None:
    page = opened("/conversation/seats-7")
    alarm = page.locator("#alarm")
    page.route("**/api/labels", lambda route: route.abort())
    page.keyboard.press("w")
    expect(alarm).to_contain_text("The agent does not answer. Try again in a moment.")
    page.unroute("**/api/labels")
    page.route("**/api/labels", lambda route: route.fulfill(status=502, body="<html>Bad gateway"))
    page.keyboard.press("w")
    expect(alarm).to_contain_text("The agent cannot do that now (502). Try again in a moment.")
    page.unroute("**/api/labels")
    page.keyboard.press("w")
    told(page, "answer wrong")
    expect(alarm).to_be_empty()


def test_a_link_in_a_mail_or_chat_leads_to_ones_own_labels(opened: Opening) -> None:
    page = opened("/", reviewer="")
    page.locator("#reviewer").fill("Xía")
    page.keyboard.press("Enter")
    elsewhere = page.context.new_page()
    target = page.url + "conversation/seats-8"
    body = f"<a href='{target}'>To the worst</a>"
    elsewhere.route(
        "http://chat.example/", lambda r: r.fulfill(content_type="text/html", body=body)
    )
    elsewhere.goto("http://chat.example/")
    elsewhere.get_by_role("link").click()
    expect(elsewhere.locator("#reviewer")).to_have_value("Xía")
