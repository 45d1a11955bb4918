"""What users say about an answer without saying so, seen in what they do next. Pure.

Nothing here is certain, so everything has a confidence. Those of rephrases and push-back come
from models fitted on labelled conversations; those of the other kinds were set by judgement:

    regenerate        .95  the same words again, after the answer was there
    abandon           .5 after a refusal, .4 after a long wait, .7 after both: many who leave are
                      content to know that there is no answer
    repeated_clicks   .4 for three opened documents, .1 more for each further one: people also
                      read sources out of interest
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from collector.config import ImplicitConfig
from collector.model import Inferred, SignalKind, Turn
from scorers.implicit import pushback, rephrase
from scorers.lexical_text import fold
from scorers.refusal import is_refusal

_REGENERATED = 0.95
_AFTER_REFUSAL = 0.5
_AFTER_WAIT = 0.4
_AFTER_BOTH = 0.7
_MANY_DOCUMENTS = 3
_MANY_CLICKS = 0.4
_PER_DOCUMENT = 0.1
_MOST_CLICKS = 0.9


def infer(turns: Sequence[Turn], now: datetime, config: ImplicitConfig) -> list[Inferred]:
    """Return all that one conversation tells, whatever order its turns are given in.

    A turn has at most one signal from the turn after it, one from its clicks, and the last turn
    one from the silence after it, once that has lasted `config.quiet_minutes`.

    Args:
        turns: of one conversation, each once.
        now: the time, for the silence.
        config: what is quiet, and what is a long wait.
    """
    ordered = sorted(turns, key=lambda turn: (turn.at, turn.trace_id))
    quiet = timedelta(minutes=config.quiet_minutes)
    found = [
        between(earlier, later)
        for earlier, later in pairwise(ordered)
        if later.at - earlier.at <= quiet
    ]
    if ordered and now - ordered[-1].at >= quiet:
        found.append(in_the_end(ordered[-1], config.long_wait_seconds))
    found += [from_clicks(turn) for turn in ordered]
    return [signal for signal in found if signal is not None]


def between(earlier: Turn, later: Turn) -> Inferred | None:
    """Return what a turn says about the one before it, the surest thing only."""
    question, again = earlier.question or "", later.question or ""
    if not fold(question) or not fold(again):
        return None
    if fold(question) == fold(again):
        return _regenerated(earlier, later)
    restated = rephrase.restatement(question, again)
    pushed = pushback.push_back(question, earlier.answer or "", again)
    found = []
    if restated.confidence >= rephrase.THRESHOLD:
        found.append(_inferred(earlier, "rephrase", restated.confidence, restated.reason))
    if pushed.confidence >= pushback.THRESHOLD:
        found.append(_inferred(earlier, "push_back", pushed.confidence, pushed.reason))
    return max(found, key=lambda signal: signal.confidence, default=None)


def in_the_end(last: Turn, long_wait_seconds: float) -> Inferred | None:
    """Return whether the user seems to have given up, if nothing came after this turn."""
    refused = is_refusal(last.answer or "")
    waited = (last.latency_ms or 0.0) / 1000
    slow = waited >= long_wait_seconds
    wait = f"a wait of {waited:.0f} s"
    if refused and slow:
        return _inferred(last, "abandon", _AFTER_BOTH, f"nothing came after a refusal and {wait}")
    if refused:
        return _inferred(last, "abandon", _AFTER_REFUSAL, "nothing came after a refusal")
    if slow:
        return _inferred(last, "abandon", _AFTER_WAIT, f"nothing came after {wait}")
    return None


def from_clicks(turn: Turn) -> Inferred | None:
    """Return whether so many documents were opened that the answer cannot have been enough."""
    further = turn.clicked - _MANY_DOCUMENTS
    if further < 0:
        return None
    sure = min(_MOST_CLICKS, _MANY_CLICKS + _PER_DOCUMENT * further)
    reason = f"{turn.clicked} documents of one answer were opened"
    return _inferred(turn, "repeated_clicks", sure, reason)


def _regenerated(earlier: Turn, later: Turn) -> Inferred | None:
    seconds = (later.at - earlier.at).total_seconds()
    if seconds * 1000 < (earlier.latency_ms or 0.0):
        return None  # sent again before the answer was there: a client that tries twice
    reason = f"the same question again after {seconds:.0f} s"
    return _inferred(earlier, "regenerate", _REGENERATED, reason)


def _inferred(turn: Turn, kind: SignalKind, confidence: float, reason: str) -> Inferred:
    return Inferred(
        trace_id=turn.trace_id, kind=kind, confidence=round(confidence, 4), reason=reason
    )
