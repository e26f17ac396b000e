"""What both versions of the protocol write alike: blocks, labels of tool calls, plans; and how they fit.
And what a client that knows nothing of compactions is told of one.

Each function that is given a ``room`` keeps to so many bytes of encoded JSON. What a person or a model said
is split; labels are shortened, raw values are replaced by their size and digest, and both say so.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from term2_acp.acp.fit import digest_of, encode, shorten, split_text, too_long, whole_characters
from term2_acp.domain.content import ContentBlock, Image, Text
from term2_acp.domain.events import CompactionStatus, CompactionUpdate, Notice, Severity
from term2_acp.domain.ids import MessageId
from term2_acp.domain.plan import PlanEntry
from term2_acp.domain.toolcall import Location

Wire = dict[str, Any]

_COMPACTING = (
    "The conversation is being summed up, to make room in the model's context. This may take a minute, and "
    "then the work goes on."
)
_COMPACTED = "The conversation was summed up. From here on the model goes by the summary."
_NOT_COMPACTED = "The conversation was not summed up, and is as it was."


def notice_of(event: CompactionUpdate) -> Notice:
    """What a person is told of a compaction whose client knows of none: that it begins, and how it ended.

    A summary takes as long as a long reply, and nothing else is shown meanwhile. From its end on the model
    knows less, or has as little room as before: both explain what it does next. The two are messages of
    their own. A replay has the end alone, as it has of a compaction that is shown as one.
    """
    if event.status is CompactionStatus.IN_PROGRESS:
        return Notice(MessageId(f"{event.compaction_id}_began"), Severity.INFO, _COMPACTING)
    ended = MessageId(f"{event.compaction_id}_ended")
    if event.status is CompactionStatus.COMPLETED:
        return Notice(ended, Severity.INFO, _COMPACTED)
    if event.status is CompactionStatus.CANCELLED:
        return Notice(ended, Severity.INFO, _NOT_COMPACTED)
    why = f"{_NOT_COMPACTED} {event.error}" if event.error else _NOT_COMPACTED
    return Notice(ended, Severity.WARNING, why)


# -- blocks --------------------------------------------------------------------------------------------

# What stands around the text of a block, and a little more: `{"type":"text","text":}`.
_BLOCK_OVERHEAD = 64


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


# -- tool calls, but for their content -----------------------------------------------------------------

# What share of the room a label may keep when a call does not fit: with everything else replaced, the
# shares and the notes together stay below the whole.
_LABEL_SHARES = MappingProxyType({"title": 8, "name": 16})
_LOCATIONS_SHARE = 4


def location_to_wire(location: Location) -> Wire:
    """A place. Lines are counted from one; some clients drop a location that says nought."""
    if location.line is None or location.line < 1:
        return {"path": location.path}
    return {"path": location.path, "line": location.line}


def fit_head(head: Mapping[str, Any], room: int) -> Wire:
    """The members of a tool call but for its content, within ``room`` bytes; at least 1 KiB."""
    fitted = dict(head)
    raw = [(encode(head[name]), name) for name in ("rawInput", "rawOutput") if name in head]
    for encoded, name in sorted(raw, key=lambda pair: len(pair[0]), reverse=True):
        if len(encode(fitted)) > room:
            fitted[name] = too_long(encoded)
    if len(encode(fitted)) > room:
        for label, share in _LABEL_SHARES.items():
            if label in fitted:
                fitted[label] = shorten(fitted[label], room // share)
        if "locations" in fitted:
            fitted["locations"] = first_that_fit(fitted["locations"], room // _LOCATIONS_SHARE)
    return fitted


def first_that_fit(items: list[Wire], room: int) -> list[Wire]:
    """As many of the first items as take at most ``room`` bytes together."""
    used = 0
    for count, item in enumerate(items):
        used += len(encode(item)) + 1
        if used > room:
            return items[:count]
    return items


# -- plans ---------------------------------------------------------------------------------------------

# The least that a plan's entry takes: its shortened content, and the names and words around it.
_LEAST_ENTRY = 256
_ENTRY_OVERHEAD = 128


def plan_entries(entries: Sequence[PlanEntry], room: int) -> list[Wire]:
    """The entries of a plan within ``room`` bytes.

    A plan is sent whole each time and cannot go on in chunks, so entries that do not fit are shortened,
    and beyond a number that nobody reads the last one says how many there are.
    """
    wire = [_entry(entry.content, entry) for entry in entries]
    if len(encode(wire)) <= room:
        return wire
    most = room // _LEAST_ENTRY
    share = room // min(most, len(entries)) - _ENTRY_OVERHEAD
    shown = [_entry(shorten(entry.content, share), entry) for entry in entries[:most]]
    if len(entries) > most:
        shown[-1] = _entry(f"… ({len(entries)} entries in all)", entries[most - 1])
    return shown


def _entry(content: str, entry: PlanEntry) -> Wire:
    return {"content": content, "priority": entry.priority, "status": entry.status}
