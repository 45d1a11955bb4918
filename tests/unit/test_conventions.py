"""Each tracing convention is recognised span by span and gives neutral facts."""

from __future__ import annotations

from typing import Any

import pytest

from collector.conventions import facts_of
from collector.conventions.facts import Facts
from collector.conventions.payloads import Decoder
from collector.extract.content import text_of
from tests.fakes.spans import START_NS, event, span


def facts(attributes: dict[str, Any], **fields: Any) -> Facts:
    found = facts_of(span(0, attributes, **fields))
    assert found is not None
    return found


def value(payload: Any) -> Any:
    return Decoder().decode(payload[0]) if payload else None


@pytest.mark.parametrize(
    ("attributes", "fields", "convention", "kind"),
    [
        ({"openinference.span.kind": "LLM"}, {}, "openinference", "llm"),
        ({"openinference.span.kind": "reranker"}, {}, "openinference", "reranker"),
        ({"openinference.span.kind": "EVALUATOR"}, {}, "openinference", "evaluation"),
        ({"llm.output_messages.0.message.role": "user"}, {}, "openinference", "llm"),
        ({"retrieval.documents.0.document.id": "1"}, {}, "openinference", "retriever"),
        ({"langfuse.observation.type": "generation"}, {}, "langfuse", "llm"),
        ({"langfuse.observation.type": "retriever"}, {}, "langfuse", "retriever"),
        ({"langfuse.observation.type": "span"}, {"name": "rerank"}, "langfuse", "reranker"),
        ({"langfuse.observation.type": "evaluator"}, {}, "langfuse", "evaluation"),
        ({"mlflow.spanType": '"CHAT_MODEL"'}, {}, "mlflow", "llm"),
        ({"mlflow.spanType": "RETRIEVER"}, {}, "mlflow", "retriever"),
        ({"traceloop.span.kind": "workflow"}, {}, "openllmetry", "chain"),
        ({"traceloop.span.kind": "tool"}, {}, "openllmetry", "tool"),
        ({"llm.request.type": "rerank"}, {}, "openllmetry", "reranker"),
        ({"gen_ai.prompt.0.content": "Q?"}, {}, "openllmetry", "llm"),
        (
            {"traceloop.span.kind": "task", "traceloop.entity.name": "VectorIndexRetriever.task"},
            {},
            "openllmetry",
            "retriever",
        ),
        (
            {"traceloop.span.kind": "task", "traceloop.entity.name": "RetrieverQueryEngine.task"},
            {},
            "openllmetry",
            "chain",
        ),
        (
            {"traceloop.span.kind": "task", "traceloop.entity.name": "CohereRerank.task"},
            {},
            "openllmetry",
            "reranker",
        ),
        ({"ai.operationId": "ai.streamText.doStream"}, {}, "vercel-ai", "llm"),
        ({"operation.name": "ai.embed.doEmbed my-function"}, {}, "vercel-ai", "embedding"),
        ({"ai.operationId": "ai.toolCall"}, {}, "vercel-ai", "tool"),
        (
            {"langsmith.span.kind": "retriever", "gen_ai.operation.name": "embeddings"},
            {},
            "langsmith",
            "retriever",
        ),
        (
            {"langsmith.span.kind": "prompt", "gen_ai.operation.name": "chat"},
            {},
            "langsmith",
            "chain",
        ),
        ({"haystack.component.type": "InMemoryBM25Retriever"}, {}, "haystack", "retriever"),
        ({"haystack.component.type": "TransformersSimilarityRanker"}, {}, "haystack", "reranker"),
        ({"haystack.component.type": "OpenAIChatGenerator"}, {}, "haystack", "llm"),
        (
            {"haystack.component.type": "SentenceTransformersTextEmbedder"},
            {},
            "haystack",
            "embedding",
        ),
        ({"haystack.component.type": "DocumentJoiner"}, {}, "haystack", "joiner"),
        ({"haystack.component.type": "ChatPromptBuilder"}, {}, "haystack", "chain"),
        ({}, {"name": "haystack.tracing.auto_enable"}, "haystack", "noise"),
        ({"agent_name": "a", "model_name": "m"}, {"scope_name": "pydantic-ai"}, "logfire", "agent"),
        ({"logfire.span_type": "pending_span"}, {}, "logfire", "pending"),
        ({"gcp.vertex.agent.llm_request": '{"contents": []}'}, {}, "google-adk", "llm"),
        (
            {"genkit:type": "action", "genkit:metadata:subtype": "retriever"},
            {},
            "genkit",
            "retriever",
        ),
        ({"gen_ai.operation.name": "chat"}, {}, "otel-genai", "llm"),
        ({"gen_ai.operation.name": "retrieval"}, {}, "otel-genai", "retriever"),
        ({"gen_ai.operation.name": "rerank"}, {}, "otel-genai", "reranker"),
        ({"gen_ai.operation.name": "execute_tool"}, {}, "otel-genai", "tool"),
        ({"gen_ai.operation.name": "invoke_agent"}, {}, "otel-genai", "agent"),
        ({"gen_ai.usage.input_tokens": 3}, {}, "otel-genai", "llm"),
        ({}, {"events": [event("gen_ai.choice")]}, "otel-genai", "llm"),
        ({}, {"events": [event("db.query.result")]}, "vector-db", "retriever"),
        ({"db.system": "pinecone", "db.operation": "query"}, {}, "vector-db", "retriever"),
    ],
)
def test_a_span_is_told_by_its_own_attributes(
    attributes: dict[str, Any], fields: dict[str, Any], convention: str, kind: str
) -> None:
    found = facts(attributes, **fields)
    assert (found.conventions[0], found.kind) == (convention, kind)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"http.method": "GET", "http.status_code": 404},
        {"db.system": "postgresql", "db.statement": "SELECT 1"},
        {"db.system": "elasticsearch", "db.operation": "search"},
        {"output": "x", "input": "y"},
        {"ai": 1, "operation.name": "checkout"},
    ],
)
def test_plumbing_is_not_recognised(attributes: dict[str, Any]) -> None:
    assert facts_of(span(0, attributes)) is None


