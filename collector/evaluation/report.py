"""The report on a run: every measure by segment, with its interval and what is missing.

Means are over the questions for which a measure is defined. Synthetic questions, which nobody
asked, overestimate quality: they are reported apart and are in no other number. The interval of a
score is the shrunk Wilson one, which holds also where nearly all scores are 1; the bootstrap
interval stands beside it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from collector.evaluation.catalogue import Measure, catalogue
from collector.model_evaluation import EvalRow, EvalRun
from scorers.stats.intervals import shrunk_wilson
from scorers.stats.paired import bca_interval, paired_t
from scorers.stats.planning import precision

ALL = "all"
SYNTHETIC = "(synthetic)"
FEW = 20
"""Questions below which a number is shown but proves nothing."""


def summary(run: EvalRun, rows: Sequence[EvalRow]) -> dict[str, Any]:
    """Return the report as plain data: `groups` holds all, each segment, and synthetic rows."""
    real = [row for row in rows if not row.synthetic]
    synthetic = [row for row in rows if row.synthetic]
    groups = [
        _group(run, ALL, real),
        *(_group(run, name, members) for name, members in by_segment(rows).items()),
        *([_group(run, SYNTHETIC, synthetic)] if synthetic else []),
    ]
    costs = [row.judge_cost_usd for row in rows if row.judge_cost_usd is not None]
    return {
        "run": run.run_id,
        "tier": run.tier,
        "judge": run.fingerprint or None,
        "golden": run.golden,
        "revision": run.revision,
        "target": run.target,
        "questions": len(rows),
        "segment_by": run.segment_by,
        "judge_cost_usd": math.fsum(costs) if costs else None,
        "unanswered": _counted(row.error for row in rows),
        "groups": groups,
    }


def _group(run: EvalRun, name: str, rows: Sequence[EvalRow]) -> dict[str, Any]:
    return {
        "segment": name,
        "questions": len(rows),
        "half_width": precision(len(rows)).half_width if rows else None,
        "measures": {one.name: _measured(one, rows) for one in catalogue(run.k)},
        "diagnoses": dict(Counter(row.diagnosis for row in rows if row.diagnosis).most_common()),
    }


def _measured(measure: Measure, rows: Sequence[EvalRow]) -> dict[str, Any]:
    values = defined(measure.name, rows)
    low, high = _interval(measure, values)
    bootstrap = bca_interval(values)
    return {
        "n": len(values),
        "mean": math.fsum(values) / len(values) if values else None,
        "low": low,
        "high": high,
        "bootstrap": None if bootstrap is None else list(bootstrap),
        "median": float(np.median(values)) if values else None,
        "p95": float(np.quantile(values, 0.95)) if values else None,
        "undefined": _counted(row.undefined.get(measure.name) for row in rows),
        "failed": _counted(row.failures.get(measure.name) for row in rows),
    }


def defined(measure: str, rows: Iterable[EvalRow]) -> list[float]:
    """Return the values of the rows for which the measure is defined."""
    values = (row.measures.get(measure) for row in rows)
    return [value for value in values if value is not None]


def by_segment(rows: Iterable[EvalRow]) -> dict[str, list[EvalRow]]:
    """Return the real rows by segment, in order of its name."""
    found: dict[str, list[EvalRow]] = {}
    for row in rows:
        if not row.synthetic:
            found.setdefault(row.segment, []).append(row)
    return dict(sorted(found.items()))


def _interval(measure: Measure, values: Sequence[float]) -> tuple[float | None, float | None]:
    if not values:
        return None, None
    if measure.unit == "score":
        mean, variance = float(np.mean(values)), float(np.var(values))
        low, high = shrunk_wilson(mean, variance / len(values), len(values))
        return low, high
    # Student's interval of a mean does not care that these are no differences.
    found = paired_t(values)
    return (None, None) if found is None or not any(values) else (found.low, found.high)


def _counted(reasons: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(reason for reason in reasons if reason is not None).most_common())
