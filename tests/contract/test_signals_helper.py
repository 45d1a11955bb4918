"""The helper of the README sends what the agent takes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.model import Signal
from collector.ports import SIGNALS
from collector.telemetry import Metrics
from tests.fakes.journal import MemoryJournal
from tests.fakes.receiving import HttpReceivers, journalled

README = Path(__file__).parents[2] / "README.md"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def send_signal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    monkeypatch.setenv("no_proxy", "*")
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (block,) = (text for text in blocks if "def send_signal" in text)
    names: dict[str, Any] = {}
    exec(block, names)
    helper: Callable[..., bool] = names["send_signal"]
    return helper


async def test_the_helper_sends_a_signal_that_is_taken(
    metrics: Metrics, send_signal: Callable[..., bool]
) -> None:
    journal = MemoryJournal()
    receivers = HttpReceivers(metrics)
    async with receivers.stack:
        client = await receivers(journal)
        url = f"{client.base_url}/v1/signals".replace("//v1", "/v1")
        sent = await asyncio.to_thread(
            send_signal, "thumbs_down", url, trace_id=TRACE, comment="wrong price"
        )
    assert sent
    (record,) = await journalled(journal, SIGNALS)
    (signal,) = msgspec.json.decode(record.body, type=list[Signal])
    assert (signal.kind, signal.trace_id, signal.comment) == ("thumbs_down", TRACE, "wrong price")


def test_the_helper_gives_up_quietly_where_no_agent_is(
    send_signal: Callable[..., bool], free_port: Callable[[], int]
) -> None:
    url = f"http://127.0.0.1:{free_port()}/v1/signals"
    assert send_signal("thumbs_up", url, tries=2, trace_id=TRACE) is False
