"""Every recorded file can be sent to a running agent; what is no telemetry is named, not sent."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.processes import AgentProcess

pytestmark = pytest.mark.shared

# Bodies of feedback calls, and request headers noted beside a body.
NO_TELEMETRY = {
    "DOC-EXAMPLES.json",
    "langfuse-sdk5-score-ingestion.json",
    "langsmith-sdk-feedback.json",
    "phoenix-document-annotations.json",
    "phoenix-span-annotations.json",
    "wire-js-exporter-traces.headers.json",
    "wire-python-exporter-logs.headers.json",
    "wire-python-exporter-traces.headers.json",
}


def test_every_trace_file_is_sent_and_survived(shared: Path, tmp_path: Path) -> None:
    files = sorted(
        path
        for part in ("captured", "public")
        for path in (shared / "traces" / part).rglob("*")
        if path.is_file()
    )
    assert len(files) > 100
    with AgentProcess(
        tmp_path, {"assembler": {"quiet_seconds": 0.3, "rootless_seconds": 2}}
    ) as agent:
        sent = subprocess.run(
            [
                *(sys.executable, "-m", "collector", "send", *map(str, files)),
                *("--endpoint", agent.urls["otlp_http"], "--json"),
            ],
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert "Traceback" not in sent.stderr
        result = json.loads(sent.stdout)
        unread = {problem.partition(": ")[0] for problem in result["problems"]}
        assert unread == NO_TELEMETRY
        assert result["sent"] >= len(files) - len(unread)
        assert sent.returncode == (1 if unread else 0)
        deadline = time.monotonic() + 60
        while agent.totals()["requests"] < 40 or agent.totals()["waiting"]:
            assert time.monotonic() < deadline, agent.totals()
            time.sleep(0.3)
        totals = agent.totals()
        health = httpx.get(f"{agent.urls['review']}/healthz", timeout=10, trust_env=False)
    assert totals["accounting_ok"]
    assert health.status_code == 200
    assert '"event": "library"' not in agent.log.read_text()
