"""What calls cost, from the configured price table."""

from collector.config import PriceConfig

_MILLION = 1_000_000


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
