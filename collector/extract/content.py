"""Question and answer of a request: taken from its outermost span, else from its last chat."""

from __future__ import annotations

import re
from typing import NamedTuple

from collector.conventions.facts import Payloads
from collector.conventions.messages import (
    Message,
    content_text,
    ends_in_tool_call,
    last_assistant_text,
    last_user_text,
    messages_of,
)
from collector.conventions.payloads import Decoder
from collector.conventions.texts import answer_in, question_in
from collector.extract.tree import Node, Tree
from collector.model import Document

_ASIDE = frozenset({"retriever", "reranker", "tool", "evaluation"})
_SIDE_CALL = re.compile(
    r"title|condens|rewrit|rephras|classif|router|guardrail|moderat|follow.?up|suggest",
    re.IGNORECASE,
)
_ASKED_IN_TEMPLATE = re.compile(
    r"^[ \t]*(?:user )?(?:question|query|q)[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE
)
_TEMPLATE_PROBES = 20
_TEMPLATE_PROBE_CHARS = 40


class Content(NamedTuple):
    """What was asked and answered. `final` is the LLM call that answered, if one is known."""

    question: str | None
    answer: str | None
    final: Node | None
    tool_call_answer: bool


def read_content(tree: Tree, calls: list[Node], decoder: Decoder) -> Content:
    """Return question and answer of a trace.

    Args:
        tree: the trace.
        calls: its LLM calls.
        decoder: decodes payloads.
    """
    entries = [entry for entry in tree.entries if entry.kind not in ("evaluation", "noise")]
    outer = [entry for entry in entries if entry.kind not in ("embedding", "retriever", "reranker")]
    own = _own_calls(calls)
    final, final_answer, tools_only = _final_call(own, decoder)
    if len(outer) > 1 and final is not None and all(entry.kind == "llm" for entry in outer):
        return Content(_asked(final, decoder), final_answer, final, tools_only)
    question = _first_question(outer, decoder)
    answer = _first_answer(outer, decoder)
    if question is None and final is not None:
        question = _asked(final, decoder)
    if question is None:
        question = _question_of_calls(own, decoder)
    if answer is None:
        answer = final_answer
    return Content(question, answer, final, answer is None and tools_only)


def without_template(question: str, documents: list[Document], queries: list[str]) -> str:
    """Return the user's words where the question is a prompt with the documents filled in."""
    if not any(_filled_in(document, question) for document in documents[:_TEMPLATE_PROBES]):
        return question
    for query in queries:
        if query and query in question:
            return query
    marked = _ASKED_IN_TEMPLATE.findall(question)
    return marked[-1].rstrip() if marked else question


def system_prompt(call: Node, decoder: Decoder) -> str | None:
    """Return the text of the first system message an LLM call was given."""
    messages = _messages(call.facts.input_messages if call.facts else (), decoder)
    said = next((message.text for message in messages if message.role == "system"), None)
    return said or content_text(
        decoder.decode(call.span.attributes.get("gen_ai.system_instructions"))
    )


def text_of(payloads: Payloads, decoder: Decoder, *, question: bool) -> str | None:
    """Return the first text that the payloads hold as a question or as an answer."""
    for payload in payloads:
        value = decoder.decode(payload)
        found = question_in(value) if question else answer_in(value)
        if found is not None:
            return found
    return None


def _filled_in(document: Document, question: str) -> bool:
    probe = (document.text or "").strip()[:_TEMPLATE_PROBE_CHARS]
    return len(probe) >= 10 and probe in question


def _own_calls(calls: list[Node]) -> list[Node]:
    """Return the calls made by the request itself, not by its searches, tools or sub-agents."""
    own = [call for call in calls if call.above.isdisjoint(_ASIDE)]
    return own or calls


def _final_call(calls: list[Node], decoder: Decoder) -> tuple[Node | None, str | None, bool]:
    """Return the last call that answered, its answer, and whether all ended in a tool call."""
    ordered = sorted(calls, key=lambda n: (n.end_ns, n.start_ns, n.id), reverse=True)
    ordered.sort(key=lambda n: _SIDE_CALL.search(n.span.name) is not None)
    for call in ordered:
        answer = _answered(call, decoder)
        if answer is not None:
            return call, answer, False
    if not ordered:
        return None, None, False
    last = max(calls, key=lambda n: (n.end_ns, n.start_ns, n.id))
    said = _messages(last.facts.output_messages if last.facts else (), decoder)
    return ordered[0], None, ends_in_tool_call(said)


def _messages(payloads: Payloads, decoder: Decoder) -> list[Message]:
    for payload in payloads:
        value = decoder.decode(payload)
        found = (
            value
            if isinstance(value, list) and value and isinstance(value[0], Message)
            else messages_of(value)
        )
        if any(message.text is not None or message.tool_call for message in found):
            return found
    return []


def _asked(node: Node, decoder: Decoder) -> str | None:
    """Return what a node was asked: a chat by its messages, anything else by its input first."""
    if node.facts is None:
        return None
    if node.kind != "llm":
        found = text_of(node.facts.input, decoder, question=True)
        if found is not None:
            return found
    messages = _messages(node.facts.input_messages, decoder)
    if messages:
        return last_user_text(messages)
    return text_of(node.facts.input, decoder, question=True) if node.kind == "llm" else None


def _question_of_calls(calls: list[Node], decoder: Decoder) -> str | None:
    for call in calls:
        found = _asked(call, decoder)
        if found is not None:
            return found
    return None


def _first_question(entries: list[Node], decoder: Decoder) -> str | None:
    for entry in entries:
        found = _question_of(entry, decoder)
        if found is not None:
            return found
    return None


def _question_of(entry: Node, decoder: Decoder) -> str | None:
    """Return the question an outermost span was given, looking one level down if it is mute."""
    for node in (entry, *(c for c in entry.children if c.kind in ("chain", "agent"))):
        if node.facts is None or node.kind == "tool":
            continue
        found = _asked(node, decoder)
        if found is not None:
            return found
    return None


def _first_answer(entries: list[Node], decoder: Decoder) -> str | None:
    for entry in reversed(entries):
        found = _answer_of(entry, decoder)
        if found is not None:
            return found
    return None


def _answer_of(entry: Node, decoder: Decoder) -> str | None:
    for node in (entry, *(c for c in reversed(entry.children) if c.kind in ("agent",))):
        if node.facts is None or node.kind == "tool":
            continue
        found = _answered(node, decoder)
        if found is not None:
            return found
    return None


def _answered(node: Node, decoder: Decoder) -> str | None:
    """Return what a node answered: a chat by its messages, anything else by its output first."""
    if node.facts is None:
        return None
    if node.kind != "llm":
        found = text_of(node.facts.output, decoder, question=False)
        if found is not None:
            return found
    messages = _messages(node.facts.output_messages, decoder)
    if messages or node.kind != "llm":
        return last_assistant_text(messages)
    return text_of(node.facts.output, decoder, question=False)
