"""What a golden set covers of live traffic; shares and distances are worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from collector.golden.coverage import coverage
from sinks.golden_file import GoldenRow


def golden(question: str, segment: str = "lookup", *pages: str, **more: Any) -> GoldenRow:
    return GoldenRow(
        id=question, question=question, segment=segment, gold_sources=list(pages), **more
    )


def asked(
    question: str | None, requests: int = 1, segment: str = "lookup", *pages: str
) -> dict[str, Any]:
    return {
        "question": question,
        "segment": segment,
        "requests": requests,
        "pages": list(pages),
        "segment_requests": requests,
    }


def test_the_distance_of_two_mixes_is_the_share_that_would_have_to_move() -> None:
    rows = [golden(f"q{n}?") for n in range(8)] + [golden(f"m{n}?", "multi") for n in range(2)]
    live = [asked("q1?", 30), asked("m1?", 30, "multi"), asked("n?", 40, "new")]
    found = coverage(rows, live).segments
    # Set .8/.2/0, traffic .3/.3/.4: half of .5 + .1 + .4.
    assert found.distance == pytest.approx(0.5)
    assert [(m.name, m.golden, m.live_share) for m in found.mixes] == [
        ("new", 0, 0.4),
        ("lookup", 8, 0.3),
        ("multi", 2, 0.3),
    ]


def test_a_set_of_the_traffics_mix_is_not_stale_and_one_without_a_segment_is() -> None:
    live = [asked("How long is the trial?", 70), asked("Compare Pro and Team?", 30, "comparison")]
    lookups = [golden("How long is the trial?")] * 14
    same = coverage(lookups + [golden("Compare Pro and Team?", "comparison")] * 6, live)
    assert (same.segments.distance, same.covered, same.stale) == (0.0, 1.0, [])
    without = coverage(lookups, live)
    assert without.segments.distance == pytest.approx(0.3)
    assert without.covered == pytest.approx(0.7)
    assert without.stale == [
        "30% of the set would have to change its segment",
        "no golden question covers 30% of the requests",
    ]


def test_chance_alone_is_told_and_excuses_small_sets() -> None:
    live = [asked("q?", 50), asked("q?", 50, "other")]
    few = coverage([golden("q?")] * 3 + [golden("q?", "other")], live).segments
    many = coverage([golden("q?")] * 300 + [golden("q?", "other")] * 100, live).segments
    assert few.distance == many.distance == pytest.approx(0.25)
    # |k/4 - 1/2| for k of Binomial(4, 1/2) is .5 in 2 of 16 sets, so 5 % of them exceed .25.
    assert few.by_chance == 0.5
    # 1.96 * sqrt(.25 / 400) = .049.
    assert many.by_chance == pytest.approx(0.049, abs=0.006)


@pytest.mark.parametrize(
    ("question", "pages", "covered"),
    [
        ("How long does the free trial last?", (), True),
        ("How long is the trial?", (), True),
        ("How many days can I use the free trial?", ("240",), True),
        ("How many days can I use the free trial?", ("999",), False),
        ("Which payment methods are there?", ("240",), False),
    ],
)
def test_a_question_is_covered_by_its_words_and_sooner_on_the_same_page(
    question: str, pages: tuple[str, ...], *, covered: bool
) -> None:
    rows = [
        golden("How long does the free trial last?", "lookup", "240"),
        golden("Is SSO included in the Pro plan?", "lookup", "212"),
        golden("How do I export invoices?", "lookup", "305"),
    ]
    found = coverage(rows, [asked(question, 3, "lookup", *pages)])
    assert found.covered == (1.0 if covered else 0.0)
    assert [one.question for one in found.uncovered] == ([] if covered else [question])


def test_what_is_not_covered_comes_most_asked_first_with_the_nearest_question() -> None:
    rows = [golden("How do I export all invoices?"), golden("Is SSO on Pro?")]
    live = [
        asked("Where is the office in Tokyo?", 2),
        asked("How do I delete invoices from the archive for good?", 5),
        asked("Is SSO on Pro?", 3),
        asked(None, 90),
    ]
    found = coverage(rows, live)
    assert [(one.requests, one.nearest) for one in found.uncovered] == [
        (5, "How do I export all invoices?"),
        (2, None),
    ]
    assert (found.requests, found.compared) == (90, 10)  # one segment: 90 stand for all of it
    assert found.covered == pytest.approx(0.3)


def test_topics_are_pages_in_equal_parts_and_drafts_do_not_count() -> None:
    rows = [
        golden("a?", "lookup", "212", "1140", synthetic=True),
        golden("b?", "lookup", "212"),
        golden("c?", "lookup", "9", extra={"draft": True}),
    ]
    found = coverage(rows, [asked("a?", 10, "lookup", "212"), asked("d?", 30, "lookup", "7")])
    assert found.rows == 2
    assert [(m.name, m.golden, m.synthetic, m.live_share) for m in found.topics.mixes] == [
        ("7", 0, 0, 0.75),
        ("212", 1.5, 1, 0.25),
        ("1140", 0.5, 1, 0.0),
    ]
    # Set .75/.25/0, traffic .25/0/.75.
    assert found.topics.distance == pytest.approx(0.75)


def test_no_traffic_and_no_rows_are_no_drift() -> None:
    assert coverage([golden("a?")], []).stale == []
    assert coverage([golden("a?")], []).covered is None
    assert coverage([], [asked("a?")]).covered == 0.0
