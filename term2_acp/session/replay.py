"""A journal shown again: whole messages, whole tool calls, with their original ids.

Events come in, in the order of the journal, and what can be shown comes out, in the order in which each
thing first appeared. Memory is bounded by what is open at one time: a message ends where the next thing
begins, a tool call and a compaction at their final status, a terminal at its exit status, and everything at
the idle of its turn. A terminal is shown as one snapshot; what may be shown of one is bounded where it is
made. Each usage replaces the one before it, so only the last is shown, at the end. Idles, and what turns took
with them, are not shown again: whoever adds turns up would count them twice.

Nothing stays open: a call that never settled is shown failed, with the word ``outcome_unknown``, a compaction
that never ended is shown failed, and a turn without an idle is followed by a sentence that says it was
interrupted. None of these is written back.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import attrs
from attrs import define, field

from term2_acp.domain import events as ev
from term2_acp.domain.content import Text, ToolContent
from term2_acp.domain.ids import CompactionId, MessageId, TerminalId, ToolCallId
from term2_acp.domain.toolcall import Effect, ToolCallUpdate, ToolStatus

INTERRUPTED = "term2 stopped during this turn; what came after this point is lost."
UNKNOWN = "outcome_unknown: term2 stopped before the end of this call was recorded."
NOT_COMPACTED = "term2 stopped before this compaction ended, so the conversation was not compacted."


@define(eq=False)
class _Message:
    kind: type[ev.AgentMessage] | type[ev.AgentThought]
    message_id: MessageId
    parts: list[str]
    complete: bool = False

    def whole(self) -> ev.Event:
        return self.kind(self.message_id, "".join(self.parts))


@define(eq=False)
class _Call:
    shown: ToolCallUpdate
    content: list[ToolContent] = field(factory=list)
    complete: bool = False

    def update(self, event: ToolCallUpdate) -> None:
        if event.content is not None:
            self.content = list(event.content)
        given = attrs.asdict(event, recurse=False, filter=lambda _, value: value is not None)
        self.shown = attrs.evolve(self.shown, **given)
        self.complete = self.shown.status is not None and self.shown.status.final

    def whole(self) -> ev.Event:
        if self.complete:
            return attrs.evolve(self.shown, content=tuple(self.content) or None)
        return attrs.evolve(
            self.shown,
            status=ToolStatus.FAILED,
            content=(Text(UNKNOWN),),
            raw_output={"error": UNKNOWN, "effect": Effect.OUTCOME_UNKNOWN.value},
        )


@define(eq=False)
class _Terminal:
    """A command's terminal, shown again as one snapshot. One that never ended did so with term2."""

    shown: ev.TerminalUpdate
    parts: list[bytes] = field(factory=list)

    @property
    def complete(self) -> bool:
        return self.shown.exit_status is not None

    def update(self, event: ev.TerminalUpdate) -> None:
        if event.output is not None:
            self.parts = [event.output]
        given = attrs.asdict(event, recurse=False, filter=lambda _, value: value is not None)
        self.shown = attrs.evolve(self.shown, **given)

    def whole(self) -> ev.Event:
        ended = self.shown.exit_status or ev.ExitStatus()
        return attrs.evolve(self.shown, output=b"".join(self.parts), exit_status=ended)


@define(eq=False)
class _Compaction:
    shown: ev.CompactionUpdate

    @property
    def complete(self) -> bool:
        return self.shown.status is not ev.CompactionStatus.IN_PROGRESS

    def whole(self) -> ev.Event:
        if self.complete:
            return self.shown
        return attrs.evolve(self.shown, status=ev.CompactionStatus.FAILED, error=NOT_COMPACTED)


_Open = _Message | _Call | _Terminal | _Compaction


