from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.errors import TransientDependencyError
from collector.ports import Position, Record
from sinks.dead_letters import DeadLetterFile

NOW = datetime(2026, 11, 4, tzinfo=UTC)


class FixedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def record(offset: int, body: bytes = b"\x00\xff not text") -> Record:
    return Record(Position(3, offset), "otlp_traces", "0af7", body, 1762214400.5)


def letters(folder: Path, max_bytes: int = 1_000_000) -> DeadLetterFile:
    return DeadLetterFile(folder, max_bytes, FixedClock())


def test_what_is_set_aside_reads_back_in_order_after_a_restart(tmp_path: Path) -> None:
    for offset in range(3):
        letters(tmp_path / "data").append(record(offset), "malformed")
    found = list(letters(tmp_path / "data").read())
    assert [letter.record for letter in found] == [record(0), record(1), record(2)]
    assert {letter.reason for letter in found} == {"malformed"}
    assert {letter.set_aside_at for letter in found} == {NOW}
    assert not any(letter.body_lost for letter in found)


def test_without_any_there_is_nothing_to_read_and_nothing_to_remove(tmp_path: Path) -> None:
    file = letters(tmp_path)
    assert list(file.read()) == []
    file.remove(["0123456789ab"])


def test_the_files_stay_below_their_bound_and_keep_the_latest(tmp_path: Path) -> None:
    file = letters(tmp_path, max_bytes=4000)
    for offset in range(100):
        file.append(record(offset, b"x" * 100), "malformed")
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 4000
    offsets = [letter.record.position.offset for letter in file.read()]
    assert offsets == list(range(offsets[0], 100))
    assert len(offsets) > 5


def test_a_payload_larger_than_the_bound_leaves_its_trace_without_the_payload(
    tmp_path: Path,
) -> None:
    file = letters(tmp_path, max_bytes=2000)
    file.append(record(1, b"x" * 10_000), "too_large")
    (letter,) = file.read()
    assert (letter.record.position.offset, letter.record.body, letter.body_lost) == (1, b"", True)


def test_where_texts_may_not_be_kept_only_the_reason_is(tmp_path: Path) -> None:
    DeadLetterFile(tmp_path, clock=FixedClock(), bodies=False).append(
        record(1, b"what a user wrote"), "malformed"
    )
    (letter,) = letters(tmp_path).read()
    assert (letter.reason, letter.record.body, letter.body_lost) == ("malformed", b"", True)
    assert b"user" not in (tmp_path / "dead-letters.jsonl").read_bytes()


def test_a_line_cut_short_by_a_crash_costs_only_itself(tmp_path: Path) -> None:
    file = letters(tmp_path)
    file.append(record(1), "malformed")
    path = tmp_path / "dead-letters.jsonl"
    path.write_bytes(path.read_bytes() + path.read_bytes()[:40])
    file.append(record(2), "malformed")
    assert [letter.record.position.offset for letter in file.read()] == [1, 2]


def test_replayed_letters_are_removed_and_others_stay_in_their_order(tmp_path: Path) -> None:
    file = letters(tmp_path, max_bytes=3000)  # so that some lie in the older file
    for offset in range(8):
        file.append(record(offset), "malformed")
    found = {letter.record.position.offset: letter.letter_id for letter in file.read()}
    assert len(set(found.values())) == len(found)
    first, *_, last = found
    file.remove([found[first], found[last]])
    file.append(record(99), "malformed")
    kept = [letter.record.position.offset for letter in file.read()]
    assert kept == [*(o for o in found if o not in (first, last)), 99]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_folder_that_cannot_be_written_is_a_transient_failure(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(TransientDependencyError, match="dead letters: not written"):
        letters(blocked).append(record(1), "malformed")


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    letters(tmp_path).append(record(0), "malformed")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes["dead-letters.jsonl"] == 0o600
    assert set(modes.values()) == {0o600}
