"""What of the texts of users may be stored: all, with personal data masked, or none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from collector.model import Judgement, RagRequest, Signal

Content = Literal["full", "redacted", "none"]
_Change = Callable[[str], str | None]

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


def storable_request(request: RagRequest, content: Content) -> RagRequest:
    """Return what of a request may be stored: its facts, and its texts and user as allowed."""
    change = _CHANGES[content]
    return request if change is None else _request(request, change)


def storable_judgement(judgement: Judgement, content: Content) -> Judgement:
    """Return what of a judgement may be stored: claims and quotes are texts of the answer."""
    change = _CHANGES[content]
    if change is None:
        return judgement
    replace = msgspec.structs.replace
    claims = [
        replace(claim, text=change(claim.text) or "", quote=_apply(change, claim.quote))
        for claim in judgement.claims
    ]
    return replace(judgement, claims=claims, raw_reply=_apply(change, judgement.raw_reply))


def storable_signal(signal: Signal, content: Content) -> Signal:
    """Return what of a signal may be stored: what the user wrote, and who, as allowed."""
    change = _CHANGES[content]
    if change is None:
        return signal
    return msgspec.structs.replace(
        signal,
        comment=_apply(change, signal.comment),
        raw_value=_apply(change, signal.raw_value),
        user_id=_apply(change, signal.user_id),
        reason=_apply(change, signal.reason),
    )


_CHANGES: dict[Content, _Change | None] = {
    "full": None,
    "redacted": redact,
    "none": lambda _: None,
}


def _apply(change: _Change, text: str | None) -> str | None:
    return None if text is None else change(text)


def _request(request: RagRequest, change: _Change) -> RagRequest:
    def apply(text: str | None) -> str | None:
        return _apply(change, text)

    replace = msgspec.structs.replace
    error = request.error
    return replace(
        request,
        user_id=apply(request.user_id),
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
