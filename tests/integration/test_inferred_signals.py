"""A real agent sees what users do next, whatever the order and through a crash."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.processes import AgentProcess

CONFIG = {"assembler": {"quiet_seconds": 0.3}, "implicit": {"quiet_minutes": 30}}
HOURS_AGO = time.time_ns() - 2 * 3600 * 10**9
MINUTE = 60 * 10**9


def turn(talk: str, minute: int, question: str, answer: str) -> ExportTraceServiceRequest:
    """One request of a conversation two hours ago, as an OpenInference chain."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = uuid4().bytes, uuid4().bytes[:8], "assistant"
    span.start_time_unix_nano = HOURS_AGO + minute * MINUTE
    span.end_time_unix_nano = span.start_time_unix_nano + 10**9
    said = {"input.value": question, "output.value": answer, "session.id": talk}
    for key, value in ({"openinference.span.kind": "CHAIN"} | said).items():
        attribute = span.attributes.add()
        attribute.key, attribute.value.string_value = key, value
    return request


def send(agent: AgentProcess, request: ExportTraceServiceRequest) -> None:
    answer = httpx.post(
        f"{agent.urls['otlp_http']}/v1/traces",
        content=request.SerializeToString(),
        headers={"content-type": "application/x-protobuf"},
        trust_env=False,
    )
    assert answer.status_code == 200


def until(condition: Callable[[], bool], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_what_users_do_next_is_seen_out_of_order_and_through_a_crash(tmp_path: Path) -> None:
    talk = uuid4().hex
    first = turn(talk, 0, "How do I cancel my subscription?", "Subscriptions start in spring.")
    again = turn(talk, 1, "I want to cancel my subscription, how do I do it?", "Write to us.")
    doubt = turn(talk, 2, "But I heard that is wrong?", "I do not know.")

    def kinds(agent: AgentProcess) -> list[str]:
        return [found["kind"] for found in agent.report("signals")["total"]["kinds"]]

    with AgentProcess(tmp_path, CONFIG) as agent:
        send(agent, doubt)
        send(agent, first)
        until(lambda: "push_back" in kinds(agent))
        send(agent, again)
        agent.kill()
        agent.start()
        until(lambda: kinds(agent) == ["abandon", "push_back", "rephrase"])
        (conversation,) = agent.report("review")["conversations"]
        asked = agent.run_command("signals", "--since", "7d", "--json")
        shown = agent.run_command("signals", "--since", "7d")
    found = {(s["kind"], s["source"]) for s in conversation["signals"]}
    assert found == {(kind, "inferred") for kind in ("abandon", "push_back", "rephrase")}
    assert conversation["turns"][0]["question"].startswith("How do I cancel")
    reasons = [reason.partition(" (inferred, 0.")[0] for reason in conversation["reasons"]]
    assert "the user asked again in other words" in reasons
    assert "the user pushed back" in reasons
    assert "the user gave up" in reasons

    total = json.loads(asked.stdout)["total"]
    assert (total["requests"], total["conversations"], total["engaged"]) == (3, 1, 0)
    assert {found["signals"] for found in total["kinds"]} == {1}
    assert "Signals were sent in 0 of 1 conversations (0.0 %)" in shown.stdout
