"""The named queries on the real engine, against answers worked out by hand."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from collector.conversations import conversation_turns
from collector.model import Calibration, Claim, Document, Judgement, Signal, Verdict
from collector.worst import worst_conversations
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, decision, stored

JUDGE = {"scorer": "faithfulness", "fingerprint": "current"}


@pytest.fixture(scope="module")
def store(clickhouse: ClickHouseStore) -> ClickHouseStore:
    return clickhouse


@pytest.fixture
def day(request: pytest.FixtureRequest) -> datetime:
    """A day of its own for each test, so that tests do not see each other's rows."""
    beside = [item for item in request.session.items if item.path == request.node.path]
    number = beside.index(request.node)
    return AT.replace(hour=0) - timedelta(days=7 * number)


def window(day: datetime, **more: Any) -> dict[str, Any]:
    return {"since": day, "until": day + timedelta(days=1), **more}


def fresh() -> str:
    return uuid4().hex


def judged(trace_id: str, score: float | None = 1.0, **changes: Any) -> Judgement:
    plain = Judgement(
        trace_id=trace_id,
        scorer=JUDGE["scorer"],
        fingerprint=JUDGE["fingerprint"],
        status="judged",
        score=score,
        request_version=1,
        judged_at=AT,
    )
    return msgspec.structs.replace(plain, **changes)


def failed(trace_id: str, reason: str) -> Judgement:
    return judged(trace_id, None, status="failed", reason=reason)


def signal(kind: str, at: datetime, **fields: Any) -> Signal:
    plain = Signal(signal_id=fresh(), kind="copy", occurred_at=at, received_at=at)
    return msgspec.structs.replace(plain, kind=kind, **fields)


def claims(*verdicts: Verdict) -> list[Claim]:
    return [Claim(text=f"claim {number}", verdict=v) for number, v in enumerate(verdicts)]


async def write_judgements(store: ClickHouseStore, at: datetime, *rows: Judgement) -> None:
    await store.write_judgements(rows, {row.trace_id: at for row in rows})


# --- Accounting and estimates ------------------------------------------------------------


async def test_every_request_is_in_exactly_one_place(store: ClickHouseStore, day: datetime) -> None:
    out = decision(sampled=False, probability=0.5)
    names = ["judged", "timeout", "refused", "waiting", "other judge", "skipped", "empty", "bare"]
    ids = {name: fresh() for name in names}
    await store.write_requests(
        [
            stored(
                ids[name],
                started_at=day,
                service="helpdesk",
                segment="lookup",
                decided=out if name == "skipped" else None,
                ineligible="no_answer" if name == "empty" else None,
            )
            for name in names
        ]
    )
    await write_judgements(
        store,
        day,
        judged(ids["judged"]),
        failed(ids["timeout"], "timeout"),
        failed(ids["refused"], "refused"),
        judged(ids["other judge"], fingerprint="older"),
        judged(ids["bare"], status="unscored", score=None, reason="no_claims"),
    )
    rows = await store.rows("accounting", window(day, segment="", **JUDGE))
    assert rows == [
        {
            "service": "helpdesk",
            "segment": "lookup",
            "requests": 8,
            "ineligible": {"no_answer": 1},
            "eligible": 7,
            "not_sampled": 1,
            "judged": 1,
            "waiting": 2,
            "failed": {"timeout": 1, "refused": 1, "no_claims": 1},
        }
    ]


async def test_a_newer_version_takes_the_place_of_the_older_wherever_it_starts(
    store: ClickHouseStore, day: datetime
) -> None:
    trace_id = fresh()
    midnight = day + timedelta(seconds=1)
    await store.write_requests([stored(trace_id, 1, started_at=midnight, segment="before")])
    await write_judgements(store, midnight, judged(trace_id))
    earlier = midnight - timedelta(minutes=5)
    await store.write_requests([stored(trace_id, 2, started_at=earlier, segment="after")])
    (row,) = await store.rows("accounting", window(day, segment="", **JUDGE))
    assert (row["segment"], row["requests"], row["judged"]) == ("after", 1, 1)
    yesterday = window(day - timedelta(days=1), segment="", **JUDGE)
    assert await store.rows("accounting", yesterday) == []
    assert await store.rows("accounting", window(day, segment="before", **JUDGE)) == []


