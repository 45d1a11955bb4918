"""The spans of a trace as a tree of nodes with their facts.

Everything here takes time linear in the number of spans, whatever the shape of the tree: a trace
may hold twenty thousand spans, one below the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from collector.conventions import facts_of
from collector.conventions.common import error_of
from collector.conventions.facts import Facts, Kind, SpanError
from collector.extract.clocks import align
from collector.model import LogRecord, Span, SpanEvent, Trace

_PASS_THROUGH: frozenset[Kind | None] = frozenset({"llm", "chain", None})
_ASIDE: frozenset[Kind | None] = frozenset({"evaluation", "noise", "pending"})
_NO_KINDS: frozenset[Kind] = frozenset()


class Node:
    """One span, its facts (None for a span of no tracing convention) and its relatives.

    `kind` is None for plumbing; `start_ns` is the end where no start was sent and the other way
    round, 0 where neither was; both are put right where a clock was off. `above` and `below` are
    the kinds of spans found there; `wraps_llm_call` says that the span only wraps another span of
    the same LLM call, which calls below a tool or an agent are not.
    """

    __slots__ = (
        "above",
        "below",
        "children",
        "depth",
        "end_ns",
        "error",
        "facts",
        "id",
        "kind",
        "parent",
        "span",
        "start_ns",
        "wraps_llm_call",
    )

    def __init__(self, span: Span, facts: Facts | None) -> None:
        self.span = span
        self.facts = facts
        self.id = span.span_id
        self.kind: Kind | None = facts.kind if facts else None
        self.start_ns = span.start_ns or span.end_ns or 0
        self.end_ns = span.end_ns or span.start_ns or 0
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.depth = 0
        self.error = _error_of(span, facts)
        self.above = _NO_KINDS
        self.below = _NO_KINDS
        self.wraps_llm_call = False

    @property
    def latency_ms(self) -> float | None:
        """Duration of the span, None unless both times are known and in order."""
        start, end = self.span.start_ns, self.span.end_ns
        return (end - start) / 1e6 if start and end and end >= start else None

    @property
    def is_evaluation(self) -> bool:
        """Whether the span judges answers, or lies below one that does."""
        return self.kind == "evaluation" or "evaluation" in self.above

    def ancestors(self) -> Iterator[Node]:
        """Yield parent, grandparent and so on up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


class Tree:
    """All nodes of a trace in order of start; `roots` are those without a parent here.

    `entries` are the topmost nodes that a tracing convention describes, in order of start.
    """

    def __init__(self, nodes: list[Node], roots: list[Node]) -> None:
        self.nodes = nodes
        self.roots = roots
        self.near = _from_the_top(roots)
        for node in self.near:
            for child in node.children:
                child.depth = node.depth + 1
                child.above = _with(node.above, node.kind)
        for node in reversed(self.near):
            parent = node.parent
            if parent is not None:
                parent.below = _with(_union(parent.below, node.below), node.kind)
                passes = node.kind in _PASS_THROUGH and node.wraps_llm_call
                parent.wraps_llm_call |= node.kind == "llm" or passes
        self.near.sort(key=lambda node: node.depth)
        self.entries = [n for n in nodes if n.kind is not None and not n.above]

    def root(self) -> Node:
        """Return the span of the whole request: the topmost one above the first entry."""
        serving = [entry for entry in self.entries if entry.kind not in _ASIDE]
        node = serving[0] if serving else self.nodes[0]
        for above in node.ancestors():
            node = above
        return node

    def above_any(self, ids: Collection[str]) -> set[str]:
        """Return the ids of the nodes that have one of the given ones below them."""
        found: set[str] = set()
        for node in reversed(self.near):
            if node.parent is not None and (node.id in ids or node.id in found):
                found.add(node.parent.id)
        return found

    def below_any(self, ids: Collection[str]) -> set[str]:
        """Return the ids of the nodes that have one of the given ones above them."""
        found: set[str] = set()
        for node in self.near:
            parent = node.parent
            if parent is not None and (parent.id in ids or parent.id in found):
                found.add(node.id)
        return found


def build(trace: Trace) -> Tree:
    """Build the tree of a trace. Spans whose parents form a circle hang from the earliest."""
    events = _events_of_logs(trace.logs)
    nodes: list[Node] = []
    for span in sorted(trace.spans, key=lambda s: (s.start_ns or s.end_ns or 0, s.span_id)):
        extra = events.get(span.span_id)
        if extra:
            span = msgspec.structs.replace(span, events=[*span.events, *extra])
        nodes.append(Node(span, facts_of(span)))
    by_id = {node.id: node for node in nodes}
    roots: list[Node] = []
    for node in nodes:
        parent = by_id.get(node.span.parent_span_id or "")
        if parent is None or parent is node:
            roots.append(node)
        else:
            node.parent = parent
            parent.children.append(node)
    _break_circles(nodes, roots)
    if align(_from_the_top(roots)):
        nodes.sort(key=_by_start)
        for node in nodes:
            node.children.sort(key=_by_start)
    return Tree(nodes, roots)


def _by_start(node: Node) -> tuple[int, str]:
    return node.start_ns, node.id


def _break_circles(nodes: list[Node], roots: list[Node]) -> None:
    """Make roots of the earliest spans that no root leads to."""
    reached = {node.id for node in _from_the_top(roots)}
    for node in nodes:
        if node.id not in reached:
            if node.parent is not None:
                node.parent.children.remove(node)
                node.parent = None
            roots.append(node)
            reached.update(below.id for below in _from_the_top([node]))


def _from_the_top(roots: list[Node]) -> list[Node]:
    """Return the nodes below some roots and these, parents before children."""
    found = list(roots)
    for node in found:
        found.extend(node.children)
    return found


def _union(a: frozenset[Kind], b: frozenset[Kind]) -> frozenset[Kind]:
    return a if a is b or not b else a | b


def _with(kinds: frozenset[Kind], kind: Kind | None) -> frozenset[Kind]:
    return kinds if kind is None or kind in kinds else kinds | {kind}


def _error_of(span: Span, facts: Facts | None) -> SpanError | None:
    if facts is not None:
        return facts.error or error_of(span)
    return error_of(span) if span.status_code == 2 else None


def _events_of_logs(logs: Iterable[LogRecord]) -> dict[str, list[SpanEvent]]:
    """Return the log records of each span as if they were its events."""
    events: dict[str, list[SpanEvent]] = {}
    for record in logs:
        if record.span_id and record.event_name:
            body = record.body if isinstance(record.body, dict) else {}
            events.setdefault(record.span_id, []).append(
                SpanEvent(
                    name=record.event_name,
                    time_ns=record.time_ns,
                    attributes={**record.attributes, **body},
                )
            )
    return events
