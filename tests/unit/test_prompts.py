"""Prompts, data messages, replies and prices of the language-model judge."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config import PriceConfig
from collector.model import Document
from scorers.judge.pricing import cost_usd
from scorers.judge.prompting import (
    claims_message,
    digest,
    estimate_tokens,
    group_documents,
    load_prompts,
    repair_message,
    verdicts_message,
)
from scorers.judge.replies import (
    CLAIMS_SCHEMA,
    VERDICTS_SCHEMA,
    UnusableReply,
    parse_claims,
    parse_verdicts,
)

TEXTS = st.text(max_size=400) | st.lists(
    st.sampled_from(["word", "日本語", "end. ", "\n\n", '"quoted"', "\ud800"]), max_size=60
).map(" ".join)


def test_the_prompts_name_the_verdicts_and_ask_for_json() -> None:
    prompts = load_prompts()
    for verdict in ("SUPPORTED", "CONTRADICTED", "NOT_FOUND"):
        assert verdict in prompts.verdicts
    assert "JSON" in prompts.claims
    assert "JSON" in prompts.verdicts
    assert "JSON" in prompts.repair


def test_the_examples_in_the_prompts_are_valid_replies() -> None:
    prompts = load_prompts()
    assert parse_claims(prompts.claims.strip().splitlines()[-1])
    assert len(parse_verdicts(prompts.verdicts.strip().splitlines()[-1], [1, 2])) == 2


def test_the_digest_changes_with_a_single_letter_of_a_prompt_or_schema() -> None:
    prompts = load_prompts()
    one = digest(prompts, CLAIMS_SCHEMA, VERDICTS_SCHEMA)
    assert one == digest(load_prompts(), CLAIMS_SCHEMA, VERDICTS_SCHEMA)
    assert one != digest(prompts._replace(claims=prompts.claims + " "), CLAIMS_SCHEMA)
    assert one != digest(prompts, CLAIMS_SCHEMA, CLAIMS_SCHEMA)
    assert len(one) == 8


@given(TEXTS, TEXTS)
def test_any_text_travels_as_a_json_string_and_nothing_else(question: str, text: str) -> None:
    def readable(value: str) -> str:
        return value.encode("utf-8", "replace").decode()

    data = json.loads(claims_message(question, text))
    assert data == {"question": readable(question), "answer": readable(text)}
    (group,) = group_documents([Document(rank=1, title="T", text=f"{text}!")], 10_000)
    data = json.loads(verdicts_message(question, group, {3: text}))
    assert data["claims"] == [{"id": 3, "text": readable(text)}]
    assert data["documents"] == [{"number": 1, "title": "T", "text": readable(f"{text}!")}]


def test_the_claims_come_after_the_documents_so_that_calls_share_a_prefix() -> None:
    (group,) = group_documents([Document(rank=1, text="A page.")], 1000)
    one = verdicts_message("Why?", group, {1: "First."})
    other = verdicts_message("Why?", group, {1: "Another."})
    shared = one.index("First.")
    assert one[:shared] == other[:shared]
    assert "A page." in one[:shared]


@given(st.lists(TEXTS, max_size=6), st.integers(100, 400))
def test_documents_are_spread_over_groups_within_the_bound_and_without_loss(
    texts: list[str], max_tokens: int
) -> None:
    documents = [Document(rank=rank, text=text) for rank, text in enumerate(texts, 1)]
    groups = group_documents(documents, max_tokens)
    for group in groups:
        assert sum(estimate_tokens(piece.text) for piece in group) <= max_tokens
    for document in documents:
        pieces = [piece.text for group in groups for piece in group if piece.rank == document.rank]
        assert (
            _joined(pieces) == (document.text or "").rstrip() or not (document.text or "").strip()
        )


def _joined(pieces: list[str]) -> str:
    """Put overlapping parts together again."""
    text = ""
    for piece in pieces:
        overlap = next(n for n in range(len(piece), -1, -1) if text.endswith(piece[:n]))
        text += piece[overlap:]
    return text.rstrip()


def test_documents_stay_together_in_one_call_as_long_as_they_fit() -> None:
    documents = [Document(rank=rank, text="A short page.") for rank in range(1, 6)]
    assert [len(group) for group in group_documents(documents, 10_000)] == [5]
    assert sum(len(group) for group in group_documents(documents, 100)) == 5
    assert len(group_documents(documents, 100)) > 1


def test_a_long_document_is_cut_where_a_paragraph_or_sentence_ends() -> None:
    text = "\n\n".join(f"Paragraph {n} says something. It ends here." for n in range(100))
    pieces = [
        piece.text
        for group in group_documents([Document(rank=1, text=text)], 400)
        for piece in group
    ]
    assert len(pieces) > 2
    assert all(piece.endswith("here.\n\n") for piece in pieces[:-1])


def test_a_long_title_is_kept_as_text() -> None:
    document = Document(rank=1, title="Title " * 500, text="Text.")
    pieces = [piece for group in group_documents([document], 200) for piece in group]
    assert all(piece.title is None for piece in pieces)
    assert sum(len(piece.text) for piece in pieces) >= 3000


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("The quick brown fox jumps over the lazy dog.", 10), ("日本語の文章です。", 6), ("", 0)],
)
def test_the_estimate_of_tokens_is_an_upper_one(text: str, tokens: int) -> None:
    assert tokens <= estimate_tokens(text) <= 2 * tokens + 1


def test_the_repair_message_names_the_problem_even_with_dollar_signs_about() -> None:
    message = repair_message(load_prompts().repair, "at $.verdicts[0]")
    assert "at $.verdicts[0]" in message
    assert "$problem" not in message


@pytest.mark.parametrize(
    "reply",
    [
        '{"claims": ["One.", " Two. ", "", "One."]}',
        '```json\n{"claims": ["One.", "Two."]}\n```',
        '{"claims": ["One.", "Two."], "note": "more than was asked for"}',
    ],
)
def test_claims_are_read_trimmed_and_once_each(reply: str) -> None:
    assert parse_claims(reply) == ["One.", "Two."]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "null",
        "[]",
        "42",
        '"claims"',
        "{}",
        '{"claims": null}',
        '{"claims": "One."}',
        '{"claims": [1]}',
        '{"claims": ["One."',
        'Here you are: {"claims": ["One."]}',
        '{"claims": ["One."]} {"claims": []}',
    ],
)
def test_another_reply_than_a_list_of_claims_is_unusable(reply: str) -> None:
    with pytest.raises(UnusableReply):
        parse_claims(reply)


def verdict(number: object = 1, value: object = "SUPPORTED", **more: object) -> dict[str, object]:
    return {"id": number, "quote": "q", "document": 1, "verdict": value, **more}


def test_verdicts_are_returned_in_the_order_of_the_claims() -> None:
    reply = json.dumps({"verdicts": [verdict(2, "NOT_FOUND"), verdict(1)]})
    assert [found.id for found in parse_verdicts(reply, [1, 2])] == [1, 2]


@pytest.mark.parametrize(
    "verdicts",
    [
        pytest.param([], id="none"),
        pytest.param([verdict(1)], id="too few"),
        pytest.param([verdict(1), verdict(2), verdict(3)], id="too many"),
        pytest.param([verdict(1), verdict(1)], id="one twice"),
        pytest.param([verdict(1), verdict(2), verdict(2)], id="one repeated"),
        pytest.param([verdict(1), verdict(7)], id="an unknown id"),
        pytest.param([verdict(1), verdict("2")], id="a textual id"),
        pytest.param([verdict(1), verdict(2, "supported")], id="lower case"),
        pytest.param([verdict(1), verdict(2, "PARTIAL")], id="an unknown verdict"),
        pytest.param([verdict(1), verdict(2, None)], id="no verdict"),
        pytest.param([verdict(1), verdict(2, quote=5)], id="a quote that is a number"),
        pytest.param([verdict(1), "SUPPORTED"], id="a bare word"),
    ],
)
def test_anything_but_one_verdict_for_each_claim_is_unusable(verdicts: list[object]) -> None:
    with pytest.raises(UnusableReply):
        parse_verdicts(json.dumps({"verdicts": verdicts}), [1, 2])


def test_the_complaint_about_a_reply_never_repeats_the_reply() -> None:
    for reply in ('{"claims": "canary"}', "canary", '{"canary": 1}', '{"claims": [["canary"]]}'):
        with pytest.raises(UnusableReply) as raised:
            parse_claims(reply)
        assert "canary" not in str(raised.value)


def test_the_price_counts_cached_tokens_apart() -> None:
    price = PriceConfig(
        input_usd_per_mtok=2.0, cached_input_usd_per_mtok=0.5, output_usd_per_mtok=10.0
    )
    cost = cost_usd(price, input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)
    assert cost == pytest.approx(0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 10.0)


def test_without_a_price_of_their_own_cached_tokens_cost_as_others() -> None:
    price = PriceConfig(input_usd_per_mtok=2.0, output_usd_per_mtok=10.0)
    cost = cost_usd(price, input_tokens=1_000_000, cached_tokens=400_000, output_tokens=0)
    assert cost == pytest.approx(2.0)
