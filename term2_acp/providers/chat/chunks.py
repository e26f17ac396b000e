"""One event of a Chat Completions stream, decoded. Pure.

What is of the wrong type is refused only where nothing could be done with it: a field that is ``Any`` is
checked where it is used, so that one odd field does not cost a reply.

The structs are not tracked by the garbage collector: they are never part of a cycle, and there are many.
"""

from typing import Any

import msgspec

from term2_acp.providers.wire_values import value_of


class Function(msgspec.Struct, gc=False):
    """The name and arguments of a call, or a piece of them."""

    name: Any = None
    arguments: Any = None


class CallPiece(msgspec.Struct, gc=False):
    """A piece of a tool call."""

    index: Any = None
    id: Any = None
    function: Function | None = None
    extra_content: Any = None


class Said(msgspec.Struct, gc=False):
    """What is new in a reply."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: list[CallPiece] | None = None
    function_call: Function | None = None
    extra_content: Any = None


class Choice(msgspec.Struct, gc=False):
    """One answer; there is never more than one that counts."""

    index: Any = None
    delta: Said | None = None
    finish_reason: str | None = None
    native_finish_reason: Any = None
    usage: Any = None
    error: Any = None


class Chunk(msgspec.Struct, gc=False):
    """One event, as far as anything of it is read."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None
    timings: Any = None


decode = msgspec.json.Decoder(Chunk).decode
"""The event in JSON that is as it should be. Raises one of ``wire_values.NOT_STRICT`` for any other."""


def error_in(data: bytes) -> Any:
    """The error that an event without a choice is all of, without saying so in the usual place; or None.

    Google sends it in an array, Mistral and older servers of vLLM's kind as ``"object": "error"``.
    """
    value = value_of(data)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return value[0].get("error")
    if isinstance(value, dict) and value.get("object") == "error":
        return value
    return None
