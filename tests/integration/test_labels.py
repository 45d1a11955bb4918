"""From stored judgements to a trusted judge, by the commands alone, with and without an agent."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Claim, Judgement, Verdict
from collector.telemetry import Metrics
from scorers.lexical import FINGERPRINT
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import decision, stored
from tests.processes import AgentProcess

ANSWERS = 30
VERDICTS: tuple[Verdict, ...] = ("SUPPORTED", "NOT_FOUND")


async def fill(folder: Path) -> None:
    """Store answers of two claims each: one backed by the documents, one not."""
    metrics = Metrics(CollectorRegistry())
    store = await ClickHouseStore.open(f"chdb://{folder}", StoreConfig(), metrics)
    now = datetime.now(UTC)
    traces = [f"{number:032x}" for number in range(ANSWERS)]
    drawn = decision(decided_at=now)
    await store.write_requests([stored(t, started_at=now, decided=drawn) for t in traces])
    await store.write_judgements(
        [
            Judgement(
                trace_id=trace_id,
                scorer="faithfulness",
                fingerprint=FINGERPRINT,
                status="judged",
                score=0.5,
                claims=[Claim(text=f"claim {verdict}", verdict=verdict) for verdict in VERDICTS],
                request_version=1,
                judged_at=now,
            )
            for trace_id in traces
        ],
        dict.fromkeys(traces, now),
    )
    await store.close()


def groundwatch(data_dir: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "collector", *command, "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fill_in(lines: str, path: Path, count: int) -> None:
    """Label the first claims as a person would who always agrees with the judge.

    The file is saved as spreadsheets and some editors do: marked as UTF-8, lines ended for
    Windows. A note holds a line separator, as copied from a web page.
    """
    claims = [json.loads(line) for line in lines.splitlines()]
    for claim in claims[:count]:
        verdict = claim["claim"].removeprefix("claim ")
        claim |= {"verdict": verdict, "labeller": "ada", "note": "as said\u2028on the page"}
    text = "\r\n".join(json.dumps(claim, ensure_ascii=False) for claim in claims)
    path.write_bytes(text.encode("utf-8-sig"))


def test_a_judge_becomes_trusted_by_labels(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path, {})
    agent.data_dir.mkdir()
    asyncio.run(fill(agent.data_dir / "clickhouse"))
    labels = tmp_path / "claims.jsonl"

    sample = groundwatch(agent.data_dir, "labels", "sample", "--limit", "60")
    fill_in(sample, labels, 12)
    assert groundwatch(agent.data_dir, "labels", "import", str(labels)) == "12 labels stored\n"
    other = {"trace_id": "0" * 32, "claim": "another", "verdict": "SUPPORTED", "labeller": "ada"}
    (tmp_path / "other.jsonl").write_text(json.dumps(other))
    said = groundwatch(agent.data_dir, "labels", "import", str(tmp_path / "other.jsonl"))
    assert said.splitlines() == [
        "1 labels stored",
        "of these do not count, as this judge has not listed the claim: 1",
    ]
    assert "12 claims labelled, 50 needed" in groundwatch(agent.data_dir, "calibration")

    with agent:
        fill_in(groundwatch(agent.data_dir, "labels", "sample", "--limit", "60"), labels, 60)
        assert groundwatch(agent.data_dir, "labels", "import", str(labels)) == "60 labels stored\n"
        found = json.loads(groundwatch(agent.data_dir, "calibration", "--json"))
        assert (found["trust"], found["labels"]) == ("trusted", 60)
        estimates = json.loads(groundwatch(agent.data_dir, "estimates", "--json"))
        assert estimates["judge"]["trust"] == "trusted"

    with agent:  # the metric follows at the start, and every minute
        deadline = time.monotonic() + 30
        line = f'groundwatch_judge_trusted{{judge="{FINGERPRINT}",trust="trusted"}} 1.0'
        while line not in httpx.get(agent.urls["metrics"]).text:
            assert time.monotonic() < deadline
            time.sleep(0.2)
