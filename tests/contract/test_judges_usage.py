"""What the language-model judge consumed: tokens, cost, calls and replies."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from collector.config import PriceConfig
from collector.telemetry import Metrics
from tests.contract.test_judges import judged_by, make_config, make_request, openai_judge
from tests.fakes import openai_server as fake
from tests.fakes.openai_server import OpenAIServer

COUNTED = {
    "prompt_tokens": 1000,
    "completion_tokens": 200,
    "total_tokens": 1200,
    "prompt_tokens_details": {"cached_tokens": 400},
}
TWO_CALLS = [
    fake.text('{"claims": ["The Pro plan includes SSO."]}', usage=COUNTED),
    fake.text(
        '{"verdicts": [{"id": 1, "quote": "The Pro plan includes SSO", "document": 1,'
        ' "verdict": "SUPPORTED"}]}',
        usage=COUNTED,
    ),
]


async def test_tokens_and_cost_are_summed_over_all_calls_repairs_included() -> None:
    price = PriceConfig(
        input_usd_per_mtok=2.0, cached_input_usd_per_mtok=1.0, output_usd_per_mtok=8.0
    )
    registry = CollectorRegistry()
    behaviours = [fake.text("no JSON", usage=COUNTED), *TWO_CALLS]
    with OpenAIServer(behaviours) as server:
        config = make_config(server, prices={"judge-1": price})
        async with openai_judge(config, Metrics(registry)) as judge:
            judgement = await judge.judge(make_request())
    usage = judgement.usage
    assert judgement.score == 1.0
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (3000, 1200, 600)
    # Per call 600 * 2 + 400 * 1 + 200 * 8 = 3200 millionths of a dollar.
    assert usage.cost_usd == pytest.approx(0.0096)
    assert usage.calls == 3

    def metric(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"groundwatch_{name}", labels)

    assert metric("judge_calls_total", outcome="ok") == 3
    assert metric("judge_tokens_total", kind="input") == 3000
    assert metric("judge_tokens_total", kind="cached") == 1200
    assert metric("judge_tokens_total", kind="output") == 600
    assert metric("judge_cost_usd_total") == pytest.approx(0.0096)


async def test_an_endpoint_that_counts_no_tokens_makes_the_cost_unknown() -> None:
    message = {"content": '{"claims": ["The Pro plan includes SSO."]}'}
    uncounted = fake.body({"choices": [{"message": message, "finish_reason": "stop"}]})
    price = PriceConfig(input_usd_per_mtok=2.0, output_usd_per_mtok=8.0)
    judgement, _ = await judged_by([uncounted, TWO_CALLS[1]], prices={"judge-1": price})
    assert judgement.score == 1.0
    assert judgement.usage.cost_usd is None
    assert judgement.usage.input_tokens == 1000


@pytest.mark.parametrize(
    "counted",
    [
        {"prompt_tokens": -5, "completion_tokens": 10},
        {"prompt_tokens": 10, "completion_tokens": -1},
        {"prompt_tokens": 10**15, "completion_tokens": 10},
        {"prompt_tokens": 10**30, "completion_tokens": 10},
        {"prompt_tokens": 10, "completion_tokens": None},
        {"prompt_tokens": "many", "completion_tokens": 10},
        {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": -3}},
        {"prompt_tokens": 10, "prompt_tokens_details": "none"},
    ],
)
async def test_counts_that_cannot_be_true_are_unknown_and_the_judgement_stands(
    counted: dict[str, Any],
) -> None:
    price = PriceConfig(input_usd_per_mtok=2.0, output_usd_per_mtok=8.0)
    odd = fake.text('{"claims": ["The Pro plan includes SSO."]}', usage=counted)
    judgement, _ = await judged_by([odd, TWO_CALLS[1]], prices={"judge-1": price})
    assert (judgement.status, judgement.score) == ("judged", 1.0)
    assert judgement.usage.cost_usd is None
    assert (judgement.usage.input_tokens, judgement.usage.output_tokens) == (1000, 200)


async def test_without_a_price_the_cost_is_unknown_not_zero() -> None:
    judgement, _ = await judged_by(TWO_CALLS)
    assert judgement.usage.cost_usd is None
    assert judgement.usage.input_tokens == 2000


async def test_a_failed_judgement_still_says_what_it_cost() -> None:
    price = PriceConfig(input_usd_per_mtok=2.0, output_usd_per_mtok=8.0)
    judgement, _ = await judged_by(
        TWO_CALLS[:1], default=fake.server_error(), prices={"judge-1": price}
    )
    assert judgement.status == "failed"
    assert judgement.usage.cost_usd == pytest.approx(0.0036)


async def test_calls_are_counted_by_outcome() -> None:
    registry = CollectorRegistry()
    with OpenAIServer([fake.rate_limited(), fake.cut_reply()]) as server:
        async with openai_judge(make_config(server), Metrics(registry)) as judge:
            await judge.judge(make_request())
    outcomes = {"rate_limited": 1.0, "truncated_reply": 1.0, "ok": 2.0}
    for outcome, count in outcomes.items():
        labels = {"outcome": outcome}
        assert registry.get_sample_value("groundwatch_judge_calls_total", labels) == count


async def test_the_replies_are_kept_with_the_judgement() -> None:
    judgement, _ = await judged_by(TWO_CALLS)
    assert judgement.raw_reply is not None
    assert '"claims"' in judgement.raw_reply
    assert '"verdicts"' in judgement.raw_reply
