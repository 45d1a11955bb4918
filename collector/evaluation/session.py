"""One run from beginning to end: what a command line asks for, turned into folder and report."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from collector.app import build_judge
from collector.config import Resolved
from collector.errors import Postponed, TransientDependencyError, UsageError
from collector.evaluation.folder import RunFolder, read_run
from collector.evaluation.report import summary
from collector.evaluation.run import evaluate
from collector.evaluation.targets import HttpTarget, Target, results_file
from collector.model import Judgement, RagRequest
from collector.model_evaluation import EvalRecord, EvalRun, Tier
from collector.ports import Judge
from collector.remote import send_evaluation
from collector.telemetry import Metrics
from sinks.golden_file import GoldenRow, load

_JUDGE_PATIENCE_SECONDS = 600.0


class Asked(NamedTuple):
    """What a new run is to be. `target` is an address or the path of a file of results."""

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


def begin(resolved: Resolved, name: str | None, asked: Asked) -> RunFolder:
    """Make a new run.

    Raises:
        UsageError: the golden file cannot be used, or the name is taken.
    """
    now = datetime.now(UTC)
    name = name or now.strftime("%Y-%m-%dT%H-%M-%S")
    if name in (".", "..") or "/" in name:
        raise UsageError([f"--run: {name} must be a plain name, such as before"])
    rows = golden_rows(asked.golden)
    _check_target(resolved, asked.target)
    if not any(asked.segment_by in _keys(row) for row in rows):
        raise UsageError([f"--by: no row of {asked.golden} has the key {asked.segment_by}"])
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
    )
    return RunFolder.create(runs_folder(resolved) / name, run)


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
    judge = PatientJudge(build_judge(resolved, metrics)) if run.tier == "full" else None
    target = _target(resolved, run.target)
    try:
        with progress(len(golden)) as advanced:
            rows = await evaluate(
                folder,
                golden,
                target,
                judge,
                concurrency=config.target.concurrency,
                advanced=advanced,
            )
    finally:
        await target.close()
        if judge is not None:
            await judge.close()
    report = await asyncio.to_thread(summary, run, rows)
    folder.finish(report)
    if store:
        await send_evaluation(resolved, EvalRecord(run=run, rows=rows, summary=report))
    return report


Progress = Callable[[int], AbstractContextManager[Callable[[], None]]]


def golden_rows(path: Path) -> list[GoldenRow]:
    """Return the rows of a golden file that a person has looked at: drafts are left out.

    Raises:
        UsageError: it cannot be used, or holds no such row.
    """
    rows = [row for row in load(path) if not row.extra.get("draft")]
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


def _check_target(resolved: Resolved, place: str) -> None:
    """Raise what `_target` would, before anything is made."""
    if _is_address(place):
        _token(resolved)
    else:
        results_file(Path(place), resolved.config.evaluation.target.response)


def _target(resolved: Resolved, place: str) -> Target:
    config = resolved.config.evaluation.target
    if _is_address(place):
        return HttpTarget(place, config, _token(resolved))
    return results_file(Path(place), config.response)


def _is_address(place: str) -> bool:
    return place.startswith(("http://", "https://"))


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
    return build_judge(resolved, Metrics(CollectorRegistry())).fingerprint if tier == "full" else ""


def _sha(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _keys(row: GoldenRow) -> set[str]:
    return {*row.__struct_fields__, *row.extra}
