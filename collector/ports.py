"""What the core needs from the outside, as protocols. Adapters implement them; tests fake them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from collector.candidates import CandidateEvent
from collector.labels import Label
from collector.model import Calibration, Decision, Judgement, RagRequest, Signal, StoredRequest
from collector.model_evaluation import EvalRecord

TELEMETRY = "telemetry"
SIGNALS = "signals"
JUDGE = "judge"
CONVERSATIONS = "conversations"
DEAD_LETTERS = "dead-letters"

EntryKind = Literal[
    "otlp_traces", "otlp_logs", "signals", "judge_task", "conversation", "trace", "complaint"
]


class Entry(NamedTuple):
    """One message to append to the journal.

    `body` is, by kind: a protobuf ExportTraceServiceRequest, a protobuf
    ExportLogsServiceRequest, a JSON array of `Signal`, a msgpack `JudgeTask`, nothing (the key
    says which conversation has a new turn, or about which trace a stored signal may be), or (in
    dead letters only) an encoded `Trace`.
    `key` groups what must meet in one consumer (a trace id, for `conversation` a conversation id;
    "" where a body holds several).
    """

    topic: str
    kind: EntryKind
    key: str
    body: bytes


class Position(NamedTuple):
    """Where a record lies. Offsets grow by partition and are never reused."""

    partition: int
    offset: int


class Record(NamedTuple):
    """One message as read back from the journal. `appended_at` is Unix seconds."""

    position: Position
    kind: EntryKind
    key: str
    body: bytes
    appended_at: float


LetGo = Callable[[set[int]], Awaitable[None]]
"""Finishes what was read of some partitions, commits, and forgets them."""


class Consumer(Protocol):
    """One member of a consumer group on one topic. Reading does not remove; committing does.

    The partitions of a topic are shared out among the members of a group. In a journal of one
    process there is one partition, and one member at a time is given its records. On a broker
    partitions move when members come, go or fall silent.
    """

    @property
    def share(self) -> float:
        """Part of the topic's partitions that is this member's now, one partition at least."""
        ...

    def before_letting_go(self, finish: LetGo) -> None:
        """Have `finish` called before partitions move to another member, and wait for it.

        It has a limited time; after that, or where a member was silent for too long, they move
        all the same and a commit of them does nothing. Records of a partition that comes back
        are only given out once it has ended.
        """
        ...

    async def poll(self, max_records: int, timeout_seconds: float) -> list[Record]:
        """Return the next records in order, at most `max_records`, [] after the time-out.

        Each record is returned once per consumer life; a new consumer of the group starts at
        the committed position.

        Raises:
            TransientDependencyError: the journal cannot be read now.
        """
        ...

    async def commit(self, next_offsets: dict[int, int]) -> None:
        """Durably record, per partition, the first offset not yet done. Never goes back.

        Raises:
            TransientDependencyError: not recorded; commit again later.
        """
        ...

    async def lag(self) -> tuple[int, float]:
        """Return how many records are not yet committed, and the age in seconds of the oldest."""
        ...

    async def close(self) -> None:
        """Stop reading. Uncommitted records stay for the next consumer. May be called twice."""
        ...


class Journal(Protocol):
    """A durable, bounded, replayable log of topics.

    Records of one key come back in the order they were appended; all records of a topic do in a
    journal of one partition. Beyond what is said here the two journals differ: the file refuses
    appends at a size of its own, keeps a record until every group is done with it, appends all
    entries or none, and gives a record out as soon as it is appended. A broker keeps records for
    a set time, done or not; an append that fails may be there in part; and a record may take a
    moment until a poll finds it.
    """

    async def append(self, entries: Sequence[Entry]) -> None:
        """Append all entries; return once they are durable.

        Raises:
            Overloaded: the journal is at its bound; nothing was appended.
            TransientDependencyError: writing failed; what was appended is unknown, so a retry
                may double it. Readers cope with doubles.
        """
        ...

    async def consumer(self, topic: str, group: str) -> Consumer:
        """Join a consumer group. A group's committed position survives restarts."""
        ...

    async def close(self) -> None:
        """Flush and release the journal. May be called twice."""
        ...


