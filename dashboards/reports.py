"""What people read: estimates, the review of the worst conversations, golden candidates.

Everything is plain data that turns into JSON; the command line, the page and the API show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from collector.conversations import conversation_turns
from collector.doctor import diagnose_rows
from collector.errors import MalformedPayload, UsageError
from collector.labels import Accepted, parse_labels
from collector.model import FAITHFULNESS, SECOND
from collector.model_evaluation import EvalRecord
from collector.ports import Store
from collector.redaction import redact
from collector.worst import worst_conversations
from dashboards.calibration import (
    calibration_of,
    compared,
    to_label,
    with_machine_verdicts,
)
from dashboards.candidate_states import FRESH, CandidateState, states_of
from dashboards.candidates import candidate_of, distinct, known_as, reviewed_candidate, with_state
from dashboards.golden_history import GoldenHistory
from dashboards.golden_traces import ATTRIBUTE, answers_in
from dashboards.measured import Asked, Levels, Measured, levels_of, measure, sums_of_window, told
from dashboards.review.conversation import SHOWN_TURNS, conversation_of
from dashboards.review.week import standing
from dashboards.signals import SignalCounts, signals_told
from dashboards.windows import Window
from scorers.calibration import Calibration
from sinks.rows import storable

SCORER = FAITHFULNESS
_IDS_A_QUERY = 2_000
_QUESTIONS = 5_000
"""Distinct questions that are looked at, the most asked first."""


class Reports:
    """Reads the store and answers in plain data, and takes in what people say.

    Args:
        store: where requests, judgements and signals are; also for the review to write to.
        fingerprint: of the judge whose series is shown; two judges are never mixed.
        scorers: fingerprints of the scorers beside faithfulness, by name.
    """

    def __init__(
        self, store: Store, fingerprint: str, scorers: Mapping[str, str] | None = None
    ) -> None:
        self.store = store
        self.fingerprint = fingerprint
        self._fingerprints = {SCORER: fingerprint, **(scorers or {})}

    names = (
        *("estimates", "review", "candidates", "signals", "doctor"),
        *("calibration", "claims_to_label", "golden_answers", "live_questions"),
    )

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
        if name == "calibration":
            return await self.calibration(**options)
        if name == "claims_to_label":
            return await self.claims_to_label(window, **options)
        if name == "golden_answers":
            return await self.golden_answers(window, **options)
        if name == "live_questions":
            return await self.live_questions(window, **options)
        if name == "review":
            return await self.review(window, **options)
        return await self.estimates(window, **options)

    async def ping(self) -> None:
        """Return if the store answers.

        Raises:
            DependencyError: it does not.
        """
        await self.store.known([""])

    async def estimates(
        self, window: Window, segment: str = "", scorer: str = SCORER
    ) -> dict[str, Any]:
        """Return accounting and estimate per segment and over all.

        Args:
            window: requests started within it count.
            segment: only this one; "" for all.
            scorer: whose scores; requests that it has nothing to score for are ineligible.

        Raises:
            UsageError: that scorer is not configured.
        """
        measured = await self.measured(window, segment, scorer)
        return told(measured, await self.people(measured), segment)

    async def measured(self, window: Window, segment: str = "", scorer: str = SCORER) -> Measured:
        """Return what machines say of a window; for the rest see `estimates`."""
        if (fingerprint := self._fingerprints.get(scorer)) is None:
            there = ", ".join(self._fingerprints)
            raise UsageError([f"scorer: {scorer} is not configured; there are {there}"])
        return await measure(self.store, Asked(scorer, fingerprint, segment), window)

    async def people(self, measured: Measured) -> Calibration:
        """Return how far people agree with the judge of what was measured."""
        return await compared(self.store, measured.asked.fingerprint)

    async def levels(self, window: Window) -> Levels:
        """Return accounting and sums of faithfulness alone, to compare a window with."""
        return await levels_of(self.store, Asked(SCORER, self.fingerprint), window)

    async def review(self, window: Window, segment: str = "", limit: int = 20) -> dict[str, Any]:
        """Return the worst conversations of a window, each once, with why it is here."""
        ranked = await self.worst(window, segment, limit)
        turns = await asyncio.gather(
            *(self.turns(row["conversation"], row["worst_trace_id"]) for row in ranked)
        )
        shown = [signal["signal_id"] for row in ranked for signal in row["signals"]]
        comments = {s.signal_id: s.comment for s in await self.store.signals_with(shown)}
        history = await self.golden_history()
        said = await self.said([trace_id for row in ranked for trace_id in row["trace_ids"]])
        return {
            "since": window.since.isoformat(),
            "until": window.until.isoformat(),
            "judge": {"fingerprint": self.fingerprint, **await self.trust()},
            "conversations": [
                {
                    **conversation_of(row, rows, comments),
                    **standing(row, *said),
                    "golden": history.beside(row),
                }
                for row, rows in zip(ranked, turns, strict=True)
            ],
        }

    async def worst(self, window: Window, segment: str, limit: int) -> list[dict[str, Any]]:
        """Return the rows of the query `worst`."""
        return await worst_conversations(self.store, self._parameters(window, segment), limit)

    async def said(
        self, trace_ids: Sequence[str]
    ) -> tuple[list[dict[str, Any]], list[CandidateState]]:
        """Return labels of the requests, and the candidates that came of them."""
        labels: list[dict[str, Any]] = []
        events: list[dict[str, Any]] = []
        for start in range(0, len(trace_ids), _IDS_A_QUERY):
            ids = list(trace_ids[start : start + _IDS_A_QUERY])
            found, happened = await asyncio.gather(
                self.store.rows("labels_of", {"trace_ids": ids}),
                self.store.rows("candidate_events", {"ids": [], "trace_ids": ids}),
            )
            labels += found
            events += happened
        return labels, list(states_of(events).values())

    async def turns(
        self, conversation: str, worst: str, most: int = SHOWN_TURNS
    ) -> list[dict[str, Any]]:
        """Return the requests of a conversation, those nearest to the worst."""
        return await conversation_turns(
            self.store, conversation, worst, most=most, fingerprint=self.fingerprint
        )

    async def calibration(self) -> dict[str, Any]:
        """Return how far the judge agrees with people, and with the second judge if there is one.

        Over all labels of its claims, and the latest answers that both have judged.
        """
        second = self._fingerprints.get(SECOND)
        return await calibration_of(self.store, self.fingerprint, second)

    async def trust(self) -> dict[str, str]:
        """Return whether the judge is trusted, `trust`, and why, `reason`."""
        found = await self.calibration()
        return {"trust": found["trust"], "reason": found["reason"]}

    async def claims_to_label(
        self, window: Window, segment: str = "", limit: int = 100
    ) -> dict[str, Any]:
        """Return claims for people to label, half of them flagged by the judge, verdicts hidden."""
        parameters = self._parameters(window, segment) | {"limit": limit}
        return {"claims": to_label(await self.store.rows("claims_to_label", parameters))}

    async def accept_labels(self, items: Sequence[Any], at: datetime) -> Accepted:
        """Store labels of people, durably.

        Raises:
            MalformedPayload: nothing was stored; names the label and the field.
        """
        labels = parse_labels(items, at)
        asked = {
            "fingerprint": self.fingerprint,
            "trace_ids": sorted({label.trace_id for label in labels if label.claim}),
        }
        said = await self.store.rows("machine_verdicts", asked)
        noted = with_machine_verdicts(labels, self.fingerprint, said)
        await self.store.write_labels(noted)
        unlisted = sum(bool(n.claim and n.verdict) and n.machine_verdict is None for n in noted)
        return Accepted(len(noted), unlisted)

    async def golden_answers(self, window: Window, attribute: str = ATTRIBUTE) -> dict[str, Any]:
        """Return the requests whose traces carry the id of a golden row, by that id."""
        asked = {"since": window.since, "until": window.until, "text": attribute}
        rows = await self.store.rows("traces_with", asked)
        found = await asyncio.to_thread(answers_in, rows, attribute)
        return {"answers": storable(msgspec.to_builtins(found))}

    async def accept_evaluation(self, item: Any, at: datetime) -> int:
        """Store a part of a run of the golden set, durably; return how many rows it held.

        Raises:
            MalformedPayload: it is none.
        """
        try:
            record = msgspec.convert(item, EvalRecord)
        except msgspec.ValidationError as err:
            raise MalformedPayload(f"the run cannot be read: {err}") from err
        await self.store.write_evaluation(record, at)
        return len(record.rows)

    async def design_effects(self, window: Window) -> dict[tuple[str, str], float]:
        """Return by (service, segment) how much conversations widen the variance."""
        found = await sums_of_window(self.store, Asked(SCORER, self.fingerprint), window)
        return {
            (row["service"], row["segment"]): found.of_pair(row).design_effect
            for row in found.sums
            if row["n"]
        }

    async def known_segments(self, now: datetime) -> list[tuple[str, str]]:
        """Return (service, segment) of the traffic of the last week."""
        parameters = self._parameters(Window(now - timedelta(weeks=1), now), "")
        rows = await self.store.rows("accounting", parameters | {"scorer": SCORER})
        return [(row["service"], row["segment"]) for row in rows]

    async def signals(self, window: Window, segment: str = "") -> dict[str, Any]:
        """Return signals by segment and kind, and how many users they come from.

        Signals count by when they occurred, requests and conversations by when they started.
        """
        return signals_told(window, await self.signal_counts(window), segment)

    async def signal_counts(self, window: Window) -> SignalCounts:
        """Return the rows that `signals` is told from, of all segments."""
        asked = {"since": window.since, "until": window.until}
        return SignalCounts(
            await self.store.rows("signals_summary", asked),
            await self.store.rows("engagement", asked),
        )

    async def doctor(self, window: Window, segment: str = "") -> dict[str, Any]:
        """Return what the stored requests lack for being monitored, and how to get it."""
        asked = {"since": window.since, "until": window.until, "segment": segment}
        return diagnose_rows(await self.store.rows("doctor", asked))

    async def candidates(
        self, window: Window, segment: str = "", limit: int = 50
    ) -> list[dict[str, Any]]:
        """Return golden candidates: the worst turns of the worst conversations, as drafts.

        Each question comes once, with what people did to it. Those still to be decided on or to be
        exported come whenever they were asked.
        """
        review = await self.review(window, segment, limit)
        history = await self.golden_history()
        asked = distinct(
            known_as(candidate, history)
            for conversation in review["conversations"]
            if (candidate := candidate_of(conversation, self.fingerprint)) is not None
        )
        found = [with_state(candidate, history) for candidate in asked]
        listed = {candidate["id"] for candidate in found}
        waiting = (
            reviewed_candidate(state, None)
            for state in history.states
            if state.row is not None
            and state.candidate_id not in listed
            and state.state not in (FRESH, "rejected", "exported")
            and segment in ("", state.row["segment"])
        )
        return [*found, *waiting]

    async def golden_history(self) -> GoldenHistory:
        """Return the candidates that people have touched, and how those exported fare."""
        events = await self.store.rows("candidate_events", {"ids": [], "trace_ids": []})
        states = list(states_of(events).values())
        exported = [one.candidate_id for one in states if one.state == "exported"]
        results = await self.store.rows("golden_results", {"ids": exported}) if exported else []
        return GoldenHistory(states, results)

    async def live_questions(self, window: Window, limit: int = _QUESTIONS) -> dict[str, Any]:
        """Return what users asked, each question of a segment once, personal data masked."""
        asked = {"since": window.since, "until": window.until, "limit": limit}
        rows = await self.store.rows("live_questions", asked)
        return {
            "questions": [
                {**row, "question": row["question"] and redact(row["question"])} for row in rows
            ]
        }

    def _parameters(self, window: Window, segment: str) -> dict[str, Any]:
        return {
            "since": window.since,
            "until": window.until,
            "segment": segment,
            "fingerprint": self.fingerprint,
        }
