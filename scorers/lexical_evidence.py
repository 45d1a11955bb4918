"""Finds the place of the context that says most of what a claim says, and checks its facts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Sequence
from heapq import nlargest
from typing import NamedTuple

from collector.model import Document
from scorers.faithfulness import text_of
from scorers.lexical_numbers import UNIT_NAMES, Quantity, quantities
from scorers.lexical_text import NEGATIONS, STOP_WORDS, counted_words, segments, stems

_GRAMMAR_WEIGHT = 0.5
_NUMBER_WEIGHT = 1.5
_NAME_WEIGHT = 1.5
_COMMON_START = 5
_COMMON_START_CREDIT = 1 / 3
_REACH = 1
_PLACES_TRIED = 8
_PLACES_PER_WORD = 200
_SCOPE = 2
_SCOPE_REACH = 5
_MAX_LENGTH_RATIO = 1.7
_NEGATED_FROM = 0.9
_OTHER_AMOUNT_FROM = 0.6

_ANSWER_PARTICLE = re.compile(r"^\W*(?:no|nein|non|não|nee)\s*[,.!;:–—-]\s*", re.IGNORECASE)
_NAME = re.compile(r"\b[^\W\d_a-z][^\W_]*")


class Statement(NamedTuple):
    """A claim ready to be looked up: the weight of each stem, its numbers, its stems in order."""

    weights: dict[str, float]
    quantities: list[Quantity]
    words: list[str]


class Evidence(NamedTuple):
    """What the context says about a claim.

    `coverage` is the weighted share of the claim's words found in one sentence, in three
    neighbouring ones and anywhere in the context, the mean of the three; in [0, 1].
    `number_missing`: a number of the claim is nowhere. `contradicted`: the place speaks of the
    same thing with another amount, or one of the two is negated. `rank` and `quote` say where;
    `words` are the stems of that place and its neighbours.
    """

    coverage: float
    number_missing: bool
    contradicted: bool
    rank: int
    quote: str
    words: frozenset[str]

    def share(self, statement: Statement) -> float:
        """Return the weighted share of a statement's words that stand in this very place."""
        weights = statement.weights
        found = sum([weight for word, weight in weights.items() if word in self.words])
        return found / sum(weights.values()) if weights else 0.0


class _Sentence(NamedTuple):
    document: int
    start: int
    end: int
    words: frozenset[str]


class _Matches(NamedTuple):
    """The words of a claim that occur, each form with its weight.

    `exact` occur as they are, `alike` have the same start as the forms given, `content` holds
    all forms except words of grammar.
    """

    exact: list[tuple[str, float]]
    alike: list[tuple[Sequence[str], float]]
    content: list[tuple[str, float]]

    def covered(self, words: Container[str]) -> float:
        """Return the weight of the claim's words that are among `words`."""
        covered = sum([weight for word, weight in self.exact if word in words])
        for forms, credit in self.alike:
            if any(form in words for form in forms):
                covered += credit
        return covered


