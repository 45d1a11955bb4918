"""Model values to table rows and back. Pure functions.

A row is a tuple in the order of the table's column list here. Text is cleaned on the way in (a
lone surrogate cannot be encoded, NUL ends a string for many readers), numbers are kept inside
their column's range, so that one odd value never fails a whole batch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast
from uuid import uuid4

import msgspec

from collector.model import (
    Calibration,
    Decision,
    Document,
    Judgement,
    RagRequest,
    RequestError,
    Signal,
    Stage,
    StoredRequest,
)

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_INT64 = 2**63 - 1
_UINT64 = 2**64 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = datetime(1900, 1, 1, tzinfo=UTC)
_LAST = datetime(2260, 1, 1, tzinfo=UTC)
_OLDEST_START = timedelta(days=730)
_CLOCK_SKEW = timedelta(days=1)

_T = TypeVar("_T")
Row = tuple[Any, ...]

_DOCUMENT_FIELDS = Document.__struct_fields__
_STAGE_FIELDS = Stage.__struct_fields__
_CLAIM_FIELDS = ("text", "verdict", "quote", "document_rank", "note")
_PLAIN_FIELDS = tuple(
    field
    for field in RagRequest.__struct_fields__
    if field not in ("trace_id", "documents", "stages", "error")
)
DECISION_FIELDS = Decision.__struct_fields__

REQUEST_COLUMNS: tuple[str, ...] = (
    "filed_at",
    "batch_id",
    "trace_id",
    "version",
    *_PLAIN_FIELDS,
    "has_error",
    "error_stage",
    "error_type",
    "error_message",
    *(f"documents.{field}" for field in _DOCUMENT_FIELDS),
    *(f"stages.{field}" for field in _STAGE_FIELDS),
    *DECISION_FIELDS,
    "lexical_score",
    "ineligible",
    "span_ids",
    "telemetry_bytes",
)

TELEMETRY_COLUMNS: tuple[str, ...] = ("filed_at", "batch_id", "trace_id", "version", "body")

JUDGEMENT_COLUMNS: tuple[str, ...] = (
    "filed_at",
    "batch_id",
    "rank",
    "trace_id",
    "scorer",
    "fingerprint",
    "status",
    "score",
    "reason",
    "engine",
    "model",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cost_usd",
    "calls",
    "raw_reply",
    "request_version",
    "judged_at",
    "duration_ms",
    "purpose",
    "content_hash",
    *(f"claims.{field}" for field in _CLAIM_FIELDS),
)

CALIBRATION_COLUMNS = Calibration.__struct_fields__

SIGNAL_FIELDS = Signal.__struct_fields__
SIGNAL_COLUMNS: tuple[str, ...] = ("filed_at", "batch_id", "rank", *SIGNAL_FIELDS)


# --- Single values -----------------------------------------------------------------------


def storable(value: Any) -> Any:
    """Return `value` as a column can hold it: text cleaned, numbers and times kept in range.

    A number that is not finite becomes None: it is no measurement, and would poison every sum.
    """
    if isinstance(value, str):
        return text(value)
    if isinstance(value, bool) or value is None or isinstance(value, bytes):
        return value
    if isinstance(value, int):
        return max(-_INT64 - 1, min(value, _INT64))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return max(_FIRST, min(utc(value), _LAST))
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    return value


def text(value: str) -> str:
    """Return `value` with what no column or reader can hold replaced by U+FFFD."""
    return value if value.isalnum() else _UNSTORABLE.sub("\ufffd", value)


def utc(time: datetime) -> datetime:
    """Return `time` in UTC; a time without a zone is taken as UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def parameter(value: Any) -> Any:
    """Return a query parameter in the form the server reads: times as UTC text."""
    if isinstance(value, datetime):
        return storable(value).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, list | tuple):
        return [parameter(item) for item in value]
    return storable(value)


def filing_time(row: StoredRequest) -> datetime:
    """Return the time to file a new trace under: its start, if that is plausible.

    A start that is missing, over two years before the trace was decided on, or over a day after
    it comes from a broken clock. Filing by it would scatter rows over partitions that no query
    looks at; such a trace is filed when it came.
    """
    decided = cast(datetime, storable(row.decision.decided_at))
    if row.request.started_at is None:
        return decided
    started = cast(datetime, storable(row.request.started_at))
    plausible = decided - _OLDEST_START <= started <= decided + _CLOCK_SKEW
    return started if plausible else decided


