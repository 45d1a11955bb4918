"""Making a run: every question asked once, its answer on disk before anything is made of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from collector.evaluation.folder import RunFolder
from collector.evaluation.measures import UNSEGMENTED, measure
from collector.evaluation.targets import Target, as_data
from collector.model_evaluation import EvalRow
from collector.ports import Judge
from sinks.golden_file import GoldenRow


async def evaluate(
    folder: RunFolder,
    golden: Sequence[GoldenRow],
    target: Target,
    judge: Judge | None,
    *,
    concurrency: int,
    advanced: Callable[[], None],
    relevance: Judge | None = None,
) -> list[EvalRow]:
    """Ask what was not answered yet, measure what was not measured yet.

    Answers and rows of an earlier, interrupted attempt are kept; what failed then, asking or
    judging, is tried again.

    Args:
        folder: of the run.
        golden: the questions, drafts left out.
        target: answers them.
        judge: of the run; None in the tier without one.
        concurrency: questions under way at once.
        advanced: called after each question that is done.
        relevance: the judge of answer relevance, None where there is none.

    Returns:
        The rows, in order of the golden set.

    Raises:
        TransientDependencyError: nobody answers; resume the run later.
    """
    waiting = iter(golden)

    async def work() -> None:
        for row in waiting:
            await _one(folder, row, target, judge, relevance)
            advanced()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [folder.rows[row.id] for row in golden]


async def _one(
    folder: RunFolder,
    row: GoldenRow,
    target: Target,
    judge: Judge | None,
    relevance: Judge | None,
) -> None:
    answer = folder.answers.get(row.id)
    if answer is None:
        answer = await target.ask(row)
        folder.add_answer(answer)
    elif row.id in folder.rows and not folder.rows[row.id].failures:
        return
    run = folder.run
    where = segment(row, run.segment_by)
    folder.add_row(await measure(row, answer, judge, k=run.k, segment=where, relevance=relevance))


def segment(row: GoldenRow, key: str) -> str:
    """Return the segment of a row: the value of the given key of it."""
    value = as_data(row).get(key)
    return UNSEGMENTED if value is None else str(value)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """Show how far a run is: a bar on a terminal, a line every tenth elsewhere; to stderr."""
    if sys.stderr.isatty():
        columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("asking", total=total)
            yield lambda: bar.advance(task)
        return
    asked = 0

    def advanced() -> None:
        nonlocal asked
        asked += 1
        if asked * 10 // total > (asked - 1) * 10 // total:
            print(f"{asked} of {total} questions", file=sys.stderr)

    yield advanced
