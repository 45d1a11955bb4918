"""Golden runs from the command line: the README's commands, recorded answers, the store."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from starlette.responses import JSONResponse
from typer.testing import CliRunner

import collector.demo
from collector.cli import app
from collector.demo.assistant import Assistant
from collector.demo.retrieval import Hit
from collector.errors import UsageError
from scorers.lexical import FINGERPRINT
from sinks import golden_file
from sinks.golden_file import GoldenRow
from tests.fakes.assistants import AssistantServer
from tests.fakes.openai_server import OpenAIServer, refused_port
from tests.processes import AgentProcess
from tests.readme_tables import README

GOLDEN = Path(collector.demo.__file__).parent / "golden.yaml"
STORED = """
import json, sys
from sinks.connection import READER_SETTINGS, connect
client = connect(f"chdb://{sys.argv[1]}", READER_SETTINGS)
rows = client.query(
    "SELECT question_id, segment, diagnosis, measures, failures FROM eval_rows FINAL "
    "WHERE run_id = {run:String} ORDER BY question_id", parameters={"run": sys.argv[2]})
runs = client.query("SELECT run_id, fingerprint, summary FROM eval_runs FINAL")
print(json.dumps({"rows": list(rows.named_results()), "runs": list(runs.named_results())}))
client.close()
"""


def groundwatch(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "collector", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def stored(folder: Path, run: str) -> dict[str, Any]:
    """Read what the store holds, in a process of its own: the engine serves one folder."""
    script = [sys.executable, "-c", STORED, str(folder.resolve()), run]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def documents(hits: Sequence[Hit]) -> list[dict[str, str]]:
    return [
        {"document_id": hit.page.page_id, "title": hit.page.title, "text": hit.page.text}
        for hit in hits
    ]


def respond(assistant: Assistant, body: dict[str, Any]) -> dict[str, Any]:
    given = assistant.answer(body["question"])
    return {"answer": given.answer, "documents": documents(given.context)}


def commands_of_the_readme() -> list[list[str]]:
    (section,) = re.findall(
        r"## Golden set and releases\n.*?```bash\n(.*?)```", README.read_text(), re.DOTALL
    )
    return [shlex.split(line)[1:] for line in section.splitlines()]


def test_the_commands_of_the_readme_tell_the_mended_assistant_from_the_planted_one(
    tmp_path: Path,
) -> None:
    shutil.copy(GOLDEN, tmp_path / "golden.yaml")
    questions = len(golden_file.load(GOLDEN))
    assistant = Assistant()
    with AssistantServer(lambda body: respond(assistant, body)) as server:
        eval_before, eval_after, compare, gate = (
            [word.replace("http://127.0.0.1:8000/ask", server.url) for word in words]
            for words in commands_of_the_readme()
        )
        before = groundwatch(tmp_path, *eval_before)
        assistant = Assistant(fixed=True)
        after = groundwatch(tmp_path, *eval_after)
        assert server.asked.total() == 2 * questions
    assert (before.returncode, after.returncode) == (0, 0), before.stderr + after.stderr
    assert "a stand-in that compares words" in before.stdout
    compared = groundwatch(tmp_path, *compare)
    assert re.search(r"^correctness .* better$", compared.stdout, re.MULTILINE), compared.stdout
    passed = groundwatch(tmp_path, *gate)
    assert (passed.returncode, passed.stdout.splitlines()[0]) == (0, "passed")
    command, old, new = gate
    blocked = groundwatch(tmp_path, command, new, old)
    assert (blocked.returncode, blocked.stdout.splitlines()[0]) == (1, "blocked")
    assert "correctness went from 1.000" in blocked.stdout
    as_summary = groundwatch(tmp_path, command, new, old, "--format", "md")
    assert (as_summary.returncode, as_summary.stdout[:9]) == (1, "# Blocked")
    listed = json.loads(groundwatch(tmp_path, "evaluations", "--json").stdout)
    assert [(one["run"], one["state"], one["questions"]) for one in listed] == [
        ("before", "finished", questions),
        ("after", "finished", questions),
    ]
    (suite,) = ElementTree.fromstring(
        groundwatch(tmp_path, "evaluations", "before", "--format", "junit").stdout.encode()
    )
    assert suite.get("tests") == str(questions)
    assert int(suite.get("failures", 0)) > 0


def test_a_run_goes_to_the_agent_that_holds_the_store(tmp_path: Path) -> None:
    rows = golden_file.load(GOLDEN)
    assistant = Assistant(fixed=True)
    answers = [{"id": row.id, **respond(assistant, {"question": row.question})} for row in rows]
    answers[0] = {"id": rows[0].id}
    results = tmp_path / "answers.jsonl"
    results.write_text("".join(json.dumps(answer) + "\n" for answer in answers))
    with AgentProcess(tmp_path, {}) as agent:
        words = ("eval", str(GOLDEN), "--results", str(results), "--run", "nightly", "--json")
        done = agent.run_command(*words)
        assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    found = stored(tmp_path / "data" / "clickhouse", "nightly")
    assert [row["question_id"] for row in found["rows"]] == sorted(row.id for row in rows)
    by_id = {row["question_id"]: row for row in found["rows"]}
    unanswerable = next(row for row in rows if not row.answerable)
    assert by_id[unanswerable.id]["measures"]["refusal"] == 1.0
    assert "recall@5" not in by_id[unanswerable.id]["measures"]
    assert by_id[rows[0].id]["failures"]["faithfulness"] == "no_answer"
    (run,) = found["runs"]
    assert (run["run_id"], run["fingerprint"]) == ("nightly", FINGERPRINT)
    assert json.loads(run["summary"])["questions"] == report["questions"] == len(rows)


def a_trace(number: int, row: GoldenRow, answer: dict[str, Any]) -> dict[str, Any]:
    """Return one request in OpenInference, its root carrying the golden id."""

    def span(id_: int, parent: str, attributes: dict[str, str]) -> dict[str, Any]:
        start = time.time_ns() - 10**9
        return {
            "traceId": f"{number + 1:032x}",
            "spanId": f"{id_:016x}",
            "parentSpanId": parent,
            "name": "rag",
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + 250_000_000),
            "attributes": [
                {"key": key, "value": {"stringValue": value}} for key, value in attributes.items()
            ],
        }

    found = {
        f"retrieval.documents.{i}.document.{key}": document[name]
        for i, document in enumerate(answer["documents"])
        for key, name in (("id", "document_id"), ("content", "text"))
    }
    root = {
        "openinference.span.kind": "CHAIN",
        "input.value": row.question,
        "output.value": answer["answer"],
        "test.golden_id": row.id,
    }
    retriever = {"openinference.span.kind": "RETRIEVER", "input.value": row.question, **found}
    spans = [span(1, "", root), span(2, f"{1:016x}", retriever)]
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def test_stored_traces_that_carry_golden_ids_are_measured(tmp_path: Path) -> None:
    rows = golden_file.load(GOLDEN)[:6]
    golden_file.append(tmp_path / "golden.yaml", rows)
    assistant = Assistant(fixed=True)
    with AgentProcess(tmp_path, {"assembler": {"quiet_seconds": 0.2}}) as agent:
        for number, row in enumerate(rows[:5]):
            body = a_trace(number, row, respond(assistant, {"question": row.question}))
            sent = httpx.post(f"{agent.urls['otlp_http']}/v1/traces", json=body, trust_env=False)
            assert sent.status_code == 200
        deadline = time.monotonic() + 60
        while agent.totals()["requests"] < 5:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        golden = str(tmp_path / "golden.yaml")
        done = agent.run_command("eval", golden, "--stored", "test.golden_id", "--json")
        none = agent.run_command("eval", golden, "--stored", "no.such.attribute")
    assert done.returncode == 0, done.stderr
    measures = json.loads(done.stdout)["groups"][0]["measures"]
    assert measures["context_recall"]["n"] == measures["faithfulness"]["n"] == 5
    assert measures["context_recall"]["mean"] == measures["correctness"]["mean"] == 1.0
    assert measures["faithfulness"]["failed"] == {"not_recorded": 1}
    assert measures["latency_ms"]["mean"] == pytest.approx(250)
    assert (none.returncode, "no.such.attribute" in none.stderr) == (2, True)


def test_judging_a_run_keeps_to_the_daily_budget_and_is_made_up_for_later(
    tmp_path: Path,
) -> None:
    row = {"id": "a", "question": "Is SSO on Pro?", "reference_answer": "SSO is on Pro."}
    (tmp_path / "golden.json").write_text(json.dumps([row | {"segment": "lookup"}]))
    answer = {
        "id": "a",
        "answer": "SSO is on Pro.",
        "documents": [{"id": "1", "text": "SSO is on Pro."}],
    }
    (tmp_path / "answers.jsonl").write_text(json.dumps(answer))

    def config(budget: float) -> str:
        openai = {
            "base_url": server.base_url,
            "model": "m",
            "api_key_env": None,
            "daily_budget_usd": budget,
            "prices": {"m": {"input_usd_per_mtok": 10.0, "output_usd_per_mtok": 10.0}},
        }
        file = tmp_path / f"{budget}.json"
        file.write_text(json.dumps({"judge": {"engine": "openai", "openai": openai}}))
        return file.name

    words = ("eval", "golden.json", "--results", "answers.jsonl", "--run", "a", "--no-store")
    with OpenAIServer() as server:
        broke = groundwatch(tmp_path, *words, "-c", config(0.000001))
        asked = len(server.requests)
        rich = groundwatch(tmp_path, "eval", "--resume", "a", "--no-store", "-c", config(5.0))
    assert (broke.returncode, asked) == (0, 0), broke.stderr
    assert "faithfulness, correctness failed: budget_exhausted 1" in broke.stdout
    assert rich.returncode == 0, rich.stderr
    assert re.search(r"^correctness +1.000", rich.stdout, re.MULTILINE), rich.stdout
    assert "judging cost 0.0" in rich.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("eval golden.yaml", "one of --target, --results, --stored"),
        ("eval none.yaml --target http://127.0.0.1:1/", "none.yaml"),
        ("eval golden.yaml --target 127.0.0.1:1", "--target"),
        ("eval golden.yaml --target http://[::1", "--target"),
        ("eval golden.yaml --results none.jsonl", "none.jsonl"),
        ("eval golden.yaml --target http://h/ --run a/b", "--run"),
        ("eval golden.yaml --target http://h/ --by topic", "--by"),
        ("eval golden.yaml --resume before --tier retrieval", "golden, --tier"),
        ("eval golden.yaml --results others.jsonl", "others.jsonl"),
        ("gate one one", "same run"),
        ("evaluations none", "no run is there"),
        ("evaluations --format md", "name the run"),
        ("eval --resume none", "no run is there"),
        ("compare one two", "no run is there"),
    ],
)
def test_wrong_use_is_named_with_its_cure(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(GOLDEN, tmp_path / "golden.yaml")
    (tmp_path / "others.jsonl").write_text('{"id": "of another set", "answer": "Yes."}\n')
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(app, shlex.split(words)).exception
    assert isinstance(error, UsageError)  # exit code 2
    assert said in str(error)
    assert not (tmp_path / "groundwatch-data").exists()  # nothing was begun


def test_an_assistant_that_answers_nothing_is_no_report_and_is_asked_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "golden.yaml").write_text("- {id: a, question: Who?, segment: lookup}\n")
    replies: list[Any] = [JSONResponse({}, 500), {"answer": "Ana."}]
    with AssistantServer(lambda _: replies.pop(0)) as server:
        options = ("--run", "a", "--no-store")
        broken = groundwatch(tmp_path, "eval", "golden.yaml", "--target", server.url, *options)
        assert (broken.returncode, "none of 1 questions: HTTP 500" in broken.stderr) == (3, True)
        mended = groundwatch(tmp_path, "eval", "--resume", "a", "--no-store")
    assert (mended.returncode, replies) == (0, [])


def test_recorded_answers_to_other_questions_are_told(tmp_path: Path) -> None:
    (tmp_path / "golden.yaml").write_text("- {id: a, question: Who?, segment: lookup}\n")
    (tmp_path / "answers.jsonl").write_text('{"id": "a", "answer": "Ana."}\n{"id": "b"}\n')
    words = ("eval", "golden.yaml", "--results", "answers.jsonl", "--no-store")
    done = groundwatch(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "1 of 2 recorded answers are left out" in done.stderr


def test_an_assistant_that_is_down_ends_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    (tmp_path / "golden.yaml").write_text("- question: Who?\n  segment: lookup\n")
    (tmp_path / "fast.yaml").write_text("evaluation: {target: {max_retries: 0}}\n")
    url = f"http://127.0.0.1:{refused_port()}/ask"
    options = ("--run", "a", "-c", "fast.yaml")
    down = groundwatch(tmp_path, "eval", "golden.yaml", "--target", url, *options)
    assert (down.returncode, "is it running" in down.stderr) == (3, True)
    assert "eval --resume a" in down.stderr
    (tmp_path / "other.yaml").write_text("judge: {engine: openai, openai: {api_key_env: null}}\n")
    another = groundwatch(tmp_path, "eval", "--resume", "a", "-c", "other.yaml")
    assert (another.returncode, f"begun with {FINGERPRINT}" in another.stderr) == (2, True)
    (tmp_path / "golden.yaml").write_text("- question: Who was it?\n  segment: lookup\n")
    changed = groundwatch(tmp_path, "eval", "--resume", "a", "-c", "fast.yaml")
    assert (changed.returncode, "start a new run" in changed.stderr) == (2, True)
