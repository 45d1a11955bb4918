"""What people read: estimates, the review of the worst conversations, golden candidates.

Everything is plain data that turns into JSON; the command line, the page and the API show it.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

from collector.doctor import diagnose_rows
from collector.ports import Store
from dashboards.candidates import candidate_of, distinct
from dashboards.estimates import segment_rows, total_row
from dashboards.review.conversation import conversation_of
from dashboards.signals import signal_rows
from dashboards.windows import Window

SCORER = "faithfulness"
_TRUST = {
    "trust": "uncalibrated",
    "reason": "no human labels to compare the judge with",
}


class Reports:
    """Reads the store and answers in plain data.

    Args:
        store: where requests, judgements and signals are.
        fingerprint: of the judge whose series is shown; two judges are never mixed.
    """

    def __init__(self, store: Store, fingerprint: str) -> None:
        self._store = store
        self.fingerprint = fingerprint

    names = ("estimates", "review", "candidates", "signals", "doctor")

    async def named(self, name: str, window: Window, **options: Any) -> dict[str, Any]:
        """Return one of the reports in `names`, as the API and the command line ask for them.

        Raises:
            TypeError: an option that this report does not have.
        """
        if name == "candidates":
            return {"candidates": await self.candidates(window, **options)}
        if name == "signals":
            return await self.signals(window, **options)
        if name == "doctor":
            return await self.doctor(window, **options)
        if name == "review":
            return await self.review(window, **options)
        return await self.estimates(window, **options)

    async def ping(self) -> None:
        """Return if the store answers.

        Raises:
            DependencyError: it does not.
        """
        await self._store.known([""])

    async def estimates(self, window: Window, segment: str = "") -> dict[str, Any]:
        """Return accounting and estimate per segment and over all.

        Args:
            window: requests started within it count.
            segment: only this one; "" for all.
        """
        parameters = self._parameters(window, segment) | {"scorer": SCORER}
        accounting = await self._store.rows("accounting", parameters)
        sums = await self._store.rows("estimate_sums", parameters)
        total = total_row(accounting, sums, _TRUST)
        return {
            "since": window.since.isoformat(),
            "until": window.until.isoformat(),
            "scorer": SCORER,
            "judge": {"fingerprint": self.fingerprint, **_TRUST},
            "accounting_ok": total["accounting_ok"],
            "total": total,
            "segments": segment_rows(accounting, sums, _TRUST),
        }

    async def review(self, window: Window, segment: str = "", limit: int = 20) -> dict[str, Any]:
        """Return the worst conversations of a window, each once, with why it is here."""
        parameters = self._parameters(window, segment)
        ranked = await self._store.rows("worst", parameters | {"limit": limit})
        turns = await asyncio.gather(
            *(
                self._store.rows(
                    "conversation",
                    {"conversation": row["conversation"], "fingerprint": self.fingerprint},
                )
                for row in ranked
            )
        )
        return {
            "since": window.since.isoformat(),
            "until": window.until.isoformat(),
            "judge": {"fingerprint": self.fingerprint, **_TRUST},
            "conversations": [
                conversation_of(row, rows) for row, rows in zip(ranked, turns, strict=True)
            ],
        }

    async def known_segments(self, now: datetime) -> list[tuple[str, str]]:
        """Return (service, segment) of the traffic of the last week."""
        parameters = self._parameters(Window(now - timedelta(weeks=1), now), "")
        rows = await self._store.rows("accounting", parameters | {"scorer": SCORER})
        return [(row["service"], row["segment"]) for row in rows]

    async def signals(self, window: Window, segment: str = "") -> dict[str, Any]:
        """Return signals by segment and kind, and how many users they come from.

        Signals count by when they occurred, requests and conversations by when they started.
        """
        asked = {"since": window.since, "until": window.until}
        counts = await self._store.rows("signals_summary", asked)
        engagement = await self._store.rows("engagement", asked)
        wanted = (
            [row for row in rows if segment in ("", row["segment"])]
            for rows in (counts, engagement)
        )
        return {
            "since": window.since.isoformat(),
            "until": window.until.isoformat(),
            **signal_rows(*wanted),
        }

    async def doctor(self, window: Window, segment: str = "") -> dict[str, Any]:
        """Return what the stored requests lack for being monitored, and how to get it."""
        asked = {"since": window.since, "until": window.until, "segment": segment}
        return diagnose_rows(await self._store.rows("doctor", asked))

    async def candidates(
        self, window: Window, segment: str = "", limit: int = 50
    ) -> list[dict[str, Any]]:
        """Return golden candidates: the worst turns of the worst conversations, as drafts.

        Each question comes once.
        """
        review = await self.review(window, segment, limit)
        return distinct(
            candidate
            for conversation in review["conversations"]
            if (candidate := candidate_of(conversation, self.fingerprint)) is not None
        )

    def _parameters(self, window: Window, segment: str) -> dict[str, Any]:
        return {
            "since": window.since,
            "until": window.until,
            "segment": segment,
            "fingerprint": self.fingerprint,
        }
