"""Personal data is masked; what only looks like it is not."""

import pytest

from collector.model import Document, RagRequest, RequestError, Stage
from collector.redaction import redact, redacted, without_texts


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
    question="I am a@b.example",
    answer="Hello a@b.example",
    documents=[Document(rank=1, document_id="7", text="a@b.example", title="a@b.example")],
    stages=[Stage(kind="retriever", query="a@b.example", error="a@b.example")],
    error=RequestError(stage="llm", message="a@b.example"),
)


def test_every_text_of_a_request_is_masked() -> None:
    assert "a@b.example" not in repr(redacted(FULL))
    assert redacted(FULL).answer == "Hello [email]"


def test_without_texts_only_facts_are_left() -> None:
    bare = without_texts(FULL)
    assert "a@b.example" not in repr(bare)
    assert bare.documents[0].document_id == "7"
    assert bare.question is None
