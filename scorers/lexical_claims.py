"""Splits an answer into claims without a model: one per sentence, list item or table row.

Citations and markup are stripped; headings, questions, courtesy and abstentions are no claims.
"""

import re
from collections.abc import Iterator

from scorers.lexical_text import fold, is_content, sentences
from scorers.refusal import is_abstention, is_courtesy

_CITATION = re.compile(
    r"[ \t]?(?:\[\^?(?:doc(?:ument)?|source|ref)?\.?\s*\d+(?:\s*[,;–-]\s*\^?\d+)*\]"
    r"|【[^】]{1,40}】|\((?:doc(?:ument)?|source|ref)\.?\s*\d+\)|[⁰¹²³⁴-⁹]+(?=[\s.,;]|$))",
    re.IGNORECASE,
)
# Bounded, as the text is hostile: an unclosed bracket must not be followed to the very end.
_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^)\s]{0,1000}\)")
_EMPHASIS = re.compile(r"(\*{1,3}|_{2,3}|`+|~~)(?=\S)(.+?)(?<=\S)\1")
_FENCE = re.compile(r"[ \t]*(```|~~~)")
_ITEM = re.compile(r"^\s*(?:[-*+•‣◦▪–]|\(?\d{1,3}[.)]|\(?[a-zA-Z][.)])\s+")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s")
_TABLE_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_REFERENCES = re.compile(
    r"^\W*(?:sources?|references?|citations?|quellen|références|fuentes)\W*$", re.IGNORECASE
)
_CLAUSE_END = re.compile(r"\s*[,;:–—]\s+|\s+\(|\)\s*|[，；：、]")
_BARE_ANSWER = re.compile(r"\W*(?:yes|no|ja|nein|oui|non|sí|si|sim|não|nee)\W*", re.IGNORECASE)
_SHORT_ITEM_WORDS = 4
_CLAUSE_WORDS = 2


def split_claims(answer: str, code: str) -> list[str]:
    """Return the claims of an answer, in order and once each, readable on their own if possible.

    A bare "yes" counts only where nothing else is said.

    Args:
        answer: the answer as sent, plain text or Markdown.
        code: its language, ISO 639-1.
    """
    text = _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", _without_code(answer)))
    text = _CITATION.sub("", text)
    claims = dict.fromkeys(claim for block in _blocks(text) for claim in _claims(block, code))
    substantial = [claim for claim in claims if not _BARE_ANSWER.fullmatch(claim)]
    return substantial or list(claims)


def clauses(sentence: str) -> list[str]:
    """Cut a sentence at commas and brackets into parts of at least two content words each.

    Returns the sentence alone where there are no two such parts.
    """
    parts: list[str] = []
    for part in _CLAUSE_END.split(sentence):
        if parts and (
            _content_words(part) < _CLAUSE_WORDS or _content_words(parts[-1]) < _CLAUSE_WORDS
        ):
            parts[-1] = f"{parts[-1]}, {part}"
        elif part:
            parts.append(part)
    return parts if len(parts) > 1 else [sentence]


def _content_words(text: str) -> int:
    return sum(is_content(word) for word in fold(text).split())


def _without_code(text: str) -> str:
    """Leave fenced code out; a fence that never closes hides the rest, as Markdown has it."""
    kept: list[str] = []
    fence: str | None = None
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if mark and fence in (None, mark[1]):
            fence = mark[1] if fence is None else None
            kept.append("")
        elif fence is None:
            kept.append(line)
    return "\n".join(kept)


def _claims(block: str, code: str) -> Iterator[str]:
    for sentence in sentences(block, code):
        claims_nothing = (
            sentence.endswith(":")
            or not is_content(fold(sentence))
            or is_courtesy(sentence)
            or is_abstention(sentence)
        )
        if not claims_nothing:
            yield sentence


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs, list items with their introduction where they are short, table rows."""
    paragraph: list[str] = []
    introduction = ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _REFERENCES.match(line):
            break
        following = lines[number + 1] if number + 1 < len(lines) else ""
        item = _ITEM.match(line)
        starts_block = item or _HEADING.match(line) or line.lstrip().startswith("|")
        if (starts_block or not line.strip()) and paragraph:
            joined = " ".join(paragraph)
            paragraph = []
            introduction = joined if joined.endswith(":") else ""
            yield joined
        if item:
            yield _item(line[item.end() :].strip(), introduction)
        elif line.lstrip().startswith("|"):
            if not _TABLE_RULE.match(line) and not _TABLE_RULE.match(following):
                yield ", ".join(cell.strip() for cell in line.split("|") if cell.strip())
        elif line.strip() and not _HEADING.match(line):
            paragraph.append(line.strip())
    if paragraph:
        yield " ".join(paragraph)


def _item(text: str, introduction: str) -> str:
    """A bare name in a list says something only together with the line above the list."""
    if introduction and len(text.split()) < _SHORT_ITEM_WORDS:
        return f"{introduction.rstrip(':')} {text}"
    return text
