"""Questions, answers and messages in the shapes of all frameworks."""

from __future__ import annotations

from typing import Any

import pytest

from collector.conventions.messages import last_assistant_text, last_user_text, messages_of
from collector.conventions.texts import answer_in, question_in

HUMAN = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"]}


@pytest.mark.parametrize(
    ("value", "question"),
    [
        ("What does Pro cost?", "What does Pro cost?"),
        ({"query": "Q?"}, "Q?"),
        ({"question": "Q?", "context": "long text"}, "Q?"),
        ({"input": "Q?", "chat_history": []}, "Q?"),
        ({"inputs": {"question": "Q?"}}, "Q?"),
        ({"message": "Q?"}, "Q?"),
        ({"args": ["Q?"], "kwargs": {}}, "Q?"),
        ({"args": [], "kwargs": {"question": "Q?"}}, "Q?"),
        ({"args": ["<app.Rag object at 0x7f12>", "asst_1", "What is it?"]}, "What is it?"),
        ({"str_or_query_bundle": {"query_str": "Q?", "image_path": None}}, "Q?"),
        ({"data": {"question": "Q?"}}, "Q?"),
        ({"messages": [["user", "hi"], ["assistant", "hello"], ["user", "Q?"]]}, "Q?"),
        ({"messages": [{"type": "human", "content": "Q?"}]}, "Q?"),
        ({"messages": [[{**HUMAN, "kwargs": {"content": "Q?"}}]]}, "Q?"),
        ({"model": "m", "contents": "Q?"}, "Q?"),
        ({"contents": [{"role": "user", "parts": [{"text": "Q?"}]}]}, "Q?"),
        ({"new_message": {"role": "user", "parts": [{"text": "Q?"}]}}, "Q?"),
        ({"retriever": {"query": "Q?"}, "prompt_builder": {"question": "Q?"}}, "Q?"),
        ({"topic": "bears"}, "bears"),
        ('{"query": "Q?"}', "Q?"),
        ({"input": ""}, None),
        ("__REDACTED__", None),
        ({"context": "only context"}, None),
        ("<generator object f at 0x1>", None),
        ([], None),
        (None, None),
        (5, None),
    ],
)
def test_the_question_is_found(value: Any, question: str | None) -> None:
    assert question_in(value) == question


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("A.", "A."),
        ({"answer": "A.", "sources": ["a"]}, "A."),
        ({"output": "A."}, "A."),
        ({"outputs": {"answer": "A."}}, "A."),
        ({"query": "Q?", "result": "A.", "source_documents": []}, "A."),
        ({"response": "A.", "metadata": {"kb-1": {}}}, "A."),
        ({"response_gen": "<generator object>", "response_txt": None}, None),
        ({"type": "ai", "data": {"content": "A."}}, "A."),
        ({"lc": 1, "id": ["x", "AIMessage"], "kwargs": {"content": "A."}}, "A."),
        ({"generations": [[{"text": "A.", "type": "ChatGeneration"}]]}, "A."),
        ({"choices": [{"message": {"role": "assistant", "content": "A."}}]}, "A."),
        ({"candidates": [{"content": {"role": "model", "parts": [{"text": "A."}]}}]}, "A."),
        ({"content": {"parts": [{"text": "A."}], "role": "model"}, "finish_reason": "STOP"}, "A."),
        ({"replies": [{"role": "assistant", "content": [{"text": "A."}]}]}, "A."),
        ({"llm": {"replies": ["A."]}, "retriever": {"documents": []}}, "A."),
        ({"messages": [{"type": "human", "content": "Q"}, {"type": "ai", "content": "A."}]}, "A."),
        (
            {"messages": [{"role": "assistant", "content": ""}, {"role": "tool", "content": "x"}]},
            None,
        ),
        ([{"type": "text", "text": "A."}], "A."),
        (["A.", {"id": "run_1"}], "A."),
        ({"context": "c"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_answer_is_found(value: Any, answer: str | None) -> None:
    assert answer_in(value) == answer


def test_the_last_user_message_is_the_question_even_if_its_text_was_lost() -> None:
    lost = [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Hello!"}]},
        {"role": "user", "parts": []},
    ]
    assert last_user_text(messages_of(lost)) is None


def test_a_tool_result_in_the_role_of_the_user_is_not_the_question() -> None:
    messages = messages_of(
        [
            {"role": "user", "parts": [{"type": "text", "content": "Q?"}]},
            {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "t"}]},
            {"role": "user", "parts": [{"type": "tool_call_response", "result": "winner"}]},
        ]
    )
    assert last_user_text(messages) == "Q?"
    assert messages[1].tool_call


def test_bedrock_tool_blocks_are_no_text() -> None:
    messages = messages_of(
        [
            {"role": "user", "content": [{"text": "Q?"}]},
            {"role": "assistant", "content": [{"toolUse": {"name": "t", "input": {}}}]},
            {"role": "user", "content": [{"toolResult": {"content": [{"text": "x"}]}}]},
        ]
    )
    assert last_user_text(messages) == "Q?"
    assert last_assistant_text(messages[:2]) is None


def test_images_and_reasoning_are_left_out_of_the_text() -> None:
    content = [
        {"type": "reasoning", "content": "hm"},
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    ]
    (message,) = messages_of([{"role": "user", "content": content}])
    assert message.text == "What is this?"
    (inline,) = messages_of([{"role": "user", "content": "See data:image/png;base64,AAAA here"}])
    assert inline.text == "See  here"


def test_messages_written_as_lines_are_told_apart() -> None:
    messages = messages_of("system: Be brief.\nuser: First line\nsecond line\nassistant: A.")
    assert [m.role for m in messages] == ["system", "user", "assistant"]
    assert last_user_text(messages) == "First line\nsecond line"


def test_plain_text_is_no_list_of_messages() -> None:
    assert messages_of("Is user: a keyword?") == []
    assert messages_of(5) == []


def test_an_answer_that_calls_a_tool_is_no_answer() -> None:
    output = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    assert last_assistant_text(messages_of([output])) is None
    extra = {"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": [{"id": "1"}]}}
    assert last_assistant_text(messages_of([extra])) is None
