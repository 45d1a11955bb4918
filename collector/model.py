"""The values that flow through groundwatch. Plain immutable data, no behaviour that does I/O.

Field names of `RagRequest` and its parts are an outside contract: they are what
`groundwatch extract` prints and what ClickHouse stores. Missing is None, never "" or 0.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

Attributes = dict[str, Any]
"""Decoded OTLP attributes: str, bool, int, float, bytes, None, and lists and dicts of these."""


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all values: immutable, keyword-only."""


# --- Telemetry as it arrives -------------------------------------------------------------


class SpanEvent(_Value, frozen=True):
    """One event on a span. `time_ns` is None where the sender gave no time."""

    name: str
    time_ns: int | None = None
    attributes: Attributes = {}


class Span(_Value, frozen=True):
    """One OTLP span. Ids are lower-case hex; times are Unix nanoseconds, None when not sent.

    `status_code` is OTLP's: 0 unset, 1 ok, 2 error. `parent_span_id` is None for a root.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    kind: int = 0
    start_ns: int | None = None
    end_ns: int | None = None
    attributes: Attributes = {}
    events: list[SpanEvent] = []
    status_code: int = 0
    status_message: str = ""
    trace_state: str = ""
    scope_name: str = ""
    resource: Attributes = {}
    dropped_attributes: int = 0


class LogRecord(_Value, frozen=True):
    """One OTLP log record. `trace_id` and `span_id` are None where the record has none."""

    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None
    time_ns: int | None = None
    body: Any = None
    attributes: Attributes = {}
    scope_name: str = ""
    resource: Attributes = {}


class Telemetry(_Value, frozen=True):
    """What one payload held, and how many items of it were unreadable and left out."""

    spans: list[Span] = []
    logs: list[LogRecord] = []
    rejected: int = 0
    rejected_reason: str | None = None


class Trace(_Value, frozen=True):
    """All that is known of one trace: spans unique by span id, log records unique by content.

    `closed_by` says why it was closed: `root` (root ended, then quiet), `idle` (no root came),
    `evicted` (a bound was hit), `shutdown`, or `file` (read from a file as a whole).
    """

    trace_id: str
    spans: list[Span] = []
    logs: list[LogRecord] = []
    closed_by: Literal["root", "idle", "evicted", "shutdown", "file"] = "file"
    spans_dropped: int = 0


# --- The normalised record ---------------------------------------------------------------

ScoreKind = Literal["similarity", "distance", "bm25", "rerank", "unknown"]
StageKind = Literal["retriever", "reranker", "llm", "embedding", "tool"]
Flag = Literal[
    "content_missing",
    "truncated",
    "attributes_dropped",
    "no_retrieval",
    "empty_retrieval",
    "tool_call_answer",
    "partial",
]


class Document(_Value, frozen=True):
    """One document of the final context. `rank` is 1-based; a distance is never in `score`.

    `source` is the page or file the text came from. `cited` is None where the answer cites
    nothing at all, else whether it cites this document.
    """

    rank: int
    document_id: str | None = None
    chunk_id: str | None = None
    source: str | None = None
    title: str | None = None
    text: str | None = None
    score: float | None = None
    score_kind: ScoreKind | None = None
    cited: bool | None = None


class Stage(_Value, frozen=True):
    """One step of the assistant, in order of start. `documents` counts what it returned."""

    kind: StageKind
    name: str | None = None
    query: str | None = None
    latency_ms: float | None = None
    documents: int | None = None
    error: str | None = None


class RequestError(_Value, frozen=True):
    """The error that ended a request. `stage` is the deepest failing stage kind."""

    stage: str | None = None
    type: str | None = None
    message: str | None = None


class RagRequest(_Value, frozen=True):
    """One user-facing request of a RAG assistant. Contract record; see the module docstring.

    `started_at` is UTC; latencies are milliseconds; `cost_usd` is US dollars; `input_tokens`
    includes cached tokens.
    """

    trace_id: str
    service: str | None = None
    conventions: list[str] = []
    started_at: datetime | None = None
    latency_ms: float | None = None
    ttft_ms: float | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    segment: str | None = None
    question: str | None = None
    answer: str | None = None
    documents: list[Document] = []
    stages: list[Stage] = []
    retriever_stages: int = 0
    reranker_stages: int = 0
    llm_calls: int = 0
    citations: list[int] = []
    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    status: Literal["ok", "error"] = "ok"
    error: RequestError | None = None
    flags: list[Flag] = []
    response_ids: list[str] = []
    message_id: str | None = None


class NotARequest(_Value, frozen=True):
    """Why a trace is not a user-facing request, as a bounded reason for counters."""

    reason: Literal[
        "no_genai",
        "embedding_only",
        "evaluation",
        "pending",
        "startup_noise",
        "no_content",
        "ignored_service",
    ]


# --- Decision, judging -------------------------------------------------------------------

FAITHFULNESS = "faithfulness"
"""The scorer whose draw is the request's own; all others are optional."""

