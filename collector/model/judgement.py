"""What is decided about a request, and what judges say about its answer."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from collector.model.request import RagRequest
from collector.model.value import Value

FAITHFULNESS = "faithfulness"
"""The scorer whose draw is the request's own; all others are optional."""

SECOND = "second_judge"
"""The scorer under whose name another judge's faithfulness is kept apart."""


class Decision(Value, frozen=True):
    """The sampling decision of one request, fixed when it is first made.

    `probability` is the inclusion probability of the request (0 < p <= 1), the product of any
    upstream head sampling (`upstream`) and ours; `uniform` is the hash of salt and trace id in
    [0, 1). `stratum` is what ours was chosen by: `all`, or the bin of the local score.

    A signal that says no may raise the probability later, under the same hash. The decision then
    holds what counts for any estimate by now, and in `first_probability` and `first_sampled` what
    it was before, None where nothing was raised.

    `prediction` is what the judge is expected to say, in [0, 1], and `complaint_prediction` the
    same should a complaint raise the decision; `calibration` is the version they come from. All
    three are None where there was no calibration yet.

    Every other scorer draws for itself, by a hash of its own: `scorer_probability` holds the
    inclusion probability for each that this request has something to score for, `scorers_drawn`
    those that judge it.
    """

    sampled: bool
    probability: float
    uniform: float
    stratum: str
    salt: str
    decided_at: datetime
    upstream: float = 1.0
    first_probability: float | None = None
    first_sampled: bool | None = None
    prediction: float | None = None
    complaint_prediction: float | None = None
    calibration: str | None = None
    scorer_probability: dict[str, float] = {}
    scorers_drawn: list[str] = []

    @property
    def at_first(self) -> Decision:
        """The decision as it was before any signal raised it: what Prometheus has counted."""
        if self.first_probability is None:
            return self
        return msgspec.structs.replace(
            self,
            sampled=bool(self.first_sampled),
            probability=self.first_probability,
            first_probability=None,
            first_sampled=None,
        )


Verdict = Literal["SUPPORTED", "CONTRADICTED", "NOT_FOUND"]


class Claim(Value, frozen=True):
    """One claim of an answer with its verdict.

    `quote` is the evidence and `document_rank` (1-based) the document it stands in, both None
    without evidence. `note` is `quote_unverified` where a quote was not in the context, so that
    the verdict was set to NOT_FOUND.
    """

    text: str
    verdict: Verdict
    quote: str | None = None
    document_rank: int | None = None
    note: str | None = None


FAILURE_CAUSES = (
    "timeout",
    "rate_limited",
    "server_error",
    "connection",
    "auth",
    "bad_request",
    "context_too_long",
    "truncated_reply",
    "empty_reply",
    "unparseable",
    "refused",
    "content_filter",
    "budget_exhausted",
    "internal",
)
"""Every cause a judgement can fail with: technical, so the answer stays in the denominator."""

UNUSABLE_REPLIES = ("truncated_reply", "empty_reply", "unparseable")
"""The causes that are the judging model's own: it was asked, and said nothing usable."""

UNSCORED_REASONS = ("no_claims", "no_context", "no_answer", "no_question", "content_missing")
"""Why an answer has no faithfulness to measure at all: such requests are not eligible."""

JudgementStatus = Literal["judged", "failed", "unscored"]

Purpose = Literal["estimate", "review"]
"""What a judgement was asked for: a drawn request, or one that only the review shows."""


class Usage(Value, frozen=True):
    """What one judgement consumed. `cost_usd` is None where no price is configured."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    calls: int = 0


class Judgement(Value, frozen=True):
    """The outcome of one scorer on one request. `score` is in [0, 1] iff status is `judged`.

    `reason` is a cause of `FAILURE_CAUSES` or `UNSCORED_REASONS` otherwise. `fingerprint`
    identifies model, prompt and scorer version: two fingerprints never share a series.
    `content_hash` is equal where question, answer and documents are; "" where nobody asked.
    """

    trace_id: str
    scorer: str
    fingerprint: str
    status: JudgementStatus
    score: float | None = None
    reason: str | None = None
    claims: list[Claim] = []
    engine: str = ""
    model: str | None = None
    usage: Usage = Usage()
    raw_reply: str | None = None
    request_version: int = 0
    judged_at: datetime | None = None
    duration_ms: float | None = None
    purpose: Purpose = "estimate"
    content_hash: str = ""


class StoredRequest(Value, frozen=True):
    """A request with all that is decided about it: one row of the `requests` table.

    `version` grows with the telemetry merged into it, so a later, fuller read of the same
    trace supersedes an earlier one. `lexical_score` is the free local score in [0, 1], None
    where it is undefined. `ineligible` is None for a request whose answer can be judged, else a
    reason of `UNSCORED_REASONS`. `telemetry` is the encoded `Trace`, kept while late spans
    may come. `span_ids` are those of its spans that signals can name, at most `MAX_SPAN_IDS`.
    """

    request: RagRequest
    version: int
    decision: Decision
    lexical_score: float | None = None
    ineligible: str | None = None
    telemetry: bytes = b""
    span_ids: list[str] = []


MAX_SPAN_IDS = 256
"""Span ids kept with a request."""


class JudgeTask(Value, frozen=True):
    """Work for a judge: one version of a request, with all that judging and counting need.

    The request travels with the task, so a judge needs no store to read from and texts that may
    not be stored can still be judged. `counted` says whether this task is the one that entered
    the request into the accounting (a later version of the same request does not). `prediction`
    is that of the decision. `scorer` says who is to judge, by name.
    """

    request: RagRequest
    version: int
    probability: float
    counted: bool = True
    purpose: Purpose = "estimate"
    prediction: float | None = None
    scorer: str = FAITHFULNESS


class Calibration(Value, frozen=True):
    """What a judge of this fingerprint is expected to say, given the free local score.

    Fitted to `n` judged requests at `fitted_at`; `version` orders the calibrations of one
    fingerprint. `model` is JSON that only the scorers read.
    """

    scorer: str
    fingerprint: str
    version: str
    fitted_at: datetime
    n: int
    model: str
