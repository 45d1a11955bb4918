"""Traces in the shape that current releases of agent frameworks send, told by hand."""

from __future__ import annotations

import json
from typing import Any

from collector.extract import extract
from collector.model import RagRequest, Span
from tests.fakes.spans import START_NS, event, span, trace

PAGES = [
    {"id": "p-1", "content": "You may return a jacket within 30 days.", "source": "returns.md"},
    {"id": "p-2", "content": "Tags must still be attached.", "source": "tags.md"},
]
QUESTION = "How many days do I have?"
ANSWER = "30 days [1]."


def request_of(*spans: Span) -> RagRequest:
    found = extract(trace(*spans))
    assert isinstance(found, RagRequest)
    return found


def ids(request: RagRequest) -> list[str | None]:
    return [document.document_id for document in request.documents]


# --- Haystack: haystack.agent.* -----------------------------------------------------------


def haystack_message(role: str, part: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {"role": role, "meta": meta, "name": None, "content": [part]}


def haystack_reply(part: dict[str, Any]) -> str:
    usage = {"prompt_tokens": 120, "completion_tokens": 20, "prompt_tokens_details": None}
    reply = haystack_message("assistant", part, model="gpt-4.1-mini", usage=usage)
    return json.dumps({"replies": [reply]})


def haystack_agent() -> tuple[Span, ...]:
    asked = haystack_message("user", {"text": QUESTION})
    answered = haystack_message("assistant", {"text": ANSWER})
    call = {"tool_call": {"tool_name": "search_pages", "arguments": {"query": "days"}, "id": "1"}}
    return (
        span(
            0,
            {
                "haystack.agent.max_steps": 100,
                "haystack.agent.input": json.dumps({"messages": [asked]}),
                "haystack.agent.output": json.dumps({"messages": [asked, answered]}),
            },
            name="haystack.agent.run",
        ),
        span(1, {"haystack.agent.step": 0}, name="haystack.agent.step", parent=0),
        span(
            2,
            {
                "haystack.agent.step.llm.input": json.dumps({"messages": [asked]}),
                "haystack.agent.step.llm.output": haystack_reply(call),
            },
            name="haystack.agent.step.llm",
            parent=1,
        ),
        span(
            3,
            {
                "haystack.tool.name": "search_pages",
                "haystack.agent.step.tool.input": '{"query": "days to return"}',
                "haystack.agent.step.tool.output": json.dumps(PAGES),
            },
            name="haystack.agent.step.tool",
            parent=1,
        ),
        span(4, {"haystack.agent.step": 1}, name="haystack.agent.step", parent=0),
        span(
            5,
            {
                "haystack.agent.step.llm.input": json.dumps({"messages": [asked]}),
                "haystack.agent.step.llm.output": haystack_reply({"text": ANSWER}),
            },
            name="haystack.agent.step.llm",
            parent=4,
        ),
    )


def test_an_agent_of_haystack_is_a_request() -> None:
    request = request_of(*haystack_agent())
    assert (request.question, request.answer) == (QUESTION, ANSWER)
    assert request.conventions == ["haystack"]
    assert request.flags == []


def test_the_model_calls_of_a_haystack_agent_are_counted() -> None:
    request = request_of(*haystack_agent())
    assert request.llm_calls == 2
    assert (request.model, request.input_tokens, request.output_tokens) == (
        "gpt-4.1-mini",
        240,
        40,
    )


def test_the_search_tool_of_a_haystack_agent_is_its_retriever() -> None:
    request = request_of(*haystack_agent())
    assert ids(request) == ["p-1", "p-2"]
    (searched,) = (stage for stage in request.stages if stage.kind == "retriever")
    assert (searched.name, searched.query) == ("search_pages", "days to return")


# --- LangChain agents through OpenLLMetry -------------------------------------------------


def test_documents_are_found_in_the_message_that_a_langchain_tool_returns() -> None:
    message = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "ToolMessage"],
        "kwargs": {"content": json.dumps(PAGES), "type": "tool", "tool_call_id": "call_1"},
    }
    request = request_of(
        span(
            0,
            {
                "traceloop.span.kind": "workflow",
                "traceloop.entity.input": json.dumps(
                    {"inputs": {"messages": [["user", QUESTION]]}}
                ),
                "traceloop.entity.output": json.dumps({"outputs": ANSWER}),
            },
            name="LangGraph.workflow",
        ),
        span(
            1,
            {
                "traceloop.span.kind": "tool",
                "traceloop.entity.name": "search_pages",
                "traceloop.entity.input": json.dumps({"input_str": "{'query': 'days to return'}"}),
                "traceloop.entity.output": json.dumps({"output": message}),
            },
            name="execute_tool search_pages",
            parent=0,
        ),
    )
    assert ids(request) == ["p-1", "p-2"]
    assert [stage.query for stage in request.stages] == ["days to return"]


# --- Streams of LlamaIndex through OpenInference ------------------------------------------


def streamed(**resource: str) -> RagRequest:
    """Give a chat whose root returned a generator after 10 ms; the answer came from 20 to 60."""
    return request_of(
        span(
            0,
            {
                "openinference.span.kind": "CHAIN",
                "input.value": json.dumps({"message": QUESTION, "chat_history": []}),
                "output.value": json.dumps({"response": "", "sources": []}),
            },
            name="ContextChatEngine.stream_chat",
        ),
        span(
            1,
            {"openinference.span.kind": "LLM", "input.value": '{"memory": "Memory()"}'},
            name="StreamingAgentChatResponse.write_response_to_history",
            parent=0,
            end_ns=START_NS + 60_000_000,
        ),
        span(
            2,
            {
                "openinference.span.kind": "LLM",
                "llm.model_name": "gpt-4.1-mini",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": ANSWER,
            },
            name="OpenAI.stream_chat",
            parent=0,
            end_ns=START_NS + 60_000_000,
            events=[event("First Token Stream Event", at_ms=20)],
            resource=resource,
        ),
    )


def test_reading_a_stream_is_no_model_call() -> None:
    request = streamed()
    assert request.llm_calls == 1
    assert [stage.name for stage in request.stages] == ["OpenAI.stream_chat"]


def test_the_latency_of_a_stream_lasts_until_its_end() -> None:
    request = streamed()
    assert (request.answer, request.ttft_ms, request.latency_ms) == (ANSWER, 18, 60)


def test_what_another_process_streams_later_is_not_waited_for() -> None:
    assert streamed(**{"service.name": "worker"}).latency_ms == 10
