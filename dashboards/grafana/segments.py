"""How is each segment, how sure is that, and where is every request of it?"""

from __future__ import annotations

from dashboards.grafana.frame import JUDGED, REVIEW, SELECTED, TRACE, Page, Row
from dashboards.grafana.panels import Column, Prom, prometheus_table, series, sql_series, table
from dashboards.grafana.quality import (
    high,
    low,
    n_eff,
    recorded,
    sql,
    together,
    zero_for,
)

_NOT_JUDGED = "nothing judged in this window"
_BY = " by (segment)"
_STATES = ("not_sampled_total", "judged_total", "failed_total")


def _state(metric: str) -> str:
    return f"sum by (segment) (increase(groundwatch_requests_{metric}{{{SELECTED}}}[$window]))"


_EACH = Row(
    "How is each segment?",
    [
        prometheus_table(
            "How faithful is each segment, and how sure is that?",
            "Estimates over the window chosen above. Two segments differ for sure only where"
            " their intervals do not meet.",
            {
                "segment": Column("Segment"),
                "Value #A": Column("Faithful", "percentunit"),
                "Value #B": Column("Low", "percentunit"),
                "Value #C": Column("High", "percentunit"),
                "Value #D": Column("n_eff", decimals=0),
                "Value #E": Column("Judgements failed", "percentunit"),
                "Value #F": Column("Requests", "short", decimals=0),
            },
            Prom(together(_BY), "{{segment}}"),
            Prom(low(_BY), "{{segment}}"),
            Prom(high(_BY), "{{segment}}"),
            Prom(n_eff(_BY), "{{segment}}"),
            Prom(f"max by (segment) ({recorded('failed_share')})", "{{segment}}"),
            Prom(_state("total"), "{{segment}}"),
            no_data=_NOT_JUDGED,
        ),
    ],
)

_SINCE = Row(
    "Since when?",
    [
        series(
            "How faithful is $segment?",
            "Mean with its interval at 95 %, over the window chosen above.",
            Prom(low(_BY), "low", "band"),
            Prom(high(_BY), "high"),
            Prom(together(_BY), "{{segment}}"),
            unit="percentunit",
            top=1,
            bottom=None,
            no_data=_NOT_JUDGED,
            repeat="segment",
            width=8,
        ),
    ],
)

_BEYOND_DOUBT = Row(
    "Is it beyond doubt?",
    [
        series(
            "How near is a page?",
            "Evidence of a drop, by segment, as a share of what pages. It grows with every answer"
            " that is worse than alerts.faithfulness asks, and pages at 100 %.",
            Prom(
                f"max by (service, segment) (groundwatch_faithfulness_evidence{{{JUDGED}}}"
                f" / groundwatch_faithfulness_evidence_threshold{{{JUDGED}}})",
                "{{service}} {{segment}}",
            ),
            unit="percentunit",
            no_data="not yet: the first ten minutes",
        ),
        series(
            "How far do conversations repeat themselves?",
            "Factor by which questions of one conversation that resemble each other widen the"
            " variance; 1 where they do not.",
            Prom(
                f"max by (segment) (groundwatch_faithfulness_design_effect{{{JUDGED}}})",
                "{{segment}}",
            ),
            unit="none",
            no_data="not yet: the first ten minutes",
        ),
    ],
)

_REQUESTS = Row(
    "Where is every request?",
    [
        series(
            "What became of the eligible requests?",
            "Requests of the window by state; what waits is shown as it is now.",
            *(
                Prom(
                    f"sum(increase(groundwatch_requests_{metric}{{{SELECTED}}}[$window]))"
                    " or vector(0)",
                    metric.removesuffix("_total").replace("_", " "),
                )
                for metric in _STATES
            ),
            Prom(f"sum(groundwatch_requests_waiting{{{SELECTED}}}) or vector(0)", "waiting"),
            unit="short",
            stacked=True,
            no_data="no requests",
        ),
        series(
            "Why could some not be judged?",
            "Requests without anything to judge, and judgements that failed, by reason.",
            Prom(
                zero_for(
                    "reason",
                    "sum by (reason) (increase("
                    f"groundwatch_requests_ineligible_total{{{SELECTED}}}[$window])) > 0",
                ),
                "nothing to judge: {{reason}}",
            ),
            Prom(
                zero_for(
                    "reason",
                    "sum by (reason) (increase("
                    f"groundwatch_requests_failed_total{{{SELECTED}}}[$window])) > 0",
                ),
                "failed: {{reason}}",
            ),
            unit="short",
            no_data="all could be judged",
        ),
    ],
)

_DETAILS = Row(
    "Drill-down (from ClickHouse)",
    [
        table(
            "Where is every request of the time range?",
            "Counted from the store; each request stands in exactly one column.",
            {
                "service": Column("Service"),
                "segment": Column("Segment"),
                "requests": Column("Requests"),
                "eligible": Column("Eligible"),
                "not_sampled": Column("Not sampled"),
                "judged": Column("Judged"),
                "waiting": Column("Waiting"),
                "not_scored": Column("Failed"),
            },
            sql("places"),
            no_data="no requests in the time range",
            width=12,
        ),
        sql_series(
            "How many claims of each judged answer are supported?",
            "Judged answers by their score, each counted once, however rarely its like is drawn.",
            sql("scores"),
            unit="short",
            no_data="nothing judged in the time range",
            height=9,
        ),
        table(
            "Which judged answers lost most claims?",
            "A question opens the review page for its segment, a trace id the trace.",
            {
                "time": Column("Time", "dateTimeAsIso", width=170),
                "segment": Column("Segment", width=140),
                "score": Column("Score", "percentunit", width=80),
                "contradicted": Column("Contradicted", width=110),
                "in_no_document": Column("In no document", width=130),
                "question": Column("Question", link=REVIEW + "&segment=${__data.fields.segment}"),
                "trace_id": Column("Trace", link=TRACE, width=300),
            },
            sql("worst_answers"),
            no_data="no judged answer lost a claim",
        ),
    ],
)

PAGE = Page(
    "groundwatch-segments",
    "Segments",
    __doc__ or "",
    [_EACH, _SINCE, _BEYOND_DOUBT, _REQUESTS, _DETAILS],
)
