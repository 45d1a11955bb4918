"""Personal data is masked; what only looks like it is not."""

from datetime import UTC, datetime

import pytest

from collector.model import (
    Claim,
    Document,
    Judgement,
    RagRequest,
    RequestError,
    Signal,
    Stage,
)
from collector.redaction import (
    redact,
    storable_judgement,
    storable_request,
    storable_signal,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to jane.doe+x@mail.example.com now", "write to [email] now"),
        ("card 4111 1111 1111 1111 please", "card [card] please"),
        ("order 4111 1111 1111 1112", "order [phone]"),
        ("IBAN DE89 3704 0044 0532 0130 00", "IBAN [iban]"),
        ("from 192.168.10.4", "from [ip]"),
        ("call +49 (30) 1234-5678", "call [phone]"),
        ("version 3.11.7 of 2024", "version 3.11.7 of 2024"),
        ("it costs 1,200 for 30 days", "it costs 1,200 for 30 days"),
    ],
)
def test_masking(text: str, expected: str) -> None:
    assert redact(text) == expected


FULL = RagRequest(
    trace_id="a",
    user_id="a@b.example",
    question="I am a@b.example",
    answer="Hello a@b.example",
    documents=[Document(rank=1, document_id="7", text="a@b.example", title="a@b.example")],
    stages=[Stage(kind="retriever", query="a@b.example", error="a@b.example")],
    error=RequestError(stage="llm", message="a@b.example"),
)


def test_every_text_of_a_request_is_masked() -> None:
    assert "a@b.example" not in repr(storable_request(FULL, "redacted"))
    assert storable_request(FULL, "redacted").answer == "Hello [email]"


def test_without_texts_only_facts_are_left() -> None:
    bare = storable_request(FULL, "none")
    assert "a@b.example" not in repr(bare)
    assert bare.documents[0].document_id == "7"
    assert bare.question is None


CLAIM = Claim(
    text="a@b.example is right.", verdict="CONTRADICTED", quote="not a@b.example", document_rank=2
)
JUDGEMENT = Judgement(
    trace_id="a",
    scorer="faithfulness",
    fingerprint="f",
    status="judged",
    score=0.0,
    claims=[CLAIM],
    raw_reply="a@b.example",
)
SIGNAL = Signal(
    signal_id="s",
    kind="comment",
    occurred_at=datetime(2026, 11, 4, tzinfo=UTC),
    received_at=datetime(2026, 11, 4, tzinfo=UTC),
    trace_id="a",
    value=1.0,
    raw_value="ask a@b.example",
    comment="write to a@b.example",
    user_id="a@b.example",
)


def test_claims_and_replies_are_masked() -> None:
    masked = storable_judgement(JUDGEMENT, "redacted")
    assert "a@b.example" not in repr(masked)
    assert masked.claims[0].text == "[email] is right."
    assert masked.claims[0].quote == "not [email]"


def test_verdicts_stay_where_claims_may_not() -> None:
    bare = storable_judgement(JUDGEMENT, "none")
    assert bare.claims == [Claim(text="", verdict="CONTRADICTED", document_rank=2)]
    assert (bare.score, bare.raw_reply) == (0.0, None)


def test_what_users_wrote_and_who_they_are_is_masked() -> None:
    masked = storable_signal(SIGNAL, "redacted")
    assert "a@b.example" not in repr(masked)
    assert masked.comment == "write to [email]"


def test_a_signal_stays_where_its_words_may_not() -> None:
    bare = storable_signal(SIGNAL, "none")
    assert (bare.comment, bare.raw_value, bare.user_id) == (None, None, None)
    assert (bare.trace_id, bare.kind, bare.value) == ("a", "comment", 1.0)


def test_everything_is_kept_where_it_may_be() -> None:
    assert storable_request(FULL, "full") is FULL
    assert storable_judgement(JUDGEMENT, "full") is JUDGEMENT
    assert storable_signal(SIGNAL, "full") is SIGNAL
