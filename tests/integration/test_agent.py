"""The whole agent as its own process: telemetry and signals in, honest numbers and reviews out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from ruamel.yaml import YAML

from tests.bench.end_to_end import send
from tests.bench.load import DATA, bodies
from tests.processes import AgentProcess

QUIET = {"assembler": {"quiet_seconds": 0.3}}
CANARY = "zebra-canary-7731"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path, QUIET) as running:
        yield running


def wait_for(agent: AgentProcess, requests: int, seconds: float = 30) -> dict[str, Any]:
    """Wait until that many requests are stored and none waits for its judgement."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        totals = agent.totals()
        if totals["requests"] >= requests and totals["waiting"] == 0:
            return totals
        time.sleep(0.1)
    raise AssertionError(agent.totals())


def recorded() -> ExportTraceServiceRequest:
    """One recorded trace, with a word in it that must never show up in a log."""
    request = ExportTraceServiceRequest.FromString(
        (DATA / "openinference-langchain.pb").read_bytes()
    )
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                for attribute in span.attributes:
                    if attribute.value.HasField("string_value"):
                        attribute.value.string_value = attribute.value.string_value.replace(
                            "return policy", CANARY
                        )
    return request


def post(agent: AgentProcess, path: str, body: bytes, kind: str) -> httpx.Response:
    return httpx.post(
        agent.urls["otlp_http"] + path,
        content=body,
        headers={"content-type": kind},
        timeout=10,
        trust_env=False,
    )


def post_spans(agent: AgentProcess, request: ExportTraceServiceRequest) -> None:
    body = request.SerializeToString()
    assert post(agent, "/v1/traces", body, "application/x-protobuf").status_code == 200


def test_a_trace_becomes_a_judged_request_with_its_signals(agent: AgentProcess) -> None:
    request = recorded()
    post_spans(agent, request)
    trace_id = request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
    signal = {"trace_id": trace_id, "kind": "thumbs_down", "comment": f"not about {CANARY}"}
    answer = post(agent, "/v1/signals", json.dumps(signal).encode(), "application/json")
    assert answer.status_code == 200
    totals = wait_for(agent, 1)
    assert totals["judged"] == 1
    deadline = time.monotonic() + 10
    conversation: dict[str, Any] = {}
    while time.monotonic() < deadline and not conversation.get("signals"):
        (conversation,) = agent.report("review")["conversations"] or [{}]
        time.sleep(0.1)
    assert "1 thumbs down" in conversation["reasons"] or "thumbs down" in conversation["reasons"]
    (turn,) = conversation["turns"]
    assert CANARY in turn["question"]
    assert turn["claims"]
    assert len(turn["documents"]) == 3
    assert CANARY not in agent.log.read_text()


def test_late_spans_supersede_and_count_once(agent: AgentProcess) -> None:
    whole = recorded()
    late = ExportTraceServiceRequest()
    late.CopyFrom(whole)
    early = ExportTraceServiceRequest()
    early.CopyFrom(whole)
    for keep_retriever, part in ((True, late), (False, early)):
        for resource in part.resource_spans:
            for scope in resource.scope_spans:
                kept = [s for s in scope.spans if ("Retriever" in s.name) == keep_retriever]
                copies = [type(s).FromString(s.SerializeToString()) for s in kept]
                del scope.spans[:]
                scope.spans.extend(copies)
    trace_id = whole.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
    signal = json.dumps({"trace_id": trace_id, "kind": "thumbs_down"}).encode()
    assert post(agent, "/v1/signals", signal, "application/json").status_code == 200
    post_spans(agent, early)
    assert wait_for(agent, 1)["requests"] == 1
    assert turns(agent)[0]["documents"] == []
    post_spans(agent, late)
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and not turns(agent)[0]["claims"]:
        time.sleep(0.1)
    (turn,) = turns(agent)
    assert len(turn["documents"]) == 3
    assert turn["claims"]
    totals = wait_for(agent, 1)
    assert (totals["requests"], totals["judged"]) == (1, 1)
    assert totals["accounting_ok"]


def turns(agent: AgentProcess) -> list[dict[str, Any]]:
    (conversation,) = agent.report("review")["conversations"]
    found: list[dict[str, Any]] = conversation["turns"]
    return found


def test_a_second_start_finds_everything_again(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, QUIET)
    with agent:
        asyncio.run(send(agent.urls["otlp_http"], list(bodies(3, 5))))
        before = wait_for(agent, 15)
        assert agent.stop() == 0
    with agent:
        after = agent.totals()
    for key in ("requests", "eligible", "judged", "estimate", "low", "high"):
        assert after[key] == before[key]


