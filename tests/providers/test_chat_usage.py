"""Usage, vendor by vendor as it is told: cached tokens are among the input and thoughts among the output, by
whatever rule the server counted, and no number comes out that cannot be."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.providers.base import UsageDelta
from term2_acp.providers.chat.usage import usage_of
from term2_acp.providers.wire_values import MAX_TOKENS


def told(sent: Any, made: Any, total: Any = None, **rest: Any) -> dict[str, Any]:
    return {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": total, **rest}


def read(count: Any) -> dict[str, Any]:
    return {"prompt_tokens_details": {"cached_tokens": count}}


def thought(count: Any) -> dict[str, Any]:
    return {"completion_tokens_details": {"reasoning_tokens": count}}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (told(10, 5), UsageDelta(10, 5)),
        (told(10, 5, 15, **read(8), **thought(3)), UsageDelta(10, 5, 8, 0, 3)),
        # DeepSeek, Moonshot
        (told(10, 5, 15, prompt_cache_hit_tokens=8, prompt_cache_miss_tokens=2), UsageDelta(10, 5, 8)),
        (told(10, 5, 15, cached_tokens=8), UsageDelta(10, 5, 8)),
        # the place that everybody has may hold a zero
        (told(10, 5, 15, **read(0), prompt_cache_hit_tokens=8), UsageDelta(10, 5, 8)),
        # thoughts beside the output, and told: xAI, gateways to Gemini
        (told(10, 5, 75, **thought(60)), UsageDelta(10, 65, 0, 0, 60)),
        (told(21, 0, 81, **thought(60)), UsageDelta(21, 60, 0, 0, 60)),
        # and not told: Gemini
        (told(20, 198, 623), UsageDelta(20, 603, 0, 0, 405)),
        # and without a total: no output holds more thoughts than it is long
        (told(21, 5, **thought(60)), UsageDelta(21, 65, 0, 0, 60)),
        # nothing said, so nothing counted
        ({"prompt_tokens": 21, "total_tokens": 81}, UsageDelta(21, 60)),
        # cached tokens beside the input, by the total or because they do not fit into it
        (told(10, 5, 1015, **read(1000)), UsageDelta(1010, 5, 1000)),
        (told(10, 5, **read(1000)), UsageDelta(1010, 5, 1000)),
        # a total that explains nothing changes nothing
        (told(10, 5, 99, **thought(3)), UsageDelta(10, 5, 0, 0, 3)),
        (told(10, 5, 3), UsageDelta(10, 5)),
        (told(10, 5, math.nan), UsageDelta(10, 5)),
    ],
)
def test_how_servers_count(usage: dict[str, Any], expected: UsageDelta) -> None:
    assert usage_of(usage) == expected


def test_timings_of_llama_cpp() -> None:
    timings = {"cache_n": 90, "prompt_n": 10, "predicted_n": 5, "prompt_ms": 1.5}
    assert usage_of(None, timings) == UsageDelta(100, 5, 90)
    assert usage_of(told(100, 5), timings) == UsageDelta(100, 5, 90)
    assert usage_of(None, {"prompt_n": -1, "predicted_n": 5}) is None


@pytest.mark.parametrize(
    ("cost", "pico"),
    [
        ({"cost": 0.95}, 950_000_000_000),
        ({"cost": 0}, 0),
        ({"cost": 1e-12}, 1),
        ({"cost": 0.1 + 0.2}, 300_000_000_000),
        ({"cost": 0.05, "is_byok": True, "cost_details": {"upstream_inference_cost": 1}}, 1_050_000_000_000),
        ({"cost": 0.05, "is_byok": False, "cost_details": {"upstream_inference_cost": 1}}, 50_000_000_000),
        ({"cost": 0.05, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, None),
        ({"cost": 0.05, "is_byok": True}, None),
        ({"cost": math.nan}, None),
        ({"cost": math.inf}, None),
        ({"cost": -0.1}, None),
        ({"cost": 1e9}, None),
        ({"cost": "0.1"}, None),
        ({"cost": True}, None),
        ({}, None),
    ],
)
def test_what_a_call_cost(cost: dict[str, Any], pico: int | None) -> None:
    usage = usage_of(told(1, 1, 2, **cost), tells_cost=True)
    assert usage == UsageDelta(1, 1, 0, 0, 0, pico)


def test_a_cost_in_nobody_knows_what_is_not_one() -> None:
    assert usage_of(told(1, 1, 2, cost=5)) == UsageDelta(1, 1)


odd = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.just({}),
    st.integers(0, 500),
)
details = st.dictionaries(
    st.sampled_from(["cached_tokens", "cache_write_tokens", "reasoning_tokens", "upstream_inference_cost"]),
    odd,
)
usages = st.one_of(
    odd,
    st.fixed_dictionaries(
        {"prompt_tokens": odd, "completion_tokens": odd},
        optional={
            "total_tokens": odd,
            "cost": odd,
            "is_byok": odd,
            "prompt_cache_hit_tokens": odd,
            "prompt_tokens_details": st.one_of(odd, details),
            "completion_tokens_details": st.one_of(odd, details),
            "cost_details": st.one_of(odd, details),
        },
    ),
)


@settings(deadline=None)
@given(usages, st.one_of(odd, st.dictionaries(st.sampled_from(["cache_n", "prompt_n", "predicted_n"]), odd)))
def test_no_number_comes_out_that_cannot_be(usage: Any, timings: Any) -> None:
    found = usage_of(usage, timings, tells_cost=True)
    if found is None:
        return
    assert found.cache_read_tokens + found.cache_write_tokens <= found.input_tokens <= MAX_TOKENS
    assert found.thought_tokens <= found.output_tokens <= MAX_TOKENS
    assert found.cost_pico_usd is None or found.cost_pico_usd >= 0
    for number in (found.input_tokens, found.output_tokens, found.cache_read_tokens, found.thought_tokens):
        assert type(number) is int
        assert number >= 0
