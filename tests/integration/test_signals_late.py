"""Signals and requests that find each other in any order, through the whole pipeline."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import INFERRED, Signal, Span, StoredRequest
from collector.ports import TELEMETRY, Entry, Store
from collector.sampling import uniform
from collector.telemetry import Metrics
from dashboards.reports import Reports
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.pipeline import Pipeline
from tests.fakes.requests import chain, llm, retriever
from tests.fakes.spans import START_NS, span
from tests.fakes.store import MemoryStore

NOW = datetime.now(UTC)
WINDOW = Window(NOW - timedelta(days=1), NOW + timedelta(days=1))
RATE = 0.2
CONFIG: dict[str, Any] = {"sampling": {"rate": RATE, "salt": "late"}, "message_id_attribute": "m"}


@pytest.fixture(params=["memory", "clickhouse"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    async for opened in real(tmp_path):
        yield opened


@pytest.fixture
async def clickhouse(tmp_path: Path) -> AsyncIterator[ClickHouseStore]:
    async for opened in real(tmp_path):
        yield opened


async def real(folder: Path) -> AsyncIterator[ClickHouseStore]:
    url = f"chdb://{folder / 'store'}"
    opened = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    try:
        yield opened
    finally:
        await opened.close()


def trace_id(*, drawn: bool, number: int = 0) -> str:
    """Return an id that the configured rate draws, or does not, but complaints do."""
    found = [
        i for i in (f"{n:032x}" for n in range(1, 1000)) if (uniform("late", i) < RATE) == drawn
    ]
    return found[number]


def request_of(trace: str, **attributes: Any) -> list[Span]:
    """Return the spans of a request, a moment ago: root, search, answer."""
    shift = int(NOW.timestamp() * 1e9) - START_NS
    answer = llm() | {"gen_ai.response.id": f"chatcmpl-{trace}"}
    plain = [
        span(0, chain() | {"m": f"message-{trace}", "session.id": f"talk-{trace}"} | attributes),
        span(1, retriever("p1"), parent=0),
        span(2, answer, parent=0),
    ]
    # As in real traces, a span id is of one trace only.
    own = int(trace, 16) << 8
    return [
        msgspec.structs.replace(
            s,
            trace_id=trace,
            span_id=f"{int(s.span_id, 16) + own:016x}",
            parent_span_id=s.parent_span_id and f"{int(s.parent_span_id, 16) + own:016x}",
            start_ns=(s.start_ns or 0) + shift,
            end_ns=(s.end_ns or 0) + shift,
        )
        for s in plain
    ]


def complaint(**fields: Any) -> Signal:
    at = NOW + timedelta(seconds=5)
    plain = Signal(
        signal_id=uuid4().hex, kind="thumbs_down", occurred_at=at, received_at=at, sentiment=-1
    )
    return msgspec.structs.replace(plain, **fields)


def message(role: str, content: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


TARGETS: dict[str, Callable[[str], dict[str, str]]] = {
    "trace": lambda t: {"trace_id": t},
    "span": lambda t: {"span_id": request_of(t)[2].span_id},
    "message": lambda t: {"message_id": f"message-{t}"},
    "conversation": lambda t: {"conversation_id": f"talk-{t}"},
}


async def only(store: Store, trace: str) -> StoredRequest:
    found = await store.requests([trace])
    return found[trace]


async def judged(store: Store, pipeline: Pipeline, trace: str) -> bool:
    return trace in await store.judged_versions([trace], pipeline.judge.fingerprint)


async def test_a_complaint_has_its_request_judged_whichever_comes_first(store: Store) -> None:
    early = {target: trace_id(drawn=False, number=n) for n, target in enumerate(TARGETS)}
    late = {target: trace_id(drawn=False, number=n + 4) for n, target in enumerate(TARGETS)}
    traces = [*early.values(), *late.values()]
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        await pipeline.tell(*(complaint(**TARGETS[target](t)) for target, t in early.items()))
        await pipeline.until_idle()
        await pipeline.send(*(request_of(trace) for trace in traces))
        await pipeline.until_idle()
        asked = {request.trace_id for request in pipeline.judge.asked}
        assert asked == set(early.values())
        await pipeline.tell(*(complaint(**TARGETS[target](t)) for target, t in late.items()))
        await pipeline.until_idle()
        for row in (await store.requests(traces)).values():
            assert row.decision.sampled
            assert row.decision.probability == 1.0
            assert (row.decision.first_sampled, row.decision.first_probability) == (False, RATE)
        assert set(await store.judged_versions(traces, pipeline.judge.fingerprint)) == set(traces)
        # Prometheus counts first draws only, and none of these was one.
        assert pipeline.count("requests_not_sampled_total") == 8
        assert pipeline.count("requests_judged_total") == 0
        assert pipeline.count("requests_drawn_late_total") == 8
        assert pipeline.count("faithfulness_weight_total") == 0
        assert pipeline.count("accounting_difference") == 0


async def test_a_response_id_is_enough(store: Store) -> None:
    trace = trace_id(drawn=False)
    shift = int(NOW.timestamp() * 1e9) - START_NS
    spans = [
        span(
            0,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.response.id": "chatcmpl-7",
                "gen_ai.input.messages": message("user", "Q?"),
                "gen_ai.output.messages": message("assistant", "A."),
            },
        )
    ]
    moved = [
        msgspec.structs.replace(
            s, trace_id=trace, start_ns=(s.start_ns or 0) + shift, end_ns=(s.end_ns or 0) + shift
        )
        for s in spans
    ]
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        await pipeline.send(moved)
        await pipeline.until_idle()
        await pipeline.tell(complaint(response_id="chatcmpl-7"))
        await pipeline.until_idle()
    row = await only(store, trace)
    assert row.decision.probability == 1.0


async def test_what_was_judged_before_weighs_by_the_final_probability(store: Store) -> None:
    trace = trace_id(drawn=True)
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        await pipeline.send(request_of(trace))
        await pipeline.until_idle()
        await pipeline.tell(complaint(trace_id=trace))
        await pipeline.until_idle()
        assert len(pipeline.judge.asked) == 1
        assert pipeline.count("faithfulness_weight_total") == pytest.approx(1 / RATE)
        assert pipeline.count("requests_drawn_late_total") == 0
    row = await only(store, trace)
    assert (row.decision.probability, row.decision.sampled) == (1.0, True)
    assert row.decision.at_first.probability == RATE


async def test_late_spans_do_not_lose_what_a_signal_raised(store: Store) -> None:
    trace = trace_id(drawn=False)
    root, search, answer = request_of(trace)
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        await pipeline.send([root, answer])
        await pipeline.until_idle()
        await pipeline.tell(complaint(trace_id=trace))
        await pipeline.until_idle()
        before = await only(store, trace)
    async with pipeline.running():  # a new process: it has forgotten everything
        await pipeline.send([search])
        await pipeline.until_idle()
        after = await only(store, trace)
        assert pipeline.count("accounting_difference") == 0
    assert after.version > before.version
    assert after.decision == before.decision
    assert after.decision.probability == 1.0
    assert len(after.request.documents) == 1
    assert await judged(store, pipeline, trace)


async def test_a_crash_after_raising_still_has_the_request_judged(store: Store) -> None:
    trace = trace_id(drawn=False)
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        await pipeline.send(request_of(trace))
        await pipeline.until_idle()
    row = await only(store, trace)
    # As if a process had died between writing the raised row and queueing its task.
    raised = msgspec.structs.replace(
        row,
        version=row.version | 1,
        decision=msgspec.structs.replace(
            row.decision,
            sampled=True,
            probability=1.0,
            first_probability=RATE,
            first_sampled=False,
        ),
    )
    await store.write_requests([raised])
    async with pipeline.running():
        await pipeline.tell(complaint(trace_id=trace))
        await pipeline.until_idle()
    assert await judged(store, pipeline, trace)


@pytest.mark.parametrize(
    "signal",
    [
        {"sentiment": 1, "kind": "thumbs_up"},
        {"sentiment": 0, "kind": "comment", "comment": "x"},
        {"revoked": True, "sentiment": 0},
        {"kind": "rephrase", "source": INFERRED, "confidence": 0.9},
    ],
)
async def test_what_is_no_complaint_changes_nothing(store: Store, signal: dict[str, Any]) -> None:
    trace = trace_id(drawn=False)
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        await pipeline.send(request_of(trace))
        await pipeline.tell(complaint(trace_id=trace, **signal))
        await pipeline.until_idle()
    row = await only(store, trace)
    assert row.decision.first_probability is None
    assert pipeline.judge.asked == []


async def test_a_complaint_that_was_taken_back_leaves_the_draw_as_it_is(store: Store) -> None:
    trace = trace_id(drawn=False)
    pipeline = Pipeline(store, CONFIG)
    signal = complaint(trace_id=trace)
    later = signal.occurred_at + timedelta(seconds=1)
    gone = msgspec.structs.replace(signal, revoked=True, sentiment=0, occurred_at=later)
    async with pipeline.running():
        await pipeline.send(request_of(trace))
        await pipeline.until_idle()
        await pipeline.tell(signal)
        await pipeline.until_idle()
        await pipeline.tell(gone)
        await pipeline.until_idle()
    assert (await only(store, trace)).decision.probability == 1.0
    (kept,) = await store.signals_with([signal.signal_id])
    assert kept.revoked


async def test_where_texts_are_not_kept_the_first_decision_stays(store: Store) -> None:
    trace = trace_id(drawn=False)
    pipeline = Pipeline(store, {**CONFIG, "store": {"content": "none"}})
    async with pipeline.running():
        await pipeline.send(request_of(trace))
        await pipeline.until_idle()
        await pipeline.tell(complaint(trace_id=trace))
        await pipeline.until_idle()
    assert (await only(store, trace)).decision.probability == RATE


async def test_a_signal_in_telemetry_reaches_its_request(store: Store) -> None:
    trace = trace_id(drawn=False)
    marks = {
        "annotations.0.annotation.name": "user feedback",
        "annotations.0.annotation.annotator_kind": "HUMAN",
        "annotations.0.annotation.score": 0,
    }
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        await pipeline.send(request_of(trace, **marks))
        await pipeline.until_idle()
        await pipeline.until(lambda: pipeline.count("requests_drawn_late_total") == 1)
        await pipeline.until_idle()
    assert await judged(store, pipeline, trace)


def evaluation_of(trace: str) -> bytes:
    """Return an OTLP body with the event of a user who was not content with this trace."""
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.event_name = "gen_ai.evaluation.result"
    record.trace_id = bytes.fromhex(trace)
    record.time_unix_nano = int(NOW.timestamp() * 1e9)
    name = record.attributes.add(key="gen_ai.evaluation.name")
    name.value.string_value = "user_feedback"
    record.attributes.add(key="gen_ai.evaluation.score.value").value.double_value = 0.0
    return request.SerializeToString()


async def test_an_evaluation_event_is_a_signal_and_no_part_of_its_trace(store: Store) -> None:
    trace = trace_id(drawn=False)
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        await pipeline.send(request_of(trace))
        await pipeline.until_idle()
        before = await only(store, trace)
        await pipeline.journal.append(
            [Entry(TELEMETRY, "otlp_logs", "", evaluation_of(t)) for t in (trace, "f" * 32)]
        )
        await pipeline.until(lambda: pipeline.count("requests_drawn_late_total") == 1)
        await pipeline.until_idle()
        # Neither trace was opened again for it: late spans would have grown the version.
        assert pipeline.count("traces_closed_total") == 1
    after = await only(store, trace)
    assert after.version == before.version | 1
    assert after.decision.probability == 1.0


async def test_accounting_and_estimate_use_the_final_weights(clickhouse: ClickHouseStore) -> None:
    """Ten requests, one of them wrong and complained about; only those drawn are judged."""
    drawn = [trace_id(drawn=True, number=n) for n in range(2)]
    others = [trace_id(drawn=False, number=n) for n in range(8)]
    wrong = others[0]
    pipeline = Pipeline(clickhouse, CONFIG)
    pipeline.judge.rule = lambda request: 0.0 if request.trace_id == wrong else 1.0
    reports = Reports(clickhouse, pipeline.judge.fingerprint)
    async with pipeline.running():
        await pipeline.send(*(request_of(t) for t in [*drawn, *others]))
        await pipeline.until_idle()
        before = (await reports.estimates(WINDOW))["total"]
        await pipeline.tell(complaint(trace_id=wrong))
        await pipeline.until_idle()
        after = (await reports.estimates(WINDOW))["total"]
        assert pipeline.count("requests_not_sampled_total") == 8
        assert pipeline.count("accounting_difference") == 0
    assert (before["not_sampled"], before["judged"]) == (8, 2)
    assert (after["not_sampled"], after["judged"], after["waiting"]) == (7, 3, 0)
    assert before["accounting_ok"]
    assert after["accounting_ok"]
    # Two right answers of weight 5 and a wrong one of weight 1: 1 - 1/11.
    sums = await clickhouse.rows(
        "estimate_sums",
        {
            "since": WINDOW.since,
            "until": WINDOW.until,
            "segment": "",
            "scorer": "faithfulness",
            "fingerprint": pipeline.judge.fingerprint,
        },
    )
    assert sum(row["w"] for row in sums) == pytest.approx(11)
    assert sum(row["wl"] for row in sums) == pytest.approx(1)
