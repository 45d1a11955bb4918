"""What people say about answers and claims: the value, and how a line of JSON becomes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from collector.errors import MalformedPayload
from collector.model import Verdict
from collector.plain import plain

AnswerLabel = Literal["correct", "incomplete", "wrong", "right_refusal", "wrong_refusal"]
CLAIM_VERDICTS: tuple[str, ...] = get_args(Verdict)
ANSWER_LABELS: tuple[str, ...] = get_args(AnswerLabel)
Cause = Literal[
    "page_missing",
    "not_retrieved",
    "ranked_out",
    "ignored",
    "misread",
    "pretraining",
    "answer_was_right",
]
"""No page answers the question; one does but was not found; it was found but did not make it
into the context; it was in the context and the model wrote past it; or misread it; the answer
came from the model's memory; the answer was right and the user wrong."""
CAUSES: tuple[str, ...] = get_args(Cause)
MAX_NOTE_CHARACTERS = 4000
MAX_LABELLER_CHARACTERS = 200
MIN_PROBABILITY = 1e-9
"""Smaller, and one label outweighs all others, or the sums overflow."""
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_CLOCK_SKEW = timedelta(days=1)


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """One person's verdict on a claim of an answer, or on the answer as a whole.

    Of several with the same trace, claim and labeller the latest `labelled_at` counts.

    Attributes:
        trace_id: of the request.
        claim: its text as the judge listed it; "" for the answer as a whole.
        verdict: one of `CLAIM_VERDICTS` for a claim, of `ANSWER_LABELS` for an answer; "" takes
            an earlier label back.
        labeller: who says so.
        labelled_at: when.
        note: in their own words.
        fingerprint: of the judge whose claim this is; "" where none was shown.
        machine_verdict: what that judge said of the claim.
        blind: whether the judge's verdict was hidden until the label was given.
        probability: that a judged item like this came to be labelled, in (0, 1]; labels chosen
            by what the judge said are weighed by its inverse.
        drawn: whether it was chosen by chance, with that probability. What is looked at because
            it is bad is not: it stays out of the judge's calibration.
        cause: of a bad answer, one of `CAUSES`; "" where none is given.
    """

    trace_id: str
    claim: str = ""
    verdict: str
    labeller: str
    labelled_at: datetime
    note: str | None = None
    fingerprint: str = ""
    machine_verdict: str | None = None
    blind: bool = False
    probability: float = 1.0
    drawn: bool = True
    cause: str = ""


# What the judge said is looked up, never believed: labels that bring it along could make it agree.
_GIVEN = tuple(name for name in Label.__struct_fields__ if name != "machine_verdict")


class Accepted(NamedTuple):
    """How many labels were stored; `unlisted` of them are on claims the judge has not listed."""

    stored: int
    unlisted: int


def parse_labels(items: Sequence[Any], labelled_at: datetime) -> list[Label]:
    """Check labels as they come from a file or a page.

    Args:
        items: decoded JSON objects with the fields of `Label`; others are left alone, so that
            a sample that was filled in can be given back as it is.
        labelled_at: now, for those that do not say when.

    Raises:
        MalformedPayload: names the first item that cannot be used, its field and the cure.
    """
    labels = [_parse(number, item, labelled_at) for number, item in enumerate(items, 1)]
    _refuse_contradictions(labels)
    return labels


def _refuse_contradictions(labels: Sequence[Label]) -> None:
    """Refuse two words of one person on one thing at one time: neither is the later one."""
    first: dict[tuple[str, str, str, datetime], tuple[int, Label]] = {}
    for number, label in enumerate(labels, 1):
        key = (label.trace_id, label.claim, label.labeller, label.labelled_at)
        before, same = first.setdefault(key, (number, label))
        if same.verdict != label.verdict:
            raise MalformedPayload(
                f"label {number}: verdict is another than in label {before}, which is of the same "
                "claim, labeller and time; keep one of them"
            )


def _parse(number: int, item: Any, labelled_at: datetime) -> Label:
    if not isinstance(item, Mapping):
        raise MalformedPayload(f"label {number}: must be an object")
    known = {key: item[key] for key in _GIVEN if item.get(key) is not None}
    if isinstance(name := known.get("labeller"), str):
        known["labeller"] = plain(name)  # one person, one name
    try:
        label = msgspec.convert({"labelled_at": labelled_at, **known}, Label)
    except msgspec.ValidationError as err:
        raise MalformedPayload(f"label {number}: {err}") from err
    allowed = CLAIM_VERDICTS if label.claim else ANSWER_LABELS
    if label.verdict not in ("", *allowed):
        raise MalformedPayload(f"label {number}: verdict must be one of {', '.join(allowed)}")
    if label.cause and (label.claim or label.cause not in CAUSES):
        raise MalformedPayload(
            f"label {number}: cause must be one of {', '.join(CAUSES)}, of an answer, not a claim"
        )
    for field in ("trace_id", "labeller"):
        if not getattr(label, field).strip():
            raise MalformedPayload(f"label {number}: {field} must not be empty")
    if len(label.labeller) > MAX_LABELLER_CHARACTERS:
        raise MalformedPayload(
            f"label {number}: labeller is longer than {MAX_LABELLER_CHARACTERS} characters"
        )
    if not MIN_PROBABILITY <= label.probability <= 1.0:
        raise MalformedPayload(
            f"label {number}: probability must be at least {MIN_PROBABILITY:g} and at most 1"
        )
    if label.labelled_at.tzinfo is None:
        raise MalformedPayload(f"label {number}: labelled_at needs a time zone, such as a final Z")
    if not _EARLIEST <= label.labelled_at <= labelled_at + _CLOCK_SKEW:
        raise MalformedPayload(
            f"label {number}: labelled_at must not lie in the future, nor before the year "
            f"{_EARLIEST.year}: the latest label of a person counts"
        )
    if label.note is not None and len(label.note) > MAX_NOTE_CHARACTERS:
        raise MalformedPayload(
            f"label {number}: note is longer than {MAX_NOTE_CHARACTERS} characters"
        )
    return label
