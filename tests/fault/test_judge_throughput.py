"""A whole agent uses nine tenths of what its judging model states as a limit, and never more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.judging import judge_all

CALLS_PER_SECOND = 20


@pytest.mark.timeout(180)
def test_a_stated_limit_is_used_to_nine_tenths_and_never_exceeded(tmp_path: Path) -> None:
    # Calls are counted over seconds, and the fastest ones count: this machine may be busy.
    found = judge_all(tmp_path, CALLS_PER_SECOND, requests=250, limit_seconds=5.0)
    assert found.violations == 0
    assert 0.9 * CALLS_PER_SECOND <= found.fastest <= CALLS_PER_SECOND