def test_a_more_specific_convention_wins_and_another_fills_its_gaps() -> None:
    found = facts(
        {
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.usage.inputTokens": 220,
            "gen_ai.usage.input_tokens": 999,
            "gen_ai.response.id": "r-1",
            "gen_ai.operation.name": "embeddings",
        }
    )
    assert (found.conventions[0], found.kind) == ("vercel-ai", "llm")
    assert (found.input_tokens, found.response_id) == (220, "r-1")


def test_openinference_flattened_documents_keep_their_rank_and_take_ids_from_the_output() -> None:
    found = facts(
        {
            "openinference.span.kind": "RETRIEVER",
            "retrieval.documents.17.document.content": "late",
            "retrieval.documents.17.document.metadata": '{"source": "a.pdf", "page": 1}',
            "retrieval.documents.18.document.content": "later",
            "output.value": '{"documents": [{"id": "x", "page_content": "late"}, '
            '{"id": "y", "page_content": "later"}]}',
        }
    )
    documents = value(found.documents)
    assert [(d.rank, d.document_id, d.source) for d in documents] == [
        (18, "x", "a.pdf"),
        (19, "y", None),
    ]


def test_openinference_reranker_output_is_read() -> None:
    found = facts(
        {
            "openinference.span.kind": "RERANKER",
            "reranker.query": "Q?",
            "reranker.model_name": "rerank-3",
            "reranker.input_documents.0.document.id": "b",
            "reranker.output_documents.0.document.id": "a",
            "reranker.output_documents.0.document.score": 0.9,
        }
    )
    (document,) = value(found.documents)
    assert (document.document_id, document.score) == ("a", 0.9)
    assert value(found.query) == "Q?"


def test_openinference_usage_cost_and_first_token_are_read() -> None:
    found = facts(
        {
            "openinference.span.kind": "LLM",
            "llm.token_count.prompt": "220",
            "llm.token_count.completion": 0,
            "llm.token_count.prompt_details.cache_read": 100,
            "llm.cost.total": 0.00005,
            "metadata": '{"user_id": "u-7", "thread_id": "t-1"}',
            "output.value": '{"id":"chatcmpl-9","choices":[]}',
        },
        events=[event("First Token Stream Event", at_ms=7)],
    )
    assert (found.input_tokens, found.output_tokens, found.cached_tokens) == (220, 0, 100)
    assert (found.cost_usd, found.ttft_ms, found.response_id) == (0.00005, 7.0, "chatcmpl-9")
    assert (value(found.user_id), value(found.conversation_id)) == ("u-7", "t-1")


def test_openinference_message_parts_are_joined_without_images() -> None:
    prefix = "llm.input_messages.3.message.contents"
    found = facts(
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.3.message.role": "user",
            f"{prefix}.0.message_content.type": "text",
            f"{prefix}.0.message_content.text": "What is this?",
            f"{prefix}.1.message_content.image.image.url": "data:image/png;base64,AA==",
            "llm.input_messages.999999999.message.content": "hostile",
        }
    )
    (message,) = value(found.input_messages)
    assert (message.role, message.text) == ("user", "What is this?")


