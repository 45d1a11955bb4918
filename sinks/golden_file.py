"""The golden set on disk: read, check, and add rows without touching those already there.

A file is a list of rows, in YAML, JSON or JSON lines (by its suffix):

    - id: sso-on-pro
      question: Is SSO included in the Pro plan?
      segment: multi_page
      reference_answer: Yes, at 2 dollars per user and month.
      gold_sources: [page-212, page-1140]
      quotes: [SSO is available on Pro]     # optional; text that must reach the prompt
      answerable: true

The list may also stand under the key `questions` of the file, beside others; and rows of the older
shape with `query`, `relevant_chunk_ids` and `type` are read. A new file is always a plain list.
Keys that are not known here are kept in `extra`.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rapidfuzz import fuzz, process

from collector.errors import UsageError
from sinks.golden_parse import LocatedRow, parse_json, parse_yaml
from sinks.golden_text import dump_rows, with_rows, without_rows, write_atomically
from sinks.rows import storable

NEAR_DUPLICATE = 92.0
"""Similarity (token sort ratio, 0 to 100) from which two questions count as one."""

_ALIKE = 60.0
"""Similarity from which a question is worth a look before another like it is added."""

_OLD_NAMES = {"query": "question", "relevant_chunk_ids": "gold_sources", "type": "segment"}
_UNANSWERABLE_TYPES = frozenset({"unanswerable", "no_answer", "out_of_scope"})
_NEGATIONS = frozenset({"not", "no", "never", "without", "cannot", "t", "nor", "neither"})


class GoldenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One golden question.

    `gold_sources` are page ids (chunk ids are accepted) whose content the answer needs; `quotes`
    are short texts that must reach the prompt. `synthetic` marks a question that no user asked,
    `trace_id` the live request it came from.
    """

    id: str
    question: str
    segment: str | None = None
    reference_answer: str | None = None
    gold_sources: list[str] = []
    quotes: list[str] = []
    answerable: bool = True
    synthetic: bool = False
    trace_id: str | None = None
    extra: dict[str, Any] = {}


class PlacedRow(NamedTuple):
    """A row and the line of the file it starts on."""

    line: int
    row: GoldenRow


class Duplicate(NamedTuple):
    """A row that was not added, and the id of the row that asks the same."""

    row: GoldenRow
    same_as: str


class Similar(NamedTuple):
    """A row, how much its question resembles another (0 to 100), and whether it asks the same."""

    row: GoldenRow
    score: int
    same: bool


class Appended(NamedTuple):
    """What `append` did with each row."""

    added: list[GoldenRow]
    duplicates: list[Duplicate]


def load(path: Path) -> list[GoldenRow]:
    """Read a golden file.

    Returns:
        The rows in order of the file; [] for an empty file.

    Raises:
        UsageError: with every problem, each by line and field.
    """
    return [placed.row for placed in load_placed(path)]


def load_placed(path: Path) -> list[PlacedRow]:
    """Read a golden file as `load` does, each row with its line."""
    located = _parse(path, _read(path))
    rows = _rows(path, located)
    return [PlacedRow(where.line, row) for where, row in zip(located, rows, strict=True)]


def append(path: Path, rows: Sequence[GoldenRow]) -> Appended:
    """Add those of the rows whose question the file does not hold yet; make the file if absent.

    A row is a duplicate if its id is there, if its question is the same after case, white space
    and punctuation are set aside, or if it is nearly the same (see `same_question`). What the
    file holds already, comments included, stays as it is, byte for byte in YAML and JSON lines;
    only a draft gives way to a row of its id that is none.

    Raises:
        UsageError: the file cannot be read or written.
    """
    text = _read(path) if path.exists() else ""
    held = _rows(path, _parse(path, text))
    finished = {row.id for row in rows if not is_draft(row)}
    drafts = [n for n, row in enumerate(held) if is_draft(row) and row.id in finished]
    kept = [row for n, row in enumerate(held) if n not in drafts]
    result = _without_duplicates(kept, [_storable(row) for row in rows])
    if not result.added:
        return result
    if drafts:
        text = without_rows(path.suffix, text, drafts)
    new_text = with_rows(path.suffix, text, dump_rows(path.suffix, map(_plain, result.added)))
    read_back = _rows(path, _parse(path, new_text))
    if [_bare(row) for row in read_back] != [_bare(row) for row in [*kept, *result.added]]:
        raise UsageError([f"{path}: rows cannot be added to this layout; make it a plain list"])
    try:
        write_atomically(path, _byte_order_mark(path) + new_text)
    except OSError as err:
        raise UsageError([f"{path}: cannot be written: {err.strerror}"]) from err
    return result