class Context:
    """The documents of one request, split into sentences that are findable by stem.

    Args:
        documents: the context.
        code: language of stems and sentence boundaries, ISO 639-1.
    """

    def __init__(self, documents: Sequence[Document], code: str) -> None:
        self._code = code
        self._documents = documents
        self._texts = [text_of(document) for document in documents]
        self._sentences: list[_Sentence] = []
        self._places: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self._texts):
            self._add(number, text)
        self._starts: dict[str, list[str]] | None = None

    def _add(self, number: int, text: str) -> None:
        places = self._places
        for start, end in segments(text, self._code):
            words = frozenset(stems(text[start:end], self._code))
            for word in words:
                places[word].append(len(self._sentences))
            self._sentences.append(_Sentence(number, start, end, words))

    def read(self, claim: str) -> Statement:
        """Prepare a claim for `find`."""
        claim = _ANSWER_PARTICLE.sub("", claim)
        words = stems(claim, self._code)
        names = set(stems(" ".join(_NAME.findall(claim)), self._code))
        return Statement(
            {word: _weight(word, names) for word in words},
            list(quantities(counted_words(claim))),
            words,
        )

    def find(self, statement: Statement) -> Evidence | None:
        """Return the best evidence for a claim, None where no word of it occurs."""
        found = self._matches(statement.weights)
        nearby: dict[int, float] = defaultdict(float)
        for form, credit in found.content:
            for place in self._places[form][:_PLACES_PER_WORD]:
                nearby[place] += credit
        if not nearby:
            return None
        tried = nlargest(_PLACES_TRIED, nearby, key=lambda place: (nearby[place], -place))
        alone = [found.covered(self._sentences[place].words) for place in tried]
        around = [found.covered(self._words(self._window(place))) for place in tried]
        best = max(range(len(tried)), key=lambda index: (around[index], alone[index], -index))
        covered = max(alone) + max(around) + found.covered(self._places)
        place = tried[best]
        sentence = self._sentences[place]
        return Evidence(
            coverage=covered / (3 * sum(statement.weights.values())),
            number_missing=any(
                quantity.value not in self._places for quantity in statement.quantities
            ),
            contradicted=self._contradicts(statement, place),
            rank=self._documents[sentence.document].rank,
            quote=self._quote(statement, place),
            words=self._words(self._window(place)),
        )

    def _contradicts(self, statement: Statement, place: int) -> bool:
        """Say whether the sentence speaks of the same thing and says another amount, or not so."""
        said = self._sentences[place].words
        if not NEGATIONS.isdisjoint(statement.weights) or not NEGATIONS.isdisjoint(said):
            stated = stems(_ANSWER_PARTICLE.sub("", self._raw(place)), self._code)
            if _contradict(statement.words, stated):
                return self._nearby(statement, place) >= _NEGATED_FROM
        if self._other_amount(statement.quantities, self._window(place)):
            return self._nearby(statement, place) >= _OTHER_AMOUNT_FROM
        return False

    def _nearby(self, statement: Statement, place: int) -> float:
        """Return the share of the claim's subject matter that is in one sentence."""
        topic = {word: weight for word, weight in statement.weights.items() if _is_topic(word)}
        found = self._matches(topic).covered(self._sentences[place].words)
        return found / sum(topic.values()) if topic else 0.0

    def _matches(self, weights: dict[str, float]) -> _Matches:
        """Look the words of a claim up: as they are, else as words with the same start."""
        found = _Matches([], [], [])
        for word, weight in weights.items():
            if word in self._places:
                found.exact.append((word, weight))
                if word not in STOP_WORDS:
                    found.content.append((word, weight))
            elif forms := self._alike(word):
                credit = weight * _COMMON_START_CREDIT
                found.alike.append((forms, credit))
                found.content.extend((form, credit) for form in forms)
        return found

    def _alike(self, word: str) -> Sequence[str]:
        if len(word) < _COMMON_START or not word[0].isalpha() or word in STOP_WORDS:
            return ()
        if self._starts is None:
            self._starts = defaultdict(list)
            for known in self._places:
                if len(known) >= _COMMON_START and known[0].isalpha():
                    self._starts[known[:_COMMON_START]].append(known)
        return self._starts.get(word[:_COMMON_START], ())

    def _other_amount(self, claimed: Sequence[Quantity], window: range) -> bool:
        """Say whether a claimed amount stands there in another unit, or another amount instead."""
        claimed = [quantity for quantity in claimed if quantity.dimension is not None]
        if not claimed:
            return False
        stated = [
            quantity
            for number in window
            for quantity in quantities(counted_words(self._raw(number)))
        ]
        return any(
            not any(_agrees(quantity, found) for found in stated)
            and any(self._replaces(quantity, found) for found in stated)
            for quantity in claimed
        )

    def _replaces(self, claimed: Quantity, found: Quantity) -> bool:
        if claimed.dimension != found.dimension:
            return False
        return claimed.value == found.value or claimed.value not in self._places

    def _quote(self, statement: Statement, place: int) -> str:
        """The text from the first to the last sentence of the window that adds something."""
        needed = {word for word in statement.weights if word not in STOP_WORDS}
        needed -= self._sentences[place].words
        used = [place]
        for number in sorted(self._window(place), key=lambda other: abs(other - place)):
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


def _weight(word: str, names: set[str]) -> float:
    if word in STOP_WORDS:
        return _GRAMMAR_WEIGHT
    if word[-1].isdigit():
        return _NUMBER_WEIGHT
    return _NAME_WEIGHT if word in names else 1.0


def _agrees(claimed: Quantity, found: Quantity) -> bool:
    return claimed.value == found.value and found.unit in (None, claimed.unit)


def _contradict(claim: Sequence[str], evidence: Sequence[str]) -> bool:
    """Say whether one sentence is the other one turned round.

    Only for sentences of about the same length: a long one negates and asserts many things.
    """
    content = sum(map(_is_content, claim))
    if sum(map(_is_content, evidence)) > _MAX_LENGTH_RATIO * content:
        return False
    if _negations(claim) % 2 == _negations(evidence) % 2:
        return False
    return _denies(claim, evidence) or _denies(evidence, claim)


def _negations(words: Sequence[str]) -> int:
    return sum(word in NEGATIONS for word in words)


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


def _is_topic(word: str) -> bool:
    return _is_content(word) and word[-1].isalpha() and word not in UNIT_NAMES
