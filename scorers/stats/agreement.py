"""How far a judge agrees with people, and what its errors do to the rate of bad answers.

"Positive" means bad (unfaithful) throughout. Sources: Rogan & Gladen 1978, Lang & Reiczigel 2014
(prevalence from an imperfect test), Youden 1950, Cohen 1960 with the variance of Fleiss, Cohen
& Everitt 1969, Gwet 2008 (AC1), Cicchetti & Feinstein 1990 (agreement per label).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import msgspec

from scorers.stats.intervals import KAPPA_PPI, Z95, Interval, shrunk_wilson, unit, wilson

LABELS_TO_SHOW = 20
LABELS_TO_CORRECT = 50
"""Human labels of each class needed to show a number per class, and to correct with it."""

YOUDEN_FLOOR = 0.1
"""A judge whose J = sensitivity + specificity - 1 may be this low carries no information."""


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """The same answers labelled by a person and by the judge.

    `both_bad` and `both_good` agree; `missed` are bad answers the judge called good,
    `false_alarms` good ones it called bad.
    """

    both_bad: int = 0
    missed: int = 0
    false_alarms: int = 0
    both_good: int = 0

    @property
    def bad(self) -> int:
        """Answers people called bad."""
        return self.both_bad + self.missed

    @property
    def good(self) -> int:
        """Answers people called good."""
        return self.false_alarms + self.both_good

    @property
    def n(self) -> int:
        """All labelled answers."""
        return self.bad + self.good


class Rate(NamedTuple):
    """A share with its 95 % Wilson interval."""

    value: float
    low: float
    high: float


def sensitivity(table: Confusion) -> Rate | None:
    """Return the share of bad answers the judge flags; None without a bad answer."""
    return _rate(table.both_bad, table.bad)


def specificity(table: Confusion) -> Rate | None:
    """Return the share of good answers the judge lets pass; None without a good answer."""
    return _rate(table.both_good, table.good)


def _rate(hits: int, n: int) -> Rate | None:
    return Rate(hits / n, *wilson(hits / n, n)) if n else None


# --- Correcting the rate of bad answers -----------------------------------------------------


class Corrected(msgspec.Struct, frozen=True, kw_only=True):
    """The rate of bad answers, corrected for the judge's errors, or why it cannot be.

    `estimate` is cut to [0, 1]; `raw_estimate` is not, and outside it the two label sets do not
    belong to the same traffic. `enough_labels` says whether each class has the 50 labels a
    correction should rest on. With a `reason` there is no estimate: show the judge's own rate
    beside the people's.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    raw_estimate: float | None = None
    standard_error: float | None = None
    youden: float | None = None
    youden_low: float | None = None
    enough_labels: bool = False
    reason: Literal["no_labels", "judge_uninformative"] | None = None


def rogan_gladen(flag_rate: float, judged: int, table: Confusion) -> Corrected:
    """Return the true rate of bad answers from the judge's rate and its known errors.

    For errors measured elsewhere or earlier; holds while sensitivity and specificity do, also
    when the rate itself moves. Delta-method standard error, Lang-Reiczigel interval.

    Args:
        flag_rate: share of judged answers the judge flags, in [0, 1].
        judged: how many were judged, at least 1.
        table: the labelled answers, drawn within each class at random.

    Raises:
        ValueError: flag_rate is outside [0, 1] or judged < 1.
    """
    if not 0.0 <= flag_rate <= 1.0:
        raise ValueError(f"flag_rate is {flag_rate}: it must lie in [0, 1]")
    if judged < 1:
        raise ValueError(f"judged is {judged}: it must be at least 1")
    sens, spec = sensitivity(table), specificity(table)
    if sens is None or spec is None:
        return Corrected(reason="no_labels")
    youden, youden_low = sens.value + spec.value - 1.0, sens.low + spec.low - 1.0
    if youden_low <= YOUDEN_FLOOR:
        return Corrected(youden=youden, youden_low=youden_low, reason="judge_uninformative")
    rate = (flag_rate + spec.value - 1.0) / youden
    variance = _rogan_gladen_variance(
        flag_rate, sens.value, spec.value, judged, table.bad, table.good
    )
    low, high = _lang_reiczigel(flag_rate, judged, table)
    return Corrected(
        estimate=unit(rate),
        low=low,
        high=high,
        raw_estimate=rate,
        standard_error=math.sqrt(variance),
        youden=youden,
        youden_low=youden_low,
        enough_labels=min(table.bad, table.good) >= LABELS_TO_CORRECT,
    )


def _rogan_gladen_variance(
    flagged: float, sens: float, spec: float, judged: float, bad: float, good: float
) -> float:
    youden = sens + spec - 1.0
    rate = (flagged + spec - 1.0) / youden
    return (
        flagged * (1.0 - flagged) / judged
        + (1.0 - rate) ** 2 * spec * (1.0 - spec) / good
        + rate**2 * sens * (1.0 - sens) / bad
    ) / youden**2


def _lang_reiczigel(flag_rate: float, judged: int, table: Confusion) -> Interval:
    """Return the interval on counts with pseudo-observations added and the centre shifted."""
    flagged = (judged * flag_rate + Z95**2 / 2.0) / (judged + Z95**2)
    sens = (table.both_bad + 1) / (table.bad + 2)
    spec = (table.both_good + 1) / (table.good + 2)
    rate = (flagged + spec - 1.0) / (sens + spec - 1.0)
    shift = (
        2.0
        * Z95**2
        * (
            rate * sens * (1.0 - sens) / (table.bad + 2)
            - (1.0 - rate) * spec * (1.0 - spec) / (table.good + 2)
        )
    )
    half = Z95 * math.sqrt(
        _rogan_gladen_variance(flagged, sens, spec, judged + Z95**2, table.bad + 2, table.good + 2)
    )
    return Interval(unit(rate + shift - half), unit(rate + shift + half))


