"""Tool calls and their content as ACP v2 writes them, and how they are made to fit.

``to_wire`` functions give plain JSON values with ACP's names. ``fit_tool_call`` and ``fit_content`` hold
them to a bound:

- text content becomes several pieces, which a client appends to one another;
- a patch that does not fit becomes a sentence with its size and digest beside the list of changes;
- what is alike in both versions fits as ``acp.shown`` says.

Words are written by the enumerations that hold them, which are their ACP words.
"""

from collections.abc import Iterator, Mapping

from term2_acp.acp.fit import digest_of, encode, json_safe, split_text, whole_characters
from term2_acp.acp.shown import Wire, first_that_fit, fit_head, location_to_wire, text_block
from term2_acp.domain.content import Change, Terminal, Text, ToolContent
from term2_acp.domain.toolcall import ToolCallUpdate

# What stands around the text of a block: `{"type":"content","content":{"type":"text","text":}}`.
_BLOCK_OVERHEAD = 64

# `,"content":[]` around the content of a tool call.
_LIST_OVERHEAD = 16


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
        wire["locations"] = [location_to_wire(location) for location in call.locations]
    if call.content is not None:
        wire["content"] = [content_to_wire(content) for content in call.content]
    if call.parent is not None:
        wire["_meta"] = {"term2": {"parentToolCallId": call.parent}}
    return wire


# -- fitting -------------------------------------------------------------------------------------------


def fit_tool_call(wire: Wire, room: int) -> tuple[Wire, list[Wire]]:
    """The call within ``room`` bytes, and the pieces of its content that must follow it in order."""
    if len(encode(wire)) <= room:
        return wire, []
    members = {name: value for name, value in wire.items() if name != "content"}
    head = fit_head(members, room - _LIST_OVERHEAD)
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
        some = first_that_fit(changes, room) or changes[:1]
        yield {"type": "diff", "changes": some}
        changes = changes[len(some) :]


def _patch_note(patch: Mapping[str, str]) -> Wire:
    encoded = whole_characters(patch["text"]).encode()
    sentence = f"The patch is too long to show here: {len(encoded)} bytes, SHA-256 {digest_of(encoded)}."
    return {"type": "content", "content": text_block(sentence)}
