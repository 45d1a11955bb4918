"""The clocks of several machines brought together, so that steps come in their true order.

The method of Jaeger's clock skew adjuster (https://github.com/jaegertracing/jaeger): what another
process did for a span lies within that span; where its times say otherwise its clock is off, and
it is moved into the middle of its parent, with all below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collector.extract.tree import Node

_Clock = tuple[object, ...]


def align(nodes: Iterable[Node]) -> bool:
    """Move the nodes of processes whose clock is off; tell whether any was moved.

    Only `start_ns` and `end_ns` of the nodes change, which order them. The spans stay as they
    were sent, and so do the times that are shown.

    Args:
        nodes: parents before their children.
    """
    skews: dict[str, int] = {}
    clocks: dict[str, _Clock] = {}
    for node in nodes:
        parent = node.parent
        if parent is None:
            clocks[node.id] = _clock_of(node)
            continue
        same = node.span.resource is parent.span.resource
        clock = clocks[node.id] = clocks[parent.id] if same else _clock_of(node)
        skew = skews.get(parent.id, 0) if clock == clocks[parent.id] else _skew(node, parent)
        if skew:
            skews[node.id] = skew
            node.start_ns += skew
            node.end_ns += skew
    return bool(skews)


def _clock_of(node: Node) -> _Clock:
    """Return what tells machines apart: the host, or the instance of a service without one."""
    resource = node.span.resource
    host = resource.get("host.name") or resource.get("host.id")
    if host is not None:
        return (str(host),)
    return str(resource.get("service.name")), str(resource.get("service.instance.id"))


def _skew(node: Node, parent: Node) -> int:
    """Return by how many nanoseconds a node must move to fit into its parent."""
    room = (parent.end_ns - parent.start_ns) - (node.end_ns - node.start_ns)
    if not (node.start_ns and parent.start_ns):
        return 0
    if room < 0:  # it went on after its parent, which can be true; it cannot have begun before
        return max(0, parent.start_ns - node.start_ns)
    if parent.start_ns <= node.start_ns and node.end_ns <= parent.end_ns:
        return 0
    return parent.start_ns + room // 2 - node.start_ns
