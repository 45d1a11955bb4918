"""Our own metrics and logs.

`Metrics` is the one catalogue: every metric is declared here, the README table is rendered from
it, and dashboards may use no other name. A registry is passed in, never a global one.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TextIO, TypeVar, cast

import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.metrics import MetricWrapperBase

PREFIX = "groundwatch_"
_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
_LABEL_LENGTH = 100
_SAID_LENGTH = 200
_FRAMES = 5
# The sums of `scorers.stats.ppi.PpiSums` by their names there: l = 1 - score, h = 1 - prediction.
QUALITY = (
    ("n", "judged", "Judged answers (n)."),
    ("w", "weight", "Sum of weights w = 1/p."),
    ("wl", "weighted_loss", "Sum of wl, with l = 1-score."),
    ("wll", "weighted_loss_squared", "Sum of wl²."),
    ("w2", "squared_weight", "Sum of w²."),
    ("w2l", "squared_weight_loss", "Sum of w²l."),
    ("w2ll", "squared_weight_loss_squared", "Sum of w²l²."),
    ("w_failed", "failed_weight", "Weight of failures."),
    ("requests", "requests", "Eligible requests, judged or not."),
    ("predicted", "predicted", "Those of them with a prediction of their score."),
    ("h", "predicted_loss", "Sum of h over these, with h = 1-prediction."),
    ("wh", "weighted_predicted_loss", "Sum of wh."),
    ("wlh", "weighted_loss_predicted_loss", "Sum of wlh."),
    ("whh", "weighted_predicted_loss_squared", "Sum of wh²."),
    ("w2h", "squared_weight_predicted_loss", "Sum of w²h."),
    ("w2lh", "squared_weight_loss_predicted_loss", "Sum of w²lh."),
    ("w2hh", "squared_weight_predicted_loss_squared", "Sum of w²h²."),
    ("w_unscored", "unscored_weight", "Weight of answers without a claim."),
    ("wh_unscored", "unscored_weighted_predicted_loss", "Sum of wh of these."),
)
SCORES = ("n", "w", "wl", "wll", "w2", "w2l", "w2ll", "w_failed", "requests", "w_unscored")
"""Of these sums, the ones that the other scorers have: nothing predicts their scores."""
_M = TypeVar("_M", bound=MetricWrapperBase)

# They would be a series of their own beside each counter, which nothing here reads.
disable_created_metrics()  # type: ignore[no-untyped-call]


class CatalogueRow(NamedTuple):
    """One metric as documented: full name, type, label names, meaning."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


