"""Traces as they really come, through processor, judge and store: once in every number."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.extract import extract
from collector.model import NotARequest, Span
from collector.otlp import collect_trace
from collector.ports import TELEMETRY, Store
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


@pytest.fixture(params=["memory", "clickhouse"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
        return
    url = f"chdb://{tmp_path / 'store'}"
    opened = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
async def clickhouse(tmp_path: Path) -> AsyncIterator[ClickHouseStore]:
    url = f"chdb://{tmp_path / 'store'}"
    opened = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    try:
        yield opened
    finally:
        await opened.close()


def request_of(number: int, *documents: str, **fields: Any) -> list[Span]:
    """Return the spans of a request of its own trace, a moment ago: root, search, answer."""
    shift = int(NOW.timestamp() * 1e9) - START_NS
    plain = [span(0, chain()), span(1, retriever(*documents), parent=0), span(2, llm(), parent=0)]
    return [
        msgspec.structs.replace(
            s,
            trace_id=f"{number:032x}",
            start_ns=(s.start_ns or 0) + shift,
            end_ns=(s.end_ns or 0) + shift,
            **fields,
        )
        for s in plain
    ]


async def judged_by_readers(store: Store, pipeline: Pipeline) -> tuple[int, int]:
    """Return how many requests and judgements a reader of the store counts."""
    if isinstance(store, MemoryStore):
        return len(store.by_trace), len(store.judgements)
    total = (await Reports(store, pipeline.judge.fingerprint).estimates(WINDOW))["total"]
    assert total["accounting_ok"]
    return total["requests"], total["judged"]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
async def test_late_spans_after_judging_supersede_and_are_judged_again(
    store: Store, restart: bool
) -> None:
    root, search, answer = request_of(1, "a", "b", "c")
    fewer = request_of(1, "a")[1]
    pipeline = Pipeline(store)
    async with pipeline.running():
        await pipeline.send([root, fewer, answer])
        await pipeline.until_idle()
        assert [len(r.documents) for r in pipeline.judge.asked] == [1]
        if not restart:
            await pipeline.send([search])
            await pipeline.until(lambda: len(pipeline.judge.asked) == 2)
            await pipeline.until_idle()
            assert pipeline.count("requests_total") == 1
            assert pipeline.count("requests_judged_total") == 1
            assert pipeline.count("accounting_difference") == 0
    if restart:
        async with pipeline.running():
            await pipeline.send([search])
            await pipeline.until(lambda: len(pipeline.judge.asked) == 2)
            await pipeline.until_idle()
            assert pipeline.count("requests_total") == 0
    assert [len(r.documents) for r in pipeline.judge.asked] == [1, 3]
    known = (await store.known([root.trace_id]))[root.trace_id]
    versions = await store.judged_versions([root.trace_id], pipeline.judge.fingerprint)
    assert versions == {root.trace_id: known.version}
    assert await judged_by_readers(store, pipeline) == (1, 1)


async def test_many_waves_of_late_spans_never_count_twice(clickhouse: ClickHouseStore) -> None:
    pipeline = Pipeline(clickhouse)
    pipeline.judge.rule = lambda _: 0.0
    requests = [request_of(n, "a", "b") for n in range(1, 9)]
    chance = random.Random(3)
    async with pipeline.running():
        for wave in range(3):
            late = [spans[2 - wave] for spans in requests]
            chance.shuffle(late)
            await pipeline.send(*([found] for found in late))
            await pipeline.until_idle()
            await asyncio.sleep(0.5)
            await pipeline.until_idle()
        assert pipeline.count("requests_eligible_total") == 8
        assert pipeline.count("faithfulness_judged_total") == 8
        assert pipeline.count("accounting_difference") == 0
    assert await judged_by_readers(clickhouse, pipeline) == (8, 8)
    review = await Reports(clickhouse, pipeline.judge.fingerprint).review(WINDOW)
    turns = [turn for c in review["conversations"] for turn in c["turns"]]
    assert sorted(turn["trace_id"] for turn in turns) == [f"{n:032x}" for n in range(1, 9)]
    assert all(len(turn["documents"]) == 2 for turn in turns)


@pytest.mark.parametrize("seed", range(3))
async def test_spans_over_many_bodies_in_any_order_and_repeated_are_one_request(seed: int) -> None:
    chance = random.Random(seed)
    whole = [span(0, chain()), *(span(n, retriever(f"d{n}"), parent=0) for n in range(1, 40))]
    whole.append(span(40, llm(), parent=0, start_ns=START_NS + 10**8, end_ns=START_NS + 2 * 10**8))
    sent = [*whole, *chance.choices(whole, k=20)]
    chance.shuffle(sent)
    store = MemoryStore()
    pipeline = Pipeline(store)
    async with pipeline.running():
        batches = [sent[start::12] for start in range(12)]
        for batch in batches:
            await pipeline.send(batch)
            await asyncio.sleep(chance.random() * 0.03)
        await pipeline.until_idle()
    (row,) = store.by_trace.values()
    expected = extract(collect_trace(whole[0].trace_id, whole))
    assert not isinstance(expected, NotARequest)
    assert len(expected.documents) == 39
    read = msgspec.structs.replace(row.request, segment=None)
    assert msgspec.json.encode(read) == msgspec.json.encode(expected)


def agent_of(steps: int) -> list[Span]:
    """An agent whose every step searches and asks, one below the other."""
    spans = [span(0, chain())]
    for number in range(1, steps):
        what = retriever(f"d{number}") if number % 2 else llm(f"Step {number}?", "Go on.")
        spans.append(span(number, what, parent=number - 1))
    return spans


async def test_a_trace_of_twenty_thousand_spans_is_one_request_in_bounded_time() -> None:
    chance = random.Random(1)
    spans = agent_of(20_000)
    chance.shuffle(spans)
    store = MemoryStore()
    pipeline = Pipeline(store, {"assembler": {"quiet_seconds": 2.0, "rootless_seconds": 10.0}})
    started = time.process_time()
    async with pipeline.running():
        for start in range(0, len(spans), 250):
            await pipeline.send(spans[start : start + 250])
        await pipeline.until_idle(120)
    seconds = time.process_time() - started
    (row,) = store.by_trace.values()
    assert (row.request.question, row.request.answer) == ("Q?", "A.")
    assert row.request.retriever_stages == 1  # nested searches: the innermost one is a step
    assert "partial" not in row.request.flags
    assert pipeline.count("spans_dropped_total") == 0
    assert pipeline.letters.kept == []
    assert seconds < 60


async def test_spans_over_the_bound_of_a_trace_are_counted_and_the_record_says_partial() -> None:
    store = MemoryStore()
    pipeline = Pipeline(store, {"assembler": {"quiet_seconds": 0.3, "max_spans_per_trace": 100}})
    spans = [*request_of(1, "a"), *(span(n, parent=0) for n in range(3, 160))]
    spans = [msgspec.structs.replace(s, trace_id=f"{1:032x}") for s in spans]
    async with pipeline.running():
        await pipeline.send(spans[:80], spans[80:])
        await pipeline.until_idle()
        assert pipeline.count("spans_dropped_total") == 60
    (row,) = store.by_trace.values()
    assert "partial" in row.request.flags


async def test_what_stops_half_way_is_whole_after_the_restart() -> None:
    """Spans that are no request by themselves wait in the journal for the others."""
    root, search, answer = request_of(1, "a", "b")
    store = MemoryStore()
    pipeline = Pipeline(store, {"assembler": {"quiet_seconds": 0.2, "rootless_seconds": 600}})
    async with pipeline.running():
        await pipeline.send([search])
        await pipeline.until(lambda: pipeline.count("assembler_traces") == 1)
    assert store.by_trace == {}
    assert pipeline.waiting(TELEMETRY) == 1
    async with pipeline.running():
        await pipeline.send([answer, root])
        await pipeline.until_idle()
        assert pipeline.count("traces_ignored_total") == 0
    (row,) = store.by_trace.values()
    assert len(row.request.documents) == 2


@pytest.mark.parametrize("content", ["redacted", "none"])
async def test_where_spans_are_not_kept_a_stop_leaves_open_traces_to_the_next_start(
    content: str,
) -> None:
    root, search, answer = request_of(1, "a", "b")
    store = MemoryStore()
    pipeline = Pipeline(
        store,
        {
            "store": {"content": content},
            "assembler": {"quiet_seconds": 0.2, "rootless_seconds": 600},
        },
    )
    async with pipeline.running():
        await pipeline.send([search, answer])
        await pipeline.until(lambda: pipeline.count("assembler_traces") == 1)
    assert store.by_trace == {}
    async with pipeline.running():
        await pipeline.send([root])
        await pipeline.until_idle()
    (row,) = store.by_trace.values()
    assert len(row.request.documents) == 2
    assert row.request.llm_calls == 1


async def test_traffic_that_is_no_request_is_counted_by_reason_and_left_out() -> None:
    store = MemoryStore()
    pipeline = Pipeline(store, {"ignore_services": ["load-test"]})
    kinds = {
        "no_genai": [span(0, {"http.request.method": "GET"})],
        "embedding_only": [span(0, {"ai.operationId": "ai.embed"})],
        "evaluation": [span(0, {"openinference.span.kind": "EVALUATOR"})],
        "pending": [span(0, {"logfire.span_type": "pending_span"})],
        "startup_noise": [span(0, name="haystack.tracing.auto_enable", status_code=2)],
        "no_content": [span(0, retriever("a"))],
        "ignored_service": [span(0, llm(), resource={"service.name": "load-test"})],
    }
    batches = [
        [msgspec.structs.replace(s, trace_id=f"{number:032x}") for s in spans]
        for number, spans in enumerate(kinds.values(), start=1)
    ]
    async with pipeline.running():
        await pipeline.send(*batches, request_of(99, "a"))
        await pipeline.until_idle()
        counted = {
            reason: pipeline.count("traces_ignored_total", reason=reason) for reason in kinds
        }
    assert counted == dict.fromkeys(kinds, 1)
    assert list(store.by_trace) == [f"{99:032x}"]


async def test_head_sampled_requests_stand_for_those_that_were_not_kept(
    clickhouse: ClickHouseStore,
) -> None:
    """`ot=th:c` keeps a quarter: each of these counts for four, so 4·20·0 + 80·1 over 160."""
    pipeline = Pipeline(clickhouse)
    pipeline.judge.rule = lambda request: float(int(request.trace_id, 16) > 20)
    kept = [request_of(n, "a", trace_state="vendor=1,ot=th:c;rv:fe") for n in range(1, 21)]
    plain = [request_of(n, "a") for n in range(21, 101)]
    async with pipeline.running():
        await pipeline.send(*kept, *plain)
        await pipeline.until_idle()
        assert pipeline.count("faithfulness_weight_total") == pytest.approx(160)
        assert pipeline.count("faithfulness_weighted_loss_total") == pytest.approx(80)
    report = await Reports(clickhouse, pipeline.judge.fingerprint).estimates(WINDOW)
    assert report["total"]["judged"] == 100
    assert report["total"]["estimate"] == pytest.approx(0.5)


async def test_requests_without_a_conversation_are_reviewed_each_as_its_own(
    clickhouse: ClickHouseStore,
) -> None:
    pipeline = Pipeline(clickhouse)
    pipeline.judge.rule = lambda _: 0.0
    named = request_of(3, "a")
    named[0].attributes["session.id"] = "s-1"
    async with pipeline.running():
        await pipeline.send(request_of(1, "a"), request_of(2, "a"), named)
        await pipeline.until_idle()
    review = await Reports(clickhouse, pipeline.judge.fingerprint).review(WINDOW)
    conversations = {c["conversation_id"]: len(c["turns"]) for c in review["conversations"]}
    assert conversations == {f"{1:032x}": 1, f"{2:032x}": 1, "s-1": 1}


async def test_a_store_that_hangs_stops_the_reading_and_loses_nothing() -> None:
    """What cannot be stored waits in the journal, not in memory."""
    store = MemoryStore()
    write, go_on = store.write_requests, asyncio.Event()

    async def hanging(rows: Any) -> None:
        await go_on.wait()
        await write(rows)

    store.write_requests = hanging  # type: ignore[method-assign]
    limits = {"quiet_seconds": 0.05, "rootless_seconds": 0.2, "max_traces": 20}
    pipeline = Pipeline(store, {"assembler": limits, "store": {"flush_rows": 10}})
    async with pipeline.running():
        await pipeline.send(*(request_of(n, "a") for n in range(1, 601)))
        await asyncio.sleep(1.5)
        (reader,) = pipeline.journal.members[TELEMETRY, "g"]
        # Open traces, those evicted since, those being stored, and one more read of 64 records.
        assert (reader.next or 0) < 20 + 2 * 10 + 10 + 2 * 64
        assert pipeline.waiting(TELEMETRY) == 600
        go_on.set()
        await pipeline.until_idle()
    assert len(store.by_trace) == 600
