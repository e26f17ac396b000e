"""Tokens that calls of a model took, and what they cost.

Rules:

- Everything is a whole number that is not negative: tokens, and money in millionths of a millionth of a US
  dollar (pico-USD). A price of 0.075 USD for a million tokens is 75,000 pico-USD a token, so sums are exact,
  and neither NaN nor a rounding error can come up.
- Cache reads and writes are among the input, and thoughts are among the output.
- What has no price has no cost (None), which is something else than a cost of nothing.
"""

from attrs import frozen

PICO = 10**12
"""Pico-USD in one US dollar."""


@frozen
class Prices:
    """Prices of one token in pico-USD. None for a cache: its tokens cost what other input costs.

    ``above`` has the prices for calls that read more tokens than the number before it.
    """

    input: int
    output: int
    cache_read: int | None = None
    cache_write: int | None = None
    above: "tuple[int, Prices] | None" = None

    def of(self, usage: "Usage") -> int:
        """What the tokens cost, in pico-USD."""
        if self.above is not None and usage.input_tokens > self.above[0]:
            return self.above[1].of(usage)
        read = min(usage.cache_read_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - read)
        return (
            (usage.input_tokens - read - written) * self.input
            + read * (self.input if self.cache_read is None else self.cache_read)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + usage.output_tokens * self.output
        )


@frozen
class Usage:
    """Tokens of one call of a model, or of several together."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thought_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.thought_tokens + other.thought_tokens,
        )


@frozen
class TurnUsage:
    """What one turn took: its calls of the model, their tokens, and their cost where all had a price."""

    model_calls: int
    tokens: Usage
    cost_pico_usd: int | None = None
