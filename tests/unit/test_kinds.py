"""The tests that `tests/KINDS.md` names are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [
    line
    for line in (ROOT / "tests" / "KINDS.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| what goes wrong")
]


def test_every_test_named_for_a_kind_of_fault_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", "\n".join(ROWS))
    missing = [f"{file}::{name}" for file, name in named if name not in functions(ROOT / file)]
    assert missing == []


def test_every_kind_of_fault_has_a_test() -> None:
    assert len(ROWS) > 30
    assert [row for row in ROWS if "::test_" not in row] == []


def functions(path: Path) -> set[str]:
    """Return the names of all functions of a file, none where there is no such file."""
    if not path.exists():
        return set()
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)}
