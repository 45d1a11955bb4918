"""Is the next version better, and what did the releases so far do to live quality?"""

from __future__ import annotations

from dashboards.grafana.frame import Page, Row
from dashboards.grafana.panels import Column, Prom, series, sql_series, table
from dashboards.grafana.quality import high, low, sql, together

_NO_RUNS = "fewer than two runs in the time range: groundwatch eval makes one"

_BETTER = Row(
    "Is the newest run better than the one before?",
    [
        table(
            "What changed between the last two runs?",
            "Mean change over the questions that both measured, and half of its interval at"
            " 95 %. groundwatch gate decides; this table says where to look.",
            {
                "measure": Column("Measure"),
                "questions": Column("Questions"),
                "mean_change": Column("Change", "none"),
                "half_width": Column("±", "none"),
                "less_is_better": Column("Less is better"),
                "verdict": Column("It is"),
            },
            sql("differences"),
            no_data=_NO_RUNS,
            width=12,
        ),
        table(
            "Which questions got worse?",
            "Of the newest run against the one before, worst first.",
            {
                "question_id": Column("Question"),
                "segment": Column("Segment"),
                "measure": Column("Measure"),
                "before": Column("Before", "percentunit"),
                "after": Column("After", "percentunit"),
            },
            sql("worse"),
            no_data="none, or " + _NO_RUNS,
            width=12,
        ),
        table(
            "What did each run measure?",
            "Means over all questions that nobody made up, with their intervals at 95 %.",
            {
                "time": Column("Started", "dateTimeAsIso"),
                "run_id": Column("Run"),
                "judge": Column("Judge"),
                "measure": Column("Measure"),
                "questions": Column("Questions"),
                "mean": Column("Mean", "percentunit"),
                "low": Column("Low", "percentunit"),
                "high": Column("High", "percentunit"),
            },
            sql("measured"),
            no_data="no runs in the time range: groundwatch eval makes one",
            width=16,
        ),
        table(
            "What is wrong in each run?",
            "Questions by finding: whether retrieval or generation is at fault.",
            {
                "run_id": Column("Run"),
                "finding": Column("Finding"),
                "questions": Column("Questions"),
            },
            sql("diagnoses"),
            no_data="no runs in the time range: groundwatch eval makes one",
            width=8,
        ),
    ],
)

_LIVE = Row(
    "What did releases do to live quality?",
    [
        series(
            "Did quality move with a release?",
            "Mean faithfulness with its interval. Releases are marked where a new service.version"
            " was first seen.",
            Prom(low(), "low", "band"),
            Prom(high(), "high"),
            Prom(together(), "mean"),
            unit="percentunit",
            top=1,
            bottom=None,
            no_data="nothing judged in this window",
        ),
        series(
            "How many days is each version old?",
            "Time since service.version of the assistant was first seen.",
            Prom(
                "time() - min by (service, version) (min_over_time("
                'groundwatch_service_version_seen_timestamp_seconds{service=~"$service"}[$window]))',
                "{{service}} {{version}}",
            ),
            unit="s",
            no_data="no trace carries service.version",
        ),
        sql_series(
            "Which model answers?",
            "Requests by the model that answered, from ClickHouse.",
            sql("models"),
            unit="short",
            no_data="no requests in the time range",
        ),
        table(
            "How far are golden candidates?",
            "Drafts that came of the review, by the last thing that happened to them.",
            {
                "step": Column("Step"),
                "candidates": Column("Candidates"),
                "last_at": Column("Last", "dateTimeAsIso"),
            },
            sql("candidates"),
            no_data="none yet: the review page makes them",
            width=12,
            height=8,
        ),
    ],
)

PAGE = Page(
    "groundwatch-golden",
    "Golden set and releases",
    __doc__ or "",
    [_BETTER, _LIVE],
    since="now-30d",
)