async def test_a_judgement_that_failed_first_counts_as_judged_once_it_succeeds(
    store: ClickHouseStore, day: datetime
) -> None:
    trace_id = fresh()
    await store.write_requests([stored(trace_id, started_at=day)])
    again = msgspec.structs.replace(judged(trace_id), judged_at=AT + timedelta(hours=1))
    await write_judgements(store, day, again)
    await write_judgements(store, day, failed(trace_id, "budget_exhausted"))
    (row,) = await store.rows("accounting", window(day, segment="", **JUDGE))
    assert (row["judged"], row["failed"]) == (1, {})
    assert (row["service"], row["segment"]) == ("unknown", "unknown")


async def test_the_window_holds_its_start_and_not_its_end(
    store: ClickHouseStore, day: datetime
) -> None:
    end = day + timedelta(days=1)
    starts = [day, end - timedelta(microseconds=1), end, day - timedelta(microseconds=1)]
    await store.write_requests([stored(fresh(), started_at=start) for start in starts])
    (row,) = await store.rows("accounting", window(day, segment="", **JUDGE))
    assert row["requests"] == 2


async def test_sums_give_the_hajek_mean_and_variance_of_a_hand_worked_sample(
    store: ClickHouseStore, day: datetime
) -> None:
    # w = 2, 2, 4; l = 0, .5, 1: m = 1 - 5/8 = .375; V = (4*.625^2 + 4*.125^2 + 16*.375^2)/64.
    sample = [(0.5, 1.0), (0.5, 0.5), (0.25, 0.0)]
    for probability, score in sample:
        trace_id = fresh()
        drawn = decision(probability=probability, prediction=0.75, calibration="v1")
        await store.write_requests([stored(trace_id, started_at=day, segment="s", decided=drawn)])
        await write_judgements(store, day, judged(trace_id, score))
    lost, empty = fresh(), fresh()
    claimless = decision(probability=0.5, prediction=0.5, calibration="v2")
    await store.write_requests(
        [
            stored(empty, started_at=day, segment="s", decided=claimless),
            stored(lost, started_at=day, segment="s", decided=decision(probability=0.1)),
            stored(fresh(), started_at=day, segment="s", decided=decision(sampled=False)),
            stored(fresh(), started_at=day, segment="s", ineligible="no_answer"),
        ]
    )
    unscored = judged(empty, None, status="unscored", reason="no_claims")
    await write_judgements(store, day, failed(lost, "timeout"), unscored)
    (row,) = await store.rows("estimate_sums", window(day, segment="s", **JUDGE))
    assert row == {
        "service": "unknown",
        "segment": "s",
        "requests": 7,
        "ineligible": {"no_answer": 1},
        "eligible": 6,
        "not_sampled": 1,
        "judged": 3,
        "waiting": 0,
        "failed": {"no_claims": 1, "timeout": 1},
        "n": 3,
        "w": 8.0,
        "wl": 5.0,
        "wll": 4.5,
        "w2": 24.0,
        "w2l": 18.0,
        "w2ll": 17.0,
        "wh": 2.0,
        "wlh": 1.25,
        "whh": 0.5,
        "w2h": 6.0,
        "w2lh": 4.5,
        "w2hh": 1.5,
        "max_w": 4.0,
        "min_w": 2.0,
        "n_failed": 1,
        "w_failed": 10.0,
        "w_unscored": 2.0,
        "wh_unscored": 1.0,
        "n_requests": 6,
        "h": 1.25,
        "n_predicted": 4,
        "calibration": "v2",
    }
    loss = row["wl"] / row["w"]
    variance = (row["w2ll"] - 2 * loss * row["w2l"] + loss**2 * row["w2"]) / row["w"] ** 2
    assert variance == pytest.approx((4 * 0.625**2 + 4 * 0.125**2 + 16 * 0.375**2) / 64)


