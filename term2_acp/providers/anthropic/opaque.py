"""What the Messages wire keeps of a reply, to tell it back: the thoughts, and where they stood. Pure.

The server signs each thought and wants it back unchanged and in its place. What was said and called is kept
elsewhere, and may have been redacted since; so this holds the thoughts alone, and for the rest only places:
a number is so many characters of the text, ``"call"`` the next call.

Rules:

- A digest tells whether anything was changed on the way, a redaction too: a thought that was changed would
  be refused, so the reply is then told without.
- If the text is no longer as long as it was, it goes whole where its first part stood.
- A thought never stands last: servers refuse that. So a reply of thoughts alone is none.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

_VERSION = 1


class Thought(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    """A thought as the server gave it. ``thinking`` is empty where the server hides it."""

    thinking: str
    signature: str


class HiddenThought(msgspec.Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    """A thought that only the server can read."""

    data: str


Place = Thought | HiddenThought | int | Literal["call"]


class _Kept(msgspec.Struct):
    wire: Literal["anthropic"]
    version: int
    digest: str
    content: list[Place]


_decode = msgspec.json.Decoder(_Kept).decode


def keep(places: Sequence[Place]) -> str | None:
    """The JSON text to keep, or None if there is no thought in it."""
    if not any(isinstance(place, Thought | HiddenThought) for place in places):
        return None
    content = list(places)
    return msgspec.json.encode(_Kept("anthropic", _VERSION, _digest(content), content)).decode()


def places_of(kept: str | None) -> Sequence[Place]:
    """What ``keep`` was given; nothing if the text is another's, of another version, or damaged."""
    if kept is None:
        return ()
    try:
        value = _decode(kept)
        whole = value.version == _VERSION and value.digest == _digest(value.content)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()
    return value.content if whole else ()


def lay_out(places: Sequence[Place], text: str, calls: Sequence[Any]) -> list[Any]:
    """The blocks of a reply: its thoughts, its text and the blocks of its ``calls``, each in its place."""
    as_it_was = sum(place for place in places if isinstance(place, int)) == len(text)
    blocks: list[Any] = []
    said, called = 0, 0
    for place in places:
        if isinstance(place, Thought | HiddenThought):
            blocks.append(msgspec.to_builtins(place))
        elif isinstance(place, int):
            end = said + max(0, place) if as_it_was else len(text)
            blocks += _text(text[said:end])
            said = max(said, end)
        else:
            blocks += calls[called : called + 1]
            called += 1
    if text[said:].strip():
        first_call = next((at for at, block in enumerate(blocks) if block["type"] == "tool_use"), len(blocks))
        blocks[first_call:first_call] = _text(text[said:])
    blocks += calls[called:]
    while blocks and blocks[-1]["type"] not in {"text", "tool_use"}:
        blocks.pop()
    return blocks


def _text(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _digest(content: Sequence[Place]) -> str:
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]
