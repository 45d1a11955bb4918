"""Signals from web pages: only those that are configured, and the snippet they use."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector.ports import SIGNALS
from collector.telemetry import Metrics
from tests.fakes.journal import MemoryJournal
from tests.fakes.receiving import HttpReceivers, counted, journalled

PAGE = "https://app.example.com"
SIGNAL = b'{"message_id": "m1", "kind": "thumbs_down"}'


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


@pytest.fixture
async def serve(metrics: Metrics) -> AsyncIterator[HttpReceivers]:
    receivers = HttpReceivers(metrics, cors_origins=[PAGE])
    async with receivers.stack:
        yield receivers


async def test_a_configured_page_may_ask_and_then_post(serve: HttpReceivers) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    asked = await client.options(
        "/v1/signals",
        headers={
            "origin": PAGE,
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        },
    )
    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == PAGE
    assert asked.headers["access-control-allow-methods"] == "POST"
    assert asked.headers["access-control-allow-headers"] == "content-type"
    assert asked.headers["vary"] == "origin"

    posted = await client.post("/v1/signals", content=SIGNAL, headers={"origin": PAGE})
    assert posted.status_code == 200
    assert posted.headers["access-control-allow-origin"] == PAGE
    (record,) = await journalled(journal, SIGNALS)
    assert msgspec.json.decode(record.body)[0]["message_id"] == "m1"


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://app.example.com", "https://app.example.com:8443"]
)
async def test_any_other_page_is_refused_before_and_after_asking(
    serve: HttpReceivers, metrics: Metrics, origin: str
) -> None:
    journal = MemoryJournal()
    client = await serve.in_process(journal)
    headers = {"origin": origin}
    for response in (
        await client.options("/v1/signals", headers=headers),
        await client.post("/v1/signals", content=SIGNAL, headers=headers),
        await client.post("/feedback", content=SIGNAL, headers=headers),
    ):
        assert response.status_code == 403
        assert "access-control-allow-origin" not in response.headers
        assert "receive.cors_origins" in response.json()["message"]
    assert await journalled(journal, SIGNALS) == []
    assert counted(metrics, "refused_requests", transport="http", reason="origin") == 3


async def test_without_configuration_no_page_may_post(metrics: Metrics) -> None:
    receivers = HttpReceivers(metrics)
    async with receivers.stack:
        client = await receivers.in_process(MemoryJournal())
        response = await client.post("/v1/signals", content=SIGNAL, headers={"origin": PAGE})
        assert response.status_code == 403
        assert (await client.post("/v1/signals", content=SIGNAL)).status_code == 200


async def test_a_star_lets_every_page_post(metrics: Metrics) -> None:
    receivers = HttpReceivers(metrics, cors_origins=["*"])
    async with receivers.stack:
        client = await receivers.in_process(MemoryJournal())
        response = await client.post("/v1/signals", content=SIGNAL, headers={"origin": PAGE})
        assert response.headers["access-control-allow-origin"] == PAGE


async def test_a_page_can_read_why_it_was_refused(serve: HttpReceivers) -> None:
    client = await serve.in_process(MemoryJournal())
    response = await client.post("/v1/signals", content=b"{}", headers={"origin": PAGE})
    assert response.status_code == 400
    assert response.headers["access-control-allow-origin"] == PAGE


async def test_a_question_without_a_page_is_no_preflight(serve: HttpReceivers) -> None:
    client = await serve.in_process(MemoryJournal())
    assert (await client.options("/v1/signals")).status_code == 405
