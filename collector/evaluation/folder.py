"""A run on disk: what it was made with, the answers it got, and the measured rows.

    run.json       the settings of the run
    answers.jsonl  one answer per line, on disk before it counts as given
    rows.jsonl     one measured question per line
    report.json    the summary; its presence says that the run is finished

A process that is killed leaves at most half a last line, which is cut off when the run is resumed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

import msgspec

from collector.errors import PermanentDependencyError, UsageError
from collector.evaluation.answers import Answer
from collector.model_evaluation import EvalRow, EvalRun

_T = TypeVar("_T")


class JsonLines(Generic[_T]):
    """A file of JSON lines that is only ever added to, each line durable once `add` returns.

    `found` is what it held when it was opened.
    """

    def __init__(self, path: Path, kind: type[_T]) -> None:
        self._file = path.open("ab")
        body = path.read_bytes()
        whole = _whole_lines(body)
        if whole != body:
            os.truncate(path, len(whole))
        self.found = _decoded(path, whole, kind)

    def add(self, item: _T) -> None:
        """Append one item and wait until it is on disk: a few milliseconds.

        Raises:
            PermanentDependencyError: it cannot be written, as on a full disk.
        """
        try:
            self._file.write(msgspec.json.encode(item) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as err:
            raise PermanentDependencyError(
                f"{self._file.name}: cannot be written: {err.strerror}"
            ) from err

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _whole_lines(body: bytes) -> bytes:
    """Return the lines that were written whole; what follows them is of a killed process."""
    return body[: body.rfind(b"\n") + 1]


def _decoded(path: Path, body: bytes, kind: type[_T]) -> list[_T]:
    try:
        return [msgspec.json.decode(line, type=kind) for line in body.splitlines()]
    except msgspec.DecodeError as err:
        raise UsageError([f"{path}: is damaged or of another version; start a new run"]) from err


class RunFolder:
    """A run that is being made. A context manager; one process at a time.

    Attributes:
        answers: so far, by question; a failed attempt is no answer.
        rows: measured so far, by question, the last of each.

    Args:
        path: the folder, made by `create`.

    Raises:
        UsageError: no run lies there, or another process works on it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = read_run(path)
        with ExitStack() as stack:
            lock = stack.enter_context((path / "run.json").open("rb"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as err:
                raise UsageError([f"{path}: another process is at work on this run"]) from err
            self._answers = stack.enter_context(closing(JsonLines(path / "answers.jsonl", Answer)))
            self._rows = stack.enter_context(closing(JsonLines(path / "rows.jsonl", EvalRow)))
            self._files = stack.pop_all()
        self.answers: dict[str, Answer] = {}
        for answer in self._answers.found:
            self._note(answer)
        self.rows = {row.question_id: row for row in self._rows.found}

    @classmethod
    def create(cls, path: Path, run: EvalRun) -> Self:
        """Make the folder of a new run.

        Raises:
            UsageError: there is something already, or it cannot be made.
        """
        try:
            # One by one: with `parents` only the last would be private.
            for folder in (*reversed(path.parents), path):
                folder.mkdir(mode=0o700, exist_ok=True)
            # The file makes the run, not the folder: what was killed in between can begin again.
            with (path / "run.json").open("xb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(run)))
        except FileExistsError as err:
            raise UsageError(
                [f"{path}: is there already; give --run another name, or go on with --resume"]
            ) from err
        except OSError as err:
            raise UsageError([f"{path}: cannot be made: {err.strerror}"]) from err
        return cls(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add_answer(self, answer: Answer) -> None:
        """Keep an answer, durably."""
        self._answers.add(answer)
        self._note(answer)

    def _note(self, answer: Answer) -> None:
        if answer.error is None:
            self.answers[answer.question_id] = answer

    def add_row(self, row: EvalRow) -> None:
        """Keep a measured row, durably."""
        self._rows.add(row)
        self.rows[row.question_id] = row

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the report: from now on the run is finished."""
        fresh = self.path / "report.new"
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(summary)))
        fresh.replace(self.path / "report.json")


class FinishedRun(msgspec.Struct, frozen=True):
    """A run to compare: what it was made with, and its rows by question."""

    run: EvalRun
    rows: dict[str, EvalRow]


def read_run(path: Path) -> EvalRun:
    """Return what a run was made with.

    Raises:
        UsageError: there is no run, or it cannot be read.
    """
    try:
        return msgspec.json.decode((path / "run.json").read_bytes(), type=EvalRun)
    except OSError as err:
        raise UsageError([f"{path}: no run is there; `groundwatch eval` makes one"]) from err
    except msgspec.DecodeError as err:
        raise UsageError([f"{path / 'run.json'}: is damaged or of another version"]) from err


def finished(path: Path) -> FinishedRun:
    """Read a finished run.

    Raises:
        UsageError: there is none, or it is not finished.
    """
    run = read_run(path)
    if not (path / "report.json").exists():
        raise UsageError([f"{path}: is not finished; go on with --resume {path.name}"])
    file = path / "rows.jsonl"
    rows: Iterable[EvalRow] = _decoded(file, _whole_lines(file.read_bytes()), EvalRow)
    return FinishedRun(run, {row.question_id: row for row in rows})
