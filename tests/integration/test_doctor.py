"""What the doctor says of stored requests is what it says of the files they came from."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.doctor import diagnose_files, lines
from collector.model import Span
from collector.telemetry import Metrics
from collector.trace_files import bodies
from collector.trace_files.encode import body_of_spans
from dashboards.reports import Reports
from dashboards.windows import Window
from sinks.clickhouse import ClickHouseStore
from tests.fakes.pipeline import Pipeline
from tests.fakes.requests import chain, llm, retriever
from tests.fakes.spans import span
from tests.processes import AgentProcess

ALL_TIME = Window(datetime(2000, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(days=365))
FROM_TRACES_ONLY = {"sampling_rate"}
PROTOBUF = {"content-type": "application/x-protobuf"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[ClickHouseStore]:
    url = f"chdb://{tmp_path / 'store'}"
    opened = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    try:
        yield opened
    finally:
        await opened.close()


def told(report: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return how many requests each check found, by service."""
    return {
        service["service"]: {
            finding["check"]: finding["requests"]
            for finding in service["findings"]
            if finding["check"] not in FROM_TRACES_ONLY
        }
        for service in report["services"]
    }


def request_of(number: int, *spans: Span) -> list[Span]:
    named = {"service.name": "shop"}
    trace_id = f"{number:032x}"
    return [msgspec.structs.replace(s, trace_id=trace_id, resource=named) for s in spans]


def traffic(tmp_path: Path) -> Path:
    """Requests that lack this and that, in one file."""
    search, answer = span(1, retriever("a"), parent=0), span(2, llm(), parent=0)
    mute = {"openinference.span.kind": "CHAIN"}
    found = [
        request_of(1, span(0, chain(**{"session.id": "s", "user.id": "u"})), search, answer),
        request_of(2, span(0, chain()), answer),
        request_of(3, span(0, chain("Q?", None)), search, span(2, llm("Q?", None), parent=0)),
        request_of(4, span(0, mute), span(2, {"openinference.span.kind": "LLM"}, parent=0)),
        request_of(5, span(0, chain(), parent=9), search, answer),
        request_of(6, span(0, chain(), dropped_attributes=3, start_ns=None), answer),
        request_of(7, span(0, chain("Q?", None), status_code=2), span(1, mute, parent=0)),
        request_of(8, span(0, chain('{"question": "Q?", "context": "Lorem')), search, answer),
    ]
    path = tmp_path / "traffic.pb"
    path.write_bytes(body_of_spans([s for spans in found for s in spans]))
    return path


@pytest.mark.parametrize("content", ["full", "redacted", "none"])
async def test_stored_requests_lack_what_their_traces_lack(
    store: ClickHouseStore, tmp_path: Path, content: str
) -> None:
    path = traffic(tmp_path)
    pipeline = Pipeline(store, {"store": {"content": content}})
    async with pipeline.running():
        await pipeline.send_file(path)
        await pipeline.until_idle()
    report = await Reports(store, "any").doctor(ALL_TIME)
    assert report["requests"] == 8
    found, expected = told(report)["shop"], told(diagnose_files([path]))["shop"]
    if content == "none":
        # Which of its texts a request lacked is not known any more, only that it lacked one.
        assert (found.pop("question"), found.pop("answer"), found.pop("document_texts")) == (
            2,
            2,
            1,
        )
        # Nor who asked: ids of users are not kept either, so all eight seem to lack one.
        assert found.pop("user") == 8
        del expected["question"], expected["answer"], expected["user"]
    assert found == expected
    empty = Window(ALL_TIME.since, ALL_TIME.since + timedelta(days=1))
    assert (await Reports(store, "any").doctor(empty))["requests"] == 0


@pytest.mark.shared
async def test_recorded_traces_of_all_instrumentations_agree_too(
    store: ClickHouseStore, shared: Path
) -> None:
    files = sorted((shared / "traces" / "captured").glob("*/*.pb"))
    files = [path for path in files if "wire" not in path.name]
    pipeline = Pipeline(store)
    async with pipeline.running():
        for path in files:
            await pipeline.send_file(path)
        await pipeline.until_idle()
    report = await Reports(store, "any").doctor(ALL_TIME)
    assert report["requests"] > 15
    expected = told(diagnose_files(files))
    # Whether a call streamed is seen in its trace; that it has no usage is seen in both.
    assert told(report) == expected


def test_the_doctor_asks_a_running_agent_and_the_store_of_a_stopped_one(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, {"assembler": {"quiet_seconds": 0.3, "rootless_seconds": 0.6}})
    path = traffic(tmp_path)
    with agent:
        for kind, body in bodies(path):
            url = f"{agent.urls['otlp_http']}/v1/{kind}"
            httpx.post(url, content=body, headers=PROTOBUF, trust_env=False).raise_for_status()
        deadline = time.monotonic() + 30
        while agent.totals()["requests"] < 8 and time.monotonic() < deadline:
            time.sleep(0.1)
        running = agent.run_command("doctor", "--live", "--since", "500w")
    stopped = agent.run_command("doctor", "--live", "--since", "500w")
    for done in (running, stopped):
        assert done.returncode == 1, done.stderr
        assert done.stdout.startswith("shop: 8 requests, openinference\n")
        assert "no conversation id: 7 of 8 requests" in done.stdout
    assert running.stdout == stopped.stdout
    assert stopped.stdout.splitlines()[0] == lines(diagnose_files([path]))[0]
