"""Whatever an assistant responds, it is an answer that can be kept, or one that is named."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.config import ResponseConfig
from collector.evaluation.answers import Answer, ResponseReader, Unreadable
from collector.evaluation.measures import measure
from sinks.golden_file import GoldenRow

ROW = GoldenRow(
    id="q", question="Which?", gold_sources=["a"], quotes=["a b"], reference_answer="A."
)
READER = ResponseReader(ResponseConfig(retrieved="retrieved", latency_ms="latency_ms"))

texts = st.text(st.characters(codec=None), max_size=8)  # lone surrogates too
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.just(10**400), st.floats(), texts)
keys = st.one_of(
    st.sampled_from(["id", "document_id", "text", "title", "usage", "input_tokens"]), texts
)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
)
fields = ["answer", "documents", "retrieved", "model", "usage", "cost_usd", "latency_ms"]
bodies = anything | st.dictionaries(st.sampled_from(fields), anything, max_size=7)


@settings(max_examples=300, deadline=None)
@given(bodies)
async def test_any_response_is_read_or_refused_by_name_and_can_be_measured(body: Any) -> None:
    try:
        answer = READER.read("q", body)
    except Unreadable as err:
        answer = Answer(question_id="q", error=str(err))
    assert (answer.error or "evaluation.target.response.").startswith("evaluation.target.response.")
    kept = msgspec.json.decode(msgspec.json.encode(answer), type=Answer)
    row = await measure(ROW, kept, None, k=5, segment="lookup")
    msgspec.json.encode(row)
    for name, value in row.measures.items():
        assert value is not None or name in row.undefined or name in row.failures
        assert name.endswith(("_ms", "_tokens", "_usd")) or value is None or 0 <= value <= 1
