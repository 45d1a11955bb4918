"""What of the live traffic a golden set covers, and how far their mixes have drifted apart.

A set is stratified on purpose, so its mix need not be that of the traffic; but a set that hardly
knows what users ask now makes honest numbers lie. Drift is the total variation distance between
two mixes: the share of one that would have to move to give the other. Beside it stands what
chance alone would make of a set of this size drawn from the traffic.

Questions are compared by their words, rare ones weighing more (cosine of TF-IDF vectors of stems),
so that a question in wholly other words may be called uncovered: the nearest golden question is
named with it. Thresholds were set by hand.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from scorers.lexical_text import STOP_WORDS, language, stems
from sinks.golden_file import GoldenRow, is_draft

ALIKE = 0.4
"""Similarity from which a golden question covers a live one."""
ALIKE_ON_A_PAGE = 0.2
"""The same where both rest on one page."""
STALE_DRIFT = 0.25
"""Distance of the segments' mixes from which a set is stale, if chance would not make it."""
STALE_UNCOVERED = 0.25
"""Share of the requests that no golden question covers from which a set is stale."""
_DRAWS = 2_000
_LISTED = 20


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """One segment, or one page that answers rest on, in the set and in the traffic."""

    name: str
    golden: float
    synthetic: int
    golden_share: float
    requests: float
    live_share: float


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """How far two mixes are apart, in [0, 1]; `by_chance` is exceeded by 5 % of drawn sets."""

    distance: float
    by_chance: float
    mixes: list[Mix]


class Uncovered(msgspec.Struct, frozen=True, kw_only=True):
    """A live question that no golden question covers, and the one that comes nearest."""

    question: str
    segment: str
    requests: int
    nearest: str | None
    similarity: float


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """What a set covers. `covered` is a share of the requests whose question is known."""

    rows: int
    requests: int
    compared: int
    covered: float | None
    segments: Drift
    topics: Drift
    uncovered: list[Uncovered]
    uncovered_questions: int
    stale: list[str]


def coverage(rows: Sequence[GoldenRow], live: Sequence[Mapping[str, Any]]) -> Coverage:
    """Compare a golden set with live traffic.

    Args:
        rows: of the set; drafts are left out.
        live: rows of the query `live_questions`.
    """
    rows = [row for row in rows if not is_draft(row)]
    totals = {one["segment"]: int(one["segment_requests"]) for one in live}
    segments = _drift(
        [((row.segment or "(none)",), row.synthetic) for row in rows],
        [((name,), n) for name, n in totals.items()],
    )
    topics = _drift(
        [(tuple(row.gold_sources), row.synthetic) for row in rows],
        [(tuple(one["pages"]), int(one["requests"])) for one in live],
    )
    asked = [one for one in live if one["question"]]
    compared = sum(int(one["requests"]) for one in asked)
    missing = _uncovered(rows, asked)
    covered = 1.0 - sum(one.requests for one in missing) / compared if compared else None
    return Coverage(
        rows=len(rows),
        requests=sum(totals.values()),
        compared=compared,
        covered=covered,
        segments=segments,
        topics=topics,
        uncovered=sorted(missing, key=lambda one: (-one.requests, one.similarity))[:_LISTED],
        uncovered_questions=len(missing),
        stale=list(_stale(segments, covered)),
    )


def _stale(segments: Drift, covered: float | None) -> Iterable[str]:
    if segments.distance > max(segments.by_chance, STALE_DRIFT):
        yield f"{segments.distance:.0%} of the set would have to change its segment"
    if covered is not None and 1.0 - covered > STALE_UNCOVERED:
        yield f"no golden question covers {1.0 - covered:.0%} of the requests"


# --- Mixes -------------------------------------------------------------------------------


