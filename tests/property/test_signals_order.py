"""Spans and signals in any order, repeated at will, end in the same state."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.model import Decision, Signal, Span
from collector.sampling import uniform
from tests.fakes.pipeline import Pipeline
from tests.fakes.requests import chain, llm, retriever
from tests.fakes.spans import START_NS, span
from tests.fakes.store import MemoryStore

NOW = datetime.now(UTC)
RATE, SIGNAL_RATE = 0.3, 0.7
CONFIG: dict[str, Any] = {
    "assembler": {"quiet_seconds": 0.05, "rootless_seconds": 0.3},
    "sampling": {"rate": RATE, "signal_rate": SIGNAL_RATE, "salt": "order"},
}
_SHIFT = int(NOW.timestamp() * 1e9) - START_NS
# A trace of each fate: drawn at first, drawn only once raised, never drawn.
_IDS = [f"{n:032x}" for n in range(1, 200)]
TRACES = [
    next(i for i in _IDS if low <= uniform("order", i) < high)
    for low, high in ((0.0, RATE), (RATE, SIGNAL_RATE), (SIGNAL_RATE, 1.0))
]


class Final(NamedTuple):
    """All that readers can see of the end of a run."""

    decisions: dict[str, Decision]
    documents: dict[str, int]
    judged: set[str]
    signals: dict[str, Signal]


def spans_of(trace: str) -> list[Span]:
    plain = [span(0, chain()), span(1, retriever("p"), parent=0), span(2, llm(), parent=0)]
    own = int(trace, 16) << 8
    return [
        msgspec.structs.replace(
            s,
            trace_id=trace,
            span_id=f"{int(s.span_id, 16) + own:016x}",
            parent_span_id=s.parent_span_id and f"{int(s.parent_span_id, 16) + own:016x}",
            start_ns=(s.start_ns or 0) + _SHIFT,
            end_ns=(s.end_ns or 0) + _SHIFT,
        )
        for s in plain
    ]


def signal(signal_id: str, second: int, **fields: Any) -> Signal:
    at = NOW + timedelta(seconds=second)
    plain = Signal(
        signal_id=signal_id, kind="thumbs_down", occurred_at=at, received_at=at, sentiment=-1
    )
    return msgspec.structs.replace(plain, **fields)


SPANS: list[Span] = [s for trace in TRACES for s in spans_of(trace)]
SIGNALS = [
    *(signal(f"on trace {t}", 5, trace_id=t) for t in TRACES[:2]),
    signal("on span", 6, span_id=spans_of(TRACES[2])[2].span_id),
    signal("twice", 7, kind="rating", value=2.0, trace_id=TRACES[1]),
    signal("twice", 8, kind="rating", value=1.0, trace_id=TRACES[1]),
    signal("nobody's", 9, trace_id="f" * 32),
]
EVENTS: list[Span | Signal] = [*SPANS, *SIGNALS]


async def run(events: list[Span | Signal], pauses: set[int]) -> Final:
    store = MemoryStore()
    pipeline = Pipeline(store, CONFIG)
    async with pipeline.running():
        for index, event in enumerate(events):
            if isinstance(event, Span):
                await pipeline.send([event])
            else:
                await pipeline.tell(event)
            if index in pauses:
                await pipeline.until_idle()
        await pipeline.until_idle()
        assert pipeline.count("accounting_difference") == 0
        eligible = pipeline.count("requests_eligible_total")
        assert eligible == len(TRACES)
        assert pipeline.count("requests_judged_total") == 1  # the one that was drawn at first
    moment = NOW
    return Final(
        decisions={
            t: msgspec.structs.replace(row.decision, decided_at=moment)
            for t, row in store.by_trace.items()
        },
        documents={t: len(row.request.documents) for t, row in store.by_trace.items()},
        judged={trace_id for trace_id, _, _ in store.judgements},
        signals=dict(store.signals),
    )


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_order_and_repetition_of_spans_and_signals_ends_in_the_same_state(
    data: st.DataObject,
) -> None:
    again = data.draw(st.lists(st.sampled_from(EVENTS), max_size=4))
    events = data.draw(st.permutations([*EVENTS, *again]))
    pauses = set(data.draw(st.lists(st.integers(0, len(events) - 1), max_size=3)))

    final = asyncio.run(run(events, pauses))

    assert {t: d.probability for t, d in final.decisions.items()} == dict.fromkeys(
        TRACES, SIGNAL_RATE
    )
    assert [final.decisions[t].sampled for t in TRACES] == [True, True, False]
    assert [final.decisions[t].at_first.sampled for t in TRACES] == [True, False, False]
    assert {d.at_first.probability for d in final.decisions.values()} == {RATE}
    assert final.documents == dict.fromkeys(TRACES, 1)
    assert final.judged == set(TRACES[:2])
    assert final.signals["twice"].value == 1.0
    assert len(final.signals) == 5
