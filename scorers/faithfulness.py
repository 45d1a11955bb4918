"""Faithfulness arithmetic and the checks that keep it honest. Pure; shared by every judge.

Faithfulness is the share of an answer's claims that its context supports. A claim counts as
supported, or contradicted, only with a quote that really stands in the context: a judge that
invents its evidence has found none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein

from collector.model import Claim, Document, RagRequest
from scorers.lexical_text import NEGATIONS, STOP_WORDS, fold

FUZZ_MIN_CHARACTERS = 20
FUZZ_MAX_CHARACTERS = 600
FUZZ_MIN_RATIO = 90.0
"""Quotes between these lengths may differ from the context by a typing error or two."""

_MIN_WORD_CHARACTERS = 3
_ANCHOR_WORDS = 3
_PLACES_TRIED = 5
_MARGIN = 20
_ELLIPSIS = re.compile(r"\[?(?:\.{3,}|…)\]?")


def score(claims: Sequence[Claim]) -> float:
    """Return supported claims / claims, in [0, 1].

    Raises:
        ValueError: there is no claim, so there is nothing to measure; the answer is unscored.
    """
    if not claims:
        raise ValueError("claims: an answer without claims has no faithfulness; leave it unscored")
    return sum(claim.verdict == "SUPPORTED" for claim in claims) / len(claims)


def unscored_reason(request: RagRequest) -> str | None:
    """Return why this request's answer cannot be judged, or None where it can.

    One of `no_question`, `no_answer`, `no_context` and `content_missing`; the latter where texts
    exist but were not sent. `no_claims` is found only by splitting the answer.
    """
    withheld = "content_missing" in request.flags
    if not _filled(request.question):
        return "content_missing" if withheld else "no_question"
    if not _filled(request.answer):
        return "content_missing" if withheld else "no_answer"
    if not request.documents:
        return "content_missing" if withheld else "no_context"
    filled = [_filled(document.text) for document in request.documents]
    if not any(filled) or (withheld and not all(filled)):
        return "content_missing"
    return None


def verify_quotes(claims: Sequence[Claim], documents: Sequence[Document]) -> list[Claim]:
    """Return the claims with only the evidence that stands in the context.

    A quote is looked for in the named document, then in the others (the rank is put right),
    after folding case, white space and punctuation. Long quotes may differ by a few letters and
    small words, never in a number, a negation or a whole word. An ellipsis in a quote separates
    parts that must follow each other. SUPPORTED and CONTRADICTED without such a quote become
    NOT_FOUND with the note `quote_unverified`; NOT_FOUND carries no evidence.
    """
    folded = [(document.rank, fold(text_of(document))) for document in documents]
    return [_verified(claim, folded) for claim in claims]


def text_of(document: Document) -> str:
    """Return what of a document can be evidence: its title, where it has one, and its text."""
    return f"{document.title}\n{document.text or ''}" if document.title else document.text or ""


def _verified(claim: Claim, folded: Sequence[tuple[int, str]]) -> Claim:
    if claim.verdict == "NOT_FOUND":
        return msgspec.structs.replace(claim, quote=None, document_rank=None)
    rank = _find(claim.quote or "", claim.document_rank, folded)
    if rank is None:
        return msgspec.structs.replace(
            claim, verdict="NOT_FOUND", quote=None, document_rank=None, note="quote_unverified"
        )
    return msgspec.structs.replace(claim, document_rank=rank)


def _find(quote: str, named: int | None, folded: Sequence[tuple[int, str]]) -> int | None:
    """Return the rank of the document that holds the quote, the named one first."""
    parts = [part for piece in _ELLIPSIS.split(quote) if (part := fold(piece))]
    if not parts or not all(_is_evidence(part) for part in parts):
        return None
    named_first = sorted(folded, key=lambda found: found[0] != named)
    return next((rank for rank, text in named_first if _holds(text, parts)), None)


def _is_evidence(part: str) -> bool:
    """A few letters, or words of grammar alone, occur everywhere and prove nothing."""
    words = part.split()
    characters = sum(len(word) for word in words if word[0].isalnum())
    return characters >= _MIN_WORD_CHARACTERS and not all(word in STOP_WORDS for word in words)


def _holds(text: str, parts: Sequence[str]) -> bool:
    start = 0
    for part in parts:
        end = _end_of(part, text, start)
        if end is None:
            return False
        start = end
    return True


def _end_of(part: str, text: str, start: int) -> int | None:
    """Return where the part ends in the text at or after `start`, None where it is not."""
    exact = f" {text} ".find(f" {part} ", start)
    if exact >= 0:
        return exact + len(part)
    if not FUZZ_MIN_CHARACTERS <= len(part) <= FUZZ_MAX_CHARACTERS:
        return None
    for near in _near(part, text, start):
        window = _matching_window(part, text, near)
        if window is not None and _same_words(part, text[window]):
            return int(window.stop)
    return None


def _near(part: str, text: str, start: int) -> Iterator[int]:
    """Yield where in the text the part may begin: wherever three words of it stand in a row."""
    words = part.split()
    offset = 0
    for position in range(0, len(words), _ANCHOR_WORDS):
        anchor = " ".join(words[position : position + _ANCHOR_WORDS])
        place = text.find(anchor, start)
        for _ in range(_PLACES_TRIED):
            if place < 0:
                break
            yield max(start, place - offset)
            place = text.find(anchor, place + 1)
        offset += len(anchor) + 1


def _matching_window(part: str, text: str, near: int) -> slice | None:
    """Return the whole words around `near` that are almost the part, None if nothing is."""
    low = max(0, near - _MARGIN)
    region = text[low : near + len(part) + _MARGIN]
    if len(region) < len(part):  # rapidfuzz would look for the region in the part instead
        first, last = 0, len(region)
        if fuzz.ratio(part, region) < FUZZ_MIN_RATIO:
            return None
    else:
        found = fuzz.partial_ratio_alignment(part, region, score_cutoff=FUZZ_MIN_RATIO)
        if found is None:
            return None
        first, last = found.dest_start, found.dest_end
    left = text.rfind(" ", 0, low + first + 1) + 1
    right = text.find(" ", low + last - 1)
    return slice(left, len(text) if right < 0 else right)


def _same_words(part: str, window: str) -> bool:
    """Say whether two passages differ in spelling and small words only.

    A number, a negation or another word ("decrease" for "increase") is never a typing error. A
    sign such as "$" may be missing from the quote.
    """
    if part.replace(" ", "") == window.replace(" ", ""):
        return True
    quoted, found = Counter(part.split()), Counter(window.split())
    only_quoted, only_found = quoted - found, found - quoted
    only_found = Counter({word: n for word, n in only_found.items() if word[-1].isalnum()})
    return _has_partners(only_quoted, only_found) and _has_partners(only_found, only_quoted)


def _has_partners(words: Iterable[str], others: Iterable[str]) -> bool:
    return all(
        word in STOP_WORDS or any(_is_misspelt(word, other) for other in others) for word in words
    )


def _is_misspelt(word: str, other: str) -> bool:
    """One letter more, less or other, but not the first one: that makes another word."""
    if word in NEGATIONS or not word.isalpha() or word[0] != other[0]:
        return False
    return Levenshtein.distance(word, other, score_cutoff=1) <= 1


def _filled(text: str | None) -> bool:
    return text is not None and not text.isspace() and text != ""
