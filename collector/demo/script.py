"""The script of the demo: what the model says to which question, and which answers are planted."""

from __future__ import annotations

import re
from typing import Literal, get_args

import msgspec

from collector.demo.corpus import load_yaml
from collector.model import SignalKind

FailureKind = Literal[
    "page_missing",
    "not_retrieved",
    "ranked_out",
    "ignored",
    "misread",
    "invented_claim",
    "lucky",
    "wrong_refusal",
    "wrong_citation",
]
"""What can go wrong: the page does not exist and the assistant answers anyway; it was not found;
it was found and cut; it was in the context and ignored, misread, added to, refused or wrongly
cited; or the answer is right but came from pretraining."""

KINDS: tuple[FailureKind, ...] = get_args(FailureKind)

TurnKind = FailureKind | Literal["good", "right_refusal"]
Channel = Literal["web", "app"]
"""The two front ends: `web` reranks and is traced in OpenInference, `app` does neither."""

_WORD = re.compile(r"\w+")


class GoodAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A question in one or more wordings, with an answer that its pages support."""

    id: str
    segment: str
    sources: list[str]
    questions: list[str]
    answer: str


class ScriptedSignal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a user does after an answer. `page` is the page of a clicked citation."""

    kind: SignalKind
    comment: str | None = None
    page: str | None = None


class PlantedAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A failure on purpose. The fields are described at the top of `planted.yaml`."""

    id: str
    kind: FailureKind
    channel: Channel
    segment: str
    sources: list[str]
    question: str
    answer: str
    reference: str
    claims_found: bool
    signals: list[ScriptedSignal]
    false_words: list[str] = []
    true_words: list[str] = []
    rephrased: str | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A question that the pages cannot answer, rightly declined."""

    id: str
    question: str
    answer: str


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """All that the model knows. `synonyms` are what the repaired assistant searches besides."""

    answers: list[GoodAnswer]
    unanswerable: list[Refusal]
    synonyms: dict[str, str]
    planted: list[PlantedAnswer]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says to one question. The two texts differ only for planted failures.

    `sources` are the pages that the right answer needs, none for a question without one.
    """

    kind: TurnKind
    answer: str
    reference: str
    segment: str = ""
    sources: list[str] = []


def load_script() -> Script:
    """Read `script.yaml` and `planted.yaml`."""
    return msgspec.convert({**load_yaml("script.yaml"), **load_yaml("planted.yaml")}, Script)


def lines(script: Script) -> dict[str, Line]:
    """Return what is said to each question of the script, by `question_key`."""
    found: dict[str, Line] = {}
    for good in script.answers:
        for question in good.questions:
            found[question_key(question)] = Line(
                kind="good",
                answer=good.answer,
                reference=good.answer,
                segment=good.segment,
                sources=good.sources,
            )
    for refusal in script.unanswerable:
        found[question_key(refusal.question)] = _right("right_refusal", refusal.answer)
    for item in script.planted:
        found[question_key(item.question)] = Line(
            kind=item.kind, answer=item.answer, reference=item.reference
        )
        if item.rephrased is not None:
            found[question_key(item.rephrased)] = _right("good", item.reference)
    return found


def question_key(question: str) -> str:
    """Return a question without case, punctuation and spacing."""
    return " ".join(_WORD.findall(question.casefold()))


def _right(kind: TurnKind, answer: str) -> Line:
    return Line(kind=kind, answer=answer, reference=answer)
