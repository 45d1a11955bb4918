"""Golden questions put to a real HTTP assistant that is slow, busy, broken or gone."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, PlainTextResponse, Response

from collector.config import TargetConfig
from collector.errors import PermanentDependencyError, TransientDependencyError, UsageError
from collector.evaluation.answers import Answer
from collector.evaluation.folder import RunFolder
from collector.evaluation.run import evaluate
from collector.evaluation.targets import HttpTarget
from sinks.golden_file import GoldenRow
from tests.fakes.assistants import AssistantServer
from tests.fakes.evaluated import an_eval_run
from tests.fakes.openai_server import refused_port

ROW = GoldenRow(
    id="sso",
    question="Is SSO on Pro?",
    extra={"history": [{"role": "user", "text": "Hello"}]},
)
GOOD = {"answer": "Yes.", "documents": ["212"]}


async def asked(url: str, row: GoldenRow = ROW, token: str | None = None, **config: Any) -> Answer:
    target = HttpTarget(url, TargetConfig.model_validate(config), token)
    try:
        return await target.ask(row)
    finally:
        await target.close()


async def test_a_question_is_put_and_an_answer_read_as_the_config_says() -> None:
    bodies: list[Any] = []

    def chat(body: Any) -> Any:
        bodies.append(body)
        return {"choices": [{"message": {"content": "Yes."}}]}

    with AssistantServer(chat) as assistant:
        answer = await asked(
            assistant.url,
            token="secret",
            request="{messages: [{role: 'user', content: question}], earlier: history[].text}",
            response={"answer": "choices[0].message.content"},
            headers={"x-tenant": "test"},
        )
    assert bodies == [
        {"messages": [{"role": "user", "content": "Is SSO on Pro?"}], "earlier": ["Hello"]}
    ]
    assert (answer.answer, answer.documents, answer.error) == ("Yes.", None, None)
    assert answer.latency_ms is not None
    assert assistant.headers[0]["authorization"] == "Bearer secret"
    assert assistant.headers[0]["x-tenant"] == "test"


async def test_a_busy_assistant_is_asked_again_when_it_says() -> None:
    replies: list[Any] = [
        JSONResponse({}, 429, {"retry-after": "1"}),
        JSONResponse({}, 503),
        GOOD,
    ]
    with AssistantServer(lambda _: replies.pop(0)) as assistant:
        answer = await asked(assistant.url)
    assert answer.answer == "Yes."
    assert assistant.started[1] - assistant.started[0] >= 1.0


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (JSONResponse({}, 500), "HTTP 500"),
        (JSONResponse({}, 403), "HTTP 403"),
        (
            JSONResponse({}, 307, {"location": "/ask/"}),
            "HTTP 307: redirects; ask its final address",
        ),
        (PlainTextResponse("<html>"), "the response is no JSON"),
        (PlainTextResponse("[" * 100_000), "the response is no JSON"),
        (Response(b"\xff\xfe{"), "the response is no JSON"),
        (
            Response(b"{}", headers={"content-encoding": "gzip"}),
            "the response is compressed in a way it does not say",
        ),
        (
            JSONResponse({"answer": ["Yes."]}),
            "evaluation.target.response.answer: must lead to a text",
        ),
    ],
)
async def test_what_is_no_answer_fails_this_question_with_its_cause(
    reply: Response, error: str
) -> None:
    with AssistantServer(lambda _: reply) as assistant:
        answer = await asked(assistant.url)
    assert (answer.error, answer.answer) == (error, None)
    assert assistant.asked.total() == 1


async def test_an_assistant_that_stays_busy_or_hangs_fails_in_the_end() -> None:
    with AssistantServer(lambda _: JSONResponse({}, 503)) as assistant:
        assert (await asked(assistant.url, max_retries=1)).error == "HTTP 503"
        assert assistant.asked.total() == 2
    with AssistantServer(lambda _: GOOD, latency_seconds=2) as assistant:
        assert (await asked(assistant.url, timeout_seconds=0.2)).error == "timeout"


async def test_nobody_there_ends_the_run_instead_of_failing_every_question() -> None:
    with pytest.raises(TransientDependencyError, match="is it running"):
        await asked(f"http://127.0.0.1:{refused_port()}/ask", max_retries=0)


async def test_an_assistant_that_wants_a_login_ends_the_run_and_names_the_setting() -> None:
    with (
        AssistantServer(lambda _: JSONResponse({}, 401)) as assistant,
        pytest.raises(PermanentDependencyError, match=r"evaluation\.target\.token_env"),
    ):
        await asked(assistant.url)


async def test_questions_are_asked_side_by_side_within_rate_and_bound(tmp_path: Path) -> None:
    rows = [GoldenRow(id=f"q{i}", question=f"Question {i}?") for i in range(12)]
    config = TargetConfig(concurrency=3, requests_per_second=50)
    with (
        AssistantServer(lambda _: GOOD, latency_seconds=0.2) as assistant,
        RunFolder.create(tmp_path / "run", an_eval_run()) as folder,
    ):
        target = HttpTarget(assistant.url, config)
        done: list[None] = []
        found = await evaluate(
            folder, rows, target, None, concurrency=3, advanced=lambda: done.append(None)
        )
        await target.close()
    assert [row.question_id for row in found] == [row.id for row in rows]
    assert assistant.at_once == 3
    assert set(assistant.asked.values()) == {1}
    assert len(done) == 12


async def test_a_rate_spaces_the_questions() -> None:
    target_config = TargetConfig(requests_per_second=10)
    with AssistantServer(lambda _: GOOD) as assistant:
        target = HttpTarget(assistant.url, target_config)
        began = time.monotonic()
        await asyncio.gather(*(target.ask(ROW) for _ in range(4)))
        await target.close()
    # From the start: on a busy machine the first arrives late, the last never early.
    assert max(assistant.started) - began >= 0.3


def test_an_expression_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ValueError, match="JMESPath"):
        TargetConfig.model_validate({"request": "{question: "})


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run is there"):
        RunFolder(tmp_path)
