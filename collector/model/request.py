"""One request of a user to a RAG assistant, as read from its trace."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from collector.model.value import Value

ScoreKind = Literal["similarity", "distance", "bm25", "rerank", "unknown"]
StageKind = Literal["retriever", "reranker", "llm", "embedding", "tool"]
Flag = Literal[
    "content_missing",
    "truncated",
    "attributes_dropped",
    "no_retrieval",
    "empty_retrieval",
    "tool_call_answer",
    "partial",
]


class Document(Value, frozen=True):
    """One document of the final context. `rank` is 1-based; a distance is never in `score`.

    `source` is the page or file the text came from. `cited` is None where the answer cites
    nothing at all, else whether it cites this document.
    """

    rank: int
    document_id: str | None = None
    chunk_id: str | None = None
    source: str | None = None
    title: str | None = None
    text: str | None = None
    score: float | None = None
    score_kind: ScoreKind | None = None
    cited: bool | None = None


class Stage(Value, frozen=True):
    """One step of the assistant, in order of start. `documents` counts what it returned."""

    kind: StageKind
    name: str | None = None
    query: str | None = None
    latency_ms: float | None = None
    documents: int | None = None
    error: str | None = None


class RequestError(Value, frozen=True):
    """The error that ended a request. `stage` is the deepest failing stage kind."""

    stage: str | None = None
    type: str | None = None
    message: str | None = None


class RagRequest(Value, frozen=True):
    """One user-facing request of a RAG assistant. Contract record; see the module docstring.

    `started_at` is UTC; latencies are milliseconds; `cost_usd` is US dollars; `input_tokens`
    includes cached tokens.
    """

    trace_id: str
    service: str | None = None
    conventions: list[str] = []
    started_at: datetime | None = None
    latency_ms: float | None = None
    ttft_ms: float | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    segment: str | None = None
    question: str | None = None
    answer: str | None = None
    documents: list[Document] = []
    stages: list[Stage] = []
    retriever_stages: int = 0
    reranker_stages: int = 0
    llm_calls: int = 0
    citations: list[int] = []
    model: str | None = None
    provider: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    status: Literal["ok", "error"] = "ok"
    error: RequestError | None = None
    flags: list[Flag] = []
    response_ids: list[str] = []
    message_id: str | None = None


class NotARequest(Value, frozen=True):
    """Why a trace is not a user-facing request, as a bounded reason for counters."""

    reason: Literal[
        "no_genai",
        "embedding_only",
        "evaluation",
        "pending",
        "startup_noise",
        "no_content",
        "ignored_service",
    ]
