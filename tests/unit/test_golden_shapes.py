"""Golden rows as datasets of other tools, with the names that their loaders read."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from collector.cli import app
from collector.golden.shapes import SHAPES
from sinks import golden_file
from sinks.golden_file import GoldenRow

ROWS = [
    GoldenRow(
        id="sso",
        question="Is SSO on Pro? ¿Sí?",
        segment="lookup",
        reference_answer="Yes.",
        gold_sources=["212", "1140"],
        quotes=["SSO is on Pro"],
        trace_id="0af7",
        extra={"provenance": {"judge": "lexical-2"}, "owner": "anna"},
    ),
    GoldenRow(id="pets", question="Pets?", segment="none", answerable=False, synthetic=True),
]


def test_ragas_reads_one_sample_a_line() -> None:
    # SingleTurnSample of ragas 0.4: quotes are contexts, pages their ids.
    first, second = map(json.loads, SHAPES["ragas"](ROWS, "ours").splitlines())
    assert first == {
        "user_input": "Is SSO on Pro? ¿Sí?",
        "reference": "Yes.",
        "reference_contexts": ["SSO is on Pro"],
        "reference_context_ids": ["212", "1140"],
    }
    assert second == {"user_input": "Pets?"}


def test_deepeval_reads_an_array_of_goldens() -> None:
    # Key names of EvaluationDataset.add_goldens_from_json_file of deepeval 4.
    first, second = json.loads(SHAPES["deepeval"](ROWS, "ours"))
    assert (first["input"], first["expected_output"]) == ("Is SSO on Pro? ¿Sí?", "Yes.")
    assert (first["context"], first["name"]) == (["SSO is on Pro"], "sso")
    assert first["additional_metadata"]["gold_sources"] == ["212", "1140"]
    assert first["additional_metadata"]["provenance"] == {"judge": "lexical-2"}
    assert "expected_output" not in second
    assert second["additional_metadata"] == {
        "golden_id": "pets",
        "segment": "none",
        "gold_sources": [],
        "answerable": False,
        "synthetic": True,
    }


def test_langfuse_reads_one_dataset_item_a_line() -> None:
    # Body of POST /api/public/dataset-items; an id is unique to the project.
    first, second = map(json.loads, SHAPES["langfuse"](ROWS, "ours").splitlines())
    assert (first["datasetName"], first["id"]) == ("ours", "ours/sso")
    assert first["input"] == {"question": "Is SSO on Pro? ¿Sí?"}
    assert first["expectedOutput"] == {"answer": "Yes."}
    assert first["sourceTraceId"] == "0af7"
    assert "expectedOutput" not in second
    assert second["metadata"]["answerable"] is False


def test_phoenix_reads_parallel_lists() -> None:
    # Body of POST /v1/datasets/upload.
    body = json.loads(SHAPES["phoenix"](ROWS, "ours"))
    assert (body["action"], body["name"]) == ("create", "ours")
    assert body["inputs"] == [{"question": "Is SSO on Pro? ¿Sí?"}, {"question": "Pets?"}]
    assert body["outputs"] == [{"answer": "Yes."}, {}]
    assert [one["golden_id"] for one in body["metadata"]] == ["sso", "pets"]
    assert body["splits"] == ["lookup", "none"]


def test_the_command_prints_the_rows_of_a_file_but_no_drafts(tmp_path: Path) -> None:
    path = tmp_path / "ours.yaml"
    draft = GoldenRow(id="d", question="A draft?", extra={"draft": True})
    golden_file.append(path, [*ROWS, draft])
    before = path.read_bytes()
    for name, write in SHAPES.items():
        done = CliRunner().invoke(app, ["golden", "export", str(path), "--format", name])
        assert (done.exit_code, done.output) == (0, write(golden_file.load(path)[:2], "ours"))
    assert path.read_bytes() == before
