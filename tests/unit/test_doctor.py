"""The doctor says what traces lack, how many, and the setting of just that instrumentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from collector.cli import app
from collector.doctor import diagnose_files, lines
from collector.model import Span
from collector.trace_files.encode import body_of_spans
from tests.fakes.requests import chain, llm, retriever
from tests.fakes.spans import span

COMPLETE = {
    "session.id": "s",
    "user.id": "u",
}
MODEL = {"llm.model_name": "m-1"}
SERVICE = {"service.name": "assistant"}


def whole() -> list[Span]:
    """A request that lacks nothing."""
    return [
        span(0, chain(**COMPLETE)),
        span(1, retriever("a", "b"), parent=0),
        span(2, llm(**MODEL), parent=0),
    ]


def written(tmp_path: Path, *requests: list[Span], resource: Any = SERVICE, first: int = 1) -> Path:
    """Write requests, each as a trace of its own, to one file."""
    path = tmp_path / "traces.pb"
    path.write_bytes(
        body_of_spans(
            [
                msgspec.structs.replace(s, trace_id=f"{number:032x}", resource=resource)
                for number, spans in enumerate(requests, start=first)
                for s in spans
            ]
        )
    )
    return path


def findings(path: Path) -> dict[str, dict[str, Any]]:
    (service,) = diagnose_files([path])["services"]
    return {finding["check"]: finding for finding in service["findings"]}


def with_(number: int, attributes: dict[str, Any], **fields: Any) -> list[Span]:
    """Return the whole request with one span changed; None takes an attribute away."""
    spans = whole()
    changed = {k: v for k, v in (spans[number].attributes | attributes).items() if v is not None}
    spans[number] = msgspec.structs.replace(spans[number], attributes=changed, **fields)
    return spans


def test_a_request_that_lacks_nothing_is_told_so(tmp_path: Path) -> None:
    report = diagnose_files([written(tmp_path, whole(), whole())])
    assert report == {
        "ok": True,
        "requests": 2,
        "left_out": {},
        "services": [
            {
                "service": "assistant",
                "requests": 2,
                "conventions": {"openinference": 2},
                "findings": [],
            }
        ],
    }


IDS_ONLY = {
    "output.value": None,
    "retrieval.documents.0.document.id": "a",
    "retrieval.documents.1.document.id": "b",
}
TEXTS_ONLY = {"output.value": None, "retrieval.documents.0.document.content": "A text."}
LACKS: dict[str, list[Span]] = {
    "documents": with_(1, {"output.value": None}),
    "document_texts": with_(1, IDS_ONLY),
    "document_ids": with_(1, TEXTS_ONLY),
    "retrieval": [whole()[0], whole()[2]],
    "conversation": with_(0, {"session.id": None}),
    "user": with_(0, {"user.id": None}),
    "tokens": with_(2, {"llm.token_count.prompt": None, "llm.token_count.completion": None}),
    "model": with_(2, {"llm.model_name": None}),
    "all_attributes": with_(1, {}, dropped_attributes=12),
    "whole_values": with_(0, {"input.value": '{"question": "Q?", "history": ["a long stor'}),
    "whole_trace": with_(0, {}, parent_span_id="00f067aa0ba902b7"),
    "times": with_(0, {}, start_ns=None),
    "sampling_rate": with_(0, {"sampler.type": "probabilistic", "sampler.param": 0.1}),
}


@pytest.mark.parametrize("check", LACKS)
def test_each_lack_is_found_alone_with_its_share_and_an_example(tmp_path: Path, check: str) -> None:
    found = findings(written(tmp_path, whole(), LACKS[check], whole(), whole()))
    assert set(found) == {check}
    finding = found[check]
    assert (finding["requests"], finding["share"]) == (1, 0.25)
    assert finding["example"] == f"{2:032x}"
    assert finding["cures"]
    assert finding["cost"]


@pytest.mark.parametrize("name", [None, "unknown_service", "unknown_service:python"])
def test_a_service_without_a_name_is_told(tmp_path: Path, name: str | None) -> None:
    resource = {"service.name": name} if name else {}
    found = findings(written(tmp_path, whole(), resource=resource))
    assert found["service"]["cures"] == ["set OTEL_SERVICE_NAME"]


def test_a_sampler_that_writes_its_rate_is_fine(tmp_path: Path) -> None:
    spans = with_(0, {"sampler.param": 0.1}, trace_state="ot=th:e")
    assert findings(written(tmp_path, spans)) == {}


def muted(spans: list[Span]) -> list[Span]:
    """Return the spans of a request without question and answer."""
    gone = ("input.value", "output.value", "message.content")
    return [
        msgspec.structs.replace(
            s, attributes={k: v for k, v in s.attributes.items() if not k.endswith(gone)}
        )
        for s in spans
    ]


def chat(**attributes: Any) -> list[Span]:
    return [span(0, {"gen_ai.operation.name": "chat", **attributes})]


CONTENT_OFF: dict[str, tuple[list[Span], str]] = {
    "openinference": (muted(whole()), "OPENINFERENCE_HIDE_INPUTS"),
    "openllmetry": (
        [span(0, {"traceloop.span.kind": "workflow"}), *chat(**{"llm.request.type": "chat"})],
        "TRACELOOP_TRACE_CONTENT",
    ),
    "haystack": (
        [
            span(0, {"haystack.component.type": "InMemoryBM25Retriever"}),
            span(1, {"haystack.component.type": "OpenAIChatGenerator"}),
        ],
        "HAYSTACK_CONTENT_TRACING_ENABLED",
    ),
    "langfuse": (
        [span(0, {"langfuse.observation.type": "generation"})],
        "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED",
    ),
    "langsmith": ([span(0, {"langsmith.span.kind": "llm"})], "LANGSMITH_HIDE_INPUTS"),
    "vercel-ai": ([span(0, {"ai.operationId": "ai.generateText"})], "recordInputs"),
    "logfire": (
        [span(0, {"gen_ai.operation.name": "chat"}, scope_name="pydantic-ai")],
        "include_content",
    ),
    "google-adk": (
        [span(0, {"gcp.vertex.agent.llm_request": "{...}", "gcp.vertex.agent.llm_response": "{}"})],
        "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS",
    ),
}


@pytest.mark.parametrize(("spans", "setting"), CONTENT_OFF.values(), ids=CONTENT_OFF)
def test_content_that_is_switched_off_is_grave_and_the_switch_is_named(
    tmp_path: Path, spans: list[Span], setting: str
) -> None:
    path = written(tmp_path, spans)
    found = findings(path)
    for check in ("question", "answer"):
        assert found[check]["essential"]
        assert setting in found[check]["cures"][0]
    assert diagnose_files([path])["ok"] is False


def test_content_that_comes_by_logs_is_asked_for_where_none_came(tmp_path: Path) -> None:
    found = findings(written(tmp_path, chat()))
    assert "OTEL_LOGS_EXPORTER=otlp" in found["answer"]["cures"][0]
    assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT" in found["answer"]["cures"][0]


def test_failures_that_end_without_error_status_are_told_from_content_switched_off(
    tmp_path: Path,
) -> None:
    lost = with_(0, {"output.value": None})
    lost[2].attributes["llm.output_messages.0.message.content"] = None
    found = findings(written(tmp_path, whole(), whole(), whole(), lost))
    assert set(found) == {"answer"}
    assert "status ERROR" in found["answer"]["cures"][0]


def test_a_request_that_failed_and_says_so_lacks_no_answer(tmp_path: Path) -> None:
    lost = with_(0, {"output.value": None}, status_code=2)
    lost[2] = span(2, {"openinference.span.kind": "LLM", **MODEL}, parent=0, status_code=2)
    assert findings(written(tmp_path, whole(), lost)) == {}


@pytest.mark.parametrize(
    "mark",
    [
        {"llm.invocation_parameters": '{"model": "m-1", "stream": true}'},
        {"gen_ai.request.stream": True},
    ],
)
def test_streaming_without_usage_names_the_option(tmp_path: Path, mark: dict[str, Any]) -> None:
    spans = with_(2, {"llm.token_count.prompt": None, "llm.token_count.completion": None, **mark})
    (cure,) = findings(written(tmp_path, spans))["tokens"]["cures"]
    assert "stream_options" in cure
    assert cure.startswith("calls that stream")


LIMITS = {"all_attributes": "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "whole_values": "LENGTH_LIMIT"}


@pytest.mark.parametrize(("check", "setting"), LIMITS.items())
def test_limits_are_named(tmp_path: Path, check: str, setting: str) -> None:
    assert setting in findings(written(tmp_path, LACKS[check]))[check]["cures"][0]


SESSIONS: dict[str, tuple[list[Span], str]] = {
    "openinference": (with_(0, {"session.id": None}), "using_session"),
    "openllmetry": (
        [
            span(0, {"traceloop.span.kind": "workflow", "traceloop.entity.input": '"Q?"'}),
            span(1, {"llm.request.type": "chat"}, parent=0),
        ],
        "set_association_properties",
    ),
    "langfuse": ([span(0, {"langfuse.observation.type": "generation"})], "propagate_attributes"),
    "langsmith": ([span(0, {"langsmith.span.kind": "llm"})], "session_id"),
    "otel-genai": (chat(), "gen_ai.conversation.id"),
    "vercel-ai": ([span(0, {"ai.operationId": "ai.generateText"})], "sessionId"),
    "mlflow": ([span(0, {"mlflow.spanType": '"CHAT_MODEL"'})], "does not travel over OTLP"),
}


@pytest.mark.parametrize(("spans", "helper"), SESSIONS.values(), ids=SESSIONS)
def test_the_session_helper_of_the_instrumentation_is_named(
    tmp_path: Path, spans: list[Span], helper: str
) -> None:
    assert helper in findings(written(tmp_path, spans))["conversation"]["cures"][0]


def test_a_service_that_never_searches_is_grave_and_one_that_sometimes_does_not(
    tmp_path: Path,
) -> None:
    never, sometimes = LACKS["retrieval"], [LACKS["retrieval"], whole()]
    assert findings(written(tmp_path, never, never))["retrieval"]["essential"]
    assert not findings(written(tmp_path, *sometimes))["retrieval"]["essential"]


def test_one_lost_answer_of_many_does_not_fail_the_check(tmp_path: Path) -> None:
    lost = with_(0, {"output.value": None})
    lost[2] = span(2, {"openinference.span.kind": "LLM", **MODEL, **{"llm.token_count.prompt": 1}})
    path = written(tmp_path, *([whole()] * 30), lost)
    report = diagnose_files([path])
    assert report["ok"]
    (finding,) = (f for f in report["services"][0]["findings"] if f["check"] == "answer")
    assert (finding["requests"], finding["essential"]) == (1, False)


def test_services_are_told_apart_and_mixed_instrumentations_each_get_their_cure(
    tmp_path: Path,
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    files = [
        written(one, SESSIONS["openinference"][0], SESSIONS["langfuse"][0]),
        written(other, whole(), resource={"service.name": "other"}, first=7),
    ]
    report = diagnose_files(files)
    assert [service["service"] for service in report["services"]] == ["assistant", "other"]
    (finding,) = (f for f in report["services"][0]["findings"] if f["check"] == "conversation")
    assert len(finding["cures"]) == 2


def test_traces_that_are_no_requests_are_counted_apart(tmp_path: Path) -> None:
    plumbing = [span(0, {"http.request.method": "GET"})]
    report = diagnose_files([written(tmp_path, whole(), plumbing, plumbing)])
    assert report["requests"] == 1
    assert report["left_out"] == {"no_genai": 2}
    assert lines(report)[-1] == "no users' requests: 2 no_genai"


def test_files_without_any_request_are_not_fine(tmp_path: Path) -> None:
    report = diagnose_files([written(tmp_path, [span(0, {"http.request.method": "GET"})])])
    assert report["ok"] is False
    *_, found, cure = lines(report)
    assert found == "no request found"
    assert "assembler.quiet_seconds" in cure


def test_the_text_is_short_and_tells_what_goes_together_at_once(tmp_path: Path) -> None:
    found = lines(diagnose_files([written(tmp_path, CONTENT_OFF["langfuse"][0])]))
    assert found[0] == "assistant: 1 request, langfuse"
    assert found[1].startswith("  ! no question, no answer: 1 of 1 request (100%), e.g. ")
    assert all(len(line) < 400 for line in found)


# --- The command -------------------------------------------------------------------------


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


def test_the_command_fails_where_something_essential_is_missing(tmp_path: Path) -> None:
    assert run(written(tmp_path, whole())).exit_code == 0
    failed = run(written(tmp_path, CONTENT_OFF["langsmith"][0]))
    assert failed.exit_code == 1
    assert "LANGSMITH_HIDE_INPUTS" in failed.output


def test_the_command_prints_json(tmp_path: Path) -> None:
    path = written(tmp_path, whole())
    assert json.loads(run(path, "--json").output) == diagnose_files([path])


def test_the_command_says_what_to_give(tmp_path: Path) -> None:
    neither = run()
    assert neither.exit_code == 2
    assert "--live" in neither.output
    assert run(written(tmp_path, whole()), "--live").exit_code == 2
    absent = run(Path("absent.pb"))
    assert absent.exit_code == 2
    assert "absent.pb" in absent.output
