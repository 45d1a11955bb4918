"""What a run of the golden set is made of."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from collector.model import Claim

Tier = Literal["retrieval", "full"]
"""`retrieval` measures what was found and whether the answer refuses, without calling any judge;
`full` measures everything."""


class EvalRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a run was made with. Two runs are compared only where these allow it.

    Attributes:
        run_id: its name, that of its folder.
        started_at: UTC.
        golden: path of the golden file as given, and `golden_sha` of its content.
        target: what was asked: an address, a file, or stored traces.
        tier: see `Tier`.
        k: of recall@k and precision@k.
        segment_by: key of the golden rows by which the report is cut.
        fingerprint: of the judge; "" where none was used.
        revision: of the git repository it was begun in, `-dirty` where that was changed; None
            outside of one.
    """

    run_id: str
    started_at: datetime
    golden: str
    golden_sha: str
    target: str
    tier: Tier
    k: int
    segment_by: str
    fingerprint: str
    revision: str | None = None


class EvalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One golden question of a run, measured.

    Attributes:
        measures: value by name; None where the measure is undefined for this question.
        undefined: why, by the names of those.
        failures: cause by the names of measures that should have a value and have none.
        diagnosis: name of the finding, `causes` those it leaves open, `advice` what to do.
        claims: of the answer, judged against its context.
        reference_claims: of the reference answer, judged against the answer.
        judge_cost_usd: what judging cost; None where no price is known.
        error: why the assistant gave no answer; None where it gave one.
        labels: digest of what the golden row says is right; "" in rows of older versions.
    """

    question_id: str
    question: str
    segment: str
    synthetic: bool = False
    answerable: bool = True
    measures: dict[str, float | None] = {}
    undefined: dict[str, str] = {}
    failures: dict[str, str] = {}
    diagnosis: str | None = None
    causes: list[str] = []
    advice: str | None = None
    claims: list[Claim] = []
    reference_claims: list[Claim] = []
    judge_cost_usd: float | None = None
    error: str | None = None
    labels: str = ""


class EvalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it is stored: some or all of its rows, and in the last part its summary."""

    run: EvalRun
    rows: list[EvalRow]
    summary: dict[str, Any] | None = None
