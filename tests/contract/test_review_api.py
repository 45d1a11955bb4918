"""The JSON API of the review in the real store: its description, conflicts, who may write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from jsonschema.validators import Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from collector.agent.opening import reports_of
from collector.config import Config, Resolved, ReviewConfig, Secrets
from dashboards.candidate_states import CandidateState
from dashboards.candidates import reviewed_row
from dashboards.reports import Reports
from dashboards.review.app import build_review
from dashboards.review.openapi import description
from dashboards.review.render import render
from dashboards.windows import last
from sinks import golden_file
from tests.fakes.reviewed import a_week, trace

ROW = {
    "question": "How much is SSO on Pro?",
    "reference_answer": "2 dollars.",
    "gold_sources": ["page-1140"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent")
    a_week().store(folder)
    return folder


@pytest.fixture(scope="module")
def reports(folder: Path) -> Iterator[Reports]:
    loop = asyncio.new_event_loop()
    opening = reports_of(Resolved(config=Config(data_dir=folder), secrets=Secrets()))
    yield loop.run_until_complete(opening.__aenter__())
    loop.run_until_complete(opening.__aexit__(None, None, None))
    loop.close()


@pytest.fixture
async def client(reports: Reports, folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    config = ReviewConfig(golden_file=folder / "golden.yaml")
    app = build_review(reports, list, ["*"], config=config)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
        yield client


def fits(answer: httpx.Response, schema: str) -> Any:
    """Check an answer against a schema of the description and return it."""
    assert answer.status_code == 200, answer.text
    described = description()
    whole = {"$ref": f"#/components/schemas/{schema}", "components": described["components"]}
    Draft202012Validator(whole).validate(answer.json())
    return answer.json()


async def draft_of(client: httpx.AsyncClient, number: int) -> tuple[str, str]:
    """Return the id of the candidate of a request and the path of its events."""
    found = fits(await client.get(f"/api/drafts/{trace(number)}"), "Draft")
    candidate_id = found["candidate"]["candidate_id"]
    return candidate_id, f"/api/candidates/{candidate_id}/events"


def test_the_description_is_valid_and_names_every_route(reports: Reports) -> None:
    validate(description())
    described = {
        (path, method.upper())
        for path, methods in description()["paths"].items()
        for method in methods
    }
    app = build_review(reports, list, ["*"])
    served = {
        (route.path.replace(":path", ""), method)
        for route in app.routes
        if isinstance(route, Route) and route.path.startswith("/api")
        for method in (route.methods or set()) - {"HEAD"}
    } - {("/api/{name}", "GET")}
    assert described == served | {(f"/api/{name}", "GET") for name in reports.names}


async def test_answers_are_as_described(client: httpx.AsyncClient) -> None:
    week = fits(await client.get("/api/week"), "Week")
    worst = week["conversations"][0]
    assert (worst["conversation_id"], worst["stands_for"]) == ("sso", 2.0)
    assert worst["reasons"][0] == "thumbs down"
    found = fits(await client.get("/api/conversations/sso?reviewer=Ada"), "Conversation")
    assert [claim["verdict"] for claim in found["turns"][1]["claims"]] == [
        "SUPPORTED",
        "CONTRADICTED",
        "NOT_FOUND",
    ]
    (evidence,) = (p for p in found["turns"][1]["documents"][1]["parts"] if p["claims"])
    assert evidence == {
        "text": "SSO on Pro costs 2 dollars\nper user and month.",
        "claims": [2],
    }
    assert [item["turn"] for item in found["timeline"]] == [1, 2, 2, 2, 2]
    record = (await client.get(f"/api/requests/{trace(2)}")).json()
    assert record["request"]["question"] == "Is SSO included in Pro?"
    for path in ("conversations/none", "requests/none", "drafts/none"):
        assert (await client.get(f"/api/{path}")).status_code == 404


async def test_what_the_reviewer_has_not_labelled_is_hidden_when_blind(
    client: httpx.AsyncClient,
) -> None:
    asked = "/api/conversations/sso?reviewer=Blind&blind=1"
    told = (await client.get(asked)).text
    assert "CONTRADICTED" not in told
    assert "costs 2 dollars per" not in told
    item = {"trace_id": trace(2), "labeller": "Blind", "verdict": "CONTRADICTED", "blind": True}
    await client.post("/api/labels", json={**item, "claim": "SSO is free on Pro."})
    claims = fits(await client.get(asked), "Conversation")["turns"][1]["claims"]
    assert [claim["verdict"] for claim in claims] == [None, "CONTRADICTED", None]


async def test_a_label_that_replaces_an_unseen_one_is_refused(client: httpx.AsyncClient) -> None:
    item = {"trace_id": trace(1), "labeller": "Ada", "verdict": "wrong", "seen": None}
    taken = fits(await client.post("/api/labels", json=item), "Accepted")
    assert (taken["stored"], taken["unlisted"]) == (1, 0)
    again = await client.post("/api/labels", json={**item, "verdict": "correct"})
    assert again.status_code == 409
    assert again.json()["error"].startswith("Ada labelled this in another window")
    asked = "/api/conversations/sso?reviewer=Ada"
    own = (await client.get(asked)).json()["turns"][0]["labels"]["own"]
    assert (own["verdict"], own["labelled_at"]) == ("wrong", taken["labelled_at"])
    item |= {"verdict": "", "seen": own["labelled_at"]}
    assert (await client.post("/api/labels", json=item)).status_code == 200
    assert (await client.get(asked)).json()["turns"][0]["labels"]["own"] is None
    other = {**item, "labeller": "Bo", "verdict": "correct", "cause": "misread", "seen": None}
    assert (await client.post("/api/labels", json=other)).status_code == 200


async def test_labels_of_the_worst_stay_out_of_the_calibration_and_drawn_ones_stay_drawn(
    client: httpx.AsyncClient,
) -> None:
    before = (await client.get("/api/calibration")).json()["labels"]
    looked_at = {
        "trace_id": trace(200),
        "claim": "Ten seats.",
        "labeller": "Ada",
        "verdict": "NOT_FOUND",
        "drawn": False,
        "seen": None,
    }
    await client.post("/api/labels", json=looked_at)
    assert (await client.get("/api/calibration")).json()["labels"] == before
    drawn = {**looked_at, "claim": "Each costs a dollar.", "drawn": True, "probability": 0.25}
    await client.post("/api/labels", json=drawn)
    found = (await client.get("/api/conversations/seats-0?reviewer=Ada")).json()
    seen = found["turns"][0]["claims"][1]["own"]["labelled_at"]
    await client.post("/api/labels", json={**drawn, "drawn": False, "seen": seen})
    assert (await client.get("/api/calibration")).json()["labels"] == before + 1


async def test_a_candidate_goes_from_draft_to_golden_file_and_back_steps_are_kept(
    client: httpx.AsyncClient, folder: Path
) -> None:
    name, events = await draft_of(client, 2)
    start = {"actor": "Ada", "trace_id": trace(2)}
    saved = fits(
        await client.post(events, json={**start, "event": "proposed", "seen": 0, "row": ROW}),
        "Candidate",
    )
    assert (saved["state"], saved["version"]) == ("proposed", 1)
    late = {"actor": "Bo", "event": "rejected", "seen": 0}
    refused = await client.post(events, json=late)
    assert (refused.status_code, "Ada saved a draft" in refused.json()["error"]) == (409, True)
    for seen, (event, row) in enumerate([("rejected", None), ("undone", None), ("accepted", ROW)]):
        step = {"actor": "Bo", "event": event, "seen": seen + 1, "row": row}
        found = fits(await client.post(events, json=step), "Candidate")
    assert [step["event"] for step in found["history"]] == [
        "proposed",
        "rejected",
        "undone",
        "accepted",
    ]
    assert found["provenance"]["trace_id"] == trace(2)
    done = (await client.post("/api/export", json={"actor": "Bo"})).json()
    assert done["added"] == [name]
    (golden,) = golden_file.load(folder / "golden.yaml")
    assert (golden.id, golden.question, golden.reference_answer) == (
        name,
        ROW["question"],
        "2 dollars.",
    )
    assert (await client.post("/api/export", json={"actor": "Bo"})).json()["added"] == []
    gone = fits(await client.get(f"/api/candidates/{name}"), "Candidate")
    assert gone["state"] == "exported"
    undo = await client.post(events, json={"actor": "Bo", "event": "undone", "seen": 5})
    assert "take it out there" in undo.json()["error"]
    (near,) = (
        await client.get("/api/similar", params={"question": "how much is sso on pro"})
    ).json()["similar"]
    assert (near["id"], near["same"]) == (name, True)


async def test_an_export_that_was_cut_short_is_finished_by_the_next_one(
    client: httpx.AsyncClient, folder: Path
) -> None:
    name, events = await draft_of(client, 205)
    accept = {"actor": "Bo", "event": "accepted", "seen": 0, "trace_id": trace(205)}
    row = {**ROW, "question": "How many seats has plan 5?"}
    await client.post(events, json={**accept, "row": row})
    stands = (await client.get(f"/api/candidates/{name}")).json()
    made = reviewed_row(msgspec.convert(stands, CandidateState))
    golden_file.append(folder / "golden.yaml", [made])  # and then the agent was gone
    unsigned: list[Any] = [{"actor": "\u202e"}, {"actor": "a" * 201}, {}, []]
    for asked in unsigned:
        assert (await client.post("/api/export", json=asked)).status_code == 400
    done = (await client.post("/api/export", json={"actor": "Bo"})).json()
    assert (done["added"], done["already_there"]) == ([], {name: name})
    assert (await client.get(f"/api/candidates/{name}")).json()["state"] == "exported"
    held = [row.id for row in golden_file.load(folder / "golden.yaml")]
    assert held.count(name) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"row": {**ROW, "question": " "}}, "question"),
        ({"row": {**ROW, "reference_answer": None}}, "reference_answer"),
        ({"row": {**ROW, "gold_sources": []}}, "gold_sources"),
        ({"row": {**ROW, "quotes": [""]}}, "quotes"),
        ({"row": None}, "row"),
        ({"actor": " \u202e"}, "actor: must not be empty"),
        ({"actor": "a" * 201}, "actor: is longer than 200"),
        ({"event": "forgotten"}, "event"),
        ({"trace_id": trace(5)}, "trace_id"),
        ({"seen": "none"}, "seen"),
    ],
)
async def test_a_row_that_no_golden_run_could_use_is_refused_by_field(
    client: httpx.AsyncClient, change: dict[str, Any], field: str
) -> None:
    _, events = await draft_of(client, 4)
    step = {"event": "accepted", "actor": "Ada", "seen": 0, "trace_id": trace(4), "row": ROW}
    answer = await client.post(events, json=step | change)
    assert answer.status_code == 400
    assert field in answer.json()["error"]
    assert (await client.get(events.removesuffix("/events"))).json()["version"] == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://agent"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
    ],
)
@pytest.mark.parametrize("path", ["labels", "export", "evaluations", "candidates/x/events"])
async def test_another_web_page_changes_nothing(
    client: httpx.AsyncClient, path: str, headers: dict[str, str]
) -> None:
    answer = await client.post(f"/api/{path}", json={}, headers=headers)
    assert (answer.status_code, answer.json()["error"].split(":")[0]) == (403, "origin")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b'"\xff"', "not JSON"),
        (b'{"trace_id": {}, "seen": null}', "trace_id"),
        (b'{"trace_id": [1], "seen": null, "verdict": "wrong", "labeller": "Ada"}', "trace_id"),
        (
            b'{"trace_id": "t", "claim": ["x"], "seen": null, "verdict": "wrong", "labeller": "A"}',
            "claim",
        ),
        (b'{"trace_id": "t", "verdict": "wrong", "labeller": {}, "seen": null}', "labeller"),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused_in_words(
    client: httpx.AsyncClient, body: bytes, field: str
) -> None:
    headers = {"content-type": "application/json"}
    answer = await client.post("/api/labels", content=body, headers=headers)
    assert answer.status_code == 400
    assert field in answer.json()["error"]


async def test_a_body_that_does_not_come_is_not_waited_for(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboards.review.asking.BODY_SECONDS", 0.05)

    async def slow() -> AsyncIterator[bytes]:
        yield b"["
        await asyncio.sleep(60)

    headers = {"content-type": "application/json"}
    answer = await client.post("/api/labels", content=slow(), headers=headers)
    assert answer.status_code == 408
    assert "0.05 s" in answer.json()["error"]


async def test_the_list_one_works_through_stays_whatever_others_ask_for(
    client: httpx.AsyncClient,
) -> None:
    def place(page: httpx.Response) -> str:
        return page.text.split('<span class="soft">')[1].split("</span>")[0]

    ada, bo = {"cookie": "reviewer=Ada"}, {"cookie": "reviewer=Bo"}
    await client.get("/?state=open", headers=ada)
    asked = "/conversation/seats-3?state=open"
    before = place(await client.get(asked, headers=ada))
    assert before.endswith(" of 20")
    item = {"trace_id": trace(203), "labeller": "Ada", "verdict": "wrong", "drawn": False}
    await client.post("/api/labels", json=item)
    await client.get("/?state=open", headers=bo)
    await client.get("/api/week?state=open&limit=1")
    assert place(await client.get(asked, headers=ada)) == before
    await client.get("/", headers=ada)
    await client.get("/api/week?limit=1&segment=none")
    assert place(await client.get("/conversation/seats-3", headers=ada)).endswith(" of 20")


async def test_one_person_has_one_name_however_it_is_typed(client: httpx.AsyncClient) -> None:
    item = {"trace_id": trace(204), "verdict": "wrong", "drawn": False, "seen": None}
    await client.post("/api/labels", json={**item, "labeller": " Zoe\u202e "})
    again = await client.post("/api/labels", json={**item, "labeller": "Zoe"})
    assert again.status_code == 409
    shown = await client.get("/conversation/seats-4", headers={"cookie": "reviewer=Zoe%00"})
    assert 'data-verdict="wrong"' in shown.text
    nobody = await client.post("/api/labels", json={**item, "labeller": "\u202e"})
    assert "labeller must not be empty" in nobody.json()["error"]


async def test_a_search_finds_what_is_written_in_another_form(client: httpx.AsyncClient) -> None:
    for words in ("ｓｓｏ pro", "INCLUDED", "تسجيل"):
        found = (await client.get("/api/week", params={"q": words})).json()
        assert found["conversations"], words


async def test_blind_mode_tells_neither_how_bad_it_is_nor_what_others_said(
    client: httpx.AsyncClient,
) -> None:
    bo = {"trace_id": trace(125), "labeller": "Bo", "verdict": "incomplete", "drawn": False}
    await client.post("/api/labels", json={**bo, "note": "half of it"})
    asked = "/conversation/fifty-turns?blind=1&turn=" + trace(125)
    ada = {"cookie": "reviewer=Ada"}
    assert "half of it" not in (await client.get(asked, headers=ada)).text
    assert "badness" not in (await client.get("/?blind=1", headers=ada)).text
    await client.post("/api/labels", json={**bo, "labeller": "Ada"})
    assert "half of it" in (await client.get(asked, headers=ada)).text


async def test_a_report_that_is_saved_lets_no_text_run_either(reports: Reports) -> None:
    text = render(await reports.review(last("7d", datetime.now(UTC)), limit=50), "html")
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';'
    assert 0 < text.index(policy) < text.index("<style>")
    assert "window.hit=1" in text
    for tag in ("<script", "<img", "<svg", 'javascript:window.hit=1"'):
        assert tag not in text


async def test_no_answer_is_kept_read_as_another_kind_or_loaded_by_other_sites(
    client: httpx.AsyncClient,
) -> None:
    for path in ("/", "/api/week", f"/api/requests/{trace(3)}", "/none", "/api/none", "/login"):
        headers = (await client.get(path)).headers
        assert headers["cache-control"] == "no-store", path
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "cache-control" not in (await client.get("/static/review.js")).headers


async def test_pages_carry_a_policy_that_lets_no_text_run(client: httpx.AsyncClient) -> None:
    for path in ("/", "/conversation/sso", f"/promote/{trace(2)}"):
        answer = await client.get(path)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "style=" not in answer.text
        assert "onclick" not in answer.text
    style = await client.get("/static/review.css")
    assert style.headers["content-type"].startswith("text/css")
    assert "http" not in style.text
