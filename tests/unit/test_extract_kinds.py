"""Rules that must hold for every tracing convention alike, each shown for all of them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from collector.model import Span
from tests.fakes.requests import chain, ids_of, llm, record, retriever
from tests.fakes.spans import span

USAGE: dict[str, dict[str, Any]] = {
    "openinference": {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": "{0}",
        "llm.token_count.completion": "{1}",
    },
    "otel-genai": {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": "{0}",
        "gen_ai.usage.output_tokens": "{1}",
    },
    "otel-genai, first names": {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.prompt_tokens": "{0}",
        "gen_ai.usage.completion_tokens": "{1}",
    },
    "openllmetry": {
        "llm.request.type": "chat",
        "llm.usage.prompt_tokens": "{0}",
        "llm.usage.completion_tokens": "{1}",
    },
    "langfuse": {
        "langfuse.observation.type": "generation",
        "langfuse.observation.usage_details": '{{"input": {0}, "output": {1}}}',
    },
    "mlflow": {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.chat.tokenUsage": '{{"input_tokens": {0}, "output_tokens": {1}}}',
    },
    "vercel-ai": {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.usage.promptTokens": "{0}",
        "ai.usage.completionTokens": "{1}",
    },
    "langsmith": {
        "langsmith.span.kind": "llm",
        "gen_ai.usage.input_tokens": "{0}",
        "gen_ai.usage.output_tokens": "{1}",
    },
    "haystack": {
        "haystack.component.type": "OpenAIChatGenerator",
        "haystack.component.output": '{{"replies": [{{"content": "A.", "meta": {{"usage": '
        '{{"prompt_tokens": {0}, "completion_tokens": {1}}}}}}}]}}',
    },
    "google-adk": {
        "gcp.vertex.agent.llm_request": '{{"contents": []}}',
        "gcp.vertex.agent.llm_response": '{{"usage_metadata": '
        '{{"prompt_token_count": {0}, "candidates_token_count": {1}}}}}',
    },
    "genkit": {
        "genkit:type": "action",
        "genkit:metadata:subtype": "model",
        "genkit:output": '{{"usage": {{"inputTokens": {0}, "outputTokens": {1}}}}}',
    },
}


@pytest.mark.parametrize("template", USAGE.values(), ids=USAGE)
@pytest.mark.parametrize("counts", [(0, 0), (0, 7), (12, 0), (12, 7)])
def test_token_counts_are_read_and_zero_is_one(
    template: dict[str, Any], counts: tuple[int, int]
) -> None:
    attributes = {key: value.format(*counts) for key, value in template.items()}
    request = record(span(0, attributes))
    assert (request.input_tokens, request.output_tokens) == counts


SESSIONS: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({"gen_ai.operation.name": "chat"}, "session.id"),
    "otel-genai": ({"gen_ai.operation.name": "chat"}, "gen_ai.conversation.id"),
    "openinference": ({"openinference.span.kind": "LLM"}, "session.id"),
    "openllmetry": (
        {"llm.request.type": "chat"},
        "traceloop.association.properties.session_id",
    ),
    "openllmetry, chat": (
        {"llm.request.type": "chat"},
        "traceloop.association.properties.chat_id",
    ),
    "langfuse": ({"langfuse.observation.type": "generation"}, "langfuse.session.id"),
    "langsmith": ({"langsmith.span.kind": "llm"}, "langsmith.metadata.session_id"),
    "langsmith, thread": ({"langsmith.span.kind": "llm"}, "langsmith.metadata.thread_id"),
    "vercel-ai": ({"ai.operationId": "ai.generateText"}, "ai.telemetry.metadata.sessionId"),
    "google-adk": (
        {"gcp.vertex.agent.llm_request": '{"contents": []}'},
        "gcp.vertex.agent.session_id",
    ),
    "genkit": (
        {"genkit:type": "action", "genkit:metadata:subtype": "model"},
        "genkit:sessionId",
    ),
    "mlflow": ({"mlflow.spanType": '"LLM"'}, "mlflow.trace.session"),
}


@pytest.mark.parametrize(("call", "attribute"), SESSIONS.values(), ids=SESSIONS)
@pytest.mark.parametrize("on", ["root", "plumbing", "call"])
def test_the_conversation_is_found_under_its_name_in_every_convention(
    call: dict[str, Any], attribute: str, on: str
) -> None:
    """Plumbing above the call bears it only under the names that are no one's own."""
    own = not attribute.startswith(("session.", "gen_ai.", "langfuse.session"))
    named: dict[str, dict[str, Any]] = {"root": dict(call), "plumbing": {}, "call": dict(call)}
    named["call" if own and on == "plumbing" else on][attribute] = "c-1"
    request = record(
        span(0, named["root"]),
        span(1, named["plumbing"], parent=0),
        span(2, named["call"], parent=1),
    )
    assert request.conversation_id == "c-1"


@pytest.mark.parametrize("key", ["session_id", "thread_id", "conversation_id"])
def test_the_conversation_is_found_in_metadata(key: str) -> None:
    attributes = llm() | {"metadata": json.dumps({key: "c-1"})}
    assert record(span(0, attributes)).conversation_id == "c-1"


@pytest.mark.parametrize("parents", list(itertools.product([None, 0, 2], [0, 1], [0, 1, 2])))
def test_wrong_parents_do_not_change_what_was_asked_found_and_answered(
    parents: tuple[int | None, int, int],
) -> None:
    """Some instrumentations hang a step below its neighbour, below a later one, or below itself."""
    search, answer, tool = parents
    steps: list[Span] = [
        span(0, chain(), end_ns=span(40).end_ns),
        span(1, retriever("a", "b"), parent=search),
        span(2, llm("The whole prompt", "A."), parent=answer),
        span(3, {"http.request.method": "POST"}, parent=tool),
    ]
    request = record(*steps)
    assert (request.question, request.answer) == ("Q?", "A.")
    assert ids_of(request) == ["a", "b"]
    assert (request.llm_calls, request.retriever_stages) == (1, 1)
