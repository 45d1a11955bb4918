"""Does everything come in, get through and get stored, and is there room for more?"""

from __future__ import annotations

from dashboards.grafana.frame import Page, Row
from dashboards.grafana.panels import (
    Column,
    Prom,
    prometheus_table,
    series,
    sql_series,
    stat,
    table,
)
from dashboards.grafana.quality import sql, zero_for

_NO_AGENT = "no agent answers"


def _rate(counter: str, by: str) -> str:
    return f"sum by ({by}) (rate(groundwatch_{counter}_total[$__rate_interval]))"


def _happened(counter: str, *by: str, legend: str = "{{what}}") -> Prom:
    """Return what was counted in the window, by one or two labels; a line at 0 for nothing."""
    counted = f"sum by ({', '.join(by)}) (increase(groundwatch_{counter}_total[$window])) > 0"
    joined = ", ".join(f'"{label}"' for label in by)
    return Prom(
        zero_for("what", f'sum by (what) (label_join({counted}, "what", " ", {joined}))'),
        legend,
    )


def _full(gauge: str) -> Prom:
    share = f"max(groundwatch_{gauge} / (groundwatch_{gauge}_capacity > 0)) or vector(0)"
    return Prom(share, gauge.replace("_", " "))


def _quantile(histogram: str, by: str) -> str:
    rate = f"rate(groundwatch_{histogram}_bucket[$__rate_interval])"
    return f"histogram_quantile(0.95, sum by (le, {by}) ({rate}))"


_WELL = Row(
    "Is all well?",
    [
        stat(
            "How many processes answer?",
            "Processes of groundwatch whose metrics were scraped a moment ago.",
            Prom("count(groundwatch_build_info)", "processes"),
            unit="none",
            bad_below=1,
            no_data="none",
        ),
        stat(
            "How old is the oldest work?",
            "Age of the oldest record that is not done, over all topics.",
            Prom("max(groundwatch_journal_lag_seconds)", "age"),
            unit="s",
            bad_from=300,
            no_data=_NO_AGENT,
        ),
        stat(
            "Does the accounting add up?",
            "Shows how many requests are in no state, or in two. Anything but yes is a fault of"
            " groundwatch.",
            Prom("max(abs(groundwatch_accounting_difference))", "difference"),
            unit="none",
            words={"0": "yes"},
            bad_from=1,
            no_data=_NO_AGENT,
        ),
        stat(
            "How many calls were refused?",
            "Ingest calls of the window that were not taken, for any reason.",
            Prom(
                "sum(increase(groundwatch_refused_requests_total[$window])) or vector(0)",
                "refused",
            ),
            unit="short",
            decimals=0,
            bad_from=1,
            no_data="none",
        ),
        stat(
            "How many records were set aside?",
            "Dead letters of the window: groundwatch dead-letters list shows them.",
            Prom(
                "sum(increase(groundwatch_dead_letters_total[$window])) or vector(0)",
                "set aside",
            ),
            unit="short",
            decimals=0,
            bad_from=1,
            no_data="none",
        ),
        stat(
            "How full is the fullest queue?",
            "Journal, open traces, memory of traces: at 100 % senders wait or traces are cut.",
            Prom(
                "max(groundwatch_journal_bytes / groundwatch_journal_bytes_capacity"
                " or groundwatch_assembler_traces / groundwatch_assembler_traces_capacity"
                " or groundwatch_assembler_bytes / groundwatch_assembler_bytes_capacity)",
                "full",
            ),
            unit="percentunit",
            bad_from=0.8,
            no_data=_NO_AGENT,
        ),
    ],
)

_IN = Row(
    "What comes in?",
    [
        series(
            "How much comes in?",
            "Spans, log records and signals a second, by transport.",
            Prom(
                zero_for("transport", _rate("spans_received", "transport")),
                "spans {{transport}}",
            ),
            Prom(
                zero_for("transport", _rate("log_records_received", "transport")),
                "logs {{transport}}",
            ),
            Prom(
                "sum(rate(groundwatch_signals_received_total[$__rate_interval])) or vector(0)",
                "signals",
            ),
            unit="cps",
            no_data="nothing comes in",
        ),
        series(
            "What is refused, and why?",
            "Calls and items of the window that were not taken. Senders try again what was"
            " refused for want of room.",
            _happened("refused_requests", "transport", "reason"),
            Prom(
                "sum(increase(groundwatch_rejected_items_total[$window])) or vector(0)",
                "items that could not be read",
            ),
            unit="short",
            no_data="nothing was refused",
        ),
    ],
)

