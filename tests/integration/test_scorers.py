"""An agent that scores more than faithfulness: estimates, counters and the second judge."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.model import Span
from collector.sampling import uniform
from collector.trace_files.encode import body_of_spans
from tests.bench.end_to_end import send
from tests.fakes.openai_server import OpenAIServer
from tests.fakes.requests import asked_now
from tests.processes import AgentProcess

REQUESTS = 60
REFUSED = 3  # every third


def trace_id(number: int) -> str:
    return f"{number + 1:032x}"


def spans_of(number: int) -> list[Span]:
    question = f"What does product {number} cost?"
    answer = "I do not know." if number % REFUSED == 0 else f"Product {number} costs 5 euros [1]."
    text = f"Page 1 says that product {number} costs 5 euros."
    return asked_now(number, question, answer, text)


def config(server: OpenAIServer, golden: Path) -> dict[str, Any]:
    return {
        "assembler": {"quiet_seconds": 0.2},
        "review": {"golden_file": str(golden)},
        "judge": {
            "engine": "openai",
            "openai": {"base_url": server.base_url, "model": "judge", "api_key_env": None},
            "scorers": {
                "answer_relevance": {"rate": 1},
                "citation_support": {"rate": 1, "engine": "lexical"},
                "refusal": {"rate": 0.5, "engine": "lexical"},
                "correctness": {"rate": 1},
                "context_recall": {"rate": 1},
            },
            "second": {"rate": 0.5, "model": "judge-2"},
        },
    }


def counters(agent: AgentProcess, name: str) -> dict[str, float]:
    """Return the values of a score counter by scorer; the second scrape shows what was counted."""
    for _ in range(2):
        text = httpx.get(agent.urls["metrics"], trust_env=False).text
    found: dict[str, float] = {}
    for labels, value in re.findall(rf"^groundwatch_score_{name}_total{{(.*)}} (.*)$", text, re.M):
        scorer = re.search(r'scorer="(\w+)"', labels)
        assert scorer
        found[scorer[1]] = found.get(scorer[1], 0.0) + float(value)
    return found


def settled(agent: AgentProcess, scorer: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while True:
        report = agent.report("estimates", scorer=scorer)
        total = report["total"]
        if total["requests"] == REQUESTS and not total["waiting"]:
            return report
        assert time.monotonic() < deadline, total
        time.sleep(0.3)


def test_each_scorer_has_its_own_sample_series_and_estimate(tmp_path: Path) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text(
        "- id: one\n"
        "  question: what does product 1 cost\n"
        "  reference_answer: Product 1 costs 5 euros.\n"
        "  gold_sources: [page-1, page-99]\n"
    )
    drawn = [n for n in range(REQUESTS) if uniform("groundwatch-1/refusal", trace_id(n)) < 0.5]
    with OpenAIServer() as server, AgentProcess(tmp_path, config(server, golden)) as agent:
        payload = body_of_spans([span for n in range(REQUESTS) for span in spans_of(n)])
        asyncio.run(send(agent.urls["otlp_http"], [payload]))

        refusal = settled(agent, "refusal")["total"]
        assert refusal["accounting_ok"]
        assert (refusal["eligible"], refusal["judged"]) == (REQUESTS, len(drawn))
        share = sum(n % REFUSED == 0 for n in drawn) / len(drawn)
        assert refusal["estimate"] == pytest.approx(share)
        assert refusal["method"] == "hajek"

        relevance = settled(agent, "answer_relevance")["total"]
        answered = REQUESTS - REQUESTS // REFUSED
        assert (relevance["judged"], relevance["failed"]) == (answered, {"no_claims": 20})
        citations = settled(agent, "citation_support")["total"]
        assert (citations["judged"], citations["estimate"]) == (answered, 1.0)
        assert citations["ineligible"] == {"no_claims": 20}
        for scorer, score in (("correctness", 1.0), ("context_recall", 0.5)):
            total = settled(agent, scorer)["total"]
            assert (total["eligible"], total["judged"]) == (1, 1)
            (row,) = agent.report("estimates", scorer=scorer)["segments"]
            assert row["bounds"] == [None, None]
            assert counters(agent, "weighted_loss")[scorer] == pytest.approx(1 - score)

        second = settled(agent, "second_judge")
        assert second["judge"]["fingerprint"].startswith("openai/judge-2/second_judge/")
        both = agent.report("calibration")["second"]
        assert both["answers"] == second["total"]["judged"] > 0
        assert both["difference"] == 0.0  # the same replies

        main = agent.report("estimates")
        assert (main["total"]["judged"], main["total"]["estimate"]) == (answered, 1.0)
        assert main["judge"]["fingerprint"].startswith("openai/judge/")
        # Additive sums, each under its scorer; weights are one over the scorer's own probability.
        assert counters(agent, "weight")["refusal"] == 2 * len(drawn)
        assert counters(agent, "requests")["refusal"] == REQUESTS
        assert "faithfulness" not in counters(agent, "weight")
        shown = agent.run_command("estimates", "--scorer", "refusal")
        assert shown.returncode == 0
        assert "refusal" in shown.stdout
        unknown = agent.run_command("estimates", "--scorer", "beauty")
        assert unknown.returncode == 2
        assert "beauty is not configured" in unknown.stderr

        agent.kill()
        agent.start()
        assert settled(agent, "refusal")["total"]["judged"] == len(drawn)