async def test_a_complaint_changes_the_prediction_that_counts(
    store: ClickHouseStore, day: datetime
) -> None:
    drawn = decision(prediction=0.75, complaint_prediction=0.25, calibration="v1")
    raised = msgspec.structs.replace(drawn, first_probability=0.5, first_sampled=True)
    await store.write_requests(
        [
            stored(fresh(), started_at=day, segment="c", decided=drawn),
            stored(fresh(), started_at=day, segment="c", decided=raised),
        ]
    )
    (row,) = await store.rows("estimate_sums", window(day, segment="c", **JUDGE))
    assert (row["n_predicted"], row["h"]) == (2, 0.25 + 0.75)


async def test_sums_over_conversations_of_a_hand_worked_sample(
    store: ClickHouseStore, day: datetime
) -> None:
    # Conversation x asks twice in segment s and once in t; the last request has none.
    sample = [("x", "s", 0.5, 0.0), ("x", "s", 0.25, 0.5), ("x", "t", 1.0, 0.0), (None, "s", 1, 1)]
    for talk, segment, probability, score in sample:
        trace_id = fresh()
        drawn = decision(probability=probability, prediction=0.5, calibration="v1")
        await store.write_requests(
            [stored(trace_id, started_at=day, segment=segment, conversation_id=talk, decided=drawn)]
        )
        await write_judgements(store, day, judged(trace_id, score))
    rows = await store.rows("conversation_sums", window(day, segment="", **JUDGE))
    found = {(row["level"], row["segment"]): row for row in rows}
    assert found.keys() == {
        *(("both", "s"), ("both", "t")),
        *(("segment", "s"), ("segment", "t")),
        ("all", ""),
    }
    # x in s: W = 2 + 4, A = 2 + 4 * .5, B = W / 2; the single request: W = 1, A = 0, B = .5.
    expected = {"n": 2, "ww": 37, "wa": 24, "wb": 18.5, "aa": 16, "ab": 12, "bb": 9.25}
    for level in ("both", "segment"):
        row = found[level, "s"]
        assert {key: row[key] for key in expected} == expected
    # Over all, x has W = 7 and A = 5.
    row = found["all", ""]
    assert (row["n"], row["ww"], row["wa"], row["aa"]) == (2, 50, 35, 25)


async def test_a_calibration_is_found_again_with_what_has_been_judged_since(
    store: ClickHouseStore, day: datetime
) -> None:
    asked = {"scorer": "faithfulness", "fingerprint": fresh()}
    (row,) = await store.rows("calibrations", asked)
    assert (row["version"], row["judged"]) == ("", 0)
    first = Calibration(**asked, version="1", fitted_at=day, n=200, model="{1}")
    newest = msgspec.structs.replace(first, version="2", n=300, model="{2}")
    other = msgspec.structs.replace(first, fingerprint="another", version="3")
    for calibration in (newest, first, newest, other):
        await store.write_calibration(calibration)
    await write_judgements(store, day, judged(fresh(), fingerprint=asked["fingerprint"]))
    (row,) = await store.rows("calibrations", asked)
    assert row == {"version": "2", "fitted_at": day, "n": 300, "model": "{2}", "judged": 1}


async def test_judges_of_a_window_are_listed_the_last_to_judge_first(
    store: ClickHouseStore, day: datetime
) -> None:
    first, second = fresh(), fresh()
    later = AT + timedelta(hours=2)
    await write_judgements(
        store,
        day,
        judged(first, fingerprint="a", engine="lexical"),
        judged(second, fingerprint="a", engine="lexical", status="failed", score=None),
        judged(first, fingerprint="b", engine="openai", model="m", judged_at=later),
    )
    await write_judgements(store, day, judged(first, fingerprint="a", engine="lexical"))
    rows = await store.rows("latest_fingerprint", window(day))
    assert [(r["fingerprint"], r["judged"], r["failed"], r["unscored"]) for r in rows] == [
        ("b", 1, 0, 0),
        ("a", 1, 1, 0),
    ]
    assert rows[0]["last_judged_at"] == later
    assert (rows[0]["engine"], rows[0]["model"], rows[1]["model"]) == ("openai", "m", "")


