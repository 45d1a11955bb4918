"""Give feedback with the current clients of Langfuse, LangSmith and Phoenix, pointed at an agent.

Each signal must end on its trace, though all of them are given before the traces come. Needs
`uv` and a package index; the environment with the clients stays for the next run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
import msgspec
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.conversations import conversation_turns
from collector.model import Span
from collector.telemetry import Metrics
from collector.trace_files.encode import body_of_spans
from sinks.clickhouse import ClickHouseStore
from tests.fakes.requests import chain, llm, retriever
from tests.fakes.spans import START_NS, span
from tests.live.conventions import SCRIPTS, Environment
from tests.processes import AgentProcess

CONFIG: dict[str, Any] = {
    "assembler": {"quiet_seconds": 0.2},
    "receive": {"ingest_token_env": "FEEDBACK_TOKEN"},
}
LIBRARIES = ("langfuse", "langsmith", "arize-phoenix-client")
CLIENT_SECONDS = 120

# What must be found on each trace: the kind of its one signal, None where there must be none.
EXPECTED: dict[str, str | None] = {
    "langfuse_trace": "thumbs_down",
    "langfuse_span": "thumbs_up",
    "langfuse_session": "rating",
    "langfuse_label": "thumbs_down",
    "langfuse_changed": "thumbs_up",
    "langfuse_deleted": None,
    "langfuse_evaluator": None,
    "langsmith_root": "thumbs_down",
    "langsmith_child": "thumbs_up",
    "langsmith_changed": "thumbs_down",
    "langsmith_deleted": None,
    "langsmith_evaluator": None,
    "phoenix_span": "thumbs_down",
    "phoenix_changed": "thumbs_up",
    "phoenix_evaluator": None,
    "phoenix_trace": "thumbs_down",
    "phoenix_session": "thumbs_down",
    "phoenix_document": "thumbs_down",
    "phoenix_note": "comment",
}


class Told(NamedTuple):
    """A trace, by the ids that an application knows of it. `run_id` is LangSmith's."""

    trace_id: str
    span_id: str
    run_id: str
    conversation_id: str


def ids_of(case: str) -> Told:
    """Return new ids, the run's as LangSmith's exporter makes those of OpenTelemetry from it."""
    root, child = uuid4(), uuid4()
    run = child if case == "langsmith_child" else root
    return Told(root.hex, run.hex[:16], str(run), f"talk-{case}")


def spans_of(told: Told) -> list[Span]:
    """Return the spans of a request with these ids, a moment ago."""
    shift = time.time_ns() - START_NS
    root_id = told.trace_id[:16] if told.span_id != told.trace_id[:16] else told.span_id
    own = told.span_id if told.span_id != root_id else uuid4().hex[:16]
    parts = [
        (root_id, None, span(0, chain() | {"session.id": told.conversation_id})),
        (uuid4().hex[:16], root_id, span(1, retriever("p1"))),
        (own, root_id, span(2, llm())),
    ]
    return [
        msgspec.structs.replace(
            part,
            trace_id=told.trace_id,
            span_id=span_id,
            parent_span_id=parent,
            start_ns=(part.start_ns or 0) + shift,
            end_ns=(part.end_ns or 0) + shift,
        )
        for span_id, parent, part in parts
    ]


def give_feedback(environment: Environment, url: str, traces: dict[str, Told]) -> None:
    """Run the clients; raises CalledProcessError if one of them fails."""
    told = {case: ids._asdict() for case, ids in traces.items()}
    subprocess.run(
        [str(environment.python), str(SCRIPTS / "give_feedback.py")],
        env={
            "FEEDBACK_URL": url,
            "FEEDBACK_TRACES": json.dumps(told),
            "HOME": tempfile.gettempdir(),
        },
        timeout=CLIENT_SECONDS,
        check=True,
    )


def found_after_giving(environment: Environment, traces: dict[str, Told]) -> dict[str, list[str]]:
    """Give feedback to an agent, then send the traces; return what was found on each."""
    with tempfile.TemporaryDirectory() as folder:
        # Each client shows the token in its own way: as password, key or bearer.
        agent = AgentProcess(Path(folder), CONFIG, {"FEEDBACK_TOKEN": "key"})
        with agent:
            url = agent.urls["otlp_http"]
            give_feedback(environment, url, traces)
            for told in traces.values():
                send(url, body_of_spans(spans_of(told)))
            while agent.totals()["requests"] < len(traces):
                time.sleep(0.5)
        return asyncio.run(kinds_found(agent.data_dir, traces))


def send(url: str, body: bytes) -> None:
    """Send spans as an exporter does."""
    headers = {"content-type": "application/x-protobuf", "authorization": "Bearer key"}
    answer = httpx.post(f"{url}/v1/traces", content=body, headers=headers, trust_env=False)
    answer.raise_for_status()


async def kinds_found(data_dir: Path, traces: dict[str, Told]) -> dict[str, list[str]]:
    """Return the kinds of the signals that a reader finds on each trace."""
    url = f"chdb://{data_dir / 'clickhouse'}"
    store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    found: dict[str, list[str]] = {}
    try:
        for case, told in traces.items():
            turns = await conversation_turns(
                store, told.conversation_id, "", most=50, fingerprint=""
            )
            for turn in turns:
                signals = [*turn["signals"], *turn["conversation_signals"]]
                found[case] = [signal["kind"] for signal in signals]
    finally:
        await store.close()
    return found


def main() -> int:
    """Print one line a case; 1 if a signal is missing, doubled or elsewhere."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    environment = Environment("feedback")
    environment.renew()
    versions = ", ".join(f"{name} {environment.version(name)}" for name in LIBRARIES)
    print(f"{datetime.now(UTC):%Y-%m-%d} with {versions}", flush=True)
    traces = {case: ids_of(case) for case in EXPECTED}
    found = found_after_giving(environment, traces)
    wrong = 0
    for case, kind in EXPECTED.items():
        right = found.get(case) == ([] if kind is None else [kind])
        wrong += not right
        print(
            f"{case:24}{kind or 'no signal':14}{'found' if right else f'WRONG: {found.get(case)}'}"
        )
    print(f"\n{len(EXPECTED) - wrong} of {len(EXPECTED)} signals are where they belong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
