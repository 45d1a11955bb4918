"""Runs of the golden set as rows of `eval_runs` and `eval_rows`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

import msgspec
from clickhouse_connect.driver.client import Client

from collector.model_evaluation import EvalRecord, EvalRow, EvalRun
from sinks.connection import translated
from sinks.rows import Row, storable

_RUN_COLUMNS = (
    *("run_id", "updated_at", "started_at", "finished_at"),
    *("label", "fingerprint", "settings", "summary"),
)
_ROW_COLUMNS = (
    *("run_id", "question_id", "segment", "diagnosis", "measures", "failures"),
    *("latency_ms", "cost_usd", "detail", "written_at"),
)
_MAX_ROWS = 5_000


def write(client: Client, record: EvalRecord, at: datetime) -> None:
    """Store a run or a part of it; see `Store.write_evaluation`.

    The rows come first: it is the run that makes them known.
    """
    rows = [_row(record.run.run_id, row, at) for row in record.rows]
    for start in range(0, len(rows), _MAX_ROWS):
        with translated("writing eval_rows"):
            batch = rows[start : start + _MAX_ROWS]
            client.insert("eval_rows", batch, column_names=_ROW_COLUMNS)
    if record.summary is not None:
        with translated("writing eval_runs"):
            run = _run(record.run, record.summary, at)
            client.insert("eval_runs", [run], column_names=_RUN_COLUMNS)


def _run(run: EvalRun, summary: Mapping[str, object], at: datetime) -> Row:
    return (
        storable(run.run_id),
        storable(at),
        storable(run.started_at),
        storable(at),
        storable(run.target),
        storable(run.fingerprint),
        storable(msgspec.json.encode(run).decode()),
        storable(msgspec.json.encode(summary).decode()),
    )


def _row(run_id: str, row: EvalRow, at: datetime) -> Row:
    defined = {
        name: value
        for name, value in row.measures.items()
        if value is not None and math.isfinite(value)
    }
    return (
        storable(run_id),
        storable(row.question_id),
        storable(row.segment),
        storable(row.diagnosis),
        storable(defined),
        storable(row.failures),
        storable(defined.get("latency_ms")),
        storable(defined.get("cost_usd")),
        storable(msgspec.json.encode(row).decode()),
        storable(at),
    )