def test_stopping_stores_what_is_open(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, {"assembler": {"quiet_seconds": 600}})
    with agent:
        asyncio.run(send(agent.urls["otlp_http"], list(bodies(2, 5))))
        started = time.monotonic()
        assert agent.stop() == 0
        assert time.monotonic() - started < 5
    with agent:
        assert wait_for(agent, 10)["requests"] == 10


def test_commands_answer_with_and_without_a_running_agent(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, QUIET)
    golden = tmp_path / "golden.yaml"
    golden.write_text("# our questions\n- id: q1\n  question: What is it?\n")
    with agent:
        asyncio.run(send(agent.urls["otlp_http"], list(bodies(2, 5))))
        wait_for(agent, 10)
        running = agent.run_command("estimates", "--since", "1h", "--json")
        export = agent.run_command("golden", "export", str(golden))
        again = agent.run_command("golden", "export", str(golden))
        as_json = agent.run_command("golden", "export", str(golden), "--json")
    stopped = agent.run_command("estimates", "--since", "1h", "--json")
    for done in (running, stopped):
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["total"]["judged"] == 10
        assert report["accounting_ok"]
        assert report["judge"]["trust"] == "uncalibrated"
        row = report["segments"][0]
        assert set(row) >= {
            *("segment", "requests", "eligible", "judged", "waiting", "failed", "not_sampled"),
            *("n_eff", "estimate", "low", "high", "method", "judge_trust"),
        }
    assert export.returncode == 0, export.stderr
    count = len(json.loads(as_json.stdout)["already_there"])
    assert export.stdout == (
        f"{golden}: 0 accepted added, {count} unreviewed added as drafts, 0 already there\n"
    )
    assert again.stdout == f"{golden}: nothing to add, all {count} candidates are there already\n"
    assert json.loads(as_json.stdout)["added"] == []
    assert golden.read_text().startswith("# our questions\n- id: q1\n")
    rows = YAML(typ="safe").load(golden)
    assert len({row["question"] for row in rows}) == len(rows)
    for form in ("md", "html", "json"):
        done = agent.run_command("review", "report", "--since", "1h", "--format", form)
        assert done.returncode == 0, done.stderr


def test_a_second_agent_on_the_same_folder_is_refused_in_plain_words(
    agent: AgentProcess, tmp_path: Path
) -> None:
    second = agent.run_command("run")
    assert second.returncode == 3
    assert str(tmp_path) in second.stderr
    assert "Traceback" not in second.stderr


def test_a_taken_port_is_named(agent: AgentProcess, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    taken = agent.urls["otlp_http"].removeprefix("http://")
    with pytest.raises(RuntimeError, match=r"listen\.otlp_http"):
        AgentProcess(other, {"listen": {"otlp_http": taken}}).start()


def test_health_is_answered(agent: AgentProcess) -> None:
    for path in ("healthz", "readyz"):
        answer = httpx.get(f"{agent.urls['review']}/{path}", timeout=10, trust_env=False)
        assert (answer.status_code, answer.json()["ok"]) == (200, True)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("since=x&until=y", "until"),
        ("since=7x", "since"),
        ("week=2026-W01&since=7d", "week"),
        ("since=2026-01-01T00:00:00&until=2026-01-01T00:00:00", "zone"),
        ("since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z&limit=0", "limit"),
        ("since=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z&segmnt=a", "segmnt"),
    ],
)
def test_a_wrong_question_to_the_api_is_named(
    agent: AgentProcess, query: str, problem: str
) -> None:
    url = f"{agent.urls['review']}/api/review?{query}"
    answer = httpx.get(url, timeout=10, trust_env=False)
    assert answer.status_code == 400
    assert problem in answer.json()["error"]


@pytest.mark.parametrize(
    ("query", "days"), [("", 7), ("?since=3d", 3), ("?week=2026-W01", 7), ("?since=2w&limit=1", 14)]
)
def test_the_api_takes_windows_as_the_command_line_does(
    agent: AgentProcess, query: str, days: int
) -> None:
    url = f"{agent.urls['review']}/api/review{query}"
    report = httpx.get(url, timeout=10, trust_env=False).json()
    since, until = (datetime.fromisoformat(report[end]) for end in ("since", "until"))
    assert until - since == timedelta(days=days)


def test_a_review_page_that_others_may_reach_is_warned_of(tmp_path: Path) -> None:
    with AgentProcess(tmp_path, {"listen": {"review": "0.0.0.0:0"}}) as agent:
        assert "review_without_login" in agent.log.read_text()


def test_a_foreign_host_name_is_not_answered(agent: AgentProcess) -> None:
    answer = httpx.get(
        agent.urls["review"], headers={"host": "evil.example"}, timeout=10, trust_env=False
    )
    assert answer.status_code == 400
