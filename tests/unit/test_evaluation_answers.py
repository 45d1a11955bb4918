"""Answers read from the JSON of other people's assistants, and kept on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.config import ResponseConfig
from collector.errors import UsageError
from collector.evaluation.answers import Answer, ResponseReader, Unreadable
from collector.evaluation.folder import RunFolder, finished
from collector.evaluation.targets import results_file
from sinks.golden_file import GoldenRow
from tests.fakes.evaluated import an_eval_row, an_eval_run


def read(body: Any, **paths: str) -> Answer:
    return ResponseReader(ResponseConfig.model_validate(paths)).read("q1", body)


def test_our_own_shape_needs_no_mapping() -> None:
    answer = read(
        {
            "answer": "Yes.",
            "documents": [{"document_id": "212", "text": "SSO"}, {"id": 1140, "title": "Add-ons"}],
            "usage": {"input_tokens": 120, "output_tokens": 3},
            "cost_usd": 0.002,
        }
    )
    assert [d.document_id for d in answer.documents or []] == ["212", "1140"]
    assert [d.rank for d in answer.documents or []] == [1, 2]
    assert (answer.answer, answer.input_tokens, answer.cost_usd) == ("Yes.", 120, 0.002)
    assert answer.latency_ms is None


def test_a_chat_completion_with_langchain_documents_is_mapped_by_paths() -> None:
    body = {
        "choices": [{"message": {"content": "Yes."}}],
        "context": [{"page_content": "SSO", "metadata": {"page": "212"}}],
    }
    answer = read(
        body,
        answer="choices[0].message.content",
        documents="context[].{document_id: metadata.page, text: page_content}",
    )
    assert answer.answer == "Yes."
    assert answer.documents is not None
    assert (answer.documents[0].document_id, answer.documents[0].text) == ("212", "SSO")


def test_a_list_of_ids_is_enough_for_retrieval() -> None:
    assert [d.document_id for d in read({"documents": ["a", "b"]}).documents or []] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"answer": {"text": "Yes."}}, "response.answer"),
        ({"documents": "212"}, "response.documents"),
        ({"documents": [{"name": "212"}]}, "response.documents"),
        ({"usage": {"input_tokens": "many"}}, "response.input_tokens"),
        ({"cost_usd": -1}, "response.cost_usd"),
    ],
)
def test_another_shape_names_the_setting_and_shows_no_text(body: Any, named: str) -> None:
    with pytest.raises(Unreadable, match=named) as caught:
        read(body)
    assert "Yes." not in str(caught.value)


def test_texts_that_nothing_can_store_are_made_storable() -> None:
    answer = read({"answer": "half \ud83d\x00", "documents": [{"id": "\udc00", "text": "\ud800"}]})
    assert answer.answer == "half \ufffd\ufffd"
    assert [(d.document_id, d.text) for d in answer.documents or []] == [("\ufffd", "\ufffd")]


def test_an_expression_that_does_not_fit_a_response_fails_that_response_only() -> None:
    with pytest.raises(Unreadable, match=r"response\.answer"):
        read({"parts": None}, answer="join(' ', parts)")


def test_every_bad_line_of_a_file_of_results_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(
        '{"id": "a", "answer": "x"}\nnot json\n{"answer": "y"}\n{"id": "a"}\n' + "[" * 10**5
    )
    with pytest.raises(UsageError) as caught:
        results_file(path, ResponseConfig())
    assert [problem.split(": ")[0] for problem in caught.value.problems] == [
        f"{path}:2",
        f"{path}:3",
        f"{path}:4",
        f"{path}:5",
    ]


async def test_a_file_of_results_may_hold_marks_of_windows_and_any_sign_in_a_text(
    tmp_path: Path,
) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes('\ufeff{"id": "a", "answer": "line\u2028or \x85 page"}\r\n\r\n'.encode())
    answer = await results_file(path, ResponseConfig()).ask(GoldenRow(id="a", question="q"))
    assert answer.answer == "line\u2028or \x85 page"


def test_half_a_line_of_a_killed_process_is_cut_off_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunFolder.create(path, an_eval_run()) as folder:
        folder.add_answer(Answer(question_id="a", answer="one"))
    with (path / "answers.jsonl").open("ab") as file:
        file.write(b'{"question_id":"b","ans')
    with RunFolder(path) as folder:
        assert set(folder.answers) == {"a"}
        folder.add_answer(Answer(question_id="b", answer="two"))
    with RunFolder(path) as folder:
        assert folder.answers["b"].answer == "two"


def test_a_failed_attempt_is_no_answer_and_a_run_belongs_to_one_process(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunFolder.create(path, an_eval_run()) as folder:
        folder.add_answer(Answer(question_id="a", error="HTTP 500"))
        assert folder.answers == {}
        with pytest.raises(UsageError, match="another process"):
            RunFolder(path)
    with pytest.raises(UsageError, match="--resume"):
        RunFolder.create(path, an_eval_run())


def test_what_users_may_have_asked_is_readable_by_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "evaluations" / "run"
    RunFolder.create(path, an_eval_run()).__exit__()
    assert {folder.stat().st_mode & 0o777 for folder in (path, *path.parents[:2])} == {0o700}


def test_only_finished_runs_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunFolder.create(path, an_eval_run()) as folder:
        folder.add_row(an_eval_row(1, measures={"mrr": 0.5, "correctness": None}))
        with pytest.raises(UsageError, match="not finished"):
            finished(path)
        folder.finish({})
    with (path / "rows.jsonl").open("ab") as file:
        file.write(b'{"question_id":"q2","que')  # resumed and killed
    (row,) = finished(path).rows.values()
    assert row.measures == {"mrr": 0.5, "correctness": None}


def test_a_run_that_was_killed_before_it_began_can_begin(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with RunFolder.create(tmp_path / "run", an_eval_run()) as folder:
        assert folder.run == an_eval_run()