class Known(NamedTuple):
    """What the store already holds of a trace that is seen again.

    `telemetry` is the encoded `Trace` behind the stored version, b"" once it has been dropped;
    `ineligible` is as in `StoredRequest`.
    """

    version: int
    decision: Decision
    telemetry: bytes
    ineligible: str | None = None


class Fragment(NamedTuple):
    """Part of a trace that tells of no request yet: an encoded `Trace`, and how much it says."""

    trace_id: str
    version: int
    telemetry: bytes


class Store(Protocol):
    """The analytical store: requests, judgements and signals, idempotent by key.

    Every write may be repeated with the same content, also after a crash: readers never see a
    row twice. Every method raises TransientDependencyError or PermanentDependencyError.
    """

    async def known(self, trace_ids: Sequence[str]) -> dict[str, Known]:
        """Return what is stored of the newest version of those of the given traces it has."""
        ...

    async def requests(self, trace_ids: Sequence[str]) -> dict[str, StoredRequest]:
        """Return the newest version of the given traces in full, `telemetry` left empty."""
        ...

    async def fragments(self, trace_ids: Sequence[str]) -> dict[str, bytes]:
        """Return the `telemetry` of the fullest fragment of those of the traces that have any."""
        ...

    async def keep_fragments(self, fragments: Sequence[Fragment]) -> None:
        """Durably keep fragments for as long as raw spans are kept."""
        ...

    async def write_requests(self, rows: Sequence[StoredRequest]) -> None:
        """Durably store the rows. Of several versions of a trace, readers see the highest."""
        ...

    async def write_judgements(
        self, rows: Sequence[Judgement], started_at: dict[str, datetime]
    ) -> None:
        """Durably store judgements, unique by (trace_id, scorer, fingerprint).

        A judgement of a higher `request_version` replaces a lower one.

        Args:
            rows: the judgements.
            started_at: start of the judged request by trace id; rows lie in its partition.
        """
        ...

    async def judged_versions(self, trace_ids: Sequence[str], fingerprint: str) -> dict[str, int]:
        """Return, for those of the traces already judged or failed, the request version judged."""
        ...

    async def judgement_of(self, content_hash: str, fingerprint: str) -> Judgement | None:
        """Return the latest judgement with a score of exactly this content, if there is one."""
        ...

    async def write_evaluation(self, record: EvalRecord, at: datetime) -> None:
        """Durably store rows of a run of the golden set; its summary makes the run known.

        Args:
            record: of several with the same run and question, the last one counts.
            at: when it is written.
        """
        ...

    async def write_signals(self, rows: Sequence[Signal]) -> None:
        """Durably store signals, unique by signal_id; the latest `occurred_at` wins."""
        ...

    async def signals_with(self, signal_ids: Sequence[str]) -> list[Signal]:
        """Return those of the signals that are stored, each by its latest word."""
        ...

    async def candidates(self, signals: Sequence[Signal], since: datetime) -> list[str]:
        """Return the trace ids of stored requests that any of the signals may be about.

        Args:
            signals: with any kind of target.
            since: requests filed before this are left out, unless a signal has their trace id.
        """
        ...

    async def complaints(self, rows: Sequence[StoredRequest], since: datetime) -> list[Signal]:
        """Return the stored signals that say no and may be about any of the requests.

        Args:
            rows: requests, stored or not.
            since: signals received before this are left out.
        """
        ...

    async def write_labels(self, labels: Sequence[Label]) -> None:
        """Durably store labels of people; by trace, claim and labeller the latest counts."""
        ...

    async def write_candidate_events(self, events: Sequence[CandidateEvent]) -> None:
        """Durably store what happened to golden candidates, unique by event_id."""
        ...

    async def save_state(self, name: str, version: int, body: bytes) -> None:
        """Durably keep a small running state; of several of a name the highest version counts."""
        ...

    async def state(self, name: str) -> bytes | None:
        """Return the state kept under a name, None where there is none."""
        ...

    async def write_calibration(self, calibration: Calibration) -> None:
        """Durably store a calibration, unique by scorer, fingerprint and version."""
        ...

    async def rows(self, query: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Run the named read-only query of `sinks/queries` and return its rows as dicts."""
        ...

    async def close(self) -> None:
        """Finish running calls and release the store. May be called twice."""
        ...


class DeadLetters(Protocol):
    """Where records go that can never be processed, with the reason, to be looked at later."""

    def append(self, record: Record, reason: str) -> None:
        """Durably set one record aside."""
        ...


class Spending(NamedTuple):
    """US dollars: spent and set aside in the UTC day, and spent in the last hour."""

    today_usd: float
    reserved_usd: float
    last_hour_usd: float


class Ledger(Protocol):
    """Durable record of money, shared by all workers that are to share a daily budget.

    Every method raises TransientDependencyError where nothing can be recorded now.
    """

    async def reserve(
        self, usd: float, limit_usd: float | None, at: datetime, *, lasting: bool = False
    ) -> str | None:
        """Set money aside for the UTC day of `at`, in one step with the check of the limit.

        `lasting`: it may be settled by another process, after this one has ended.

        Returns:
            A handle to settle with; None if the day would exceed `limit_usd`, then nothing is done.
        """
        ...

    async def settle(self, reservation: str, usd: float) -> None:
        """Put what was really spent in place of what was set aside. Repeating it does nothing."""
        ...

    async def spending(self, at: datetime) -> Spending:
        """Return what the UTC day of `at` holds, and the hour before `at`."""
        ...

    async def close(self) -> None:
        """Release the record. May be called twice."""
        ...


class BatchAnswer(NamedTuple):
    """The answer to a call of a batch; `status` is that of HTTP, 0 where there was none."""

    status: int
    body: bytes


class BatchCalls(Protocol):
    """Durable record of calls that are made in batches, by a key that names their content.

    A call is waiting, then sent as a part of a batch, then answered. Every method raises
    TransientDependencyError where nothing can be recorded now.
    """

    async def answer(self, key: str) -> BatchAnswer | None:
        """Return the answer to a call, None where there is none yet."""
        ...

    async def add(self, key: str, body: bytes, at: datetime, *, again: bool = False) -> None:
        """Let a call wait for the next batch, unless it waits, is sent or answered already.

        `again`: one that was answered waits anew, its answer is forgotten. Else an answer that
        came since it was looked for would be paid for twice.
        """
        ...

    async def take(self, since: datetime, most: int) -> list[tuple[str, bytes]]:
        """Return the oldest waiting calls, none while all came after `since`."""
        ...

    async def sending(self, batch: str, keys: Sequence[str]) -> None:
        """Note, before it is sent, which calls a batch of this name of ours is to hold."""
        ...

    async def sent(self, batch: str, batch_id: str, reservation: str | None) -> None:
        """Note the provider's id of a batch and the money set aside for it."""
        ...

    async def not_sent(self, batch: str) -> None:
        """Let the calls of a batch that was never made wait again."""
        ...

    async def batches(self) -> list[tuple[str, str | None, str | None]]:
        """Return name, provider's id (None where it is not known) and reservation of all open."""
        ...

    async def ended(self, batch: str, answers: Mapping[str, BatchAnswer]) -> None:
        """Note the answers of a batch; calls of it without one are answered with status 0."""
        ...

    async def finished(self, keys: Sequence[str], at: datetime) -> None:
        """Note that nobody needs the answers to these calls any more."""
        ...

    async def forget(self, before: datetime) -> None:
        """Delete, for good, what was finished before, and what is days older than that."""
        ...

    async def close(self) -> None:
        """Release the record. May be called twice."""
        ...


class Judge(Protocol):
    """Scores one answer: for faithfulness, claim by claim, or as another scorer does."""

    @property
    def fingerprint(self) -> str:
        """Model, prompt sha and scorer version in one short string."""
        ...

    async def judge(self, request: RagRequest) -> Judgement:
        """Return a judgement. Never raises for a failed judgement: status `failed` says why.

        Raises:
            Postponed, TransientDependencyError: nothing can be said about this answer now.
        """
        ...

    async def close(self) -> None:
        """Release connections. May be called twice."""
        ...
