"""The demo's traffic as an agent would receive it, on a real port."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from opentelemetry import trace

from collector.demo.assistant import Assistant
from collector.demo.scenario import Scenario
from collector.demo.traffic import Played, TurnPlayed, play, scenario, steady
from collector.errors import PermanentDependencyError
from collector.extract import extract
from collector.model import RagRequest, Trace
from collector.otlp import decode_traces
from tests.fakes.demo_agent import Agent, Received, listening, signals_in, traces_in


@pytest.fixture
def agent() -> Iterator[Agent]:
    with listening() as stand_in:
        yield stand_in


class Run(NamedTuple):
    """One whole scenario as played and as received."""

    story: Scenario
    played: Played
    agent: Agent
    seconds: float

    @property
    def traces(self) -> dict[str, list[Received]]:
        return traces_in(self.agent.sent_to("/v1/traces"))

    @property
    def signals(self) -> list[dict[str, Any]]:
        return signals_in(self.agent.sent_to("/v1/signals"))


@pytest.fixture(scope="module")
def run() -> Run:
    story = scenario(7)
    with listening() as stand_in:
        began = time.monotonic()
        played = asyncio.run(play(story, otlp_url=stand_in.url))
        return Run(story, played, stand_in, time.monotonic() - began)


def root_of(spans: list[Received]) -> Received:
    (root,) = [span for span in spans if not span.parent]
    return root


def stage(spans: list[Received], key: str, value: str) -> Received:
    (found,) = [span for span in spans if span.attributes.get(key) == value]
    return found


def test_a_scenario_plays_within_ten_seconds(run: Run) -> None:
    assert run.seconds < 10


def test_every_question_arrives_as_one_trace_of_the_assistant(run: Run) -> None:
    story, played = run.story, run.played
    traces = run.traces
    assert played.requests == story.requests == len(traces)
    assert {turn.trace_id for turn in played.turns} == set(traces)
    assert played.spans == sum(len(spans) for spans in traces.values())
    assert {span.service for spans in traces.values() for span in spans} == {"acme-desk-assistant"}
    assert [p.question for p in played.planted]
    assert {p.trace_id for p in played.planted} <= set(traces)
    assert len(played.planted) == len(story.planted)


def test_web_requests_arrive_in_openinference(run: Run) -> None:
    played = run.played
    traces = run.traces
    web = [turn for turn in played.turns if turn.channel == "web"]
    assert len(web) > 60
    kind = "openinference.span.kind"
    for turn in web:
        spans = traces[turn.trace_id]
        root = root_of(spans)
        assert root.attributes[kind] == "CHAIN"
        assert root.attributes["input.value"] == turn.question
        assert root.attributes["output.value"] == turn.answer
        assert root.attributes["session.id"] == turn.conversation_id
        assert root.attributes["user.id"].startswith("user-")
        retriever = stage(spans, kind, "RETRIEVER").attributes
        reranker = stage(spans, kind, "RERANKER").attributes
        candidates = documents(retriever, "retrieval.documents")
        kept = documents(reranker, "reranker.output_documents")
        assert documents(reranker, "reranker.input_documents") == candidates
        assert kept.items() <= candidates.items()
        llm = stage(spans, kind, "LLM")
        messages = [
            llm.attributes[f"llm.input_messages.{n}.message.content"]
            for n in range(len(llm.attributes))
            if f"llm.input_messages.{n}.message.content" in llm.attributes
        ]
        assert messages[-1] == turn.question
        assert all(text in messages[0] for text in kept.values())
        assert llm.attributes["llm.token_count.prompt"] > 0
        assert llm.attributes["llm.cost.total"] > 0
        assert llm.events == ["First Token Stream Event"]


def documents(attributes: dict[str, Any], prefix: str) -> dict[str, str]:
    """Return page id and text of flattened documents."""
    found = {}
    for index in range(20):
        key = f"{prefix}.{index}.document"
        if f"{key}.id" in attributes:
            assert isinstance(attributes[f"{key}.score"], float)
            metadata = json.loads(attributes[f"{key}.metadata"])
            assert metadata["source"].endswith(attributes[f"{key}.id"])
            found[attributes[f"{key}.id"]] = attributes[f"{key}.content"]
    return found


def test_app_requests_arrive_in_the_genai_conventions(run: Run) -> None:
    played = run.played
    traces = run.traces
    app = [turn for turn in played.turns if turn.channel == "app"]
    assert len(app) > 60
    operation = "gen_ai.operation.name"
    for turn in app:
        spans = traces[turn.trace_id]
        root = root_of(spans)
        assert root.attributes[operation] == "invoke_agent"
        assert root.attributes["gen_ai.conversation.id"] == turn.conversation_id
        retrieval = stage(spans, operation, "retrieval").attributes
        found = json.loads(retrieval["gen_ai.retrieval.documents"])
        assert len(found) <= 4
        assert all({"id", "score", "content"} <= document.keys() for document in found)
        chat = stage(spans, operation, "chat").attributes
        (instructions,) = json.loads(chat["gen_ai.system_instructions"])
        assert all(document["content"] in instructions["content"] for document in found)
        assert texts(chat["gen_ai.input.messages"])[-1] == ("user", turn.question)
        assert texts(chat["gen_ai.output.messages"]) == [("assistant", turn.answer)]
        assert texts(root.attributes["gen_ai.input.messages"]) == [("user", turn.question)]
        assert chat["gen_ai.usage.input_tokens"] > 0
        assert chat["gen_ai.response.time_to_first_chunk"] > 0


def test_the_agent_extracts_what_the_assistant_did(run: Run) -> None:
    posts = run.agent.sent_to("/v1/traces")
    spans = [s for post in posts for s in decode_traces(post.body, post.content_type).spans]
    assistant = Assistant()
    for turn in run.played.turns:
        own = [span for span in spans if span.trace_id == turn.trace_id]
        request = extract(Trace(trace_id=turn.trace_id, spans=own))
        assert isinstance(request, RagRequest)
        assert (request.question, request.answer) == (turn.question, turn.answer)
        assert request.conversation_id == turn.conversation_id
        context = assistant.answer(turn.question, channel=turn.channel).context
        assert [(d.document_id, d.text) for d in request.documents] == [
            (hit.page.page_id, hit.page.text) for hit in context
        ]
        assert set(request.citations) == {int(n) for n in re.findall(r"\[(\d+)\]", turn.answer)}
        assert request.ttft_ms is not None
        assert request.input_tokens is not None


def texts(messages: str) -> list[tuple[str, str]]:
    return [(m["role"], part["content"]) for m in json.loads(messages) for part in m["parts"]]


def test_later_turns_carry_the_earlier_ones_in_their_prompt(run: Run) -> None:
    played = run.played
    traces = run.traces
    first = {t.conversation_id: t for t in played.turns if t.turn == 1}
    second = [t for t in played.turns if t.turn == 2 and t.channel == "app"]
    assert second
    for turn in second:
        chat = stage(traces[turn.trace_id], "gen_ai.operation.name", "chat").attributes
        earlier = first[turn.conversation_id]
        assert texts(chat["gen_ai.input.messages"])[:2] == [
            ("user", earlier.question),
            ("assistant", earlier.answer),
        ]


def test_span_times_are_recent_nested_and_in_the_order_of_the_conversation(run: Run) -> None:
    played, now = run.played, time.time_ns()
    traces = run.traces
    five_minutes = 300 * 10**9
    ended: dict[str, int] = {}
    for turn in played.turns:
        root = root_of(traces[turn.trace_id])
        assert now - five_minutes < root.start_ns < root.end_ns <= now
        assert 0.3e9 < root.end_ns - root.start_ns < 4e9
        assert all(
            root.start_ns <= s.start_ns < s.end_ns <= root.end_ns for s in traces[turn.trace_id]
        )
        assert root.start_ns > ended.get(turn.conversation_id, 0)
        ended[turn.conversation_id] = root.end_ns


def test_traces_are_cut_over_exports_as_by_a_real_exporter(run: Run) -> None:
    exports = [set(traces_in([post])) for post in run.agent.sent_to("/v1/traces")]
    seen = Counter(trace_id for export in exports for trace_id in export)
    assert max(seen.values()) >= 2


def test_signals_are_posted_some_before_their_trace_and_some_after(run: Run) -> None:
    signals = run.signals
    planned = [s for c in run.story.conversations for t in c.turns for s in t.signals]
    assert len(signals) == len(planned) == run.played.signals
    assert len({signal["signal_id"] for signal in signals}) == len(signals)
    arrived: set[str] = set()
    early = late = 0
    for post in run.agent.posts:
        if post.path == "/v1/traces":
            arrived |= traces_in([post]).keys()
            continue
        for signal in json.loads(post.body):
            if "trace_id" in signal:
                early += signal["trace_id"] not in arrived
                late += signal["trace_id"] in arrived
    assert early >= 5
    assert late >= 5


def test_signals_name_their_target_their_user_and_when_they_happened(run: Run) -> None:
    played = run.played
    traces = run.traces
    responses = {
        span.attributes["gen_ai.response.id"]
        for spans in traces.values()
        for span in spans
        if "gen_ai.response.id" in span.attributes
    }
    conversations = {turn.conversation_id for turn in played.turns}
    targets: Counter[str] = Counter()
    for signal in run.signals:
        (target,) = {"trace_id", "response_id", "conversation_id"} & signal.keys()
        targets[target] += 1
        known = {"trace_id": traces, "response_id": responses, "conversation_id": conversations}
        assert signal[target] in known[target]
        assert signal["user_id"].startswith("user-")
        age = datetime.now(UTC) - datetime.fromisoformat(signal["occurred_at"])
        assert timedelta(0) <= age < timedelta(minutes=5)
    assert len(targets) == 3


def test_a_failure_found_by_a_signal_has_a_negative_one_on_its_trace(run: Run) -> None:
    negative = {
        signal.get("trace_id")
        for signal in run.signals
        if signal["kind"] in {"thumbs_down", "rephrase", "regenerate"}
    }
    for planted in run.played.planted:
        assert (planted.trace_id in negative) == (planted.found_by in {"signal", "both"})


async def test_a_full_agent_is_waited_for_and_then_gets_everything_once(agent: Agent) -> None:
    refused = {"/v1/traces", "/v1/signals"}

    def reply(_: int, path: str) -> tuple[int, dict[str, str]]:
        if path in refused:
            refused.remove(path)
            return 429, {"Retry-After": "1"}
        return 200, {}

    agent.reply = reply
    story = scenario(7)
    played = await play(story, otlp_url=agent.url)
    for path in ("/v1/traces", "/v1/signals"):
        first, second = agent.sent_to(path)[:2]
        assert second.body == first.body
        assert second.at - first.at >= 0.9
        agent.posts.remove(first)
    traces = traces_in(agent.sent_to("/v1/traces"))
    assert sum(len(spans) for spans in traces.values()) == played.spans
    assert len(traces) == story.requests
    assert len(signals_in(agent.sent_to("/v1/signals"))) == played.signals


async def test_a_refusal_for_good_ends_the_demo_and_names_the_address(agent: Agent) -> None:
    agent.reply = lambda *_: (400, {})
    with pytest.raises(PermanentDependencyError, match=agent.url):
        await play(scenario(7), otlp_url=agent.url)


async def test_stopping_early_still_delivers_what_was_asked(agent: Agent) -> None:
    stop = asyncio.Event()
    told: list[TurnPlayed] = []

    def on_turn(turn: TurnPlayed) -> None:
        told.append(turn)
        if len(told) == 10:
            stop.set()

    played = await play(scenario(7), otlp_url=agent.url, on_turn=on_turn, stop=stop)
    assert played.turns == told
    assert len(told) == 10
    assert len(traces_in(agent.sent_to("/v1/traces"))) == 10


async def test_an_address_with_the_path_of_traces_is_understood(agent: Agent) -> None:
    stop = asyncio.Event()
    await play(
        scenario(7),
        otlp_url=f"{agent.url}/v1/traces",
        on_turn=lambda turn: stop.set(),
        stop=stop,
    )
    assert {post.path for post in agent.posts} <= {"/v1/traces", "/v1/signals"}
    assert len(traces_in(agent.sent_to("/v1/traces"))) == 1


async def test_the_pace_is_kept(agent: Agent) -> None:
    stop = asyncio.Event()
    at: list[float] = []

    def on_turn(turn: TurnPlayed) -> None:
        at.append(time.monotonic())
        if len(at) == 6:
            stop.set()

    await play(scenario(7), otlp_url=agent.url, on_turn=on_turn, turns_per_second=10.0, stop=stop)
    assert 0.45 <= at[-1] - at[0] < 2.0


async def test_a_slow_agent_does_not_block_the_event_loop(agent: Agent) -> None:
    agent.delay_seconds = 0.05
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await play(scenario(7), otlp_url=agent.url)
    ticking.cancel()
    # Each answer takes ten ticks to come; a blocked loop would tick once between two of them.
    assert ticks > 3 * len(agent.posts)


async def test_steady_traffic_goes_on_until_it_is_stopped(agent: Agent) -> None:
    stop = asyncio.Event()
    told: list[TurnPlayed] = []
    more_than_one_scenario = scenario(8).requests + 20

    def on_turn(turn: TurnPlayed) -> None:
        told.append(turn)
        if len(told) == more_than_one_scenario:
            stop.set()

    asked = await steady(
        otlp_url=agent.url, stop=stop, turns_per_second=2000.0, on_turn=on_turn, run_id="later"
    )
    assert asked == len(told) == more_than_one_scenario
    assert len(traces_in(agent.sent_to("/v1/traces"))) == asked
    turns = Counter((turn.conversation_id, turn.turn) for turn in told)
    assert set(turns.values()) == {1}
    assert {turn.kind for turn in told} > {"good"}


async def test_the_global_tracer_provider_is_left_alone(agent: Agent) -> None:
    before = trace.get_tracer_provider()
    await play(scenario(7), otlp_url=agent.url)
    assert trace.get_tracer_provider() is before
