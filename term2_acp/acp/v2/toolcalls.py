"""Tool calls, their content and message blocks as ACP v2 writes them, and how they are made to fit.

``to_wire`` functions give plain JSON values with ACP's names. ``fit_tool_call`` and ``fit_content`` hold
them to a bound:

- text content becomes several pieces, which a client appends to one another;
- a patch that does not fit becomes a sentence with its size and digest beside the list of changes;
- a raw input or output that does not fit becomes a value that says so;
- a title, a name or a list of locations that does not fit is shortened: they are labels.

Words are written by the enumerations that hold them, which are their ACP words.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from term2_acp.acp.fit import digest_of, encode, json_safe, shorten, split_text, too_long, whole_characters
from term2_acp.domain.content import Change, ContentBlock, Image, Terminal, Text, ToolContent
from term2_acp.domain.toolcall import Location, ToolCallUpdate

Wire = dict[str, Any]

# What stands around the text of a block: `{"type":"content","content":{"type":"text","text":}}`.
_BLOCK_OVERHEAD = 64

# `,"content":[]` around the content of a tool call.
_LIST_OVERHEAD = 16


def text_block(text: str) -> Wire:
    """A text block."""
    return {"type": "text", "text": text}


def block_to_wire(block: ContentBlock) -> Wire:
    """A block of a prompt, as it is echoed."""
    if isinstance(block, Text):
        return text_block(block.text)
    if isinstance(block, Image):
        image: Wire = {"type": "image", "data": block.data, "mimeType": block.mime_type}
        return image if block.uri is None else image | {"uri": block.uri}
    wire: Wire = {"type": "resource_link", "name": block.name, "uri": block.uri}
    for member, value in (
        ("title", block.title),
        ("description", block.description),
        ("mimeType", block.mime_type),
        ("size", block.size),
    ):
        if value is not None:
            wire[member] = value
    return wire


def fit_block(block: ContentBlock, room: int) -> Iterator[bytes]:
    """The block, encoded, as blocks that take at most ``room`` bytes each.

    A link cannot be split; one that does not fit is written out as text, so that nothing is lost. An image
    fits a frame of the product's bound (``domain.content.MAX_IMAGE_BYTES``); one that a later version took
    is replaced by its size and digest.
    """
    encoded = encode(block_to_wire(block))
    if len(encoded) <= room:
        yield encoded
    elif isinstance(block, Image):
        yield encode(text_block(_image_note(block)))
    else:
        text = block.text if isinstance(block, Text) else encoded.decode()
        for piece in split_text(whole_characters(text), room - _BLOCK_OVERHEAD):
            yield encode(text_block(piece))


def _image_note(image: Image) -> str:
    digest = digest_of(image.data.encode(errors="replace"))
    return f"The image is too long to show here: {image.size} bytes, SHA-256 of its base64 {digest}."


def content_to_wire(content: ToolContent) -> Wire:
    """One piece of a tool call's content."""
    if isinstance(content, Text):
        return {"type": "content", "content": text_block(content.text)}
    if isinstance(content, Terminal):
        return {"type": "terminal", "terminalId": content.terminal_id}
    wire: Wire = {"type": "diff", "changes": [_change_to_wire(change) for change in content.changes]}
    if content.patch is not None:
        wire["patch"] = {"format": "git_patch", "text": content.patch}
    return wire


def _change_to_wire(change: Change) -> Wire:
    wire: Wire = {"operation": change.operation}
    if change.old_path is not None:
        wire["oldPath"] = change.old_path
    wire["path"] = change.path
    return wire


def _location_to_wire(location: Location) -> Wire:
    # Lines are counted from one; some clients drop a location that says nought.
    if location.line is None or location.line < 1:
        return {"path": location.path}
    return {"path": location.path, "line": location.line}


def tool_call_to_wire(call: ToolCallUpdate) -> Wire:
    """The members that are set, and no others: what is left out stays as the client has it."""
    wire: Wire = {"toolCallId": call.tool_call_id}
    if call.title is not None:
        wire["title"] = call.title
    if call.name is not None:
        wire["name"] = call.name
    if call.kind is not None:
        wire["kind"] = call.kind
    if call.status is not None:
        wire["status"] = call.status
    if call.raw_input is not None:
        wire["rawInput"] = json_safe(call.raw_input)
    if call.raw_output is not None:
        wire["rawOutput"] = json_safe(call.raw_output)
    if call.locations is not None:
        wire["locations"] = [_location_to_wire(location) for location in call.locations]
    if call.content is not None:
        wire["content"] = [content_to_wire(content) for content in call.content]
    if call.parent is not None:
        wire["_meta"] = {"term2": {"parentToolCallId": call.parent}}
    return wire


# -- fitting -------------------------------------------------------------------------------------------

# What share of the room a label may keep when a call does not fit: with everything else replaced, the
# shares and the notes together stay below the whole.
_LABEL_SHARES = MappingProxyType({"title": 8, "name": 16})
_LOCATIONS_SHARE = 4


def fit_tool_call(wire: Wire, room: int) -> tuple[Wire, list[Wire]]:
    """The call within ``room`` bytes, and the pieces of its content that must follow it in order."""
    if len(encode(wire)) <= room:
        return wire, []
    head = _fit_head({name: value for name, value in wire.items() if name != "content"}, room)
    if "content" not in wire:
        return head, []
    kept: list[Wire] = []
    rest: list[Wire] = []
    used = len(encode(head)) + _LIST_OVERHEAD
    for item in wire["content"]:
        for piece in fit_content(item, room // 2):
            used += len(encode(piece)) + 1
            (rest if rest or used > room else kept).append(piece)
    return head | {"content": kept}, rest


def _fit_head(head: Wire, room: int) -> Wire:
    room -= _LIST_OVERHEAD
    raw = [(encode(head[name]), name) for name in ("rawInput", "rawOutput") if name in head]
    for encoded, name in sorted(raw, key=lambda pair: len(pair[0]), reverse=True):
        if len(encode(head)) > room:
            head[name] = too_long(encoded)
    if len(encode(head)) > room:
        for label, share in _LABEL_SHARES.items():
            if label in head:
                head[label] = shorten(head[label], room // share)
        if "locations" in head:
            head["locations"] = _first_that_fit(head["locations"], room // _LOCATIONS_SHARE)
    return head


def _first_that_fit(items: list[Wire], room: int) -> list[Wire]:
    used = 0
    for count, item in enumerate(items):
        used += len(encode(item)) + 1
        if used > room:
            return items[:count]
    return items


def fit_content(wire: Wire, room: int) -> Iterator[Wire]:
    """One piece of content as pieces that take at most ``room`` bytes each."""
    if len(encode(wire)) <= room:
        yield wire
    elif wire["type"] == "content":
        text = whole_characters(wire["content"]["text"])
        for piece in split_text(text, room - _BLOCK_OVERHEAD):
            yield {"type": "content", "content": text_block(piece)}
    else:
        yield from _fit_changes(wire["changes"], room - _BLOCK_OVERHEAD)
        if "patch" in wire:
            yield _patch_note(wire["patch"])


def _fit_changes(changes: list[Wire], room: int) -> Iterator[Wire]:
    while changes:
        some = _first_that_fit(changes, room) or changes[:1]
        yield {"type": "diff", "changes": some}
        changes = changes[len(some) :]


def _patch_note(patch: Mapping[str, str]) -> Wire:
    encoded = whole_characters(patch["text"]).encode()
    sentence = f"The patch is too long to show here: {len(encoded)} bytes, SHA-256 {digest_of(encoded)}."
    return {"type": "content", "content": text_block(sentence)}