async def test_a_change_of_the_judge_is_seen_each_time(
    store: ClickHouseStore, day: datetime
) -> None:
    hours = {hour: AT + timedelta(hours=hour) for hour in range(5)}
    for hour, fingerprint in enumerate(["a", "a", "b", "b", "a"]):
        verdict = judged(fresh(), fingerprint=fingerprint, judged_at=hours[hour])
        await write_judgements(store, day, verdict)
    rows = await store.rows("judge_changes", window(day, scorer="faithfulness"))
    assert [(row["at"], row["previous"], row["fingerprint"]) for row in rows] == [
        (hours[2], "a", "b"),
        (hours[4], "b", "a"),
    ]


# --- Signals -----------------------------------------------------------------------------


async def test_signals_are_counted_by_the_segment_of_what_they_hang_on(
    store: ClickHouseStore, day: datetime
) -> None:
    by_trace, by_response, by_message, talk = fresh(), fresh(), fresh(), fresh()
    await store.write_requests(
        [
            stored(by_trace, started_at=day, segment="a"),
            stored(fresh(), started_at=day, segment="b", response_ids=["x", by_response]),
            stored(fresh(), started_at=day, segment="c", message_id=by_message),
            stored(fresh(), started_at=day, segment="d", conversation_id=talk),
        ]
    )
    revoked = signal("thumbs_down", day, trace_id=by_trace, sentiment=-1)
    await store.write_signals(
        [
            signal("thumbs_down", day, trace_id=by_trace, sentiment=-1),
            signal("thumbs_up", day, response_id=by_response, sentiment=1),
            signal("copy", day, message_id=by_message),
            signal("abandon", day, conversation_id=talk, sentiment=-1),
            signal("thumbs_down", day, trace_id=fresh(), sentiment=-1),
            signal("thumbs_down", day, trace_id=fresh(), conversation_id=talk, sentiment=-1),
            revoked,
        ]
    )
    taken_back = {"revoked": True, "occurred_at": day + timedelta(minutes=1)}
    await store.write_signals([msgspec.structs.replace(revoked, **taken_back)])
    await store.write_signals([revoked])
    rows = await store.rows("signals_summary", window(day))
    assert [tuple(row.values()) for row in rows] == [
        ("a", "thumbs_down", False, 1, 0, 1, 1),
        ("b", "thumbs_up", False, 1, 1, 0, 1),
        ("c", "copy", False, 1, 0, 0, 1),
        ("d", "abandon", False, 1, 0, 1, 1),
        ("d", "thumbs_down", False, 1, 0, 1, 1),
        ("unknown", "thumbs_down", False, 1, 0, 1, 0),
    ]
    assert list(rows[0]) == [
        *("segment", "kind", "inferred", "signals", "positive", "negative", "matched"),
    ]


# --- Worst conversations -----------------------------------------------------------------

PARTS = (
    "thumbs_down",
    "low_rating",
    "rephrase",
    "push_back",
    "regenerate",
    "abandon",
    "repeated_clicks",
    "contradicted",
    "unsupported",
    "low_lexical",
    "no_context",
    "failed_request",
    "stray_citation",
)


async def worst(store: ClickHouseStore, day: datetime, **more: Any) -> list[dict[str, Any]]:
    given = {"segment": "", "fingerprint": "current", "limit": 20} | more
    limit = int(str(given.pop("limit")))
    rows = await worst_conversations(store, window(day, **given), limit)
    for row in rows:
        assert row["badness"] == pytest.approx(sum(row[part] for part in PARTS))
    return rows


