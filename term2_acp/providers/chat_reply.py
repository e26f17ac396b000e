"""One reply gathered from the events of a Chat Completions stream. Pure.

Theory of operation. Events go in one by one. Text and thoughts come out at once; tool calls are gathered
and come out, whole, with the terminal event. ``finish`` is what makes a reply: a stream that ends without
one, whatever else was in it, is broken, and ``[DONE]`` without one ends it no better.

Rules, each for servers that were seen to need it:

- ``length`` drops every call of the reply, for the last one is cut and nobody knows where. A refusal
  drops them too. ``stop`` with calls that parse means ``tool_calls``; ``tool_calls`` without any, or
  ``stop`` with one that does not parse, is a contradiction, and contradictions break the reply.
- Numbers of tokens that cannot be (negative, fractions, NaN, absurd) are dropped.
- An event that carries nothing is no sign of life, so that empty ones cannot keep a dead stream alive.
- What strict JSON refuses (NaN, half of a surrogate pair, bytes that are not UTF-8) is read all the same;
  what comes out is Unicode.
"""

import json
from typing import Any

import msgspec

from term2_acp.providers.base import Delta, Finish, Finished, TextDelta, ThoughtDelta, UsageDelta
from term2_acp.providers.chat_calls import CallGatherer
from term2_acp.providers.text import is_well_formed, well_formed
from term2_acp.providers.wire import Broken, ServerError

# Tokens. No context is as large as this, so a larger number is an error of the server.
MAX_TOKENS = 100_000_000

_FINISHES: dict[str, Finish] = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "eos_token": Finish.STOP,
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_calls": Finish.TOOL_CALLS,
    "tool_call": Finish.TOOL_CALLS,
    "tool_use": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,
    "content_filter": Finish.REFUSAL,
    "refusal": Finish.REFUSAL,
    "safety": Finish.REFUSAL,
    "sensitive": Finish.REFUSAL,
}


class _Function(msgspec.Struct):
    name: Any = None
    arguments: Any = None


class _CallPiece(msgspec.Struct):
    index: Any = None
    id: Any = None
    function: _Function | None = None


class _Said(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[_CallPiece] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct):
    index: Any = None
    delta: _Said | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class ChatReply:
    """Gathers one reply (``Reply``). ``finish`` is the reason as the server gave it, or None."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self.over = False
        self._calls = CallGatherer()
        self._usage: UsageDelta | None = None
        self._refused = False
        self._high_surrogate = ""

    @property
    def complete(self) -> bool:
        """See ``Reply``."""
        return self.finish is not None

    def feed(self, name: str, data: bytes) -> list[Delta] | Broken | ServerError | None:
        """See ``Reply``."""
        if data.strip() == b"[DONE]":
            self.over = True
            return []
        try:
            chunk = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            loose = _decode_loosely(data)
            if loose is None:
                return ServerError(_value(data)) if name == "error" else _UNREADABLE
            chunk = loose
        if chunk.error is not None:
            return ServerError(chunk.error)
        if name == "error":
            return ServerError(_value(data))
        deltas: list[Delta] = []
        alive = self._take_usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index:
                continue  # a second answer, which nobody asked for
            if choice.delta is not None:
                taken = self._take(choice.delta, deltas)
                if isinstance(taken, Broken):
                    return taken
                alive = taken or alive
            if choice.finish_reason:
                self.finish = choice.finish_reason
                alive = True
        return deltas if alive else None

    def close(self) -> list[Delta] | Broken:
        """See ``Reply``."""
        if self.finish is None:
            return Broken("ended its answer in the middle")
        finish = _FINISHES.get(self.finish.lower())
        if finish is None:
            return Broken(f"ended its answer with the unknown reason {self.finish[:40]!r}")
        if finish is Finish.STOP and self._refused:
            finish = Finish.REFUSAL
        calls: list[Delta] = []
        if finish in {Finish.STOP, Finish.TOOL_CALLS}:
            gathered = self._calls.calls(must_parse=finish is Finish.STOP)
            if isinstance(gathered, Broken):
                return gathered
            if finish is Finish.TOOL_CALLS and not gathered:
                return Broken("announced tool calls and sent none")
            calls.extend(gathered)
            finish = Finish.TOOL_CALLS if calls else Finish.STOP
        text = [TextDelta("\ufffd")] if self._high_surrogate else []
        usage = [] if self._usage is None else [self._usage]
        return [*text, *calls, *usage, Finished(finish)]

    def _take(self, said: _Said, deltas: list[Delta]) -> bool | Broken:
        before = len(deltas)
        thought = said.reasoning_content if isinstance(said.reasoning_content, str) else said.reasoning
        if isinstance(thought, str) and thought:
            deltas.append(ThoughtDelta(well_formed(thought)))
        if isinstance(said.content, str):
            self._say(said.content, deltas)
        elif isinstance(said.content, list):
            for part in said.content:  # Mistral's way: typed parts
                text = part.get("text") if isinstance(part, dict) else None
                if isinstance(text, str):
                    self._say(text, deltas)
        if isinstance(said.refusal, str) and said.refusal:
            self._refused = True
            self._say(said.refusal, deltas)
        pieces = said.tool_calls or []
        if said.function_call is not None:
            pieces = [*pieces, _CallPiece(0, None, said.function_call)]
        for piece in pieces:
            function = piece.function or _Function()
            broken = self._calls.take(piece.index, piece.id, function.name, function.arguments)
            if broken is not None:
                return broken
        return len(deltas) > before or bool(pieces)

    def _say(self, text: str, deltas: list[Delta]) -> None:
        """Add text, as Unicode: a pair of surrogates that was cut in two is joined, a lone one replaced."""
        if self._high_surrogate or not is_well_formed(text):
            text = self._high_surrogate + text
            cut = "\ud800" <= text[-1] <= "\udbff"
            self._high_surrogate = text[-1] if cut else ""
            text = well_formed(text[:-1] if cut else text)
        if text:
            deltas.append(TextDelta(text))

    def _take_usage(self, usage: Any) -> bool:
        if not isinstance(usage, dict):
            return False
        sent, made = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
        if sent is None or made is None:
            return False
        self._usage = UsageDelta(sent, made)
        return True


_UNREADABLE = Broken("sent an event that cannot be read")


def _tokens(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
        return value
    return None


def _decode_loosely(data: bytes) -> _Chunk | None:
    """Decode what strict JSON refuses: NaN, lone surrogates, bytes that are not UTF-8."""
    value = _value(data)
    if not isinstance(value, dict):
        return None
    try:
        return msgspec.convert(value, _Chunk, strict=True)
    except msgspec.ValidationError:
        return None


def _value(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")
