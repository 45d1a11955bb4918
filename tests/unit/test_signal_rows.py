"""Signals by segment, with how few of the users they come from."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from dashboards.signals import signal_rows
from dashboards.terminal import engagement, print_signals


def count(segment: str, kind: str, signals: int, **fields: Any) -> dict[str, Any]:
    plain = {"inferred": False, "positive": 0, "negative": signals, "matched": signals}
    return {"segment": segment, "kind": kind, "signals": signals} | plain | fields


def size(segment: str, requests: int, conversations: int, engaged: int) -> dict[str, Any]:
    return {
        "segment": segment,
        "requests": requests,
        "conversations": conversations,
        "engaged": engaged,
    }


REPORT = signal_rows(
    [
        count("how-to", "thumbs_down", 4),
        count("how-to", "rephrase", 30, inferred=True),
        count("lookup", "thumbs_down", 1),
        count("unknown", "thumbs_down", 3, matched=0),
    ],
    [size("how-to", 200, 100, 8), size("lookup", 50, 50, 1)],
)


def test_rates_are_per_request_and_the_engaged_are_a_share_of_conversations() -> None:
    how_to, lookup, unknown = REPORT["segments"]
    assert (how_to["segment"], how_to["engaged_share"]) == ("how-to", 0.08)
    assert [(k["kind"], k["inferred"], k["per_request"]) for k in how_to["kinds"]] == [
        ("rephrase", True, 0.15),
        ("thumbs_down", False, 0.02),
    ]
    assert (lookup["engaged_share"], lookup["kinds"][0]["per_request"]) == (0.02, 0.02)
    assert (unknown["engaged_share"], unknown["kinds"][0]["per_request"]) == (None, None)


def test_the_total_adds_counts_and_names_signals_without_a_request() -> None:
    total = REPORT["total"]
    assert (total["requests"], total["conversations"], total["engaged"]) == (250, 150, 9)
    assert total["engaged_share"] == 0.06
    thumbs = next(kind for kind in total["kinds"] if kind["kind"] == "thumbs_down")
    assert (thumbs["signals"], thumbs["per_request"]) == (8, 0.02)
    assert REPORT["unmatched"] == 3


def test_the_terminal_says_whom_the_thumbs_speak_for(capsys: pytest.CaptureFixture[str]) -> None:
    print_signals(REPORT, Console(width=80))
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    assert ["how-to", "rephrase", "inferred", "30", "15.0", "0", "30"] in lines
    assert ["lookup", "thumbs", "down", "sent", "1", "2.0", "0", "1"] in lines
    assert "Signals were sent in 9 of 150 conversations (6.0 %)" in shown
    assert "3 signals name a request that is not there." in shown


def test_without_requests_there_is_nothing_to_share() -> None:
    assert engagement(signal_rows([], [])["total"]) == "There were no requests."