def week(time: datetime) -> str:
    """Return the partition of `time`: the date of its Monday."""
    day = utc(time).date()
    return (day - timedelta(days=day.weekday())).isoformat()


def _micros(time: datetime | None) -> int:
    if time is None:
        return 0
    return max(0, (utc(time) - _EPOCH) // timedelta(microseconds=1))


# --- Batches -----------------------------------------------------------------------------


def batches(
    items: Iterable[tuple[datetime, _T]],
    size: Callable[[_T], int],
    max_rows: int,
    max_bytes: int,
) -> list[tuple[str, list[tuple[datetime, _T]]]]:
    """Split items into inserts of one partition each, each with an id of its own.

    Args:
        items: the filing time and value of each row.
        size: bytes of a value, roughly.
        max_rows: most rows of one batch.
        max_bytes: a batch is closed once it holds this much.

    Returns:
        Pairs of batch id and rows, in order of partition.
    """
    by_week: dict[str, list[tuple[datetime, _T]]] = {}
    for filed_at, value in items:
        by_week.setdefault(week(filed_at), []).append((filed_at, value))
    out: list[tuple[str, list[tuple[datetime, _T]]]] = []
    for _, members in sorted(by_week.items()):
        current: list[tuple[datetime, _T]] = []
        held = 0
        for filed_at, value in members:
            if current and (len(current) >= max_rows or held >= max_bytes):
                out.append((uuid4().hex, current))
                current, held = [], 0
            current.append((filed_at, value))
            held += size(value)
        out.append((uuid4().hex, current))
    return out


def newest(rows: Iterable[_T], key: Callable[[_T], Any], rank: Callable[[_T], int]) -> list[_T]:
    """Return one row per key, that of the highest rank, the later of equals."""
    kept: dict[Any, _T] = {}
    for row in rows:
        held = kept.get(key(row))
        if held is None or rank(row) >= rank(held):
            kept[key(row)] = row
    return list(kept.values())


# --- Requests ----------------------------------------------------------------------------


def request_row(row: StoredRequest, filed_at: datetime, batch_id: str) -> Row:
    """Return the row of `REQUEST_COLUMNS`."""
    request = row.request
    error = request.error or RequestError()
    return (
        storable(filed_at),
        batch_id,
        storable(request.trace_id),
        max(0, min(row.version, _UINT64)),
        *(storable(getattr(request, field)) for field in _PLAIN_FIELDS),
        request.error is not None,
        storable(error.stage),
        storable(error.type),
        storable(error.message),
        *_nested(request.documents, _DOCUMENT_FIELDS),
        *_nested(request.stages, _STAGE_FIELDS),
        *(storable(getattr(row.decision, field)) for field in DECISION_FIELDS),
        storable(row.lexical_score),
        storable(row.ineligible),
        storable(row.span_ids),
        len(row.telemetry),
    )


def telemetry_row(row: StoredRequest, filed_at: datetime, batch_id: str) -> Row:
    """Return the row of `TELEMETRY_COLUMNS`."""
    return (
        storable(filed_at),
        batch_id,
        text(row.request.trace_id),
        max(0, min(row.version, _UINT64)),
        row.telemetry,
    )


def request_bytes(row: StoredRequest) -> int:
    """Return roughly how many bytes a request takes in an insert."""
    request = row.request
    texts = sum(len(document.text or "") for document in request.documents)
    return (
        500 + len(row.telemetry) + texts + len(request.question or "") + len(request.answer or "")
    )


def stored_request(row: Mapping[str, Any]) -> StoredRequest:
    """Read a row of `requests` back; `telemetry` stays empty."""
    request: dict[str, Any] = {field: row[field] for field in _PLAIN_FIELDS}
    request["trace_id"] = row["trace_id"]
    request["documents"] = _unnested(row, "documents", _DOCUMENT_FIELDS)
    request["stages"] = _unnested(row, "stages", _STAGE_FIELDS)
    if row["has_error"]:
        request["error"] = {
            "stage": row["error_stage"],
            "type": row["error_type"],
            "message": row["error_message"],
        }
    return StoredRequest(
        request=msgspec.convert(request, RagRequest),
        version=row["version"],
        decision=decision(row),
        lexical_score=row["lexical_score"],
        ineligible=row["ineligible"],
        span_ids=row["span_ids"],
    )


def decision(row: Mapping[str, Any]) -> Decision:
    """Read the sampling decision of a row of `requests`."""
    return Decision(**{field: row[field] for field in DECISION_FIELDS})


def _nested(items: Sequence[Any], fields: Sequence[str]) -> list[list[Any]]:
    return [[storable(getattr(item, field)) for item in items] for field in fields]


def _unnested(row: Mapping[str, Any], name: str, fields: Sequence[str]) -> list[dict[str, Any]]:
    columns = [row[f"{name}.{field}"] for field in fields]
    return [dict(zip(fields, values, strict=True)) for values in zip(*columns, strict=True)]


# --- Judgements --------------------------------------------------------------------------


def judgement_key(row: Judgement) -> tuple[str, str, str]:
    """Return what a judgement is unique by."""
    return row.trace_id, row.scorer, row.fingerprint


def judgement_rank(row: Judgement) -> int:
    """Return what decides between judgements of one key: request version, then time."""
    return max(0, min(row.request_version, _UINT64)) << 64 | _micros(row.judged_at)


def judgement_row(row: Judgement, filed_at: datetime, batch_id: str) -> Row:
    """Return the row of `JUDGEMENT_COLUMNS`.

    A judged row without a score in [0, 1] is stored as failed with the reason `internal`: it
    stays in the accounting, and nobody can average it.
    """
    usable = row.score is not None and 0.0 <= row.score <= 1.0
    if row.status == "judged" and not usable:
        row = msgspec.structs.replace(row, status="failed", reason="internal", score=None)
    usage = row.usage
    return (
        storable(filed_at),
        batch_id,
        judgement_rank(row),
        storable(row.trace_id),
        storable(row.scorer),
        storable(row.fingerprint),
        row.status,
        storable(row.score) if row.status == "judged" else None,
        storable(row.reason),
        storable(row.engine),
        storable(row.model),
        storable(usage.input_tokens),
        storable(usage.output_tokens),
        storable(usage.cached_tokens),
        storable(usage.cost_usd),
        storable(usage.calls),
        storable(row.raw_reply),
        max(0, min(row.request_version, _UINT64)),
        storable(row.judged_at),
        storable(row.duration_ms),
        row.purpose,
        storable(row.content_hash),
        *_nested(row.claims, _CLAIM_FIELDS),
    )


def stored_judgement(row: Mapping[str, Any]) -> Judgement:
    """Read a row of `judgements` back; what it consumed is left out."""
    fields = Judgement.__struct_fields__
    plain = {field: row[field] for field in fields if field not in ("claims", "usage")}
    return msgspec.convert(plain | {"claims": _unnested(row, "claims", _CLAIM_FIELDS)}, Judgement)


def judgement_bytes(row: Judgement) -> int:
    """Return roughly how many bytes a judgement takes in an insert."""
    return (
        300
        + len(row.raw_reply or "")
        + sum(len(claim.text) + len(claim.quote or "") for claim in row.claims)
    )


# --- Signals -----------------------------------------------------------------------------


def signal_rank(row: Signal) -> int:
    """Return what decides between signals of one id: when it occurred, then when it came."""
    return _micros(row.occurred_at) << 64 | _micros(row.received_at)


def signal_row(row: Signal, filed_at: datetime, batch_id: str) -> Row:
    """Return the row of `SIGNAL_COLUMNS`."""
    return (
        storable(filed_at),
        batch_id,
        signal_rank(row),
        *(storable(getattr(row, field)) for field in SIGNAL_FIELDS),
    )


def stored_signal(row: Mapping[str, Any]) -> Signal:
    """Read a row of `signals` back."""
    return msgspec.convert({field: row[field] for field in SIGNAL_FIELDS}, Signal)


def signal_bytes(row: Signal) -> int:
    """Return roughly how many bytes a signal takes in an insert."""
    return 200 + len(row.comment or "")
