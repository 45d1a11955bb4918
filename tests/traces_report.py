"""How well are real traces read? `python -m tests.traces_report [PART OF A FILE NAME]`

Reads every annotated trace file and compares the records with the annotations, by the rules that
lie beside these. Prints the share of right fields by file, what is wrong where a name is given,
and the share by field. Exit code 1 where a file is below 85 % or all of them below 98 %.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from collector.extract import extract
from collector.model import RagRequest
from collector.trace_files import read

SHARED = Path(__file__).parents[1].parent / "shared"
MIN_SHARE = 0.98
MIN_FILE_SHARE = 0.85


class Compared(NamedTuple):
    """One annotated file: the annotation, the records read, and right or wrong by field."""

    name: str
    expected: dict[str, Any]
    records: list[dict[str, Any]]
    checks: dict[str, bool]

    @property
    def share(self) -> float:
        """The share of fields that are right."""
        return sum(self.checks.values()) / len(self.checks)


def rules() -> ModuleType:
    """Return the module with the rules of comparison."""
    path = SHARED / "tools" / "compare_records.py"
    spec = importlib.util.spec_from_file_location("compare_records", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records_of(path: Path, logs: Path | None) -> list[dict[str, Any]]:
    """Return the requests of a file as they are printed."""
    found = (extract(trace) for trace in read([path], [logs] if logs else []))
    return [msgspec.to_builtins(record) for record in found if isinstance(record, RagRequest)]


def compared(part: str = "") -> Iterator[Compared]:
    """Compare all annotated files whose name contains `part`."""
    compare = rules().compare_file
    traces = SHARED / "traces"
    for path in sorted((traces / "expected").glob("*.expected.json")):
        if part not in path.name:
            continue
        expected = json.loads(path.read_text())
        logs = expected.get("with_logs")
        records = records_of(traces / expected["file"], traces / logs if logs else None)
        yield Compared(expected["file"], expected, records, compare(expected, records))


def by_field(files: list[Compared]) -> dict[str, list[bool]]:
    """Return right or wrong of each field over all files."""
    fields: dict[str, list[bool]] = defaultdict(list)
    for file in files:
        for name, right in file.checks.items():
            fields[name.split(".", 1)[1] if name[0].isdigit() else name].append(right)
    return fields


def main() -> int:
    """Print the report; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", default="", help="only files with this in their name")
    part: str = parser.parse_args().part
    files = list(compared(part))
    for file in files:
        wrong = [name for name, right in file.checks.items() if not right]
        print(f"{file.share:6.1%}  {file.name}  {' '.join(wrong)}".rstrip())
        if part and wrong:
            print("  read:    ", json.dumps(file.records, default=str))
            print("  expected:", json.dumps(file.expected["requests"]))
    fields = by_field(files)
    for name, rights in sorted(fields.items(), key=lambda item: sum(item[1]) / len(item[1])):
        print(f"{sum(rights):4d}/{len(rights):<4d} {name}")
    rights = [right for found in fields.values() for right in found]
    share = sum(rights) / len(rights) if rights else 0.0
    low = [file.name for file in files if file.share < MIN_FILE_SHARE]
    print(f"{len(files)} files, {len(rights)} fields, {share:.2%} right, {len(low)} files too low")
    return 0 if files and share >= MIN_SHARE and not low else 1


if __name__ == "__main__":
    sys.exit(main())
