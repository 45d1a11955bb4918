"""What happens in the demo: conversations, planted failures and signals, drawn from one seed."""

from __future__ import annotations

import random
from typing import Literal

import msgspec

from collector.demo.script import (
    Channel,
    FailureKind,
    GoodAnswer,
    PlantedAnswer,
    Refusal,
    Script,
    ScriptedSignal,
    TurnKind,
    load_script,
)
from collector.model import SignalKind

NEGATIVE: frozenset[SignalKind] = frozenset({"thumbs_down", "rephrase", "regenerate", "abandon"})
"""Signals that say that the user was not helped."""

_STARTS_WITHIN_SECONDS = 120.0
_LONGEST_TURN_SECONDS = 4.0
_MAX_TURNS = 4
_USERS = 60

FoundBy = Literal["signal", "claims", "both"]
Target = Literal["trace", "response", "conversation"]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long the parts of a turn take, in milliseconds."""

    retriever_ms: float
    reranker_ms: float
    first_token_ms: float
    per_token_ms: float


class PlannedSignal(msgspec.Struct, frozen=True, kw_only=True):
    """What a user will do about an answer.

    `target` is the id it names; `early` signals are sent before the trace of their answer.
    """

    kind: SignalKind
    target: Target
    early: bool
    delay_seconds: float
    comment: str | None = None
    page: str | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One question. `offset_seconds` counts from the start of the scenario."""

    question: str
    kind: TurnKind
    offset_seconds: float
    pace: Pace
    signals: list[PlannedSignal] = []


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of one user, in order."""

    conversation_id: str
    user_id: str
    channel: Channel
    turns: list[Turn]


class Planted(msgspec.Struct, frozen=True, kw_only=True):
    """A failure that was planted, and what gives it away.

    `turn` is 1-based. `found_by` is `signal` for a negative signal on its turn, `claims` where a
    judge that checks claims against the context can see it. `trace_id` is known once played.
    """

    kind: FailureKind
    conversation_id: str
    turn: int
    question: str
    found_by: FoundBy
    trace_id: str | None = None


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """All that one run of the demo plays."""

    seed: int
    run_id: str
    conversations: list[Conversation]
    planted: list[Planted]

    @property
    def requests(self) -> int:
        """How many questions are asked."""
        return sum(len(conversation.turns) for conversation in self.conversations)

    @property
    def seconds(self) -> float:
        """How long the scenario lasts from the first question to the last answer."""
        last = max(turn.offset_seconds for c in self.conversations for turn in c.turns)
        return last + _LONGEST_TURN_SECONDS


class _Draft(msgspec.Struct, kw_only=True):
    """A conversation before it has its id: its channel, and question, kind and item by turn."""

    channel: Channel
    asked: list[tuple[str, TurnKind, GoodAnswer | PlantedAnswer | Refusal]]


def scenario(seed: int = 7, *, run_id: str = "demo", script: Script | None = None) -> Scenario:
    """Draw a scenario: every planted failure and every other question of the script, once.

    The same arguments give the same scenario.

    Args:
        seed: what the order, the company and the users' moods are drawn from.
        run_id: prefix of the conversation ids, so that a second run adds conversations.
        script: the script, where it is read already.
    """
    script = script or load_script()
    rng = random.Random(seed)  # noqa: S311 - a story, not a secret
    drafts = _drafts(script, rng)
    rng.shuffle(drafts)
    conversations: list[Conversation] = []
    planted: list[Planted] = []
    for number, draft in enumerate(drafts, start=1):
        conversation_id = f"{run_id}-{number:03d}"
        conversations.append(_conversation(conversation_id, draft, rng))
        planted += _planted_in(conversation_id, draft)
    return Scenario(seed=seed, run_id=run_id, conversations=conversations, planted=planted)


def _drafts(script: Script, rng: random.Random) -> list[_Draft]:
    pool = [(question, good) for good in script.answers for question in good.questions]
    rng.shuffle(pool)
    drafts = [_around_planted(item, pool, rng) for item in script.planted]
    for refusal in script.unanswerable:
        draft = _Draft(channel=_any_channel(rng), asked=[])
        draft.asked += _good_turns(pool, rng.choice([0, 1]), avoid=[])
        draft.asked.append((refusal.question, "right_refusal", refusal))
        drafts.append(draft)
    while pool:
        turns = _good_turns(pool, rng.randint(1, _MAX_TURNS), avoid=[])
        drafts.append(_Draft(channel=_any_channel(rng), asked=turns))
    return drafts


def _around_planted(
    item: PlantedAnswer, pool: list[tuple[str, GoodAnswer]], rng: random.Random
) -> _Draft:
    draft = _Draft(channel=item.channel, asked=[])
    draft.asked += _good_turns(pool, rng.choice([0, 0, 1, 2]), avoid=item.sources)
    draft.asked.append((item.question, item.kind, item))
    if item.rephrased is not None:
        draft.asked.append((item.rephrased, "good", item))
    if len(draft.asked) < _MAX_TURNS:
        draft.asked += _good_turns(pool, rng.choice([0, 0, 1]), avoid=item.sources)
    return draft


def _good_turns(
    pool: list[tuple[str, GoodAnswer]], count: int, avoid: list[str]
) -> list[tuple[str, TurnKind, GoodAnswer | PlantedAnswer | Refusal]]:
    """Take questions from the pool that share no page with `avoid` or with each other.

    A conversation that stays on one page would look like one that keeps asking again.
    """
    taken: list[tuple[str, TurnKind, GoodAnswer | PlantedAnswer | Refusal]] = []
    seen = set(avoid)
    for index in range(len(pool) - 1, -1, -1):
        if len(taken) == count:
            break
        question, good = pool[index]
        if seen.isdisjoint(good.sources):
            del pool[index]
            seen.update(good.sources)
            taken.append((question, "good", good))
    return taken


def _conversation(conversation_id: str, draft: _Draft, rng: random.Random) -> Conversation:
    offset = rng.uniform(0, _STARTS_WITHIN_SECONDS)
    turns = []
    for question, kind, item in draft.asked:
        turns.append(
            Turn(
                question=question,
                kind=kind,
                offset_seconds=round(offset, 3),
                pace=_pace(rng),
                signals=_signals(kind, item, rng),
            )
        )
        offset += rng.uniform(2 * _LONGEST_TURN_SECONDS, 5 * _LONGEST_TURN_SECONDS)
    return Conversation(
        conversation_id=conversation_id,
        user_id=f"user-{rng.randint(1, _USERS):02d}",
        channel=draft.channel,
        turns=turns,
    )


def _pace(rng: random.Random) -> Pace:
    return Pace(
        retriever_ms=rng.uniform(18, 90),
        reranker_ms=rng.uniform(35, 140),
        first_token_ms=min(1500.0, 420 * rng.lognormvariate(0, 0.4)),
        per_token_ms=rng.uniform(11, 22),
    )


def _signals(
    kind: TurnKind, item: GoodAnswer | PlantedAnswer | Refusal, rng: random.Random
) -> list[PlannedSignal]:
    if isinstance(item, PlantedAnswer) and kind != "good":
        return [_scripted(signal, rng) for signal in item.signals]
    mood = rng.random()
    if isinstance(item, Refusal):
        return [_plan("thumbs_down", rng)] if mood < 0.2 else []
    # Most users say nothing, most of those who do are content, and some are never content.
    by_mood: tuple[tuple[float, SignalKind], ...] = (
        (0.12, "thumbs_up"),
        (0.20, "copy"),
        (0.28, "citation_click"),
        (0.30, "thumbs_down"),
    )
    chosen = next((signal for below, signal in by_mood if mood < below), None)
    if chosen is None:
        return []
    page = item.sources[0] if chosen == "citation_click" else None
    target: Target = "response" if rng.random() < 0.3 else "trace"
    return [_plan(chosen, rng, page=page, target=target)]


def _scripted(signal: ScriptedSignal, rng: random.Random) -> PlannedSignal:
    target: Target = "conversation" if signal.kind == "abandon" else "trace"
    return _plan(signal.kind, rng, comment=signal.comment, page=signal.page, target=target)


def _plan(
    kind: SignalKind,
    rng: random.Random,
    *,
    comment: str | None = None,
    page: str | None = None,
    target: Target = "trace",
) -> PlannedSignal:
    return PlannedSignal(
        kind=kind,
        target=target,
        early=rng.random() < 0.3,
        delay_seconds=round(rng.uniform(1, 5), 3),
        comment=comment,
        page=page,
    )


def _planted_in(conversation_id: str, draft: _Draft) -> list[Planted]:
    return [
        Planted(
            kind=item.kind,
            conversation_id=conversation_id,
            turn=number,
            question=question,
            found_by=found_by(item),
        )
        for number, (question, kind, item) in enumerate(draft.asked, start=1)
        if isinstance(item, PlantedAnswer) and kind != "good"
    ]


def found_by(item: PlantedAnswer) -> FoundBy:
    """Return what gives a planted failure away.

    Raises:
        ValueError: nothing does, so nobody could ever find it.
    """
    signalled = any(signal.kind in NEGATIVE for signal in item.signals)
    if signalled and item.claims_found:
        return "both"
    if signalled:
        return "signal"
    if item.claims_found:
        return "claims"
    raise ValueError(f"planted.{item.id}: neither a negative signal nor a false claim shows it")


def _any_channel(rng: random.Random) -> Channel:
    """Draw a channel so that both get about half: most planted failures are on the web."""
    return "app" if rng.random() < 0.6 else "web"
