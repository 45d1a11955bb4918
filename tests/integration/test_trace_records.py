"""Real traces of all conventions give the records that people wrote down for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.errors import MalformedPayload
from collector.extract import extract
from collector.model import NotARequest, RagRequest
from collector.trace_files import bodies, read
from tests.traces_report import MIN_FILE_SHARE, MIN_SHARE, SHARED, Compared, by_field, compared

pytestmark = pytest.mark.shared

FIRST_CONVENTIONS = ("openinference", "openllmetry", "otel-genai")


@pytest.fixture(scope="module")
def files() -> list[Compared]:
    return list(compared())


def share(files: list[Compared]) -> float:
    rights = [right for found in by_field(files).values() for right in found]
    return sum(rights) / len(rights)


@pytest.mark.parametrize("convention", FIRST_CONVENTIONS)
def test_the_main_conventions_are_read_right_in_nearly_all_fields(
    files: list[Compared], convention: str
) -> None:
    own = [file for file in files if file.name.split("/")[1] == convention]
    assert len(own) >= 5
    assert share(own) >= 0.99


def test_all_conventions_together_are_read_right(files: list[Compared]) -> None:
    assert len(files) >= 54
    assert share(files) >= max(MIN_SHARE, 0.995)


def test_no_file_is_read_badly(files: list[Compared]) -> None:
    low = {file.name: file.share for file in files if file.share < max(MIN_FILE_SHARE, 0.94)}
    assert low == {}


def is_trace_file(path: Path) -> bool:
    return path.parent.name != "feedback" and not path.name.endswith(".headers.json")


def short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


ALL_FILES = sorted(
    path for folder in ("public", "captured") for path in (SHARED / "traces" / folder).glob("*/*")
)
TRACE_FILES = [path for path in ALL_FILES if is_trace_file(path)]
OTHER_FILES = [path for path in ALL_FILES if not is_trace_file(path)]


@pytest.mark.parametrize("path", TRACE_FILES, ids=short)
def test_every_trace_file_is_read(path: Path) -> None:
    assert bodies(path)
    assert all(isinstance(extract(trace), RagRequest | NotARequest) for trace in read([path]))


@pytest.mark.parametrize("path", OTHER_FILES, ids=short)
def test_a_file_without_telemetry_is_refused_with_the_cure(path: Path) -> None:
    for function in (bodies, lambda file: read([file])):
        with pytest.raises(MalformedPayload, match=f"^{path.name}: .*give OTLP"):
            function(path)


def test_json_and_protobuf_of_one_recording_give_the_same_records() -> None:
    pairs = [path for path in TRACE_FILES if path.suffix == ".pb" and "wire" not in path.name]
    assert len(pairs) >= 20
    for path in pairs:
        of_json = [extract(trace) for trace in read([path.with_suffix(".json")])]
        assert [extract(trace) for trace in read([path])] == of_json
