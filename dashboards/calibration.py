"""The judge beside people as plain data, and the claims that people are asked to label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from collector.labels import Label
from scorers.calibration import VERDICTS, HumanVerdict, calibrate

Row = Mapping[str, Any]


def calibration_of(fingerprint: str, rows: Iterable[Row]) -> dict[str, Any]:
    """Return the agreement of a judge with people.

    Args:
        fingerprint: of the judge.
        rows: of the query `labelled_claims`, latest first.
    """
    labels = [
        HumanVerdict(
            trace_id=row["trace_id"],
            claim=row["claim"],
            verdict=row["verdict"],
            machine=row["machine"],
            probability=float(row["probability"]),
        )
        for row in rows
    ]
    found: dict[str, Any] = msgspec.to_builtins(calibrate(labels))
    return {"fingerprint": fingerprint, "verdicts": list(VERDICTS), **found}


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
