"""Whether a judge may be trusted: its verdicts on claims beside those of people.

Sources: requirements of the field (50 labels, agreement per label and kappa, since a judge that
always says SUPPORTED agrees well on the whole); Youden 1950 for the words; Kish 1965 for the
effective number of labels that were chosen with unequal probability.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, get_args

import msgspec

from collector.model import Verdict
from scorers.stats.agreement import (
    LABELS_TO_CORRECT,
    LABELS_TO_SHOW,
    YOUDEN_FLOOR,
    Agreement,
    Confusion,
    Rate,
    agreement,
    cross_table,
    rogan_gladen,
)
from scorers.stats.intervals import wilson

LABELS_NEEDED = 50
"""Labelled claims below which nothing is said of a judge."""

KAPPA_LABELS = 100
"""Labelled claims below which kappa is too uncertain to be shown."""

YOUDEN_TRUSTED = 0.5
"""A judge is trusted if its J is surely above: taking its errors out of a mean then makes the
interval at most twice as wide, as that grows by 1 / J."""

REPLIES_NEEDED = 20
"""Answers put to a judge below which nothing is said of how it fails."""

MOST_UNUSABLE = 0.5
"""A judge that surely fails on more of the answers than this is not trusted with the rest."""

VERDICTS: tuple[str, ...] = get_args(Verdict)
Trust = Literal["trusted", "weak", "not trusted", "uncalibrated"]


class Replies(NamedTuple):
    """How many answers a judge was asked about, and on how many it gave no usable reply."""

    answers: int
    unusable: int


NO_REPLIES = Replies(0, 0)


class HumanVerdict(NamedTuple):
    """What one person said of one claim. `probability`: that it came to be labelled."""

    trace_id: str
    claim: str
    verdict: str
    machine: str
    probability: float


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """A judge beside people, claim by claim.

    "Bad" is any verdict but SUPPORTED. `sensitivity` is the share of bad claims the judge flags,
    `specificity` that of good ones it lets pass, both weighted by how the labels were chosen;
    None where there is no such claim; `effective_bad` and `effective_good` are how many equally
    weighted labels would tell as much. `youden_low` is the lower bound of their sum less 1.
    `table` counts claims, rows by the people's verdict and columns by the judge's, both in the
    order of `VERDICTS`. `people` is how far people agree among themselves on claims that two of
    them labelled. Of `answers` that it was asked about lately, `unusable` got no usable reply.
    """

    trust: Trust
    reason: str
    labels: int
    bad: int
    good: int
    table: list[list[int]]
    answers: int = 0
    unusable: int = 0
    effective_bad: float = 0.0
    effective_good: float = 0.0
    agreement: Agreement | None = None
    people: Agreement | None = None
    sensitivity: Rate | None = None
    specificity: Rate | None = None
    youden_low: float | None = None


class _Claim(NamedTuple):
    human: str
    machine: str
    weight: float

    @property
    def bad(self) -> bool:
        return self.human != "SUPPORTED"

    @property
    def flagged(self) -> bool:
        return self.machine != "SUPPORTED"


def calibrate(labels: Sequence[HumanVerdict], replies: Replies = NO_REPLIES) -> Calibration:
    """Compare a judge with people.

    Args:
        labels: verdicts of people beside the judge's, the latest of each person first; several
            people on one claim count once, by what most of them said.
        replies: how often it failed; where it fails, there are no claims to label.
    """
    claims = _claims(labels)
    bad, good = [c for c in claims if c.bad], [c for c in claims if not c.bad]
    table = cross_table([c.human for c in claims], [c.machine for c in claims], VERDICTS)
    sensitivity = _share(bad, [c.flagged for c in bad])
    specificity = _share(good, [not c.flagged for c in good])
    youden_low = sensitivity.low + specificity.low - 1.0 if sensitivity and specificity else None
    trust, reason = _unusable(replies) or _trust(len(bad), len(good), youden_low)
    return Calibration(
        trust=trust,
        reason=reason,
        labels=len(claims),
        bad=len(bad),
        good=len(good),
        table=table,
        answers=replies.answers,
        unusable=replies.unusable,
        effective_bad=_effective(bad),
        effective_good=_effective(good),
        agreement=agreement(table),
        people=_among_people(labels),
        sensitivity=sensitivity,
        specificity=specificity,
        youden_low=youden_low,
    )


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A mean faithfulness without the judge's errors, or the reason why it is refused."""

    state: Literal["corrected", "refused"]
    reason: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None


