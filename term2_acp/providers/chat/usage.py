"""Tokens as Chat Completions servers count them, made into what ``UsageDelta`` promises. Pure.

What is read, and for whom:

- ``prompt_tokens``, ``completion_tokens``, and their ``_details`` (``cached_tokens``, ``reasoning_tokens``).
- ``prompt_cache_hit_tokens`` (DeepSeek) and ``cached_tokens`` at the top (Moonshot).
- ``cache_write_tokens`` in the details, and ``cost`` in USD (OpenRouter). With a key of the vendor's own
  OpenRouter's ``cost`` is its fee alone, and what the vendor takes stands beside it.
- ``timings`` of llama.cpp, for what its usage does not tell.

Some servers count thoughts beside the output and not in it (Gemini's, xAI's), and some leave cached tokens
out of the input. Nothing is assumed of either; numbers that contradict each other prove it: a ``total`` that
is more than input and output, more thoughts than output, more cached tokens than input.

Numbers that cannot be (``wire_values.tokens``) are not there.
"""

from collections.abc import Mapping
from typing import Any

from term2_acp.domain.usage import MOST_COST, PICO
from term2_acp.providers.base import UsageDelta
from term2_acp.providers.wire_values import MAX_TOKENS, tokens


def usage_of(value: Any, timings: Any = None, *, tells_cost: bool = False) -> UsageDelta | None:
    """The usage in a server's object, or None if it holds none that can be.

    ``tells_cost``: the server's ``cost`` is known to be US dollars.
    """
    usage = value if isinstance(value, dict) else {}
    timed = timings if isinstance(timings, dict) else {}
    sent, made = tokens(usage.get("prompt_tokens")), tokens(usage.get("completion_tokens"))
    total = tokens(usage.get("total_tokens"))
    if made is None and usage.get("completion_tokens") is None and sent is not None and total is not None:
        made = max(0, total - sent)  # nothing to see, so it was left out
    if sent is None or made is None:
        return _of_timings(timed)
    sent_details, made_details = (
        _part(usage, "prompt_tokens_details"),
        _part(usage, "completion_tokens_details"),
    )
    read = _first(
        sent_details.get("cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),
        usage.get("cached_tokens"),
        timed.get("cache_n"),
    )
    written = _first(sent_details.get("cache_write_tokens"))
    thoughts = _first(made_details.get("reasoning_tokens"), usage.get("reasoning_tokens"))
    beside = max(0, total - sent - made) if total is not None else 0
    if read + written > sent or (beside and beside == read + written):
        sent += read + written
    elif thoughts > made or (beside and (beside == thoughts or not thoughts)):
        thoughts = thoughts or beside
        made += thoughts
    if max(sent, made) > MAX_TOKENS:
        return None
    return UsageDelta(sent, made, read, written, thoughts, _cost(usage) if tells_cost else None)


def _of_timings(timed: Mapping[str, Any]) -> UsageDelta | None:
    sent, made = tokens(timed.get("prompt_n")), tokens(timed.get("predicted_n"))
    if sent is None or made is None:
        return None
    read = _first(timed.get("cache_n"))
    return UsageDelta(sent + read, made, read)


def _cost(usage: Mapping[str, Any]) -> int | None:
    cost = _pico(usage.get("cost"))
    if usage.get("is_byok") is True:
        behind = _pico(_part(usage, "cost_details").get("upstream_inference_cost"))
        return None if cost is None or behind is None else cost + behind
    return cost


def _pico(value: Any) -> int | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    # NaN fails the comparison too.
    return round(value * PICO) if 0 <= value <= MOST_COST / PICO else None


def _part(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = usage.get(name)
    return part if isinstance(part, dict) else {}


def _first(*values: Any) -> int:
    """The first that is a number of tokens and not 0; a 0 in one place may be told better in another."""
    return next((count for value in values if (count := tokens(value))), 0)