SECOND = "second_judge"
"""The scorer under whose name another judge's faithfulness is kept apart."""


class Decision(_Value, frozen=True):
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


class Claim(_Value, frozen=True):
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

UNSCORED_REASONS = ("no_claims", "no_context", "no_answer", "no_question", "content_missing")
"""Why an answer has no faithfulness to measure at all: such requests are not eligible."""

JudgementStatus = Literal["judged", "failed", "unscored"]

Purpose = Literal["estimate", "review"]
"""What a judgement was asked for: a drawn request, or one that only the review shows."""


class Usage(_Value, frozen=True):
    """What one judgement consumed. `cost_usd` is None where no price is configured."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    calls: int = 0


class Judgement(_Value, frozen=True):
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


class StoredRequest(_Value, frozen=True):
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


class JudgeTask(_Value, frozen=True):
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


class Calibration(_Value, frozen=True):
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


# --- Signals -----------------------------------------------------------------------------

SignalKind = Literal[
    "thumbs_up",
    "thumbs_down",
    "rating",
    "copy",
    "citation_click",
    "rephrase",
    "comment",
    "regenerate",
    "abandon",
    "push_back",
    "repeated_clicks",
]


class Signal(_Value, frozen=True):
    """One user signal. `signal_id` is always set, and with it at least one of the five target ids.

    `value` is the number on the sender's own scale, `raw_value` what was sent and `scale` the
    scale of a rating, as given or as read; `name` is what the sender calls the score. `revoked`
    takes an earlier signal with the same id back: only then no target is needed, or where a signal
    changes an earlier one. `sentiment` is -1, 0 or 1. `confidence` in [0, 1] and
    `reason`, in words, are set where the signal was not sent but inferred (`source` `inferred`).
    """

    signal_id: str
    kind: SignalKind
    occurred_at: datetime
    received_at: datetime
    trace_id: str | None = None
    response_id: str | None = None
    message_id: str | None = None
    conversation_id: str | None = None
    value: float | None = None
    raw_value: str | None = None
    sentiment: int = 0
    comment: str | None = None
    document_id: str | None = None
    user_id: str | None = None
    source: str = "signals"
    revoked: bool = False
    confidence: float | None = None
    reason: str | None = None
    span_id: str | None = None
    name: str | None = None
    scale: str | None = None


INFERRED = "inferred"
"""The `source` of signals that nobody sent: we saw them in what users did next."""


class Turn(_Value, frozen=True):
    """One request as a turn of its conversation, with what its user did about it.

    `at` is when it started, fixed by its first version; `clicked` counts the documents of the
    answer that were opened. Texts may be cut.
    """

    trace_id: str
    at: datetime
    question: str | None = None
    answer: str | None = None
    latency_ms: float | None = None
    clicked: int = 0


class Inferred(_Value, frozen=True):
    """A signal seen in what users did next: on which turn, how sure (in [0, 1]) and why."""

    trace_id: str
    kind: SignalKind
    confidence: float
    reason: str
