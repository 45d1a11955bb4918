"""Golden rows in the dataset shapes of other evaluation tools.

- RAGAS: JSON lines for `EvaluationDataset.from_jsonl`.
- DeepEval: a JSON array for `EvaluationDataset.add_goldens_from_json_file`.
- Langfuse: JSON lines, each the body of `POST /api/public/dataset-items`.
- Phoenix: the JSON body of `POST /v1/datasets/upload`.

A row that cannot be answered says so: its reference is what it has, or nothing, and `answerable`
is false in the metadata where the shape has one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sinks.golden_file import GoldenRow


def ragas(rows: Sequence[GoldenRow], name: str) -> str:
    """Return RAGAS samples; quotes are the reference contexts, gold sources their ids."""
    return _lines(
        {
            "user_input": row.question,
            "reference": row.reference_answer,
            "reference_contexts": row.quotes or None,
            "reference_context_ids": row.gold_sources or None,
        }
        for row in rows
    )


def deepeval(rows: Sequence[GoldenRow], name: str) -> str:
    """Return DeepEval goldens; quotes are the context."""
    goldens = [
        _stated(
            input=row.question,
            expected_output=row.reference_answer,
            context=row.quotes or None,
            name=row.id,
            additional_metadata=_metadata(row),
        )
        for row in rows
    ]
    return json.dumps(goldens, ensure_ascii=False, indent=2) + "\n"


def langfuse(rows: Sequence[GoldenRow], name: str) -> str:
    """Return Langfuse dataset items; sending one again replaces it, since it keeps its id."""
    return _lines(
        {
            "datasetName": name,
            "id": f"{name}/{row.id}",  # unique to the project, not to the dataset
            "input": {"question": row.question},
            "expectedOutput": None
            if row.reference_answer is None
            else {"answer": row.reference_answer},
            "metadata": _metadata(row),
            "sourceTraceId": row.trace_id,
        }
        for row in rows
    )


def phoenix(rows: Sequence[GoldenRow], name: str) -> str:
    """Return a Phoenix dataset; each split is a segment."""
    body = {
        "action": "create",
        "name": name,
        "inputs": [{"question": row.question} for row in rows],
        "outputs": [_stated(answer=row.reference_answer) for row in rows],
        "metadata": [_metadata(row) for row in rows],
        "splits": [row.segment for row in rows],
    }
    return json.dumps(body, ensure_ascii=False, indent=2) + "\n"


SHAPES: Mapping[str, Callable[[Sequence[GoldenRow], str], str]] = {
    "ragas": ragas,
    "deepeval": deepeval,
    "langfuse": langfuse,
    "phoenix": phoenix,
}
"""By name of the tool: how rows become text, with the name that the dataset is to have."""


def _metadata(row: GoldenRow) -> dict[str, Any]:
    return _stated(
        golden_id=row.id,
        segment=row.segment,
        gold_sources=row.gold_sources,
        quotes=row.quotes or None,
        answerable=row.answerable,
        synthetic=row.synthetic,
        trace_id=row.trace_id,
        **({"provenance": row.extra["provenance"]} if "provenance" in row.extra else {}),
    )


def _stated(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _lines(items: Any) -> str:
    return "".join(json.dumps(_stated(**item), ensure_ascii=False) + "\n" for item in items)
