"""Any rows can be added to a golden file and read back the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.golden_file import GoldenRow, append, load

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)
FILLED = TEXTS.filter(lambda text: bool(text.strip()))
ROWS = st.lists(
    st.builds(
        GoldenRow,
        id=FILLED,
        question=FILLED,
        segment=st.none() | FILLED,
        reference_answer=st.none() | FILLED,
        gold_sources=st.lists(FILLED, max_size=2),
        quotes=st.lists(FILLED, max_size=2),
        answerable=st.booleans(),
        synthetic=st.booleans(),
        extra=st.dictionaries(st.sampled_from(["note", "owner"]), FILLED | st.integers(0, 99)),
    ),
    max_size=3,
)
START = "# ours\n  - id: start\n    question: Is this the first row of all?   # yes\n"

UNDER_A_KEY = "questions:\n- question: Is this the first row of all?\n# more\nowner: anna\n"
UNDER_A_KEY_IN_JSON = '{"owner": "anna", "questions": [], "more": [{"questions": [1]}]}'


@pytest.mark.parametrize(
    ("suffix", "start"),
    [
        (".yaml", START),
        (".yaml", UNDER_A_KEY),
        (".json", ""),
        (".json", UNDER_A_KEY_IN_JSON),
        (".jsonl", ""),
    ],
)
@settings(max_examples=60, deadline=None)
@given(rows=ROWS)
def test_rows_that_are_added_read_back_as_they_were(
    suffix: str, start: str, rows: list[GoldenRow]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"golden{suffix}"
        if start:
            path.write_text(start)
        before = load(path) if path.exists() else []
        result = append(path, rows)
        after = load(path) if path.exists() else []
        assert after == [*before, *result.added]
        if start == START:
            assert path.read_text().startswith(START)
        if start == UNDER_A_KEY:
            first, last = UNDER_A_KEY.split("# more")
            assert path.read_text().startswith(first)
            assert path.read_text().endswith(last)
