"""What every wire reads alike out of a reply: JSON that is not quite JSON, arguments of calls, counts. Pure.

Rules:

- What strict JSON refuses (NaN, half of a surrogate pair, bytes that are not UTF-8) is read all the same: one
  odd character does not cost a reply.
- Arguments are JSON text, and stay as the model wrote them; a server that sends the value gets it written.
- A number of tokens that cannot be (negative, a fraction, NaN, absurd) is none.
"""

import json
from typing import Any, TypeVar

import msgspec

from term2_acp.providers.wire import Broken
from term2_acp.providers.wire_words import encode

# Characters of arguments in one reply. The largest honest ones hold a file.
MAX_ARGUMENTS = 8 * 1024 * 1024
# Calls in one reply. Real models make a handful.
MAX_CALLS = 128
# Tokens. No context is as large as this, so a larger number is an error of the server.
MAX_TOKENS = 100_000_000

NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder of msgspec raises for JSON that is not as it should be."""

_Event = TypeVar("_Event")


def decode_loosely(data: bytes, kind: type[_Event]) -> _Event | None:
    """The event in JSON that is not quite as it should be, or None if there is none."""
    value = value_of(data)
    if not isinstance(value, dict):
        return None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return None


def value_of(data: bytes) -> Any:
    """The JSON value, or the text if it is no JSON."""
    text = data.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def parses(arguments: str) -> bool:
    """Whether the text is JSON."""
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def arguments_of(value: Any) -> str | Broken:
    """Arguments as text; some servers send the value itself. "" where there are none."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return encode(value).decode()
    except RecursionError:
        return Broken("sent a tool call that is nested too deep")


def tokens(value: Any) -> int | None:
    """A number of tokens, or None if it cannot be one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
        return value
    return None