def correct(mean: float, variance: float, n_eff: float, found: Calibration) -> Correction:
    """Take what the judge gets wrong about claims out of a mean score (Rogan & Gladen 1978).

    Holds where the judge errs on claims alike in all answers, whatever their score.

    Args:
        mean: the judge's mean score, in [0, 1].
        variance: of that mean.
        n_eff: effective number of judged answers, positive.
        found: the judge beside people.
    """
    if found.trust not in ("trusted", "weak") or not found.sensitivity or not found.specificity:
        return Correction(state="refused", reason=found.reason)
    bad, good = round(found.effective_bad), round(found.effective_good)
    if min(bad, good) < LABELS_TO_CORRECT:
        counts = f"labels are worth {bad} claims that are not supported and {good} that are"
        return Correction(state="refused", reason=f"{counts}; it takes {LABELS_TO_CORRECT} of each")
    spread = mean * (1.0 - mean)
    judged = spread / variance if spread and variance else n_eff
    flagged, passed = round(bad * found.sensitivity.value), round(good * found.specificity.value)
    table = Confusion(
        both_bad=flagged, missed=bad - flagged, both_good=passed, false_alarms=good - passed
    )
    loss = rogan_gladen(1.0 - mean, max(round(judged), 1), table)
    if loss.estimate is None or loss.low is None or loss.high is None:
        return Correction(
            state="refused", reason="the judge's verdicts say too little about claims"
        )
    return Correction(
        state="corrected",
        reason=found.reason,
        estimate=1.0 - loss.estimate,
        low=1.0 - loss.high,
        high=1.0 - loss.low,
    )


def _unusable(replies: Replies) -> tuple[Trust, str] | None:
    answers, unusable = replies
    if answers < REPLIES_NEEDED or wilson(unusable / answers, answers).low <= MOST_UNUSABLE:
        return None
    return "not trusted", f"of its replies on {answers} answers, {unusable} cannot be used"


def _trust(bad: int, good: int, youden_low: float | None) -> tuple[Trust, str]:
    if not bad + good:
        return "uncalibrated", "no human labels to compare the judge with"
    if bad + good < LABELS_NEEDED:
        return "uncalibrated", f"{bad + good} claims labelled, {LABELS_NEEDED} needed"
    for count, kind in ((bad, "not supported"), (good, "supported")):
        if count < LABELS_TO_SHOW:
            return "uncalibrated", f"{count} labelled claims are {kind}, {LABELS_TO_SHOW} needed"
    if youden_low is None or youden_low <= YOUDEN_FLOOR:
        return "not trusted", "its verdicts say hardly more than chance about those of people"
    if youden_low <= YOUDEN_TRUSTED:
        return "weak", f"its verdicts on {bad + good} claims tell something about those of people"
    return "trusted", f"compared with people on {bad + good} claims"


def _claims(labels: Iterable[HumanVerdict]) -> list[_Claim]:
    by_claim: dict[tuple[str, str], list[HumanVerdict]] = defaultdict(list)
    for label in labels:
        by_claim[label.trace_id, label.claim].append(label)
    claims = []
    for given in by_claim.values():
        # Of verdicts given equally often the first counts: the latest.
        ((human, _),) = Counter(label.verdict for label in given).most_common(1)
        claims.append(_Claim(human, given[0].machine, 1.0 / given[0].probability))
    return claims


def _share(claims: Sequence[_Claim], hits: Sequence[bool]) -> Rate | None:
    """Return the weighted share of hits with Wilson's interval at Kish's effective number."""
    if not claims:
        return None
    total = sum(claim.weight for claim in claims)
    share = sum(claim.weight for claim, hit in zip(claims, hits, strict=True) if hit) / total
    return Rate(share, *wilson(min(share, 1.0), _effective(claims)))


def _effective(claims: Sequence[_Claim]) -> float:
    squares = sum(claim.weight**2 for claim in claims)
    return sum(claim.weight for claim in claims) ** 2 / squares if squares else 0.0


def _among_people(labels: Iterable[HumanVerdict]) -> Agreement | None:
    by_claim: dict[tuple[str, str], list[str]] = defaultdict(list)
    for label in labels:
        by_claim[label.trace_id, label.claim].append(label.verdict)
    pairs = [given[:2] for given in by_claim.values() if len(given) > 1]
    return agreement(cross_table([a for a, _ in pairs], [b for _, b in pairs], VERDICTS))
