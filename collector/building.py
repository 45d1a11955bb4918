"""From closed traces to rows: merge, extract, score, decide. What is no request yet is kept.

Any part of a trace may come first, long before the rest or before a restart. A part that tells of
no request is a fragment, as long as it may become one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from collector import otlp
from collector.accounting import Accounting
from collector.assembler import Closed
from collector.config import Config
from collector.extract import extract
from collector.late_draws import first_task, scorer_tasks, version_with
from collector.model import (
    MAX_SPAN_IDS,
    Decision,
    JudgeTask,
    NotARequest,
    RagRequest,
    StoredRequest,
    Trace,
)
from collector.pacer import Pacer
from collector.ports import Fragment, Known
from collector.redaction import storable_request
from collector.sampling import OwnDraw, with_own_draws
from collector.segments import Segmenter
from collector.set_aside import log_fault
from collector.telemetry import Metrics
from collector.timing import Clock

_MOST_KEPT_BYTES = 32 * 1024 * 1024
"""Of the spans of one trace: of three times as much, a look-up would not fit into its memory."""

_ABOUT_SOMETHING_ELSE = ("no_genai", "startup_noise", "evaluation")


class LocalScore(NamedTuple):
    """What the free local scorer says: a score in [0, 1], or why there is none to measure."""

    score: float | None
    ineligible: str | None


class Built(NamedTuple):
    """A row, what is stored of its trace, and what is to be judged of it."""

    row: StoredRequest
    known: Known | None
    tasks: list[JudgeTask]

    @property
    def is_news(self) -> bool:
        """Whether the row says more than what is stored."""
        return self.known is None or self.row.version > self.known.version

    @property
    def is_outdated(self) -> bool:
        """Whether the row says less than what is stored."""
        return self.known is not None and self.row.version < self.known.version

    @property
    def newly_eligible(self) -> bool:
        """Whether there is something to score for the first time."""
        return _newly_eligible(self.row, self.known)


class Outcome(NamedTuple):
    """What became of closed traces; `faulty` are those that a fault of ours keeps from a row."""

    built: list[Built]
    fragments: list[Fragment]
    faulty: list[Trace]


class Builder:
    """Builds the rows of closed traces."""

    def __init__(
        self,
        score: Callable[[RagRequest], LocalScore],
        foreseen: Callable[[Decision, float | None], Decision],
        own_draws: Sequence[OwnDraw],
        pacer: Pacer,
        accounting: Accounting,
        metrics: Metrics,
        config: Config,
        clock: Clock,
    ) -> None:
        self._score = score
        self._foreseen = foreseen
        self._own_draws = own_draws
        self._pacer = pacer
        self._accounting = accounting
        self._metrics = metrics
        self._config = config
        self._clock = clock
        self._segmenter = Segmenter(config.segments)

    def build(
        self, closed: Sequence[Closed], known: dict[str, Known], fragments: dict[str, bytes]
    ) -> Outcome:
        """Build the rows of traces.

        Args:
            closed: the traces.
            known: what is stored of those that have a row.
            fragments: what is kept of those that have none yet, encoded.
        """
        outcome = Outcome([], [], [])
        keeps_spans = self._config.store.content == "full"
        for item in closed:
            stopping = item.trace.closed_by == "shutdown"
            if stopping and not keeps_spans:
                continue  # without its spans, it could not be merged with those to come
            stored = known.get(item.trace.trace_id)
            before = stored.telemetry if stored else fragments.get(item.trace.trace_id)
            try:
                trace = self._merged(item.trace, before)
                one = self._build_one(trace, stored)
            except Exception as err:
                log_fault("trace_set_aside", err, trace_id=item.trace.trace_id)
                # After a restart it is built again.
                outcome.faulty.extend([] if stopping else [item.trace])
                continue
            if isinstance(one, Built):
                outcome.built.append(one)
                continue
            if not item.late and not stopping:
                self._metrics.traces_ignored.labels(one.reason).inc()
            if keeps_spans and not stopping and _may_become_a_request(trace, one):
                body = otlp.encode_trace(trace)
                if len(body) > _MOST_KEPT_BYTES:
                    self._metrics.spans_dropped.inc(len(item.trace.spans))
                elif body != before:
                    version = otlp.version_of(trace)
                    outcome.fragments.append(Fragment(trace.trace_id, version, body))
        return outcome

    def _merged(self, trace: Trace, before: bytes | None) -> Trace:
        """Return a trace with what came of it before, its spans unique and in order.

        What began first is kept: a trace that never ends would grow with every part of it.
        """
        merged = otlp.merge_traces(trace, otlp.decode_trace(before) if before else trace)
        most = self._config.assembler.max_spans_per_trace
        over = max(0, len(merged.spans) - most) + max(0, len(merged.logs) - most)
        if not over:
            return merged
        self._metrics.spans_dropped.inc(over)
        return msgspec.structs.replace(
            merged,
            spans=merged.spans[:most],
            logs=merged.logs[:most],
            spans_dropped=merged.spans_dropped or over,
        )

    def _note_version(self, service: str | None, trace: Trace) -> None:
        for span in trace.spans:
            version = span.resource.get("service.version")
            if isinstance(version, str) and span.resource.get("service.name") == service:
                self._accounting.deployed(service, version, self._clock.now())
                return

    def _build_one(self, trace: Trace, known: Known | None) -> Built | NotARequest:
        request = extract(trace, message_id_attribute=self._config.message_id_attribute)
        if isinstance(request, NotARequest):
            return request
        if request.service in self._config.ignore_services:
            return NotARequest(reason="ignored_service")
        self._note_version(request.service, trace)
        request = msgspec.structs.replace(request, segment=self._segmenter(request, trace))
        local = self._score(request)
        if known is not None:
            decision = known.decision  # the first decision wins, whatever the config says by now
        else:
            decision = self._pacer.decide(
                trace,
                segment=request.segment,
                local_score=local.score,
                counted=local.ineligible is None,
            )
            decision = self._foreseen(decision, local.score)
        content = self._config.store.content
        version = otlp.version_of(trace)
        if known is None or version_with(version, decision) > known.version:
            fit = [d for d in self._own_draws if local.ineligible is None or not d.nested]
            decision = with_own_draws(decision, request, fit)
        telemetry = otlp.encode_trace(trace) if content == "full" else b""
        row = StoredRequest(
            request=storable_request(request, content),
            version=version_with(version, decision),
            decision=decision,
            lexical_score=local.score,
            ineligible=local.ineligible,
            telemetry=telemetry if len(telemetry) <= _MOST_KEPT_BYTES else b"",
            span_ids=[span.span_id for span in trace.spans[:MAX_SPAN_IDS]],
        )
        if known is not None and row.version < known.version:
            # What made the stored version is gone; less must not supersede more.
            return Built(row, known, [])
        kept = request if content == "none" else row.request
        task = first_task(
            kept,
            row,
            version,
            newly_eligible=_newly_eligible(row, known),
        )
        tasks = scorer_tasks(kept, row, version, known)
        return Built(row, known, tasks if task is None else [task, *tasks])


def _newly_eligible(row: StoredRequest, known: Known | None) -> bool:
    return row.ineligible is None and (known is None or known.ineligible is not None)


def _may_become_a_request(trace: Trace, reason: NotARequest) -> bool:
    """Tell whether the rest of a trace is to be waited for.

    Not where it has its root, lacks no parent, and says nothing of a model: most traffic of a
    company is about something else, and would be kept for nothing.
    """
    if reason.reason == "ignored_service":
        return False
    there = {span.span_id for span in trace.spans}
    lacks_spans = not there or any(
        span.parent_span_id is not None and span.parent_span_id not in there for span in trace.spans
    )
    return lacks_spans or reason.reason not in _ABOUT_SOMETHING_ELSE
