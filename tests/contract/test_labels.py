"""Labels in the real store: the latest counts, the judge's verdict beside it, claims to label."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from collector.errors import MalformedPayload
from collector.model import Claim, Judgement, Verdict
from dashboards.reports import Reports
from dashboards.review.app import build_review
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, decision, stored

DAY = Window(AT - timedelta(hours=1), AT + timedelta(hours=1))


@pytest.fixture(scope="module")
def store(clickhouse: ClickHouseStore) -> ClickHouseStore:
    return clickhouse


@pytest.fixture
def reports(store: ClickHouseStore) -> Reports:
    """Reports on a judge that no other test has."""
    return Reports(store, f"judge-{uuid4().hex[:8]}")


async def judge(
    store: ClickHouseStore, reports: Reports, verdicts: Sequence[Verdict], probability: float = 1.0
) -> str:
    """Store an answer with a claim of each verdict, `claim 0` and so on; return its trace id."""
    trace_id = uuid4().hex
    await store.write_requests(
        [stored(trace_id, decided=decision(probability=probability), question="What?")]
    )
    claims = [Claim(text=f"claim {i}", verdict=verdict) for i, verdict in enumerate(verdicts)]
    judgement = Judgement(
        trace_id=trace_id,
        scorer="faithfulness",
        fingerprint=reports.fingerprint,
        status="judged",
        score=1.0,
        claims=claims,
        request_version=1,
        judged_at=AT,
    )
    await store.write_judgements([judgement], {trace_id: AT})
    return trace_id


def label(trace_id: str, claim: str, verdict: str, **more: Any) -> dict[str, Any]:
    return {"trace_id": trace_id, "claim": claim, "verdict": verdict, "labeller": "ada", **more}


async def test_the_latest_label_of_a_person_counts_and_a_repeat_changes_nothing(
    store: ClickHouseStore, reports: Reports
) -> None:
    trace_id = await judge(store, reports, ["SUPPORTED"])
    later = (AT + timedelta(minutes=5)).isoformat()
    first, second = (
        label(trace_id, "claim 0", "SUPPORTED"),
        label(trace_id, "claim 0", "NOT_FOUND", labelled_at=later),
    )
    for items in ([second], [first], [first], [second]):
        await reports.accept_labels(items, AT)
    found = await reports.calibration()
    assert (found["labels"], found["bad"]) == (1, 1)


async def test_a_label_taken_back_is_gone(store: ClickHouseStore, reports: Reports) -> None:
    trace_id = await judge(store, reports, ["SUPPORTED"])
    await reports.accept_labels([label(trace_id, "claim 0", "SUPPORTED")], AT)
    await reports.accept_labels([label(trace_id, "claim 0", "")], AT + timedelta(seconds=1))
    assert (await reports.calibration())["labels"] == 0


async def test_labels_outlive_the_judgement_they_are_about(
    store: ClickHouseStore, reports: Reports
) -> None:
    trace_id = await judge(store, reports, ["CONTRADICTED"])
    await reports.accept_labels([label(trace_id, "claim 0", "SUPPORTED")], AT)
    # Judged again: the claim is listed in other words, as if the judgement were gone.
    other = Judgement(
        trace_id=trace_id,
        scorer="faithfulness",
        fingerprint=reports.fingerprint,
        status="judged",
        score=1.0,
        claims=[Claim(text="other words", verdict="SUPPORTED")],
        request_version=2,
        judged_at=AT + timedelta(hours=1),
    )
    await store.write_judgements([other], {trace_id: AT})
    found = await reports.calibration()
    assert (
        found["table"][found["verdicts"].index("SUPPORTED")][
            found["verdicts"].index("CONTRADICTED")
        ]
        == 1
    )


async def test_trust_follows_from_enough_labels_and_reaches_the_estimates(
    store: ClickHouseStore, reports: Reports
) -> None:
    assert (await reports.estimates(DAY))["judge"]["trust"] == "uncalibrated"
    verdicts: list[Verdict] = ["SUPPORTED", "SUPPORTED", "SUPPORTED", "NOT_FOUND", "NOT_FOUND"]
    items = []
    for _ in range(12):
        trace_id = await judge(store, reports, verdicts)
        items += [label(trace_id, f"claim {i}", verdict) for i, verdict in enumerate(verdicts)]
    assert await reports.accept_labels(items, AT) == (60, 0)
    found = await reports.estimates(DAY)
    assert found["judge"]["trust"] == "trusted"
    assert found["total"]["judge_trust"] == "trusted"


async def fail(store: ClickHouseStore, reports: Reports, reason: str) -> None:
    """Store an answer that the judge failed on."""
    trace_id = uuid4().hex
    await store.write_requests([stored(trace_id, decided=decision(), question="What?")])
    failed = Judgement(
        trace_id=trace_id,
        scorer="faithfulness",
        fingerprint=reports.fingerprint,
        status="failed",
        reason=reason,
        request_version=1,
        judged_at=AT,
    )
    await store.write_judgements([failed], {trace_id: AT})


async def test_a_judge_whose_replies_are_useless_is_not_trusted_without_any_label(
    store: ClickHouseStore, reports: Reports
) -> None:
    for number in range(20):
        await fail(store, reports, ("unparseable", "empty_reply", "truncated_reply")[number % 3])
    found = await reports.calibration()
    assert (found["trust"], found["answers"], found["unusable"]) == ("not trusted", 20, 20)
    report = await reports.estimates(DAY)
    assert report["judge"]["trust"] == report["total"]["judge_trust"] == "not trusted"
    assert {row["judge_trust"] for row in report["segments"]} == {"not trusted"}


async def test_what_is_not_the_judges_fault_does_not_count_against_it(
    store: ClickHouseStore, reports: Reports
) -> None:
    for reason in ("rate_limited", "timeout", "server_error", "content_filter", "budget_exhausted"):
        for _ in range(5):
            await fail(store, reports, reason)
    await judge(store, reports, ["SUPPORTED"])
    found = await reports.calibration()
    assert (found["trust"], found["answers"], found["unusable"]) == ("uncalibrated", 1, 0)


async def test_claims_to_label_come_half_and_half_with_their_probability(
    store: ClickHouseStore, reports: Reports
) -> None:
    nine: list[Verdict] = ["SUPPORTED"] * 9
    for _ in range(10):
        await judge(store, reports, [*nine, "NOT_FOUND"], probability=0.5)
    claims = (await reports.claims_to_label(DAY, limit=20))["claims"]
    flagged = [c for c in claims if c["claim"] == "claim 9"]
    passed = [c for c in claims if c["claim"] != "claim 9"]
    assert (len(flagged), len(passed)) == (10, 10)
    # Judged with .5; of 10 flagged claims all are asked for, of 90 others 10.
    assert {c["probability"] for c in flagged} == {0.5}
    assert {round(c["probability"], 9) for c in passed} == {round(0.5 * 10 / 90, 9)}
    assert all("machine_verdict" not in c and c["verdict"] is None for c in claims)
    assert await reports.claims_to_label(DAY, limit=20) == {"claims": claims}


async def test_one_bad_label_stores_none(store: ClickHouseStore, reports: Reports) -> None:
    trace_id = await judge(store, reports, ["SUPPORTED"])
    with pytest.raises(MalformedPayload, match="label 2: verdict"):
        await reports.accept_labels(
            [label(trace_id, "claim 0", "SUPPORTED"), label(trace_id, "claim 0", "yes")], AT
        )
    assert (await reports.calibration())["labels"] == 0


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"probability": 5e-324}, "probability must be at least 1e-09"),
        ({"labelled_at": "9999-01-01T00:00:00Z"}, "labelled_at must not lie in the future"),
        ({"labelled_at": "0001-01-01T00:00:00+14:00"}, "labelled_at must not lie in the future"),
        ({"labeller": "a" * 201}, "labeller is longer"),
        ({"verdict": "NOT_FOUND"}, "verdict is another than in label 1"),
    ],
)
async def test_what_would_spoil_the_calibration_is_refused(
    reports: Reports, more: dict[str, Any], problem: str
) -> None:
    good = label("0" * 32, "claim 0", "SUPPORTED")
    with pytest.raises(MalformedPayload, match=f"label 2: {problem}"):
        await reports.accept_labels([good, good | more], AT)


async def test_labels_cannot_say_themselves_what_the_judge_said(reports: Reports) -> None:
    """Else sixty made-up claims would make any judge a trusted one."""
    verdicts = ("SUPPORTED", "NOT_FOUND")
    made_up = [
        label("0" * 32, f"{verdict} {i}", verdict, machine_verdict=verdict)
        for verdict in verdicts
        for i in range(30)
    ]
    marked = [item | {"fingerprint": reports.fingerprint} for item in made_up]
    assert await reports.accept_labels(marked, AT) == (60, 60)
    assert (await reports.calibration())["labels"] == 0


async def test_the_api_takes_labels_from_programs_only(
    store: ClickHouseStore, reports: Reports
) -> None:
    trace_id = await judge(store, reports, ["SUPPORTED"])
    app = build_review(reports, list, ["*"])
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        good = label(trace_id, "claim 0", "SUPPORTED")
        taken = (await client.post("/api/labels", json=[good])).json()
        assert (taken["stored"], taken["unlisted"]) == (1, 0)
        form = await client.post("/api/labels", data={"a": "b"})
        assert (form.status_code, form.json()["error"][:12]) == (415, "content-type")
        nameless = await client.post("/api/labels", json={"verdict": "SUPPORTED", "seen": None})
        assert nameless.status_code == 400
        bad = await client.post("/api/labels", json={**good, "verdict": "so-so"})
        assert bad.status_code == 400
        assert "label 1: verdict" in bad.json()["error"]
        headers = {"content-type": "application/json"}
        assert (await client.post("/api/labels", content=b"{", headers=headers)).status_code == 400
        long = await client.post("/api/labels", content=b" " * 5_000_000, headers=headers)
        assert long.status_code == 413
        assert (await client.get("/api/calibration")).json()["labels"] == 1
        refused = await client.get("/api/calibration", params={"segment": "x"})
        assert refused.status_code == 400
