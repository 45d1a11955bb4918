"""What the judging model is sent: our prompts, and the data as JSON.

Questions, answers and documents are hostile text. They travel only as strings of one JSON
object in the user message, so no delimiter of theirs can end the data and begin an instruction.
What a server could take for the markup of its chat template ("<|im_end|>", "[INST]"), and what
nobody sees (bidirectional marks, tag characters), travels as escapes: the same text, but inert.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from string import Template
from typing import Any, NamedTuple

from collector.model import Document

_OVERLAP_CHARACTERS = 400
_TITLE_CHARACTERS = 200
_BYTES_PER_TOKEN = 3
_MIN_PIECE_TOKENS = 100
_INERT = re.compile(
    "[<\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
    r"|\[(?=/?[A-Z_]{3,20}\])"
)


class Prompts(NamedTuple):
    """The texts of `scorers/judge/prompts`."""

    claims: str
    verdicts: str
    repair: str
    needs: str
    coverage: str
    helpful: str
    refusal: str


class Piece(NamedTuple):
    """A document, or a part of one that is too long for a single call."""

    rank: int
    title: str | None
    text: str


def load_prompts() -> Prompts:
    """Read the prompts that come with the package."""
    folder = resources.files("scorers.judge.prompts")
    return Prompts(*(folder.joinpath(f"{name}.txt").read_text("utf-8") for name in Prompts._fields))


def digest(*parts: Any) -> str:
    """Return 8 hex digits that change whenever the prompts or schemas do."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]


def claims_message(question: str, answer: str) -> str:
    """Return the user message of the call that lists the claims."""
    return _json({"question": question, "answer": answer})


def question_message(question: str) -> str:
    """Return the user message of the call that lists what a question wants to know."""
    return _json({"question": question})


def documents_message(question: str, pieces: Sequence[Piece]) -> str:
    """Return the user message of the call that rates documents."""
    return _json({"documents": _documents(pieces), "question": question})


def verdicts_message(question: str, pieces: Sequence[Piece], claims: dict[int, str]) -> str:
    """Return the user message of the call that checks the claims, given by id.

    Documents come first, claims last: calls on the same documents share a prefix, which providers
    cache.
    """
    return _json(
        {
            "documents": _documents(pieces),
            "question": question,
            "claims": [{"id": number, "text": text} for number, text in claims.items()],
        }
    )


def _documents(pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    return [{"number": piece.rank, "title": piece.title, "text": piece.text} for piece in pieces]


def repair_message(template: str, problem: str) -> str:
    """Return the user message that asks once more after an unusable reply."""
    return Template(template).substitute(problem=problem)


def estimate_tokens(text: str) -> int:
    """Return an upper estimate of the tokens of a text: one for three bytes of UTF-8.

    English needs about a quarter less, Chinese about as many.
    """
    return len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN + 1


def group_documents(documents: Sequence[Document], max_tokens: int) -> list[list[Piece]]:
    """Spread the documents over calls of at most `max_tokens` each, in order, all text kept.

    A document that is too long by itself is cut at paragraph, sentence or word ends into parts
    that overlap a little, so that no evidence is lost at a cut.
    """
    return _grouped((_whole(document) for document in documents), max_tokens)


def smaller_groups(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Spread the pieces of one call over at least two; none where they are small already."""
    half = sum(_size(piece) for piece in pieces) // 2
    return _grouped(pieces, half) if half >= _MIN_PIECE_TOKENS else []


def _grouped(wholes: Iterable[Piece], max_tokens: int) -> list[list[Piece]]:
    groups: list[list[Piece]] = []
    free = 0
    for whole in wholes:
        for piece in _cut_up(whole, max_tokens):
            size = _size(piece)
            if size > free:
                groups.append([])
                free = max_tokens
            groups[-1].append(piece)
            free -= size
    return groups


def _whole(document: Document) -> Piece:
    whole = Piece(document.rank, document.title, document.text or "")
    if whole.title and len(whole.title) > _TITLE_CHARACTERS:  # no title: it could not be cut
        whole = Piece(whole.rank, None, f"{whole.title}\n{whole.text}")
    return whole


def _cut_up(whole: Piece, max_tokens: int) -> Iterator[Piece]:
    rest = whole.text
    while _size(whole._replace(text=rest)) > max_tokens:
        end = _cut(whole, rest, max_tokens)
        yield whole._replace(text=rest[:end])
        rest = rest[max(end - _OVERLAP_CHARACTERS, end // 2, 1) :]
    if rest.strip():
        yield whole._replace(text=rest)


def _cut(whole: Piece, rest: str, max_tokens: int) -> int:
    """Return how many characters of `rest` fit, at the best break of the last third if any."""
    low, high = 1, min(len(rest), max_tokens * _BYTES_PER_TOKEN)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(whole._replace(text=rest[:middle])) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    for mark in ("\n\n", "\n", ". ", "。", " "):
        end = rest.rfind(mark, low * 2 // 3, low)
        if end > 0:
            return end + len(mark)
    return low


def _size(piece: Piece) -> int:
    return estimate_tokens(_json([piece.rank, piece.title, piece.text])) + 12


def _json(value: Any) -> str:
    """Dump as JSON; half surrogates, which no endpoint could read, become question marks."""
    plain = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
    return _INERT.sub(_escaped, plain)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
