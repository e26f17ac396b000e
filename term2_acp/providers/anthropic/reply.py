"""One reply gathered from the events of a Messages stream. Pure.

Theory of operation. Events go in one by one. Text and thoughts come out at once; tool calls are gathered
(``blocks``) and come out, whole, with the terminal event. A ``message_delta`` with a stop reason
is what makes a reply; ``message_stop`` without one ends it no better than a broken connection.

Rules:

- A reply that was cut for its length, or refused, drops every call. A stop with calls that parse means
  ``tool_use``; ``tool_use`` without any call, or a stop with one that does not parse, is a contradiction,
  and contradictions break the reply. Of several reasons the last counts, but none takes back one that is
  worse than a stop.
- Thoughts, with their signatures and places, leave with the terminal event, to be told back; those of a
  refused reply do not.
- A ``ping`` is no sign of life, and neither is an event with nothing in it that is known, nor
  ``message_start``: the server has read the request and said nothing. An error right behind it is still one
  of a request that may be sent again.
- The counts of tokens are cumulative, and each event tells some of them. On this wire the cache's tokens
  are not among ``input_tokens``; in what comes out they are. Numbers that cannot be are dropped.
- What is counted at the start comes out with the first block, so that a turn that is cancelled has cost
  something too.
- Events, blocks and deltas of kinds that are not known are let by: the wire grows.

Source: Claude API documentation, "Streaming messages" and "Handling stop reasons", November 2026.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from term2_acp.providers.anthropic.blocks import Blocks
from term2_acp.providers.anthropic.opaque import keep
from term2_acp.providers.base import Delta, Finish, Finished, UsageDelta
from term2_acp.providers.wire import Broken, ServerError
from term2_acp.providers.wire_values import NOT_STRICT, decode_loosely, tokens

_FINISHES: Mapping[str, Finish] = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "pause_turn": Finish.STOP,  # only the server's own tools pause, and none of them is offered
    "tool_use": Finish.TOOL_CALLS,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "refusal": Finish.REFUSAL,
}

# The ends after which the calls of the reply run.
_RUNS = frozenset({Finish.STOP, Finish.TOOL_CALLS})

_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class _Event(msgspec.Struct):
    type: Any = None
    index: Any = None
    message: Any = None
    content_block: Any = None
    delta: Any = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class AnthropicReply:
    """Gathers one reply (``Reply``). ``stop_reason`` is the reason as the server gave it, or None."""

    def __init__(self) -> None:
        self.stop_reason: str | None = None
        self.over = False
        self._blocks = Blocks()
        self._counts: dict[str, int] = {}
        self._told_early = False

    @property
    def complete(self) -> bool:
        """See ``Reply``."""
        return self.stop_reason is not None

    def feed(self, name: str, data: bytes) -> Sequence[Delta] | Broken | ServerError | None:
        """See ``Reply``."""
        if name == "ping":
            return None
        try:
            event = _decode(data)
        except NOT_STRICT:
            loose = decode_loosely(data, _Event)
            if loose is None:
                return self._unreadable(name, data)
            event = loose
        kind = event.type if isinstance(event.type, str) else name
        match kind:
            case "content_block_delta":
                return self._blocks.take(event.index, event.delta)
            case "content_block_start":
                begun = self._blocks.start(event.index, event.content_block)
                return begun if isinstance(begun, Broken) else [*self._early_usage(), *begun]
            case "content_block_stop":
                return self._blocks.stop(event.index)
            case "message_start":
                self._count(event.message.get("usage") if isinstance(event.message, dict) else None)
                return None
            case "message_delta":
                return self._take_end(event)
            case "message_stop":
                self.over = True
                return []
        if kind == "error" or event.error is not None:
            return ServerError(event.error if event.error is not None else data.decode("utf-8", "replace"))
        return None

    def close(self) -> Sequence[Delta] | Broken:
        """See ``Reply``."""
        if self.stop_reason is None:
            return Broken("ended its answer in the middle")
        finish = _FINISHES.get(self.stop_reason)
        if finish is None:
            return Broken(f"ended its answer with the unknown reason {self.stop_reason[:40]!r}")
        calls: Sequence[Delta] = ()
        if finish in _RUNS:
            gathered = self._blocks.calls(must_parse=finish is Finish.STOP)
            if isinstance(gathered, Broken):
                return gathered
            if finish is Finish.TOOL_CALLS and not gathered:
                return Broken("announced tool calls and sent none")
            calls = gathered
            finish = Finish.TOOL_CALLS if calls else Finish.STOP
        text = self._blocks.end()
        opaque = None if finish is Finish.REFUSAL else keep(self._blocks.places(with_calls=bool(calls)))
        return [*text, *calls, *self._usage(), Finished(finish, opaque)]

    def _take_end(self, event: _Event) -> Sequence[Delta] | None:
        alive = self._count(event.usage)
        reason = event.delta.get("stop_reason") if isinstance(event.delta, dict) else None
        if reason is not None:
            alive = alive or self.stop_reason is None
            if self.stop_reason is None or _FINISHES.get(self.stop_reason) in _RUNS:
                self.stop_reason = str(reason)
        return [] if alive else None

    def _unreadable(self, name: str, data: bytes) -> ServerError | Broken | Sequence[Delta]:
        if name == "error":
            return ServerError(data.decode("utf-8", "replace"))
        if data.strip() == b"[DONE]":  # the end as servers of the other wire say it
            self.over = True
            return []
        return Broken("sent an event that cannot be read")

    def _count(self, usage: Any) -> bool:
        """Take what is counted; return whether anything of it is new."""
        if not isinstance(usage, dict):
            return False
        before = dict(self._counts)
        details = usage.get("output_tokens_details")
        thoughts = details.get("thinking_tokens") if isinstance(details, dict) else None
        counted = {name: usage.get(name) for name in (*_INPUT, "output_tokens")}
        for name, value in {**counted, "thinking_tokens": thoughts}.items():
            count = tokens(value)
            if count is not None:
                self._counts[name] = count
        return self._counts != before

    def _early_usage(self) -> Sequence[Delta]:
        if self._told_early:
            return ()
        self._told_early = True
        return self._usage()

    def _usage(self) -> Sequence[Delta]:
        counts = self._counts
        if "input_tokens" not in counts or "output_tokens" not in counts:
            return ()
        written = counts["output_tokens"]
        return [
            UsageDelta(
                input_tokens=sum(counts.get(name, 0) for name in _INPUT),
                output_tokens=written,
                cache_read_tokens=counts.get("cache_read_input_tokens", 0),
                cache_write_tokens=counts.get("cache_creation_input_tokens", 0),
                thought_tokens=min(counts.get("thinking_tokens", 0), written),
            )
        ]
