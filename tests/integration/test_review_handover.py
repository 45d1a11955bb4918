"""A whole agent hands the week over by itself, once, and tells of deployments it has seen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread

import httpx
import msgspec
import pytest

from collector.trace_files.encode import body_of_spans
from tests.fakes.requests import asked_now
from tests.processes import AgentProcess

SECRET = "T0-B0-hush"


@pytest.fixture
def chat() -> Iterator[tuple[str, Queue[str]]]:
    told: Queue[str] = Queue()

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            told.put(json.loads(body)["text"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{SECRET}", told
    server.shutdown()
    server.server_close()


def test_the_week_is_handed_over_once_whatever_starts_again(
    tmp_path: Path, chat: tuple[str, Queue[str]]
) -> None:
    url, told = chat
    handover = {"at": f"{datetime.now(UTC):%a %H:%M}".lower(), "webhook_url_env": "HOOK"}
    review = {"public_url": "https://review.example.com", "handover": handover}
    agent = AgentProcess(tmp_path, {"review": review}, {"HOOK": url})
    with agent:
        text = told.get(timeout=60)
        printed = agent.run_command("review", "handover")
    assert text.startswith("Weekly review 20")
    assert "\nThe week: https://review.example.com/?week=20" in text
    assert (printed.returncode, printed.stdout.strip()) == (0, text.strip())
    with agent:
        done = agent.run_command("review", "handover", "--send")
        assert (done.returncode, done.stdout) == (0, "sent: webhook\n"), done.stderr
        assert told.get(timeout=60) == text
    assert told.empty()
    assert SECRET not in agent.log.read_text()
    quiet = agent.run_command("check-config")
    assert (quiet.returncode, SECRET in quiet.stdout) == (0, False)


def test_a_deployment_is_told_in_the_week_also_after_a_restart(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, {"assembler": {"quiet_seconds": 0.2}})
    with agent:
        for number, version in enumerate(("1.4", "1.5")):
            resource = {"service.name": "bot", "service.version": version}
            spans = [
                msgspec.structs.replace(span, resource=resource)
                for span in asked_now(number, "What does Pro cost?", "Ten dollars.", "Ten dollars.")
            ]
            sent = httpx.post(
                f"{agent.urls['otlp_http']}/v1/traces",
                content=body_of_spans(spans),
                headers={"content-type": "application/x-protobuf"},
                trust_env=False,
            )
            assert sent.status_code == 200
        told = told_by(agent)
    assert [line.partition(" since")[0] for line in told] == ["bot: version 1.5"]
    with agent:
        assert told_by(agent) == told


def told_by(agent: AgentProcess) -> list[str]:
    """Return what changed, once something did."""
    url, deadline = f"{agent.urls['review']}/api/week", time.monotonic() + 90
    while time.monotonic() < deadline:
        if changes := httpx.get(url, trust_env=False, timeout=30).json()["changes"]:
            return list(changes)
        time.sleep(0.2)
    raise TimeoutError("no change was told")
