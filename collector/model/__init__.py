"""The values that flow through groundwatch. Plain immutable data, no behaviour that does I/O.

Field names of `RagRequest` and its parts are an outside contract: they are what
`groundwatch extract` prints and what ClickHouse stores. Missing is None, never "" or 0.
"""

from collector.model.judgement import (
    FAILURE_CAUSES,
    FAITHFULNESS,
    MAX_SPAN_IDS,
    SECOND,
    UNSCORED_REASONS,
    UNUSABLE_REPLIES,
    Calibration,
    Claim,
    Decision,
    Judgement,
    JudgementStatus,
    JudgeTask,
    Purpose,
    StoredRequest,
    Usage,
    Verdict,
)
from collector.model.request import (
    Document,
    Flag,
    NotARequest,
    RagRequest,
    RequestError,
    ScoreKind,
    Stage,
    StageKind,
)
from collector.model.signals import INFERRED, Inferred, Signal, SignalKind, Turn
from collector.model.telemetry import LogRecord, Span, SpanEvent, Telemetry, Trace
from collector.model.value import Attributes

__all__ = [
    "FAILURE_CAUSES",
    "FAITHFULNESS",
    "INFERRED",
    "MAX_SPAN_IDS",
    "SECOND",
    "UNSCORED_REASONS",
    "UNUSABLE_REPLIES",
    "Attributes",
    "Calibration",
    "Claim",
    "Decision",
    "Document",
    "Flag",
    "Inferred",
    "JudgeTask",
    "Judgement",
    "JudgementStatus",
    "LogRecord",
    "NotARequest",
    "Purpose",
    "RagRequest",
    "RequestError",
    "ScoreKind",
    "Signal",
    "SignalKind",
    "Span",
    "SpanEvent",
    "Stage",
    "StageKind",
    "StoredRequest",
    "Telemetry",
    "Trace",
    "Turn",
    "Usage",
    "Verdict",
]
