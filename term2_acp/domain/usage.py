"""Tokens that calls of a model took, and what they cost.

Rules:

- Everything is a whole number that is not negative: tokens, and money in millionths of a millionth of a US
  dollar (pico-USD). A price of 0.075 USD for a million tokens is 75,000 pico-USD a token, so sums are exact,
  and neither NaN nor a rounding error can come up. Values that break this cannot be made (``ValueError``).
- Cache reads and writes are among the input, and thoughts are among the output.
- What has no price has no cost (None), which is something else than a cost of nothing. A sum with a cost in
  it that nobody knows is not known either.
- Money is rounded only where it is written for others (``usd``).
"""

import attrs
from attrs import field
from attrs.validators import optional

from term2_acp.domain.classes import frozen

PICO = 10**12
"""Pico-USD in one US dollar."""

USD_DIGITS = 9
"""Digits behind the point of an amount in USD. Even the cheapest token costs more than the last of them."""

MOST_COST = 10_000 * PICO
"""The most that one call is believed to cost, in pico-USD. Beyond it, somebody counts in something else than
dollars or tokens."""

_PICO_PER_LAST_DIGIT = PICO // 10**USD_DIGITS


def whole(_instance: object, field: "attrs.Attribute[int]", value: int) -> None:
    """What every count and amount is held to, as a validator of attrs."""
    # Not ``ge(0)``, which takes twice the time: in a session that is read again there are a hundred thousand.
    if not value >= 0:
        raise ValueError(f"'{field.name}' must be >= 0: {value}")


def usd(pico_usd: int) -> str:
    """The amount in US dollars as a plain decimal number, ``0.0123``: exact to ``USD_DIGITS`` digits.

    Rounded half up; neither an exponent nor zeros at the end.
    """
    last_digits = (pico_usd + _PICO_PER_LAST_DIGIT // 2) // _PICO_PER_LAST_DIGIT
    dollars, fraction = divmod(last_digits, 10**USD_DIGITS)
    return f"{dollars}.{fraction:0{USD_DIGITS}}".rstrip("0").removesuffix(".")


def both(first: int | None, second: int | None) -> int | None:
    """Two costs together: not known when one of them is not."""
    return None if first is None or second is None else first + second


@frozen
class Prices:
    """Prices of one token in pico-USD. None for a cache: its tokens cost what other input costs.

    ``above`` has the prices for calls that read more tokens than the number before it.

    Raises:
        ValueError: a price is negative.
    """

    input: int = field(validator=whole)
    output: int = field(validator=whole)
    cache_read: int | None = field(default=None, validator=optional(whole))
    cache_write: int | None = field(default=None, validator=optional(whole))
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
    """Tokens of one call of a model, or of several together.

    Raises:
        ValueError: a number is negative.
    """

    input_tokens: int = field(default=0, validator=whole)
    output_tokens: int = field(default=0, validator=whole)
    cache_read_tokens: int = field(default=0, validator=whole)
    cache_write_tokens: int = field(default=0, validator=whole)
    thought_tokens: int = field(default=0, validator=whole)

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
    """What one turn took: its calls of the model, how many of them were counted, and the sums of those.

    ``cost_pico_usd`` is None where a counted call had no price, or a reply came whole without any count.

    Raises:
        ValueError: a number is negative.
    """

    model_calls: int = field(validator=whole)
    counted_calls: int = field(validator=whole)
    tokens: Usage
    cost_pico_usd: int | None = field(default=None, validator=optional(whole))

    def counted(self, tokens: Usage, cost_pico_usd: int | None) -> "TurnUsage":
        """The same with one more call, which was counted."""
        return TurnUsage(
            self.model_calls + 1,
            self.counted_calls + 1,
            self.tokens + tokens,
            both(self.cost_pico_usd, cost_pico_usd),
        )

    def and_then(self, other: "TurnUsage") -> "TurnUsage":
        """What both took together."""
        return TurnUsage(
            self.model_calls + other.model_calls,
            self.counted_calls + other.counted_calls,
            self.tokens + other.tokens,
            both(self.cost_pico_usd, other.cost_pico_usd),
        )

    def uncounted(self, *, whole_reply: bool) -> "TurnUsage":
        """The same with one more call, of which nobody told any count.

        What a whole reply cost is then not known. A call that was cut off before its count came is in no sum:
        were it to hide the cost, a meter would be gone for good with the first cancel.
        """
        cost = None if whole_reply else self.cost_pico_usd
        return attrs.evolve(self, model_calls=self.model_calls + 1, cost_pico_usd=cost)


NO_CALLS = TurnUsage(0, 0, Usage(), 0)
"""What a turn took that called no model."""
