"""Alarms that may look at every judged record without crying wolf.

A chart that is looked at every minute with a fixed threshold raises over a hundred false alarms
a month. Here the budget of false alarms is set beforehand. Losses are L = 1 - score in [0, 1].
Sources: Shin, Ramdas & Rinaldo 2023 (e-detectors, arXiv 2203.03532), Page 1954 (CUSUM), Google
SRE workbook ch. 5 (burn rates).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from scorers.stats import weighted
from scorers.stats.weighted import Sums

BET = 1.5
"""Suits drops of five to eight points."""


class ShiryaevRoberts(msgspec.Struct, frozen=True, kw_only=True):
    """A detector of worse quality: R <- (R + 1)(1 + bet * w * (L - baseline)), alarm at threshold.

    While the expected loss, given the past, is at most the baseline, a false alarm comes no
    sooner than every `threshold` records on average, whatever the distribution of the losses
    and however they depend on each other. About 100 to 150 judged records are needed to see a
    drop of seven points; no detector sees it in minutes at 20 records an hour.

    Attributes:
        baseline: the largest acceptable mean loss, in (0, 1); set it under the worst normal hour.
        threshold: records between false alarms, see `false_alarm_budget`.
        bet: how strongly one loss counts; at most .9/(max_weight * baseline).
        max_weight: the largest weight that can come, 1/p_min; 1 for unweighted records.
        value: R, never negative.
    """

    baseline: float
    threshold: float
    bet: float = BET
    max_weight: float = 1.0
    value: float = 0.0

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ValueError: a setting is outside its range.
        """
        if not 0.0 < self.baseline < 1.0:
            raise ValueError(f"baseline is {self.baseline}: it must lie between 0 and 1")
        if self.threshold <= 1.0:
            raise ValueError(f"threshold is {self.threshold}: it must be above 1 record")
        if not 0.0 < self.bet <= largest_bet(self.baseline, self.max_weight):
            raise ValueError(
                f"bet is {self.bet}: it must be above 0 and at most .9/(max_weight * baseline)"
            )

    def observe(self, loss: float, weight: float = 1.0) -> ShiryaevRoberts:
        """Return the detector after one more record; one that has raised an alarm starts anew.

        Args:
            loss: 1 - score, in [0, 1].
            weight: 1/p of the record, up to `max_weight`.

        Raises:
            ValueError: loss or weight is outside its range.
        """
        if not 0.0 <= loss <= 1.0:
            raise ValueError(f"loss is {loss}: it must lie in [0, 1]")
        if not 0.0 < weight <= self.max_weight * (1.0 + 1e-9):
            raise ValueError(f"weight is {weight}: it must be above 0 and at most max_weight")
        start = 0.0 if self.alarm else self.value
        value = (start + 1.0) * (1.0 + self.bet * weight * (loss - self.baseline))
        return msgspec.structs.replace(self, value=value)

    @property
    def alarm(self) -> bool:
        """Whether the last record raised an alarm."""
        return self.value >= self.threshold


def largest_bet(baseline: float, max_weight: float = 1.0) -> float:
    """Return the largest safe bet: with it one perfect record never makes R negative."""
    return 0.9 / (max_weight * baseline)


def false_alarm_budget(judged_per_day: float, days: float = 30.0, segments: int = 1) -> float:
    """Return the threshold for about one false alarm in so many days over all segments.

    Raises:
        ValueError: an argument is not positive.
    """
    if judged_per_day <= 0.0 or days <= 0.0 or segments < 1:
        raise ValueError("judged_per_day, days and segments must be positive")
    return judged_per_day * days * segments


def alert_mean(slo: float, usual_mean: float) -> float:
    """Return the mean score to watch for: a point above the objective if usual quality allows."""
    return slo + 0.01 if usual_mean >= slo + 0.02 else slo


def cusum(losses: Iterable[float], baseline: float, allowance: float) -> list[float]:
    """Return Page's one-sided sum after each record: S <- max(0, S + L - baseline - allowance).

    Tuned to one rate of records it fails at another; the e-detector does not.
    """
    path: list[float] = []
    value = 0.0
    for loss in losses:
        value = max(0.0, value + loss - baseline - allowance)
        path.append(value)
    return path


# --- Windows ----------------------------------------------------------------------------------


def burn_rate(mean: float, slo: float) -> float:
    """Return how many times faster than allowed the error budget burns; at most 1/(1 - slo).

    With an objective of .90 no burn above 10 exists, so that a page at 14.4 never fires.

    Raises:
        ValueError: slo is not in [0, 1).
    """
    if not 0.0 <= slo < 1.0:
        raise ValueError(f"slo is {slo}: it must be at least 0 and below 1")
    return (1.0 - mean) / (1.0 - slo)


WindowVerdict = Literal["below", "not_below", "blind"]


def windows_below(long: Sums, short: Sums, slo: float, z: float = 2.5) -> WindowVerdict:
    """Return whether quality is below an objective in a long and still in a short window.

    The long window must be below beyond doubt (upper end of its interval), the short one by its
    mean, so that the ticket closes soon after the cause is gone. Silence must not look like
    health: with too little judged, or a tenth of the weight failed, the monitor is blind.

    Args:
        long: sums of, say, 24 hours; at least 20 effective records.
        short: sums of, say, 6 hours; at least 5.
        slo: the objective for the mean score.
        z: normal quantile of the confidence asked of the long window.
    """
    if any(_blind(sums, least) for sums, least in ((long, 20.0), (short, 5.0))):
        return "blind"
    (_, upper), _ = weighted.interval(long, z)
    return "below" if upper < slo and weighted.hajek(short).mean < slo else "not_below"


def _blind(sums: Sums, least: float) -> bool:
    if weighted.kish_n_eff(sums) < least * (1.0 - 1e-9):
        return True
    return sums.w_failed >= weighted.DEGRADED_ABOVE * (sums.w + sums.w_failed)
