"""What two questions of a conversation have in common, word by word. Pure.

Words are compared in the form of `scorers.lexical_text.stems`; a word that differs by a slip of
the pen counts as the same. There is no notion of synonyms here: "cancel" and "end" are two words.
"""

import re
from typing import NamedTuple

from rapidfuzz import fuzz, process

from scorers.lexical_text import STOP_WORDS, fold, language, stems

MAX_CHARACTERS = 2_000
"""What is read of a question; more is a pasted document."""

_MAX_WORDS = 120
_GRAMMAR_WEIGHT = 0.1
_SLIP_FROM_LENGTH = 4
_SLIP_RATIO = 80

_OPENINGS = {
    "en": r"and|or|also|besides|then|what about|how about|what if",
    "de": r"und|oder|auch|außerdem|dann|was ist mit|wie ist es mit|wie sieht es mit",
    "fr": r"et|ou|aussi|alors|qu en est il|quid",
    "es": r"y|o|e|u|también|entonces|qué tal|qué hay de",
}
_POINTERS = {
    "en": """it its they them their that those these this there he she his her him one ones
        same""",
    "de": "er sie es ihn ihm ihr diese dieser dieses diesem diesen dafür damit davon dazu dort",
    "fr": "il elle ils elles ça cela celui celle ceux celles lui leur en y",
    "es": "eso esto esa ese ella él ellos ellas lo ahí allí",
}
_OPENING = {code: re.compile(rf"(?:{words})\b") for code, words in _OPENINGS.items()}
_POINTER = {code: frozenset(words.split()) for code, words in _POINTERS.items()}
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d[\d.,]*")
_BEFORE_A_SENTENCE = " \t\"'(¿¡"
_ENDS_A_SENTENCE = ".!?:\n"


class Kept(NamedTuple):
    """How much of an earlier question a later one says again.

    `share` is weighted, words of grammar count little; `found` of `words` count the others alone,
    or all words where the earlier question has no others.
    """

    share: float
    found: int
    words: int


def cut(text: str) -> str:
    """Return what is read of a text."""
    return text[:MAX_CHARACTERS]


def language_of(*texts: str) -> str:
    """Return the language of what was said in one conversation, read together."""
    return language(" ".join(fold(cut(text)) for text in texts))


def kept(earlier: str, later: str, code: str) -> Kept:
    """Return how much of `earlier` comes again in `later`, both in the language `code`."""
    words = _distinct(earlier, code)
    again = _distinct(later, code)
    weights = {word: _GRAMMAR_WEIGHT if word in STOP_WORDS else 1.0 for word in words}
    found = {word for word in words if _stands_in(word, again)}
    total = sum(weights.values())
    counted = [word for word in words if word not in STOP_WORDS] or words
    return Kept(
        share=sum(weights[word] for word in found) / total if total else 0.0,
        found=sum(word in found for word in counted),
        words=len(counted),
    )


def opens_as_follow_up(later: str, code: str) -> bool:
    """Say whether a question begins as one that goes on: "and ...", "what about ..."."""
    pattern = _OPENING.get(code, _OPENING["en"])
    return pattern.match(fold(later)) is not None


def points_back(earlier: str, later: str, code: str) -> bool:
    """Say whether `later` has a word that stands for something said before, and new in it."""
    pointers = _POINTER.get(code, _POINTER["en"])
    return bool((set(fold(later).split()) & pointers) - set(fold(earlier).split()))


def asks_of_another(earlier: str, later: str, code: str) -> bool:
    """Say whether a number or a name was replaced by another: the same of something else."""
    numbers = _numbers(earlier), _numbers(later)
    names = _names(earlier, code), _names(later, code)
    return any(
        before - _plain_words(later) and after - _plain_words(earlier)
        for before, after in (numbers, names)
    )


def _distinct(text: str, code: str) -> list[str]:
    words = (word for word in stems(cut(text), code) if word[0].isalnum())
    return list(dict.fromkeys(words))[:_MAX_WORDS]


def _stands_in(word: str, words: list[str]) -> bool:
    if word in words:
        return True
    if len(word) < _SLIP_FROM_LENGTH or not word.isalpha() or word in STOP_WORDS:
        return False
    alike = [other for other in words if other[0] == word[0] and other not in STOP_WORDS]
    return process.extractOne(word, alike, scorer=fuzz.ratio, score_cutoff=_SLIP_RATIO) is not None


def _plain_words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(cut(text))} | _numbers(text)


def _numbers(text: str) -> set[str]:
    return {number.rstrip(".,") for number in _NUMBER.findall(cut(text))}


def _names(text: str, code: str) -> set[str]:
    """Return the words with a capital inside a sentence, folded.

    None in German, where all nouns have one, and none where most words have one: that is a
    heading or shouting.
    """
    text = cut(text)
    found, words = set(), 0
    for word in _WORD.finditer(text):
        words += 1
        before = text[: word.start()].rstrip(_BEFORE_A_SENTENCE)
        inside = before and before[-1] not in _ENDS_A_SENTENCE
        if inside and word[0][0].isupper() and word[0] != "I":
            found.add(word[0].casefold())
    return set() if code == "de" or 2 * len(found) > words else found
