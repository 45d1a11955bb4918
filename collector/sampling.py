"""Which requests are judged: a salted hash of the trace id against a known probability.

The hash is independent of upstream samplers, which use the unsalted bits of the trace id
(OpenTelemetry consistent probability sampling). Every replay decides the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from collector.model import Decision, RagRequest, Trace

_THRESHOLD_BITS = 56
_THRESHOLD = re.compile(r"[0-9a-f]{1,14}")
# A hostile or broken threshold must not give one request all the weight.
_LEAST_HEAD_PROBABILITY = 1e-6


def uniform(salt: str, trace_id: str) -> float:
    """Return a number in [0, 1) that depends on nothing but the salt and the id.

    53 bits of blake2b, as many as a double holds exactly.
    """
    digest = blake2b(f"{salt}:{trace_id}".encode(), digest_size=8).digest()
    return float((int.from_bytes(digest, "big") >> 11) / (1 << 53))


def head_probability(trace_state: str) -> float:
    """Return the probability with which an upstream sampler kept the trace, 1.0 if none ran.

    Reads the rejection threshold `th` of the `ot` entry: up to 14 hex digits, trailing zeros
    left out (OpenTelemetry specification, TraceState: probability sampling).
    """
    for entry in trace_state.split(","):
        vendor, _, value = entry.strip().partition("=")
        if vendor != "ot":
            continue
        for pair in value.split(";"):
            key, _, digits = pair.partition(":")
            if key == "th" and _THRESHOLD.fullmatch(digits):
                threshold = int(digits.ljust(_THRESHOLD_BITS // 4, "0"), 16)
                kept = ((1 << _THRESHOLD_BITS) - threshold) / (1 << _THRESHOLD_BITS)
                return max(kept, _LEAST_HEAD_PROBABILITY)
    return 1.0


def decide(
    trace: Trace, rate: float, salt: str, decided_at: datetime, stratum: str = "all"
) -> Decision:
    """Decide whether the request of this trace is judged, and with what probability it was.

    `probability` is that of being kept upstream times that of being drawn here, so that
    1/probability weighs the request in any mean over all traffic.

    Args:
        trace: the trace.
        rate: probability to draw it here, in (0, 1], fixed before anything is known of its score.
        salt: of the hash.
        decided_at: the time.
        stratum: what the rate was chosen by.
    """
    head = min((head_probability(span.trace_state) for span in trace.spans), default=1.0)
    u = uniform(salt, trace.trace_id)
    return Decision(
        sampled=u < rate,
        probability=head * rate,
        uniform=u,
        stratum=stratum,
        salt=salt,
        decided_at=decided_at,
        upstream=head,
    )


def raised(decision: Decision, rate: float) -> Decision:
    """Return the decision with its threshold raised to `rate` under the same hash.

    The request is drawn where its hash lies below the higher of both thresholds, so that is its
    probability, whichever of the two drew it. The same decision where nothing changes. Raising
    twice is raising to the higher rate, in either order.
    """
    probability = decision.upstream * rate
    if probability <= decision.probability:
        return decision
    first = decision.at_first
    return msgspec.structs.replace(
        decision,
        sampled=decision.sampled or decision.uniform < rate,
        probability=probability,
        first_probability=first.probability,
        first_sampled=first.sampled,
    )


class OwnDraw(NamedTuple):
    """How a scorer other than faithfulness is drawn.

    Args:
        scorer: its name.
        rate: share that it judges of the requests it `applies` to.
        applies: says whether a request has what it looks at.
        nested: it judges only what faithfulness was drawn for, so that the two can be compared.
    """

    scorer: str
    rate: float
    applies: Callable[[RagRequest], bool]
    nested: bool = False


def with_own_draws(decision: Decision, request: RagRequest, draws: Sequence[OwnDraw]) -> Decision:
    """Return the decision with a draw for each scorer that has something to judge by now.

    Each has a hash of its own, so no scorer's sample depends on another's, nor on any score. What
    is drawn, or not drawn, stays so. A nested draw multiplies the first probability of the
    request, which no later signal changes.
    """
    probability = dict(decision.scorer_probability)
    drawn = list(decision.scorers_drawn)
    first = decision.at_first
    for draw in draws:
        if draw.scorer in probability or not draw.applies(request):
            continue
        outer = first.probability if draw.nested else decision.upstream
        probability[draw.scorer] = outer * draw.rate
        may_be = first.sampled or not draw.nested
        if may_be and uniform(f"{decision.salt}/{draw.scorer}", request.trace_id) < draw.rate:
            drawn.append(draw.scorer)
    return msgspec.structs.replace(decision, scorer_probability=probability, scorers_drawn=drawn)
