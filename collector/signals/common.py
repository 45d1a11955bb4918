"""What all readers of feedback share: outcomes per item, and a named score made a signal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from collector.config import FeedbackScale
from collector.errors import MalformedPayload
from collector.model import Signal
from collector.signals.meaning import is_feedback_name, meaning_of
from collector.signals.values import digest, finite, plausible, problems, raw

SHOWN_PROBLEMS = 5
"""Problems spelled out where a whole body is refused."""

IgnoredReason = Literal["machine", "unnamed", "experiment", "no_target"]
IGNORED_REASONS: tuple[IgnoredReason, ...] = get_args(IgnoredReason)
"""Why a score is no user feedback: an evaluator gave it; its name says nothing of users; it is
about a data set; or it is about nothing."""

USER_KEYS = ("user_id", "userId", "user")


class Ignored(NamedTuple):
    """A well-formed score that is no signal of a user."""

    reason: IgnoredReason


class Outcome(NamedTuple):
    """What became of one item of a body: a signal, a reason to leave it out, or a problem.

    `ref` is the name that the client gave the item in its batch, "" without one.
    """

    result: Signal | Ignored | str
    ref: str = ""


class ParsedSignals(NamedTuple):
    """What a body held, item by item."""

    outcomes: list[Outcome]

    @property
    def signals(self) -> list[Signal]:
        """The readable signals, in order."""
        return [o.result for o in self.outcomes if isinstance(o.result, Signal)]

    @property
    def rejected(self) -> list[str]:
        """One sentence for each item that cannot be read."""
        return [o.result for o in self.outcomes if isinstance(o.result, str)]

    @property
    def ignored(self) -> list[IgnoredReason]:
        """Why well-formed items are no user signals, one reason each."""
        return [o.result.reason for o in self.outcomes if isinstance(o.result, Ignored)]


class Client(NamedTuple):
    """How to read a body: when it came, and the names the configuration counts as feedback."""

    received_at: datetime
    named: Mapping[str, FeedbackScale] = {}


class Posted(BaseModel):
    """Base of bodies that clients of other products send. Unknown keys are theirs to add."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)


class Score(NamedTuple):
    """A named score of any product.

    `by_user` is True or False where the sender says who gave it, None where it does not.
    `target` holds the id fields of the signal; `identity` is what the product is unique by, used
    where it gives no id.
    """

    source: str
    name: str
    value: Any
    target: Mapping[str, str | None]
    signal_id: str | None = None
    identity: Any = None
    label: str | None = None
    comment: str | None = None
    scale: str | None = None
    by_user: bool | None = None
    user_id: str | None = None
    document_id: str | None = None
    occurred_at: datetime | None = None
    revoked: bool = False


def read_each(
    items: Iterable[Any], read: Callable[[Any], Signal | Ignored], refs: Iterable[str] = ()
) -> ParsedSignals:
    """Read items one by one, so that a bad one does not take the others with it.

    Args:
        items: the items.
        read: reads one, or raises ValueError (ValidationError is one) with what is wrong.
        refs: the client's names of the items, where it gives any.

    Raises:
        MalformedPayload: there are items, and none of them can be read.
    """
    names = list(refs)
    outcomes: list[Outcome] = []
    for index, item in enumerate(items):
        ref = names[index] if index < len(names) else ""
        try:
            outcomes.append(Outcome(read(item), ref))
        except ValidationError as err:
            found = err.errors(include_input=False, include_url=False)
            outcomes.append(Outcome(f"[{index}] {problems(found, ())}", ref))
        except ValueError as err:
            outcomes.append(Outcome(f"[{index}] {err}", ref))
    return usable(ParsedSignals(outcomes))


def usable(parsed: ParsedSignals) -> ParsedSignals:
    """Return what was parsed.

    Raises:
        MalformedPayload: there are items, and none of them can be read.
    """
    rejected = parsed.rejected
    if rejected and len(rejected) == len(parsed.outcomes):
        more = len(rejected) - SHOWN_PROBLEMS
        tail = f"; and {more} more" if more > 0 else ""
        raise MalformedPayload("; ".join(rejected[:SHOWN_PROBLEMS]) + tail)
    return parsed


def signal_of(score: Score, client: Client) -> Signal | Ignored:
    """Return the signal that a score is, or why it is none.

    Raises:
        ValueError: what is wrong with it, starting with the field.
    """
    if score.by_user is False:
        return Ignored("machine")
    if score.by_user is None and not is_feedback_name(score.name, client.named):
        return Ignored("unnamed")
    target = {key: value for key, value in score.target.items() if value is not None}
    if not target:
        return Ignored("no_target")
    number = finite(score.value)
    label = score.label if score.label is not None else _word(score.value)
    meaning = meaning_of(score.name, number, label, client.named, score.scale)
    comment = score.comment or (label if meaning.kind == "comment" else None)
    if meaning.kind == "comment" and not comment and not score.revoked:
        raise ValueError("value: missing; give a score, a label or a comment")
    return Signal(
        signal_id=score.signal_id or digest([score.source, score.identity or _content(score)]),
        kind=meaning.kind,
        occurred_at=plausible(score.occurred_at, client.received_at, "timestamp"),
        received_at=client.received_at,
        value=number,
        raw_value=raw(score.label if score.value is None else score.value),
        scale=meaning.scale,
        name=score.name,
        sentiment=0 if score.revoked else meaning.sentiment,
        comment=comment,
        document_id=score.document_id,
        user_id=score.user_id,
        source=score.source,
        revoked=score.revoked,
        trace_id=target.get("trace_id"),
        span_id=target.get("span_id"),
        response_id=target.get("response_id"),
        message_id=target.get("message_id"),
        conversation_id=target.get("conversation_id"),
    )


def revocation(signal_id: str, source: str, client: Client) -> Signal:
    """Return a signal that takes an earlier one of the same id back."""
    return Signal(
        signal_id=signal_id,
        kind="comment",
        occurred_at=client.received_at,
        received_at=client.received_at,
        source=source,
        revoked=True,
    )


def user_in(metadata: Any) -> str | None:
    """Return the user that a score's metadata names, if any."""
    if not isinstance(metadata, dict):
        return None
    found = (metadata.get(key) for key in USER_KEYS)
    return next((str(v)[:500] for v in found if isinstance(v, str | int) and str(v)), None)


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and finite(value) is None else None


def _content(score: Score) -> Any:
    """Unknown users cannot be told apart: all of the content counts, see `native`."""
    return [
        sorted((key, value) for key, value in score.target.items() if value is not None),
        score.name,
        raw(score.value),
        score.label,
        score.comment,
        score.document_id,
        score.user_id,
        score.occurred_at.isoformat() if score.occurred_at else None,
    ]
