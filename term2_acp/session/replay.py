"""A journal shown again: whole messages, whole tool calls, with their original ids.

Events come in, in the order of the journal, and what can be shown comes out, in the order in which each
thing first appeared. Memory is bounded by what is open at one time: a message ends where the next thing
begins, a tool call and a compaction at their final status, a terminal at its exit status, and everything at
the idle of its turn. A terminal is shown as one snapshot; what may be shown of one is bounded where it is
made. Each usage replaces the one before it, so only the last is shown, at the end. Idles, and what turns took
with them, are not shown again: whoever adds turns up would count them twice.

Nothing stays open: what a turn that was cut off left so ends as ``recovery`` says, whether or not the journal
has that already.

Where records could not be read, one sentence says so in their place, for neighbours together. A message that
goes on behind them stays one, with a mark where the gap is.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from term2_acp.domain import events as ev
from term2_acp.domain.ids import CompactionId, TerminalId, ToolCallId
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.session.recovery import Recovery
from term2_acp.session.unfinished import OPEN, Call, Compaction, Loss, Message, Open, Terminal


class Replay:
    """The fold. ``feed`` takes events as they are read; ``end`` closes what the journal left open.

    ``told``: what ends turns that were cut off is among the events already (``Recovery.told``).
    """

    def __init__(self, *, told: bool = False) -> None:
        self._line: deque[Open | ev.Event] = deque()
        self._calls: dict[ToolCallId, Call] = {}
        self._terminals: dict[TerminalId, Terminal] = {}
        self._compactions: dict[CompactionId, Compaction] = {}
        self._ended: set[ToolCallId] = set()
        self._message: Message | None = None  # the one that may go on
        self._loss: Loss | None = None  # what was read last, if it was one
        self._usage: ev.UsageUpdate | None = None
        self._recovery = None if told else Recovery()

    def feed(self, events: Sequence[ev.Event]) -> list[ev.Event]:
        """Take events of the journal; return what can be shown now."""
        shown: list[ev.Event] = []
        for event in events if self._recovery is None else self._recovery.told(events):
            self._take(event, shown)
        shown += self._settled()
        return shown

    def end(self, *, goes_on: bool = False) -> list[ev.Event]:
        """The journal ends here. ``goes_on``: a turn that has no end yet is not over, and is shown so."""
        shown: list[ev.Event] = []
        for event in () if goes_on or self._recovery is None else self._recovery.closing():
            self._take(event, shown)
        shown += self._close_turn()
        return shown if self._usage is None else [*shown, self._usage]

    def _take(self, event: ev.Event, shown: list[ev.Event]) -> None:
        if self._loss is not None and type(event) is not ev.RecordsLost:
            self._loss.complete, self._loss = True, None
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event)
        elif type(event) is ev.Idle:
            shown += self._close_turn()
        elif type(event) is ev.UserMessage:
            shown += self._close_turn()
            self._line.append(event)

    def _as_it_is(self, event: ev.Event) -> None:
        self._end_message()
        self._line.append(event)

    def _use(self, event: ev.UsageUpdate) -> None:
        self._usage = event

    def _speak(self, event: ev.AgentMessageChunk) -> None:
        self._text(ev.AgentMessage, event)

    def _think(self, event: ev.AgentThoughtChunk) -> None:
        self._text(ev.AgentThought, event)

    def _text(
        self,
        kind: type[ev.AgentMessage] | type[ev.AgentThought],
        event: ev.AgentMessageChunk | ev.AgentThoughtChunk,
    ) -> None:
        last = self._message
        if last is not None and last.kind is kind and last.message_id == event.message_id:
            last.add(event.text)
            return
        self._end_message()
        self._message = Message(kind, event.message_id, [event.text])
        self._line.append(self._message)

    def _call(self, event: ToolCallUpdate) -> None:
        if event.tool_call_id in self._ended:
            return  # a final status is final, whatever a damaged journal says after it
        call = self._calls.get(event.tool_call_id)
        if call is None:
            if event.name is None:
                return  # its announcement is lost with a damaged row: nobody could be told what it was
            self._end_message()
            call = self._calls[event.tool_call_id] = Call(event, list(event.content or ()))
            self._line.append(call)
        else:
            call.update(event)
        if call.complete:
            self._ended.add(event.tool_call_id)

    def _content(self, event: ev.ToolCallContentAdded) -> None:
        call = self._calls.get(event.tool_call_id)
        if call is not None and not call.complete:
            call.content.append(event.content)

    def _terminal(self, event: ev.TerminalUpdate) -> None:
        terminal = self._terminals.get(event.terminal_id)
        if terminal is None:
            if event.command is None:
                return  # its beginning is lost with a damaged row
            self._end_message()
            parts = [] if event.output is None else [event.output]
            terminal = self._terminals[event.terminal_id] = Terminal(event, parts)
            self._line.append(terminal)
        elif not terminal.complete:
            terminal.update(event)

    def _output(self, event: ev.TerminalOutput) -> None:
        terminal = self._terminals.get(event.terminal_id)
        if terminal is not None and not terminal.complete:
            terminal.parts.append(event.data)

    def _compaction(self, event: ev.CompactionUpdate) -> None:
        compaction = self._compactions.get(event.compaction_id)
        if compaction is None:
            self._end_message()
            compaction = self._compactions[event.compaction_id] = Compaction(event)
            self._line.append(compaction)
        elif not compaction.complete:
            compaction.shown = event

    def _lost(self, event: ev.RecordsLost) -> None:
        if self._loss is not None:
            self._loss.add(event)
            return
        if self._message is not None:
            self._message.torn = True
        self._loss = Loss(event)
        self._line.append(self._loss)

    def _end_message(self) -> None:
        if self._message is not None:
            self._message.complete, self._message = True, None

    def _settled(self) -> Iterator[ev.Event]:
        """What stands at the head of the line and can change no more."""
        while self._line:
            head = self._line[0]
            if isinstance(head, OPEN):
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
            if isinstance(head, OPEN):
                self._forget(head)
                shown.append(head.whole())
            else:
                shown.append(head)
        self._message = self._loss = None
        for memory in (self._calls, self._terminals, self._compactions, self._ended):
            memory.clear()
        return shown

    def _forget(self, head: Open) -> None:
        if isinstance(head, Call):
            self._calls.pop(head.shown.tool_call_id, None)


# Kinds that are not here, and that do not bound turns, are for others than the person.
_FOLDS: Mapping[type, Callable[[Replay, Any], None]] = {
    ev.AgentMessageChunk: Replay._speak,
    ev.AgentThoughtChunk: Replay._think,
    ToolCallUpdate: Replay._call,
    ev.ToolCallContentAdded: Replay._content,
    ev.TerminalUpdate: Replay._terminal,
    ev.TerminalOutput: Replay._output,
    ev.UsageUpdate: Replay._use,
    ev.CompactionUpdate: Replay._compaction,
    ev.RecordsLost: Replay._lost,
    **dict.fromkeys(
        (ev.AgentMessage, ev.AgentThought, ev.PlanUpdate, ev.SessionInfoUpdate), Replay._as_it_is
    ),
}
