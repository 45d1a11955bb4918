"""Do the published intervals hold the truth? Traffic with known means through a whole agent.

`python -m tests.known_means [--requests N]` sends N requests to each of 100 segments over OTLP,
complains about many of the bad answers over HTTP, lets a controlled judge endpoint judge what
the agent draws, and compares `groundwatch estimates --json` with the true mean of each segment,
which is known because every claim was planted. Exit code 1 where fewer than 90 of 100 intervals
hold the truth, the mean bias is .01 or more, or the naive mean is not off by more than .05, so
that nothing was shown. Then as many requests again, once the agent has learned from the first to
foresee the judge: the same must hold, in narrower intervals.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.sampling import uniform
from tests.bench.end_to_end import send
from tests.fakes.openai_server import OpenAIServer
from tests.processes import AgentProcess

SEGMENTS = 100
RATE = 0.25
SALT = "known-means"
CLAIMS = 4
COMPLAINS = {True: 0.6, False: 0.03}
"""Chance of a thumb down, by whether a claim of the answer is planted as unsupported."""
TRACES_PER_BODY = 50
SECONDS = 900
_TOPICS = ("storage", "seats", "support", "exports", "backups", "projects")


class Planted(NamedTuple):
    """One request: its true score is the share of its claims that stand in its document."""

    trace_id: str
    segment: str
    supported: tuple[bool, ...]
    complained: bool

    @property
    def score(self) -> float:
        """The true faithfulness."""
        return sum(self.supported) / len(self.supported)

    @property
    def drawn(self) -> bool:
        """Whether the agent has to judge it: by its hash, or for its complaint."""
        return self.complained or uniform(SALT, self.trace_id) < RATE


class Outcome(NamedTuple):
    """How 100 published estimates compare with their true means."""

    covered: int
    bias: float
    naive_bias: float
    width: float
    report: dict[str, Any]

    @property
    def kept(self) -> bool:
        """Whether the intervals hold what they promise, where the naive mean does not."""
        unbiased = abs(self.bias) < 0.01 and abs(self.naive_bias) > 0.05
        return unbiased and self.covered >= 0.9 * SEGMENTS

    def lines(self) -> str:
        """Return what there is to say."""
        total = self.report["total"]
        return (
            f"{total['requests']} requests in {SEGMENTS} segments, {total['judged']} judged, "
            f"method {total['method']}\n"
            f"{self.covered} of {SEGMENTS} intervals hold the true mean, width {self.width:.3f}\n"
            f"mean bias {self.bias:+.4f}; of the naive mean {self.naive_bias:+.4f}"
        )


def plant(requests: int, segments: int = SEGMENTS, seed: int = 7) -> list[Planted]:
    """Return the traffic: each segment has a quality of its own, and bad answers earn thumbs."""
    rng = random.Random(seed)
    planted = []
    for number in range(segments):
        flawed_share = rng.uniform(0.1, 0.5)
        for _ in range(requests):
            flawed = rng.random() < flawed_share
            good = rng.randrange(CLAIMS) if flawed else CLAIMS
            supported = [True] * good + [False] * (CLAIMS - good)
            rng.shuffle(supported)
            planted.append(
                Planted(
                    trace_id=rng.randbytes(16).hex(),
                    segment=f"segment-{number:03}",
                    supported=tuple(supported),
                    complained=rng.random() < COMPLAINS[flawed],
                )
            )
    rng.shuffle(planted)
    return planted


def bodies(planted: Sequence[Planted], seed: int = 7) -> Iterator[bytes]:
    """Yield the traffic as OTLP bodies."""
    rng = random.Random(seed)
    for start in range(0, len(planted), TRACES_PER_BODY):
        body = ExportTraceServiceRequest()
        for request in planted[start : start + TRACES_PER_BODY]:
            _add_trace(body, request, rng)
        yield body.SerializeToString()


def _add_trace(body: ExportTraceServiceRequest, planted: Planted, rng: random.Random) -> None:
    facts = [f"Plan {rng.randrange(10**6)} has {topic}." for topic in _TOPICS]
    document = " ".join(facts)
    claims = [
        fact if supported else f"Plan {rng.randrange(10**6, 10**7)} has refunds."
        for fact, supported in zip(facts, planted.supported, strict=False)
    ]
    root = {
        "openinference.span.kind": "CHAIN",
        "input.value": "What does my plan have?",
        "output.value": " ".join(claims),
        "session.id": planted.trace_id[:16],
        "segment": planted.segment,
    }
    search = {
        "openinference.span.kind": "RETRIEVER",
        "retrieval.documents.0.document.id": "plans",
        "retrieval.documents.0.document.content": document,
    }
    resource = body.resource_spans.add()
    name = resource.resource.attributes.add(key="service.name")
    name.value.string_value = "shop"
    spans = resource.scope_spans.add().spans
    now = time.time_ns()
    root_id = rng.randbytes(8)
    for attributes, span_id, parent, times in (
        (root, root_id, b"", (now - 2_000_000, now)),
        (search, rng.randbytes(8), root_id, (now - 1_500_000, now - 1_000_000)),
    ):
        span = spans.add(
            trace_id=bytes.fromhex(planted.trace_id),
            span_id=span_id,
            parent_span_id=parent,
            name=attributes["openinference.span.kind"].lower(),
            start_time_unix_nano=times[0],
            end_time_unix_nano=times[1],
        )
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value


def config(judge_url: str) -> dict[str, Any]:
    """Return the agent's configuration: few requests judged, but all that earned a thumb down."""
    return {
        "assembler": {"quiet_seconds": 0.3},
        "sampling": {"rate": RATE, "signal_rate": 1.0, "salt": SALT},
        "segments": {
            "rules": [{"name": "by attribute", "attribute": "segment"}],
            "max_segments": 2 * SEGMENTS,
        },
        "judge": {
            "engine": "openai",
            "concurrency": 16,
            "openai": {"base_url": judge_url, "model": "controlled", "api_key_env": None},
        },
    }


