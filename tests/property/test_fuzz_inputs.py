"""A short and always equal part of the fuzzing that `make fuzz` does at length.

What fuzzing found once stays here as an input of its own.
"""

from __future__ import annotations

import contextlib
import random
import tracemalloc
from collections.abc import Callable

import pytest

from collector import otlp
from collector.errors import MalformedPayload
from collector.signals import parse_signals
from tests.fuzz.mutations import mutated
from tests.fuzz.seeds import LOGS, RECORDINGS, pieces
from tests.fuzz.targets import NOW, PROTOBUF, TARGETS

PIECES = [p for path in sorted(RECORDINGS.glob("*.pb")) for p in pieces(path.read_bytes())]
ROUNDS = 3


@pytest.mark.parametrize("target", ["traces", "requests", "files"])
def test_changed_trace_bodies_are_read_or_refused(target: str) -> None:
    for number, piece in enumerate(PIECES):
        for seed in range(ROUNDS):
            changed = mutated(piece, number * ROUNDS + seed)
            assert changed is not None
            TARGETS[target](changed)


@pytest.mark.parametrize("target", ["logs", "messages"])
def test_changed_log_bodies_are_read_or_refused(target: str) -> None:
    for seed in range(200):
        changed = mutated(LOGS, seed)
        assert changed is not None
        TARGETS[target](changed)


@pytest.mark.parametrize("target", list(TARGETS))
def test_bodies_with_bytes_flipped_or_missing_are_read_or_refused(target: str) -> None:
    chance = random.Random(7)
    for source in (*PIECES[::4], LOGS):
        damaged = bytearray(source)
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        TARGETS[target](bytes(damaged))
        TARGETS[target](source[: chance.randrange(len(source))])


def field(number: int, content: bytes) -> bytes:
    """Encode a length-delimited protobuf field."""
    size, rest = b"", len(content)
    while rest > 0x7F:
        size, rest = size + bytes([rest & 0x7F | 0x80]), rest >> 7
    return bytes([number << 3 | 2]) + size + bytes([rest]) + content


def body_of(spans: bytes) -> bytes:
    return field(1, field(2, spans))


IDS = field(1, bytes(range(1, 17))) + field(2, bytes(range(1, 9)))
EVENT = field(11, field(3, b"e"))
DENSE: dict[str, bytes] = {
    "spans": body_of(b"".join(field(2, IDS) for _ in range(1_000))),
    "spans without id": body_of(field(2, b"") * 10_000),
    "events": body_of(field(2, IDS + EVENT * 5_000)),
    "empty events": body_of(field(2, IDS + field(11, b"") * 10_000)),
    "empty attributes": body_of(field(2, IDS + field(9, b"") * 10_000)),
    "attributes": body_of(
        field(2, IDS + b"".join(field(9, field(1, b"%d" % n)) for n in range(4_000)))
    ),
    "values of a list": body_of(
        field(2, IDS + field(9, field(1, b"a") + field(2, field(5, field(1, b"") * 10_000))))
    ),
    "lists in a list": body_of(
        field(
            2, IDS + field(9, field(1, b"a") + field(2, field(5, field(1, field(5, b"")) * 5_000)))
        )
    ),
    "text that is JSON": body_of(
        field(2, IDS + field(9, field(1, b"output.value") + field(2, field(1, b"[[]," * 5_000))))
    ),
    "JSON": b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 5_000 + b"{}]}]}]}",
    "JSON lists": b"[" + b"[]," * 10_000 + b"[]]",
    "JSON in depth": b"[" * 50_000,
    "signals": b"[" + b"{}," * 3_000 + b"{}]",
}
MOST_MEMORY_PER_BYTE = 150
READERS = {
    "traces": lambda body: otlp.decode_traces(body, PROTOBUF),
    "logs": lambda body: otlp.decode_logs(body, PROTOBUF),
    "signals": lambda body: parse_signals(body, NOW),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("body", DENSE.values(), ids=DENSE)
def test_memory_stays_in_proportion_to_the_bytes_however_dense_they_are(
    body: bytes, read: Callable[[bytes], object]
) -> None:
    """The bound on bodies is one on memory only if their density is bounded as well."""
    tracemalloc.start()
    try:
        with contextlib.suppress(MalformedPayload):
            read(body)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY_PER_BYTE * len(body)
