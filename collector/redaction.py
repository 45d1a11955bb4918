"""What of a request's texts may be stored: all, with personal data masked, or none."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from collector.model import RagRequest

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")),
    ("iban", re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\b")),
    ("card", re.compile(r"\b(?:\d[ -]?){12,18}\d\b")),
    ("ip", re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}\b")),
    ("phone", re.compile(r"(?<![\w.])\+?\(?\d[\d ()/-]{7,}\d(?![\w.])")),
)


def redact(text: str) -> str:
    """Mask e-mail addresses, IBANs, payment cards, IP addresses and phone numbers.

    Names and free-form addresses are not recognised.
    """
    for name, pattern in _PATTERNS:
        if name == "card":
            text = pattern.sub(lambda m: "[card]" if _luhn(m.group()) else m.group(), text)
        else:
            text = pattern.sub(f"[{name}]", text)
    return text


def _luhn(digits: str) -> bool:
    """Check digit of payment cards (ISO/IEC 7812-1)."""
    total = 0
    for i, digit in enumerate(reversed([int(c) for c in digits if c.isdigit()])):
        doubled = digit * 2 if i % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def redacted(request: RagRequest) -> RagRequest:
    """Return the request with personal data masked in every text."""
    return _map_texts(request, redact)


def without_texts(request: RagRequest) -> RagRequest:
    """Return the request with its facts but none of its texts."""
    return _map_texts(request, lambda _: None)


def _map_texts(request: RagRequest, change: Callable[[str], str | None]) -> RagRequest:
    def apply(text: str | None) -> str | None:
        return None if text is None else change(text)

    replace = msgspec.structs.replace
    error = request.error
    return replace(
        request,
        question=apply(request.question),
        answer=apply(request.answer),
        documents=[
            replace(doc, text=apply(doc.text), title=apply(doc.title)) for doc in request.documents
        ],
        stages=[
            replace(stage, query=apply(stage.query), error=apply(stage.error))
            for stage in request.stages
        ],
        error=None if error is None else replace(error, message=apply(error.message)),
    )