class Replay:
    """The fold. ``feed`` takes events as they are read; ``end`` closes what the journal left open."""

    def __init__(self) -> None:
        self._line: deque[_Open | ev.Event] = deque()
        self._calls: dict[ToolCallId, _Call] = {}
        self._terminals: dict[TerminalId, _Terminal] = {}
        self._compactions: dict[CompactionId, _Compaction] = {}
        self._ended: set[ToolCallId] = set()
        self._in_turn: MessageId | None = None
        self._usage: ev.UsageUpdate | None = None

    def feed(self, events: Sequence[ev.Event]) -> list[ev.Event]:
        """Take events of the journal; return what can be shown now."""
        shown: list[ev.Event] = []
        for event in events:
            self._take(event, shown)
        shown += self._settled()
        return shown

    def end(self) -> list[ev.Event]:
        """The journal ends here."""
        shown = self._close_turn()
        return shown if self._usage is None else [*shown, self._usage]

    def _take(self, event: ev.Event, shown: list[ev.Event]) -> None:
        if isinstance(event, ev.AgentMessageChunk):
            self._text(ev.AgentMessage, event)
        elif isinstance(event, ev.AgentThoughtChunk):
            self._text(ev.AgentThought, event)
        elif isinstance(event, ToolCallUpdate):
            self._call(event)
        elif isinstance(event, ev.ToolCallContentAdded):
            call = self._calls.get(event.tool_call_id)
            if call is not None:
                call.content.append(event.content)
        elif isinstance(event, ev.TerminalUpdate):
            self._terminal(event)
        elif isinstance(event, ev.TerminalOutput):
            terminal = self._terminals.get(event.terminal_id)
            if terminal is not None and not terminal.complete:
                terminal.parts.append(event.data)
        elif isinstance(event, ev.Idle):
            self._in_turn = None
            shown += self._close_turn()
        elif isinstance(event, ev.UserMessage):
            shown += self._close_turn()
            self._in_turn = event.message_id
            self._line.append(event)
        else:
            self._other(event)

    def _other(self, event: ev.Event) -> None:
        if isinstance(event, ev.UsageUpdate):
            self._usage = event
        elif isinstance(event, ev.CompactionUpdate):
            self._compaction(event)
        elif type(event) not in ev.KEPT_ONLY and type(event) not in ev.NEVER_KEPT:
            self._end_message()
            self._line.append(event)

    def _text(
        self,
        kind: type[ev.AgentMessage] | type[ev.AgentThought],
        event: ev.AgentMessageChunk | ev.AgentThoughtChunk,
    ) -> None:
        last = self._line[-1] if self._line else None
        if isinstance(last, _Message) and last.kind is kind and last.message_id == event.message_id:
            last.parts.append(event.text)
            return
        self._end_message()
        self._line.append(_Message(kind, event.message_id, [event.text]))

    def _call(self, event: ToolCallUpdate) -> None:
        if event.tool_call_id in self._ended:
            return  # a final status is final, whatever a damaged journal says after it
        call = self._calls.get(event.tool_call_id)
        if call is None:
            if event.name is None:
                return  # its announcement is lost with a damaged row: nobody could be told what it was
            self._end_message()
            call = self._calls[event.tool_call_id] = _Call(ToolCallUpdate(event.tool_call_id))
            self._line.append(call)
        call.update(event)
        if call.complete:
            self._ended.add(event.tool_call_id)

    def _terminal(self, event: ev.TerminalUpdate) -> None:
        terminal = self._terminals.get(event.terminal_id)
        if terminal is None:
            if event.command is None:
                return  # its beginning is lost with a damaged row
            self._end_message()
            terminal = self._terminals[event.terminal_id] = _Terminal(ev.TerminalUpdate(event.terminal_id))
            self._line.append(terminal)
        if not terminal.complete:
            terminal.update(event)

    def _compaction(self, event: ev.CompactionUpdate) -> None:
        compaction = self._compactions.get(event.compaction_id)
        if compaction is None:
            self._end_message()
            compaction = self._compactions[event.compaction_id] = _Compaction(event)
            self._line.append(compaction)
        elif not compaction.complete:
            compaction.shown = event

    def _end_message(self) -> None:
        if self._line and isinstance(self._line[-1], _Message):
            self._line[-1].complete = True

    def _settled(self) -> Iterator[ev.Event]:
        """What stands at the head of the line and can change no more."""
        while self._line:
            head = self._line[0]
            if isinstance(head, _Open):
                if not head.complete:
                    return
                self._forget(head)
                yield head.whole()
            else:
                yield head
            self._line.popleft()

    def _close_turn(self) -> list[ev.Event]:
        shown: list[ev.Event] = []
        while self._line:
            head = self._line.popleft()
            if isinstance(head, _Open):
                self._forget(head)
                shown.append(head.whole())
            else:
                shown.append(head)
        self._calls.clear()
        self._terminals.clear()
        self._compactions.clear()
        self._ended.clear()
        if self._in_turn is not None:
            # An id of its own that is the same at every replay.
            message_id = MessageId(f"{self._in_turn}_interrupted")
            shown.append(ev.AgentMessage(message_id, INTERRUPTED, spoken_by_model=False))
            self._in_turn = None
        return shown

    def _forget(self, head: _Open) -> None:
        if isinstance(head, _Call):
            self._calls.pop(head.shown.tool_call_id, None)
