"""Is the next version better, and what did the releases so far do to live quality?"""

from __future__ import annotations

from dashboards.grafana.frame import RELEASES, Page, Row, sql_annotation
from dashboards.grafana.panels import Column, Prom, prometheus_table, series, sql_series, table
from dashboards.grafana.quality import high, low, sql, together

_NO_RUNS = "fewer than two runs in the time range: groundwatch eval makes one"

_BETTER = Row(
    "Is the newest run better than the one before?",
    [
        table(
            "What changed between the last two runs?",
            "Means over the questions that both measured, and their change with half of its"
            " interval at 95 %. groundwatch gate decides; this table says where to look.",
            {
                "measure": Column("Measure"),
                "questions": Column("Questions"),
                "mean_before": Column("Before", decimals=3),
                "mean_after": Column("After", decimals=3),
                "mean_change": Column("Change", decimals=3),
                "half_width": Column("±", decimals=3),
                "verdict": Column("It is", colours={"worse": "red", "better": "green"}),
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

_GATE = Row(
    "May it be released?",
    [
        table(
            "What did the gate say last?",
            "Each result of groundwatch gate: the run, what it was compared with, and why it is"
            " blocked. Of what passed, what could not be excluded.",
            {
                "time": Column("Time", "dateTimeAsIso", width=170),
                "new_run": Column("Run", width=150),
                "old_run": Column("Against", width=150),
                "result": Column("Result", width=90, colours={"blocked": "red", "passed": "green"}),
                "why": Column("Why, or warnings"),
            },
            sql("gate_results"),
            no_data="none in the time range: groundwatch gate OLD NEW makes one",
        ),
    ],
)

_LIVE = Row(
    "What did releases do to live quality?",
    [
        series(
            "Did quality move with a release?",
            "Mean faithfulness with its interval. Marked are releases, where a new service.version"
            " was first seen, and results of the gate.",
            Prom(low(), "low", "band"),
            Prom(high(), "high"),
            Prom(together(), "mean"),
            unit="percentunit",
            top=1,
            bottom=None,
            no_data="nothing judged in this window",
        ),
        prometheus_table(
            "Which versions were released, and when?",
            "Versions of the assistant by when their service.version was first seen, over 30 days.",
            {
                "service": Column("Service"),
                "version": Column("Version"),
                "Value #A": Column("First seen", "dateTimeAsIso"),
            },
            Prom(f"sort_desc({RELEASES})", "{{service}} {{version}}"),
            no_data="no trace carries service.version",
            width=12,
            height=8,
        ),
        sql_series(
            "Which model answers?",
            "Requests by the model that answered, from ClickHouse.",
            sql("models"),
            unit="short",
            no_data="no requests in the time range",
        ),
        table(
            "What became of golden candidates?",
            "Drafts that came of the review, by what was done to them.",
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
    [_GATE, _BETTER, _LIVE],
    since="now-30d",
    marks=[sql_annotation("gate", "orange", sql("gate_marks"))],
)
