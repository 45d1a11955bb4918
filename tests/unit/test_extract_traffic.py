"""What is no user's request is told apart, whoever sends it, and says why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.extract import extract, is_own_judge
from collector.model import LogRecord, NotARequest, RagRequest, Span
from collector.trace_files import read
from tests.fakes.requests import chain, llm, reason, record, retriever
from tests.fakes.spans import span, span_id, trace

PROMPTS = Path(__file__).parents[2] / "scorers" / "judge" / "prompts"


@pytest.mark.parametrize(
    "attributes",
    [
        {"http.request.method": "GET", "url.path": "/healthz"},
        {"db.system": "postgresql", "db.operation": "SELECT", "db.statement": "select 1"},
        {"db.system": "redis", "db.operation": "get"},
        {"db.system": "chroma", "db.operation": "add"},
        {"messaging.system": "kafka", "messaging.operation": "publish"},
        {"rpc.system": "grpc", "rpc.method": "Check"},
        {},
    ],
    ids=str,
)
def test_plumbing_of_any_kind_is_no_request(attributes: dict[str, Any]) -> None:
    assert reason(span(0, attributes), span(1, attributes, parent=0)) == "no_genai"


EVALUATIONS: dict[str, dict[str, Any]] = {
    "OpenInference": {"attributes": {"openinference.span.kind": "EVALUATOR"}},
    "MLflow": {"attributes": {"mlflow.spanType": '"EVALUATOR"'}},
    "Haystack": {"attributes": {"haystack.component.type": "FaithfulnessEvaluator"}},
    "Genkit": {"attributes": {"genkit:type": "action", "genkit:metadata:subtype": "evaluator"}},
    "Langfuse": {"attributes": {"langfuse.observation.type": "evaluator"}},
    "Langfuse's judge": {"resource": {"langfuse.environment": "langfuse-llm-as-a-judge"}},
    "Langfuse's judge, on the span": {"attributes": {"langfuse.environment": "llm-as-a-judge"}},
    "Langfuse's experiment": {"attributes": {"langfuse.experiment.id": "e1"}},
    "Langfuse's experiment, by environment": {
        "attributes": {"langfuse.environment": "sdk-experiment"}
    },
    "LangSmith's experiment": {"attributes": {"langsmith.reference_example_id": "x1"}},
    "OpenTelemetry": {"attributes": {"gen_ai.operation.name": "evaluation"}},
    "promptfoo": {"attributes": {"promptfoo.eval.id": "eval-1", "gen_ai.operation.name": "chat"}},
    "pydantic-evals": {"scope_name": "pydantic-evals", "name": "evaluate answers"},
    "TruLens": {"attributes": {"ai.observability.span_type": "eval_root"}},
    "Ragas": {"name": "ragas evaluation", "attributes": chain("rows", "scores")},
}


@pytest.mark.parametrize("mark", EVALUATIONS.values(), ids=EVALUATIONS)
def test_an_evaluation_of_any_tool_is_no_request_with_all_it_runs(mark: dict[str, Any]) -> None:
    outer = span(0, **mark)
    below = [span(1, chain(), parent=0), span(2, retriever("a"), parent=1)]
    assert reason(outer, *below, span(3, llm(), parent=1)) == "evaluation"
    assert reason(span(9, name="CI"), outer, *below) == "evaluation"


@pytest.mark.parametrize("environment", ["production", "staging", "my-langfuse", None, 7])
def test_an_environment_of_the_app_is_no_evaluation(environment: Any) -> None:
    request = record(span(0, llm(), resource={"langfuse.environment": environment}))
    assert request.answer == "A."


def message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def openinference(system: str, asked: str, said: str) -> list[Span]:
    return [
        span(
            0,
            {
                "openinference.span.kind": "LLM",
                "llm.input_messages.0.message.role": "system",
                "llm.input_messages.0.message.content": system,
                "llm.input_messages.1.message.role": "user",
                "llm.input_messages.1.message.content": asked,
                "llm.output_messages.0.message.content": said,
            },
        )
    ]


def openllmetry(system: str, asked: str, said: str) -> list[Span]:
    return [
        span(
            0,
            {
                "llm.request.type": "chat",
                "gen_ai.prompt.0.role": "system",
                "gen_ai.prompt.0.content": system,
                "gen_ai.prompt.1.role": "user",
                "gen_ai.prompt.1.content": asked,
                "gen_ai.completion.0.content": said,
            },
        )
    ]


def otel(system: str, asked: str, said: str) -> list[Span]:
    return [
        span(0, {"http.request.method": "POST"}, name="POST"),
        span(
            1,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.system_instructions": json.dumps([{"type": "text", "content": system}]),
                "gen_ai.input.messages": json.dumps([message("user", asked)]),
                "gen_ai.output.messages": json.dumps([message("assistant", said)]),
            },
            parent=0,
        ),
    ]


@pytest.mark.parametrize("instrumented", [openinference, openllmetry, otel])
@pytest.mark.parametrize(
    "prompt", ["claims", "verdicts", "coverage", "helpful", "needs", "refusal"]
)
def test_our_own_judge_is_not_judged_in_turn(instrumented: Any, prompt: str) -> None:
    system = (PROMPTS / f"{prompt}.txt").read_text()
    assert reason(*instrumented(system, '{"question": "Q?"}', '{"claims": []}')) == "evaluation"


def test_our_own_judge_is_known_by_its_log_records_too() -> None:
    system = (PROMPTS / "claims.txt").read_text()
    logs = [
        LogRecord(
            trace_id=span(0).trace_id, span_id=span_id(0), event_name=name, body={"content": text}
        )
        for name, text in (("gen_ai.system.message", system), ("gen_ai.user.message", "{}"))
    ]
    found = extract(trace(span(0, {"gen_ai.operation.name": "chat"}), logs=tuple(logs)))
    assert found == NotARequest(reason="evaluation")


def test_every_prompt_of_our_judge_is_recognised() -> None:
    prompts = {path.stem: path.read_text() for path in PROMPTS.glob("*.txt")}
    assert {name for name, text in prompts.items() if not is_own_judge(text)} == {"repair"}


@pytest.mark.parametrize("instrumented", [openinference, openllmetry, otel])
def test_an_assistant_with_a_system_prompt_is_a_request(instrumented: Any) -> None:
    system = "You check facts. The user message is one JSON object."
    found = extract(trace(*instrumented(system, "Q?", "A.")))
    assert isinstance(found, RagRequest)
    assert found.question == "Q?"


@pytest.mark.parametrize(
    "spans",
    [
        [
            span(0, {"openinference.span.kind": "CHAIN", "output.value": '[{"text": "a"}]'}),
            span(1, {"openinference.span.kind": "EMBEDDING"}, parent=0),
        ],
        [
            span(
                0,
                {
                    "haystack.pipeline.input_data": '{"converter": {"sources": ["a.txt"]}}',
                    "haystack.pipeline.output_data": '{"writer": {"documents_written": 3}}',
                },
                name="haystack.pipeline.run",
            ),
            span(1, {"haystack.component.type": "OpenAIDocumentEmbedder"}, parent=0),
            span(2, {"haystack.component.type": "DocumentWriter"}, parent=0),
        ],
        [
            span(
                0,
                {
                    "traceloop.span.kind": "workflow",
                    "traceloop.entity.input": '{"args": [["a long text"]], "kwargs": {}}',
                    "traceloop.entity.output": "null",
                },
            ),
            span(1, {"llm.request.type": "embedding"}, parent=0),
        ],
    ],
    ids=["OpenInference", "Haystack", "OpenLLMetry"],
)
def test_filling_the_index_is_no_request(spans: list[Span]) -> None:
    assert reason(*spans) == "embedding_only"


def test_an_assistant_of_which_only_the_embedding_is_instrumented_is_a_request() -> None:
    outer = {
        "langfuse.observation.type": "span",
        "langfuse.observation.input": '{"args": ["Q?"], "kwargs": {}}',
        "langfuse.observation.output": '"A."',
    }
    request = record(span(0, outer), span(1, {"langfuse.observation.type": "embedding"}, parent=0))
    assert (request.question, request.answer) == ("Q?", "A.")


@pytest.mark.parametrize(
    "attributes",
    [
        {"traceloop.span.kind": "workflow", "traceloop.entity.output": "null"},
        {"mlflow.spanType": '"CHAIN"', "mlflow.spanOutputs": "null"},
    ],
    ids=["OpenLLMetry", "MLflow"],
)
def test_nothing_returned_is_no_answer(attributes: dict[str, Any]) -> None:
    assert record(span(0, attributes), span(1, llm("Q?", None), parent=0)).answer is None


def test_placeholders_of_running_spans_add_nothing_to_the_request_that_ends() -> None:
    """Logfire announces each span by one of no duration below it, which has an id of its own."""
    finished = [span(0, chain()), span(1, llm(), parent=0)]
    pending = [
        span(
            10 + number,
            {**attributes, "logfire.span_type": "pending_span", "logfire.pending_parent_id": "0"},
            parent=number,
        )
        for number, attributes in enumerate((chain("Q?", None), llm("Q?", None)))
    ]
    whole, plain = record(*finished, *pending), record(*finished)
    assert (whole.llm_calls, whole.input_tokens) == (1, 100)
    assert whole == plain


@pytest.mark.shared
@pytest.mark.parametrize(
    ("file", "reasons"),
    [
        ("public/vercel-ai/langfuse-test-vercel-embedding.json", {"embedding_only"}),
        ("public/otlp/otlp-proto-example-trace.json", {"no_genai"}),
        ("captured/haystack/haystack-rag.pb", {"startup_noise"}),
    ],
)
def test_recorded_traffic_that_is_no_request_says_why(
    shared: Path, file: str, reasons: set[str]
) -> None:
    found = [extract(t) for t in read([shared / "traces" / file])]
    assert {f.reason for f in found if isinstance(f, NotARequest)} == reasons
