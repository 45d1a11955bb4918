"""Files of labels that cannot be read: what is wrong is said, and nothing else happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.errors import MalformedPayload
from collector.label_commands import import_labels


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param('{"note": "naïve"}'.encode("latin-1"), "is not UTF-8", id="Latin 1"),
        pytest.param('{"note": "naive"}'.encode("utf-16"), "is not UTF-8", id="UTF-16"),
        pytest.param(b"{}\ntrace_id,claim,verdict\n", "line 2 is not JSON", id="CSV"),
        pytest.param(b'{"a":' * 100_000, "line 1 is not JSON", id="nested too deep"),
        pytest.param(b"{}\n\n[1]\n", "line 3 must be an object", id="no object"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(content: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_bytes(content)
    with pytest.raises(MalformedPayload, match=f"labels.jsonl: {problem}"):
        import_labels(file, data_dir=tmp_path)
