"""LangSmith over OTLP: `langsmith.span.kind`, content as JSON in `gen_ai.prompt`/`completion`.

Its `gen_ai.operation.name` is not to be trusted (a retriever says `embeddings`), and
`langsmith.trace.session_name` is the project. Source: https://github.com/langchain-ai/langsmith-sdk
"""

from __future__ import annotations

from collector.conventions.common import present, session_keys, user_keys
from collector.conventions.facts import Facts, Kind
from collector.conventions.numbers import first_text
from collector.model import Span

NAME = "langsmith"
FAMILIES = frozenset({"langsmith"})
_KINDS: dict[str, Kind] = {
    "llm": "llm",
    "retriever": "retriever",
    "embedding": "embedding",
    "tool": "tool",
    "chain": "chain",
    "prompt": "chain",
    "parser": "chain",
}
_METADATA = "langsmith.metadata."
_SESSION_KEYS = session_keys(_METADATA)
_USER_KEYS = user_keys(_METADATA)


def read(span: Span) -> Facts | None:
    """Return the facts of a span that LangSmith sent, None of any other."""
    attributes = span.attributes
    named = attributes.get("langsmith.span.kind")
    if not isinstance(named, str):
        return None
    kind = _KINDS.get(named.lower(), "chain")
    given = present(attributes, "gen_ai.prompt", "inputs")
    returned = present(attributes, "gen_ai.completion", "outputs")
    is_call = kind == "llm"
    return Facts(
        conventions=(NAME,),
        kind=kind,
        input=given,
        output=returned,
        input_messages=given if is_call else (),
        query=given,
        documents=returned if kind in ("retriever", "tool") else (),
        model=first_text(
            attributes,
            ("gen_ai.response.model", "gen_ai.request.model", f"{_METADATA}ls_model_name"),
        ),
        conversation_id=present(attributes, *_SESSION_KEYS),
        user_id=present(attributes, *_USER_KEYS),
    )
