"""Watches the faithfulness of many segments at once: the running state behind a page.

Each segment has a detector (`sequential.ShiryaevRoberts`) that takes every judged answer once, in
the order in which requests were decided on. All share one threshold, the answers judged in
`false_page_days` over all segments: each detector gives one false alarm in so many answers of its
own at most, so all together give at most one false page in so many days.

Weights come relative to what is usual of late, which the past alone tells: the evidence of a
request that was drawn half as often counts double, and the detector needs to know nothing of rates
and budgets. (R + 1)(1 + bet * c/p * (L - baseline)) taken over the drawn requests is the same as
over all of them in expectation, for any c that is fixed before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from scorers.stats.sequential import BET, ShiryaevRoberts, false_alarm_budget, largest_bet

LEAST_THRESHOLD = 1000.0
"""Answers between false alarms at least, where few are judged."""

_RATE_DAYS = 7
_SHORTEST = timedelta(hours=1)
"""Answers of less than this do not tell how many a day brings."""
_REMEMBERED = 200.0
"""Answers over which the usual weight is an average."""
_FORGOTTEN = 0.98
"""By how much the heaviest weight of late is forgotten with each answer."""
_MOST = 50.0
"""A relative weight above this counts as this: one forged trace must not silence the detector."""


class Settings(NamedTuple):
    """What is watched for.

    `mean` is the mean score to keep, in (0, 1), `by_segment` the same for single segments;
    `hold` is how long a page lasts after the last alarm.
    """

    mean: float
    by_segment: Mapping[str, float]
    false_page_days: float
    hold: timedelta

    def baseline(self, segment: str) -> float:
        """Return the largest acceptable mean loss of a segment."""
        return 1.0 - self.by_segment.get(segment, self.mean)


class Judged(NamedTuple):
    """A judged answer: a score in [0, 1] and the probability, in (0, 1], of its draw."""

    service: str
    segment: str
    decided_at: datetime
    score: float
    probability: float


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """The detector of one segment. `usual` is the logarithm of the usual weight, if any was seen.

    `paged_at` is when the request was decided on with which the last alarm came, `paged_value` the
    evidence then.
    """

    service: str
    segment: str
    value: float = 0.0
    usual: float | None = None
    heaviest: float = 1.0
    paged_at: datetime | None = None
    paged_value: float = 0.0

    def observe(self, answer: Judged, baseline: float, threshold: float) -> Series:
        """Return the series after one more answer.

        The bet is lowered where weights lie far apart, so that no answer can do more than the
        largest safe bet allows. Settings of it: see `ShiryaevRoberts`.
        """
        heavy = -math.log(answer.probability)
        usual = heavy if self.usual is None else self.usual
        weight = min(math.exp(heavy - usual), _MOST)
        heaviest = max(1.0, weight, _FORGOTTEN * self.heaviest)
        detector = ShiryaevRoberts(
            baseline=baseline,
            threshold=threshold,
            bet=min(BET, largest_bet(baseline, heaviest)),
            max_weight=heaviest,
            value=self.value,
        ).observe(1.0 - answer.score, weight)
        after = msgspec.structs.replace(
            self,
            value=detector.value,
            usual=usual + (heavy - usual) / _REMEMBERED,
            heaviest=heaviest,
        )
        if not detector.alarm:
            return after
        return msgspec.structs.replace(
            after, value=0.0, paged_at=answer.decided_at, paged_value=detector.value
        )


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """All series of one judge, and up to which time of decision every answer is in them.

    `judged` counts answers by day, for the last week.
    """

    started: datetime
    until: datetime
    series: list[Series] = []
    judged: dict[str, int] = {}

    def threshold(self, settings: Settings) -> float:
        """Return the evidence from which someone is paged."""
        judged = sum(self.judged.values())
        if not judged:
            return LEAST_THRESHOLD
        begin = max(self.started, _first_midnight(self.until))
        per_day = judged / (max(self.until - begin, _SHORTEST) / timedelta(days=1))
        return max(LEAST_THRESHOLD, false_alarm_budget(per_day, settings.false_page_days))

    def evidence(self, one: Series, settings: Settings) -> float:
        """Return the evidence of a series as shown: not below the threshold while a page lasts."""
        if one.paged_at is not None and self.until < one.paged_at + settings.hold:
            return max(one.paged_value, self.threshold(settings))
        return one.value

    def advanced(self, answers: Iterable[Judged], until: datetime, settings: Settings) -> Watch:
        """Return the watch with the answers of the time since, in order of decision, up to `until`.

        Raises:
            ValueError: a score or a probability is outside its range.
        """
        threshold = self.threshold(settings)
        series = {(one.service, one.segment): one for one in self.series}
        judged = dict(self.judged)
        for answer in answers:
            key = answer.service, answer.segment
            one = series.get(key) or Series(service=answer.service, segment=answer.segment)
            series[key] = one.observe(answer, settings.baseline(answer.segment), threshold)
            day = answer.decided_at.date().isoformat()
            judged[day] = judged.get(day, 0) + 1
        first = _first_midnight(until).date().isoformat()
        return Watch(
            started=self.started,
            until=until,
            series=list(series.values()),
            judged={day: count for day, count in judged.items() if day >= first},
        )


def _first_midnight(until: datetime) -> datetime:
    """Return the begin of the days whose answers are counted."""
    day = until - timedelta(days=_RATE_DAYS - 1)
    return day.replace(hour=0, minute=0, second=0, microsecond=0)
