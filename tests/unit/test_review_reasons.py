"""Why a conversation is in the review, in words: what was sent, and what was only inferred."""

from __future__ import annotations

from typing import Any

from dashboards.review.conversation import reasons

COMPONENTS = (
    *("thumbs_down", "low_rating", "rephrase", "push_back", "regenerate", "abandon"),
    *("repeated_clicks", "contradicted", "unsupported", "no_context", "failed_request"),
    *("stray_citation", "low_lexical"),
)


def mark(complaint: str, confidence: float | None = None) -> dict[str, Any]:
    source = "signals" if confidence is None else "inferred"
    return {"complaint": complaint, "source": source, "confidence": confidence}


def ranked(*marks: dict[str, Any], **weights: float) -> dict[str, Any]:
    return dict.fromkeys(COMPONENTS, 0.0) | weights | {"marks": list(marks)}


def test_an_inferred_signal_says_how_sure_it_is() -> None:
    row = ranked(mark("rephrase", 0.82), rephrase=1.23)
    assert reasons(row) == ["the user asked again in other words (inferred, 0.82)"]


def test_signals_that_were_sent_are_told_from_those_inferred() -> None:
    row = ranked(mark("push_back"), mark("push_back", 0.6), push_back=2.4)
    assert reasons(row) == ["the user pushed back 2 times (1 inferred, 0.60)"]


def test_of_many_inferred_signals_the_surest_three_are_shown() -> None:
    marks = [mark("regenerate", sure) for sure in (0.91, 0.95, 0.93, 0.94)]
    (reason,) = reasons(ranked(*marks, regenerate=5.0))
    assert reason == "the answer was regenerated 4 times (inferred, 0.95, 0.94, 0.93, …)"


def test_the_heaviest_reason_comes_first_and_copies_count_nothing() -> None:
    row = ranked(
        *(mark("thumbs_down"), mark("abandon", 0.5), mark("")),
        thumbs_down=3.0,
        abandon=0.75,
        contradicted=4.0,
        low_lexical=0.4,
    )
    assert reasons(row) == [
        "2 claims contradict the documents",
        "thumbs down",
        "the user gave up (inferred, 0.50)",
        "not judged yet; the local score is 0.60",
    ]
