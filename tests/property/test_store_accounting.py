"""Accounting and estimate sums of the real engine against a recount in plain Python."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count, zip_longest
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Judgement, JudgementStatus, StoredRequest
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, decision, stored

JUDGE = ("faithfulness", "current")


class Version(NamedTuple):
    number: int
    minutes: int
    service: str | None
    segment: str | None
    ineligible: str | None


class Verdict(NamedTuple):
    judge: tuple[str, str]
    request_version: int
    minutes: int
    status: JudgementStatus
    score: float
    reason: str


class Case(NamedTuple):
    sampled: bool
    probability: float
    prediction: float | None
    versions: list[Version]
    verdicts: list[Verdict]


SHARES = st.sampled_from([0.0, 0.25, 0.5, 1.0])

VERSIONS = st.builds(
    Version,
    number=st.integers(1, 9),
    minutes=st.integers(-40, 100),
    service=st.sampled_from([None, "x"]),
    segment=st.sampled_from([None, "a", "b"]),
    ineligible=st.sampled_from([None, None, None, "no_answer", "no_context"]),
)

VERDICTS = st.builds(
    Verdict,
    judge=st.sampled_from([JUDGE, JUDGE, ("faithfulness", "older"), ("relevance", "current")]),
    request_version=st.integers(1, 9),
    minutes=st.integers(0, 5),
    status=st.sampled_from(["judged", "judged", "failed", "unscored"]),
    score=SHARES,
    reason=st.sampled_from(["timeout", "refused"]),
)

CASES = st.builds(
    Case,
    sampled=st.booleans(),
    probability=st.sampled_from([1.0, 0.5, 0.25, 0.1]),
    prediction=st.none() | SHARES,
    versions=st.lists(VERSIONS, min_size=1, max_size=3, unique_by=lambda version: version.number),
    verdicts=st.lists(
        VERDICTS, max_size=3, unique_by=lambda v: (v.judge, v.request_version, v.minutes)
    ),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    folder = tmp_path_factory.mktemp("store")
    metrics = Metrics(CollectorRegistry())
    store = asyncio.run(ClickHouseStore.open(f"chdb://{folder}", StoreConfig(), metrics))
    yield store
    asyncio.run(store.close())


@pytest.fixture(scope="module")
def hours() -> Iterator[datetime]:
    """Windows of an hour, hours apart, so that examples do not see each other's rows."""
    return (AT - timedelta(hours=6 * number) for number in count())


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases=st.lists(CASES, max_size=10), only=st.sampled_from(["", "a", "unknown"]))
def test_each_request_counts_once_and_the_accounting_adds_up(
    store: ClickHouseStore, hours: Iterator[datetime], cases: list[Case], only: str
) -> None:
    hour = next(hours)
    accounting, sums = asyncio.run(_stored_and_read(store, hour, cases, only))
    for row in (*accounting, *sums):
        assert row["requests"] == row["eligible"] + sum(row["ineligible"].values())
        assert row["eligible"] == (
            row["not_sampled"] + row["judged"] + row["waiting"] + sum(row["failed"].values())
        )
    counted = [case for case in cases if _counts(case, only)]
    assert _flat(accounting) == _flat(sums) == _expected_places(counted)
    expected = _expected_sums(counted)
    assert {(row["service"], row["segment"]) for row in sums} == expected.keys()
    for row in sums:
        hoped = expected[row["service"], row["segment"]]
        assert {name: row[name] for name in hoped} == pytest.approx(hoped)


