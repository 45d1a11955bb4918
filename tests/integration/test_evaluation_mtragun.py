"""A public golden set of 507 questions, put to a small retriever over HTTP.

MTRAG-UN (IBM): questions in conversations on 1152 passages, among them 97 that the passages cannot
answer. All numbers of the assistant can be worked out here too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from collector.cli import app
from tests.fakes.assistants import AssistantServer
from tests.fakes.mtragun import FOLDER, REFUSAL, Bm25Assistant, json_lines

pytestmark = pytest.mark.shared

K = 5


@pytest.fixture(scope="module")
def golden() -> list[dict[str, Any]]:
    return json_lines(FOLDER / "golden.jsonl")


@pytest.fixture(scope="module")
def assistant() -> Iterator[AssistantServer]:
    with AssistantServer(Bm25Assistant()) as server:
        yield server


@pytest.fixture(scope="module")
def report(assistant: AssistantServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("mtragun")
    config = folder / "groundwatch.yaml"
    config.write_text(
        f"data_dir: {folder}/data\n"
        "evaluation: {target: {concurrency: 8, request: '{id: id, question: question}'}}\n"
    )
    words = ["eval", str(FOLDER / "golden.jsonl"), "--target", assistant.url, "-c", str(config)]
    options = ["--tier", "retrieval", "--by", "answerability", "--run", "bm25", "--no-store"]
    done = CliRunner().invoke(app, [*words, *options, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    found["folder"] = folder / "data/evaluations/bm25"
    return found


def group(report: dict[str, Any], name: str) -> Any:
    (found,) = [one for one in report["groups"] if one["segment"] == name]
    return found


def test_every_question_is_asked_once_and_reported_by_answerability(
    report: dict[str, Any], assistant: AssistantServer
) -> None:
    assert set(assistant.asked.values()) == {1}
    assert assistant.asked.total() == report["questions"] == 507
    sizes = {one["segment"]: one["questions"] for one in report["groups"]}
    assert sizes == {
        "all": 507,
        "ANSWERABLE": 285,
        "PARTIAL": 47,
        "UNANSWERABLE": 97,
        "UNDERSPECIFIED": 78,
    }


def test_refusal_is_reported_on_the_unanswerable_and_recall_is_undefined_there(
    report: dict[str, Any], golden: list[dict[str, Any]]
) -> None:
    rows = {row["question_id"]: row for row in saved(report["folder"], "rows.jsonl")}
    measures = group(report, "UNANSWERABLE")["measures"]
    assert measures["refusal"]["n"] == 97
    answers = {a["question_id"]: a["answer"] for a in saved(report["folder"], "answers.jsonl")}
    unanswerable = [row["id"] for row in golden if row["answerability"] == "UNANSWERABLE"]
    refused = sum(answers[id_] == REFUSAL for id_ in unanswerable)
    assert 0 < refused < 97
    assert measures["refusal"]["mean"] == pytest.approx(refused / 97)
    assert measures[f"recall@{K}"]["n"] == 0
    assert measures[f"recall@{K}"]["mean"] is None
    assert all(rows[id_]["measures"]["wrong_refusal"] is None for id_ in unanswerable)


def test_recall_is_what_set_arithmetic_says(
    report: dict[str, Any], golden: list[dict[str, Any]]
) -> None:
    answers = {a["question_id"]: a for a in saved(report["folder"], "answers.jsonl")}
    shares = []
    for row in golden:
        if row["answerability"] == "ANSWERABLE":
            top = {document["document_id"] for document in answers[row["id"]]["documents"][:K]}
            gold = set(row["gold_sources"])
            shares.append(len(gold & top) / len(gold))
    recall = group(report, "ANSWERABLE")["measures"][f"recall@{K}"]
    assert recall["n"] == len(shares) == 285
    assert recall["mean"] == pytest.approx(sum(shares) / 285)
    assert recall["low"] < recall["mean"] < recall["high"]
    assert recall["bootstrap"][0] < recall["mean"] < recall["bootstrap"][1]


def saved(folder: Path, name: str) -> list[dict[str, Any]]:
    return json_lines(folder / name)
