"""Whatever comes in whatever order: bounds hold, and each span comes out once per closing."""

from hypothesis import given
from hypothesis import strategies as st

from collector.assembler import Assembler
from collector.config import AssemblerConfig
from collector.model import Span
from collector.ports import Position

Steps = list[tuple[int, bool, float]]


CONFIG = AssemblerConfig()


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 7), st.booleans(), st.floats(0, 30)), min_size=1, max_size=60
    ),
    max_traces=st.integers(1, 5),
)
def test_every_span_and_position_comes_out_exactly_once(steps: Steps, max_traces: int) -> None:
    assembler = Assembler(AssemblerConfig(max_traces=max_traces))
    now = 0.0
    held: dict[Position, int] = {}
    seen: dict[str, set[str]] = {}
    for number, (trace, root, pause) in enumerate(steps):
        now += pause
        span = Span(trace_id=str(trace), span_id=str(number), parent_span_id=None if root else "p")
        held[Position(0, number)] = assembler.add([span], [], Position(0, number), 10, now)
        assert len(assembler) <= max_traces
        for closed in assembler.due(now):
            seen.setdefault(closed.trace.trace_id, set()).update(
                s.span_id for s in closed.trace.spans
            )
            for position in closed.positions:
                held[position] -= 1
    for closed in assembler.drain():
        seen.setdefault(closed.trace.trace_id, set()).update(s.span_id for s in closed.trace.spans)
        for position in closed.positions:
            held[position] -= 1
    assert set(held.values()) == {0}
    assert sum(len(spans) for spans in seen.values()) == len(steps)
    assert assembler.open_bytes == 0


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.booleans(), st.floats(0, 60)), min_size=1, max_size=40
    )
)
def test_a_trace_is_closed_exactly_when_its_wait_is_over(steps: Steps) -> None:
    """A plain model: look at all traces after every step; the assembler keeps a queue."""
    assembler = Assembler(CONFIG)
    now = 0.0
    waits: dict[str, float] = {}
    rooted: set[str] = set()
    for number, (trace, root, pause) in enumerate(steps):
        now += pause
        expected = {name for name, due in waits.items() if due <= now}
        assert {c.trace.trace_id for c in assembler.due(now)} == expected
        for name in expected:
            del waits[name]
        name = str(trace)
        parent = None if root else "p"
        span = Span(trace_id=name, span_id=str(number), parent_span_id=parent)
        assembler.add([span], [], Position(0, number), 10, now)
        if root:
            rooted.add(name)
        wait = CONFIG.quiet_seconds if name in rooted else CONFIG.rootless_seconds
        waits[name] = now + wait
