"""The spans of a trace as a tree of nodes with their facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from collector.conventions import facts_of
from collector.conventions.common import error_of
from collector.conventions.facts import Facts, Kind, SpanError
from collector.model import LogRecord, Span, SpanEvent, Trace

_PASS_THROUGH: frozenset[Kind | None] = frozenset({"llm", "chain", None})

_ASIDE: frozenset[Kind | None] = frozenset({"evaluation", "noise", "pending"})


class Node:
    """One span, its facts (None for a span of no tracing convention) and its relatives."""

    __slots__ = ("children", "depth", "error", "facts", "parent", "span")

    def __init__(self, span: Span, facts: Facts | None) -> None:
        self.span = span
        self.facts = facts
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.depth = 0
        self.error = _error_of(span, facts)

    @property
    def kind(self) -> Kind | None:
        """What the span does, None for plumbing."""
        return self.facts.kind if self.facts else None

    @property
    def start_ns(self) -> int:
        """Start of the span; its end where no start was sent, 0 where nothing was."""
        return self.span.start_ns or self.span.end_ns or 0

    @property
    def end_ns(self) -> int:
        """End of the span; its start where no end was sent, 0 where nothing was."""
        return self.span.end_ns or self.span.start_ns or 0

    @property
    def latency_ms(self) -> float | None:
        """Duration of the span, None unless both times are known and in order."""
        start, end = self.span.start_ns, self.span.end_ns
        return (end - start) / 1e6 if start and end and end >= start else None

    def ancestors(self) -> Iterator[Node]:
        """Yield parent, grandparent and so on up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def descendants(self) -> Iterator[Node]:
        """Yield all nodes below this one, parents before children, in order of start."""
        waiting = list(reversed(self.children))
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def has_below(self, *kinds: Kind) -> bool:
        """Tell whether a node of one of the kinds lies below."""
        return any(node.kind in kinds for node in self.descendants())

    def wraps_llm_call(self) -> bool:
        """Tell whether this span only wraps another span of the same LLM call.

        A call that lies below a tool or an agent is a call of its own.
        """
        waiting = list(self.children)
        while waiting:
            node = waiting.pop()
            if node.kind == "llm":
                return True
            if node.kind in _PASS_THROUGH:
                waiting.extend(node.children)
        return False


def _error_of(span: Span, facts: Facts | None) -> SpanError | None:
    if facts is not None:
        return facts.error or error_of(span)
    return error_of(span) if span.status_code == 2 else None


class Tree:
    """All nodes of a trace in order of start; `roots` are those without a parent here."""

    def __init__(self, nodes: list[Node], roots: list[Node]) -> None:
        self.nodes = nodes
        self.roots = roots

    def root(self) -> Node:
        """Return the span of the whole request: above the first entry, with a parent or not."""
        entry = next((e for e in self.entries() if e.kind not in _ASIDE), self.nodes[0])
        return next((top for top in self.roots if top is entry or _is_below(entry, top)), entry)

    def by_depth(self) -> list[Node]:
        """Return all nodes, the ones nearest a root first."""
        return sorted(self.nodes, key=lambda node: node.depth)

    def entries(self) -> list[Node]:
        """Return the topmost nodes that a tracing convention describes, in order of start."""
        found: list[Node] = []
        waiting = list(reversed(self.roots))
        while waiting:
            node = waiting.pop()
            if node.kind is not None:
                found.append(node)
            else:
                waiting.extend(reversed(node.children))
        return found


def _is_below(node: Node, top: Node) -> bool:
    return any(above is top for above in node.ancestors())


def build(trace: Trace) -> Tree:
    """Build the tree of a trace. Spans whose parents form a circle hang from the earliest."""
    events = _events_of_logs(trace.logs)
    nodes: list[Node] = []
    for span in sorted(trace.spans, key=lambda s: (s.start_ns or s.end_ns or 0, s.span_id)):
        extra = events.get(span.span_id)
        if extra:
            span = msgspec.structs.replace(span, events=[*span.events, *extra])
        nodes.append(Node(span, facts_of(span)))
    by_id = {node.span.span_id: node for node in nodes}
    roots: list[Node] = []
    for node in nodes:
        parent = by_id.get(node.span.parent_span_id or "")
        if parent is None or parent is node:
            roots.append(node)
        else:
            node.parent = parent
            parent.children.append(node)
    _set_depths(nodes, roots)
    return Tree(nodes, roots)


def _set_depths(nodes: list[Node], roots: list[Node]) -> None:
    reached: set[str] = set()
    for root in roots:
        _descend(root, reached)
    for node in nodes:
        if node.span.span_id not in reached:
            if node.parent is not None:
                node.parent.children.remove(node)
                node.parent = None
            roots.append(node)
            _descend(node, reached)


def _descend(root: Node, reached: set[str]) -> None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        reached.add(node.span.span_id)
        for child in node.children:
            child.depth = node.depth + 1
            waiting.append(child)


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
