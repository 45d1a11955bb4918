"""The accounting that adds up: every eligible request is in exactly one state, always.

    eligible + carried over = not sampled + judged + failed(reason) + waiting

All changes happen in one thread between two awaits, so every scrape sees a consistent picture.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import datetime

from prometheus_client import Counter, Gauge

from collector.model import FAITHFULNESS, Judgement, JudgeTask, RagRequest, StoredRequest
from collector.quality import QualityCounters
from collector.releases import Release
from collector.telemetry import SCORES, BoundedLabel, Metrics

_MAX_VERSIONS = 100


class Accounting:
    """Counts requests through their states and adds judged ones to the quality sums.

    Args:
        metrics: our own metrics.
        fingerprint: of the judge of faithfulness.
        max_services: distinct services; later ones are counted as other.
        scorers: fingerprints of the other scorers, by name; their sums are apart.
    """

    def __init__(
        self,
        metrics: Metrics,
        fingerprint: str,
        max_services: int = 50,
        scorers: Mapping[str, str] | None = None,
    ) -> None:
        self._metrics = metrics
        self._fingerprint = fingerprint
        self._scorers = scorers or {}
        self.quality = QualityCounters(metrics.quality)
        self.scores = QualityCounters(metrics.scores)
        self._announced: set[tuple[str, str]] = set()
        self._service = BoundedLabel(max_services)
        self._version = BoundedLabel(_MAX_VERSIONS)
        self._versions: set[tuple[str, str]] = set()
        self._releases: list[Release] = []
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
        self.quality.announce((*labels, self._fingerprint))
        for scorer in self._scorers.items():
            self.scores.announce((*labels, *scorer))

    def deployed(self, service: str | None, version: str, at: datetime) -> None:
        """Note when a version of the assistant was seen; only the first time counts."""
        labels = (self._service(service), self._version(version))
        if labels not in self._versions:
            self._versions.add(labels)
            self._releases.append(Release(*labels, at))
            self._metrics.version_seen.labels(*labels).set(at.timestamp())

    def fresh_releases(self) -> list[Release]:
        """Return the versions that were noted since this was last asked."""
        fresh, self._releases = self._releases, []
        return fresh

    def stored(
        self,
        row: StoredRequest,
        *,
        first: bool,
        newly_eligible: bool,
        scored_before: Container[str] = (),
    ) -> None:
        """Count a request that is now durable.

        Args:
            row: the stored request.
            first: this is the first version of its trace.
            newly_eligible: it is eligible and no earlier version of it was.
            scored_before: the other scorers that an earlier version had something to score for.
        """
        m, labels = self._metrics, self.traffic_labels(row.request)
        self.announce(row.request.service, row.request.segment)
        if first:
            m.requests.labels(*labels).inc()
            if row.ineligible is not None:
                m.ineligible.labels(*labels, row.ineligible).inc()
        if newly_eligible:
            m.eligible.labels(*labels).inc()
            h = row.decision.at_first.prediction
            counted = {"requests": 1.0, "predicted": float(h is not None), "h": _loss(h)}
            self.quality.add((*labels, self._fingerprint), counted)
            if row.decision.at_first.sampled:
                m.waiting.labels(*labels).inc()
            else:
                m.not_sampled.labels(*labels).inc()
        for scorer in row.decision.scorer_probability:
            if scorer in self._scorers and scorer not in scored_before:
                self.scores.add((*labels, scorer, self._scorers[scorer]), {"requests": 1.0})

    def clustered(self, service: str, segment: str, design_effect: float) -> None:
        """Export by which factor conversations widen the variance of a service and segment."""
        labels = (self._service(service), segment, self._fingerprint)
        self._metrics.design_effect.labels(*labels).set(design_effect)

    def carried(self, task: JudgeTask) -> None:
        """Count a task that an earlier process left waiting."""
        if task.scorer != FAITHFULNESS:
            return
        labels = self.traffic_labels(task.request)
        self._metrics.carried_over.labels(*labels).inc()
        self._metrics.waiting.labels(*labels).inc()

    def finished(self, task: JudgeTask, judgement: Judgement) -> None:
        """Count the durable outcome of a task that was stored or carried."""
        m, labels = self._metrics, self.traffic_labels(task.request)
        if task.scorer != FAITHFULNESS:
            series = (*labels, task.scorer, judgement.fingerprint)
            self.scores.add(series, _score_sums(1.0 / task.probability, judgement))
            return
        w, h = 1.0 / task.probability, _loss(task.prediction)
        quality = (*labels, judgement.fingerprint)
        m.waiting.labels(*labels).dec()
        if judgement.score is None:
            m.failed.labels(*labels, judgement.reason or "internal").inc()
            if judgement.status == "failed":
                self.quality.add(quality, {"w_failed": w})
            else:  # an answer without claims leaves nothing to estimate
                self.quality.add(quality, {"w_unscored": w, "wh_unscored": w * h})
            return
        m.judged.labels(*labels).inc()
        self.quality.add(quality, _sums(w, 1.0 - judgement.score, h))
        for claim in judgement.claims:
            m.claims.labels(*labels, claim.verdict).inc()

    def _difference(self) -> float:
        m = self._metrics
        entered = _sum(m.eligible) + _sum(m.carried_over)
        return entered - sum(_sum(one) for one in (m.not_sampled, m.judged, m.failed, m.waiting))


def _loss(prediction: float | None) -> float:
    """Return 1 - prediction, 0 where there is none."""
    return 0.0 if prediction is None else 1.0 - prediction


def _sums(w: float, l_: float, h: float) -> dict[str, float]:
    """Return what one judged answer adds to each sum."""
    sums = {"n": 1.0, "w": w, "wl": w * l_, "wll": w * l_ * l_}
    sums |= {"w2": w * w, "w2l": w * w * l_, "w2ll": w * w * l_ * l_}
    sums |= {"wh": w * h, "wlh": w * l_ * h, "whh": w * h * h}
    return sums | {"w2h": w * w * h, "w2lh": w * w * l_ * h, "w2hh": w * w * h * h}


def _score_sums(w: float, judgement: Judgement) -> dict[str, float]:
    """Return what one judgement of another scorer adds to its sums."""
    if judgement.score is None:
        return {"w_failed" if judgement.status == "failed" else "w_unscored": w}
    sums = _sums(w, 1.0 - judgement.score, 0.0)
    return {name: amount for name, amount in sums.items() if name in SCORES}


def _sum(metric: Counter | Gauge) -> float:
    return sum(sample.value for family in metric.collect() for sample in family.samples)
