"""When the monitor itself is unwell, and when it must keep quiet: promtool over minutes and days.

Each alert has series that raise it and series that must not: little traffic, a restart, no data,
late data, one replica down. Of the other alerts none may fire along.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.promtool import ALERTS, Series, firing, summaries

pytestmark = pytest.mark.prometheus

DAY = 1440


def agents(values: str = "1x{n}", names: str = "a", n: int = 1600) -> Series:
    """Return agents that answer; without one GroundwatchDown fires."""
    filled = values.format(n=n)
    return {f'groundwatch_build_info{{instance="{name}", version="1"}}': filled for name in names}


def roles(working: str, standing_by: str = "") -> Series:
    """Return what processes with a role each say of it."""
    values = {
        **dict.fromkeys(working.split(), "1x60"),
        **dict.fromkeys(standing_by.split(), "0x60"),
    }
    return {
        f'groundwatch_role{{instance="{role}", role="{role}"}}': v for role, v in values.items()
    }


def metric(name: str, values: str, **labels: str) -> Series:
    inside = ", ".join(f'{key}="{value}"' for key, value in {"instance": "a", **labels}.items())
    return {f"groundwatch_{name}{{{inside}}}": values}


def traffic(eligible: str, judged: str) -> Series:
    segment = {"service": "bot", "segment": "lookup"}
    return metric("requests_eligible_total", eligible, **segment) | metric(
        "faithfulness_judged_total", judged, **segment, judge="j"
    )


def outcomes(weight: str, failed: str, reason: str = "timeout") -> Series:
    """Return judged and failed weights; each failure weighs 1."""
    quality = {"service": "bot", "segment": "lookup", "judge": "j"}
    return (
        metric("faithfulness_weight_total", weight, **quality)
        | metric("faithfulness_failed_weight_total", failed, **quality)
        | metric("requests_failed_total", failed, service="bot", segment="lookup", reason=reason)
    )


def day(mean: float, hours: float, n: int, deviation: float = 0.01) -> Series:
    """Return what the recording rules say of a segment that should be at .9."""
    labels = 'service="bot", segment="lookup", judge="j"'
    recorded = {
        "mean:1d": mean,
        "mean:6h": hours,
        "shrunk_variance:1d": deviation**2,
        "n:1d": n,
        "n:6h": n / 4,
    }
    return {
        f"segment:groundwatch_faithfulness_{name}{{{labels}}}": f"{value}x120"
        for name, value in recorded.items()
    } | metric("faithfulness_wanted", "0.9x120", service="bot", segment="lookup", judge="j")


def money(spent: str, bound: str) -> Series:
    return metric("judge_spend_today_usd", spent) | metric("judge_spend_today_usd_capacity", bound)


def lag(values: str, topic: str = "telemetry", instance: str = "a") -> Series:
    return metric("journal_lag_seconds", values, topic=topic, instance=instance)


def refused(values: str, reason: str) -> Series:
    return metric("refused_requests_total", values, transport="http", reason=reason)


def disk(free: str, needed: str = "268435456x800") -> Series:
    return metric("data_dir_free_bytes", free) | metric("data_dir_free_bytes_needed", needed)


FIRES: list[tuple[str, Series, int, str]] = [
    ("GroundwatchFaithfulnessLowForADay", day(0.85, 0.86, 400), 40, "85% of the claims of bot"),
    ("GroundwatchMonitorBlind", traffic("0+2x800", "0+0.02x800"), 400, "requests of bot"),
    ("GroundwatchDown", {}, 15, "No agent has answered"),
    ("GroundwatchRoleMissing", roles("receiver processor reporter"), 15, "worked as judge"),
    (
        "GroundwatchRoleMissing",
        roles("receiver processor judge", standing_by="reporter"),
        15,
        "worked as reporter",
    ),
    ("GroundwatchJudgeFailing", outcomes("0+8x200", "0+2x200"), 100, "20% of the judgements"),
    (
        "GroundwatchJudgeDown",
        metric("judge_endpoint_down", "1x60", endpoint="a")
        | metric("judge_endpoint_down", "0x9 1x50", endpoint="b"),
        30,
        "All endpoints",
    ),
    (
        "GroundwatchJudgeUntrusted",
        metric("judge_trusted", f"0x{4 * DAY}", judge="j"),
        3 * DAY + 1,
        "j can be trusted",
    ),
    (
        "GroundwatchJudgeUntrusted",  # a restart is no trust, nor is another reporter
        metric("judge_trusted", f"0x{DAY} _x{3 * DAY}", judge="j", trust="uncalibrated")
        | metric(
            "judge_trusted",
            f"_x{DAY + 10} 0x{3 * DAY}",
            judge="j",
            trust="uncalibrated",
            instance="b",
        ),
        3 * DAY + 1,
        "j can be trusted",
    ),
    ("GroundwatchBudgetExhaustedEarly", money("9.9x800", "10x800"), 60, "99% of the day's money"),
    (
        "GroundwatchBudgetExhaustedEarly",
        metric("judge_budget_requests_spent", "1000x800")
        | metric("judge_budget_requests", "1000x800"),
        60,
        "100% of the day's judgements",
    ),
    ("GroundwatchPipelineLag", lag("0+60x100"), 40, "telemetry waits for 40m"),
    ("GroundwatchRefusing", refused("0+2x100", "journal"), 40, "30 calls by http"),
    ("GroundwatchRefusing", refused("0+2x100", "malformed"), 40, "malformed"),
    (
        "GroundwatchDeadLetters",
        metric("dead_letters_total", "0x20 1x60", reason="internal"),
        30,
        "set aside in an hour: internal",
    ),
    (
        "GroundwatchDeadLetters",
        metric("dead_letters_total", "0+1x80", reason="malformed"),
        60,
        "malformed",
    ),
    (
        "GroundwatchJournalFull",
        metric("journal_bytes", "85x60") | metric("journal_bytes_capacity", "100x60"),
        20,
        "85% full",
    ),
    ("GroundwatchDiskLow", disk("1000000000x800"), 30, "953.7MiB of disk"),
    ("GroundwatchDiskLow", disk("5000000000-5000000x800"), 420, "of disk are left to a"),
]


@pytest.mark.parametrize(
    ("alert", "series", "minute", "said"), FIRES, ids=[f"{f[0]} {f[3]}" for f in FIRES]
)
def test_it_fires_alone_and_its_summary_has_the_numbers(
    alert: str, series: Series, minute: int, said: str, tmp_path: Path
) -> None:
    if alert != "GroundwatchDown":
        series = series | agents(n=minute + 10)
    assert firing(tmp_path, series, [minute]) == {minute: {alert}}
    (summary,) = summaries(tmp_path, series, minute, alert)
    assert said in summary


def test_every_alert_has_series_that_raise_it() -> None:
    """Those of the page and of the accounting are in test_alert_rules.py."""
    elsewhere = {"GroundwatchFaithfulnessLow", "GroundwatchAccountingBroken"}
    assert {f[0] for f in FIRES} | elsewhere == set(ALERTS)


SILENT: dict[str, Series] = {
    # No data
    "an agent that has seen nothing yet": {},
    # Low traffic
    "ten requests in six hours, none judged": traffic("0x300 10x400", "0x700"),
    "one failed judgement among three": outcomes("0x60 2x600", "0x60 1x600"),
    "three answers a day": day(0.5, 0.5, 3),
    "one call that was no OTLP": refused("0x50 1x600", "malformed"),
    "one unreadable record": metric("dead_letters_total", "0x50 1x600", reason="malformed"),
    "pages that look for other paths": refused("0+10x600", "not_found"),
    # What is all right
    "half of the requests judged": traffic("0+2x700", "0+1x700"),
    "a day within chance": day(0.89, 0.89, 400, deviation=0.02),
    "a bad day that is over": day(0.85, 0.93, 400),
    "answers without claims": outcomes("0+8x700", "0x700")
    | metric(
        "requests_failed_total", "0+8x700", service="bot", segment="lookup", reason="no_claims"
    ),
    "a trusted judge": metric("judge_trusted", "1x700", judge="j"),
    "a budget that is not spent": money("5x700", "10x700"),
    "no budget": money("500x700", " ".join(["Inf"] * 700))
    | metric("judge_budget_requests", "0x700")
    | metric("judge_budget_requests_spent", "9x700"),
    "judge tasks that wait for the morning": lag("0+60x650", topic="judge"),
    "room on the disk": disk("500000000000-5000000x700"),
    # A restart
    "counters that begin anew": traffic("0+2x200 _x5 0+2x500", "0+1x200 _x5 0+1x500")
    | outcomes("0+9x200 _x5 0+9x500", "0x200 _x5 0x500"),
    "a lag that a restart works off": lag("0x200 _x5 900-300x3 0x500"),
    "trust that is read a minute after the start": metric(
        "judge_trusted", "1x200 _x5 0 1x500", judge="j"
    ),
    # Late data
    "judgements an hour behind": traffic("0+2x700", "0x60 0+1x640"),
    "lag for five minutes": lag("0x300 700x5 0x400"),
    # One replica down
    "one of two reporters standing by": roles("receiver processor judge reporter")
    | metric("role", "0x60", role="reporter", instance="b"),
    "one of two endpoints down": metric("judge_endpoint_down", "1x700", endpoint="a")
    | metric("judge_endpoint_down", "0x700", endpoint="b"),
    "one replica with its endpoints down": metric("judge_endpoint_down", "1x700", endpoint="a")
    | metric("judge_endpoint_down", "0x700", endpoint="a", instance="b"),
    # Roles apart
    "traffic in one process, judging in another": metric(
        "requests_eligible_total", "0+2x700", service="bot", segment="lookup", instance="p"
    )
    | metric(
        "faithfulness_judged_total",
        "0+1x700",
        service="bot",
        segment="lookup",
        judge="j",
        instance="j",
    ),
    "one replica that judges nothing": traffic("0+2x700", "0x700")
    | metric(
        "faithfulness_judged_total",
        "0+1x700",
        service="bot",
        segment="lookup",
        judge="j",
        instance="b",
    ),
}


@pytest.mark.parametrize("series", SILENT.values(), ids=SILENT)
def test_it_keeps_quiet(series: Series, tmp_path: Path) -> None:
    found = firing(tmp_path, series | agents(), [30, 61, 120, 205, 215, 302, 315, 400, 640])
    assert set().union(*found.values()) == set()


def test_one_agent_of_two_that_is_down_is_no_outage_and_both_are(tmp_path: Path) -> None:
    series = agents("1x30 _x90", "a") | agents("1x60 _x60", "b")
    found = firing(tmp_path, series, [45, 65, 90])
    assert found == {45: set(), 65: set(), 90: {"GroundwatchDown"}}


def test_a_budget_spent_in_the_evening_is_no_surprise(tmp_path: Path) -> None:
    series = money("1x1150 9.9x400", "10x1600") | agents()
    assert firing(tmp_path, series, [1190, 1210, 1400]) == {
        1190: {"GroundwatchBudgetExhaustedEarly"},
        1210: set(),
        1400: set(),
    }


def test_a_segment_that_cannot_be_seen_is_named_beside_one_that_can(tmp_path: Path) -> None:
    seen = {"service": "bot", "segment": "other"}
    series = (
        traffic("0+2x700", "0x700")
        | metric("requests_eligible_total", "0+2x700", **seen)
        | metric("faithfulness_judged_total", "0+1x700", **seen, judge="j")
        | agents()
    )
    (said,) = summaries(tmp_path, series, 400, "GroundwatchMonitorBlind")
    assert "segment lookup" in said
