"""Does the judge work, may it be trusted, and what does it cost?"""

from __future__ import annotations

from dashboards.grafana.frame import Page, Row
from dashboards.grafana.panels import Column, Prom, series, sql_series, stat, table
from dashboards.grafana.quality import TRUST_WHY, sql, trust, zero_for

_NO_BUDGET = "no budget is set"


def _quantile(share: float) -> str:
    return (
        f"histogram_quantile({share},"
        " sum by (le) (rate(groundwatch_judge_seconds_bucket[$__rate_interval])))"
    )


_WORKS = Row(
    "Does it work, and may it be trusted?",
    [
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
            "How many judges are at work?",
            "Two at once are two series of estimates; it should be one after a roll-out.",
            Prom("count(count by (judge) (groundwatch_judge_info))", "judges"),
            unit="none",
            bad_from=2,
            no_data="no agent answers",
        ),
        stat(
            "How many endpoints are down?",
            "Endpoints that are only tried now and then. A local judge has none.",
            Prom("sum(groundwatch_judge_endpoint_down) or vector(0)", "down"),
            unit="none",
            bad_from=1,
            no_data="no answer",
        ),
        stat(
            "How many judgements wait?",
            "Drawn and not judged yet. They wait in the journal and are not lost.",
            Prom("sum(groundwatch_requests_waiting) or vector(0)", "waiting"),
            unit="short",
            no_data="no answer",
        ),
        stat(
            "What was spent today?",
            "US dollars spent or set aside in this UTC day. A local judge costs nothing.",
            Prom("max(groundwatch_judge_spend_today_usd)", "spent"),
            unit="currencyUSD",
            no_data="nothing",
        ),
        stat(
            "What will today have cost?",
            "By the end of the UTC day, at the pace of the last hour.",
            Prom("max(groundwatch_judge_spend_forecast_usd)", "forecast"),
            unit="currencyUSD",
            no_data="nothing",
        ),
    ],
)

_KEEPS_UP = Row(
    "Does it keep up?",
    [
        series(
            "What became of the calls to the judge?",
            "Calls a second by outcome. A local judge makes none.",
            Prom(
                zero_for(
                    "outcome",
                    "sum by (outcome) (rate(groundwatch_judge_calls_total[$__rate_interval]))",
                ),
                "{{outcome}}",
            ),
            unit="reqps",
            stacked=True,
            no_data="no calls",
        ),
        series(
            "How long does one judgement take?",
            "Half are faster than the median, 95 of 100 than the other line, with all calls and"
            " retries.",
            Prom(_quantile(0.5), "median"),
            Prom(_quantile(0.95), "95 of 100"),
            unit="s",
            no_data="nothing judged",
        ),
        series(
            "Is the judge at its bound?",
            "Judgements under way. At the bound, judge.concurrency, more of them wait.",
            Prom("sum(groundwatch_judge_in_flight)", "under way"),
            Prom("sum(groundwatch_judge_in_flight_capacity)", "bound"),
            unit="short",
            no_data="no agent answers",
        ),
        series(
            "Why are judgements put off, and how many are taken over?",
            "Put off until endpoint or budget allow; taken over from identical content.",
            Prom(
                zero_for(
                    "cause",
                    "sum by (cause) (increase(groundwatch_judge_postponed_total[$window])) > 0",
                ),
                "put off: {{cause}}",
            ),
            Prom("sum(increase(groundwatch_judge_reused_total[$window]))", "taken over"),
            unit="short",
            no_data="none",
        ),
        series(
            "How many calls at once does each endpoint bear?",
            "Found out by asking more until it is busy; 0 while it is down.",
            Prom(
                zero_for(
                    "endpoint",
                    "min by (endpoint) (groundwatch_judge_endpoint_calls_capacity)",
                ),
                "{{endpoint}}",
            ),
            unit="short",
            no_data="a local judge",
        ),
        series(
            "Why do judgements fail?",
            "A failure is no score; it widens the bounds of the estimate.",
            Prom(
                zero_for(
                    "reason",
                    "sum by (reason) (increase(groundwatch_requests_failed_total[$window])) > 0",
                ),
                "{{reason}}",
            ),
            unit="short",
            stacked=True,
            no_data="none failed",
        ),
    ],
)