class Metrics:
    """All metrics of one agent. Quality counters are additive: sum them over replicas."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.catalogue: list[CatalogueRow] = []
        c, g, h = self._counter, self._gauge, self._histogram
        by_transport = ["transport"]
        quality = ["service", "segment", "judge"]
        traffic = ["service", "segment"]

        self.spans_received = c("spans_received", "Spans accepted, durably.", by_transport)
        self.logs_received = c("log_records_received", "Log records accepted.", by_transport)
        self.signals_received = c("signals_received", "User signals accepted.", ["kind"])
        self.inferred_signals = c(
            "inferred_signals", "Signals inferred from what users did next.", ["kind"]
        )
        self.scores_ignored = c(
            "scores_ignored",
            "Scores sent as feedback that are no user's: by an evaluator (machine), of a name that "
            "does not say (unnamed: add it to receive.feedback), of an experiment, about nothing.",
            ["reason"],
        )
        self.bytes_received = c("received_bytes", "Bytes accepted, decompressed.", by_transport)
        self.refused = c("refused_requests", "Ingest calls refused.", [*by_transport, "reason"])
        self.rejected_items = c(
            "rejected_items", "Spans, records or signals that could not be read.", by_transport
        )

        self.journal_bytes = g("journal_bytes", "Size of the journal.")
        self.journal_bytes_capacity = g("journal_bytes_capacity", "Bound of the journal's size.")
        self.disk_free = g("data_dir_free_bytes", "Free disk where data_dir lies.")
        self.disk_needed = g(
            "data_dir_free_bytes_needed", "Free disk below which senders are told to wait."
        )
        self.journal_pending_bytes = g(
            "journal_pending_bytes", "Bodies under way to Kafka brokers, in bytes."
        )
        self.journal_pending_bytes_capacity = g("journal_pending_bytes_capacity", "Bound of these.")
        self.journal_lag_records = g("journal_lag_records", "Records not yet done.", ["topic"])
        self.journal_lag_seconds = g(
            "journal_lag_seconds", "Age of the oldest record not yet done.", ["topic"]
        )

        self.open_traces = g("assembler_traces", "Traces being assembled.")
        self.open_traces_capacity = g("assembler_traces_capacity", "Bound of open traces.")
        self.open_bytes = g("assembler_bytes", "Approximate memory of open traces.")
        self.open_bytes_capacity = g("assembler_bytes_capacity", "Bound of that memory.")
        self.traces_closed = c("traces_closed", "Traces closed, by what closed them.", ["reason"])
        self.late_traces = c(
            "late_traces", "Closed traces that grew by late spans and were stored again."
        )
        self.spans_dropped = c("spans_dropped", "Spans over the bound of their trace.")
        self.traces_ignored = c(
            "traces_ignored", "Traces that are no user request, by reason.", ["reason"]
        )
        self.dead_letters = c(
            "dead_letters",
            "Records set aside: unreadable (malformed), refused by the store for good "
            "(store_refused), or hit by a fault of ours (internal).",
            ["reason"],
        )

        self.requests = c("requests", "User requests stored.", traffic)
        self.ineligible = c(
            "requests_ineligible", "Requests without anything to judge.", [*traffic, "reason"]
        )
        self.eligible = c("requests_eligible", "Requests whose answer can be judged.", traffic)
        self.not_sampled = c("requests_not_sampled", "Eligible, not drawn.", traffic)
        self.judged = c("requests_judged", "Eligible, drawn and judged.", traffic)
        self.failed = c(
            "requests_failed", "Eligible and drawn, but not scored.", [*traffic, "reason"]
        )
        self.late_draws = c(
            "requests_drawn_late",
            "Requests judged only for a signal of their user; in the other counters not drawn.",
        )
        self.waiting = g("requests_waiting", "Eligible and drawn, judgement to come.", traffic)
        self.carried_over = g(
            "requests_carried_over",
            "Requests that were waiting when this process started.",
            traffic,
        )
        self.accounting_difference = g(
            "accounting_difference",
            "Eligible and carried over, less not sampled, judged, failed and waiting. Always 0.",
        )

        self.quality = {
            key: c(f"faithfulness_{name}", text, quality) for key, name, text in QUALITY
        }
        self.scores = {
            key: c(f"score_{name}", text, [*traffic, "scorer", "judge"])
            for key, name, text in QUALITY
            if key in SCORES
        }
        self.design_effect = g(
            "faithfulness_design_effect",
            "Factor of the variance by which conversations of the last day cluster.",
            quality,
        )
        self.claims = c("claims", "Claims of judged answers by verdict.", [*traffic, "verdict"])

        self.review_judgements = c(
            "requests_judged_for_review",
            "Requests given to the judge for the review only; in the other counters not drawn.",
        )
        self.judge_budget = g("judge_budget_requests", "Judgements a day that may be drawn.")
        self.judge_budget_spent = g(
            "judge_budget_requests_spent", "Judgements drawn of the running UTC day."
        )
        self.evidence = g(
            "faithfulness_evidence",
            "Evidence that answers are less faithful than alerts.faithfulness asks.",
            quality,
        )
        self.evidence_threshold = g(
            "faithfulness_evidence_threshold", "Evidence from which someone is paged.", quality
        )
        self.wanted = g("faithfulness_wanted", "Mean that alerts.faithfulness asks for.", quality)
        self.evidence_timestamp = g(
            "faithfulness_evidence_timestamp_seconds",
            "Requests decided by this Unix time are in the evidence.",
        )

        self.judge_calls = c("judge_calls", "Calls to the judging model by outcome.", ["outcome"])
        self.judge_seconds = h("judge_seconds", "Duration of one judgement.")
        self.judge_tokens = c("judge_tokens", "Tokens of the judge.", ["kind"])
        self.judge_cost = c("judge_cost_usd", "US dollars spent on judging.")
        self.judge_reused = c("judge_reused", "Judgements taken over from identical content.")
        self.judge_postponed = c(
            "judge_postponed", "Judgements put off until endpoint or budget allow.", ["cause"]
        )
        self.endpoint_down = g(
            "judge_endpoint_down", "1 while an endpoint is only tried now and then.", ["endpoint"]
        )
        self.endpoint_calls_capacity = g(
            "judge_endpoint_calls_capacity",
            "Calls at once, as many as the endpoint bears.",
            ["endpoint"],
        )
        self.spend_today = g(
            "judge_spend_today_usd", "US dollars spent or set aside in this UTC day."
        )
        self.spend_today_capacity = g(
            "judge_spend_today_usd_capacity", "daily_budget_usd, +Inf without one."
        )
        self.spend_remaining = g("judge_spend_remaining_usd", "What is left of it.")
        self.spend_forecast = g(
            "judge_spend_forecast_usd",
            "What the UTC day will have cost at the pace of the last hour.",
        )
        self.judge_in_flight = g("judge_in_flight", "Judgements under way.")
        self.judge_in_flight_capacity = g("judge_in_flight_capacity", "Bound of judgements.")
        self.judge_info = g(
            "judge_info", "1 for the judge at work; another label is another judge.", ["judge"]
        )
        self.judge_trusted = g(
            "judge_trusted",
            "Do labels of people agree with the judge? 1 if `trust` is trusted, 0.5 if it is weak, "
            "0 if it is uncalibrated or not trusted.",
            ["judge", "trust"],
        )

        self.store_rows = c("store_rows_written", "Rows written to the store.", ["table"])
        self.store_seconds = h("store_write_seconds", "Duration of one write.", ["table"])
        self.store_failures = c("store_write_failures", "Writes that failed.", ["table", "kind"])
        self.end_to_end = h(
            "end_to_end_seconds", "From journal to stored, and to judged.", ["stage"]
        )
        self.loop_timestamp = g(
            "last_loop_timestamp_seconds", "When each loop last turned, Unix time.", ["loop"]
        )
        self.build_info = g("build_info", "1, with the version.", ["version"])
        self.role = g(
            "role",
            "1 for each role this process works in, 0 for a reporter that stands by.",
            ["role"],
        )
        self.version_seen = g(
            "service_version_seen_timestamp_seconds",
            "When this process first saw a service.version of the assistant, Unix time.",
            ["service", "version"],
        )

    def _counter(self, name: str, text: str, labels: Sequence[str] = ()) -> Counter:
        return self._add(Counter, f"{name}_total", text, labels)

    def _gauge(self, name: str, text: str, labels: Sequence[str] = ()) -> Gauge:
        return self._add(Gauge, name, text, labels)

    def _histogram(self, name: str, text: str, labels: Sequence[str] = ()) -> Histogram:
        metric = Histogram(PREFIX + name, text, labels, registry=self.registry, buckets=_SECONDS)
        self.catalogue.append(CatalogueRow(PREFIX + name, "histogram", tuple(labels), text))
        return metric

    def _add(self, kind: type[_M], name: str, text: str, labels: Sequence[str]) -> _M:
        self.catalogue.append(
            CatalogueRow(PREFIX + name, kind.__name__.lower(), tuple(labels), text)
        )
        return kind(PREFIX + name, text, labels, registry=self.registry)


class BoundedLabel:
    """Keeps a label set small: the first `limit` values keep their name, later ones are `other`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def __call__(self, value: str | None) -> str:
        """Return the label to use for `value`; `unknown` for None."""
        if value is None:
            return "unknown"
        value = value[:_LABEL_LENGTH]
        if value in self._known:
            return value
        if len(self._known) < self._limit:
            self._known.add(value)
            return value
        return "other"


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Log one JSON object a line: event name and fields, never a text of users.

    Args:
        level: debug, info, warning or error.
        stream: where to; standard error by default.
    """
    file = _BestEffort(stream or sys.stderr)
    structlog.configure(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", file)),
    )
    libraries = logging.StreamHandler(cast("TextIO", file))
    libraries.setFormatter(_LibraryLine())
    logging.basicConfig(handlers=[libraries], level=logging.WARNING, force=True)


class _LibraryLine(logging.Formatter):
    """A line of a library like one of ours, without the values in it: a user's words may be some.

    Those stand in the arguments, in an exception's message, and in all lines after the first.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "logger": record.name,
            "said": next(iter(str(record.msg).splitlines()), "")[:_SAID_LENGTH],
            "event": "library",
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info and (error := record.exc_info[1]) is not None:
            line["error"] = type(error).__name__
            frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
            line["at"] = " > ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames)
        return json.dumps(line)


class _BestEffort:
    """A stream that drops what cannot be written: a log on a full disk must not end the work."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            return self._stream.write(text)
        return 0

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


class RateLimitedLog:
    """Logs a repeated event at most once per interval, with the number left out since."""

    def __init__(self, interval_seconds: float = 10.0) -> None:
        self._interval = interval_seconds
        self._last: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warning(self, event: str, **fields: object) -> None:
        """Log `event` as a warning unless it was logged within the interval."""
        now = time.monotonic()
        if now - self._last.get(event, -self._interval) < self._interval:
            self._left_out[event] = self._left_out.get(event, 0) + 1
            return
        self._last[event] = now
        structlog.get_logger().warning(event, left_out=self._left_out.pop(event, 0), **fields)
