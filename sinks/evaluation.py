"""Runs of the golden set: their values, and how they become rows of `eval_runs` and `eval_rows`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from clickhouse_connect.driver.client import Client

from collector.model import Claim
from sinks.connection import translated
from sinks.rows import Row, storable

Tier = Literal["retrieval", "full"]
"""`retrieval` measures what was found and whether the answer refuses, without calling any judge;
`full` measures everything."""

_RUN_COLUMNS = (
    *("run_id", "updated_at", "started_at", "finished_at"),
    *("label", "fingerprint", "settings", "summary"),
)
_ROW_COLUMNS = (
    *("run_id", "question_id", "segment", "diagnosis", "measures", "failures"),
    *("latency_ms", "cost_usd", "detail", "written_at"),
)
_MAX_ROWS = 5_000


class EvalRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was made with. Two runs are compared only where these allow it.

    Attributes:
        run_id: its name, that of its folder.
        started_at: UTC.
        golden: path of the golden file as given, and `golden_sha` of its content.
        target: what was asked: an address, a file, or stored traces.
        tier: see `Tier`.
        k: of recall@k and precision@k.
        segment_by: key of the golden rows by which the report is cut.
        fingerprint: of the judge; "" where none was used.
    """

    run_id: str
    started_at: datetime
    golden: str
    golden_sha: str
    target: str
    tier: Tier
    k: int
    segment_by: str
    fingerprint: str


class EvalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One golden question of a run, measured.

    Attributes:
        measures: value by name; None where the measure is undefined for this question.
        undefined: why, by the names of those.
        failures: cause by the names of measures that should have a value and have none.
        diagnosis: name of the finding, `causes` those it leaves open, `advice` what to do.
        claims: of the answer, judged against its context.
        reference_claims: of the reference answer, judged against the answer.
        judge_cost_usd: what judging cost; None where no price is known.
    """

    question_id: str
    question: str
    segment: str
    synthetic: bool = False
    answerable: bool = True
    measures: dict[str, float | None] = {}
    undefined: dict[str, str] = {}
    failures: dict[str, str] = {}
    diagnosis: str | None = None
    causes: list[str] = []
    advice: str | None = None
    claims: list[Claim] = []
    reference_claims: list[Claim] = []
    judge_cost_usd: float | None = None


def write(
    client: Client,
    run: EvalRun,
    rows: Sequence[EvalRow],
    summary: Mapping[str, object],
    at: datetime,
) -> None:
    """Store a finished run. May be repeated: a later write of the same run replaces it.

    The rows come first: it is the run that makes them known.

    Raises:
        TransientDependencyError, PermanentDependencyError: see `translated`.
    """
    for start in range(0, len(rows), _MAX_ROWS):
        batch = [_row(run.run_id, row, at) for row in rows[start : start + _MAX_ROWS]]
        with translated("writing eval_rows"):
            client.insert("eval_rows", batch, column_names=_ROW_COLUMNS)
    with translated("writing eval_runs"):
        client.insert("eval_runs", [_run(run, summary, at)], column_names=_RUN_COLUMNS)


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
