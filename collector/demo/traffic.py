"""Plays a scenario against an agent: asks, traces, clicks, in the order things happened."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from collector.demo.assistant import Answered, Assistant
from collector.demo.delivery import Delivery
from collector.demo.instrumentation import VERSION, Caller, Told, tell
from collector.demo.scenario import (
    Conversation,
    PlannedSignal,
    Planted,
    Scenario,
    Turn,
    scenario,
)
from collector.demo.script import Channel, TurnKind

__all__ = ["Planted", "Played", "Scenario", "TurnPlayed", "play", "scenario", "steady"]

_FLUSH_SPANS = 48
_FLUSH_SECONDS = 1.0


class TurnPlayed(NamedTuple):
    """One question that was asked and answered. `turn` is 1-based."""

    conversation_id: str
    turn: int
    channel: Channel
    kind: TurnKind
    question: str
    answer: str
    trace_id: str


class Played(msgspec.Struct, kw_only=True):
    """What was sent and taken. `planted` are the failures asked for so far, with trace ids."""

    turns: list[TurnPlayed] = []
    planted: list[Planted] = []
    spans: int = 0
    signals: int = 0

    @property
    def requests(self) -> int:
        """How many questions were asked."""
        return len(self.turns)


async def play(
    scenario: Scenario,
    *,
    otlp_url: str,
    on_turn: Callable[[TurnPlayed], None] | None = None,
    turns_per_second: float | None = None,
    stop: asyncio.Event | None = None,
    assistant: Assistant | None = None,
    version: str = VERSION,
) -> Played:
    """Play a scenario and return once the agent has taken all of it.

    Span times lie in the last few minutes and end about when playing ends.

    Args:
        scenario: what to play.
        otlp_url: address of the agent's OTLP/HTTP port, which takes signals too.
        on_turn: told of each turn after it was asked.
        turns_per_second: pace; None for as fast as it goes.
        stop: ends playing early; what was asked by then is still delivered.
        assistant: who answers; the one with planted failures by default.
        version: service.version of the assistant.

    Raises:
        TransientDependencyError: the agent did not take something within a minute.
        PermanentDependencyError: the agent refused something for good.
    """
    if assistant is None:
        assistant = await asyncio.to_thread(Assistant)
    async with Delivery(otlp_url, version) as delivery:
        player = _Player(scenario, assistant, delivery, turns_per_second)
        began = time.monotonic()
        for number, (conversation, turn) in enumerate(player.order):
            pause = number / turns_per_second if turns_per_second else 0.0
            if await _stopped(stop, began + pause - time.monotonic()):
                break
            played = player.ask(conversation, turn)
            if on_turn is not None:
                on_turn(played)
            await player.flush_if_due()
        await player.flush()
    return player.played


async def steady(
    *,
    otlp_url: str,
    stop: asyncio.Event,
    turns_per_second: float = 2.0,
    on_turn: Callable[[TurnPlayed], None] | None = None,
    seed: int = 8,
    run_id: str | None = None,
    assistant: Assistant | None = None,
    version: str = VERSION,
) -> int:
    """Keep traffic coming, one scenario after the other, until `stop`; return the turns asked.

    Args:
        otlp_url: as for `play`.
        stop: ends the traffic.
        turns_per_second: pace.
        on_turn: told of each turn after it was asked.
        seed: of the first scenario; the following ones count up.
        run_id: prefix of the conversation ids; by default new for each call.
        assistant: as for `play`.
        version: as for `play`.
    """
    run_id = run_id or f"steady-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if assistant is None:
        assistant = await asyncio.to_thread(Assistant)
    asked = 0
    round_number = 0
    while not stop.is_set():
        story = scenario(seed + round_number, run_id=f"{run_id}-{round_number}")
        played = await play(
            story,
            otlp_url=otlp_url,
            on_turn=on_turn,
            turns_per_second=turns_per_second,
            stop=stop,
            assistant=assistant,
            version=version,
        )
        asked += played.requests
        round_number += 1
    return asked


class _Player:
    """One playing of a scenario: whose turn it is, what was said, what is still to be sent."""

    def __init__(
        self,
        story: Scenario,
        assistant: Assistant,
        delivery: Delivery,
        turns_per_second: float | None,
    ) -> None:
        self.played = Played()
        self.order = sorted(
            ((c, turn) for c in story.conversations for turn in c.turns),
            key=lambda pair: (pair[1].offset_seconds, pair[0].conversation_id),
        )
        playing_seconds = story.requests / turns_per_second if turns_per_second else 0.0
        self._stretch = max(1.0, playing_seconds / story.seconds)
        self._zero = time.time() + playing_seconds - story.seconds * self._stretch
        self._assistant = assistant
        self._delivery = delivery
        self._planted = {(p.conversation_id, p.turn): p for p in story.planted}
        self._history: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._early: list[dict[str, Any]] = []
        self._late: list[dict[str, Any]] = []
        self._flushed_at = time.monotonic()

    def ask(self, conversation: Conversation, turn: Turn) -> TurnPlayed:
        """Ask one question, emit its spans and line its signals up."""
        history = self._history[conversation.conversation_id]
        answered = self._assistant.answer(
            turn.question, channel=conversation.channel, history=history
        )
        caller = Caller(conversation.conversation_id, conversation.user_id, tuple(history))
        started = self._zero + turn.offset_seconds * self._stretch
        told = tell(self._delivery.provider, answered, caller, turn.pace, round(started * 1e9))
        history.append((turn.question, answered.answer))
        number = len(history)
        for signal in turn.signals:
            body = _signal(signal, conversation, number, answered, told)
            (self._early if signal.early else self._late).append(body)
        if planted := self._planted.get((conversation.conversation_id, number)):
            self.played.planted.append(msgspec.structs.replace(planted, trace_id=told.trace_id))
        played = TurnPlayed(
            conversation_id=conversation.conversation_id,
            turn=number,
            channel=conversation.channel,
            kind=turn.kind,
            question=turn.question,
            answer=answered.answer,
            trace_id=told.trace_id,
        )
        self.played.turns.append(played)
        return played

    async def flush_if_due(self) -> None:
        """Send what waits once it is enough, or has waited long enough."""
        waited = time.monotonic() - self._flushed_at
        if self._delivery.pending_spans >= _FLUSH_SPANS or waited >= _FLUSH_SECONDS:
            await self.flush()

    async def flush(self) -> None:
        """Send early signals, then the spans they speak of, then the other signals."""
        self._flushed_at = time.monotonic()
        early, late = self._early, self._late
        self._early, self._late = [], []
        self.played.signals += await self._delivery.post_signals(early)
        self.played.spans += await self._delivery.send_spans()
        self.played.signals += await self._delivery.post_signals(late)


def _signal(
    planned: PlannedSignal,
    conversation: Conversation,
    turn: int,
    answered: Answered,
    told: Told,
) -> dict[str, Any]:
    """Return the body of a signal. Its id is stable: sent twice, it counts once."""
    occurred = min(told.ended_ns / 1e9 + planned.delay_seconds, time.time())
    target: dict[str, Any] = {"trace_id": told.trace_id}
    if planned.target == "conversation":
        target = {"conversation_id": conversation.conversation_id}
    elif planned.target == "response" and told.response_id is not None:
        target = {"response_id": told.response_id}
    body = {
        "signal_id": f"{conversation.conversation_id}-{turn}-{planned.kind}",
        "kind": planned.kind,
        "user_id": conversation.user_id,
        "occurred_at": datetime.fromtimestamp(occurred, UTC).isoformat(),
        **target,
    }
    if planned.comment is not None:
        body["comment"] = planned.comment
    if planned.page in {hit.page.page_id for hit in answered.context}:
        body["document_id"] = planned.page
    return body


async def _stopped(stop: asyncio.Event | None, wait_seconds: float) -> bool:
    """Wait, at least for the other tasks to have a turn; say whether to stop."""
    if stop is None:
        await asyncio.sleep(max(0.0, wait_seconds))
        return False
    if wait_seconds <= 0:
        await asyncio.sleep(0)
        return stop.is_set()
    try:
        await asyncio.wait_for(stop.wait(), wait_seconds)
    except TimeoutError:
        return False
    return True
