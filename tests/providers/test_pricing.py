"""From what vendors say to pico-USD: exact, whatever form the number has; None where there is no price."""

from decimal import Decimal

import pytest

from term2_acp.domain.usage import Prices
from term2_acp.providers.servers.pricing import Usd, pico, prices


@pytest.mark.parametrize(
    ("usd", "expected"),
    [
        (3, 3_000_000),
        (0, 0),
        (0.1, 100_000),
        (0.075, 75_000),
        ("0.075", 75_000),
        (Decimal("0.075"), 75_000),
        (Decimal("0.09999999999999999"), 100_000),
        (Decimal("1E-9"), 0),
        (1_000_000, 10**12),
        (None, None),
        (-1, None),
        ("-1", None),
        (float("nan"), None),
        (float("inf"), None),
        (Decimal("NaN"), None),
        (Decimal("1E+999999"), None),
        (10**400, None),
        (1_000_001, None),
        ("free", None),
        ("", None),
        (True, None),
    ],
)
def test_a_price_for_a_million_tokens(usd: Usd, expected: int | None) -> None:
    assert pico(usd) == expected


@pytest.mark.parametrize(
    ("usd", "expected"),
    [("0.00000125", 1_250_000), ("0", 0), ("-1", None), (1, 10**12), (1.5, None), (Decimal("1E-20"), 0)],
)
def test_a_price_for_one_token(usd: Usd, expected: int | None) -> None:
    assert pico(usd, tokens=1) == expected


def test_input_and_output_belong_together_and_caches_may_be_missing() -> None:
    assert prices(1, 2) == Prices(1_000_000, 2_000_000)
    assert prices("0.000001", "0.000002", "0.0000001", tokens=1) == Prices(1_000_000, 2_000_000, 100_000)
    assert prices(1, 2, -1, 4) == Prices(1_000_000, 2_000_000, None, 4_000_000)
    assert prices(0, 0) == Prices(0, 0)
    assert prices(1, None) is None
    assert prices(None, 1) is None
    assert prices(-1, -1) is None
