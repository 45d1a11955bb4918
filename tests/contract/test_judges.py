"""Every engine keeps the Judge contract, and every failure of an endpoint has its own cause."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from pydantic import SecretStr

from collector.config import OpenAIConfig
from collector.model import (
    FAILURE_CAUSES,
    UNSCORED_REASONS,
    Document,
    Judgement,
    RagRequest,
)
from collector.ports import Judge
from collector.telemetry import Metrics
from scorers.judge.client import OpenAIJudge
from scorers.lexical import LexicalJudge
from tests.fakes import openai_server as fake
from tests.fakes.openai_server import Behaviour, OpenAIServer

KEY = "sk-canary-5f2d"
ANSWER = "The Pro plan includes SSO. The Pro plan costs 49 dollars a month."
PAGES = [
    Document(rank=1, title="Plans", text="The Pro plan includes SSO and audit logs."),
    Document(rank=2, title="Prices", text="The Pro plan costs 59 dollars a month."),
]


def make_request(**changes: Any) -> RagRequest:
    fields: dict[str, Any] = {
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "question": "What does the Pro plan include?",
        "answer": ANSWER,
        "documents": PAGES,
    }
    return RagRequest(**(fields | changes))


def make_config(server: OpenAIServer | None = None, **changes: Any) -> OpenAIConfig:
    fields: dict[str, Any] = {
        "base_url": server.base_url if server else "http://127.0.0.1:9/v1",
        "model": "judge-1",
        "max_retries": 1,
        "timeout_seconds": 5,
        "deadline_seconds": 20,
    }
    return OpenAIConfig(**(fields | changes))


@asynccontextmanager
async def openai_judge(
    config: OpenAIConfig, metrics: Metrics | None = None, key: str | None = KEY
) -> AsyncIterator[OpenAIJudge]:
    judge = OpenAIJudge(config, {"OPENAI_API_KEY": SecretStr(key)} if key else {}, metrics)
    try:
        yield judge
    finally:
        await judge.close()


async def judged_by(
    behaviours: Sequence[Behaviour],
    request: RagRequest | None = None,
    default: Behaviour | None = None,
    **changes: Any,
) -> tuple[Judgement, OpenAIServer]:
    with OpenAIServer(behaviours, default=default) as server:
        async with openai_judge(make_config(server, **changes)) as judge:
            return await judge.judge(request or make_request()), server


# --- The contract of both engines --------------------------------------------------------


@pytest.fixture(params=["lexical", "openai"])
async def judge(request: pytest.FixtureRequest) -> AsyncIterator[Judge]:
    if request.param == "lexical":
        yield LexicalJudge()
        return
    with OpenAIServer() as server:
        async with openai_judge(make_config(server)) as made:
            yield made


async def test_half_of_the_claims_backed_scores_one_half(judge: Judge) -> None:
    judgement = await judge.judge(make_request())
    assert judgement.status == "judged"
    assert judgement.score == 0.5
    assert judgement.reason is None
    assert [claim.verdict == "SUPPORTED" for claim in judgement.claims] == [True, False]
    assert judgement.fingerprint == judge.fingerprint
    assert judgement.trace_id == make_request().trace_id
    assert judgement.scorer == "faithfulness"


async def test_evidence_stands_word_for_word_in_the_document_named(judge: Judge) -> None:
    judgement = await judge.judge(make_request())
    claim = judgement.claims[0]
    assert claim.document_rank == 1
    assert claim.quote is not None
    assert claim.quote in (PAGES[0].text or "")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"question": None}, "no_question", id="no question"),
        pytest.param({"answer": None}, "no_answer", id="no answer"),
        pytest.param({"answer": " \n"}, "no_answer", id="blank answer"),
        pytest.param({"documents": []}, "no_context", id="no documents"),
        pytest.param(
            {"answer": None, "flags": ["content_missing"]}, "content_missing", id="answer not sent"
        ),
        pytest.param({"documents": [Document(rank=1)]}, "content_missing", id="texts not sent"),
        pytest.param(
            {"answer": "I'm sorry, but I don't know."}, "no_claims", id="the answer refuses"
        ),
    ],
)
async def test_an_answer_without_anything_to_judge_is_unscored_with_its_reason(
    judge: Judge, changes: dict[str, Any], reason: str
) -> None:
    judgement = await judge.judge(make_request(**changes))
    assert (judgement.status, judgement.score, judgement.reason) == ("unscored", None, reason)
    assert reason in UNSCORED_REASONS
    assert judgement.usage.calls == 0


async def test_closing_twice_is_harmless(judge: Judge) -> None:
    await judge.close()
    await judge.close()


# --- Failures of the endpoint ------------------------------------------------------------

TWICE_CUT = [fake.cut_reply(), fake.cut_reply()]


@pytest.mark.parametrize(
    ("behaviour", "cause", "calls"),
    [
        pytest.param(fake.rate_limited, "rate_limited", 2, id="429 again and again"),
        pytest.param(
            lambda: fake.rate_limited(code="insufficient_quota"),
            "rate_limited",
            1,
            id="429 for an exhausted quota is not repeated",
        ),
        pytest.param(fake.server_error, "server_error", 2, id="500"),
        pytest.param(lambda: fake.server_error(503), "server_error", 2, id="503"),
        pytest.param(fake.connection_drop, "connection", 2, id="connection dropped"),
        pytest.param(fake.unauthorized, "auth", 1, id="401"),
        pytest.param(lambda: fake.unauthorized(403), "auth", 1, id="403"),
        pytest.param(fake.bad_request, "bad_request", 1, id="400"),
        pytest.param(
            fake.context_length_exceeded, "context_too_long", 1, id="400 for a long prompt"
        ),
        pytest.param(
            fake.content_filter_error, "content_filter", 1, id="400 from a content filter"
        ),
        pytest.param(fake.content_filter, "content_filter", 1, id="stopped by a content filter"),
        pytest.param(fake.refusal, "refused", 1, id="the model refuses"),
        pytest.param(fake.cut_reply, "truncated_reply", 2, id="cut off twice"),
        pytest.param(fake.wrong_json, "unparseable", 2, id="prose"),
        pytest.param(fake.schema_violation, "unparseable", 2, id="JSON of another shape"),
        pytest.param(fake.no_choices, "empty_reply", 2, id="no choices"),
        pytest.param(lambda: fake.text(""), "empty_reply", 2, id="an empty reply"),
        pytest.param(lambda: fake.text("null"), "unparseable", 2, id="null"),
        pytest.param(lambda: fake.text("[]"), "unparseable", 2, id="an array"),
        pytest.param(fake.html_page, "unparseable", 1, id="a web page"),
        pytest.param(lambda: fake.body([]), "unparseable", 1, id="a list for a body"),
        pytest.param(lambda: fake.body({"choices": "x"}), "unparseable", 1, id="choices a string"),
        pytest.param(
            lambda: fake.body({"choices": [{"message": {"content": [{"text": "x"}]}}]}),
            "unparseable",
            1,
            id="content a list",
        ),
        pytest.param(lambda: fake.body({"error": "no"}), "empty_reply", 2, id="an error in a 200"),
    ],
)
@pytest.mark.parametrize("stage", ["listing the claims", "checking them"])
async def test_a_failing_endpoint_fails_the_judgement_with_its_cause_and_without_a_number(
    behaviour: Callable[[], Behaviour], cause: str, calls: int, stage: str
) -> None:
    first = [] if stage == "listing the claims" else [fake.good()]
    judgement, server = await judged_by(first, default=behaviour())
    assert (judgement.status, judgement.score, judgement.reason) == ("failed", None, cause)
    assert judgement.claims == []
    assert cause in FAILURE_CAUSES
    assert len(server.requests) == judgement.usage.calls == len(first) + calls


async def test_a_reply_that_does_not_come_is_a_timeout() -> None:
    started = time.monotonic()
    judgement, server = await judged_by([], default=fake.slow(30), timeout_seconds=0.3)
    assert (judgement.status, judgement.reason) == ("failed", "timeout")
    assert len(server.requests) == 2
    assert time.monotonic() - started < 5


async def test_nobody_listening_is_a_connection_failure() -> None:
    config = make_config(base_url=f"http://127.0.0.1:{fake.refused_port()}/v1")
    async with openai_judge(config) as judge:
        judgement = await judge.judge(make_request())
    assert (judgement.status, judgement.reason) == ("failed", "connection")


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param(fake.rate_limited, id="429"),
        pytest.param(fake.server_error, id="500"),
        pytest.param(fake.connection_drop, id="connection dropped"),
        pytest.param(fake.cut_reply, id="cut off"),
        pytest.param(fake.wrong_json, id="prose"),
        pytest.param(fake.schema_violation, id="JSON of another shape"),
        pytest.param(fake.no_choices, id="no choices"),
    ],
)
@pytest.mark.parametrize("stage", ["listing the claims", "checking them"])
async def test_one_hiccup_is_survived(behaviour: Callable[[], Behaviour], stage: str) -> None:
    first = [] if stage == "listing the claims" else [fake.good()]
    judgement, server = await judged_by([*first, behaviour()])
    assert (judgement.status, judgement.score) == ("judged", 0.5)
    assert len(server.requests) == judgement.usage.calls == 3


async def test_a_verdict_too_few_is_repaired_and_never_counted_as_it_came() -> None:
    judgement, _ = await judged_by([fake.good(), fake.dropped_verdict()])
    assert judgement.score == 0.5
    judgement, _ = await judged_by([fake.good()], default=fake.dropped_verdict())
    assert (judgement.status, judgement.reason) == ("failed", "unparseable")


async def test_an_empty_list_of_claims_is_questioned_once() -> None:
    nothing = fake.text('{"claims": []}')
    judgement, server = await judged_by([nothing])
    assert judgement.score == 0.5
    assert len(server.requests) == 3
    judgement, server = await judged_by([nothing, nothing])
    assert (judgement.status, judgement.reason) == ("unscored", "no_claims")
    assert len(server.requests) == judgement.usage.calls == 2


async def test_a_cut_reply_is_asked_for_again_with_more_room() -> None:
    _, server = await judged_by([fake.cut_reply()])
    bounds = [received.body["max_completion_tokens"] for received in server.requests]
    assert bounds[1] > bounds[0]


async def test_the_output_budget_grows_with_the_answer() -> None:
    long = " ".join(f"The Pro plan includes feature number {n}." for n in range(1, 31))
    _, short_server = await judged_by([])
    judgement, long_server = await judged_by([], make_request(answer=long))
    assert len(judgement.claims) == 30
    for short_call, long_call in zip(short_server.requests, long_server.requests, strict=True):
        assert (
            long_call.body["max_completion_tokens"] > 2 * short_call.body["max_completion_tokens"]
        )


# --- Retries -----------------------------------------------------------------------------


async def test_retry_after_in_seconds_is_waited_for() -> None:
    judgement, server = await judged_by([fake.rate_limited("1.2")])
    assert judgement.status == "judged"
    assert server.requests[1].at - server.requests[0].at >= 1.2


async def test_retry_after_as_a_date_is_waited_for() -> None:
    at = datetime.now(UTC) + timedelta(seconds=2)  # sent without its fraction of a second
    judgement, server = await judged_by([fake.rate_limited(format_datetime(at, usegmt=True))])
    assert judgement.status == "judged"
    assert server.requests[1].at - server.requests[0].at >= 0.8


@pytest.mark.parametrize("value", ["soon", "", "-5", "nan", "Wed, 21 Oct 2015 07:28:00 -0000"])
async def test_a_retry_after_without_sense_or_in_the_past_delays_nothing(value: str) -> None:
    started = time.monotonic()
    judgement, _ = await judged_by([fake.rate_limited(value)])
    assert judgement.status == "judged"
    assert time.monotonic() - started < 4


async def test_the_deadline_holds_over_all_retries_together() -> None:
    started = time.monotonic()
    judgement, _ = await judged_by(
        [], default=fake.slow(30), timeout_seconds=0.4, deadline_seconds=1, max_retries=20
    )
    assert (judgement.status, judgement.reason) == ("failed", "timeout")
    assert time.monotonic() - started < 8  # twenty times 0.4, were there no deadline


# --- What is sent ------------------------------------------------------------------------


async def test_every_call_is_mechanical_temperature_zero_and_a_strict_schema() -> None:
    _, server = await judged_by([])
    assert len(server.requests) == 2
    for received in server.requests:
        assert received.body["temperature"] == 0
        assert received.body["model"] == "judge-1"
        schema = received.body["response_format"]["json_schema"]
        assert schema["strict"] is True
        assert schema["schema"]["additionalProperties"] is False
        assert received.headers["authorization"] == f"Bearer {KEY}"


async def test_without_a_key_none_is_sent_whatever_the_environment_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    with OpenAIServer() as server:
        async with openai_judge(make_config(server), key=None) as judge:
            judgement = await judge.judge(make_request())
    assert judgement.status == "judged"
    assert all("authorization" not in received.headers for received in server.requests)


@pytest.mark.parametrize("parameter", ["json_schema", "temperature", "max_completion_tokens"])
async def test_what_the_endpoint_rejects_is_left_out_from_then_on(parameter: str) -> None:
    with OpenAIServer(default=fake.unsupported(parameter)) as server:
        async with openai_judge(make_config(server)) as judge:
            first = await judge.judge(make_request())
            second = await judge.judge(make_request())
    assert first.score == second.score == 0.5
    assert first.usage.calls == 3
    assert second.usage.calls == 2


async def test_plain_json_mode_follows_a_rejected_schema() -> None:
    _, server = await judged_by([], default=fake.unsupported("json_schema"))
    formats = [received.body["response_format"]["type"] for received in server.requests]
    assert formats == ["json_schema", "json_object", "json_object"]


async def test_neither_the_key_nor_a_text_of_users_is_logged(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    request = make_request(question="canary question", answer="The canary answer is 42.")
    for behaviours in ([], [fake.bad_request()], [fake.unauthorized()], [fake.wrong_json()] * 2):
        await judged_by(behaviours, request)
    printed = capsys.readouterr()
    everything = caplog.text + printed.out + printed.err
    assert KEY not in everything
    assert "canary" not in everything


def test_the_fingerprint_names_model_prompts_and_version_and_is_stable() -> None:
    one = OpenAIJudge(make_config()).fingerprint
    assert one == OpenAIJudge(make_config()).fingerprint
    engine, model, sha, version = one.split("/")
    assert (engine, model, version) == ("openai", "judge-1", "3")
    assert len(sha) == 8
    assert OpenAIJudge(make_config(model="judge-2")).fingerprint != one
