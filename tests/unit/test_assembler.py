"""Traces are closed when they are complete, in bounded memory, and late spans open them again."""

from collector.assembler import Assembler, Closed
from collector.config import AssemblerConfig
from collector.model import LogRecord, Span
from collector.ports import Position

CONFIG = AssemblerConfig(quiet_seconds=10, rootless_seconds=120, max_open_seconds=1800)


def span(trace: str, number: int, *, root: bool = False) -> Span:
    parent = None if root else "f" * 16
    return Span(trace_id=trace, span_id=f"{number:016x}", parent_span_id=parent)


def add(assembler: Assembler, spans: list[Span], offset: int, now: float, size: int = 1000) -> int:
    return assembler.add(spans, [], Position(0, offset), size, now)


def ids(closed: list[Closed]) -> list[str]:
    return [item.trace.trace_id for item in closed]


def test_a_trace_is_closed_after_its_root_and_a_quiet_time() -> None:
    assembler = Assembler(CONFIG)
    add(assembler, [span("a", 1)], 1, now=0)
    add(assembler, [span("a", 2, root=True)], 2, now=5)
    assert assembler.due(14.9) == []
    (closed,) = assembler.due(15)
    assert [s.span_id[-1] for s in closed.trace.spans] == ["1", "2"]
    assert closed.positions == [Position(0, 1), Position(0, 2)]
    assert closed.trace.closed_by == "root"


def test_spans_that_keep_coming_keep_a_trace_open() -> None:
    assembler = Assembler(CONFIG)
    add(assembler, [span("a", 0, root=True)], 1, now=0)
    for minute in range(1, 10):
        add(assembler, [span("a", minute)], 1 + minute, now=minute * 9)
        assert assembler.due(minute * 9) == []
    assert len(assembler.due(92)[0].trace.spans) == 10


def test_an_agent_of_ten_minutes_is_one_trace() -> None:
    assembler = Assembler(CONFIG)
    for step in range(10):
        add(assembler, [span("a", step)], step, now=step * 60.0)
        assert assembler.due(step * 60.0) == []
    add(assembler, [span("a", 99, root=True)], 99, now=600)
    assert len(assembler.due(610)[0].trace.spans) == 11


def test_a_root_that_comes_after_a_look_shortens_the_wait() -> None:
    assembler = Assembler(CONFIG)
    add(assembler, [span("a", 1)], 1, now=0)
    assert assembler.due(0.1) == []
    add(assembler, [span("a", 2, root=True)], 2, now=0.2)
    assert assembler.due(10.1) == []
    assert ids(assembler.due(10.2)) == ["a"]


def test_without_a_root_a_trace_waits_longer_and_says_so() -> None:
    assembler = Assembler(CONFIG)
    add(assembler, [span("a", 1)], 1, now=0)
    assert assembler.due(119) == []
    assert assembler.due(120)[0].trace.closed_by == "idle"


def test_a_trace_that_never_falls_silent_is_closed_all_the_same() -> None:
    assembler = Assembler(CONFIG)
    for second in range(0, 1800, 5):
        add(assembler, [span("a", second, root=second == 0)], second, now=second)
        assert assembler.due(second) == []
    assert len(assembler.due(1800)) == 1


def test_late_spans_open_a_trace_again_with_what_was_there() -> None:
    assembler = Assembler(CONFIG)
    add(assembler, [span("a", 1, root=True)], 1, now=0)
    assert not assembler.due(10)[0].late
    add(assembler, [span("a", 2)], 2, now=30)
    (closed,) = assembler.due(40)
    assert closed.late
    assert len(closed.trace.spans) == 2
    assert closed.positions == [Position(0, 2)]


def test_too_many_open_traces_close_the_oldest() -> None:
    assembler = Assembler(CONFIG.model_copy(update={"max_traces": 2}))
    for number, trace in enumerate("abc"):
        add(assembler, [span(trace, number)], number, now=number)
    assert len(assembler) == 2
    assert ids(assembler.due(3)) == ["a"]


def test_too_many_bytes_close_the_oldest() -> None:
    assembler = Assembler(CONFIG.model_copy(update={"max_bytes": 1 << 20}))
    for number, trace in enumerate("abc"):
        add(assembler, [span(trace, number)], number, now=number, size=500_000)
    assert assembler.open_bytes <= 1 << 20
    assert ids(assembler.due(3)) == ["a"]


def test_one_huge_trace_is_cut_and_the_cut_is_counted() -> None:
    assembler = Assembler(CONFIG.model_copy(update={"max_spans_per_trace": 20_000}))
    add(assembler, [span("a", n, root=n == 0) for n in range(20_500)], 1, now=0, size=1)
    (closed,) = assembler.due(10)
    assert len(closed.trace.spans) == 20_000
    assert closed.trace.spans_dropped == 500


def test_logs_join_their_trace_and_those_without_one_are_not_taken() -> None:
    assembler = Assembler(CONFIG)
    logs = [LogRecord(trace_id="a", event_name="x"), LogRecord(event_name="y")]
    assert assembler.add([span("a", 1, root=True)], logs, Position(0, 1), 10, 0) == 1
    (closed,) = assembler.due(10)
    assert [record.event_name for record in closed.trace.logs] == ["x"]


def test_draining_closes_everything() -> None:
    assembler = Assembler(CONFIG)
    add(assembler, [span("a", 1), span("b", 1)], 1, now=0)
    drained = assembler.drain()
    assert sorted(ids(drained)) == ["a", "b"]
    assert {item.trace.closed_by for item in drained} == {"shutdown"}
    assert len(assembler) == 0


def test_memory_of_closed_traces_is_bounded() -> None:
    assembler = Assembler(CONFIG.model_copy(update={"max_bytes": 1 << 20}))
    for number in range(100):
        add(assembler, [span(f"t{number}", 1, root=True)], number, now=number, size=100_000)
        assembler.due(number + 0.5)
    assembler.drain()
    add(assembler, [span("t0", 2)], 1000, now=2000)
    add(assembler, [span("t99", 2)], 1001, now=2000)
    late = {item.trace.trace_id: item.late for item in assembler.drain()}
    assert late == {"t0": False, "t99": True}
