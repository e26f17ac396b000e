"""Events to ``session/update`` notifications: one whole encoded line each, without its line feed.

A pure function of the event and the session's id, but for one thing remembered: the beginning of the
last chunk's line. A chunk of text is the hot path of the product (hundreds of thousands a second), so it is
that beginning, the encoded text and a constant end, and nothing else. What is small is in ``updates``.

The bound of a frame (``fit``) loses no characters: a longer message is a whole message and then chunks
with its id, a longer chunk several chunks, longer content of a tool call is appended piece by piece.

Events that are only kept have no words on the wire and give nothing; neither do those of what the client was
not told of (``capabilities.Advertised``).
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from term2_acp.acp.fit import MAX_FRAME_BYTES, encode, encode_text, split_text, whole_characters
from term2_acp.acp.shown import Wire, block_to_wire, fit_block, notice_of, text_block
from term2_acp.acp.v2 import updates
from term2_acp.acp.v2.capabilities import BASELINE, Advertised
from term2_acp.acp.v2.terminals import terminal_to_wire
from term2_acp.acp.v2.toolcalls import content_to_wire, fit_content, fit_tool_call, tool_call_to_wire
from term2_acp.domain import events as ev
from term2_acp.domain.content import Image
from term2_acp.domain.ids import SessionId
from term2_acp.domain.toolcall import ToolCallUpdate

Frames = list[bytes]
Write = Callable[["Projection", Frames, Any], None]

_UPDATE_END = b"}}"
_CHUNK_END = b"}}}}"


class Projection:
    """One session's events as frames. ``max_frame_bytes`` counts the line feed; at least 4 KiB."""

    __slots__ = ("_chunk_head", "_chunk_id", "_chunk_kind", "_head", "_room", "_writers")

    def __init__(
        self,
        session_id: SessionId,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        advertised: Advertised = BASELINE,
    ) -> None:
        self._head = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
            + encode(session_id)
            + b',"update":'
        )
        self._room = max_frame_bytes - len(self._head) - updates.UPDATE_OVERHEAD
        self._writers = _writers(advertised)
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
        write = self._writers.get(type(event))
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
        if len(event.text) <= self._room:  # else it is encoded for nothing
            content = [text_block(event.text)]
            encoded = encode({"sessionUpdate": kind, "messageId": event.message_id, "content": content})
            if len(encoded) <= self._room:
                frames.append(self._head + encoded + _UPDATE_END)
                return
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

    def _content_added(self, frames: Frames, event: ev.ToolCallContentAdded) -> None:
        for piece in fit_content(content_to_wire(event.content), self._room):
            self._content(frames, event.tool_call_id, piece)

    def _content(self, frames: Frames, tool_call_id: str, piece: Wire) -> None:
        self._update(
            frames, {"sessionUpdate": "tool_call_content_chunk", "toolCallId": tool_call_id, "content": piece}
        )

    def _compaction_as_notice(self, frames: Frames, event: ev.CompactionUpdate) -> None:
        self._update(frames, updates.notice_to_wire(notice_of(event), self._room))

    def commands(self) -> bytes:
        """The frame that tells which commands there are."""
        frames: Frames = []
        self._update(frames, updates.commands_update_to_wire())
        return frames[0]

    def _update(self, frames: Frames, update: Wire) -> None:
        frames.append(self._head + encode(update) + _UPDATE_END)


def _image_characters(event: ev.UserMessage) -> int:
    """What the images of a prompt take at least, without encoding them to find out."""
    return sum(len(block.data) for block in event.content if isinstance(block, Image))


def _one(to_wire: Callable[[Any, int], Wire]) -> Write:
    """A writer of the one update that an event becomes."""

    def write(projection: Projection, frames: Frames, event: Any) -> None:
        projection._update(frames, to_wire(event, projection._room))

    return write


def _all(to_wire: Callable[[Any, int], Iterable[Wire]]) -> Write:
    """A writer of the updates that an event becomes, in order."""

    def write(projection: Projection, frames: Frames, event: Any) -> None:
        for update in to_wire(event, projection._room):
            projection._update(frames, update)

    return write


_CHUNK_KINDS: Mapping[type, str] = MappingProxyType(
    {ev.AgentMessageChunk: "agent_message_chunk", ev.AgentThoughtChunk: "agent_thought_chunk"}
)

_WRITERS: Mapping[type, Write] = MappingProxyType(
    {
        ev.AgentMessageChunk: Projection._chunk,
        ev.AgentThoughtChunk: Projection._chunk,
        ev.Running: _one(updates.state_to_wire),
        ev.RequiresAction: _one(updates.state_to_wire),
        ev.Idle: _one(updates.idle_to_wire),
        ev.UserMessage: Projection._user_message,
        ev.AgentMessage: Projection._agent_text,
        ev.AgentThought: Projection._agent_text,
        ev.Notice: _one(updates.notice_to_wire),
        ToolCallUpdate: Projection._tool_call,
        ev.ToolCallBegan: _one(updates.began_to_wire),
        ev.ToolCallContentAdded: Projection._content_added,
        ev.TerminalUpdate: _all(terminal_to_wire),
        ev.TerminalOutput: _all(terminal_to_wire),
        ev.PlanUpdate: _one(updates.plan_to_wire),
        ev.UsageUpdate: _one(updates.usage_update_to_wire),
        ev.SessionInfoUpdate: _one(updates.session_info_to_wire),
        ev.CompactionUpdate: Projection._compaction_as_notice,
    }
)


@functools.cache
def _writers(advertised: Advertised) -> Mapping[type, Write]:
    """The writers of what a client that was told this is shown."""
    writers = dict(_WRITERS)
    if advertised.commands:
        writers[ev.Idle] = _all(updates.opened_to_wire)
    if advertised.options:
        writers[ev.OptionsUpdate] = _one(updates.options_update_to_wire)
    if advertised.compaction:
        writers[ev.CompactionUpdate] = _all(updates.compaction_to_wire)
    return writers
