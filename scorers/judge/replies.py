"""What the judging model has to reply, and the checks that a reply must pass.

Structured output makes violations rare, not impossible: other endpoints ignore the schema, and
no schema can say that every claim is judged exactly once.
"""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from collector.model import Verdict
from scorers.lexical_text import STOP_WORDS, fold

CLAIMS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"claims": {"type": "array", "items": {"type": "string"}}},
    "required": ["claims"],
    "additionalProperties": False,
}
NEEDS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"needs": {"type": "array", "items": {"type": "string"}}},
    "required": ["needs"],
    "additionalProperties": False,
}
REFUSAL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"refused": {"type": "boolean"}},
    "required": ["refused"],
    "additionalProperties": False,
}
HELPFUL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "documents": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "document": {"type": "integer"},
                    "quote": {"type": ["string", "null"]},
                    "helps": {"type": "boolean"},
                },
                "required": ["document", "quote", "helps"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["documents"],
    "additionalProperties": False,
}
# The quote comes before the verdict: the model has to look for evidence before it decides.
VERDICTS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdicts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "quote": {"type": ["string", "null"]},
                    "document": {"type": ["integer", "null"]},
                    "verdict": {
                        "type": "string",
                        "enum": ["SUPPORTED", "CONTRADICTED", "NOT_FOUND"],
                    },
                },
                "required": ["id", "quote", "document", "verdict"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["verdicts"],
    "additionalProperties": False,
}

_T = TypeVar("_T")
_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL | re.IGNORECASE)


class UnusableReply(Exception):
    """The reply breaks the protocol. The message says how, in our own words only."""


class VerdictReply(msgspec.Struct, frozen=True):
    """The verdict on one claim as the model gave it, its quote not yet verified."""

    id: int
    verdict: Verdict
    quote: str | None = None
    document: int | None = None


class HelpfulReply(msgspec.Struct, frozen=True):
    """Whether a document helps, as the model gave it, its quote not yet verified."""

    document: int
    helps: bool
    quote: str | None = None


class _Needs(msgspec.Struct, frozen=True):
    needs: list[str]


class _Refusal(msgspec.Struct, frozen=True):
    refused: bool


class _Helpful(msgspec.Struct, frozen=True):
    documents: list[HelpfulReply]


class _Claims(msgspec.Struct, frozen=True):
    claims: list[str]


class _Verdicts(msgspec.Struct, frozen=True):
    verdicts: list[VerdictReply]


def parse_claims(reply: str) -> list[str]:
    """Return the claims, trimmed, blanks and repetitions left out.

    Raises:
        UnusableReply: not the JSON that was asked for.
    """
    return _distinct(_decode(reply, _Claims).claims)


def strange_to(claims: Sequence[str], text: str) -> int:
    """Return how many claims share no word or number with a text, words of grammar aside."""
    known = _content(text)
    words = (_content(claim) for claim in claims)
    return sum(bool(own) and known.isdisjoint(own) for own in words)


def parse_needs(reply: str) -> list[str]:
    """Return what is asked, trimmed, blanks and repetitions left out.

    Raises:
        UnusableReply: not the JSON that was asked for.
    """
    return _distinct(_decode(reply, _Needs).needs)


def parse_refusal(reply: str) -> bool:
    """Return whether the answer refuses.

    Raises:
        UnusableReply: not the JSON that was asked for.
    """
    return _decode(reply, _Refusal).refused


def parse_helpful(reply: str, ranks: Sequence[int]) -> list[HelpfulReply]:
    """Return one reply for each of the documents, in the order of `ranks`.

    Raises:
        UnusableReply: not the JSON that was asked for, or not one entry for each document.
    """
    found = _decode(reply, _Helpful).documents
    by_rank = {one.document: one for one in found}
    if len(found) != len(ranks) or by_rank.keys() != set(ranks):
        raise UnusableReply(
            f"{len(ranks)} documents need one entry each with the numbers given; there were "
            f"{len(found)} entries on {len(by_rank.keys() & set(ranks))} of the documents"
        )
    return [by_rank[rank] for rank in ranks]


def _content(text: str) -> set[str]:
    words = set(fold(text).split())
    return words - STOP_WORDS or words


def _distinct(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(text for one in texts if (text := one.strip())))


def parse_verdicts(reply: str, ids: Sequence[int]) -> list[VerdictReply]:
    """Return the verdicts in the order of `ids`.

    Raises:
        UnusableReply: not the JSON that was asked for, or not one verdict for each claim.
    """
    verdicts = _decode(reply, _Verdicts).verdicts
    by_id = {verdict.id: verdict for verdict in verdicts}
    if len(verdicts) != len(ids) or by_id.keys() != set(ids):
        raise UnusableReply(
            f"{len(ids)} claims need one verdict each with the ids given; there were "
            f"{len(verdicts)} verdicts on {len(by_id.keys() & set(ids))} of the claims"
        )
    return [by_id[number] for number in ids]


def _decode(reply: str, shape: type[_T]) -> _T:
    fenced = _FENCED.fullmatch(reply)
    try:
        return msgspec.json.decode(fenced.group(1) if fenced else reply, type=shape)
    except msgspec.ValidationError as err:
        raise UnusableReply(f"the JSON has another shape ({_place(err)})") from err
    except (msgspec.DecodeError, UnicodeError) as err:
        raise UnusableReply("it is not one JSON object") from err


def _place(err: msgspec.ValidationError) -> str:
    """Say what is wrong and where; never what stood there, which may be a user's text."""
    found = re.search(r"at `(\$[\w.\[\]]*)`", str(err))
    return f"at {found.group(1)}" if found else "at $"
