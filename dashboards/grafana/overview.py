"""Is quality fine, where is it not, since when, and which half is it: retrieval or generation?"""

from __future__ import annotations

from dashboards.grafana.frame import JUDGED, REVIEW, SELECTED, TRACE, Page, Row
from dashboards.grafana.panels import Column, Prom, prometheus_table, series, stat, table
from dashboards.grafana.quality import (
    TRUST_WHY,
    high,
    low,
    n_eff,
    sql,
    together,
    trust,
    zero_for,
)

_NOT_JUDGED = "nothing judged in this window"
_WINDOW = "Estimates look back over the window chosen above."
_CLAIMS = f"sum by (verdict) (increase(groundwatch_claims_total{{{SELECTED}}}[$window]))"


def _share(verdict: str) -> str:
    one = f'sum(increase(groundwatch_claims_total{{{SELECTED}, verdict="{verdict}"}}[$window]))'
    every = f"sum(increase(groundwatch_claims_total{{{SELECTED}}}[$window]))"
    return f"({one} or vector(0)) / ({every} > 0)"


def _without_documents() -> str:
    one = (
        "sum(increase(groundwatch_requests_ineligible_total"
        f'{{{SELECTED}, reason="no_context"}}[$window]))'
    )
    every = f"sum(increase(groundwatch_requests_total{{{SELECTED}}}[$window]))"
    return f"({one} or vector(0)) / ({every} > 0)"


_ABOUT = ("service", "segment", "topic", "transport", "reason", "budget", "instance")
_FIRING = (
    "max by (severity, alertname, about) (label_join("
    'ALERTS{alertname=~"Groundwatch.+", alertstate="firing"}, "about", " ", '
    + ", ".join(f'"{label}"' for label in _ABOUT)
    + "))"
)

_FINE = Row(
    "Is quality fine?",
    [
        stat(
            "How faithful are the answers?",
            f"Share of claims that the documents support, over all selected segments. {_WINDOW}"
            " Read it with its interval below.",
            Prom(together(), "mean"),
            unit="percentunit",
            decimals=1,
            no_data=_NOT_JUDGED,
        ),
        stat(
            "How near is a page?",
            "Evidence of a drop in the worst selected segment, as a share of what pages. At"
            " 100 % it pages, and stays there for alerts.hold_hours.",
            Prom(
                f"max(groundwatch_faithfulness_evidence{{{JUDGED}}}"
                f" / groundwatch_faithfulness_evidence_threshold{{{JUDGED}}})",
                "evidence",
            ),
            unit="percentunit",
            decimals=0,
            bad_from=1,
            no_data="not yet: the first ten minutes",
        ),
        stat(
            "How many answers stand behind it?",
            "Judged answers, counted as if all weighed the same (n_eff). Below 30 do not act on"
            " the number.",
            Prom(n_eff(), "n_eff"),
            unit="none",
            decimals=0,
            bad_below=30,
            no_data=_NOT_JUDGED,
        ),
        stat(
            "May the judge be trusted?",
            TRUST_WHY,
            trust(),
            unit="none",
            named=True,
            bad_below=1,
            no_data="no judge at work",
        ),
        stat(
            "Does the accounting add up?",
            "Shows how many requests are in no state, or in two. Anything but yes is a fault of"
            " groundwatch.",
            Prom("max(abs(groundwatch_accounting_difference))", "difference"),
            unit="none",
            words={"0": "yes"},
            bad_from=1,
            no_data="no agent answers",
        ),
        stat(
            "How many alerts fire?",
            "Alerts of alerts.yml that fire now. RUNBOOKS.md says what to do.",
            Prom(
                'count(ALERTS{alertname=~"Groundwatch.+", alertstate="firing"}) or vector(0)',
                "alerts",
            ),
            unit="none",
            bad_from=1,
            no_data="no answer",
        ),
    ],
)

_WHERE = Row(
    "Where is it not, and since when?",
    [
        series(
            "Since when? All selected segments, with interval",
            f"Mean faithfulness with its interval at 95 %. {_WINDOW} An end of the band moves"
            " for two reasons: quality, or how many answers were judged.",
            Prom(low(), "low", "band"),
            Prom(high(), "high"),
            Prom(together(), "mean"),
            unit="percentunit",
            top=1,
            bottom=None,
            no_data=_NOT_JUDGED,
        ),
        series(
            "Which segments are low?",
            f"Mean faithfulness of each segment. {_WINDOW} The dashboard Segments has the"
            " intervals; without them differences of a few points say nothing.",
            Prom(together(" by (segment)"), "{{segment}}"),
            unit="percentunit",
            top=1,
            bottom=None,
            no_data=_NOT_JUDGED,
        ),
    ],
)

_HALVES = Row(
    "Which half is it?",
    [
        series(
            "Retrieval: does the answer stand in the documents at all?",
            "Share of requests answered without any document, and of claims that no document"
            " holds: the page was not found, or the model invented.",
            Prom(_without_documents(), "answered without documents"),
            Prom(_share("NOT_FOUND"), "claims in no document"),
            unit="percentunit",
            no_data=_NOT_JUDGED,
        ),
        series(
            "Generation: does the answer contradict its documents?",
            "Share of claims that the documents contradict: the page was there and was misread.",
            Prom(_share("CONTRADICTED"), "claims contradicted"),
            unit="percentunit",
            no_data=_NOT_JUDGED,
        ),
    ],
)

_FIRST = Row(
    "What to look at first",
    [
        prometheus_table(
            "Which segments are worst?",
            "Mean, interval at 95 %, and how many answers stand behind it (n_eff). Act on no row"
            " whose n_eff is below 30.",
            {
                "segment": Column("Segment"),
                "Value #A": Column("Faithful", "percentunit"),
                "Value #B": Column("Low", "percentunit"),
                "Value #C": Column("High", "percentunit"),
                "Value #D": Column("n_eff", decimals=0),
            },
            Prom(together(" by (segment)"), "{{segment}}"),
            Prom(low(" by (segment)"), "{{segment}}"),
            Prom(high(" by (segment)"), "{{segment}}"),
            Prom(n_eff(" by (segment)"), "{{segment}}"),
            no_data=_NOT_JUDGED,
            width=12,
        ),
        prometheus_table(
            "Which alerts fire?",
            "Each alert that fires now, and about what.",
            {
                "severity": Column("Severity", width=90, colours={"page": "red"}),
                "alertname": Column("Alert"),
                "about": Column("About"),
            },
            Prom(zero_for("alertname", _FIRING), "{{alertname}}"),
            no_data="none",
            width=12,
        ),
        table(
            "Which conversations are worst?",
            "The ranking of the weekly review over the time range above. A question opens the"
            " review page, a trace id the trace.",
            {
                "badness": Column("Badness", width=90, decimals=1),
                "segment": Column("Segment", width=140),
                "question": Column("Question", link=REVIEW + "&segment=${__data.fields.segment}"),
                "contradicted_claims": Column("Contradicted", width=110),
                "unsupported_claims": Column("In no document", width=130),
                "trace_id": Column("Trace", link=TRACE, width=300),
            },
            sql("worst_conversations"),
            no_data="no conversation with anything to complain about",
        ),
    ],
)

PAGE = Page(
    "groundwatch-overview",
    "Overview",
    __doc__ or "",
    [_FINE, _WHERE, _HALVES, _FIRST],
)