async def _stored_and_read(
    store: ClickHouseStore, hour: datetime, cases: list[Case], only: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    ids = [uuid4().hex for _ in cases]
    waves = zip_longest(*(case.versions for case in cases))
    for wave in waves:
        rows = zip(ids, cases, wave, strict=True)
        await store.write_requests(
            [_request(hour, id_, case, version) for id_, case, version in rows if version]
        )
    judgements = [
        _judgement(id_, verdict)
        for id_, case in zip(ids, cases, strict=True)
        for verdict in case.verdicts
    ]
    for lot in (judgements[::2], judgements[1::2], judgements[::3]):
        await store.write_judgements(lot, dict.fromkeys(ids, hour))
    parameters = {
        "since": hour,
        "until": hour + timedelta(hours=1),
        "segment": only,
        "scorer": JUDGE[0],
        "fingerprint": JUDGE[1],
    }
    return (
        await store.rows("accounting", parameters),
        await store.rows("estimate_sums", parameters),
    )


def _request(hour: datetime, trace_id: str, case: Case, version: Version) -> StoredRequest:
    return stored(
        trace_id,
        version.number,
        started_at=hour + timedelta(minutes=version.minutes),
        decided=decision(
            sampled=case.sampled,
            probability=case.probability,
            decided_at=hour,
            prediction=case.prediction,
            calibration=None if case.prediction is None else "v1",
        ),
        ineligible=version.ineligible,
        service=version.service,
        segment=version.segment,
    )


def _judgement(trace_id: str, verdict: Verdict) -> Judgement:
    judged = verdict.status == "judged"
    return Judgement(
        trace_id=trace_id,
        scorer=verdict.judge[0],
        fingerprint=verdict.judge[1],
        status=verdict.status,
        score=verdict.score if judged else None,
        reason=None if judged else verdict.reason,
        request_version=verdict.request_version,
        judged_at=AT + timedelta(minutes=verdict.minutes),
    )


# --- The recount -------------------------------------------------------------------------


def _newest(case: Case) -> Version:
    return max(case.versions, key=lambda version: version.number)


def _place(case: Case) -> tuple[str, str]:
    newest = _newest(case)
    return newest.service or "unknown", newest.segment or "unknown"


def _counts(case: Case, only: str) -> bool:
    """The first version decides on the window, the newest on everything else."""
    return 0 <= case.versions[0].minutes < 60 and only in ("", _place(case)[1])


def _verdict(case: Case) -> Verdict | None:
    mine = [verdict for verdict in case.verdicts if verdict.judge == JUDGE]
    return max(mine, key=lambda v: (v.request_version, v.minutes), default=None)


def _state(case: Case) -> tuple[str, str]:
    verdict = _verdict(case)
    if (reason := _newest(case).ineligible) is not None:
        return "ineligible", reason
    if not case.sampled:
        return "not_sampled", ""
    if verdict is None:
        return "waiting", ""
    return ("judged", "") if verdict.status == "judged" else ("failed", verdict.reason)


def _expected_places(cases: list[Case]) -> Counter[tuple[str, ...]]:
    return Counter((*_place(case), *_state(case)) for case in cases)


def _flat(rows: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        place = (row["service"], row["segment"])
        for state in ("not_sampled", "judged", "waiting"):
            found[*place, state, ""] += row[state]
        for state in ("ineligible", "failed"):
            for reason, number in row[state].items():
                found[*place, state, reason] += number
    return +found


def _expected_sums(cases: list[Case]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        place: {"service": place[0], "segment": place[1]}
        | _sums([case for case in cases if _place(case) == place])
        for place in {_place(case) for case in cases}
    }


def _sums(cases: list[Case]) -> dict[str, float | str]:
    judged, weights_failed, unscored = [], [], []
    for case in cases:
        verdict, weight = _verdict(case), 1 / case.probability
        if _state(case)[0] == "judged" and verdict is not None:
            judged.append((weight, 1 - verdict.score, _h(case)))
        elif _state(case)[0] == "failed" and verdict is not None and verdict.status == "failed":
            weights_failed.append(weight)
        elif _state(case)[0] == "failed":
            unscored.append((weight, _h(case)))
    eligible = [case for case in cases if _state(case)[0] != "ineligible"]
    return {
        "n": len(judged),
        "w": sum(w for w, _, _ in judged),
        "wl": sum(w * l_ for w, l_, _ in judged),
        "wll": sum(w * l_**2 for w, l_, _ in judged),
        "w2": sum(w**2 for w, _, _ in judged),
        "w2l": sum(w**2 * l_ for w, l_, _ in judged),
        "w2ll": sum(w**2 * l_**2 for w, l_, _ in judged),
        "wh": sum(w * h for w, _, h in judged),
        "wlh": sum(w * l_ * h for w, l_, h in judged),
        "whh": sum(w * h**2 for w, _, h in judged),
        "w2h": sum(w**2 * h for w, _, h in judged),
        "w2lh": sum(w**2 * l_ * h for w, l_, h in judged),
        "w2hh": sum(w**2 * h**2 for w, _, h in judged),
        "max_w": max((w for w, _, _ in judged), default=0),
        "min_w": min((w for w, _, _ in judged), default=0),
        "n_failed": len(weights_failed),
        "w_failed": sum(weights_failed),
        "w_unscored": sum(w for w, _ in unscored),
        "wh_unscored": sum(w * h for w, h in unscored),
        "n_requests": len(eligible),
        "h": sum(_h(case) for case in eligible),
        "n_predicted": sum(case.prediction is not None for case in eligible),
        "calibration": max(("" if case.prediction is None else "v1" for case in cases), default=""),
    }


def _h(case: Case) -> float:
    return 0.0 if case.prediction is None else 1 - case.prediction
