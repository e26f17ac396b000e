"""What the Responses wire wants back with a reply: its reasoning items, and where everything stood. Pure.

Rules:

- The texts, the calls and their arguments are told from the history itself. Kept here is what cannot be
  known from there: the reasoning items, the order of the items, the phase of each message and the server's
  own ids of the calls. So a later request repeats the reply as the server made it, which its prompt cache
  and its check of encrypted reasoning compare with what they have.
- A reasoning item is kept by its documented members alone, as they came. What a server adds to an item that
  it sends (``status``, members that are null) may be refused when it comes back.
- A reasoning item without its id, or with neither encrypted nor readable content, is no use to a server that
  stores nothing: it would look the id up and refuse the request. Ids are checked by the rule for ids.
- Reading survives any text: what is foreign, old or damaged is nothing. A digest tells whether anything was
  changed on the way, a redaction too; encrypted reasoning that was changed would be refused each time.

Source: OpenAI API reference, "Responses", "Reasoning item"; guide "Reasoning models", "Keeping reasoning
items in context", November 2026.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from term2_acp.providers.wire_words import encode

# What ids may be when they are sent to a server, those of items and those of calls.
GOOD_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# What a message may be called in a request. Another word would be refused.
_PHASES = frozenset({"commentary", "final_answer"})


class Place(msgspec.Struct, omit_defaults=True):
    """One item of a reply; the member that is there says of which kind. None: one that cannot be told again.

    ``reasoning`` is the item itself. ``text`` is the length of a message in characters, ``phase`` its
    phase. ``call`` is the server's id of a call, "" where it has none.
    """

    reasoning: dict[str, Any] | None = None
    text: int | None = None
    phase: str | None = None
    call: str | None = None


class _Kept(msgspec.Struct):
    wire: Literal["responses"]
    digest: str
    items: list[Place]


_decode = msgspec.json.Decoder(_Kept).decode


def write_places(places: Sequence[Place]) -> str | None:
    """The places as JSON text, or None if the history tells as much without them."""
    if not any(place.reasoning is not None or place.phase is not None for place in places):
        return None
    # What is digested has to be what is read, and reading knows no surrogates.
    items = msgspec.json.decode(encode(msgspec.to_builtins(places)), type=list[Place])
    return encode(_Kept("responses", _digest(items), items)).decode()


def read_places(data: str | None) -> Sequence[Place] | None:
    """The places that were written, or None for anything else."""
    if data is None:
        return None
    try:
        kept = _decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return kept.items if kept.digest == _digest(kept.items) else None


def phase_of(value: Any) -> str | None:
    """The phase of a message, if it may be sent back."""
    return value if isinstance(value, str) and value in _PHASES else None


def reasoning_item(value: dict[str, Any]) -> dict[str, Any] | None:
    """A reasoning item as it may be sent, or None if it may not."""
    item_id, summary, content = value.get("id"), value.get("summary"), value.get("content")
    encrypted = value.get("encrypted_content")
    if not isinstance(item_id, str) or not GOOD_ID.fullmatch(item_id):
        return None
    # The summary has to be there even if it is empty; the others must not.
    item = {"type": "reasoning", "id": item_id, "summary": _parts(summary)}
    if parts := _parts(content):
        item["content"] = parts
    if isinstance(encrypted, str) and encrypted:
        item["encrypted_content"] = encrypted
    return item if len(item) > len(("type", "id", "summary")) else None


def _parts(value: Any) -> list[dict[str, str]]:
    """Parts of text, whose members are strings by the reference. Nothing deeper is kept."""
    parts = [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
    return [{name: text for name, text in part.items() if isinstance(text, str)} for part in parts]


def _digest(items: Sequence[Place]) -> str:
    return hashlib.sha256(encode(items)).hexdigest()[:32]
