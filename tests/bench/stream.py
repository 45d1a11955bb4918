"""Traffic as a busy topic holds it: the spans of many traces in any order, a few to a record.

Made fast enough for hundreds of thousands of spans: recorded traces are encoded once, then ids and
one word of the texts are replaced by others of the same length.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from collector import otlp
from collector.model import Span
from collector.trace_files.encode import body_of_spans
from tests.bench.load import bodies

RECORDED = 3
SPANS_A_RECORD = 4
ANYWHERE = 1_000_000_000
_WORD = b"customer"
"""A word of the documents that becomes a number, so that no two answers are judged as one."""

Change = Callable[[list[Span]], list[Span]]


class Stream(NamedTuple):
    """Records of a topic, and how many spans each trace has."""

    records: list[bytes]
    sizes: dict[str, int]


def stream(spans: int, seed: int, change: Change = list, apart: int = ANYWHERE) -> Stream:
    """Return about so many spans of whole traces in random order.

    Args:
        spans: how many.
        seed: of ids and order.
        change: what becomes of the spans of a recorded trace before they are copied.
        apart: by how many places a span may come late.
    """
    rng = random.Random(f"stream {seed}")  # another row than that of `bodies`
    recorded = [
        change(otlp.decode_traces(body, "application/x-protobuf").spans)
        for body in bodies(RECORDED, 1, seed)
    ]
    encoded = [[body_of_spans([span]) for span in trace] for trace in recorded]
    sizes: dict[str, int] = {}
    loose: list[bytes] = []
    while len(loose) < spans:
        number = len(sizes)
        trace = recorded[number % RECORDED]
        old = [trace[0].trace_id, *(span.span_id for span in trace)]
        fresh = {bytes.fromhex(one): rng.randbytes(len(one) // 2) for one in old}
        fresh[_WORD] = b"%0*d" % (len(_WORD), number)
        for body in encoded[number % RECORDED]:
            for one, other in fresh.items():
                body = body.replace(one, other)
            loose.append(body)
        sizes[fresh[bytes.fromhex(trace[0].trace_id)].hex()] = len(trace)
    order = sorted(range(len(loose)), key=lambda place: place + rng.uniform(0, apart))
    # Encoded messages put one behind the other are one message with the spans of all.
    records = [
        b"".join(loose[place] for place in order[at : at + SPANS_A_RECORD])
        for at in range(0, len(order), SPANS_A_RECORD)
    ]
    return Stream(records, sizes)