_THROUGH = Row(
    "Does it get through?",
    [
        series(
            "How far behind is each topic?",
            "Age of the oldest record not yet done. Nothing is lost while it waits; the topic"
            " judge may wait for its endpoint or for the next day's budget.",
            Prom("max by (topic) (groundwatch_journal_lag_seconds)", "{{topic}}"),
            unit="s",
            no_data=_NO_AGENT,
        ),
        series(
            "How many records wait?",
            "Records of each topic that are not yet done.",
            Prom("sum by (topic) (groundwatch_journal_lag_records)", "{{topic}}"),
            unit="short",
            no_data=_NO_AGENT,
        ),
        series(
            "How full are the queues?",
            "Each bounded queue as a share of its bound.",
            _full("journal_bytes"),
            _full("journal_pending_bytes"),
            _full("assembler_traces"),
            _full("assembler_bytes"),
            unit="percentunit",
            top=1,
            no_data=_NO_AGENT,
        ),
        series(
            "Why are traces closed?",
            "Traces a second. root: as it should be. idle: no root came. evicted: too many at"
            " once.",
            Prom(zero_for("reason", _rate("traces_closed", "reason")), "{{reason}}"),
            unit="cps",
            stacked=True,
            no_data="no traces",
        ),
        series(
            "What is left out, cut or late?",
            "Of the window: traces that are no request, spans over the bound of their trace,"
            " traces that grew by late spans.",
            _happened("traces_ignored", "reason", legend="left out: {{what}}"),
            Prom("sum(increase(groundwatch_spans_dropped_total[$window]))", "spans cut"),
            Prom("sum(increase(groundwatch_late_traces_total[$window]))", "late traces"),
            unit="short",
            no_data="nothing",
        ),
        series(
            "Why are records set aside?",
            "malformed: unreadable. store_refused: the store says no. internal: our fault.",
            _happened("dead_letters", "reason"),
            unit="short",
            stacked=True,
            no_data="none was set aside",
        ),
    ],
)

_STORED = Row(
    "Is it stored, and in time?",
    [
        series(
            "How long until stored, and until judged?",
            "95 of 100 are faster. Counted from when the journal has it.",
            Prom(_quantile("end_to_end_seconds", "stage"), "{{stage}}"),
            unit="s",
            no_data="nothing was stored",
        ),
        series(
            "How long does a write take?",
            "95 of 100 writes to a table are faster.",
            Prom(_quantile("store_write_seconds", "table"), "{{table}}"),
            unit="s",
            no_data="nothing was written",
        ),
        series(
            "How many rows are written?",
            "Rows a second by table.",
            Prom(_rate("store_rows_written", "table"), "{{table}}"),
            unit="cps",
            no_data="nothing was written",
        ),
        series(
            "How many writes failed, and how?",
            "Failed writes of the window by table. Transient ones are tried again, what is refused"
            " for good (permanent) becomes a dead letter.",
            _happened("store_write_failures", "table", "kind"),
            unit="short",
            no_data="none failed",
        ),
        series(
            "Does any loop stand still?",
            "Time since each loop of an agent last turned; more than 30 s is a stand-still.",
            Prom(
                "max by (loop) (time() - groundwatch_last_loop_timestamp_seconds)",
                "{{loop}}",
            ),
            unit="s",
            no_data=_NO_AGENT,
        ),
        series(
            "Do all eligible requests add up?",
            "What came in, and where it is. The two lines lie on each other; where they part,"
            " see the runbook of GroundwatchAccountingBroken.",
            Prom(
                "sum(groundwatch_requests_eligible_total)"
                " + (sum(groundwatch_requests_carried_over) or vector(0))",
                "eligible and carried over",
            ),
            Prom(
                "("
                + " + ".join(
                    f"(sum(groundwatch_requests_{state}) or vector(0))"
                    for state in ("not_sampled_total", "judged_total", "failed_total", "waiting")
                )
                # Without an answer from any agent there is nothing, and not 0.
                + ") and on () sum(groundwatch_requests_eligible_total)",
                "not sampled, judged, failed, waiting",
            ),
            unit="short",
            no_data=_NO_AGENT,
        ),
        prometheus_table(
            "How many processes work in each role?",
            "One process may have all roles. Of the reporters one is at work and the others stand"
            " by; of any other role none stands by.",
            {
                "role": Column("Role"),
                "Value #A": Column("At work", decimals=0),
                "Value #B": Column("Standing by", decimals=0),
            },
            Prom("sum by (role) (groundwatch_role)", "{{role}}"),
            Prom(
                "count by (role) (groundwatch_role) - sum by (role) (groundwatch_role)", "{{role}}"
            ),
            no_data=_NO_AGENT,
            width=12,
            height=8,
        ),
        series(
            "Which versions of groundwatch run?",
            "Processes by version; two at once only during a roll-out.",
            Prom("count by (version) (groundwatch_build_info)", "{{version}}"),
            unit="short",
            no_data=_NO_AGENT,
        ),
    ],
)

_DETAILS = Row(
    "Drill-down (from ClickHouse)",
    [
        sql_series(
            "How many requests were stored?",
            "By the time of writing; more versions than requests means late spans.",
            sql("stored"),
            unit="short",
            no_data="nothing was stored in the time range",
        ),
        table(
            "How much disk do the tables take?",
            "Active parts of the tables of groundwatch.",
            {
                "table": Column("Table"),
                "stored": Column("Rows", "short"),
                "bytes": Column("On disk", "bytes"),
                "parts": Column("Parts"),
                "partitions": Column("Partitions"),
            },
            sql("disk"),
            no_data="no tables: run groundwatch migrate",
            height=8,
            width=12,
        ),
        table(
            "What do traces lack?",
            "Requests of the time range by what is missing; groundwatch doctor names the cure.",
            {
                "flag": Column("Lacking"),
                "requests": Column("Requests"),
                "last_seen": Column("Last seen", "dateTimeAsIso"),
                "trace_id": Column("Example", link="${traces}${__data.fields.trace_id}"),
            },
            sql("lacking"),
            no_data="no requests in the time range",
        ),
    ],
)

PAGE = Page(
    "groundwatch-pipeline",
    "Pipeline health",
    __doc__ or "",
    [_WELL, _IN, _THROUGH, _STORED, _DETAILS],
)
