"""How many of the planted failures the weekly review brings up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from collector.demo.scenario import Planted


def planted_in_review(
    planted: Sequence[Planted], review_rows: Iterable[Mapping[str, Any]]
) -> dict[str, dict[str, int]]:
    """Count by kind how many failures were planted and how many stand among the review's rows.

    Args:
        planted: the failures of a scenario.
        review_rows: rows of `groundwatch review report --format json`, worst first; each has a
            `conversation_id`.

    Returns:
        `{"planted": n, "in_top": m}` by kind, in the order of the kinds' first appearance.
    """
    shown = {row.get("conversation_id") for row in review_rows}
    counts: dict[str, dict[str, int]] = {}
    for item in planted:
        count = counts.setdefault(item.kind, {"planted": 0, "in_top": 0})
        count["planted"] += 1
        count["in_top"] += item.conversation_id in shown
    return counts
