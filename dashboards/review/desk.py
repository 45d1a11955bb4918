"""What people do in the weekly review: read the worst conversations, label, fill the golden set."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec

from collector.candidates import CandidateAction, CandidateEvent, parse_action
from collector.config import ReviewConfig
from collector.errors import Conflict, MalformedPayload, UsageError
from collector.labels import Accepted
from collector.plain import plain
from dashboards.candidate_states import CandidateState, check, states_of
from dashboards.candidates import candidate_of, reviewed_row
from dashboards.reports import Reports
from dashboards.review.conversation import cut, signal_of, turn_of
from dashboards.review.numbers import MOST_LISTED, Numbers, numbers_told
from dashboards.review.view import timeline, turns_of
from dashboards.review.week import listed, matching, progress
from dashboards.windows import Window
from sinks import golden_file

Row = Mapping[str, Any]

_CLAIMS_A_SAMPLE = 40
_ORDERS_KEPT = 64
_SOURCES_SHOWN = 12
_SOURCES_SPAN = timedelta(weeks=4)
_MOST_WORDS = 2_000


class Desk:
    """Reads for the pages and writes what people decide. One per process.

    Args:
        reports: where data come from; its store is written to.
        config: of the review page.
    """

    def __init__(self, reports: Reports, config: ReviewConfig) -> None:
        self.reports = reports
        self.config = config
        # Looking and writing is one step: of two people who are at the same, one is told so.
        self._writing = asyncio.Lock()
        self._orders: OrderedDict[Hashable, list[dict[str, Any]]] = OrderedDict()
        self.numbers = Numbers(reports)

    async def week(
        self,
        window: Window,
        *,
        segment: str = "",
        limit: int = 20,
        words: str = "",
        state: str = "",
        key: Hashable = None,
        now: datetime | None = None,
    ) -> dict[str, Any]:
        """Return the state of a window beside the one before it, and its worst conversations.

        Args:
            window: to look at.
            segment: only this one; "" for all.
            limit: most conversations listed.
            words: only conversations that hold all of them; "" for all.
            state: only conversations in it, see `week.STATES`; "" for all.
            key: the list is remembered under, for `neighbours`; None for not at all.
            now: the time, for a forecast where the window is not over.
        """
        seen, worst = await asyncio.gather(
            self.numbers.seen(window), self._listed(window, segment, limit, words, state)
        )
        # What people say is always read anew.
        people = await self.reports.people(seen.glance.measured)
        if key is not None:
            self._remember(key, worst["conversations"])
        return {
            "since": window.since.isoformat(),
            "until": window.until.isoformat(),
            "as_of": min(seen.at, worst.pop("at")).isoformat(),
            **numbers_told(seen, window, people, segment, now),
            **worst,
        }

    async def _listed(
        self, window: Window, segment: str, limit: int, words: str, state: str
    ) -> dict[str, Any]:
        most = MOST_LISTED if words or state else limit
        kept = await self.numbers.worst(window, segment, most)
        rows = kept.value
        said = await self.reports.said([trace_id for row in rows for trace_id in row["trace_ids"]])
        history = await self.reports.golden_history()
        found = [
            {**item, "golden": history.beside(row)}
            for item, row in zip(listed(rows, *said), rows, strict=True)
        ]
        items = matching(found, rows, words[:_MOST_WORDS])
        return {
            "at": kept.at,
            "progress": progress(items[:limit]),
            "conversations": [one for one in items if state in ("", one["state"])][:limit],
        }

    async def neighbours(
        self, key: Hashable, window: Window, segment: str, limit: int, words: str, state: str
    ) -> list[dict[str, Any]]:
        """Return the list as it was last shown under `key`, so that it stays while one works."""
        if key not in self._orders:
            worst = await self._listed(window, segment, limit, words, state)
            self._remember(key, worst["conversations"])
        return self._orders[key]

    def _remember(self, key: Hashable, items: list[dict[str, Any]]) -> None:
        self._orders[key] = items
        self._orders.move_to_end(key)
        while len(self._orders) > _ORDERS_KEPT:
            self._orders.popitem(last=False)

    async def conversation(
        self, name: str, *, reviewer: str = "", focus: str = "", blind: bool = False
    ) -> dict[str, Any] | None:
        """Return a conversation with what people said of it; None where it is not stored.

        Args:
            name: its id, or the trace id of a request without one.
            reviewer: whose labels are their own.
            focus: trace id of the turn to open.
            blind: leave out what the judge says until the reviewer has labelled it.
        """
        rows = await self.reports.turns(name, focus)
        if not rows:
            return None
        shown = [s for row in rows for s in (*row["signals"], *row["conversation_signals"])]
        (labels, candidates), signals = await asyncio.gather(
            self.reports.said([row["trace_id"] for row in rows]),
            self.reports.store.signals_with([signal["signal_id"] for signal in shown]),
        )
        comments = {signal.signal_id: signal.comment for signal in signals}
        return {
            "conversation_id": name,
            "judge": self.reports.fingerprint,
            "turns": turns_of(
                rows, labels, candidates, reviewer=reviewer, focus=focus, blind=blind
            ),
            "turns_left_out": rows[0]["turns_total"] - len(rows),
            "timeline": [
                {
                    **item,
                    "at": item["at"].isoformat(),
                    "signal": item["signal"]
                    and signal_of(item["signal"], item["signal"]["comment"]),
                }
                for item in timeline(rows, comments)
            ],
        }

    async def sample(
        self, window: Window, segment: str, reviewer: str, most: int = _CLAIMS_A_SAMPLE
    ) -> list[dict[str, Any]]:
        """Return claims drawn by chance, as the page shows one whose verdict is hidden.

        Args:
            window: in which their requests came.
            segment: only this one; "" for all.
            reviewer: whose labels are their own.
            most: how many claims.
        """
        drawn = (await self.reports.claims_to_label(window, segment, most))["claims"]
        labels, _ = await self.reports.said(sorted({claim["trace_id"] for claim in drawn}))
        own = {
            (label["trace_id"], label["claim"]): label
            for label in labels
            if label["labeller"] == reviewer and label["verdict"]
        }
        return [
            {
                "trace_id": claim["trace_id"],
                "number": number,
                "text": claim["claim"],
                "probability": claim["probability"],
                "question": cut(claim["question"]),
                "answer": cut(claim["answer"]),
                "documents": [cut(text) for text in claim["documents"]],
                "own": _dated(own.get((claim["trace_id"], claim["claim"]))),
                "hidden": True,
                "others": [],
                **dict.fromkeys(("verdict", "quote", "document_rank", "note")),
            }
            for number, claim in enumerate(drawn, 1)
        ]

    async def request(self, trace_id: str) -> dict[str, Any] | None:
        """Return everything that is stored of a request, as plain data."""
        found = (await self.reports.store.requests([trace_id])).get(trace_id)
        if found is None:
            return None
        told: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(found, telemetry=b""))
        del told["telemetry"]
        return told

    async def accept_labels(self, items: Sequence[Any], at: datetime) -> Accepted:
        """Store labels of people, durably.

        An item may say what it replaces, `seen`: `labelled_at` of that person's label as it was
        shown, null for none.

        Raises:
            MalformedPayload: nothing was stored; names the label and the field.
            Conflict: nothing was stored; the same person labelled it in another place meanwhile.
        """
        async with self._writing:
            seen = (item for item in items if isinstance(item, Mapping) and "seen" in item)
            asked = {str(item.get("trace_id")) for item in seen}
            if asked:
                found = await self.reports.store.rows("labels_of", {"trace_ids": sorted(asked)})
                held = {(one["trace_id"], one["claim"], one["labeller"]): one for one in found}
                items = [_beside(item, held) for item in items]
            return await self.reports.accept_labels(items, at)

    async def draft(self, trace_id: str) -> dict[str, Any] | None:
        """Return the golden row that a request would make, and where its candidate stands.

        None where the request is not stored or holds no question.
        """
        stored = (await self.reports.store.requests([trace_id])).get(trace_id)
        if stored is None:
            return None
        name = stored.request.conversation_id or trace_id
        rows = await self.reports.turns(name, trace_id, 1)
        if not rows:
            return None
        turn = turn_of(rows[0])
        signals = [*rows[0]["signals"], *rows[0]["conversation_signals"]]
        about = {
            "conversation_id": name,
            "worst_trace_id": trace_id,
            "segment": rows[0]["segment"],
            "reasons": [],
            "signals": signals,
            "turns": [turn],
        }
        made = candidate_of(about, self.reports.fingerprint)
        if made is None:
            return None
        return {
            "made": made,
            "turn": turn,
            "conversation_id": name,
            "candidate": await self.candidate(made["id"]),
        }

    async def candidate(self, candidate_id: str) -> CandidateState:
        """Return where a candidate stands; one that nobody touched is unreviewed."""
        asked = {"ids": [candidate_id], "trace_ids": []}
        events = await self.reports.store.rows("candidate_events", asked)
        return states_of(events).get(candidate_id) or CandidateState(candidate_id=candidate_id)

    async def reviewed(self) -> list[CandidateState]:
        """Return all candidates that people have touched."""
        events = await self.reports.store.rows("candidate_events", {"ids": [], "trace_ids": []})
        return list(states_of(events).values())

    async def act(self, candidate_id: str, item: Any, at: datetime) -> CandidateState:
        """Do something to a candidate, durably; return where it stands then.

        Raises:
            MalformedPayload: it cannot be done; names the field and the cure.
            Conflict: somebody did something that whoever acts has not seen.
        """
        action = parse_action(item)
        async with self._writing:
            return await self._act(candidate_id, action, at)

    async def _act(
        self, candidate_id: str, action: CandidateAction, at: datetime
    ) -> CandidateState:
        now = await self.candidate(candidate_id)
        check(action, now)
        trace_id = now.trace_id or action.trace_id
        payload: dict[str, Any] = {}
        if action.row is not None:
            payload["row"] = msgspec.to_builtins(action.row)
        if action.file is not None:
            payload["file"] = action.file
        if not now.version:
            payload["provenance"] = await self._provenance(candidate_id, trace_id)
        event = CandidateEvent(
            candidate_id=candidate_id,
            happened_at=at,
            event_id=uuid4().hex,
            event=action.event,
            actor=action.actor,
            trace_id=trace_id,
            payload=payload,
        )
        await self.reports.store.write_candidate_events([event])
        return await self.candidate(candidate_id)

    async def _provenance(self, candidate_id: str, trace_id: str | None) -> dict[str, Any]:
        found = await self.draft(trace_id) if trace_id else None
        if found is None or found["made"]["id"] != candidate_id:
            raise MalformedPayload("trace_id: must be that of the request the question comes from")
        provenance: dict[str, Any] = found["made"]["provenance"]
        return provenance

    async def similar(self, question: str) -> list[dict[str, Any]]:
        """Return golden rows that ask nearly the same; [] without a golden file.

        Raises:
            UsageError: the golden file cannot be read.
        """
        path = self.config.golden_file
        if path is None or not path.exists():
            return []
        rows = await asyncio.to_thread(golden_file.load, path)
        return [
            {
                "id": one.row.id,
                "question": one.row.question,
                "score": one.score,
                "same": one.same,
            }
            for one in golden_file.similar(question[:_MOST_WORDS], rows)
        ]

    async def sources(self, words: str, now: datetime) -> list[dict[str, Any]]:
        """Return pages of the last four weeks whose id or title holds the words."""
        asked = {
            "since": now - _SOURCES_SPAN,
            "until": now,
            "words": words[:_MOST_WORDS],
            "limit": _SOURCES_SHOWN,
        }
        return await self.reports.store.rows("sources", asked)

    async def export(self, actor: str, at: datetime) -> dict[str, Any]:
        """Add what is accepted to the golden file; return ids `added` and `already_there`.

        Raises:
            UsageError: there is no golden file, or it cannot be read or written.
        """
        path = self.config.golden_file
        if path is None:
            raise UsageError(["review.golden_file: name the file to add to in the configuration"])
        async with self._writing:  # what is written to the file is not taken back meanwhile
            accepted = {
                one.candidate_id: one for one in await self.reviewed() if one.state == "accepted"
            }
            rows = [reviewed_row(one) for one in accepted.values()]
            result = await asyncio.to_thread(golden_file.append, path, rows)
            there = {one.row.id: one.same_as for one in result.duplicates}
            added = [row.id for row in result.added]
            # An export that was cut short has rows in the file that nobody marked.
            for name in [*added, *(name for name, same_as in there.items() if name == same_as)]:
                done = {"event": "exported", "actor": actor, "seen": accepted[name].version}
                await self._act(name, parse_action({**done, "file": path.name}), at)
        return {"file": str(path), "added": added, "already_there": there}


def _dated(label: Row | None) -> Row | None:
    return label and {**label, "labelled_at": label["labelled_at"].isoformat()}


def _beside(item: Any, held: Mapping[tuple[str, str, str], Row]) -> Any:
    """Check one label against the one it replaces; a claim once drawn by chance stays so."""
    if not isinstance(item, Mapping) or "seen" not in item:
        return item
    labeller = plain(str(item.get("labeller")))
    key = (str(item.get("trace_id")), str(item.get("claim") or ""), labeller)
    old = held.get(key)
    if old is not None and not (old["verdict"] or old["cause"] or old["note"]):
        old = None  # taken back
    if (old["labelled_at"].isoformat() if old else None) != item["seen"]:
        did = "labelled this" if old else "took this label back"
        raise Conflict(
            f"{key[2]} {did} in another window meanwhile; nothing was saved. "
            "Look at it as it is now, then decide again."
        )
    if old is not None and old["drawn"]:
        return {**item, "drawn": True, "probability": old["probability"]}
    return item
