"""Events to ``session/update`` notifications of ACP v1: whole encoded lines, without their line feeds.

Unlike v2's events, v1's updates have no turns: what is said of one begins with its ``Running`` (or with the
beginning of a replay) and ends with its ``Idle``, and nothing is remembered beyond. Rules:

- Chunks of text are the hot path of the product; they are a beginning that is remembered, the encoded text
  and a constant end. A whole message is a chunk of its own id, or several when it is longer than a frame.
- Many clients run the messages of the agent together, whatever their ids. So one that directly follows
  another begins with an empty line.
- What the person wrote is shown in a replay only: a client shows what it sends. Why a turn failed is told by
  the answer to its prompt, and so the sentence that says the same just before the idle is not shown live.
- A live call is announced at once, pending, as a person expects it to begin. After that calls are told once
  for all that changed of them in a group of events (``calls``), at the end of the group, or before what
  stands after them in the conversation: messages, thoughts and compactions.
- Notices and compactions are for clients that know them. A notice is a message of its own for the others,
  and that a compaction begins is a notice.

Events that are only kept, and the states of a turn, have no words in v1 and give nothing. What is small is in
``updates``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from attrs import evolve

from term2_acp.acp.fit import MAX_FRAME_BYTES, encode, encode_text, split_text, whole_characters
from term2_acp.acp.shown import Wire, fit_block, notice_of, text_block
from term2_acp.acp.v1 import updates
from term2_acp.acp.v1.calls import Calls
from term2_acp.acp.v1.capabilities import ClientFeatures
from term2_acp.domain import events as ev
from term2_acp.domain.ids import SessionId
from term2_acp.domain.toolcall import ToolCallUpdate, ToolStatus

Frames = list[bytes]
Write = Callable[["Projection", Frames, Any], None]

_UPDATE_END = b"}}"
_CHUNK_END = b"}}}}"

# What stands between two messages of the agent that follow one another.
_EMPTY_LINE = "\n\n"


class Projection:
    """One session's events as frames, from the ``Running`` of a turn to its idle, or a whole replay.

    ``cwd`` is the session's working directory, where its commands run. ``max_frame_bytes`` counts the line
    feed; it is at least 4 KiB.
    """

    __slots__ = (
        "_calls",
        "_chunk_head",
        "_chunk_id",
        "_chunk_kind",
        "_compacting",
        "_features",
        "_head",
        "_live",
        "_room",
        "_speaks",
    )

    def __init__(
        self,
        session_id: SessionId,
        cwd: str,
        features: ClientFeatures,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self._head = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
            + encode(session_id)
            + b',"update":'
        )
        self._room = max_frame_bytes - len(self._head) - updates.UPDATE_OVERHEAD
        self._features = features
        self._calls = Calls(whole_characters(cwd), features)
        self._compacting: ev.CompactionUpdate | None = None  # the one that the client sees under way
        self._live = False
        self._speaks = ""  # the id of the agent's message that the client shows last; empty for none
        self._chunk_kind: type | None = None
        self._chunk_id = ""
        self._chunk_head = b""

    def write_to(self, frames: Frames, events: Sequence[ev.Event]) -> None:
        """Append the frames of a group of events. Never raises."""
        calls = self._calls
        for place, event in enumerate(events):
            chunk: Any = event
            if type(event) is self._chunk_kind and chunk.message_id == self._chunk_id and not calls.changed:
                # The hot path, without another call: more of the message that was last spoken of.
                try:
                    encoded = encode_text(chunk.text)
                except UnicodeEncodeError:
                    encoded = b""
                if encoded and len(encoded) <= self._room:
                    frames.append(self._chunk_head + encoded + _CHUNK_END)
                    continue
            write = _WRITERS.get(type(event))
            if write is not None and not (self._live and _says_why(events, place)):
                write(self, frames, event)
        self._tell_calls(frames)

    def break_off(self, frames: Frames) -> None:
        """Append the ends of what the client sees under way: the session has ended before its turn did.

        The words are those of a replay, which finds the same things open in the journal.
        """
        from term2_acp.agent.told import OUTCOME_UNKNOWN  # with the first session, and so is the next
        from term2_acp.session.outcome import NOT_RUN
        from term2_acp.session.recovery import NOT_COMPACTED

        self._calls.break_off(NOT_RUN, OUTCOME_UNKNOWN)
        self._tell_calls(frames)
        if self._compacting is not None:
            failed = ev.CompactionStatus.FAILED
            self._compaction(frames, evolve(self._compacting, status=failed, error=NOT_COMPACTED))

    # -- the turn --------------------------------------------------------------------------------------

    def _running(self, frames: Frames, event: ev.Running) -> None:
        self._live = True

    def _idle(self, frames: Frames, event: ev.Idle) -> None:
        self._forget(frames)
        self._live = False

    def _forget(self, frames: Frames) -> None:
        """A turn has ended, or another one begins in a replay, which shows no idles."""
        self._tell_calls(frames)
        self._calls.clear()
        self._end_speech()

    def _end_speech(self) -> None:
        """Something else stands in the conversation now."""
        self._speaks = ""
        self._chunk_kind = None

    # -- text ------------------------------------------------------------------------------------------

    def _chunk(self, frames: Frames, event: ev.AgentMessageChunk | ev.AgentThoughtChunk) -> None:
        self._text(frames, type(event), event.message_id, event.text)

    def _whole(self, frames: Frames, event: ev.AgentMessage | ev.AgentThought) -> None:
        kind = ev.AgentMessageChunk if isinstance(event, ev.AgentMessage) else ev.AgentThoughtChunk
        if event.text:
            self._text(frames, kind, event.message_id, event.text)

    def _text(self, frames: Frames, kind: type, message_id: str, text: str) -> None:
        self._tell_calls(frames)
        spoken = message_id if kind is ev.AgentMessageChunk else ""
        if spoken and self._speaks and self._speaks != spoken:
            text = _EMPTY_LINE + text
        self._speaks = spoken
        if message_id != self._chunk_id or kind is not self._chunk_kind:
            self._chunk_kind = kind
            self._chunk_id = message_id
            update = {"sessionUpdate": _CHUNK_KINDS[kind], "messageId": message_id, "content": text_block("")}
            self._chunk_head = self._head + encode(update).removesuffix(b'""}}')
        encoded = encode(text)
        if len(encoded) <= self._room:
            frames.append(self._chunk_head + encoded + _CHUNK_END)
            return
        for piece in split_text(whole_characters(text), self._room):
            frames.append(self._chunk_head + encode(piece) + _CHUNK_END)

    def _user_message(self, frames: Frames, event: ev.UserMessage) -> None:
        self._forget(frames)
        if self._live:
            return
        # Put together rather than encoded again: a block may be megabytes.
        update = encode({"sessionUpdate": "user_message_chunk", "messageId": event.message_id})
        head = self._head + update.removesuffix(b"}") + b',"content":'
        for block in event.content:
            for encoded in fit_block(block, self._room):
                frames.append(head + encoded + b"}" + _UPDATE_END)

    def _notice(self, frames: Frames, event: ev.Notice) -> None:
        if self._features.notices:
            self._write_all(frames, updates.notice_to_wire(event, self._room))
        elif event.text.strip():
            self._text(frames, ev.AgentMessageChunk, event.message_id, event.text)

    def _compaction(self, frames: Frames, event: ev.CompactionUpdate) -> None:
        if self._features.compaction:
            self._compacting = event if event.status is ev.CompactionStatus.IN_PROGRESS else None
            self._tell_calls(frames)
            self._write_all(frames, updates.compaction_to_wire(event, self._room))
            self._end_speech()
        else:
            self._notice(frames, notice_of(event))

    # -- tool calls ------------------------------------------------------------------------------------

    def _tool_call(self, frames: Frames, event: ToolCallUpdate) -> None:
        self._calls.update(event)
        if self._live and event.status is ToolStatus.PENDING:
            self._tell_calls(frames)

    def _tool_call_began(self, frames: Frames, event: ev.ToolCallBegan) -> None:
        self._calls.begin(event.tool_call_id)

    def _content_added(self, frames: Frames, event: ev.ToolCallContentAdded) -> None:
        self._calls.add(event.tool_call_id, event.content)

    def _terminal(self, frames: Frames, event: ev.TerminalUpdate | ev.TerminalOutput) -> None:
        self._calls.see(event)

    def _tell_calls(self, frames: Frames) -> None:
        if self._calls.changed:
            shown = self._calls.shown
            for encoded in self._calls.take(self._room):
                frames.append(self._head + encoded + _UPDATE_END)
            if self._calls.shown > shown:  # a call that changes stays where it stands
                self._end_speech()

    def _write_all(self, frames: Frames, wire: Iterable[Wire]) -> None:
        for update in wire:
            frames.append(self._head + encode(update) + _UPDATE_END)


def _says_why(events: Sequence[ev.Event], place: int) -> bool:
    """Whether the event is the sentence of a failure, which the answer to the prompt says too.

    The two stand side by side in one group: whoever ends a turn says both at once.
    """
    event = events[place]
    if not isinstance(event, ev.AgentMessage) or event.spoken_by_model or place + 1 == len(events):
        return False
    idle = events[place + 1]
    return isinstance(idle, ev.Idle) and idle.failure is not None and idle.failure.message == event.text


def _all(to_wire: Callable[[Any, int], Iterable[Wire]]) -> Write:
    """A writer of the updates that an event becomes by itself."""

    def write(projection: Projection, frames: Frames, event: Any) -> None:
        projection._write_all(frames, to_wire(event, projection._room))

    return write


_CHUNK_KINDS: Mapping[type, str] = MappingProxyType(
    {ev.AgentMessageChunk: "agent_message_chunk", ev.AgentThoughtChunk: "agent_thought_chunk"}
)

_WRITERS: Mapping[type, Write] = MappingProxyType(
    {
        ev.AgentMessageChunk: Projection._chunk,
        ev.AgentThoughtChunk: Projection._chunk,
        ev.Running: Projection._running,
        ev.Idle: Projection._idle,
        ev.UserMessage: Projection._user_message,
        ev.AgentMessage: Projection._whole,
        ev.AgentThought: Projection._whole,
        ev.Notice: Projection._notice,
        ToolCallUpdate: Projection._tool_call,
        ev.ToolCallBegan: Projection._tool_call_began,
        ev.ToolCallContentAdded: Projection._content_added,
        ev.TerminalUpdate: Projection._terminal,
        ev.TerminalOutput: Projection._terminal,
        ev.CompactionUpdate: Projection._compaction,
        ev.PlanUpdate: _all(updates.plan_to_wire),
        ev.UsageUpdate: _all(updates.usage_update_to_wire),
        ev.SessionInfoUpdate: _all(updates.session_info_to_wire),
        ev.OptionsUpdate: _all(updates.options_update_to_wire),
    }
)
