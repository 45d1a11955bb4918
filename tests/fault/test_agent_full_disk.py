"""An agent whose journal has no room on its disk, or that has no file descriptors left.

It refuses what it cannot keep, and goes on by itself once there is room; nothing that it
acknowledged is lost.
"""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.bench.load import bodies
from tests.processes import AgentProcess

TRACES_PER_BODY = 5
CONFIG = {
    "assembler": {"quiet_seconds": 0.3},
    "store": {"flush_rows": 50},
    "journal": {"min_free_disk_bytes": 0},
}


def post(agent: AgentProcess, body: bytes) -> int:
    """Send a body over a connection of its own; return the status, 0 where nobody answered."""
    try:
        url = f"{agent.urls['otlp_http']}/v1/traces"
        return httpx.post(url, content=body, timeout=5, trust_env=False).status_code
    except httpx.TransportError:
        return 0


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def stored(agent: AgentProcess) -> int:
    totals = agent.totals()
    assert totals["accounting_ok"]
    return int(totals["judged"])


def limit(agent: AgentProcess, kind: int, value: int) -> None:
    """Move the soft limit of a running agent; its files then grow no further, say."""
    assert agent.process is not None
    _, hard = resource.prlimit(agent.process.pid, kind)
    resource.prlimit(agent.process.pid, kind, (value if value >= 0 else hard, hard))


def test_on_a_full_disk_senders_are_told_to_wait_and_nothing_is_lost(tmp_path: Path) -> None:
    payloads = list(bodies(30, TRACES_PER_BODY))
    with AgentProcess(tmp_path, CONFIG) as agent:
        accepted = [post(agent, body) for body in payloads[:10]].count(200)
        largest = max(file.stat().st_size for file in agent.data_dir.glob("journal*"))
        limit(agent, resource.RLIMIT_FSIZE, largest)  # the end of the disk, for the journal
        refused = [post(agent, body) for body in payloads[10:20]]
        time.sleep(1)
        alive = httpx.get(f"{agent.urls['review']}/healthz", timeout=5, trust_env=False)
        limit(agent, resource.RLIMIT_FSIZE, -1)
        until(lambda: post(agent, payloads[20]) == 200)
        after = [post(agent, body) for body in payloads[21:]]
        expected = (accepted + refused.count(200) + 1 + after.count(200)) * TRACES_PER_BODY
        until(lambda: stored(agent) >= expected)
        assert stored(agent) == expected
        assert agent.stop() == 0

    assert accepted == 10
    assert set(refused) <= {200, 429, 503}
    assert refused[-1] in (429, 503)
    assert alive.status_code == 200
    assert set(after) == {200}


def test_without_file_descriptors_nobody_is_lost_and_it_recovers(tmp_path: Path) -> None:
    payloads = list(bodies(20, TRACES_PER_BODY))
    with AgentProcess(tmp_path, CONFIG) as agent, ExitStack() as held:
        assert agent.process is not None
        used = len(list(Path(f"/proc/{agent.process.pid}/fd").iterdir()))
        limit(agent, resource.RLIMIT_NOFILE, used + 80)
        address = httpx.URL(agent.urls["otlp_http"])
        for _ in range(200):
            held.enter_context(socket.create_connection((address.host, address.port), timeout=5))
        crowded = [post(agent, body) for body in payloads[:3]]
        held.close()
        until(lambda: post(agent, payloads[3]) == 200)
        limit(agent, resource.RLIMIT_NOFILE, -1)
        after = [post(agent, body) for body in payloads[4:]]
        expected = (crowded.count(200) + 1 + after.count(200)) * TRACES_PER_BODY
        until(lambda: stored(agent) >= expected)
        assert agent.stop() == 0

    # Refused, or hung up on, or lucky: never an error that makes an exporter drop the body.
    assert set(crowded) <= {0, 200, 429, 503}
    assert set(after) == {200}
