"""The running evidence behind a page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from scorers.stats.watch import LEAST_THRESHOLD, Judged, Settings, Watch

START = datetime(2026, 11, 1, tzinfo=UTC)
SETTINGS = Settings(0.91, {}, 30.0, timedelta(hours=12))
# The case s1_esr of the statistics reference.
LOSSES = [0, 0, 1, 0.5, 0, 1, 1, 0, 0.25, 1]


def answers(
    losses: list[float], probabilities: list[float] | float = 0.1, segment: str = "lookup"
) -> list[Judged]:
    each = [probabilities] * len(losses) if isinstance(probabilities, float) else probabilities
    return [
        Judged("bot", segment, START + timedelta(minutes=i + 1), 1 - loss, p)
        for i, (loss, p) in enumerate(zip(losses, each, strict=True))
    ]


def watched(judged: list[Judged], settings: Settings = SETTINGS) -> Watch:
    watch = Watch(started=START, until=START)
    return watch.advanced(judged, START + timedelta(hours=1), settings)


@pytest.mark.parametrize("probability", [1.0, 0.1, 1e-5])
def test_answers_of_equal_weight_follow_the_published_recursion(probability: float) -> None:
    (series,) = watched(answers(LOSSES, probability)).series
    assert series.value == pytest.approx(182.6132295)


def test_an_answer_drawn_half_as_often_counts_double() -> None:
    # (0 + 1)(1 - 1.5 * .09) = .865, then (.865 + 1)(1 + 1.5 * 2 * .91) = 6.95645.
    (series,) = watched(answers([0, 1], [0.1, 0.05])).series
    assert series.value == pytest.approx(6.95645)


def test_in_how_many_steps_answers_come_changes_nothing() -> None:
    judged = answers(LOSSES)
    watch = Watch(started=START, until=START)
    for at in range(len(judged)):
        watch = watch.advanced([judged[at]], judged[at].decided_at, SETTINGS)
        watch = msgspec.json.decode(msgspec.json.encode(watch), type=Watch)
    assert watch.series == watched(judged).series


def test_segments_have_evidence_and_a_mean_to_keep_of_their_own() -> None:
    settings = SETTINGS._replace(by_segment={"hard": 0.5})
    watch = watched(answers([1, 1]) + answers([1, 1], segment="hard"), settings)
    lookup, hard = (one.value for one in watch.series)
    assert lookup == pytest.approx((1 + 2.365) * 2.365)
    assert hard == pytest.approx((1 + 1.75) * 1.75)


def test_a_forged_weight_does_not_silence_the_detector() -> None:
    # Enough to page: from here on every answer is wrong.
    assert (
        watched(answers([0.0] * 50 + [1.0] * 150, [0.1] * 50 + [1e-6] + [0.1] * 149))
        .series[0]
        .paged_at
    )


def test_a_change_of_the_rate_raises_no_alarm() -> None:
    usual = [0.0] * 9 + [0.5]  # a mean of .95
    watch = watched(answers(usual * 40, [1.0] * 200 + [0.01] * 200))
    assert watch.series[0].paged_at is None


def test_the_threshold_is_what_all_segments_judge_in_thirty_days() -> None:
    watch = Watch(started=START, until=START)
    assert watch.threshold(SETTINGS) == LEAST_THRESHOLD
    for hour in range(10 * 24):
        end = START + timedelta(hours=hour + 1)
        judged = [Judged("bot", f"s{n % 8}", end, 1.0, 0.1) for n in range(160)]
        watch = watch.advanced(judged, end, SETTINGS)
    assert watch.threshold(SETTINGS) == pytest.approx(8 * 20 * 24 * 30, rel=0.01)


def test_few_answers_have_a_threshold_that_is_not_low() -> None:
    watch = watched(answers([0.0, 1.0]))
    week = watch.advanced([], START + timedelta(days=6), SETTINGS)
    assert week.threshold(SETTINGS) == LEAST_THRESHOLD


def paged() -> Watch:
    """A watch that has just paged: ten wrong answers in ten minutes."""
    watch = watched(answers([1.0] * 10))
    assert watch.series[0].paged_at == START + timedelta(minutes=8)  # 2.365^8 is above 1000 / 1.7
    return watch


def later(watch: Watch, hours: float, judged: list[Judged]) -> Watch:
    return watch.advanced(judged, START + timedelta(hours=hours), SETTINGS)


def shown(watch: Watch) -> bool:
    return watch.evidence(watch.series[0], SETTINGS) >= watch.threshold(SETTINGS)


def test_a_page_lasts_twelve_hours_and_then_begins_from_nothing() -> None:
    watch = later(paged(), 12, [])
    assert shown(watch)
    watch = later(watch, 12.2, [])
    assert not shown(watch)
    assert watch.evidence(watch.series[0], SETTINGS) < 20  # two answers after the alarm


def test_a_page_lasts_while_quality_stays_worse() -> None:
    at = START + timedelta(hours=10)
    again = [Judged("bot", "lookup", at + timedelta(minutes=i), 0.0, 0.1) for i in range(10)]
    watch = later(paged(), 11, again)
    assert shown(later(watch, 21, []))
    assert not shown(later(watch, 23, []))


def test_an_impossible_score_is_refused() -> None:
    with pytest.raises(ValueError, match="loss"):
        watched([Judged("bot", "lookup", START, 1.5, 0.1)])
