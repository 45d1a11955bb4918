"""A week of traffic for the review: one conversation of each kind that a page has to bear."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from collector.config import StoreConfig
from collector.model import Claim, Document, Judgement, Signal, Stage, StoredRequest
from collector.telemetry import Metrics
from scorers.lexical import LexicalJudge
from sinks.clickhouse import ClickHouseStore
from tests.fakes.store import decision, stored

SSO = Document(
    rank=2,
    document_id="page-1140",
    title="Add-on prices",
    text="Prices of add-ons.\n\nSSO on Pro costs 2 dollars\nper user and month. SCIM is free.",
    score=0.71,
    score_kind="rerank",
    cited=True,
)
PLANS = Document(
    rank=1,
    document_id="page-212",
    title="Pro plan",
    text="SSO is available on Pro.",
    score=0.93,
    score_kind="rerank",
    cited=False,
)
HOSTILE = (
    "<script>window.hit=1</script><img src=x onerror=window.hit=1>\"'><svg/onload=window.hit=1>"
    "</style><style>*{display:none!important}</style>{{7*7}}javascript:window.hit=1"
)


class Week:
    """Rows of one week, gathered and then stored at once. `now` is its newest moment."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.requests: list[StoredRequest] = []
        self.judgements: list[Judgement] = []
        self.signals: list[Signal] = []

    def turn(
        self,
        trace_id: str,
        question: str,
        answer: str,
        claims: list[Claim],
        *,
        minutes: float = 60,
        **request: Any,
    ) -> None:
        """Add a judged request that came so many minutes ago."""
        at = self.now - timedelta(minutes=minutes)
        rate = decision(probability=request.pop("probability", 1.0), decided_at=at)
        self.requests.append(
            stored(
                trace_id,
                started_at=at,
                decided=rate,
                question=question,
                answer=answer,
                lexical_score=0.5,
                segment=request.pop("segment", "lookup"),
                service="assistant",
                **request,
            )
        )
        supported = sum(claim.verdict == "SUPPORTED" for claim in claims)
        self.judgements.append(
            Judgement(
                trace_id=trace_id,
                scorer="faithfulness",
                fingerprint=LexicalJudge().fingerprint,
                status="judged",
                score=supported / len(claims),
                claims=claims,
                request_version=1,
                judged_at=at,
            )
        )

    def signal(self, trace_id: str, kind: Any, *, minutes: float = 59, **fields: Any) -> None:
        """Add a signal that came so many minutes ago."""
        at = self.now - timedelta(minutes=minutes)
        name = f"{trace_id}-{kind}-{len(self.signals)}"
        self.signals.append(
            Signal(
                signal_id=name,
                kind=kind,
                occurred_at=at,
                received_at=at,
                trace_id=trace_id,
                sentiment=-1,
                **fields,
            )
        )

    def store(self, folder: Path) -> None:
        """Write it all to the embedded store of the agent whose data lie in `folder`."""
        asyncio.run(self._store(folder))

    async def _store(self, folder: Path) -> None:
        metrics = Metrics(CollectorRegistry())
        url = f"chdb://{(folder / 'clickhouse').resolve()}"
        store = await ClickHouseStore.open(url, StoreConfig(), metrics)
        await store.write_requests(self.requests)
        times = {r.request.trace_id: r.request.started_at or self.now for r in self.requests}
        await store.write_judgements(self.judgements, times)
        await store.write_signals(self.signals)
        await store.close()


def trace(number: int) -> str:
    """Return a trace id."""
    return f"{number:032x}"


def a_week() -> Week:
    """Return a week with every kind of conversation; the worst asks for SSO on Pro."""
    week = Week(datetime.now(UTC) - timedelta(minutes=1))
    wrong = Claim(
        text="SSO is free on Pro.",
        verdict="CONTRADICTED",
        quote="SSO on Pro costs 2 dollars per user and month.",
        document_rank=2,
    )
    right = Claim(
        text="SSO is on Pro.", verdict="SUPPORTED", quote="SSO is available on Pro", document_rank=1
    )
    absent = Claim(text="SAML is set up in a minute.", verdict="NOT_FOUND")
    sso: dict[str, Any] = {
        "conversation_id": "sso",
        "documents": [PLANS, SSO],
        "citations": [2],
        "stages": [
            Stage(kind="retriever", name="search", query="sso pro", documents=20, latency_ms=31.0),
            Stage(kind="reranker", name="rerank", documents=2, latency_ms=12.0),
        ],
    }
    week.turn(trace(1), "Which plans are there?", "Pro and Enterprise [1].", [right], **sso)
    said = "SSO is on Pro and free [2]. SAML is set up in a minute."
    sso |= {"minutes": 58, "probability": 0.5}
    week.turn(trace(2), "Is SSO included in Pro?", said, [right, wrong, absent], **sso)
    for kind in ("thumbs_down", "regenerate", "abandon"):
        week.signal(trace(2), kind, minutes=57, comment="wrong price" if kind[0] == "t" else None)

    hostile = Document(rank=1, document_id=HOSTILE, title=HOSTILE, text=HOSTILE, source=HOSTILE)
    claim = Claim(text=HOSTILE, verdict="NOT_FOUND", quote=HOSTILE, document_rank=1, note=HOSTILE)
    week.turn(
        trace(3),
        HOSTILE,
        HOSTILE,
        [claim],
        conversation_id=HOSTILE,
        segment=HOSTILE[:50],
        documents=[hostile],
    )
    week.signal(trace(3), "thumbs_down", comment=HOSTILE)

    week.turn(
        trace(4),
        "كم تكلفة تسجيل الدخول الموحد في خطة Pro؟",
        "تسجيل الدخول الموحد مجاني في خطة Pro.",
        [Claim(text="تسجيل الدخول الموحد مجاني.", verdict="NOT_FOUND")],
        conversation_id="arabic",
        documents=[Document(rank=1, title="الأسعار", text="تكلفة الدخول الموحد دولاران.")],
    )
    week.signal(trace(4), "thumbs_down")

    many = [
        Document(rank=n, document_id=f"page-{n}", title=f"Page {n}", text=f"Text of page {n}. " * 9)
        for n in range(1, 201)
    ]
    week.turn(
        trace(5),
        "What do two hundred pages say? " + "It is a long story. " * 60,
        "W" * 400 + " Nothing [200].",
        [Claim(text="Nothing.", verdict="NOT_FOUND", quote="Text of page 150.", document_rank=150)],
        conversation_id="many-documents",
        documents=many,
        citations=[200],
    )
    week.signal(trace(5), "thumbs_down")

    for number in range(50):
        week.turn(
            trace(100 + number),
            f"And question {number}?",
            f"Answer {number}.",
            [Claim(text=f"Answer {number}.", verdict="SUPPORTED")],
            minutes=300 - number,
            conversation_id="fifty-turns",
            documents=[PLANS],
        )
    week.signal(trace(125), "thumbs_down", minutes=200)

    for number in range(20):
        week.turn(
            trace(200 + number),
            f"How many seats has plan {number}?",
            "Ten seats. Each costs a dollar.",
            [
                Claim(text="Ten seats.", verdict="NOT_FOUND"),
                Claim(text="Each costs a dollar.", verdict="SUPPORTED"),
            ],
            minutes=400 + number,
            conversation_id=f"seats-{number}",
            documents=[PLANS],
        )
    return week
