"""Where records go that can never be processed, so that the stream goes on without them.

Lines of JSON in a file of the data folder, the payload as base64. Bounded: two files take turns,
and when both are full the older half is given up.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from collector.errors import PermanentDependencyError, TransientDependencyError
from collector.ports import EntryKind, Position, Record
from collector.timing import Clock, SystemClock

DEFAULT_MAX_BYTES = 256 * 1024 * 1024


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a record that is set aside, beside its body."""

    set_aside_at: datetime
    reason: str
    partition: int
    offset: int
    kind: EntryKind
    key: str
    appended_at: float
    body_bytes: int

    @classmethod
    def of(cls, record: Record, reason: str, at: datetime) -> About:
        """Say why and when a record is set aside, and where it comes from."""
        return About(
            set_aside_at=at,
            reason=reason,
            partition=record.position.partition,
            offset=record.position.offset,
            kind=record.kind,
            key=record.key,
            appended_at=record.appended_at,
            body_bytes=len(record.body),
        )

    def letter(self, body: bytes | None, letter_id: str) -> DeadLetter:
        """Return the letter, given what was kept of the body."""
        record = Record(
            position=Position(self.partition, self.offset),
            kind=self.kind,
            key=self.key,
            body=body or b"",
            appended_at=self.appended_at,
        )
        lost = self.body_bytes > 0 and not body
        return DeadLetter(record, self.reason, self.set_aside_at, lost, letter_id)


class _Line(About, frozen=True, kw_only=True):
    """One line. `body` is None where it may not be kept, or is larger than a file may be."""

    body: bytes | None


class DeadLetter(NamedTuple):
    """A record set aside, why and when. `body_lost` where it could or might not be kept."""

    record: Record
    reason: str
    set_aside_at: datetime
    body_lost: bool
    letter_id: str
    """Names it in commands."""


class DeadLetterFile:
    """The dead letters of one data folder.

    Args:
        data_dir: the folder; made if absent.
        max_bytes: most bytes of both files together.
        bodies: whether what records hold may be kept; they are texts of users.
        clock: where the time comes from.
    """

    def __init__(
        self,
        data_dir: Path,
        max_bytes: int = DEFAULT_MAX_BYTES,
        clock: Clock | None = None,
        *,
        bodies: bool = True,
    ) -> None:
        self._bodies = bodies
        self._current = data_dir / "dead-letters.jsonl"
        self._older = data_dir / "dead-letters.old.jsonl"
        self._lock = data_dir / "dead-letters.lock"
        self._max_file_bytes = max_bytes // 2
        self._clock = clock or SystemClock()

    def append(self, record: Record, reason: str) -> None:
        """Durably set a record aside.

        Args:
            record: the record, as read from the journal.
            reason: short machine-readable reason, free of any text of users.

        Raises:
            TransientDependencyError: the file cannot be written now.
        """
        line = self._encode(record, reason, record.body if self._bodies else None)
        if len(line) > self._max_file_bytes:
            line = self._encode(record, reason, None)
        try:
            self._current.parent.mkdir(parents=True, exist_ok=True)
            with _held(self._lock):
                if _size(self._current) + len(line) > self._max_file_bytes:
                    self._current.replace(self._older)
                _append_durably(self._current, line)
        except OSError as err:
            raise TransientDependencyError(f"dead letters: not written: {err.strerror}") from err

    def read(self) -> Iterator[DeadLetter]:
        """Yield what is set aside, oldest first. A line cut short by a crash is left out.

        Raises:
            PermanentDependencyError: a file cannot be read.
        """
        for path in (self._older, self._current):
            try:
                with path.open("rb") as file:
                    for raw in file:
                        if (letter := _decode(raw)) is not None:
                            yield letter
            except FileNotFoundError:
                continue
            except OSError as err:
                raise PermanentDependencyError(
                    f"dead letters: {path.name} cannot be read: {err.strerror}"
                ) from err

    def remove(self, letter_ids: Collection[str]) -> None:
        """Forget dead letters that were replayed; an agent may set others aside meanwhile.

        Raises:
            TransientDependencyError: a file cannot be written now.
        """
        if not letter_ids:
            return
        try:
            with _held(self._lock):
                for path in (self._older, self._current):
                    if path.exists():
                        _keep(path, lambda raw: _id_of(raw) not in letter_ids)
        except OSError as err:
            raise TransientDependencyError(f"dead letters: not written: {err.strerror}") from err

    def _encode(self, record: Record, reason: str, body: bytes | None) -> bytes:
        about = msgspec.structs.asdict(About.of(record, reason, self._clock.now()))
        line = _Line(**about, body=body)
        return msgspec.json.encode(line) + b"\n"


def _decode(raw: bytes) -> DeadLetter | None:
    try:
        line = msgspec.json.decode(raw, type=_Line)
    except msgspec.MsgspecError:
        return None
    return line.letter(line.body, _id_of(raw))


def _id_of(raw: bytes) -> str:
    return hashlib.sha256(raw.strip()).hexdigest()[:12]


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    """Be the only process at work on the files."""
    with open(lock, "ab", opener=_private) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _keep(path: Path, wanted: Callable[[bytes], bool]) -> None:
    """Durably replace a file by those of its lines that are wanted."""
    fresh = path.with_suffix(".new")
    with path.open("rb") as old, open(fresh, "wb", opener=_private) as new:
        new.writelines(raw for raw in old if wanted(raw))
        new.flush()
        os.fsync(new.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _private(path: str, flags: int) -> int:
    """Open a file that is its owner's alone: it holds texts of users."""
    return os.open(path, flags, 0o600)


def _append_durably(path: Path, line: bytes) -> None:
    is_new = not path.exists()
    with open(path, "ab+", opener=_private) as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a crash cut the last line short
                line = b"\n" + line
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a new or renamed file in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
