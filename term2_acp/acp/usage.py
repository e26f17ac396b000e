"""Tokens and money as both versions of ACP write them.

Money is exact inside and becomes a decimal number here, digit by digit: a float on the way would bring
exponents (``1e-07``) and digits that nobody counted.
"""

import msgspec

from term2_acp.acp.shown import Wire
from term2_acp.domain.events import UsageUpdate
from term2_acp.domain.usage import TurnUsage, usd

CURRENCY = "USD"


def usage_to_wire(event: UsageUpdate) -> Wire:
    """The members of a ``usage_update``.

    A cost that is left out stays on the screen as it was told before, and null takes it away.
    """
    wire: Wire = {"used": event.used, "size": event.size}
    if event.cost_pico_usd is not None:
        wire["cost"] = {"amount": _amount(event.cost_pico_usd), "currency": CURRENCY}
    elif event.cost_withdrawn:
        wire["cost"] = None
    return wire


def turn_usage_to_wire(usage: TurnUsage) -> Wire:
    """What a turn took, for the ``_meta`` of what ends it. Without a counted call there is no cost."""
    wire: Wire = {
        "modelCalls": usage.model_calls,
        "countedCalls": usage.counted_calls,
        "inputTokens": usage.tokens.input_tokens,
        "outputTokens": usage.tokens.output_tokens,
        "cacheReadTokens": usage.tokens.cache_read_tokens,
        "cacheWriteTokens": usage.tokens.cache_write_tokens,
        "thoughtTokens": usage.tokens.thought_tokens,
    }
    if usage.counted_calls and usage.cost_pico_usd is not None:
        wire["costUsd"] = _amount(usage.cost_pico_usd)
    return wire


def _amount(pico_usd: int) -> msgspec.Raw:
    return msgspec.Raw(usd(pico_usd).encode())
