"""The accounting that adds up: every eligible request is in exactly one state, always.

    eligible + carried over = not sampled + judged + failed(reason) + waiting

All changes happen in one thread between two awaits, so every scrape sees a consistent picture.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from collector.model import Judgement, JudgeTask, RagRequest, StoredRequest
from collector.telemetry import BoundedLabel, Metrics


class Accounting:
    """Counts requests through their states and adds judged ones to the quality sums."""

    def __init__(self, metrics: Metrics, fingerprint: str, max_services: int = 50) -> None:
        self._metrics = metrics
        self._fingerprint = fingerprint
        self._announced: set[tuple[str, str]] = set()
        self._service = BoundedLabel(max_services)
        metrics.accounting_difference.set_function(self._difference)

    def traffic_labels(self, request: RagRequest) -> tuple[str, str]:
        """Return the bounded (service, segment) labels of a request."""
        return self._service(request.service), request.segment or "unknown"

    def announce(self, service: str | None, segment: str | None) -> None:
        """Export the counters of a service and segment as 0 before anything is counted.

        A counter that is first scraped with a value has no increase: what it counted before is
        lost to every `increase()`. So known segments are announced at the start, new ones at sight.
        """
        labels = (self._service(service), segment or "unknown")
        if labels in self._announced:
            return
        self._announced.add(labels)
        m = self._metrics
        for by_traffic in (m.requests, m.eligible, m.not_sampled, m.judged, m.waiting):
            by_traffic.labels(*labels)
        for by_judge in (
            *(m.quality_judged, m.quality_w, m.quality_wl, m.quality_wll),
            *(m.quality_w2, m.quality_w2l, m.quality_w2ll, m.quality_w_failed),
        ):
            by_judge.labels(*labels, self._fingerprint)

    def stored(self, row: StoredRequest, *, first: bool, newly_eligible: bool) -> None:
        """Count a request that is now durable.

        Args:
            row: the stored request.
            first: this is the first version of its trace.
            newly_eligible: it is eligible and no earlier version of it was.
        """
        m, labels = self._metrics, self.traffic_labels(row.request)
        self.announce(row.request.service, row.request.segment)
        if first:
            m.requests.labels(*labels).inc()
            if row.ineligible is not None:
                m.ineligible.labels(*labels, row.ineligible).inc()
        if newly_eligible:
            m.eligible.labels(*labels).inc()
            if row.decision.at_first.sampled:
                m.waiting.labels(*labels).inc()
            else:
                m.not_sampled.labels(*labels).inc()

    def carried(self, task: JudgeTask) -> None:
        """Count a task that an earlier process left waiting."""
        labels = self.traffic_labels(task.request)
        self._metrics.carried_over.labels(*labels).inc()
        self._metrics.waiting.labels(*labels).inc()

    def finished(self, task: JudgeTask, judgement: Judgement) -> None:
        """Count the durable outcome of a task that was stored or carried."""
        m, labels = self._metrics, self.traffic_labels(task.request)
        weight = 1.0 / task.probability
        quality = (*labels, judgement.fingerprint)
        m.waiting.labels(*labels).dec()
        if judgement.score is None:
            m.failed.labels(*labels, judgement.reason or "internal").inc()
            if judgement.status == "failed":  # an answer without claims leaves nothing to estimate
                m.quality_w_failed.labels(*quality).inc(weight)
            return
        m.judged.labels(*labels).inc()
        loss = 1.0 - judgement.score
        m.quality_judged.labels(*quality).inc()
        m.quality_w.labels(*quality).inc(weight)
        m.quality_wl.labels(*quality).inc(weight * loss)
        m.quality_wll.labels(*quality).inc(weight * loss * loss)
        m.quality_w2.labels(*quality).inc(weight * weight)
        m.quality_w2l.labels(*quality).inc(weight * weight * loss)
        m.quality_w2ll.labels(*quality).inc(weight * weight * loss * loss)
        for claim in judgement.claims:
            m.claims.labels(*labels, claim.verdict).inc()

    def _difference(self) -> float:
        m = self._metrics
        entered = _sum(m.eligible) + _sum(m.carried_over)
        return entered - sum(_sum(one) for one in (m.not_sampled, m.judged, m.failed, m.waiting))


def _sum(metric: Counter | Gauge) -> float:
    return sum(sample.value for family in metric.collect() for sample in family.samples)
