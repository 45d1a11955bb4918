"""The agent with a language model behind a real HTTP endpoint: stored verdicts, cost and causes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.telemetry import Metrics
from sinks.clickhouse import ClickHouseStore
from tests.bench.end_to_end import send
from tests.bench.load import bodies
from tests.fakes.openai_server import (
    OpenAIServer,
    cut_reply,
    good,
    invented_quote,
    rate_limited,
    refusal,
    slow,
    wrong_json,
)
from tests.processes import AgentProcess

KEY = "sk-canary-99120"


def config(base_url: str, **openai: Any) -> dict[str, Any]:
    return {
        "assembler": {"quiet_seconds": 0.3},
        "judge": {
            "engine": "openai",
            "concurrency": 1,
            "openai": {
                "base_url": base_url,
                "model": "small-judge",
                "api_key_env": "JUDGE_KEY",
                "prices": {"small-judge": {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 4.0}},
                **openai,
            },
        },
    }


def judge_all(
    folder: Path, server: OpenAIServer, requests: int, **openai: Any
) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Judge some requests; return the accounting, the stored judgements and the agent's log."""
    agent = AgentProcess(folder, config(server.base_url, **openai), {"JUDGE_KEY": KEY})
    with agent:
        asyncio.run(send(agent.urls["otlp_http"], list(bodies(1, requests))))
        deadline = time.monotonic() + 60
        while (totals := agent.totals())["requests"] < requests or totals["waiting"]:
            assert time.monotonic() < deadline, totals
            time.sleep(0.2)
    return totals, asyncio.run(stored_judgements(agent.data_dir)), agent.log.read_text()


async def stored_judgements(data_dir: Path) -> list[dict[str, Any]]:
    url = f"chdb://{data_dir / 'clickhouse'}"
    store = await ClickHouseStore.open(url, StoreConfig(), Metrics(CollectorRegistry()))
    try:
        return await store.rows("judgements", {})
    finally:
        await store.close()


def test_verdicts_are_stored_with_model_tokens_cost_and_fingerprint(tmp_path: Path) -> None:
    with OpenAIServer(default=good()) as server:
        totals, rows, log = judge_all(tmp_path, server, 3)
        assert {r.body["model"] for r in server.requests} == {"small-judge"}
        assert {r.headers["authorization"] for r in server.requests} == {f"Bearer {KEY}"}
    assert totals["judged"] == 3
    for row in rows:
        assert (row["status"], row["engine"], row["model"]) == ("judged", "openai", "small-judge")
        assert row["fingerprint"].startswith("openai/small-judge/")
        assert row["claims"]
        assert row["input_tokens"] > 0
        assert row["output_tokens"] > 0
        # 1 USD per million input tokens, 4 USD per million output tokens
        expected = (row["input_tokens"] + 4 * row["output_tokens"]) / 1e6
        assert abs(row["cost_usd"] - expected) < 1e-12
    assert KEY not in log


def test_an_invented_quote_is_no_evidence(tmp_path: Path) -> None:
    with OpenAIServer([good(), invented_quote()]) as server:
        _, (row,), _ = judge_all(tmp_path, server, 1)
    assert row["status"] == "judged"
    assert {claim["verdict"] for claim in row["claims"]} == {"NOT_FOUND"}
    assert {claim["note"] for claim in row["claims"]} == {"quote_unverified"}
    assert row["score"] == 0


def test_failures_end_unscored_with_their_cause_and_never_as_a_number(tmp_path: Path) -> None:
    script = [
        rate_limited(retry_after="1"),  # waited out: the first request is judged all the same
        *(good(), good()),
        refusal(),
        *(cut_reply(), cut_reply()),
        *(wrong_json(), wrong_json()),
        slow(5),
        *(good(), good()),
    ]
    with OpenAIServer(script) as server:
        totals, rows, log = judge_all(
            tmp_path, server, 6, timeout_seconds=1.5, max_retries=1, deadline_seconds=4
        )
    reasons = sorted(row["reason"] for row in rows if row["status"] == "failed")
    assert totals["failed"] == {reason: reasons.count(reason) for reason in reasons}
    assert {"refused", "truncated_reply", "unparseable"} <= set(reasons)
    assert all(row["score"] is None for row in rows if row["status"] != "judged")
    assert totals["judged"] + len(reasons) == 6
    assert totals["accounting_ok"]
    assert '"event": "library"' not in log


def test_when_the_budget_is_spent_the_rest_waits_over_restarts_and_is_never_a_number(
    tmp_path: Path,
) -> None:
    budget = 0.015
    with OpenAIServer(default=good()) as server:
        agent = AgentProcess(
            tmp_path, config(server.base_url, daily_budget_usd=budget), {"JUDGE_KEY": KEY}
        )
        with agent:
            asyncio.run(send(agent.urls["otlp_http"], list(bodies(1, 12))))
            settled = until_quiet(agent, server)
            gauges = httpx.get(agent.urls["metrics"], trust_env=False).text
        calls = len(server.requests)
        with agent:  # the same day, after a restart
            assert until_quiet(agent, server) == settled
        assert len(server.requests) == calls
        richer = AgentProcess(
            tmp_path, config(server.base_url, daily_budget_usd=10), {"JUDGE_KEY": KEY}
        )
        with richer:
            deadline = time.monotonic() + 30
            while (totals := richer.totals())["waiting"]:
                assert time.monotonic() < deadline, totals
                time.sleep(0.2)
    assert 0 < settled["judged"] < 12
    assert settled["waiting"] == 12 - settled["judged"]
    assert settled["failed"] == {}
    assert settled["accounting_ok"]
    shown = {
        line.split()[0].removeprefix("groundwatch_judge_"): float(line.split()[1])
        for line in gauges.splitlines()
        if line.startswith("groundwatch_judge_spend")
    }
    assert 0 < shown["spend_today_usd"] <= budget
    assert shown["spend_today_usd_capacity"] == budget
    assert shown["spend_remaining_usd"] == pytest.approx(budget - shown["spend_today_usd"])
    assert shown["spend_today_usd"] <= shown["spend_forecast_usd"] <= budget
    assert (totals["judged"], totals["failed"]) == (12, {})


def until_quiet(agent: AgentProcess, server: OpenAIServer) -> dict[str, Any]:
    """Wait until all requests are stored and no call came for a while; return the accounting."""
    deadline = time.monotonic() + 40
    before: tuple[int, int] | None = None
    while True:
        totals = agent.totals()
        now = (totals["requests"], len(server.requests))
        if totals["requests"] == 12 and now == before:
            return totals
        assert time.monotonic() < deadline, totals
        before = now
        time.sleep(1.5)
