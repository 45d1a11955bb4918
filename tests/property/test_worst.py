"""The worst conversations found by bounds, against the ranking of all conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from collector import worst
from collector.config import StoreConfig
from collector.model import (
    Claim,
    Document,
    Judgement,
    Signal,
    SignalKind,
    StoredRequest,
    Verdict,
)
from collector.telemetry import Metrics
from collector.worst import worst_conversations
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import AT, stored

ALL: dict[str, Any] = {"conversations": [], "trace_ids": [], "times": []}
VERDICTS: tuple[Verdict, ...] = ("SUPPORTED", "NOT_FOUND", "CONTRADICTED")
KINDS: tuple[SignalKind, ...] = (
    "thumbs_down",
    "thumbs_up",
    "rating",
    "rephrase",
    "abandon",
    "repeated_clicks",
    "copy",
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    folder = tmp_path_factory.mktemp("store")
    store = asyncio.run(
        ClickHouseStore.open(f"chdb://{folder}", StoreConfig(), Metrics(CollectorRegistry()))
    )
    yield store
    asyncio.run(store.close())


class Traffic:
    """A week of random requests, judgements and signals, many equally bad; sums are exact."""

    def __init__(self, seed: int, day: datetime, complaints: int) -> None:
        self.random = Random(seed)
        self.day = day
        self.ids = [UUID(int=self.random.getrandbits(128)).hex for _ in range(400)]
        self.requests = [self._request(trace_id, 1) for trace_id in self.ids]
        self.revised = [self._request(trace_id, 2) for trace_id in self.random.sample(self.ids, 60)]
        self.judgements = [self._judgement(one) for one in self.random.sample(self.ids, 100)]
        self.signals = [self._signal(number) for number in range(complaints)]

    def _request(self, trace_id: str, version: int) -> StoredRequest:
        pick = self.random.choice
        row = stored(
            trace_id,
            version,
            started_at=self.day + timedelta(minutes=self.random.randrange(0, 10_000, 20)),
            conversation_id=pick([None, *(f"talk {self.day} {n}" for n in range(150))]),
            segment=pick([None, "a", "b", "b"]),
            answer=pick([None, "yes", "yes"]),
            flags=pick([[]] * 20 + [["no_retrieval"]]),
            status=pick(["ok"] * 20 + ["error"]),
            response_ids=[f"response {trace_id}"],
            message_id=f"message {trace_id}",
            documents=[Document(rank=1, text="text")],
            citations=pick([[1]] * 20 + [[2]]),
            lexical_score=pick([None, 0.0, 0.0, 0.25, 1.0]),
        )
        return msgspec.structs.replace(row, span_ids=[f"span {trace_id}"])

    def _judgement(self, trace_id: str) -> Judgement:
        verdicts = self.random.choices(VERDICTS, [9, 1, 1], k=3)
        return Judgement(
            trace_id=trace_id,
            scorer="faithfulness",
            fingerprint="current",
            status=self.random.choice(["judged", "judged", "failed"]),
            score=0.5,
            request_version=1,
            judged_at=self.day,
            claims=[Claim(text=v, verdict=v) for v in verdicts],
        )

    def _signal(self, number: int) -> Signal:
        pick = self.random.choice
        about = pick(self.ids)
        target: dict[str, Any] = pick(
            [
                {"trace_id": about},
                {"trace_id": about, "span_id": f"span {about}"},
                {"span_id": f"span {about}"},
                {"response_id": f"response {about}"},
                {"message_id": f"message {about}"},
                {"conversation_id": f"talk {self.day} {self.random.randrange(150)}"},
                {"conversation_id": f"talk {self.day} 7"},
            ]
        )
        kind = pick(KINDS)
        inferred = kind in ("rephrase", "abandon") and pick([True, False])
        return Signal(
            signal_id=f"signal {self.day} {number}",
            kind=kind,
            occurred_at=self.day + timedelta(seconds=number),
            received_at=self.day,
            sentiment=1 if kind == "thumbs_up" else pick([-1, -1, 1]),
            source="inferred" if inferred else "api",
            confidence=pick([0.25, 0.75]) if inferred else None,
            revoked=pick([False] * 9 + [True]),
            **target,
        )


@pytest.mark.parametrize(("seed", "complaints"), [(1, 0), (2, 12), (3, 80), (4, 400)])
async def test_the_list_is_that_of_a_ranking_of_all_conversations(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch, seed: int, complaints: int
) -> None:
    # It looks at few at first, so that here too it has to go on.
    monkeypatch.setattr(worst, "_FIRST", 1)
    monkeypatch.setattr(worst, "_BOUNDS", 2)
    day = AT.replace(hour=0) - timedelta(weeks=2 * seed)
    traffic = Traffic(seed, day, complaints)
    await store.write_requests(traffic.requests)
    await store.write_requests(traffic.revised)
    await store.write_judgements(traffic.judgements, dict.fromkeys(traffic.ids, day))
    await store.write_signals(traffic.signals)
    for segment in ("", "b"):
        asked: dict[str, Any] = {
            "since": day,
            "until": day + timedelta(days=6),
            "segment": segment,
            "fingerprint": "current",
        }
        for limit in (1, 7, 500):
            found = await worst_conversations(store, asked, limit)
            wanted = await store.rows("worst", {**asked, **ALL, "limit": limit})
            assert [_plain(row) for row in found] == [_plain(row) for row in wanted]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as one compares it: sums and lists of the engine come in any order."""
    marks = sorted(map(str, row["marks"]))
    return {**row, "badness": pytest.approx(row["badness"]), "marks": marks}
