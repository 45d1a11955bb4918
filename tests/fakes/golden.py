"""Golden files on disk, and what reading them complains of."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.errors import UsageError
from sinks.golden_file import load


def write(folder: Path, text: str, name: str = "golden.yaml") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def problems(path: Path) -> list[str]:
    with pytest.raises(UsageError) as caught:
        load(path)
    return [problem.removeprefix(str(path)) for problem in caught.value.problems]
