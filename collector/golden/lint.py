"""What is wrong with a golden set, row by row and as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from collector.model import Document, RagRequest
from scorers.lexical import lexical_score
from scorers.lexical_text import fold
from scorers.stats.planning import precision
from sinks.golden_file import GoldenRow, PlacedRow, is_draft, normalised, position_of_same

UNANSWERABLE_SHARE = 0.1
"""Of the rows, as a rule of thumb: where fewer are unanswerable, refusals are hardly measured."""
FEW_OF_A_SEGMENT = 20
"""Rows of a segment below which the gate only reports it; +-22 points at best."""
LARGE_SEGMENT = 0.5
"""Share of the rows from which one segment speaks for the whole set."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong.

    Attributes:
        check: its name.
        level: `error` makes numbers of the row wrong, `warning` makes the set say less.
        message: what it is and how to mend it.
        line: of the row in the file, None where it is about the set.
        row_id: of the row.
    """

    check: str
    level: Literal["error", "warning"]
    message: str
    line: int | None = None
    row_id: str | None = None


def lint(
    placed: Sequence[PlacedRow], pages: Mapping[str, str | None] | None = None
) -> list[Finding]:
    """Return what is wrong with a golden set: rows in order of the file, then the set as a whole.

    Args:
        placed: its rows.
        pages: text by page id, None where it is not known; without any, sources are not checked.
    """
    rows = [row for _, row in placed]
    same = _duplicates(rows)
    folded = None if pages is None else {id_: fold(text) for id_, text in pages.items() if text}
    found = [
        Finding(check=check, level=level, message=message, line=line, row_id=row.id)  # type: ignore[arg-type]
        for number, (line, row) in enumerate(placed)
        for check, level, message in (
            *same.get(number, []),
            *_labels(row),
            *_reference(row),
            *([] if pages is None else _sources(row, pages, folded or {})),
        )
    ]
    return found + list(_whole(rows))


_Problem = tuple[str, str, str]


def _duplicates(rows: Sequence[GoldenRow]) -> dict[int, list[_Problem]]:
    """Return, for rows that ask what an earlier one asks, what to say of them."""
    questions = [normalised(row.question) for row in rows]
    found: dict[int, list[_Problem]] = {}
    for number, question in enumerate(questions):
        place = position_of_same(question, questions[:number])
        if place is not None:
            exact = questions[place] == question
            check, level = ("duplicate", "error") if exact else ("near_duplicate", "warning")
            told = f"asks {'' if exact else 'nearly '}the same as {rows[place].id}; keep one"
            found[number] = [(check, level, told)]
    return found


def _labels(row: GoldenRow) -> Iterator[_Problem]:
    if is_draft(row):
        yield "draft", "warning", "is a draft, which eval leaves out: finish it and remove draft"
    if row.segment is None:
        yield "no_segment", "error", "segment is missing; reports are cut by it"
    if not row.answerable:
        if row.gold_sources:
            yield (
                "sources_of_unanswerable",
                "warning",
                "cannot be answered, yet has gold_sources; one of them is wrong",
            )
        return
    if not row.gold_sources:
        yield "no_gold_sources", "error", "gold_sources is missing; without, no recall"
    if row.reference_answer is None:
        yield "no_reference", "error", "reference_answer is missing; without, no correctness"


def _reference(row: GoldenRow) -> Iterator[_Problem]:
    if not (row.quotes and row.reference_answer):
        return
    quotes = [Document(rank=n, text=text) for n, text in enumerate(row.quotes, 1)]
    said = lexical_score(
        RagRequest(
            trace_id=row.id,
            question=row.question,
            answer=row.reference_answer,
            documents=quotes,
        )
    )
    for claim in said.claims:
        if claim.verdict == "CONTRADICTED":
            yield (
                "reference_contradicts_quote",
                "error",
                f"reference_answer says “{claim.text}”, its quote “{claim.quote}”; one is wrong",
            )


def _sources(
    row: GoldenRow, pages: Mapping[str, str | None], folded: Mapping[str, str]
) -> Iterator[_Problem]:
    lost = [source for source in row.gold_sources if source not in pages]
    if lost:
        yield "source_is_gone", "error", f"no page has the id {', '.join(lost)}"
    texts = [folded[source] for source in row.gold_sources if source in folded]
    if lost or not row.gold_sources or len(texts) < len(row.gold_sources):
        return
    for quote in row.quotes:
        if not any(f" {fold(quote)} " in f" {text} " for text in texts):
            yield "quote_is_gone", "error", f"none of its pages holds “{quote}”"


def _whole(rows: Sequence[GoldenRow]) -> Iterator[Finding]:
    asked = [row for row in rows if not is_draft(row)]
    if not asked:
        yield Finding(check="empty", level="error", message="holds no row that eval would use")
        return
    refusals = sum(not row.answerable for row in asked)
    if refusals < UNANSWERABLE_SHARE * len(asked):
        yield Finding(
            check="few_unanswerable",
            level="warning",
            message=f"{refusals} of {len(asked)} questions cannot be answered: too few to see "
            f"whether the assistant refuses; add some, {UNANSWERABLE_SHARE:.0%} at least",
        )
    by_segment = Counter(row.segment for row in asked if row.segment is not None)
    for segment, n in sorted(by_segment.items()):
        if n < FEW_OF_A_SEGMENT:
            points = round(100 * precision(n).half_width)
            yield Finding(
                check="small_segment",
                level="warning",
                message=f"segment {segment} has {n} question{'s' if n > 1 else ''}, "
                f"good for a share to within {min(points, 50)} points; add some, or merge it",
            )
        if len(by_segment) > 1 and n > LARGE_SEGMENT * len(asked):
            yield Finding(
                check="large_segment",
                level="warning",
                message=f"segment {segment} is {n / len(asked):.0%} of the set: its mean is that "
                "of the set; read the report by segment",
            )
    if synthetic := sum(row.synthetic for row in asked):
        yield Finding(
            check="synthetic",
            level="warning",
            message=f"{synthetic} of {len(asked)} questions are synthetic; they flatter, and are "
            "reported apart",
        )