def is_draft(row: GoldenRow) -> bool:
    """Whether a row is a suggestion that nobody has decided on."""
    return bool(row.extra.get("draft"))


def normalised(question: str) -> str:
    """Return a question without case, punctuation and repeated white space."""
    folded = unicodedata.normalize("NFKC", question).casefold()
    kept = (" " if unicodedata.category(char).startswith("P") else char for char in folded)
    return " ".join("".join(kept).split())


def same_question(one: str, other: str) -> bool:
    """Whether two normalised questions ask the same, word order aside.

    Questions that differ in a number, an identifier or a negation are never the same, however
    alike they look.
    """
    if one == other:
        return True
    if _telling_words(one) != _telling_words(other):
        return False
    return fuzz.token_sort_ratio(one, other, score_cutoff=NEAR_DUPLICATE) > 0


def position_of_same(question: str, others: Sequence[str]) -> int | None:
    """Return where among normalised questions one asks the same as `question`, None if none does.

    The very same one is preferred to nearly the same ones. Thousands are looked through at once.
    """
    if question in others:
        return others.index(question)
    alike = process.extract_iter(
        question, others, scorer=fuzz.token_sort_ratio, score_cutoff=NEAR_DUPLICATE
    )
    return next((place for other, _, place in alike if same_question(question, other)), None)


def similar(question: str, rows: Sequence[GoldenRow], limit: int = 5) -> list[Similar]:
    """Return the rows that ask most nearly the same, nearest first; those below 60 are left out."""
    asked = normalised(question)
    found = [
        Similar(row, round(score), same_question(asked, other))
        for row in rows
        if (score := fuzz.token_sort_ratio(asked, other := normalised(row.question))) >= _ALIKE
    ]
    return sorted(found, key=lambda one: (not one.same, -one.score))[:limit]


def _telling_words(question: str) -> list[str]:
    return sorted(
        word
        for word in question.split()
        if word in _NEGATIONS or any(char.isdigit() for char in word)
    )


def _without_duplicates(held: Sequence[GoldenRow], rows: Sequence[GoldenRow]) -> Appended:
    ids = [row.id for row in held]
    questions = [normalised(row.question) for row in held]
    result = Appended([], [])
    for row in rows:
        question = normalised(row.question)
        place = position_of_same(question, questions)
        if row.id in ids or place is not None:
            same_as = row.id if row.id in ids or place is None else ids[place]
            result.duplicates.append(Duplicate(row, same_as))
            continue
        ids.append(row.id)
        questions.append(question)
        result.added.append(row)
    return result


# --- Reading -----------------------------------------------------------------------------


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as err:
        raise UsageError([f"{path}: cannot be read: {err.strerror}"]) from err
    except UnicodeDecodeError as err:
        raise UsageError([f"{path}: is not UTF-8; save it as UTF-8"]) from err


def _byte_order_mark(path: Path) -> str:
    """Return what some editors of Windows put before a text."""
    mark = "\ufeff"
    return mark if path.exists() and path.read_bytes().startswith(mark.encode()) else ""


def _parse(path: Path, text: str) -> list[LocatedRow]:
    is_json = path.suffix in (".json", ".jsonl")
    return parse_json(path, text) if is_json else parse_yaml(path, text)


