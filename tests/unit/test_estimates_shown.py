"""Estimates as people see them: every request is in one column, and the reasons are told."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from dashboards.review.render import environment
from dashboards.terminal import notes, print_estimates, whereabouts, why

ROW: dict[str, Any] = {
    "requests": 120,
    "eligible": 100,
    "not_sampled": 60,
    "judged": 31,
    "waiting": 4,
    "failed": {"timeout": 2, "refused": 3},
    "ineligible": {"no_answer": 13, "no_context": 7},
    "n_eff": 31.0,
    "estimate": 0.912,
    "low": 0.834,
    "high": 0.968,
    "display": "normal",
    "wider": None,
    "bounds": [None, None],
}
PLACES = ["120", "20", "60", "31", "4", "5"]
JUDGE = {"fingerprint": "lexical/1", "trust": "uncalibrated", "reason": "no labels"}
REPORT: dict[str, Any] = {
    "scorer": "faithfulness",
    "judge": JUDGE,
    "judge_changes": [],
    "covariate": {"state": "on", "n": 412, "reason": None},
    "accounting_ok": True,
    "total": ROW,
    "segments": [{"segment": "s" * 60, **ROW}],
}


def shown(report: dict[str, Any]) -> str:
    out = io.StringIO()
    print_estimates(report, Console(file=out, width=80))
    return out.getvalue()


def test_the_columns_add_up_to_the_requests() -> None:
    assert whereabouts(ROW) == [20, 60, 31, 4, 5]
    assert sum(whereabouts(ROW)) == ROW["requests"]
    lines = shown(REPORT).splitlines()
    places = [line.split()[1:] for line in lines if line.startswith("all ")]
    assert places == [["0.912", "0.834–0.968", "31", "31/100"], PLACES]
    assert "requests = ineligible + not sampled + judged + waiting + failed" in lines


def test_reasons_are_told_the_most_frequent_first() -> None:
    assert why(ROW) == ["ineligible: no answer 13, no context 7", "failed: refused 3, timeout 2"]
    assert why({**ROW, "failed": {}, "ineligible": {}}) == []
    assert "failed: refused 3, timeout 2" in shown(REPORT)


def test_a_wider_window_is_named_where_too_little_was_judged() -> None:
    wider = {"window": "7d", "estimate": 0.875, "low": 0.8, "high": 0.925, "display": "normal"}
    few = ROW | {"segment": "refunds", "display": "hidden", "estimate": None, "wider": wider}
    lines = notes(REPORT | {"segments": [few]})
    assert lines[0] == "refunds: too few in this window; 7d: 0.875, 0.800–0.925"


def test_failures_another_judge_and_predictions_are_told() -> None:
    change = {"at": "2026-11-20T10:30:00+00:00", "fingerprint": "new", "previous": "old"}
    off = {"state": "off", "n": 0, "reason": "12 judged requests so far"}
    told = REPORT | {
        "total": ROW | {"bounds": [0.85, 0.95]},
        "judge_changes": [change],
        "covariate": off,
    }
    assert notes(told) == [
        "all: with the answers that could not be judged, between 0.850 and 0.950",
        "2026-11-20T10:30: another judge, new after old",
        "predictions by the local score: not used: 12 judged requests so far",
    ]
    assert notes(REPORT) == [
        "predictions by the local score: used, learned from 412 judged requests"
    ]


def test_a_long_name_is_cut_and_never_a_number() -> None:
    lines = shown(REPORT).splitlines()
    assert max(map(len, lines)) <= 80
    cut = [line.split()[1:] for line in lines if line.startswith("sss")]
    assert cut == [["0.912", "0.834–0.968", "31", "31/100"], PLACES]


def test_the_page_tells_the_same() -> None:
    judge = JUDGE | {"correction": {"state": "refused", "reason": "no labels"}}
    estimates = REPORT | {"judge": judge, "segments": [{"segment": "<b>bold</b>", **ROW}]}
    signals: dict[str, Any] = {"total": {"kinds": [], "engaged_share": None}}
    page = (
        environment()
        .get_template("week.html.j2")
        .render(
            week={
                "since": "2026-11-18T00:00:00+00:00",
                "until": "2026-11-25T00:00:00+00:00",
                "as_of": "2026-11-25T00:00:00+00:00",
                "estimates": estimates,
                "before": estimates,
                "signals": signals,
                "signals_before": signals,
                "spend": {"calls": 0, "calls_before": 0},
                "changes": [],
                "progress": {"done": 0, "all": 0},
                "conversations": [],
            },
            weeks={"names": [], "shown": None, "before": "2026-W46", "after": None},
            asked={},
            query="",
            days="7 days",
            states=(),
            ready=0,
            golden_file=None,
            login="",
            reviewer="",
            blind=False,
            link=str,
        )
    )
    for cell in ("120", "0.912", "0.834–0.968"):
        assert f"<td>{cell}</td>" in page, cell
    assert "&lt;b&gt;bold&lt;/b&gt;</a>" in page
    assert "<b>bold" not in page
    for told in (
        "requests 120 = ineligible 20 + not sampled 60 + judged 31 + waiting 4 + failed 5",
        "failed: refused 3, timeout 2",
        "used, learned from 412 judged requests",
    ):
        assert told in page