class HumanGold(msgspec.Struct, frozen=True, kw_only=True):
    """The rate of bad answers from few human labels helped by the judge on many answers."""

    estimate: float
    low: float
    high: float
    variance: float
    lam: float


def ppi_human_gold(flagged: int, judged: int, table: Confusion) -> HumanGold | None:
    """Return the rate of bad answers with people as the truth and the judge as the helper.

    For labels on a random part of the judged answers of the same period. Right whatever the
    judge is worth: a useless one gets no weight. From 100 labels on the interval is honest; the
    shrinkage that protects smaller sets has not been simulated for this case.

    Args:
        flagged: how many judged answers the judge flagged.
        judged: how many were judged, at least the labelled ones.
        table: the labelled ones among them.

    Returns:
        None with fewer than two labels.

    Raises:
        ValueError: the counts contradict each other.
    """
    n = table.n
    if not 0 <= flagged <= judged or n > judged:
        raise ValueError("flagged and the labels must be part of the judged answers")
    if n < 2:
        return None
    human, judge = table.bad / n, (table.both_bad + table.false_alarms) / n
    correction = n / (n - 1.0)
    var_human = correction * human * (1.0 - human)
    var_judge = correction * judge * (1.0 - judge)
    covariance = correction * (table.both_bad / n - human * judge)
    lam = unit(covariance / var_judge) if var_judge else 0.0
    residual = max(var_human - 2.0 * lam * covariance + lam**2 * var_judge, 0.0)
    variance = residual / n * (1.0 - n / judged) + var_human / judged
    estimate = unit(human + lam * (flagged / judged - judge))
    low, high = shrunk_wilson(estimate, variance, n, KAPPA_PPI)
    return HumanGold(estimate=estimate, low=low, high=high, variance=variance, lam=lam)


# --- Agreement ------------------------------------------------------------------------------


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far two raters agree on labels, beyond the share on which they do.

    `kappa` and its interval are None where one label was all that was ever used. Print them
    only together, and from 100 labels on. `by_label` is the agreement on each label,
    2 both / (one + other), None where neither used it: with rare labels it is the honest
    number. `ac1` is Gwet's.
    """

    n: int
    agreement: float
    kappa: float | None
    kappa_low: float | None
    kappa_high: float | None
    kappa_se: float | None
    by_label: list[float | None]
    ac1: float


def agreement(table: Sequence[Sequence[int]]) -> Agreement | None:
    """Return the agreement of a square table of counts.

    Args:
        table: one row per label of the first rater, one column per label of the second, labels
            in the same order, at least two.

    Returns:
        None for a table without counts.

    Raises:
        ValueError: the table is not square, has one label only, or holds a negative count.
    """
    labels = range(len(table))
    if len(table) < 2 or any(len(row) != len(table) for row in table):
        raise ValueError("table must be square with at least two labels")
    if any(count < 0 for row in table for count in row):
        raise ValueError("table holds a negative count")
    n = sum(sum(row) for row in table)
    if not n:
        return None
    share = [[count / n for count in row] for row in table]
    first = [sum(row) for row in share]
    second = [sum(row[i] for row in share) for i in labels]
    agreed = sum(share[i][i] for i in labels)
    both = [(first[i] + second[i]) / 2.0 for i in labels]
    by_chance = sum(mean * (1.0 - mean) for mean in both) / (len(table) - 1)
    found = _kappa(share, first, second, n)
    return Agreement(
        n=n,
        agreement=agreed,
        kappa=found.kappa if found else None,
        kappa_low=found.kappa - Z95 * found.error if found else None,
        kappa_high=found.kappa + Z95 * found.error if found else None,
        kappa_se=found.error if found else None,
        by_label=[share[i][i] / both[i] if both[i] else None for i in labels],
        ac1=(agreed - by_chance) / (1.0 - by_chance),
    )


class _Kappa(NamedTuple):
    kappa: float
    error: float


def _kappa(
    share: list[list[float]], first: list[float], second: list[float], n: int
) -> _Kappa | None:
    """Return Cohen's kappa and its large-sample standard error."""
    labels = range(len(share))
    agreed = sum(share[i][i] for i in labels)
    chance = sum(first[i] * second[i] for i in labels)
    if chance >= 1.0:
        return None
    kappa = (agreed - chance) / (1.0 - chance)
    on_diagonal = sum(
        share[i][i] * (1.0 - (first[i] + second[i]) * (1.0 - kappa)) ** 2 for i in labels
    )
    beside_it = (1.0 - kappa) ** 2 * sum(
        share[i][j] * (second[i] + first[j]) ** 2 for i in labels for j in labels if i != j
    )
    centre = (kappa - chance * (1.0 - kappa)) ** 2
    variance = (on_diagonal + beside_it - centre) / ((1.0 - chance) ** 2 * n)
    return _Kappa(kappa, math.sqrt(max(variance, 0.0)))


def cross_table(
    first: Sequence[Hashable], second: Sequence[Hashable], labels: Sequence[Hashable]
) -> list[list[int]]:
    """Count how two raters labelled the same items, rows the first, columns the second.

    Raises:
        ValueError: lengths differ, or a label is not among `labels`.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} labels of one rater, {len(second)} of the other")
    places = {label: i for i, label in enumerate(labels)}
    if unknown := {*first, *second} - places.keys():
        raise ValueError(f"{len(unknown)} label(s) are not among the {len(labels)} allowed")
    table = [[0] * len(labels) for _ in labels]
    for one, other in zip(first, second, strict=True):
        table[places[one]][places[other]] += 1
    return table
