"""Tool calls and permission questions as ACP v1 writes them, and how they are made to fit.

Everything is closed in v1, so a call that was cancelled is ``failed`` here, and its raw output says what it
was. Content is always sent whole: a call has no way to be told a part of it. So content that does not fit a
frame cannot go on in the next one, and then

- diffs are of the hunks of the patch, in place of whole texts;
- what is longer than its share of the frame is shortened, if it is text, and says how long it is;
- a diff that is longer than its share becomes a sentence with its size and digest.

Diffs stand before everything else in the content: some clients show nothing but the first piece.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from term2_acp.acp.fit import MAX_FRAME_BYTES, digest_of, encode, json_safe, shorten, whole_characters
from term2_acp.acp.shown import Wire, fit_head, location_to_wire, text_block
from term2_acp.acp.v1.diffs import diff_to_wire
from term2_acp.domain.content import Diff, Terminal, Text, ToolContent
from term2_acp.domain.permission import Ask, Option, OptionKind
from term2_acp.domain.toolcall import ToolStatus

# `,"content":[]` around the content of a tool call.
_LIST_OVERHEAD = 16

# What stands around the text of a piece: `{"type":"content","content":{"type":"text","text":}}`.
_PIECE_OVERHEAD = 64

# The least that a piece of content is given: a sentence with a digest, and the beginning of a path.
_LEAST_PIECE = 512
_PATH_SHARE = 3


def text_piece(text: str) -> Wire:
    """Text as a piece of content."""
    return {"type": "content", "content": text_block(text)}


def members_to_wire(fields: Mapping[str, Any]) -> Wire:
    """The members of a tool call but for its id and content, of the fields of a ``ToolCallUpdate``."""
    wire: Wire = {name: fields[name] for name in ("title", "name", "kind") if name in fields}
    status = fields.get("status")
    if status is not None:
        wire["status"] = ToolStatus.FAILED if status is ToolStatus.CANCELLED else status
    if "locations" in fields:
        wire["locations"] = [location_to_wire(location) for location in fields["locations"]]
    if "raw_input" in fields:
        wire["rawInput"] = json_safe(fields["raw_input"])
    if status is ToolStatus.CANCELLED:
        wire["rawOutput"] = json_safe(_cancelled(fields.get("raw_output")))
    elif "raw_output" in fields:
        wire["rawOutput"] = json_safe(fields["raw_output"])
    return wire


def parent_meta(parent: str) -> Wire:
    """What stands in the ``_meta`` of a call that a program made."""
    return {"term2": {"parentToolCallId": parent}}


def _cancelled(raw_output: Any) -> Wire:
    if raw_output is None:
        return {"cancelled": True}
    if isinstance(raw_output, Mapping):
        return {**raw_output, "cancelled": True}
    return {"output": raw_output, "cancelled": True}


def content_to_wire(
    content: Sequence[ToolContent], terminal: Callable[[Terminal], Wire | None], *, whole: bool = True
) -> list[Wire]:
    """The content of a call, diffs first. ``terminal`` is how a terminal is shown, if it is."""
    pieces: list[Wire] = []
    for one in content:
        if isinstance(one, Text):
            pieces.append(text_piece(one.text))
        elif isinstance(one, Diff):
            pieces += diff_to_wire(one, whole=whole)
        else:
            shown = terminal(one)
            if shown is not None:
                pieces.append(shown)
    return sorted(pieces, key=lambda piece: piece["type"] != "diff")


# -- fitting -------------------------------------------------------------------------------------------


def fit_tool_call(wire: Wire, room: int, by_hunks: Callable[[], list[Wire]]) -> bytes:
    """The call, encoded, in at most ``room`` bytes. ``by_hunks`` is its content without whole texts."""
    encoded = encode(wire)
    if len(encoded) <= room:
        return encoded
    head = {name: value for name, value in wire.items() if name != "content"}
    if "content" not in wire:
        return encode(fit_head(head, room))
    content = wire["content"]
    if any(piece["type"] == "diff" for piece in content):
        content = by_hunks()
        encoded = encode(head | {"content": content})
        if len(encoded) <= room:
            return encoded
    head = fit_head(head, room // 2)
    left = room - len(encode(head)) - _LIST_OVERHEAD
    return encode(head | {"content": _fit_pieces(content, left)})


def _fit_pieces(pieces: list[Wire], room: int) -> list[Wire]:
    most = room // _LEAST_PIECE
    if len(pieces) > most:
        left_out = len(pieces) - most + 1
        pieces = [*pieces[: most - 1], text_piece(f"{left_out:,} more pieces do not fit here.")]
    sizes = [len(encode(piece)) + 1 for piece in pieces]
    share = _fair_share(sizes, room)
    return [
        piece if size <= share else _shortened(piece, share)
        for piece, size in zip(pieces, sizes, strict=True)
    ]


def _fair_share(sizes: Sequence[int], room: int) -> int:
    """The most that each may take, where the small ones leave what they do not need to the others."""
    left = room
    for count, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - count)
        if size > share:
            return share
        left -= size
    return room


def _shortened(piece: Wire, room: int) -> Wire:
    if piece["type"] == "content":
        return text_piece(shorten(piece["content"]["text"], room - _PIECE_OVERHEAD))
    path = shorten(piece["path"], room // _PATH_SHARE)
    old, new = piece.get("oldText", ""), whole_characters(piece["newText"])
    return text_piece(
        f"The change of {path} is too long to show here: of {len(old):,} characters it made {len(new):,}, "
        f"SHA-256 {digest_of(new.encode())}."
    )


# -- the question --------------------------------------------------------------------------------------

# Shares of a frame, in sixteenths. Two are left for names, ids and the envelope; the description is part of
# the tool call.
_OPTIONS_SHARE = _DESCRIPTION_SHARE = 1
_TOOL_CALL_SHARE = 13


def ask_to_wire(ask: Ask, max_frame_bytes: int = MAX_FRAME_BYTES) -> tuple[msgspec.Raw, frozenset[str]]:
    """The params of ``session/request_permission``, encoded, and the ids of the options that are in them.

    Within the bound of a frame. Some clients tell options apart by their kind, so there is at most one that
    allows for longer: the narrowest, which the core has put first. A v1 question has no words of its own, so
    they are content.
    """
    sixteenth = max_frame_bytes // 16
    offered = _offered(ask.options)
    share = _OPTIONS_SHARE * sixteenth // max(1, len(offered))
    options = [
        {"optionId": one.option_id, "name": shorten(one.name, share), "kind": one.kind} for one in offered
    ]
    call = ask.tool_call
    fields = {
        name: value
        for name in ("name", "kind", "status", "locations", "raw_input")
        if (value := getattr(call, name)) is not None
    }
    wire: Wire = {"toolCallId": call.tool_call_id} | members_to_wire(
        {"title": call.title or ask.title, **fields}
    )
    if call.parent is not None:
        wire["_meta"] = parent_meta(call.parent)
    said = (Text(shorten(ask.description, _DESCRIPTION_SHARE * sixteenth)),) if ask.description else ()

    def content(*, whole: bool = True) -> list[Wire]:
        return content_to_wire((*(call.content or ()), *said), lambda _: None, whole=whole)

    wire["content"] = content()
    fitted = fit_tool_call(wire, _TOOL_CALL_SHARE * sixteenth, lambda: content(whole=False))
    params = {"sessionId": ask.session_id, "toolCall": msgspec.Raw(fitted), "options": options}
    return msgspec.Raw(encode(params)), frozenset(one.option_id for one in offered)


def _offered(options: Sequence[Option]) -> list[Option]:
    offered: list[Option] = []
    longer = False
    for option in options:
        if option.kind is OptionKind.ALLOW_ALWAYS:
            if longer:
                continue
            longer = True
        offered.append(option)
    return offered
