"""The part of the configuration that `eval` and `gate` read: which assistant, which limits."""

from __future__ import annotations

from typing import Annotated

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, Field

from collector.config.section import Section


def _expression(value: str) -> str:
    try:
        jmespath.compile(value)
    except JMESPathError as err:
        raise ValueError("is not a JMESPath expression, such as data.answer") from err
    return value


Expression = Annotated[str, AfterValidator(_expression)]
"""A JMESPath expression (jmespath.org), the path language of JSON that the AWS tools use."""

Share = Annotated[float, Field(ge=0, le=1)]


class ResponseConfig(Section):
    """Where things stand in the JSON that the assistant answers."""

    answer: Expression = Field("answer", description="the answer's text")
    documents: Expression = Field(
        "documents",
        description="the final context, best first: a list of ids, or of objects with document_id, "
        "chunk_id, source, title, text",
    )
    retrieved: Expression | None = Field(
        None, description="what was found before reranking and cutting, as documents"
    )
    model: Expression = Field("model", description="the model that answered")
    trace_id: Expression = Field("trace_id", description="the trace of the request")
    latency_ms: Expression | None = Field(
        None, description="the assistant's own latency; without it the call is timed"
    )
    input_tokens: Expression = Field("usage.input_tokens", description="tokens of the prompt")
    output_tokens: Expression = Field("usage.output_tokens", description="tokens of the answer")
    cost_usd: Expression = Field("cost_usd", description="US dollars")


class TargetConfig(Section):
    """How golden questions are put to an assistant over HTTP."""

    request: Expression = Field(
        "{question: question}",
        description="JSON body posted for a golden row, as a JMESPath expression on that row",
    )
    response: ResponseConfig = ResponseConfig()
    headers: dict[str, str] = Field(
        default_factory=dict, description="headers to send; secrets belong into token_env"
    )
    token_env: str | None = Field(
        None, description="environment variable with the bearer token that the assistant wants"
    )
    concurrency: int = Field(
        4, ge=1, le=256, description="questions under way at once, with their judging"
    )
    requests_per_second: float | None = Field(
        None, gt=0, description="most questions started per second; null: no limit"
    )
    timeout_seconds: float = Field(120.0, gt=0, description="time-out of one call")
    max_retries: int = Field(
        4, ge=0, le=20, description="retries after 429, 502, 503, 504 and lost connections"
    )


class GateConfig(Section):
    """When a new version is kept from release."""

    measures: list[str] = Field(
        default_factory=lambda: [
            "recall",
            "faithfulness",
            "correctness",
            "refusal",
            "wrong_refusal",
        ],
        description="measures of which none may drop; recall stands for recall@k",
    )
    margin: Share = Field(0.02, description="smallest drop that blocks")
    floors: dict[str, Share] = Field(
        default_factory=lambda: {"recall": 0.85, "faithfulness": 0.9},
        description="lowest mean over all questions, by measure",
    )
    segment_floor: Share = Field(
        0.75, description="lowest mean in any segment, for the measures with a floor"
    )


class EvaluationConfig(Section):
    """Golden sets, runs and the gate."""

    k: int = Field(5, ge=1, le=1000, description="k of recall@k and precision@k")
    target: TargetConfig = TargetConfig()
    gate: GateConfig = GateConfig()