_COSTS = Row(
    "What does it cost?",
    [
        series(
            "Will the money last for the day?",
            "Spent, foreseen and allowed US dollars of the UTC day. Where the forecast passes the"
            " bound, judgements will wait for tomorrow.",
            Prom("max(groundwatch_judge_spend_today_usd)", "spent"),
            Prom("max(groundwatch_judge_spend_forecast_usd)", "forecast"),
            Prom(
                "min(groundwatch_judge_spend_today_usd_capacity) < +Inf"
                " or max(groundwatch_judge_spend_today_usd)",
                "allowed (none set: as spent)",
            ),
            unit="currencyUSD",
            no_data=_NO_BUDGET,
        ),
        series(
            "Will the judgements last for the day?",
            "Judgements drawn today beside sampling.budget_per_day; 0 of 0 without a budget.",
            Prom("max(groundwatch_judge_budget_requests_spent)", "drawn"),
            Prom("max(groundwatch_judge_budget_requests)", "budget"),
            unit="short",
            no_data=_NO_BUDGET,
        ),
        series(
            "How many tokens does it take?",
            "Tokens a second by kind; cached ones are cheaper.",
            Prom(
                zero_for(
                    "kind",
                    "sum by (kind) (rate(groundwatch_judge_tokens_total[$__rate_interval]))",
                ),
                "{{kind}}",
            ),
            unit="short",
            no_data="none",
        ),
        series(
            "What does an hour cost?",
            "US dollars an hour, over the window chosen above.",
            Prom("sum(rate(groundwatch_judge_cost_usd_total[$window])) * 3600", "an hour"),
            unit="currencyUSD",
            no_data="nothing",
        ),
    ],
)

_DETAILS = Row(
    "Drill-down (from ClickHouse)",
    [
        table(
            "What did each judge do in the time range, and at what price?",
            "One row per judge: another model, prompt or version is another judge.",
            {
                "fingerprint": Column("Judge"),
                "model": Column("Model"),
                "judgements": Column("Judgements"),
                "not_scored": Column("Failed"),
                "model_calls": Column("Calls"),
                "input": Column("Input tokens", "short"),
                "output": Column("Output tokens", "short"),
                "usd": Column("US dollars", "currencyUSD"),
                "usd_a_thousand": Column("A thousand", "currencyUSD"),
            },
            sql("judges"),
            no_data="nothing judged in the time range",
        ),
        sql_series(
            "How many judgements were made, and how many failed?",
            "By the time they were made, from ClickHouse.",
            sql("judgements_over_time"),
            unit="short",
            no_data="nothing judged in the time range",
        ),
        table(
            "How often do people agree with each verdict?",
            "Claims that people labelled, by what the judge said of them.",
            {
                "machine": Column("The judge said"),
                "labels": Column("Labels"),
                "same": Column("Same"),
                "agreement": Column("Agreement", "percentunit"),
            },
            sql("agreement"),
            no_data="no labels of this judge's claims yet",
            width=6,
            height=8,
        ),
        table(
            "What were judgements asked for?",
            "Those for the review enter no mean.",
            {
                "purpose": Column("For"),
                "status": Column("State"),
                "judgements": Column("Judgements"),
            },
            sql("purposes"),
            no_data="nothing judged in the time range",
            width=6,
            height=8,
        ),
    ],
)

PAGE = Page(
    "groundwatch-judge",
    "Judge and spend",
    __doc__ or "",
    [_WORKS, _KEEPS_UP, _COSTS, _DETAILS],
)
