"""What vendors say a token costs, as exact pico-USD. Pure.

Rules:

- A price comes as a number or as text, for one token or for a million; it leaves as a whole number of
  pico-USD for one token. Nothing is computed in binary fractions: a float counts as what it prints as.
- A price is 0 only when somebody says so. Absent, negative (OpenRouter's word for "it depends"), NaN, absurd
  or no number at all: None, which is no price.
- Input and output belong together: with one of them missing, nothing that a model costs can be told.
"""

from decimal import Decimal, InvalidOperation

from term2_acp.config import DEAREST_USD
from term2_acp.domain.usage import PICO, Prices

MILLION = 1_000_000

DEAREST_PICO = DEAREST_USD * PICO // MILLION
"""The dearest token, in pico-USD. Above it, what a call costs could leave the 64 bits that a database has."""

Usd = Decimal | int | float | str | None
"""A price as it is told."""


def pico(usd: Usd, tokens: int = MILLION) -> int | None:
    """Pico-USD of one token, where ``tokens`` of them cost ``usd``; None for what is no price.

    What is finer than a pico-USD is rounded to the nearest: catalogs hold 0.09999999999999999 for 0.1.
    """
    if usd is None or isinstance(usd, bool):
        return None
    try:
        price = Decimal(str(usd)) if isinstance(usd, float) else Decimal(usd)
    except InvalidOperation:
        return None
    # The comparison comes first: a number of a million digits must not be computed with. The bound also keeps
    # what a call costs inside the 64 bits that a database has for it.
    if not price.is_finite() or not 0 <= price <= Decimal(DEAREST_USD) * tokens / MILLION:
        return None
    return round(price * PICO / tokens)


def prices(
    input_usd: Usd,
    output_usd: Usd,
    cache_read_usd: Usd = None,
    cache_write_usd: Usd = None,
    tokens: int = MILLION,
) -> Prices | None:
    """The prices of a model in USD for ``tokens`` tokens, None unless both input and output have one."""
    read, written = pico(input_usd, tokens), pico(output_usd, tokens)
    if read is None or written is None:
        return None
    return Prices(read, written, pico(cache_read_usd, tokens), pico(cache_write_usd, tokens))
