"""The weekly review in a real Chromium, on a real agent: by mouse, by keyboard, by two people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from sinks import golden_file
from tests.browser.conftest import Opening
from tests.fakes.reviewed import HOSTILE, a_week, trace
from tests.processes import AgentProcess

pytestmark = pytest.mark.chromium
# A busy machine takes its time; what is wrong stays wrong.
expect.set_options(timeout=20_000)

PHONE = {"width": 360, "height": 740}
HELD = "- {id: old, question: 'Is SSO included in the Pro plan?', gold_sources: [page-212]}\n"
SSO = f"/conversation/sso?turn={trace(2)}"
PAGES = [
    "/",
    "/?blind=1&q=nothing-of-the-kind",
    SSO,
    f"{SSO}&blind=1",
    f"/promote/{trace(2)}",
    "/sample",
    "/conversation/arabic",
    "/conversation/many-documents",
    "/conversation/fifty-turns",
    f"/conversation/{quote(HOSTILE, safe='')}",
    "/conversation/none-such",
]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    folder = tmp_path_factory.mktemp("agent")
    golden = folder / "golden.yaml"
    golden.write_text(HELD)
    process = AgentProcess(folder, {"review": {"golden_file": str(golden)}})
    process.data_dir.mkdir()
    a_week().store(process.data_dir)
    with process:
        yield process


@pytest.fixture
def golden(agent: AgentProcess) -> Path:
    return agent.log.parent / "golden.yaml"


def stored_labels(agent: AgentProcess, conversation: str, turn: int) -> dict[str, Any]:
    found = httpx.get(
        f"{agent.urls['review']}/api/conversations/{conversation}",
        params={"reviewer": "Ada"},
        trust_env=False,
        timeout=20,
    ).json()
    one: dict[str, Any] = found["turns"][turn]
    return one


def labels_that_count(agent: AgentProcess) -> int:
    url = f"{agent.urls['review']}/api/calibration"
    return int(httpx.get(url, trust_env=False, timeout=20).json()["labels"])


def test_the_whole_circle_by_mouse(opened: Opening, agent: AgentProcess, golden: Path) -> None:
    page = opened()
    expect(page.locator("#progress")).to_contain_text("0 of 20 done")
    first = page.locator(".item").first
    expect(first).to_contain_text("thumbs down; a claim contradicts the documents")
    expect(first).to_contain_text("stands for 2 requests")
    first.get_by_role("link").click()

    # The claim that contradicts the documents, and its evidence across a line break.
    claim = page.locator(".claim", has_text="SSO is free on Pro.")
    expect(claim.locator(".verdict")).to_have_text("contradicted")
    claim.hover()
    lit = page.locator("mark.lit")
    expect(lit).to_have_text("SSO on Pro costs 2 dollars\nper user and month.")
    expect(lit).to_be_visible()
    page.locator(".answer a", has_text="[2]").last.click()
    expect(page.locator("#t2-d2 .text")).to_be_in_viewport()
    expect(page.locator("#t2-d2 summary")).to_contain_text("0.71 rerank")
    expect(page.locator(".timeline")).to_contain_text("wrong price")
    assert page.request.get(page.get_by_text("Raw record").last.get_attribute("href") or "").ok

    claim.get_by_role("button", name="contradicted").click()
    expect(claim.get_by_role("button", name="contradicted")).to_have_attribute(
        "aria-pressed", "true"
    )
    label = page.locator("#t2-answer")
    label.get_by_role("button", name="wrong w", exact=True).click()
    label.get_by_label("Cause").select_option("misread")
    label.get_by_label("Note").fill("reads free where 2 dollars stand")
    label.get_by_role("button", name="Save").click()
    expect(page.locator("#told")).to_contain_text("cause and note")
    turn = stored_labels(agent, "sso", 1)
    own = turn["labels"]["own"]
    assert (own["verdict"], own["cause"]) == ("wrong", "misread")
    assert own["note"] == "reads free where 2 dollars stand"
    assert turn["claims"][1]["own"]["machine_verdict"] == "CONTRADICTED"

    # The golden set asks it already, until the question is another one.
    label.get_by_role("link", name="Promote to golden").click()
    expect(page.locator("#similar")).to_contain_text("Is SSO included in the Pro plan? (old)")
    page.get_by_label("Question").fill("How much is SSO on Pro?")
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#alarm")).to_contain_text("reference_answer")
    page.get_by_label("Reference answer").fill("2 dollars per user and month.")
    page.get_by_label("Find a page").fill("add-on")
    page.get_by_role("button", name="Add page-1140").click()
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#t2-answer .badge")).to_have_text("accepted")

    page.get_by_role("link", name="← List").click()
    expect(page.locator("#progress")).to_contain_text("1 of 20 done")
    page.get_by_role("button", name="Add to golden.yaml").click()
    expect(page.locator("#told")).to_contain_text("1 added")
    expect(page.locator(".item").first.locator(".badge")).to_have_text("exported")
    old, new = golden_file.load(golden)
    assert (old.id, new.question) == ("old", "How much is SSO on Pro?")
    assert new.reference_answer == "2 dollars per user and month."
    assert new.gold_sources == ["page-212", "page-1140"]
    assert new.answerable
    assert new.trace_id == trace(2)
    assert new.extra["provenance"]["accepted_by"] == "Ada"
    assert "draft" not in new.extra


def test_the_whole_circle_by_keyboard_alone(
    opened: Opening, agent: AgentProcess, tmp_path: Path
) -> None:
    page = opened("/?q=seats", reviewer="")
    keys = page.keyboard

    def press(*names: str) -> None:
        for name in names:
            keys.press(name)

    press("j", "Enter")
    expect(page.locator(".pager").first).to_contain_text("1 of 20")
    press("j", "y")
    expect(page.locator("#alarm")).to_contain_text("Say who you are")
    keys.type("Bo")
    press("Enter", "j", "y")  # the name, then the first claim: agreed
    expect(page.locator("#told")).to_contain_text("claim 1 not found")
    press("j", "c")
    expect(page.locator("#told")).to_contain_text("claim 2 contradicted")
    press("u")
    expect(page.locator("#told")).to_contain_text("Taken back: claim 2 contradicted")
    expect(page.locator("#t1-c2 [aria-pressed=true]")).to_have_count(0)
    press("s", "w", "m")
    keys.type("n")  # not retrieved
    press("Tab")
    keys.type("j k s are letters here")
    press("Control+Enter")
    expect(page.locator("#told")).to_contain_text("cause and note")
    press("Escape", "g")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Golden row")
    page.locator("#question").wait_for()
    for _ in range(40):
        if page.evaluate("document.activeElement.id") == "reference":
            break
        press("Tab")
    keys.type("Ten seats.")
    press("Tab")
    keys.type("page-212")
    press("Control+Enter")
    expect(page.locator("#t1-answer .badge")).to_have_text("accepted")
    # Nineteen more, a verdict on each answer.
    for number in range(2, 21):
        press("Shift+J")
        expect(page.locator(".pager").first).to_contain_text(f"{number} of 20")
        page.wait_for_load_state()
        press("a")
        expect(page.locator("#told")).to_contain_text("answer correct")
    press("Backspace")
    expect(page.locator("#progress")).to_contain_text("20 of 20 done")
    assert page.locator(".item").count() == 20

    file = tmp_path / "golden.yaml"
    done = agent.run_command("golden", "export", str(file), "--accepted-only")
    assert done.stdout.startswith(f"{file}: 1 accepted added"), done.stderr
    (row,) = golden_file.load(file)
    assert (row.reference_answer, row.gold_sources) == ("Ten seats.", ["page-212"])
    page.reload()
    expect(page.locator(".badge", has_text="exported")).to_have_count(1)


def test_two_people_at_one_item_never_run_over_each_other(opened: Opening) -> None:
    ada, bo = (opened(f"/promote/{trace(4)}", reviewer=name) for name in ("Ada", "Bo"))
    ada.get_by_label("Reference answer").fill("Two dollars.")
    ada.get_by_label("Sources").fill("prices")
    ada.get_by_role("button", name="Accept").click()
    expect(ada.locator("#t1-answer .badge")).to_have_text("accepted")
    bo.get_by_label("Reference answer").fill("Dos dólares.")
    bo.get_by_label("Sources").fill("prices")
    bo.get_by_role("button", name="Save draft").click()
    expect(bo.locator("#alarm")).to_contain_text("Ada accepted it at")
    expect(bo.get_by_label("Reference answer")).to_have_value("Dos dólares.")
    bo.get_by_role("button", name="Save mine over it").click()
    expect(bo.locator("#t1-answer")).to_contain_text("by Bo")

    # Labels stand side by side.
    ada.goto("/conversation/arabic")
    for page, name in ((ada, "supported"), (bo, "not found")):
        page.locator("#t1-c1").get_by_role("button", name=name).click()
        expect(page.locator("#told")).to_contain_text(f"claim 1 {name}")
    expect(bo.locator("#t1-c1 .others")).to_contain_text("Ada: supported")


def test_one_person_in_two_windows_is_told(opened: Opening) -> None:
    here, there = opened("/conversation/many-documents"), opened("/conversation/many-documents")
    here.locator("#t1-answer").get_by_role("button", name="wrong w", exact=True).click()
    expect(here.locator("#told")).to_contain_text("answer wrong")
    there.locator("#t1-answer").get_by_role("button", name="correct").click()
    expect(there.locator("#alarm")).to_contain_text("Ada labelled this in another window")
    pressed = there.locator("#t1-answer [aria-pressed=true]")
    expect(pressed).to_contain_text("wrong")


def test_blind_mode_says_nothing_of_the_judge_until_the_claim_is_labelled(opened: Opening) -> None:
    page = opened(f"{SSO}&blind=1", reviewer="Cleo")
    turn = page.locator("#t2")
    html = page.locator("main").inner_html()
    for word in ("contradict", "v-SUPPORTED", "Faithfulness", "<mark", "2 dollars per"):
        assert word not in html.replace(">contradicted <kbd>", ">"), word
    expect(turn).to_contain_text("The judge stays hidden until every claim is labelled.")
    page.locator("#t2-c2").get_by_role("button", name="contradicted").click()
    expect(page.locator("#t2-c2 .verdict")).to_have_text("contradicted")
    expect(page.locator("#t2-c1 .verdict")).to_have_text("judge hidden")
    expect(turn).to_contain_text("The judge stays hidden")
    for number in (1, 3):
        page.locator(f"#t2-c{number}").get_by_role("button", name="supported").click()
        expect(page.locator(f"#t2-c{number} .verdict")).not_to_have_text("judge hidden")
    expect(turn).to_contain_text("Faithfulness 0.33")


def test_a_sample_drawn_by_chance_calibrates_the_judge(
    opened: Opening, agent: AgentProcess
) -> None:
    page = opened("/", reviewer="Dee")
    before = labels_that_count(agent)
    page.get_by_role("link", name="Label a sample").click()
    expect(page.locator("#progress")).to_contain_text("0 of 40 labelled")
    page.wait_for_load_state()
    for key in ("n", "s"):
        page.keyboard.press("j")
        page.keyboard.press(key)
    expect(page.locator("#progress")).to_contain_text("2 of 40 labelled")
    page.keyboard.press("u")
    expect(page.locator("#progress")).to_contain_text("1 of 40 labelled")
    assert labels_that_count(agent) == before + 1


def test_search_state_and_segment_stand_in_the_address(opened: Opening) -> None:
    page = opened()
    page.keyboard.press("/")
    page.keyboard.type("two hundred")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("q=two[+]hundred"))
    expect(page.locator(".item")).to_have_count(1)
    page.locator("[name=state]").select_option("exported")
    page.get_by_role("button", name="Show").click()
    expect(page.locator(".worst")).to_contain_text("No conversation fits.")
    page.get_by_role("link", name="Show all").click()
    expect(page.locator(".item")).to_have_count(20)


@pytest.mark.parametrize("path", PAGES)
def test_anybody_can_use_it_in_light_and_dark(path: str, opened: Opening) -> None:
    page = opened(path)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]


def test_hostile_texts_are_text(opened: Opening) -> None:
    page = opened("/")
    page.locator(".item", has_text="onerror").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    page.locator(".claim").hover()
    expect(page.locator("mark.lit").first).to_have_text(HOSTILE)
    page.locator("#t1-answer").get_by_label("Note").fill(HOSTILE)
    page.locator("#t1-answer").get_by_role("button", name="Save").click()
    expect(page.locator("#told")).to_contain_text("cause and note")
    other = opened("/", reviewer=quote(HOSTILE[:40]))
    other.goto(page.url)
    expect(other.locator("#t1-answer .others")).to_contain_text("<script>window.hit=1</script>")
    other.locator("#t1-answer").get_by_role("button", name="incomplete").click()
    expect(other.locator("#told")).to_contain_text("answer incomplete")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    expect(page.get_by_label("Question")).to_have_value(HOSTILE)
    page.get_by_label("Find a page").fill("onload")
    page.get_by_role("button", name=re.compile("Add <script>")).click()
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator("#t1-answer .badge")).to_have_text("proposed")
    for one in (page, other):
        assert one.evaluate("window.hit") is None
        assert one.locator("main script, main style, main img").count() == 0


def test_much_stays_usable(opened: Opening) -> None:
    page = opened("/conversation/many-documents")
    expect(page.locator(".documents .list").first.locator("> li")).to_have_count(4)
    expect(page.get_by_text("All others, by rank")).to_be_visible()
    page.locator(".claim").focus()
    expect(page.locator("mark.lit")).to_be_visible()
    page.goto("/conversation/fifty-turns")
    expect(page.locator(".turn")).to_have_count(50)
    expect(page.locator(".turn[open]")).to_have_count(1)
    expect(page.locator(".turn[open]")).to_contain_text("And question 25?")
    page.keyboard.press("j")
    expect(page.locator(".claim:focus")).to_contain_text("Answer 25.")