def observe(planted: Sequence[Planted], folder: Path) -> Outcome:
    """Push the traffic through an agent and compare what it publishes with the truth."""
    with OpenAIServer() as judge, AgentProcess(folder, config(judge.base_url)) as agent:
        return observe_in(agent, planted)


def observe_in(agent: AgentProcess, planted: Sequence[Planted]) -> Outcome:
    """Push the traffic through this agent and compare what it publishes with the truth."""
    since = datetime.now(UTC).isoformat()
    feed(agent, planted)
    return compare(planted, published(agent, since))


def published(agent: AgentProcess, since: str) -> dict[str, Any]:
    """Return what `groundwatch estimates` prints of requests since then."""
    done = agent.run_command("estimates", "--since", since, "--json")
    if done.returncode:
        raise RuntimeError(done.stderr)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def wait_until_calibrated(agent: AgentProcess) -> None:
    """Return when the agent has learned to foresee the judge."""
    deadline = time.monotonic() + SECONDS
    while published(agent, "1h")["covariate"]["fitted_at"] is None:
        if time.monotonic() > deadline:
            raise RuntimeError("no calibration was fitted in time")
        time.sleep(2)


def feed(agent: AgentProcess, planted: Sequence[Planted]) -> None:
    """Send the traffic and its complaints; return when all that is drawn is judged."""
    before = agent.totals()
    asyncio.run(send(agent.urls["otlp_http"], list(bodies(planted))))
    thumbs = [{"trace_id": p.trace_id, "kind": "thumbs_down"} for p in planted if p.complained]
    url = f"{agent.urls['otlp_http']}/v1/signals"
    httpx.post(url, json=thumbs, timeout=60, trust_env=False).raise_for_status()
    judged = before["judged"] + sum(p.drawn for p in planted)
    requests = before["requests"] + len(planted)
    deadline = time.monotonic() + SECONDS
    while (totals := agent.totals())["judged"] < judged or totals["requests"] < requests:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not judged in time: {judged} were to be: {totals}")
        time.sleep(1)


def compare(planted: Sequence[Planted], report: Mapping[str, Any]) -> Outcome:
    """Compare the published estimates of all segments with their true means."""
    rows = {row["segment"]: row for row in report["segments"]}
    true, naive = _means(planted), _means([p for p in planted if p.drawn])
    found = {name: rows[name] for name in true}
    widths = [row["high"] - row["low"] for row in found.values() if row["low"] is not None]
    points = [row["estimate"] - true[name] for name, row in found.items() if row["estimate"]]
    return Outcome(
        covered=sum(
            row["low"] <= true[name] <= row["high"]
            for name, row in found.items()
            if row["low"] is not None
        ),
        bias=statistics.mean(points),
        naive_bias=statistics.mean(naive[name] - true[name] for name in true),
        width=statistics.mean(widths),
        report=dict(report),
    )


def _means(planted: Sequence[Planted]) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for request in planted:
        scores.setdefault(request.segment, []).append(request.score)
    return {segment: statistics.mean(values) for segment, values in scores.items()}


def main() -> int:
    """Run and print; return 1 where a promise is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=40, help="requests per segment")
    options = parser.parse_args()
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        OpenAIServer() as judge,
        AgentProcess(Path(folder), config(judge.base_url)) as agent,
    ):
        plain = observe_in(agent, plant(options.requests))
        print(plain.lines())
        wait_until_calibrated(agent)
        foreseen = observe_in(agent, plant(options.requests, seed=8))
        print(f"\n{foreseen.lines()}\n\n{time.monotonic() - started:.0f} s")
    narrower = foreseen.report["total"]["method"] == "ppi" and foreseen.width < plain.width
    return int(not (plain.kept and foreseen.kept and narrower))


if __name__ == "__main__":
    sys.exit(main())
