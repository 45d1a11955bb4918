"""Endpoints that are slow, busy or down: what is sent to whom, how fast, and what waits."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from collector.config import OpenAIConfig, load
from collector.errors import ConfigError, Postponed
from collector.model import Judgement
from collector.telemetry import Metrics
from collector.timing import SystemClock
from scorers.judge.budget import Budget
from scorers.judge.client import OpenAIJudge
from scorers.judge.limits import AdaptiveLimit
from scorers.judge.pool import Pool
from tests.contract.test_judges import make_config, make_request
from tests.fakes import openai_server as fake
from tests.fakes.openai_server import OpenAIServer, StatedLimit


@asynccontextmanager
async def judge_of(
    config: OpenAIConfig, metrics: Metrics | None = None, **options: Any
) -> AsyncIterator[OpenAIJudge]:
    judge = OpenAIJudge(config, metrics=metrics, **options)
    try:
        yield judge
    finally:
        await judge.close()


def several(*endpoints: dict[str, Any], **changes: Any) -> OpenAIConfig:
    fields: dict[str, Any] = {"model": "judge-1", "max_retries": 1, "deadline_seconds": 20}
    return OpenAIConfig(endpoints=list(endpoints), **(fields | changes))


async def judged(judge: OpenAIJudge, count: int) -> list[Judgement | BaseException]:
    return await asyncio.gather(
        *(judge.judge(make_request(trace_id=f"{n:032x}")) for n in range(count)),
        return_exceptions=True,
    )


async def until_judged(judge: OpenAIJudge) -> Judgement:
    """Do as the worker does: try again whenever it makes sense."""
    while True:
        try:
            return await judge.judge(make_request())
        except Postponed as err:
            await asyncio.sleep(min(err.retry_after_seconds, 1))


# --- Several endpoints -------------------------------------------------------------------


async def test_endpoints_share_the_calls_by_weight_and_each_gets_its_own_key_and_name() -> None:
    with OpenAIServer() as light, OpenAIServer() as heavy:
        config = several(
            {"base_url": light.base_url, "api_key_env": "LIGHT_KEY", "model": "vendor/judge-1"},
            {"base_url": heavy.base_url, "api_key_env": "HEAVY_KEY", "weight": 4},
        )
        keys = {"LIGHT_KEY": SecretStr("light"), "HEAVY_KEY": SecretStr("heavy")}
        async with judge_of(config, keys=keys, most_at_once=8) as judge:
            done = await judged(judge, 100)
    assert all(isinstance(one, Judgement) and one.score == 0.5 for one in done)
    # 200 calls, 160 expected at the heavy one, standard deviation 5.7.
    assert 120 <= len(heavy.requests) <= 190
    assert len(light.requests) + len(heavy.requests) == 200
    assert {r.headers["authorization"] for r in light.requests} == {"Bearer light"}
    assert {r.headers["authorization"] for r in heavy.requests} == {"Bearer heavy"}
    assert {r.body["model"] for r in light.requests} == {"vendor/judge-1"}
    assert {r.body["model"] for r in heavy.requests} == {"judge-1"}


async def test_when_one_endpoint_is_down_the_other_takes_all_and_nothing_fails() -> None:
    with OpenAIServer() as good:
        down = {"base_url": f"http://127.0.0.1:{fake.refused_port()}/v1"}
        config = several(down, {"base_url": good.base_url})
        async with judge_of(config) as judge:
            done = await judged(judge, 30)
    assert [getattr(one, "score", one) for one in done] == [0.5] * 30
    assert len(good.requests) == 60


async def test_an_endpoint_that_refuses_its_key_costs_no_judgement_where_there_is_another() -> None:
    with OpenAIServer() as good, OpenAIServer(default=fake.unauthorized()) as refusing:
        config = several({"base_url": refusing.base_url}, {"base_url": good.base_url})
        async with judge_of(config) as judge:
            done = await judged(judge, 30)
    assert [getattr(one, "score", one) for one in done] == [0.5] * 30
    assert 5 <= len(refusing.requests) <= 10  # until it counts as down


async def test_a_reserve_is_asked_only_while_all_others_are_down() -> None:
    with OpenAIServer() as first, OpenAIServer() as reserve:
        config = several({"base_url": first.base_url}, {"base_url": reserve.base_url, "weight": 0})
        async with judge_of(config) as judge:
            await judged(judge, 10)
            assert (len(first.requests), len(reserve.requests)) == (20, 0)
    with OpenAIServer(default=fake.rate_limited("60")) as busy, OpenAIServer() as reserve:
        config = several({"base_url": busy.base_url}, {"base_url": reserve.base_url, "weight": 0})
        async with judge_of(config) as judge:
            done = await judged(judge, 10)
    assert [getattr(one, "score", one) for one in done] == [0.5] * 10
    assert len(busy.requests) <= 2  # those under way when it first said when to come back


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            "base_url: http://a/v1, endpoints: [{base_url: http://b/v1}]",
            r"endpoints: replaces base_url",
            id="both forms",
        ),
        pytest.param(
            "endpoints: [{base_url: http://b/v1, weight: 0}]", "weight above 0", id="no weight"
        ),
        pytest.param("endpoints: [{base_url: http://b/v1, wait: 0}]", "wait", id="unknown key"),
        pytest.param(
            "endpoints: [{base_url: http://b/v1, api_key_env: B_KEY}]",
            r"judge\.openai\.endpoints\.0\.api_key_env: the environment variable B_KEY",
            id="a key that is not set",
        ),
        pytest.param("spend_file: spend.sqlite", "spend_file: give the whole path", id="a path"),
        pytest.param("daily_budget_usd: 5", "the price of gpt-4o-mini is not known", id="no price"),
        pytest.param(
            "daily_budget_usd: 5, prices: {gpt-4o-mini: {input_usd_per_mtok: 1, "
            "output_usd_per_mtok: 1}}, endpoints: [{base_url: http://b/v1, model: other}]",
            "the price of other is not known",
            id="no price of one endpoint",
        ),
    ],
)
def test_endpoints_and_budgets_that_make_no_sense_are_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(f"judge: {{engine: openai, openai: {{{text}}}}}")
    with pytest.raises(ConfigError, match=problem):
        load(path, {})


def test_an_endpoint_has_what_it_leaves_out_from_the_section(tmp_path: Path) -> None:
    path = tmp_path / "groundwatch.yaml"
    path.write_text(
        "judge: {engine: openai, openai: {model: m, requests_per_minute: 60, api_key_env: A, "
        "endpoints: [{base_url: http://a/v1}, {base_url: http://b/v1, api_key_env: null}]}}"
    )
    resolved = load(path, {"A": "key"})
    one, two = resolved.config.judge.openai.served_by
    assert (one.model, one.requests_per_minute, one.api_key_env) == ("m", 60, "A")
    assert two.api_key_env is None
    assert set(resolved.secrets.judge_keys) == {"A"}


# --- Rates -------------------------------------------------------------------------------


async def test_a_stated_rate_is_used_and_never_exceeded() -> None:
    # Of so many seconds, since calls on a busy machine arrive up to some tenths late.
    limit = StatedLimit(12, seconds=5)
    with OpenAIServer(default=limit) as server:
        config = make_config(server, requests_per_minute=12 * 60)
        async with judge_of(config, most_at_once=16) as judge:
            done = await judged(judge, 60)
    assert [getattr(one, "score", one) for one in done] == [0.5] * 60
    assert limit.violations == 0
    times = [received.at for received in server.requests]
    assert len(times) == 120
    # To nine tenths where nothing else is busy: see tests/fault/test_judge_throughput.py.
    assert (len(times) - 1) / (times[-1] - times[0]) >= 0.5 * 12


async def test_workers_with_a_share_each_keep_a_stated_rate_together() -> None:
    limit = StatedLimit(12, seconds=5)
    shares = {"two of three partitions": 2 / 3, "one of three": 1 / 3}
    with OpenAIServer(default=limit) as server:
        config, clock = make_config(server, requests_per_minute=12 * 60), SystemClock()

        async def work(share: float) -> None:
            free = Budget(None, None, None, clock)
            pool = Pool(config, {}, free, None, clock, 16, lambda: share)
            async with judge_of(config, asker=pool) as judge:
                await judged(judge, round(60 * share))

        await asyncio.gather(*map(work, shares.values()))
    assert limit.violations == 0
    times = [received.at for received in server.requests]
    assert len(times) == 120
    assert (len(times) - 1) / (times[-1] - times[0]) >= 0.5 * 12


async def test_tokens_a_minute_are_kept_as_they_are_counted_by_the_endpoint() -> None:
    counted = {"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}
    reply = fake.text('{"claims": []}', usage=counted)
    with OpenAIServer(default=reply) as server:
        # 20,000 tokens a second: 20 calls of 1,000.
        config = make_config(server, tokens_per_minute=1_200_000)
        async with judge_of(config, most_at_once=16) as judge:
            await judged(judge, 20)
    times = [received.at for received in server.requests]
    # Each empty list is asked for twice.
    assert len(times) == 40
    rate = (len(times) - 1) / (times[-1] - times[0])
    # As it is seen where calls arrive: a late first one makes the rest look faster.
    assert 0.5 * 20 <= rate <= 1.1 * 20


async def test_without_a_stated_rate_calls_at_once_adapt_until_few_are_rejected() -> None:
    under_way = Counter[str]()

    async def crowded(body: fake.Body) -> Any:
        """Serve four at once and reject all others, as a small server does."""
        under_way["now"] += 1
        try:
            if under_way["now"] > 4:
                under_way["rejected"] += 1
                return await fake.rate_limited("0.05")(body)
            await asyncio.sleep(0.02)
            return await fake.good()(body)
        finally:
            under_way["now"] -= 1

    with OpenAIServer(default=crowded) as server:
        config = make_config(server, max_retries=10)
        async with judge_of(config, most_at_once=64) as judge:
            done = await judged(judge, 60)
    assert [getattr(one, "score", one) for one in done] == [0.5] * 60
    # 64 at once without adapting have more rejected than answered in each round.
    assert under_way["rejected"] < 0.5 * 120


async def test_the_bound_of_calls_grows_by_success_and_halves_once_for_each_round() -> None:
    limit = AdaptiveLimit(100)
    for _ in range(30):
        limit.succeeded()
    assert limit.bound == 32
    async with limit.slot() as first, limit.slot() as second:
        limit.rejected(first)
        limit.rejected(second)  # sent before the decrease: no news
        assert limit.bound == 16
    for _ in range(16):
        limit.succeeded()
    assert limit.bound == 16  # one more for a whole round, and no faster
    limit.succeeded()
    assert limit.bound == 17


# --- Waiting for an endpoint -------------------------------------------------------------


async def test_a_wait_that_the_server_asks_for_puts_the_judgement_off_at_once() -> None:
    started = time.monotonic()
    with OpenAIServer(default=fake.rate_limited("3600")) as server:
        async with judge_of(make_config(server)) as judge:
            for _ in range(3):
                with pytest.raises(Postponed) as put_off:
                    await judge.judge(make_request())
    assert put_off.value.cause == "rate_limited"
    assert put_off.value.retry_after_seconds > 3500
    assert len(server.requests) == 1
    assert time.monotonic() - started < 3


async def test_milliseconds_to_wait_are_read_and_win() -> None:
    busy = fake.rate_limited("30", milliseconds="700")
    with OpenAIServer([busy]) as server:
        async with judge_of(make_config(server)) as judge:
            judgement = await judge.judge(make_request())
    assert judgement.score == 0.5
    assert 0.7 <= server.requests[1].at - server.requests[0].at < 5


@pytest.mark.parametrize(
    ("outage", "cause"),
    [
        pytest.param(fake.server_error, "server_error", id="500"),
        pytest.param(lambda: fake.server_error(503), "server_error", id="503"),
        pytest.param(fake.rate_limited, "rate_limited", id="429"),
        pytest.param(fake.connection_drop, "connection", id="connections dropped"),
        pytest.param(fake.unauthorized, "auth", id="the key is refused"),
        pytest.param(
            lambda: fake.rate_limited(code="insufficient_quota"), "rate_limited", id="no quota"
        ),
        pytest.param(fake.html_page, "unparseable", id="the page of a proxy"),
    ],
)
async def test_an_outage_puts_judgements_off(
    outage: Callable[[], fake.Behaviour], cause: str
) -> None:
    metrics = Metrics(CollectorRegistry())
    with OpenAIServer(default=outage()) as server:
        async with judge_of(make_config(server, max_retries=0), metrics) as judge:
            # A few failures could be those of the calls themselves.
            failed = [await judge.judge(make_request()) for _ in range(4)]
            assert {(one.status, one.reason) for one in failed} == {("failed", cause)}
            with pytest.raises(Postponed) as put_off:
                await judge.judge(make_request())
    assert put_off.value.cause == cause
    assert put_off.value.tried
    assert down(metrics) == {1.0}


async def test_judging_goes_on_by_itself_when_an_outage_ends() -> None:
    metrics = Metrics(CollectorRegistry())
    with OpenAIServer([fake.server_error()] * 6) as server:
        async with judge_of(make_config(server, max_retries=0), metrics, most_at_once=2) as judge:
            done = await judged(judge, 5)
            assert Postponed in {type(one) for one in done}
            again = await asyncio.gather(*(until_judged(judge) for _ in range(5)))
    assert {one.score for one in again} == {0.5}
    assert down(metrics) == {0.0}
    # Five calls found it down and one tried it in vain; all others were answered.
    assert len(server.requests) == 6 + 2 * 5


def down(metrics: Metrics) -> set[float]:
    return {sample.value for family in metrics.endpoint_down.collect() for sample in family.samples}


async def test_while_it_is_down_one_call_at_a_time_tries_an_endpoint() -> None:
    with OpenAIServer(default=fake.server_error()) as server:
        config = make_config(server, max_retries=0, deadline_seconds=2)
        async with judge_of(config, most_at_once=16) as judge:
            await judged(judge, 16)
            before = len(server.requests)
            await judged(judge, 16)
    assert before <= 16
    # In two seconds it is tried after about one, and not again.
    assert len(server.requests) - before <= 2
