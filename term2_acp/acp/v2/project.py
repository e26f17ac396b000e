"""Events to ``session/update`` notifications: one whole encoded line each, without its line feed.

A pure function of the event and the session's id, but for one thing remembered: the beginning of the
last chunk's line. A chunk of text is the hot path of the product (hundreds of thousands a second), so it is
that beginning, the encoded text and a constant end, and nothing else.

The bound of a frame (``fit``) loses no characters: a longer message is a whole message and then chunks
with its id, a longer chunk several chunks, longer content of a tool call is appended piece by piece.

Events that are only kept have no words on the wire and give nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from term2_acp.acp.fit import MAX_FRAME_BYTES, encode, encode_text, shorten, split_text, whole_characters
from term2_acp.acp.v2.terminals import terminal_to_wire
from term2_acp.acp.v2.toolcalls import (
    Wire,
    block_to_wire,
    content_to_wire,
    fit_block,
    fit_content,
    fit_tool_call,
    text_block,
    tool_call_to_wire,
)
from term2_acp.acp.v2.usage import turn_usage_to_wire, usage_to_wire
from term2_acp.domain import events as ev
from term2_acp.domain.content import Image
from term2_acp.domain.ids import SessionId
from term2_acp.domain.plan import PlanEntry
from term2_acp.domain.toolcall import ToolCallUpdate, ToolStatus

Frames = list[bytes]

# What an update holds besides the value that is fitted: ids of ours, names of members, a line feed.
_UPDATE_OVERHEAD = 256

_UPDATE_END = b"}}"
_CHUNK_END = b"}}}}"


class Projection:
    """One session's events as frames. ``max_frame_bytes`` counts the line feed; at least 4 KiB."""

    __slots__ = ("_chunk_head", "_chunk_id", "_chunk_kind", "_head", "_room")

    def __init__(self, session_id: SessionId, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._head = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
            + encode(session_id)
            + b',"update":'
        )
        self._room = max_frame_bytes - len(self._head) - _UPDATE_OVERHEAD
        self._chunk_kind: type | None = None
        self._chunk_id = ""
        self._chunk_head = b""

    def to_wire(self, event: ev.Event) -> Frames:
        """The frames of one event, in order; none for an event that is only kept."""
        frames: Frames = []
        self.write_to(frames, event)
        return frames

    def write_to(self, frames: Frames, event: ev.Event) -> None:
        """Append the frames of one event. Never raises."""
        chunk: Any = event
        if type(event) is self._chunk_kind and chunk.message_id == self._chunk_id:
            # The hot path, without another call: more of the message that was last spoken of.
            try:
                encoded = encode_text(chunk.text)
            except UnicodeEncodeError:
                encoded = b""
            if encoded and len(encoded) <= self._room:
                frames.append(self._chunk_head + encoded + _CHUNK_END)
                return
        write = _WRITERS.get(type(event))
        if write is not None:
            write(self, frames, event)

    # -- text ------------------------------------------------------------------------------------------

    def _chunk(self, frames: Frames, event: ev.AgentMessageChunk | ev.AgentThoughtChunk) -> None:
        if event.message_id != self._chunk_id or type(event) is not self._chunk_kind:
            self._chunk_kind = type(event)
            self._chunk_id = event.message_id
            self._chunk_head = self._text_head(_CHUNK_KINDS[self._chunk_kind], event.message_id)
        encoded = encode(event.text)
        if len(encoded) <= self._room:
            frames.append(self._chunk_head + encoded + _CHUNK_END)
            return
        for piece in split_text(whole_characters(event.text), self._room):
            frames.append(self._chunk_head + encode(piece) + _CHUNK_END)

    def _text_head(self, kind: str, message_id: str) -> bytes:
        update = {"sessionUpdate": kind, "messageId": message_id, "content": text_block("")}
        return self._head + encode(update).removesuffix(b'""}}')

    def _message(self, frames: Frames, kind: str, message_id: str, blocks: Iterable[bytes]) -> None:
        """A whole message of the first encoded block, and a chunk for each of the rest."""
        for number, block in enumerate(blocks):
            if number == 0:
                self._with_content(frames, kind, message_id, b"[" + block + b"]")
            else:
                self._with_content(frames, f"{kind}_chunk", message_id, block)

    def _with_content(self, frames: Frames, kind: str, message_id: str, content: bytes) -> None:
        # Put together rather than encoded again: content may be megabytes.
        update = encode({"sessionUpdate": kind, "messageId": message_id}).removesuffix(b"}")
        frames.append(b"".join((self._head, update, b',"content":', content, b"}", _UPDATE_END)))

    def _user_message(self, frames: Frames, event: ev.UserMessage) -> None:
        if _image_characters(event) <= self._room:
            blocks = encode([block_to_wire(block) for block in event.content])
            if len(blocks) <= self._room:
                self._with_content(frames, "user_message", event.message_id, blocks)
                return
        pieces = (piece for block in event.content for piece in fit_block(block, self._room))
        self._message(frames, "user_message", event.message_id, pieces)

    def _agent_text(self, frames: Frames, event: ev.AgentMessage | ev.AgentThought) -> None:
        kind = "agent_message" if isinstance(event, ev.AgentMessage) else "agent_thought"
        pieces = split_text(whole_characters(event.text), self._room) if event.text else iter([""])
        self._message(frames, kind, event.message_id, (encode(text_block(piece)) for piece in pieces))

    # -- tool calls ------------------------------------------------------------------------------------

    def _tool_call(self, frames: Frames, event: ToolCallUpdate) -> None:
        wire = tool_call_to_wire(event)
        encoded = encode({"sessionUpdate": "tool_call_update"} | wire)
        if len(encoded) <= self._room:
            frames.append(self._head + encoded + _UPDATE_END)
            return
        call, rest = fit_tool_call(wire, self._room)
        self._update(frames, {"sessionUpdate": "tool_call_update"} | call)
        for piece in rest:
            self._content(frames, event.tool_call_id, piece)

    def _tool_call_began(self, frames: Frames, event: ev.ToolCallBegan) -> None:
        self._update(
            frames,
            {
                "sessionUpdate": "tool_call_update",
                "toolCallId": event.tool_call_id,
                "status": ToolStatus.IN_PROGRESS.value,
            },
        )

    def _content_added(self, frames: Frames, event: ev.ToolCallContentAdded) -> None:
        for piece in fit_content(content_to_wire(event.content), self._room):
            self._content(frames, event.tool_call_id, piece)

    def _content(self, frames: Frames, tool_call_id: str, piece: Wire) -> None:
        self._update(
            frames, {"sessionUpdate": "tool_call_content_chunk", "toolCallId": tool_call_id, "content": piece}
        )

    def _terminal(self, frames: Frames, event: ev.TerminalUpdate | ev.TerminalOutput) -> None:
        for update in terminal_to_wire(event, self._room):
            self._update(frames, update)

    # -- the session -----------------------------------------------------------------------------------

    def _state(self, frames: Frames, event: ev.Running | ev.RequiresAction) -> None:
        self._update(frames, {"sessionUpdate": "state_update", "state": _STATES[type(event)]})

    def _idle(self, frames: Frames, event: ev.Idle) -> None:
        update: Wire = {"sessionUpdate": "state_update", "state": "idle"}
        if event.stop_reason is not None:
            update["stopReason"] = event.stop_reason
        told: Wire = {}
        if event.failure is not None:
            message = shorten(event.failure.message, self._room // 2)
            told["error"] = {"code": event.failure.code, "message": message}
        if event.usage is not None:
            told["usage"] = turn_usage_to_wire(event.usage)
        if told:
            update["_meta"] = {"term2": told}
        self._update(frames, update)

    def _plan(self, frames: Frames, event: ev.PlanUpdate) -> None:
        entries = _plan_entries(event.entries, self._room - _UPDATE_OVERHEAD)
        self._update(
            frames,
            {
                "sessionUpdate": "plan_update",
                "plan": {"type": "items", "planId": event.plan_id, "entries": entries},
            },
        )

    def _usage(self, frames: Frames, event: ev.UsageUpdate) -> None:
        self._update(frames, {"sessionUpdate": "usage_update"} | usage_to_wire(event))

    def _session_info(self, frames: Frames, event: ev.SessionInfoUpdate) -> None:
        title = shorten(event.title, self._room // 2)
        self._update(
            frames, {"sessionUpdate": "session_info_update", "title": title, "updatedAt": event.updated_at}
        )

    def _update(self, frames: Frames, update: Wire) -> None:
        frames.append(self._head + encode(update) + _UPDATE_END)


def _image_characters(event: ev.UserMessage) -> int:
    """What the images of a prompt take at least, without encoding them to find out."""
    return sum(len(block.data) for block in event.content if isinstance(block, Image))


# The least that a plan's entry takes: its shortened content, and the names and words around it.
_LEAST_ENTRY = 256
_ENTRY_OVERHEAD = 128


def _plan_entries(entries: Sequence[PlanEntry], room: int) -> list[Wire]:
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


_STATES: Mapping[type, str] = MappingProxyType({ev.Running: "running", ev.RequiresAction: "requires_action"})

_CHUNK_KINDS: Mapping[type, str] = MappingProxyType(
    {ev.AgentMessageChunk: "agent_message_chunk", ev.AgentThoughtChunk: "agent_thought_chunk"}
)

_WRITERS: Mapping[type, Callable[[Projection, Frames, Any], None]] = MappingProxyType(
    {
        ev.AgentMessageChunk: Projection._chunk,
        ev.AgentThoughtChunk: Projection._chunk,
        ev.Running: Projection._state,
        ev.RequiresAction: Projection._state,
        ev.Idle: Projection._idle,
        ev.UserMessage: Projection._user_message,
        ev.AgentMessage: Projection._agent_text,
        ev.AgentThought: Projection._agent_text,
        ToolCallUpdate: Projection._tool_call,
        ev.ToolCallBegan: Projection._tool_call_began,
        ev.ToolCallContentAdded: Projection._content_added,
        ev.TerminalUpdate: Projection._terminal,
        ev.TerminalOutput: Projection._terminal,
        ev.PlanUpdate: Projection._plan,
        ev.UsageUpdate: Projection._usage,
        ev.SessionInfoUpdate: Projection._session_info,
    }
)
