"""One run from beginning to end: what a command line asks for, turned into folder and report."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from prometheus_client import CollectorRegistry

from collector.agent.opening import judges_of
from collector.config import Resolved
from collector.errors import (
    PermanentDependencyError,
    Postponed,
    TransientDependencyError,
    UsageError,
)
from collector.evaluation.answers import Answer
from collector.evaluation.folder import FinishedRun, RunFolder, finished, read_run
from collector.evaluation.measures import NO_ANSWER
from collector.evaluation.report import summary
from collector.evaluation.run import evaluate
from collector.evaluation.targets import HttpTarget, Recorded, Target, results_file, traced
from collector.judges import build_judges
from collector.model import Judgement, RagRequest
from collector.model_evaluation import EvalRecord, EvalRow, EvalRun, Tier
from collector.ports import Judge
from collector.remote import report, send_evaluation
from collector.telemetry import Metrics
from dashboards.windows import Window
from sinks.golden_file import GoldenRow, load
from sinks.rows import storable

_JUDGE_PATIENCE_SECONDS = 600.0


_ONLY_FOUND = ("retrieval", NO_ANSWER)

STORED = "stored:"
"""Begins the target of a run on stored traces; the attribute with the golden id follows."""


class Asked(NamedTuple):
    """What a new run is to be.

    `target` is an address, the path of a file of results, or `STORED` and an attribute.
    """

    golden: Path
    target: str
    tier: Tier
    segment_by: str


def runs_folder(resolved: Resolved) -> Path:
    """Return where runs are kept by name."""
    return resolved.config.data_dir / "evaluations"


def place_of(resolved: Resolved, name: str) -> Path:
    """Return the folder of a run that is named, or given as a path."""
    given = Path(name)
    return given if (given / "run.json").exists() else runs_folder(resolved) / name


def two_runs(resolved: Resolved, old: str, new: str) -> tuple[FinishedRun, FinishedRun]:
    """Read two finished runs, each by name or folder.

    Raises:
        UsageError: one of them is missing or not finished, or they are the same.
    """
    places = place_of(resolved, old), place_of(resolved, new)
    if places[0].resolve() == places[1].resolve():
        raise UsageError(
            [f"{old} and {new} are the same run, which differs from itself in nothing"]
        )
    return finished(places[0]), finished(places[1])


async def begin(resolved: Resolved, name: str | None, asked: Asked, window: Window) -> RunFolder:
    """Make a new run; the answers of stored traces are taken at once.

    Args:
        resolved: the configuration.
        name: of the run; the time where None.
        asked: what it is to be.
        window: of stored traces.

    Raises:
        UsageError: the golden file or the answers cannot be used, or the name is taken.
        DependencyError: stored traces cannot be read.
    """
    now = datetime.now(UTC)
    name = name or now.strftime("%Y-%m-%dT%H-%M-%S")
    if name in (".", "..") or "/" in name:
        raise UsageError([f"--run: {name} must be a plain name, such as before"])
    rows = golden_rows(asked.golden)
    if not any(asked.segment_by in _keys(row) for row in rows):
        raise UsageError([f"--by: no row of {asked.golden} has the key {asked.segment_by}"])
    target = _target(resolved, asked.target)  # whatever is wrong with it shows here
    await target.close()
    if isinstance(target, Recorded):
        _check_ids(asked, target.ids, rows)
    taken = await _stored(resolved, asked, window, {row.id for row in rows})
    run = EvalRun(
        run_id=name,
        started_at=now,
        golden=str(asked.golden.absolute()),
        golden_sha=_sha(asked.golden),
        target=asked.target,
        tier=asked.tier,
        k=resolved.config.evaluation.k,
        segment_by=asked.segment_by,
        fingerprint=_fingerprint(resolved, asked.tier),
        revision=_git_revision(),
    )
    folder = RunFolder.create(runs_folder(resolved) / name, run)
    for answer in taken:
        folder.add_answer(answer)
    return folder


def _check_ids(asked: Asked, recorded: Collection[str], rows: Sequence[GoldenRow]) -> None:
    """Refuse recorded answers to other questions; tell of those that are to none of the set."""
    others = sorted(set(recorded) - {row.id for row in rows})
    if not others:
        return
    if len(others) == len(recorded):
        raise UsageError([f"--results: no id in {asked.target} is one of {asked.golden}"])
    print(
        f"{len(others)} of {len(recorded)} recorded answers are left out: {asked.golden} asks "
        f"nothing with the id {', '.join(others[:3])}{' …' if len(others) > 3 else ''}",
        file=sys.stderr,
    )


async def _stored(
    resolved: Resolved, asked: Asked, window: Window, known: set[str]
) -> list[Answer]:
    """Return the answers of traces that carry the id of a golden row; [] for other targets."""
    if not asked.target.startswith(STORED):
        return []
    attribute = asked.target.removeprefix(STORED)
    found = await report(resolved, "golden_answers", window, attribute=attribute)
    requests = msgspec.convert(found["answers"], dict[str, RagRequest])
    answers = [traced(id_, request) for id_, request in requests.items() if id_ in known]
    if not answers:
        since = f"{window.since:%Y-%m-%d %H:%M}"
        raise UsageError([f"--stored: no trace since {since} has a golden id in {attribute}"])
    return answers


def resume(resolved: Resolved, name: str) -> RunFolder:
    """Open a run that was begun before.

    Raises:
        UsageError: there is none, or the golden file or the judge is another one by now.
    """
    path = place_of(resolved, name)
    run = read_run(path)
    if not Path(run.golden).exists() or _sha(Path(run.golden)) != run.golden_sha:
        raise UsageError([f"{run.golden}: was changed since {name} was begun; start a new run"])
    if (now := _fingerprint(resolved, run.tier)) != run.fingerprint:
        raise UsageError(
            [f"judge: {name} was begun with {run.fingerprint}, not with {now}; start a new run"]
        )
    return RunFolder(path)


async def complete(
    resolved: Resolved, folder: RunFolder, progress: Progress, *, store: bool
) -> dict[str, Any]:
    """Ask what is left of a run, measure it, write its report and store it.

    Args:
        resolved: the configuration.
        folder: the run.
        progress: shows how far it is, given the number of questions.
        store: also write it to the tables `eval_runs` and `eval_rows`.

    Returns:
        The report.

    Raises:
        TransientDependencyError, PermanentDependencyError: assistant, judge or store; what is
            done is kept, and the run can be resumed.
    """
    run = folder.run
    config = resolved.config.evaluation
    golden = golden_rows(Path(run.golden))
    metrics = Metrics(CollectorRegistry())
    async with AsyncExitStack() as stack:
        judge = relevance = None
        if run.tier == "full":
            judges = await stack.enter_async_context(judges_of(resolved, metrics))
            judge = PatientJudge(judges.judge)
            if (scorer := judges.scorers.get("answer_relevance")) is not None:
                relevance = PatientJudge(scorer)
        target = _target(resolved, run.target)
        stack.push_async_callback(target.close)
        with progress(len(golden)) as advanced:
            rows = await evaluate(
                folder,
                golden,
                target,
                judge,
                concurrency=config.target.concurrency,
                advanced=advanced,
                relevance=relevance,
            )
    _check_answered(run, rows)
    found = await asyncio.to_thread(summary, run, rows)
    folder.finish(found)
    if store:
        await send_evaluation(resolved, EvalRecord(run=run, rows=rows, summary=found))
    return found


def _check_answered(run: EvalRun, rows: Sequence[EvalRow]) -> None:
    """Refuse to report on an assistant that answered nothing.

    Raises:
        PermanentDependencyError: names why.
    """
    # In the retrieval tier an endpoint may answer with documents alone.
    silent = [row.error for row in rows if row.error and (run.tier, row.error) != _ONLY_FOUND]
    if len(silent) == len(rows):
        cause, count = Counter(silent).most_common(1)[0]
        raise PermanentDependencyError(
            f"{run.target} answered none of {len(rows)} questions: {cause} ({count} times)"
        )


Progress = Callable[[int], AbstractContextManager[Callable[[], None]]]


def golden_rows(path: Path) -> list[GoldenRow]:
    """Return the rows of a golden file that a person has looked at: drafts are left out.

    Raises:
        UsageError: it cannot be used, or holds no such row.
    """
    rows = [
        msgspec.convert(storable(msgspec.to_builtins(row)), GoldenRow)
        for row in load(path)
        if not row.extra.get("draft")
    ]
    if not rows:
        raise UsageError([f"{path}: holds no question; drafts count once `draft` is removed"])
    return rows


class PatientJudge:
    """A judge that waits while it may not judge, for up to ten minutes."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    @property
    def fingerprint(self) -> str:
        """See `Judge.fingerprint`."""
        return self._judge.fingerprint

    async def judge(self, request: RagRequest) -> Judgement:
        """See `Judge.judge`.

        Raises:
            TransientDependencyError: the judge does not come back in time.
        """
        ends_at = time.monotonic() + _JUDGE_PATIENCE_SECONDS
        while True:
            try:
                return await self._judge.judge(request)
            except Postponed as err:
                if time.monotonic() + err.retry_after_seconds > ends_at:
                    raise TransientDependencyError(
                        f"the judge cannot go on ({err.cause}); resume the run later"
                    ) from err
                await asyncio.sleep(err.retry_after_seconds)

    async def close(self) -> None:
        """See `Judge.close`."""
        await self._judge.close()


def _target(resolved: Resolved, place: str) -> Target:
    config = resolved.config.evaluation.target
    if place.startswith(("http://", "https://")):
        return HttpTarget(place, config, _token(resolved))
    if place.startswith(STORED):
        return Recorded({})  # all that there are were taken at the beginning
    return results_file(Path(place), config.response)


def _token(resolved: Resolved) -> str | None:
    variable = resolved.config.evaluation.target.token_env
    if variable is None:
        return None
    if not (token := os.environ.get(variable)):
        raise UsageError(
            [f"evaluation.target.token_env: the environment variable {variable} is not set"]
        )
    return token


def _fingerprint(resolved: Resolved, tier: Tier) -> str:
    if tier != "full":
        return ""
    return build_judges(resolved, Metrics(CollectorRegistry())).judge.fingerprint


def _git_revision() -> str | None:
    words = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(  # noqa: S603 - words of our own
            words, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _sha(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _keys(row: GoldenRow) -> set[str]:
    return {*row.__struct_fields__, *row.extra}