def test_genai_content_in_per_message_events_is_read() -> None:
    found = facts(
        {"gen_ai.operation.name": "chat"},
        events=[
            event("gen_ai.system.message", {"content": "Be brief."}),
            event("gen_ai.user.message", {"content": '[{"text": "Q?"}]'}),
            event("gen_ai.choice", {"index": 0, "message": '{"role":"assistant","content":"A."}'}),
        ],
    )
    assert [(m.role, m.text) for m in value(found.input_messages)] == [
        ("system", "Be brief."),
        ("user", "Q?"),
    ]
    assert [(m.role, m.text) for m in value(found.output_messages)] == [("assistant", "A.")]


def test_genai_old_and_new_names_of_usage_are_read() -> None:
    old = facts({"gen_ai.usage.prompt_tokens": 14, "gen_ai.usage.completion_tokens": 3})
    new = facts({"gen_ai.usage.input_tokens": "14", "gen_ai.usage.output_tokens": "3"})
    assert (old.input_tokens, old.output_tokens) == (new.input_tokens, new.output_tokens) == (14, 3)


def test_genai_time_to_first_chunk_is_in_seconds_and_strands_in_milliseconds() -> None:
    chat = {"gen_ai.operation.name": "chat"}
    assert facts(chat | {"gen_ai.response.time_to_first_chunk": 0.25}).ttft_ms == 250
    assert facts(chat | {"gen_ai.server.time_to_first_token": 2046}).ttft_ms == 2046


def test_genai_retrieval_documents_are_read() -> None:
    found = facts(
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": "Q?",
            "gen_ai.retrieval.documents": '[{"id": "a", "score": 0.7, "content": "t"}, {}]',
        }
    )
    assert value(found.documents)[0]["id"] == "a"
    assert value(found.query) == "Q?"


def test_openllmetry_inputs_and_outputs_are_unwrapped() -> None:
    found = facts(
        {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.input": '{"inputs": {"input": ""}, "kwargs": {}}',
            "traceloop.entity.output": '{"outputs": "A.", "kwargs": {"inputs": "Q?"}}',
            "traceloop.association.properties.session_id": "s",
            "traceloop.association.properties.user_id": "u",
        }
    )
    decoder = Decoder()
    assert text_of(found.input, decoder, question=True) == "Q?"
    assert text_of(found.output, decoder, question=False) == "A."
    assert (value(found.conversation_id), value(found.user_id)) == ("s", "u")


def test_openllmetry_nodes_in_and_fewer_nodes_out_is_reranking() -> None:
    node = '"{\\"node\\": {\\"id_\\": \\"a\\"}, \\"score\\": 1}"'
    found = facts(
        {
            "traceloop.span.kind": "task",
            "traceloop.entity.name": "Rr.task",
            "traceloop.entity.input": f'{{"nodes": [{node}, {node}]}}',
            "traceloop.entity.output": f"[{node}]",
        }
    )
    assert found.kind == "reranker"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input": 220, "output": 24, "total": 244}, (220, 24)),
        ({"input": 100, "input_cached_tokens": 50, "output": 10, "total": 160}, (150, 10)),
        ({"input": 100, "input_cache_read": 40, "output": 10, "total": 110}, (100, 10)),
        ({"input": 10, "output": 5, "output_reasoning": 7, "total": 22}, (10, 12)),
        ({"input_tokens": 123, "output_tokens": 456}, (123, 456)),
        ({"input": 13, "prompt_details.cache_read": 0, "output": 81, "total": 94}, (13, 81)),
        ({}, (None, None)),
    ],
)
def test_langfuse_counts_exclude_each_other_unless_the_total_says_otherwise(
    usage: dict[str, int], counts: tuple[int | None, int | None]
) -> None:
    found = facts(
        {"langfuse.observation.type": "generation", "langfuse.observation.usage_details": usage}
    )
    assert (found.input_tokens, found.output_tokens) == counts


def test_langfuse_level_cost_session_and_first_token_are_read() -> None:
    found = facts(
        {
            "langfuse.observation.type": "generation",
            "langfuse.observation.level": "ERROR",
            "langfuse.observation.status_message": "rate limited",
            "langfuse.observation.cost_details": '{"input": 0.1, "output": 0.2}',
            "langfuse.observation.completion_start_time": '"2025-11-29T07:06:40.500000Z"',
            "langfuse.session.id": "first",
            "session.id": "second",
            "gen_ai.conversation.id": "third",
        },
        start_ns=START_NS,
    )
    assert found.error is not None
    assert found.error.message == "rate limited"
    assert found.cost_usd == pytest.approx(0.3)
    assert found.ttft_ms == pytest.approx(500)
    assert found.conversation_id[0] == "first"


