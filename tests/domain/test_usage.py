"""Tokens and money: exact prices of every kind of token, sums that know what they do not know, and amounts
that any reader of JSON reads as they are meant."""

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.domain.usage import NO_CALLS, PICO, USD_DIGITS, Prices, TurnUsage, Usage, both, usd

# 3 USD a million tokens read, 15 written, 0.30 from a cache, 3.75 into one.
SONNET = Prices(3_000_000, 15_000_000, 300_000, 3_750_000)
PLAIN = Prices(75_000, 300_000)
TIERED = Prices(1_250_000, 10_000_000, 125_000, above=(200_000, Prices(2_500_000, 15_000_000, 250_000)))


@pytest.mark.parametrize(
    ("prices", "usage", "dollars"),
    [
        (SONNET, Usage(), "0"),
        (SONNET, Usage(1_000_000), "3"),
        (SONNET, Usage(0, 1_000_000), "15"),
        (SONNET, Usage(1000, 100), "0.0045"),
        (SONNET, Usage(10_000, 500, 8000), "0.0159"),
        (SONNET, Usage(10_000, 500, 8000, 1000), "0.01665"),
        (SONNET, Usage(10_000, 500, 0, 10_000), "0.045"),
        (SONNET, Usage(1000, 100, 0, 0, 90), "0.0045"),  # thoughts are among the output
        (PLAIN, Usage(12, 5), "0.0000024"),
        (PLAIN, Usage(12, 0, 12), "0.0000009"),  # a cache without a price costs what input costs
        (PLAIN, Usage(12, 0, 4, 8), "0.0000009"),
        (PLAIN, Usage(12, 0, 100, 100), "0.0000009"),  # more from the cache than was read cannot be
        (TIERED, Usage(200_000), "0.25"),
        (TIERED, Usage(200_001), "0.5000025"),
        (TIERED, Usage(300_000, 1000, 200_000), "0.315"),
        (Prices(0, 0), Usage(1000, 1000), "0"),
    ],
)
def test_what_tokens_cost(prices, usage, dollars):
    assert Fraction(prices.of(usage), PICO) == Fraction(dollars)


@pytest.mark.parametrize(
    ("pico", "text"),
    [
        (0, "0"),
        (1, "0"),
        (499, "0"),
        (500, "0.000000001"),
        (100_000, "0.0000001"),
        (1_234_567_499, "0.001234567"),
        (1_234_567_500, "0.001234568"),
        (999_999_999_500, "1"),
        (10 * PICO, "10"),
        (1_230_000_000_000, "1.23"),
        (10**9 * PICO + 10**4, "1000000000.00000001"),
    ],
)
def test_an_amount_in_dollars(pico, text):
    assert usd(pico) == text


@given(st.integers(0, 10**30))
def test_an_amount_is_a_plain_number_and_exact_to_its_last_digit(pico):
    text = usd(pico)
    assert set(text) <= set("0123456789.")
    assert json.loads(text) >= 0
    assert abs(Fraction(text) - Fraction(pico, PICO)) <= Fraction(1, 2 * 10**USD_DIGITS)
    assert -Decimal(text).as_tuple().exponent <= USD_DIGITS


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("-inf")])
def test_nothing_negative_and_no_nan_can_be_made(wrong):
    for make in (
        lambda: Usage(input_tokens=wrong),
        lambda: Usage(thought_tokens=wrong),
        lambda: Prices(wrong, 1),
        lambda: Prices(1, wrong),
        lambda: Prices(1, 1, cache_read=wrong),
        lambda: TurnUsage(wrong, 0, Usage()),
        lambda: TurnUsage(1, 1, Usage(), wrong),
    ):
        with pytest.raises(ValueError, match="must be >= 0"):
            make()


counts = st.builds(Usage, *[st.integers(0, 10**12)] * 5)


@given(st.lists(st.tuples(counts, st.none() | st.integers(0, 10**15))))
def test_a_turn_is_the_sum_of_its_calls(calls):
    turn = NO_CALLS
    for tokens, cost in calls:
        turn = turn.counted(tokens, cost)
    assert turn.model_calls == turn.counted_calls == len(calls)
    assert turn.tokens == sum((tokens for tokens, _ in calls), Usage())
    costs = [cost for _, cost in calls]
    assert turn.cost_pico_usd == (None if None in costs else sum(costs))


def test_what_was_not_counted_is_a_call_and_in_no_sum():
    turn = NO_CALLS.counted(Usage(10, 1), 7)
    assert turn.uncounted(whole_reply=False) == TurnUsage(2, 1, Usage(10, 1), 7)
    assert turn.uncounted(whole_reply=True) == TurnUsage(2, 1, Usage(10, 1), None)


def test_costs_together():
    assert both(1, 2) == 3
    assert both(0, None) is None
    assert both(None, 0) is None
