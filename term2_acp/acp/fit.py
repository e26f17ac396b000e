"""Values that fit a frame: whole characters, real numbers, and no longer than a client takes.

Rules:

- No frame is longer than ``MAX_FRAME_BYTES``, its line feed included. Text is split, never cut, and
  always between characters; what cannot be split is replaced by its size and digest, and says so.
- A lone surrogate cannot be written as UTF-8 and becomes U+FFFD. A number that JSON has no word for
  becomes its name as text: an encoder's silent ``null`` would be a lie where a number is meant.
- Sizes are those of the encoded JSON, in bytes: one character takes up to six.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

# Clients on SDK 2.4.0 drop the connection at a line of 32 MiB. A quarter of that keeps a frame's cost in
# the client's memory and latency bounded too.
MAX_FRAME_BYTES = 8 * 1024 * 1024

# A JSON value of a tool call may be nested as deep as the arguments a model wrote. Receivers bound the
# depth of a line (ours at 128 levels); the frame around the value takes up to eight of them.
_MAX_DEPTH = 100

# The longest a character can be in JSON: a control is written ``\u001f``.
_LONGEST_CHARACTER = 6

# Beyond what any float or id needs; Python refuses to write integers of more than 4,300 digits.
_MAX_INTEGER_BITS = 1024

_ENCODER = msgspec.json.Encoder()

# A JSON string, with nothing between a caller and the encoder: UnicodeEncodeError for a lone surrogate.
encode_text: Callable[[str], bytes] = _ENCODER.encode


def whole_characters(text: str) -> str:
    """The text without lone surrogates: pairs become the character they mean, the rest U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def json_safe(value: Any, levels: int = _MAX_DEPTH) -> Any:
    """A JSON value that can be encoded whatever a tool or a model put into it. Never raises.

    Mappings and sequences are copied; what is no JSON is named by its type.
    """
    if isinstance(value, str):
        return whole_characters(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_INTEGER_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if levels == 0:
        return "(nested too deeply to show)"
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - the first is ten times as fast
        return {whole_characters(str(key)): json_safe(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_safe(item, levels - 1) for item in value]
    return f"({type(value).__name__})"


def encode(value: Any) -> bytes:
    """One line of JSON. Raw values of tool calls must have been through ``json_safe`` before."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        # Rare enough that only the text that needs it pays: a model that was cut inside a character.
        return _ENCODER.encode(json_safe(value))


def split_text(text: str, room: int) -> Iterator[str]:
    """The text in pieces whose encoding, quotes included, takes at most ``room`` bytes each.

    The pieces are as long as they can easily be, and joined they are the text. ``room`` is at least
    eight bytes, so that every piece has a character.
    """
    least = (room - 2) // _LONGEST_CHARACTER
    start = 0
    while start < len(text):
        taken = min(len(text) - start, room - 2)
        while taken > least and (size := len(_ENCODER.encode(text[start : start + taken]))) > room:
            # Scaled by how much was too much; what the next characters weigh is not known yet.
            taken = max(least, taken * room // size)
        yield text[start : start + taken]
        start += taken


def shorten(text: str, room: int) -> str:
    """The text, or as much of its beginning as fits ``room`` bytes with a note of what is missing.

    For labels only. What a person or a model said is split instead.
    """
    if text.isascii() and len(text) * _LONGEST_CHARACTER + 2 <= room:
        return text
    text = whole_characters(text)
    if len(_ENCODER.encode(text)) <= room:
        return text
    note = f"… ({len(text)} characters in all)"
    return next(split_text(text, room - len(note.encode()))) + note


def digest_of(encoded: bytes) -> str:
    """The SHA-256 in hex, by which a value that was not sent can be told from another."""
    return hashlib.sha256(encoded).hexdigest()


def too_long(encoded: bytes) -> dict[str, Any]:
    """What stands in a frame for a raw value that does not fit it."""
    return {"note": "Too long to show here.", "size": len(encoded), "sha256": digest_of(encoded)}