def test_mlflow_values_lose_their_quotes() -> None:
    found = facts(
        {
            "mlflow.spanType": '"CHAT_MODEL"',
            "mlflow.spanOutputs": '{"choices": [], "model": "gpt-4o-mini"}',
            "mlflow.chat.tokenUsage": '{"input_tokens": 220, "output_tokens": 24}',
            "mlflow.trace.session": '"s-1"',
        }
    )
    assert (found.model, found.input_tokens, found.output_tokens) == ("gpt-4o-mini", 220, 24)
    assert found.conversation_id == ("s-1",)


def test_vercel_metadata_usage_and_first_chunk_are_read() -> None:
    found = facts(
        {
            "ai.operationId": "ai.streamText.doStream",
            "ai.telemetry.metadata.sessionId": "s",
            "ai.telemetry.metadata.userId": "u",
            "ai.usage.promptTokens": 220,
            "ai.usage.completionTokens": 24,
            "ai.response.msToFirstChunk": 7.5,
            "ai.response.toolCalls": '[{"toolCallId": "1"}]',
        }
    )
    assert (found.conversation_id, found.user_id) == (("s",), ("u",))
    assert (found.input_tokens, found.output_tokens, found.ttft_ms) == (220, 24, 7.5)
    assert value(found.output_messages)[0].tool_call


def test_haystack_usage_and_model_come_from_the_reply() -> None:
    found = facts(
        {
            "haystack.component.type": "OpenAIChatGenerator",
            "haystack.component.output": '{"replies": [{"content": [{"text": "A."}], "meta": '
            '{"model": "m", "usage": {"prompt_tokens": 220, "completion_tokens": 24}}}]}',
        }
    )
    assert (found.model, found.input_tokens, found.output_tokens) == ("m", 220, 24)
    assert found.name == "OpenAIChatGenerator"


def test_vector_database_hits_are_ranked_in_order_and_a_distance_is_no_score() -> None:
    hit = "db.query.result"
    found = facts(
        {"db.system": "chroma", "db.operation": "query"},
        events=[
            event(hit, {f"{hit}.id": "a", f"{hit}.distance": 0.0, f"{hit}.document": "x"}),
            event(hit, {f"{hit}.id": "b", f"{hit}.distance": 1.5, f"{hit}.document": "y"}),
        ],
    )
    documents = value(found.documents)
    assert [(d.rank, d.document_id, d.score, d.score_kind) for d in documents] == [
        (1, "a", None, "distance"),
        (2, "b", None, "distance"),
    ]


def test_spring_vector_store_queries_are_searches() -> None:
    found = facts(
        {
            "db.system": "simple",
            "db.operation.name": "query",
            "db.vector.query.content": "Q?",
            "db.vector.query.response.documents": '[{"id": "a", "text": "x"}]',
        }
    )
    assert (found.kind, value(found.query)) == ("retriever", "Q?")
    assert value(found.documents) == [{"id": "a", "text": "x"}]


def test_prompt_and_completion_of_the_first_convention_are_read() -> None:
    found = facts(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.prompt": '[{"role": "user", "content": "Q?"}]',
            "gen_ai.completion": '[{"role": "assistant", "content": "A."}]',
        }
    )
    assert value(found.input_messages)[0]["content"] == "Q?"
    assert value(found.output_messages)[0]["content"] == "A."


def test_azure_puts_the_content_of_an_event_into_one_attribute() -> None:
    found = facts(
        {"gen_ai.operation.name": "chat"},
        events=[
            event("gen_ai.user.message", {"gen_ai.event.content": '{"content": "Q?"}'}),
            event("gen_ai.choice", {"gen_ai.event.content": '{"message": {"content": "A."}}'}),
        ],
    )
    assert value(found.input_messages)[0].text == "Q?"
    assert value(found.output_messages)[0].text == "A."


def test_google_adk_requests_and_replies_are_read() -> None:
    found = facts(
        {
            "gcp.vertex.agent.llm_request": '{"contents": [{"role": "user", "parts": '
            '[{"text": "Q?"}]}]}',
            "gcp.vertex.agent.llm_response": '{"content": {"role": "model", "parts": '
            '[{"text": "A."}]}, "usage_metadata": {"prompt_token_count": 28}}',
        }
    )
    assert value(found.input_messages)[0].text == "Q?"
    assert value(found.output_messages)[0].text == "A."
    assert found.input_tokens == 28


def test_hostile_message_keys_are_ignored() -> None:
    found = facts(
        {
            "gen_ai.prompt.0.content": "valid",
            "gen_ai.prompt.10001.content": "unsafe",
            "gen_ai.prompt.999999999999.content": "unsafe",
            "gen_ai.prompt.__proto__.POLLUTED": "unsafe",
        }
    )
    assert [m.text for m in value(found.input_messages)] == ["valid"]