async def test_each_fault_adds_its_share_of_badness(store: ClickHouseStore, day: datetime) -> None:
    documents = [Document(rank=1, source="page-1", text="text")]
    requests: dict[str, dict[str, Any]] = {
        "thumbs_down": {},
        "low_rating": {},
        "rephrase": {},
        "regenerate": {},
        "abandon": {},
        "contradicted": {},
        "unsupported": {},
        "low_lexical": {"lexical_score": 0.25},
        "no_context": {"flags": ["empty_retrieval"], "answer": "yes"},
        "failed_request": {"status": "error"},
        "stray_citation": {"documents": documents, "citations": [1, 2]},
        "fine": {"documents": documents, "citations": [1], "lexical_score": 0.1},
        "no answer": {"flags": ["no_retrieval"]},
    }
    ids = {name: fresh() for name in requests}
    names = {trace_id: name for name, trace_id in ids.items()}
    await store.write_requests(
        [stored(ids[name], started_at=day, **fields) for name, fields in requests.items()]
    )
    await write_judgements(
        store,
        day,
        judged(ids["contradicted"], claims=claims("CONTRADICTED", "CONTRADICTED", "CONTRADICTED")),
        judged(
            ids["unsupported"],
            claims=claims("SUPPORTED", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND"),
        ),
        judged(ids["fine"], claims=claims("SUPPORTED")),
    )
    await store.write_signals(
        [
            signal("thumbs_down", day, trace_id=ids["thumbs_down"], sentiment=-1),
            signal("rating", day, trace_id=ids["low_rating"], sentiment=-1),
            signal("rephrase", day, trace_id=ids["rephrase"], sentiment=-1),
            signal("regenerate", day, trace_id=ids["regenerate"], sentiment=-1),
            signal("abandon", day, trace_id=ids["abandon"], sentiment=-1),
            signal("rating", day, trace_id=ids["fine"], sentiment=1),
            signal("copy", day, trace_id=ids["fine"]),
        ]
    )
    rows = await worst(store, day)
    found = {
        names[row["conversation"]]: {part: row[part] for part in PARTS if row[part]} for row in rows
    }
    assert found == {
        "contradicted": {"contradicted": 4.0},
        "thumbs_down": {"thumbs_down": 3.0},
        "unsupported": {"unsupported": 3.0},
        "low_rating": {"low_rating": 2.0},
        "rephrase": {"rephrase": 1.5},
        "regenerate": {"regenerate": 1.5},
        "abandon": {"abandon": 1.5},
        "failed_request": {"failed_request": 1.5},
        "no_context": {"no_context": 1.0},
        "stray_citation": {"stray_citation": 1.0},
        "low_lexical": {"low_lexical": 0.75},
    }
    assert [row["badness"] for row in rows] == sorted((r["badness"] for r in rows), reverse=True)


async def test_a_conversation_is_one_row_with_its_worst_request(
    store: ClickHouseStore, day: datetime
) -> None:
    talk = fresh()
    ids = [fresh() for _ in range(3)]
    await store.write_requests(
        [
            stored(
                trace_id,
                started_at=day + timedelta(minutes=number),
                conversation_id=talk,
                segment="lookup",
                question=f"question {number}",
                answer=f"answer {number}",
                documents=[Document(rank=1, source=f"page-{number}", text=f"text {number}")],
                response_ids=[f"{trace_id}-r"],
            )
            for number, trace_id in enumerate(ids)
        ]
    )
    other = stored(fresh(), started_at=day, segment="other", status="error")
    await store.write_requests([other])
    await write_judgements(
        store,
        day,
        judged(ids[0], 1.0, claims=claims("SUPPORTED")),
        judged(ids[1], 0.5, claims=claims("SUPPORTED", "CONTRADICTED")),
    )
    taken_back = signal("thumbs_down", day, trace_id=ids[2], sentiment=-1, revoked=True)
    await store.write_signals(
        [
            signal("abandon", day, conversation_id=talk, sentiment=-1, comment="gave up"),
            signal("rephrase", day, response_id=f"{ids[0]}-r", sentiment=-1),
            taken_back,
        ]
    )
    rows = await worst(store, day)
    assert [row["conversation"] for row in rows] == [talk, other.request.trace_id]
    row = rows[0]
    assert (row["badness"], row["abandon"], row["rephrase"], row["contradicted"]) == (
        5,
        1.5,
        1.5,
        2,
    )
    assert (row["thumbs_down"], row["requests"]) == (0, 3)
    assert row["trace_ids"] == ids
    assert row["questions"] == ["question 0", "question 1", "question 2"]
    assert (row["worst_trace_id"], row["answer"], row["score"]) == (ids[1], "answer 1", 0.5)
    assert row["judgement_status"] == "judged"
    assert [claim["verdict"] for claim in row["claims"]] == ["SUPPORTED", "CONTRADICTED"]
    assert row["documents"][0]["source"] == "page-1"
    assert {mark["kind"] for mark in row["signals"]} == {"abandon", "rephrase"}
    assert row["signals_total"] == 2

    assert [r["conversation"] for r in await worst(store, day, limit=1)] == [talk]
    assert [r["conversation"] for r in await worst(store, day, segment="lookup")] == [talk]
    (unjudged,) = await worst(store, day, segment="lookup", fingerprint="another")
    assert (unjudged["badness"], unjudged["judgement_status"]) == (3, "")
    assert (unjudged["claims"], unjudged["score"]) == ([], None)


async def test_a_request_is_worst_by_the_signals_on_itself(
    store: ClickHouseStore, day: datetime
) -> None:
    talk, liked, hated = fresh(), fresh(), fresh()
    await store.write_requests(
        [
            stored(liked, started_at=day, conversation_id=talk, lexical_score=0.5),
            stored(hated, started_at=day, conversation_id=talk, message_id=f"{hated}-m"),
        ]
    )
    await store.write_signals([signal("thumbs_down", day, message_id=f"{hated}-m", sentiment=-1)])
    (row,) = await worst(store, day)
    assert (row["worst_trace_id"], row["badness"]) == (hated, 3)


async def test_a_conversation_shows_every_request_with_judgement_and_signals(
    store: ClickHouseStore, day: datetime
) -> None:
    talk, first, second = fresh(), fresh(), fresh()
    later = day + timedelta(minutes=3)
    await store.write_requests(
        [
            stored(second, started_at=later, conversation_id=talk, question="second"),
            stored(first, started_at=day, conversation_id=talk, question="old"),
        ]
    )
    await store.write_requests(
        [stored(first, 2, started_at=day, conversation_id=talk, question="first", answer="yes")]
    )
    await write_judgements(store, day, judged(first, 0.0, claims=claims("NOT_FOUND")))
    await store.write_signals(
        [
            signal("thumbs_down", day, trace_id=second, sentiment=-1),
            signal("comment", later, conversation_id=talk, comment="no good"),
        ]
    )
    rows = await conversation_turns(store, talk, "", most=50, fingerprint="current")
    assert [(r["trace_id"], r["question"], r["version"]) for r in rows] == [
        (first, "first", 2),
        (second, "second", 1),
    ]
    assert [(r["judgement_status"], r["score"], len(r["claims"])) for r in rows] == [
        ("judged", 0.0, 1),
        ("", None, 0),
    ]
    assert [[mark["kind"] for mark in r["signals"]] for r in rows] == [[], ["thumbs_down"]]
    assert {r["conversation_signals"][0]["kind"] for r in rows} == {"comment"}

    alone = stored(fresh(), started_at=day, question="alone")
    await store.write_requests([alone])
    (row,) = await conversation_turns(
        store, alone.request.trace_id, "", most=50, fingerprint="current"
    )
    assert row["question"] == "alone"
