"""What do users say, sent or inferred, and for how many of them does that speak?"""

from __future__ import annotations

from dashboards.grafana.frame import REVIEW, TRACE, Page, Row
from dashboards.grafana.panels import Column, Prom, series, sql_series, stat, table
from dashboards.grafana.quality import sql, zero_for


def _counted(counter: str, label: str) -> str:
    counted = f"sum by ({label}) (increase(groundwatch_{counter}_total[$window]))"
    return zero_for(label, f"{counted} > 0")


_SAID = Row(
    "What do users say?",
    [
        stat(
            "How many signals came?",
            "Sent by users or their clients, in the window chosen above.",
            Prom(
                "sum(increase(groundwatch_signals_received_total[$window])) or vector(0)",
                "sent",
            ),
            unit="short",
            decimals=0,
            no_data="none",
            width=8,
        ),
        stat(
            "How many were inferred?",
            "Rephrases, push-backs and questions given up, found by comparing turns.",
            Prom(
                "sum(increase(groundwatch_inferred_signals_total[$window])) or vector(0)",
                "inferred",
            ),
            unit="short",
            decimals=0,
            no_data="none",
            width=8,
        ),
        stat(
            "How many requests were judged for a complaint?",
            "Drawn late, for a signal that says no. They count by their probability.",
            Prom(
                "sum(increase(groundwatch_requests_drawn_late_total[$window]))",
                "drawn late",
            ),
            unit="short",
            decimals=0,
            no_data="none",
            width=8,
        ),
        series(
            "Which signals are sent?",
            "Signals of the window by kind. Few users send any: see the table below.",
            Prom(_counted("signals_received", "kind"), "{{kind}}"),
            unit="short",
            stacked=True,
            no_data="none",
        ),
        series(
            "Which signals are inferred?",
            "Inferred ones of the window by kind. Each is a guess with a confidence.",
            Prom(_counted("inferred_signals", "kind"), "{{kind}}"),
            unit="short",
            stacked=True,
            no_data="none",
        ),
        series(
            "Which scores are left out, and why?",
            "Scores of machines and of names that nobody declared as feedback.",
            Prom(_counted("scores_ignored", "reason"), "{{reason}}"),
            unit="short",
            stacked=True,
            no_data="none was left out",
        ),
        sql_series(
            "Do complaints grow?",
            "Signals by the time they are about, from ClickHouse.",
            sql("signals_over_time"),
            unit="short",
            no_data="no signals in the time range",
        ),
    ],
)

_DETAILS = Row(
    "Drill-down (from ClickHouse)",
    [
        table(
            "For how many users do signals speak?",
            "Conversations with at least one signal that was sent.",
            {
                "segment": Column("Segment"),
                "requests": Column("Requests"),
                "conversations": Column("Conversations"),
                "engaged": Column("With a signal"),
                "share": Column("Share", "percentunit"),
            },
            sql("engagement"),
            no_data="no requests in the time range",
            width=12,
        ),
        table(
            "What was said about which segment?",
            "Signals by kind. Found are those whose request is in the store.",
            {
                "segment": Column("Segment"),
                "kind": Column("Kind"),
                "told": Column("Told"),
                "signals": Column("Signals"),
                "positive": Column("Praise"),
                "negative": Column("Complaint"),
                "matched": Column("Found"),
            },
            sql("said"),
            no_data="no signals in the time range",
            width=12,
        ),
        table(
            "What did users complain about last?",
            "The newest complaints about a request. A question opens the review page.",
            {
                "time": Column("Time", "dateTimeAsIso", width=170),
                "kind": Column("Kind", width=110),
                "told": Column("Told", width=80),
                "sure": Column("Sure", "percentunit", width=70, decimals=0),
                "segment": Column("Segment", width=120),
                "question": Column("Question", link=REVIEW + "&segment=${__data.fields.segment}"),
                "words": Column("Comment, or why it is inferred"),
                "trace_id": Column("Trace", link=TRACE, width=290),
            },
            sql("complaints"),
            no_data="no complaints in the time range",
        ),
    ],
)

PAGE = Page(
    "groundwatch-signals",
    "Signals of users",
    __doc__ or "",
    [_SAID, _DETAILS],
    since="now-7d",
)
