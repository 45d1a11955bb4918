"""Finds the place of the context that says most of what a claim says, and checks its facts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import NamedTuple

from collector.model import Document
from scorers.lexical_numbers import Quantity, quantities, spell_out_dates
from scorers.lexical_text import NEGATIONS, STOP_WORDS, fold, segments, stems

_GRAMMAR_WEIGHT = 0.3
_NUMBER_WEIGHT = 2.0
_NAME_WEIGHT = 1.5
_COMMON_START = 5
_COMMON_START_CREDIT = 0.6
_REACH = 2
_PLACES_TRIED = 6
_SCOPE = 2
_SCOPE_REACH = 5

_ANSWER_PARTICLE = re.compile(r"^\W*(?:no|nein|non|não|nee)\s*[,.!;:–—-]\s*", re.IGNORECASE)
_NAME = re.compile(r"\b[^\W\d_a-z][^\W_]*")


class Statement(NamedTuple):
    """A claim ready to be looked up: the weight of each stem, its numbers, its stems in order."""

    weights: dict[str, float]
    quantities: list[Quantity]
    words: list[str]


class Evidence(NamedTuple):
    """What the context says about a claim.

    `coverage` is the weighted share of the claim's words found together, averaged with the share
    found anywhere; in [0, 1]. `nearby` is the share of the content found in the one best
    sentence. `rank` and `quote` say where.
    """

    coverage: float
    nearby: float
    number_missing: bool
    number_conflict: bool
    negation_conflict: bool
    rank: int
    quote: str


class _Sentence(NamedTuple):
    document: int
    start: int
    end: int
    words: frozenset[str]


class Context:
    """The documents of one request, split into sentences that are findable by stem.

    Args:
        documents: the context.
        code: language of stems and sentence boundaries, ISO 639-1.
    """

    def __init__(self, documents: Sequence[Document], code: str) -> None:
        self._code = code
        self._documents = documents
        self._texts = [_text_of(document) for document in documents]
        self._sentences: list[_Sentence] = []
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self._texts):
            self._add(number, text)
        self._starts: dict[str, list[str]] | None = None

    def _add(self, number: int, text: str) -> None:
        places = self._places
        for start, end in segments(text, self._code):
            words = frozenset(self._stems(text[start:end]))
            for word in words:
                places[word].append(len(self._sentences))
            self._sentences.append(_Sentence(number, start, end, words))

    def read(self, claim: str) -> Statement:
        """Prepare a claim for `find`."""
        words = self._stems(_ANSWER_PARTICLE.sub("", claim))
        names = set(self._stems(" ".join(_NAME.findall(claim))))
        return Statement(
            {word: _weight(word, names) for word in words},
            list(quantities(words)),
            words,
        )

    def find(self, statement: Statement) -> Evidence | None:
        """Return the best evidence for a claim, None where no word of it occurs."""
        weights = statement.weights
        written = {word: forms for word in weights if (forms := self._written(word))}
        content = {word: forms for word, forms in written.items() if word not in STOP_WORDS}
        if not content:
            return None
        nearby: dict[int, float] = defaultdict(float)
        for word, forms in content.items():
            for form in forms:
                for place in self._places[form]:
                    nearby[place] += weights[word] * _credit(word, form)
        tried = nlargest(_PLACES_TRIED, nearby, key=lambda place: (nearby[place], -place))
        windows = [self._window(place) for place in tried]
        covered = [_covered(written, weights, self._words(window)) for window in windows]
        best = max(range(len(tried)), key=lambda index: (covered[index], -index))
        total = sum(weights.values())
        anywhere = _covered(written, weights, self._places)
        total_content = sum(w for word, w in weights.items() if word not in STOP_WORDS)
        return self._evidence(
            statement,
            windows[best],
            tried[best],
            coverage=(covered[best] + anywhere) / (2 * total),
            nearby=min(1.0, nearby[tried[best]] / total_content),
        )

    def _evidence(
        self, statement: Statement, window: range, place: int, *, coverage: float, nearby: float
    ) -> Evidence:
        sentence = self._sentences[place]
        text = self._texts[sentence.document]
        words = self._stems(text[sentence.start : sentence.end])
        stated = [
            quantity for number in window for quantity in quantities(self._stems(self._raw(number)))
        ]
        return Evidence(
            coverage=coverage,
            nearby=nearby,
            number_missing=any(
                quantity.value not in self._places for quantity in statement.quantities
            ),
            number_conflict=any(_conflicts(quantity, stated) for quantity in statement.quantities),
            negation_conflict=_denies(statement.words, words) or _denies(words, statement.words),
            rank=self._documents[sentence.document].rank,
            quote=self._quote(statement, window, place),
        )

    def _quote(self, statement: Statement, window: range, place: int) -> str:
        """The text from the first to the last sentence of the window that adds something."""
        needed = {word for word in statement.weights if word not in STOP_WORDS}
        needed -= self._sentences[place].words
        used = [place]
        for number in sorted(window, key=lambda other: abs(other - place)):
            found = needed & self._sentences[number].words
            if found:
                used.append(number)
                needed -= found
        start = self._sentences[min(used)].start
        end = self._sentences[max(used)].end
        return self._texts[self._sentences[place].document][start:end]

    def _raw(self, number: int) -> str:
        sentence = self._sentences[number]
        return self._texts[sentence.document][sentence.start : sentence.end]

    def _window(self, place: int) -> range:
        """The sentences within `_REACH` of a place, in its document."""
        document = self._sentences[place].document
        first = last = place
        while first > max(0, place - _REACH) and self._sentences[first - 1].document == document:
            first -= 1
        limit = min(len(self._sentences) - 1, place + _REACH)
        while last < limit and self._sentences[last + 1].document == document:
            last += 1
        return range(first, last + 1)

    def _words(self, window: range) -> frozenset[str]:
        return frozenset().union(*(self._sentences[number].words for number in window))

    def _written(self, word: str) -> Sequence[str]:
        """Return the forms in which a word occurs: itself, else those with the same start."""
        if word in self._places:
            return (word,)
        if len(word) < _COMMON_START or not word[0].isalpha() or word in STOP_WORDS:
            return ()
        if self._starts is None:
            self._starts = defaultdict(list)
            for known in self._places:
                if len(known) >= _COMMON_START and known[0].isalpha():
                    self._starts[known[:_COMMON_START]].append(known)
        return self._starts.get(word[:_COMMON_START], ())

    def _stems(self, text: str) -> list[str]:
        return stems(fold(spell_out_dates(text)), self._code)


def _text_of(document: Document) -> str:
    return f"{document.title}\n{document.text}" if document.title else document.text or ""


def _weight(word: str, names: set[str]) -> float:
    if word in STOP_WORDS:
        return _GRAMMAR_WEIGHT
    if word[-1].isdigit():
        return _NUMBER_WEIGHT
    return _NAME_WEIGHT if word in names else 1.0


def _credit(word: str, form: str) -> float:
    return 1.0 if word == form else _COMMON_START_CREDIT


def _covered(
    written: dict[str, Sequence[str]], weights: dict[str, float], words: Iterable[str]
) -> float:
    return sum(
        weights[word] * max((_credit(word, form) for form in forms if form in words), default=0.0)
        for word, forms in written.items()
    )


def _conflicts(claimed: Quantity, stated: Sequence[Quantity]) -> bool:
    """Say whether another amount of the same kind stands where the claimed one should."""
    if claimed.dimension is None or any(_agrees(claimed, found) for found in stated):
        return False
    return any(claimed.dimension == found.dimension for found in stated)


def _agrees(claimed: Quantity, found: Quantity) -> bool:
    return claimed.value == found.value and found.unit in (None, claimed.unit)


def _denied(words: Sequence[str]) -> set[tuple[str, ...]]:
    """Return, for each negation, the first content words after it."""
    scopes = set()
    for position, word in enumerate(words):
        if word in NEGATIONS:
            after = words[position + 1 : position + 1 + _SCOPE_REACH]
            content = [other for other in after if _is_content(other)]
            scopes.add(tuple(content[:_SCOPE]))
    return scopes - {()}


def _denies(one: Sequence[str], other: Sequence[str]) -> bool:
    """Say whether one text negates what the other one says without a negation."""
    scopes = _denied(one)
    if not scopes:
        return False
    denied_there = {word for scope in _denied(other) for word in scope}
    return any(
        not denied_there.intersection(scope) and _close_together(scope, other) for scope in scopes
    )


def _close_together(scope: tuple[str, ...], words: Sequence[str]) -> bool:
    first, last = scope[0], scope[-1]
    places = [position for position, word in enumerate(words) if word == last]
    return any(
        first in words[max(0, place - _SCOPE_REACH) : place + _SCOPE_REACH] for place in places
    )


def _is_content(word: str) -> bool:
    return word not in STOP_WORDS and word not in NEGATIONS
