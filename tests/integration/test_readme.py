"""What the README says is true: its commands exist, its examples work, its tables are current."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import typer.main
from typer.testing import CliRunner

from collector.cli import app
from collector.config import load
from collector.conventions import CONVENTIONS
from collector.extract import extract
from collector.model import RagRequest
from sinks import golden_file
from tests.fakes.spans import span, trace
from tests.processes import AgentProcess
from tests.readme_tables import README, rendered

ROOT = README.parent
TEXT = README.read_text()
CARRIED = TEXT.partition("## What traces must carry")[2].partition("\n## ")[0]
LOCAL: Any = {"timeout": 60, "trust_env": False}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def commands() -> Iterator[tuple[list[str], Any]]:
    def walk(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
        for name, sub in getattr(command, "commands", {}).items():
            if hasattr(sub, "commands"):
                yield from walk(sub, [*path, name])
            else:
                yield [*path, name], sub

    yield from walk(typer.main.get_command(app), [])


def test_the_generated_tables_are_current() -> None:
    assert rendered(TEXT) == TEXT


def test_every_command_has_help_and_a_working_looking_example() -> None:
    for path, command in commands():
        shown = CliRunner().invoke(app, [*path, "--help"])
        assert shown.exit_code == 0, shown.output
        assert command.epilog.startswith("Example: groundwatch " + " ".join(path)), path
        words = shlex.split(command.epilog.removeprefix("Example: groundwatch "))[len(path) :]
        options = {option for p in command.params for option in p.opts}
        assert {w for w in words if w.startswith("-")} <= options, path


def test_every_command_named_exists() -> None:
    known = {" ".join(path) for path, _ in commands()}
    for mention in re.findall(r"`(?:\.venv/bin/)?groundwatch ([a-z][a-z -]*)", TEXT):
        words = mention.split()
        assert {words[0], " ".join(words[:2])} & known, mention


def test_what_is_to_be_seen_can_be_had_as_json() -> None:
    table = TEXT.partition("## What you see")[2].partition("\n## ")[0]
    named = [words.split() for words in re.findall(r"^\| `groundwatch ([a-z -]+)", table, re.M)]
    assert len(named) >= 5
    for words in named:
        command = next(command for path, command in commands() if path == words[: len(path)])
        assert {"--json", "--data-dir"} <= {option for p in command.params for option in p.opts}


def test_every_make_target_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake ([a-z-]+)", TEXT)):
        assert re.search(rf"^{target}:.*## ", makefile, re.MULTILINE), target


def test_every_file_named_exists() -> None:
    for path in re.findall(r"`(tests/[\w/]+\.py)`|\]\((?!http)([\w./-]+)\)", TEXT):
        assert (ROOT / (path[0] or path[1])).exists(), path


def test_every_chapter_is_in_the_contents_and_every_anchor_leads_somewhere() -> None:
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    depth = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): len(marks)
        for marks, title in re.findall(r"^(##+) (.*)$", prose, re.MULTILINE)
    }
    contents = re.findall(r"\]\(#([\w-]+)\)", TEXT.partition("\n## ")[0])
    assert sorted(contents) == sorted(anchor for anchor, level in depth.items() if level == 2)
    assert set(re.findall(r"\]\(#([\w-]+)\)", TEXT)) <= set(depth)


def test_the_tracing_example_brings_spans_to_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Instrumentor:
        """Stands in for LangChain's, which `make test-live-conventions` tries itself."""

        def instrument(self, *, tracer_provider: Any) -> None:
            with tracer_provider.get_tracer("test").start_as_current_span("chain"):
                pass

    langchain = ModuleType("openinference.instrumentation.langchain")
    langchain.LangChainInstrumentor = Instrumentor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, langchain.__name__, langchain)
    for package in ("openinference", "openinference.instrumentation"):
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    (example,) = (block for block in blocks("python") if "LangChainInstrumentor" in block)
    with AgentProcess(tmp_path, {}) as agent:
        names: dict[str, Any] = {}
        exec(example.replace("http://127.0.0.1:4318", agent.urls["otlp_http"]), names)
        names["provider"].shutdown()
        shown = httpx.get(agent.urls["metrics"], **LOCAL).text
    assert re.search(r"^groundwatch_spans_received_total\{.*\} 1\.0$", shown, re.MULTILINE)


def is_golden(example: str) -> bool:
    return example.startswith("- id:")


@pytest.mark.parametrize("example", [text for text in blocks("yaml") if not is_golden(text)])
def test_the_configuration_example_is_accepted(example: str, tmp_path: Path) -> None:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(example)
    load(path, dict.fromkeys(("MY_JUDGE_KEY", "KAFKA_PASSWORD", "CHAT_WEBHOOK"), "x"))


