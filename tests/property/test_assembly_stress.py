"""Assembly under stress: whatever way the spans of a trace come, one record comes out."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.assembler import Assembler, Closed
from collector.config import AssemblerConfig
from collector.extract import extract
from collector.model import LogRecord, RagRequest, Span, Trace
from collector.otlp import collect_trace, decode_trace, encode_trace, merge_traces, version_of
from collector.ports import Position
from collector.trace_files import read
from tests.fakes.spans import START_NS, span, span_id

QUIET = 10.0
ROOTLESS = 120.0
CONFIG = AssemblerConfig(quiet_seconds=QUIET, rootless_seconds=ROOTLESS)


def add(assembler: Assembler, spans: list[Span], offset: int, now: float) -> None:
    assembler.add(spans, [], Position(0, offset), 500, now)


def played(steps: list[tuple[float, Span]], until: float) -> list[tuple[float, Closed]]:
    """Add each span at its second, look every second, return what was closed and when."""
    assembler = Assembler(CONFIG)
    closed: list[tuple[float, Closed]] = []
    waiting = sorted(enumerate(steps), key=lambda item: item[1][0])
    for second in range(int(until) + 1):
        while waiting and waiting[0][1][0] <= second:
            number, (_, found) = waiting.pop(0)
            add(assembler, [found], number, second)
        closed += [(second, item) for item in assembler.due(second)]
    return closed


def agent(seconds: float, steps: int) -> list[tuple[float, Span]]:
    """An agent that reports a step every so often and its root at the end."""
    pause = seconds / steps
    below = [(pause * (n + 1), span(n + 1, parent=0)) for n in range(steps)]
    return [*below, (seconds, span(0))]


@pytest.mark.parametrize("seconds", [1, 10, 60, 600])
def test_an_agent_of_any_length_is_closed_once_and_shortly_after_its_end(seconds: int) -> None:
    """A fixed delay is too short for one agent and too long for another."""
    ((at, closed),) = played(agent(seconds, 10), until=seconds + 200)
    assert seconds + QUIET <= at <= seconds + QUIET + 1
    assert len(closed.trace.spans) == 11
    assert not closed.late


def test_an_agent_that_is_silent_for_minutes_is_read_again_only_when_it_speaks_again() -> None:
    steps = [(0.0, span(1, parent=0)), *((300.0 + n, span(2 + n, parent=0)) for n in range(60))]
    closed = played([*steps, (365.0, span(0))], until=600)
    assert [(at, len(item.trace.spans), item.late) for at, item in closed] == [
        (ROOTLESS, 1, False),
        (365 + QUIET, 62, True),
    ]


def test_a_root_that_was_only_begun_does_not_end_its_trace() -> None:
    """Some senders report a span when it starts and once more when it ends."""
    begun = span(0, end_ns=None)
    closed = played([(0, begun), (50, span(1, parent=0)), (100, span(0))], until=300)
    assert [(at, len(item.trace.spans)) for at, item in closed] == [(100 + QUIET, 3)]


def test_a_sender_without_times_is_not_made_to_wait() -> None:
    ((at, _),) = played([(0, span(0, start_ns=None, end_ns=None))], until=300)
    assert at == QUIET


def test_evicting_many_traces_at_once_takes_time_in_proportion() -> None:
    """One record may hold many thousand traces; each eviction must find the oldest at once."""
    assembler = Assembler(AssemblerConfig(max_traces=10))
    spans = [
        Span(trace_id=f"{n:032x}", span_id=span_id(n), start_ns=START_NS) for n in range(80_000)
    ]
    started = time.process_time()
    add(assembler, spans, 1, 0.0)
    seconds = time.process_time() - started
    assert len(assembler.due(0.0)) == 79_990
    assert seconds < 4


def test_many_tiny_spans_count_for_the_memory_they_take() -> None:
    assembler = Assembler(AssemblerConfig(max_bytes=1 << 20))
    for number in range(20):
        tiny = [
            Span(trace_id=f"{number:032x}", span_id=span_id(n), parent_span_id=span_id(9_999))
            for n in range(200)
        ]
        assembler.add(tiny, [], Position(0, number), 40, now=0.0)
    assert len(assembler) < 6
    assert assembler.open_bytes <= 1 << 20


DATA = Path(__file__).parents[1] / "data"
RECORDED = [
    trace
    for path in sorted(DATA.glob("*.pb"))
    for trace in read([path])
    if isinstance(extract(trace), RagRequest)
]


class Stored:
    """What outlives a restart: the newest version of each trace, as the processor keeps it."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.telemetry: dict[str, bytes] = {}

    def take(self, closed: list[Closed]) -> None:
        for item in closed:
            trace_id = item.trace.trace_id
            before = self.telemetry.get(trace_id)
            known = decode_trace(before) if before else item.trace
            merged = merge_traces(item.trace, known)
            version = version_of(merged)
            assert version >= self.versions.get(trace_id, 0)
            self.versions[trace_id] = version
            self.telemetry[trace_id] = encode_trace(merged)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_order_split_repetition_pause_and_restart_gives_the_record_of_the_whole(
    data: st.DataObject,
) -> None:
    trace: Trace = data.draw(st.sampled_from(RECORDED))
    items: list[Span | LogRecord] = [*trace.spans, *trace.logs]
    repeated = data.draw(st.lists(st.sampled_from(items), max_size=5))
    order = data.draw(st.permutations([*items, *repeated]))
    limits = AssemblerConfig(max_traces=data.draw(st.integers(1, 3)))
    assembler, stored, now = Assembler(limits), Stored(), 0.0
    while order:
        size = data.draw(st.integers(1, 6))
        batch, order = order[:size], order[size:]
        spans = [item for item in batch if isinstance(item, Span)]
        logs = [item for item in batch if isinstance(item, LogRecord)]
        assembler.add(spans, logs, Position(0, int(now)), 300, now)
        if data.draw(st.booleans()):  # another trace that may push this one out
            other = Span(trace_id=f"{data.draw(st.integers(1, 4)):032x}", span_id=span_id(1))
            assembler.add([other], [], Position(0, int(now)), 300, now)
        now += data.draw(st.sampled_from([0.0, 1.0, 11.0, 130.0]))
        stored.take(assembler.due(now))
        if data.draw(st.integers(0, 4)) == 0:  # a stop, and a start that remembers nothing
            stored.take(assembler.drain())
            assembler = Assembler(limits)
    stored.take(assembler.drain())
    merged = decode_trace(stored.telemetry[trace.trace_id])
    assert merged.spans == trace.spans
    whole = collect_trace(trace.trace_id, trace.spans, trace.logs)
    read_whole, read_merged = extract(whole), extract(merged)
    assert isinstance(read_merged, RagRequest)
    # Only that it was closed by a bound or a stop may be told apart.
    flags = [flag for flag in read_merged.flags if flag != "partial"]
    assert msgspec.structs.replace(read_merged, flags=flags) == read_whole
