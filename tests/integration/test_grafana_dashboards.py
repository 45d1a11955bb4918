"""Every query of every dashboard against a real Prometheus and ClickHouse's engine, in short.

`make dashboards-verify` is the whole of it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.dashboards_verify import EVIDENCE, verify
from tests.grafana_queries import queries

pytestmark = pytest.mark.prometheus

WITHOUT_GOLDEN_RUNS_LABELS_AND_A_RESTART = {
    "What changed between the last two runs?",
    "Which questions got worse?",
    "What did each run measure?",
    "What is wrong in each run?",
    "What became of golden candidates?",
    "What did the gate say last?",
    "marks: gate",
    "How often do people agree with each verdict?",
    "How far do conversations repeat themselves?",
}


def test_every_panel_gets_the_labels_and_columns_it_shows(tmp_path: Path) -> None:
    results = verify(tmp_path, whole=False)
    assert len(results) == len(list(queries()))
    problems = {r.query.panel: r.problem for r in results if r.problem}
    assert problems == dict.fromkeys(WITHOUT_GOLDEN_RUNS_LABELS_AND_A_RESTART, "no data")


def test_the_evidence_names_every_query_and_no_problem() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| ([A-Z]|annotation) \| .* \| (\S+) \|$",
        EVIDENCE.read_text(),
        re.MULTILINE,
    )
    assert [row[:3] for row in rows] == [(q.dashboard, q.panel, q.ref) for q in queries()]
    assert {row[3] for row in rows} == {"ok"}
