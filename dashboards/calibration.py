"""The judge beside people as plain data, and the claims that people are asked to label."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

import msgspec

from collector.labels import Label
from collector.model import UNUSABLE_REPLIES
from collector.ports import Store
from scorers.calibration import (
    VERDICTS,
    Calibration,
    Correction,
    HumanVerdict,
    Replies,
    calibrate,
    correct,
)
from scorers.stats.agreement import agreement, cross_table
from scorers.stats.weighted import Estimate

Row = Mapping[str, Any]
_MOST_PAIRS = 10_000


async def calibration_of(store: Store, fingerprint: str, second: str | None) -> dict[str, Any]:
    """Return the agreement of a judge with people and with a second judge, None without one."""
    found: dict[str, Any] = msgspec.to_builtins(await compared(store, fingerprint))
    both = {"first": fingerprint, "second": second, "most": _MOST_PAIRS}
    return {
        "fingerprint": fingerprint,
        "verdicts": list(VERDICTS),
        **found,
        "second": second and second_of(second, await store.rows("second_opinions", both)),
    }


async def compared(store: Store, fingerprint: str) -> Calibration:
    """Compare a judge with all that people said of its claims."""
    labels, (replies,) = await asyncio.gather(
        store.rows("labelled_claims", {"fingerprint": fingerprint}),
        store.rows(
            "usable_replies", {"fingerprint": fingerprint, "causes": list(UNUSABLE_REPLIES)}
        ),
    )
    said = [
        HumanVerdict(
            trace_id=row["trace_id"],
            claim=row["claim"],
            verdict=row["verdict"],
            machine=row["machine"],
            probability=float(row["probability"]),
        )
        for row in labels
    ]
    return calibrate(said, Replies(int(replies["answers"]), int(replies["unusable"])))


def second_of(fingerprint: str, rows: Iterable[Row]) -> dict[str, Any]:
    """Return how far a second judge agrees with the first on which answers are wholly supported.

    The two list claims of their own, so answers are compared, not claims. `difference` is the
    mean of the second's scores less that of the first's, None without an answer that both judged.

    Args:
        fingerprint: of the second judge.
        rows: of the query `second_opinions`.
    """
    pairs = [(float(row["first_score"]), float(row["second_score"])) for row in rows]
    first, second = [one == 1.0 for one, _ in pairs], [two == 1.0 for _, two in pairs]
    differences = [two - one for one, two in pairs]
    return {
        "fingerprint": fingerprint,
        "answers": len(pairs),
        "difference": fmean(differences) if differences else None,
        "agreement": msgspec.to_builtins(agreement(cross_table(first, second, (True, False)))),
    }


def correction_of(total: Estimate, found: Calibration) -> dict[str, Any]:
    """Return an estimate without the judge's errors, or why there is none."""
    if total.mean is None or total.variance is None or total.display in ("no_data", "hidden"):
        refused = Correction(state="refused", reason="too little was judged in this window")
        return dict(msgspec.to_builtins(refused))
    found_mean = correct(total.mean, total.variance, total.n_eff, found)
    return dict(msgspec.to_builtins(found_mean))


def to_label(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return claims as a person labels them: `verdict` and `labeller` are still to be filled in.

    What the judge said is left out, so that nobody follows it; it is looked up again when the
    labels come back.

    Args:
        rows: of the query `claims_to_label`.
    """
    return [
        {
            "trace_id": row["trace_id"],
            "claim": row["claim"],
            "verdict": None,
            "labeller": None,
            "note": None,
            "segment": row["segment"],
            "question": row["question"],
            "answer": row["answer"],
            "documents": list(row["texts"]),
            "fingerprint": row["fingerprint"],
            "probability": float(row["probability"]),
            "blind": True,
        }
        for row in rows
    ]


def with_machine_verdicts(
    labels: Iterable[Label], fingerprint: str, rows: Iterable[Row]
) -> list[Label]:
    """Note beside each label of a claim what the judge said of it when it was given.

    Args:
        labels: as people gave them.
        fingerprint: of the judge.
        rows: of the query `machine_verdicts`.
    """
    said = {(row["trace_id"], row["claim"]): row["verdict"] for row in rows}
    return [
        msgspec.structs.replace(
            label, fingerprint=fingerprint, machine_verdict=said[label.trace_id, label.claim]
        )
        if (label.trace_id, label.claim) in said
        else label
        for label in labels
    ]