def test_the_golden_example_is_a_row_with_all_its_fields(tmp_path: Path) -> None:
    (example,) = filter(is_golden, blocks("yaml"))
    path = tmp_path / "golden.yaml"
    path.write_text(example)
    (row,) = golden_file.load(path)
    assert row.question == "Is SSO included in the Pro plan?"
    assert row.gold_sources == ["page-212", "page-1140"]
    assert row.extra == {}


def test_the_service_runs_a_command_that_exists() -> None:
    (unit,) = blocks("ini")
    started = configparser.ConfigParser(strict=False, interpolation=None)
    started.optionxform = str  # type: ignore[assignment,method-assign]
    started.read_string(unit)
    words = shlex.split(started["Service"]["ExecStart"])
    run = next(command for path, command in commands() if path == words[1:2])
    assert Path(words[0]).name == "groundwatch"
    assert words[2] in {option for p in run.params for option in p.opts}


def carried_by(convention: str) -> dict[str, str]:
    """Return the names in the README's line of a convention, by themselves."""
    (line,) = re.findall(rf"^\| {convention} \| (.*) \|$", CARRIED, re.MULTILINE)
    return {name: name for name in re.findall(r"`([^`]+)`", line)}


def test_the_least_that_is_named_is_enough() -> None:
    open_inference = carried_by("OpenInference")
    gen_ai = carried_by("OpenTelemetry GenAI")
    langfuse = carried_by("Langfuse")
    page = {gen_ai["id"]: "page-7", gen_ai["content"]: "It costs 5."}
    least: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "openinference": (
            {
                open_inference["openinference.span.kind"]: "LLM",
                open_inference["input.value"]: "How much?",
                open_inference["output.value"]: "It costs 5.",
            },
            {
                open_inference["openinference.span.kind"]: "RETRIEVER",
                open_inference["retrieval.documents.0.document.id"]: "page-7",
                open_inference["retrieval.documents.0.document.content"]: "It costs 5.",
            },
        ),
        "otel-genai": (
            {
                gen_ai["gen_ai.operation.name"]: "chat",
                gen_ai["gen_ai.input.messages"]: said("user", "How much?"),
                gen_ai["gen_ai.output.messages"]: said("assistant", "It costs 5."),
            },
            {
                gen_ai["gen_ai.operation.name"]: "retrieval",
                gen_ai["gen_ai.retrieval.documents"]: json.dumps([page]),
            },
        ),
        "langfuse": (
            {
                langfuse["langfuse.observation.type"]: "generation",
                langfuse["langfuse.observation.input"]: "How much?",
                langfuse["langfuse.observation.output"]: "It costs 5.",
            },
            {
                langfuse["langfuse.observation.type"]: "retriever",
                langfuse["langfuse.observation.output"]: json.dumps(
                    [{"id": "page-7", "content": "It costs 5."}]
                ),
            },
        ),
    }
    for name, (call, search) in least.items():
        found = extract(trace(span(0), span(1, search, parent=0), span(2, call, parent=0)))
        assert isinstance(found, RagRequest), name
        assert found.conventions == [name]
        assert (found.question, found.answer) == ("How much?", "It costs 5."), name
        assert [(d.document_id, d.text) for d in found.documents] == [("page-7", "It costs 5.")]


def said(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def test_every_convention_is_named() -> None:
    spaced = re.sub(r"[^a-z]", "", CARRIED.lower())
    for convention in CONVENTIONS:
        name = {"otel-genai": "opentelemetrygenai", "vector-db": "vectordatabases"}.get(
            convention.NAME, convention.NAME.replace("-", "")
        )
        assert name in spaced, convention.NAME


def test_the_signal_example_and_the_paths_are_answered(tmp_path: Path) -> None:
    (call,) = [block for block in blocks("bash") if block.startswith("curl ")]
    words = shlex.split(call.replace("\\\n", " "))
    body = json.loads(words[words.index("-d") + 1])
    with AgentProcess(tmp_path, {}) as agent:
        answer = httpx.post(f"{agent.urls['otlp_http']}/v1/signals", json=body, **LOCAL)
        page = httpx.get(agent.urls["review"], params={"since": "24h"}, **LOCAL)
        paths = set(re.findall(r"`(/(?:api/\w+|healthz|readyz))`", TEXT))
        statuses = {
            path: httpx.get(f"{agent.urls['review']}{path}", **LOCAL).status_code for path in paths
        }
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
    assert (page.status_code, "State of the week" in page.text) == (200, True)
    assert len(paths) >= 6
    assert set(statuses.values()) == {200}, statuses
