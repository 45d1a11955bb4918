"""The runs that are kept on this machine, finished or not."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from collector.errors import UsageError
from collector.evaluation.folder import read_run
from collector.evaluation.report import ALL


class KeptRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a list shows it.

    Attributes:
        run: its name.
        state: `unfinished` ones can be resumed; `unreadable` ones are damaged or of another
            version, and only their name is known.
        questions: None while it is not finished, as are `means`, by measure, over all questions.
    """

    run: str
    state: Literal["finished", "unfinished", "unreadable"]
    started_at: datetime | None = None
    questions: int | None = None
    tier: str | None = None
    k: int = 0
    judge: str | None = None
    golden: str | None = None
    target: str | None = None
    revision: str | None = None
    means: dict[str, float | None] = {}


def kept_runs(folder: Path) -> list[KeptRun]:
    """Return the runs in a folder, oldest first; [] where there is none."""
    places = [place.parent for place in folder.glob("*/run.json")]
    return sorted(map(_kept, places), key=lambda one: (str(one.started_at or ""), one.run))


def _kept(path: Path) -> KeptRun:
    report: dict[str, Any] | None = None
    try:
        run = read_run(path)
        if (path / "report.json").exists():
            report = msgspec.json.decode((path / "report.json").read_bytes(), type=dict)
    except (UsageError, OSError, msgspec.DecodeError):
        return KeptRun(run=path.name, state="unreadable")
    whole = next((one for one in (report or {}).get("groups", ()) if one["segment"] == ALL), None)
    return KeptRun(
        run=path.name,
        state="finished" if report else "unfinished",
        started_at=run.started_at,
        questions=report["questions"] if report else None,
        tier=run.tier,
        k=run.k,
        judge=run.fingerprint or None,
        golden=run.golden,
        target=run.target,
        revision=run.revision,
        means={name: one["mean"] for name, one in whole["measures"].items()} if whole else {},
    )
