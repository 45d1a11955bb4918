"""What calls consume and cost, from the configured price table."""

from __future__ import annotations

import msgspec

from collector.config import PriceConfig
from collector.model import Usage
from collector.telemetry import Metrics

_MILLION = 1_000_000
_MOST_TOKENS = 100 * _MILLION


class _CachedTokens(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class TokenCounts(msgspec.Struct, frozen=True):
    """Tokens of one call as the endpoint counts them, cached ones included in the prompt."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _CachedTokens | None = None

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens from the provider's cache."""
        details = self.prompt_tokens_details
        return min((details.cached_tokens if details else None) or 0, self.prompt_tokens)

    @property
    def credible(self) -> bool:
        """Whether no count is below zero or beyond all contexts, as some gateways report."""
        counts = (self.prompt_tokens, self.completion_tokens, self.cached_tokens)
        return all(0 <= count <= _MOST_TOKENS for count in counts)


def cost_usd(
    price: PriceConfig, *, input_tokens: int, cached_tokens: int, output_tokens: int
) -> float:
    """Return US dollars for a number of tokens.

    Args:
        price: the prices of the model.
        input_tokens: all input tokens, cached ones included.
        cached_tokens: those of them that came from the provider's cache.
        output_tokens: output tokens.
    """
    cached_price = price.cached_input_usd_per_mtok
    if cached_price is None:
        cached_price = price.input_usd_per_mtok
    cached = min(cached_tokens, input_tokens)
    return (
        (input_tokens - cached) * price.input_usd_per_mtok
        + cached * cached_price
        + output_tokens * price.output_usd_per_mtok
    ) / _MILLION


class Meter:
    """Adds up what one judgement consumes, over all its calls."""

    def __init__(self, metrics: Metrics | None) -> None:
        self._metrics = metrics
        self._unknown_cost = False
        self.usage = Usage()

    def call(self) -> None:
        """Count a call that is being sent."""
        self.usage = msgspec.structs.replace(self.usage, calls=self.usage.calls + 1)

    def outcome(self, outcome: str) -> None:
        """Count how a call ended: `ok` or a cause of `collector.model.FAILURE_CAUSES`."""
        if self._metrics is not None:
            self._metrics.judge_calls.labels(outcome).inc()

    def tokens(self, used: TokenCounts | None, price: PriceConfig | None) -> float | None:
        """Add the tokens of a reply and return its cost in US dollars.

        Without a price, or from an endpoint that counts no tokens, it is unknown: None.
        """
        if used is None or not used.credible:
            used, price = TokenCounts(), None
        sent, cached, received = used.prompt_tokens, used.cached_tokens, used.completion_tokens
        cost = None
        if price is None:
            self._unknown_cost = True
        else:
            cost = cost_usd(price, input_tokens=sent, cached_tokens=cached, output_tokens=received)
        known = None if self._unknown_cost else (self.usage.cost_usd or 0.0) + (cost or 0.0)
        self.usage = Usage(
            input_tokens=self.usage.input_tokens + sent,
            output_tokens=self.usage.output_tokens + received,
            cached_tokens=self.usage.cached_tokens + cached,
            cost_usd=known,
            calls=self.usage.calls,
        )
        if self._metrics is not None:
            for kind, count in (("input", sent), ("cached", cached), ("output", received)):
                self._metrics.judge_tokens.labels(kind).inc(count)
            self._metrics.judge_cost.inc(cost or 0.0)
        return cost
