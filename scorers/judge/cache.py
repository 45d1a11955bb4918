"""Identical work is judged once: the same question, answer and documents under one fingerprint.

Verdicts that are stored are looked up by a hash of what was judged, so this holds across restarts.
Of two identical tasks under way at once, one waits for the other's verdicts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from weakref import WeakValueDictionary

import msgspec

from collector.model import Judgement, RagRequest, Usage
from collector.ports import Judge, Store
from collector.telemetry import Metrics

_REMEMBERED = 1_000
"""Judgements kept until they can be found in the store."""


class CachedJudge:
    """A judge that asks another one only about what is not judged yet. `collector.ports.Judge`."""

    def __init__(self, judge: Judge, store: Store, metrics: Metrics) -> None:
        self._judge = judge
        self._store = store
        self._metrics = metrics
        self._under_way: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._recent: OrderedDict[str, Judgement] = OrderedDict()

    @property
    def fingerprint(self) -> str:
        """That of the judge asked."""
        return self._judge.fingerprint

    async def judge(self, request: RagRequest) -> Judgement:
        """Return the verdicts known for what the request holds, else those of the judge."""
        key = content_hash(request)
        lock = self._under_way.setdefault(key, asyncio.Lock())
        async with lock:
            known = self._recent.get(key) or await self._store.judgement_of(key, self.fingerprint)
            if known is not None:
                self._metrics.judge_reused.inc()
                return msgspec.structs.replace(
                    known, trace_id=request.trace_id, usage=Usage(cost_usd=0.0), raw_reply=None
                )
            judgement = await self._judge.judge(request)
            judgement = msgspec.structs.replace(judgement, content_hash=key)
            if judgement.status == "judged":
                self._recent[key] = judgement
                if len(self._recent) > _REMEMBERED:
                    self._recent.popitem(last=False)
            return judgement

    async def close(self) -> None:
        """Close the judge asked."""
        await self._judge.close()


def content_hash(request: RagRequest) -> str:
    """Return 32 hex digits that are equal for requests whose judged content is."""
    documents = [(d.rank, d.title or "", d.text or "") for d in request.documents]
    content = msgspec.json.encode([request.question, request.answer, documents])
    return hashlib.sha256(content).hexdigest()[:32]
