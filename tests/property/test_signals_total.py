"""Whatever is posted, the answer is signals or a clear refusal, never another error."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from collector.errors import MalformedPayload
from collector.model import SignalKind
from collector.receivers.compression import BodyTooLarge, decompress
from collector.signals import parse_signals

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
IDS = ("signal_id", "trace_id", "response_id", "message_id", "conversation_id", "document_id")
KEYS = (*IDS, "user_id", "value", "scale", "comment", "occurred_at")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
signals = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(KEYS, values),
        "kind": st.sampled_from(get_args(SignalKind)) | values,
        "trace_id": st.just("4bf92f3577b34da6a3ce929d0e0e4736") | values,
        "surprise": values,
    },
)


@given(st.binary(max_size=200))
def test_any_bytes_are_signals_or_malformed(body: bytes) -> None:
    with contextlib.suppress(MalformedPayload):
        parse_signals(body, NOW)


@given(st.lists(signals, min_size=1, max_size=4))
def test_any_json_is_signals_or_refused_item_by_item(items: list[dict[str, Any]]) -> None:
    body = json.dumps(items).encode()
    try:
        parsed = parse_signals(body, NOW)
    except MalformedPayload:
        return
    assert len(parsed.signals) + len(parsed.rejected) == len(items)
    assert all(problem.startswith("[") for problem in parsed.rejected)
    for signal in parsed.signals:
        assert signal.sentiment in (-1, 0, 1)
        assert signal.signal_id
        assert signal.occurred_at.tzinfo is not None
    assert parse_signals(body, NOW).signals == parsed.signals


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate"]), st.integers(1, 400))
def test_any_bytes_decompress_within_the_bound_or_are_refused(
    body: bytes, encoding: str, limit: int
) -> None:
    with contextlib.suppress(MalformedPayload, BodyTooLarge):
        assert len(decompress(body, encoding, limit)) <= limit