def _rows(path: Path, located: Sequence[LocatedRow]) -> list[GoldenRow]:
    problems: list[tuple[int, str]] = []
    rows: list[GoldenRow] = []
    lines: dict[str, int] = {}
    for where in located:
        if where.problem is not None:
            problems.append((where.line, where.problem))
            continue
        row, wrong = _row(storable(where.values))
        if row is not None and row.id in lines:
            taken = f"is taken by the row at line {lines[row.id]}; ids must be unique"
            wrong.append(("id", taken))
        problems += [(where.line_of(field), f"{field}: {text}") for field, text in wrong]
        if row is not None:
            lines.setdefault(row.id, where.line_of("id"))
            rows.append(row)
    if problems:
        raise UsageError([f"{path}:{line}: {text}" for line, text in sorted(problems)])
    return rows


def _row(values: Mapping[str, Any]) -> tuple[GoldenRow | None, list[tuple[str, str]]]:
    """Return the row, or None with (field as written, what is wrong and how to mend it)."""
    written = {_name(key, values): key for key in values}
    fields = {name: values[key] for name, key in written.items() if values[key] is not None}
    known = {name: fields[name] for name in GoldenRow.__struct_fields__[:-1] if name in fields}
    wrong = [
        (written[name], problem)
        for name, value in known.items()
        if (problem := _problem(name, value)) is not None
    ]
    if "question" not in known:
        wrong.append(("question", "is missing; give the question that is asked"))
    if wrong:
        return None, wrong
    for name in ("id", "segment", "trace_id"):
        if name in known:
            known[name] = str(known[name])
    for name in ("gold_sources", "quotes"):
        known[name] = [str(item) for item in known.get(name, [])]
    known.setdefault("id", _derived_id(known["question"]))
    if str(values.get("type")).lower() in _UNANSWERABLE_TYPES:
        known.setdefault("answerable", False)
    extra = {name: value for name, value in fields.items() if name not in known}
    return GoldenRow(**known, extra=extra), []


def _name(key: str, values: Mapping[str, Any]) -> str:
    """Return the field that a key stands for; an old name does if the new one is not there."""
    name = _OLD_NAMES.get(key, key)
    return key if name in values else name


def _problem(name: str, value: Any) -> str | None:
    if name in ("answerable", "synthetic"):
        return None if isinstance(value, bool) else "must be true or false"
    if name in ("gold_sources", "quotes"):
        fits = isinstance(value, list) and all(_is_name(item) for item in value)
        return None if fits else "must be a list of texts, such as [page-1, page-2]"
    named = name in ("id", "segment", "trace_id")
    if _is_name(value) if named else isinstance(value, str) and value.strip():
        return None
    unquoted = isinstance(value, int | float)
    return "must be a text: put it in quotes" if unquoted else "must be a text that is not empty"


def _is_name(value: Any) -> bool:
    """Whether a value names something: a text, or a number that somebody did not quote."""
    if isinstance(value, str):
        return bool(value.strip())
    return isinstance(value, int) and not isinstance(value, bool)


def _derived_id(question: str) -> str:
    """Return an id for a row of the older shape, which has none: the same for the same question."""
    slug = re.sub(r"[^a-z0-9]+", "-", normalised(question))[:30].strip("-")
    return f"{slug}-{hashlib.sha256(normalised(question).encode()).hexdigest()[:8]}"


def _storable(row: GoldenRow) -> GoldenRow:
    fields = {name: storable(getattr(row, name)) for name in GoldenRow.__struct_fields__}
    return GoldenRow(**fields)


def _bare(row: GoldenRow) -> GoldenRow:
    """Return the row without the keys that are not ours: YAML may read those another way."""
    return msgspec.structs.replace(row, extra={})


def _plain(row: GoldenRow) -> dict[str, Any]:
    """Return the row as it is written: fields that say nothing are left out."""
    always = ("id", "question", "segment", "reference_answer", "gold_sources", "answerable")
    fields = {name: getattr(row, name) for name in GoldenRow.__struct_fields__[:-1]}
    return {
        name: value
        for name, value in fields.items()
        if value not in (None, [], False) or (name in always and value is not None)
    } | row.extra