def _drift(
    golden: Sequence[tuple[Sequence[str], bool]], live: Sequence[tuple[Sequence[str], int]]
) -> Drift:
    """Compare two mixes; what has several names counts in equal parts, what has none not at all."""
    held: Counter[str] = Counter()
    synthetic: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for names, made_up in golden:
        for name in names:
            held[name] += 1 / len(names)  # type: ignore[assignment]
            synthetic[name] += made_up
    for names, requests in live:
        for name in names:
            seen[name] += requests / len(names)  # type: ignore[assignment]
    n, total = math.fsum(held.values()), math.fsum(seen.values())
    mixes = [
        Mix(
            name=name,
            golden=held[name],
            synthetic=synthetic[name],
            golden_share=held[name] / n if n else 0.0,
            requests=seen[name],
            live_share=seen[name] / total if total else 0.0,
        )
        for name in sorted(held | seen, key=lambda name: (-seen[name], name))
    ]
    if not n or not total:
        return Drift(distance=0.0, by_chance=0.0, mixes=mixes)
    share = np.array([one.live_share for one in mixes])
    distance = 0.5 * float(np.abs(np.array([one.golden_share for one in mixes]) - share).sum())
    return Drift(distance=distance, by_chance=_by_chance(share, round(n)), mixes=mixes)


def _by_chance(share: np.ndarray[Any, Any], n: int) -> float:
    """Return the distance that 5 % of the sets of n rows drawn from the traffic exceed."""
    drawn = np.random.default_rng(0).multinomial(n, share / share.sum(), size=_DRAWS) / n
    return float(np.quantile(0.5 * np.abs(drawn - share).sum(axis=1), 0.95))


# --- Questions ---------------------------------------------------------------------------


def _uncovered(rows: Sequence[GoldenRow], asked: Sequence[Mapping[str, Any]]) -> list[Uncovered]:
    if not rows or not asked:
        return [_missing(one, None, 0.0) for one in asked]
    texts = [*(row.question for row in rows), *(str(one["question"]) for one in asked)]
    vectors = _vectors(texts)
    golden = vectors[: len(rows)].T
    found = []
    for number, one in enumerate(asked, len(rows)):
        similar = (vectors[[number]] @ golden).toarray()[0]
        nearest = int(similar.argmax())
        if similar[nearest] < ALIKE and not _on_a_page(one, rows, similar):
            found.append(_missing(one, rows[nearest], float(similar[nearest])))
    return found


def _on_a_page(
    one: Mapping[str, Any], rows: Sequence[GoldenRow], similar: np.ndarray[Any, Any]
) -> bool:
    """Whether a golden question is alike enough, given that both rest on one page."""
    pages = set(one["pages"])
    close = map(int, np.flatnonzero(similar >= ALIKE_ON_A_PAGE))
    return any(pages.intersection(rows[place].gold_sources) for place in close)


def _missing(one: Mapping[str, Any], nearest: GoldenRow | None, similarity: float) -> Uncovered:
    return Uncovered(
        question=one["question"],
        segment=one["segment"],
        requests=int(one["requests"]),
        nearest=nearest.question if nearest and similarity > 0.0 else None,
        similarity=similarity,
    )


def _vectors(texts: Sequence[str]) -> sparse.csr_array:
    """Return one TF-IDF vector of length 1 a text, of the stems of its words of content."""
    counts = [Counter(w for w in stems(text, language(text)) if _tells(w)) for text in texts]
    held_by = Counter(word for words in counts for word in words)
    column = {word: number for number, word in enumerate(held_by)}
    weight = {word: 1.0 + math.log(len(texts) / n) for word, n in held_by.items()}
    values, columns, starts = [], [], [0]
    for words in counts:
        row = {word: n * weight[word] for word, n in words.items()}
        length = math.hypot(*row.values()) or 1.0
        values += [value / length for value in row.values()]
        columns += [column[word] for word in row]
        starts.append(len(values))
    return sparse.csr_array((values, columns, starts), shape=(len(texts), max(1, len(column))))


def _tells(word: str) -> bool:
    return word not in STOP_WORDS and word[0].isalnum()
