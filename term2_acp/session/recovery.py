"""What closes a turn that was cut off: one fold over a journal, for everyone who reads one. Pure.

A process that dies leaves its last turn open: calls that never settled, terminals and compactions without an
end, no idle. ``Recovery`` sees every event in order and says what ends all of that, by these rules:

- A call that was dispatched and never settled may have had its effect: ``outcome_unknown``. One that was not
  dispatched had none: the journal has the dispatch before the effect. (Of a call that only reads it has that
  with the end, but such a call has no effect.)
- Where records of the turn are lost, the dispatch may be among them, and so may the settlement: whatever is
  not settled is unknown.
- A dispatched call that was to change files and nothing else is settled by what they hold now: all as it was
  to leave them, it was made; all as they were before, it had no effect; anything else is unknown, and it is
  said which file is how, and where what it held before was put aside.
- Of a program whose outcome is unknown it is said which calls it had made that may have changed something.
- The terminals of a call stay in it: what a command had written was seen, and tells how far it came.
- The first settlement of a call stands. Nothing is ever run again.
- A turn has one idle. One that has none gets it, behind a sentence with an id of its own that is the same at
  every reading.

Who owns the session writes that to the end of its journal when it is opened (``reading``). Who does not own
it comes to the same by the same fold, without looking at a file. A turn that is not the last can be without
an end as well: the disk was full, or an older term2 did not write one. Nothing can be written in the midst of
a journal, so ``see`` says what stands there at every reading.

Only what is open is remembered, and the ids of the calls and terminals of one turn.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import field

from term2_acp.agent.told import LOOK_FIRST, UNKNOWN
from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.content import Terminal, Text, ToolContent
from term2_acp.domain.ids import CompactionId, MessageId, TerminalId, ToolCallId
from term2_acp.domain.toolcall import Effect, FileDigests, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.session.outcome import (
    MADE,
    NAMED,
    NOBODY_LOOKED,
    NOT_MADE,
    NOT_RUN,
    RESULT_LOST,
    UNREAD,
    Files,
    effect_of,
    states,
)

INTERRUPTED = "term2 stopped during this turn; what came after this point is lost."
UNREADABLE = "The end of this turn could not be read; term2 may have stopped during it."
NOT_COMPACTED = "term2 stopped before this compaction ended, so the conversation was not compacted."

_ONLY_READ = frozenset({ToolKind.READ, ToolKind.SEARCH, ToolKind.THINK})


@define(eq=False)
class _Call:
    """A call that is not over. ``shown``: the client knows it; ``status`` is the final one that it knows."""

    tool_call_id: ToolCallId
    parent: ToolCallId | None = None
    title: str = ""
    only_reads: bool = False
    shown: bool = False
    status: ToolStatus | None = None
    terminals: tuple[Terminal, ...] = ()  # their places in what is shown of it
    dispatched: bool = False
    changes: tuple[FileDigests, ...] = ()
    settled: ev.ToolCallSettled | None = None
    of_program: list[str] = field(factory=list)  # the calls of its program that are settled, in words

    @property
    def over(self) -> bool:
        return self.settled is not None and self.status is not None


class Recovery:
    """See the module. ``see`` takes each event of a journal; ``closing`` ends what is open after the last."""

    def __init__(self) -> None:
        self._turn: MessageId | None = None  # whose idle has not come
        self._lost = False  # records of it are
        self._calls: dict[ToolCallId, _Call] = {}
        self._over: set[ToolCallId] = set()
        self._terminals: dict[TerminalId, bool] = {}  # those that were shown; whether they go on
        self._compactions: dict[CompactionId, None] = {}

    def told(self, events: Iterable[ev.Event]) -> list[ev.Event]:
        """Take the next events: they, each behind what stands before it."""
        told: list[ev.Event] = []
        for event in events:
            fold = _FOLDS.get(type(event))
            if fold is not None:
                told += fold(self, event) or ()
            told.append(event)
        return told

    def see(self, event: ev.Event) -> Sequence[ev.Event]:
        """Take the next event; what stands before it, mostly nothing.

        A prompt ends a turn that has no idle, and an idle whatever its turn left open.
        """
        fold = _FOLDS.get(type(event))
        return () if fold is None else fold(self, event) or ()

    def open_changes(self) -> Sequence[tuple[ToolCallId, tuple[FileDigests, ...]]]:
        """The calls that the files they were to change can settle, with these files."""
        return [
            (call.tool_call_id, call.changes)
            for call in self._calls.values()
            if call.changes and call.settled is None
        ]

    def closing(self, found: Files = NOBODY_LOOKED) -> list[ev.Event]:
        """What ends all that is open, in order; nothing where nothing is.

        This changes nothing: whoever takes these events to the journal has them seen too.
        """
        events = self._ends(found)
        if self._turn is not None:
            sentence = UNREADABLE if self._lost else INTERRUPTED
            said = ev.AgentMessage(MessageId(f"{self._turn}_interrupted"), sentence, spoken_by_model=False)
            events += [said, ev.Idle(StopReason.ERROR, Failure("interrupted", sentence))]
        return events

    def _ends(self, found: Files) -> list[ev.Event]:
        events: list[ev.Event] = [
            ev.TerminalUpdate(one, exit_status=ev.ExitStatus())
            for one, goes_on in self._terminals.items()
            if goes_on
        ]
        for call in self._calls.values():
            events += self._end_of(call, found)
        failed = ev.CompactionStatus.FAILED
        events += [ev.CompactionUpdate(one, failed, error=NOT_COMPACTED) for one in self._compactions]
        return events

    def _end_of(self, call: _Call, found: Files) -> Iterator[ev.Event]:
        settled = call.settled
        if settled is None:
            effect, words = self._judged(call, found)
            settled = ev.ToolCallSettled(
                call.tool_call_id, effect, words, failed=effect is not Effect.COMMITTED
            )
            yield settled
        if call.shown and call.status is None:
            # A place whose terminal was never shown would stay empty.
            yield _last_update(settled, [one for one in call.terminals if one.terminal_id in self._terminals])

    def _judged(self, call: _Call, found: Files) -> tuple[Effect, str]:
        """What became of a call that never settled, and the words for it."""
        effect = _effect(call, found, lost=self._lost)
        if call.status is ToolStatus.COMPLETED:
            return effect, RESULT_LOST
        if not call.dispatched:
            return effect, NOT_RUN if effect is Effect.FAILED else f"{UNREAD} {LOOK_FIRST}"
        if effect is not Effect.OUTCOME_UNKNOWN:
            return effect, MADE if effect is Effect.COMMITTED else NOT_MADE
        made = [*call.of_program]
        for other in self._calls.values():
            if other.parent == call.tool_call_id and other.settled is None:
                made += _in_words(other, _effect(other, found, lost=self._lost))
        known = [*states(call.changes, found), *_of_program(made)]
        return effect, " ".join([UNREAD if self._lost else UNKNOWN, *known, LOOK_FIRST])

    # -- the fold ----------------------------------------------------------------------------------

    def _on_user_message(self, event: ev.UserMessage) -> Sequence[ev.Event]:
        closing = self.closing()
        self._begin(event.message_id)
        return closing

    def _on_idle(self, event: ev.Idle) -> Sequence[ev.Event]:
        del event
        ends = self._ends(NOBODY_LOOKED)
        self._begin(None)
        return ends

    def _begin(self, turn: MessageId | None) -> None:
        self._turn = turn
        self._lost = False
        for memory in (self._calls, self._over, self._terminals, self._compactions):
            memory.clear()

    def _on_lost(self, event: ev.RecordsLost) -> None:
        del event
        self._lost = True

    def _on_prepared(self, event: ev.ToolCallPrepared) -> None:
        call = self._call(event.tool_call_id)
        if call is not None:
            call.parent, call.title = event.parent, event.name

    def _on_dispatched(self, event: ev.ToolCallDispatched) -> None:
        call = self._call(event.tool_call_id)
        if call is not None:
            call.dispatched, call.changes = True, event.changes

    def _on_settled(self, event: ev.ToolCallSettled) -> None:
        call = self._call(event.tool_call_id)
        if call is not None and call.settled is None:
            call.settled = event
            program = None if call.parent is None else self._calls.get(call.parent)
            if program is not None:
                program.of_program += _in_words(call, event.effect)
            self._forget_if_over(call)

    def _on_update(self, event: ToolCallUpdate) -> None:
        if event.name is not None:
            announced = self._call(event.tool_call_id)
            if announced is not None:
                announced.shown = True
                announced.title = event.title or announced.title
                announced.only_reads = event.kind in _ONLY_READ
        call = self._calls.get(event.tool_call_id)
        if call is None or not call.shown:
            return  # its announcement is lost, and the client does not know it
        if event.content is not None:
            call.terminals = tuple(one for one in event.content if isinstance(one, Terminal))
        if call.status is None and event.status is not None and event.status.final:
            call.status = event.status
            self._forget_if_over(call)

    def _on_terminal(self, event: ev.TerminalUpdate) -> None:
        if event.exit_status is not None:
            if event.terminal_id in self._terminals:
                self._terminals[event.terminal_id] = False
        elif event.command is not None:
            self._terminals[event.terminal_id] = True

    def _on_compaction(self, event: ev.CompactionUpdate) -> None:
        if event.status is ev.CompactionStatus.IN_PROGRESS:
            self._compactions[event.compaction_id] = None
        else:
            self._compactions.pop(event.compaction_id, None)

    def _call(self, call_id: ToolCallId) -> _Call | None:
        """The call; None when it is over, and nothing that is read changes it."""
        if call_id in self._over:
            return None
        return self._calls.setdefault(call_id, _Call(call_id))

    def _forget_if_over(self, call: _Call) -> None:
        if call.over:
            del self._calls[call.tool_call_id]
            self._over.add(call.tool_call_id)


def _effect(call: _Call, found: Files, *, lost: bool) -> Effect:
    """What became of a call that never settled, by its own records: whose program made it is no matter."""
    if call.status is ToolStatus.COMPLETED:
        return Effect.COMMITTED
    if not call.dispatched:
        return Effect.OUTCOME_UNKNOWN if lost else Effect.FAILED
    return effect_of(call.changes, found.hold)


def _of_program(made: Sequence[str]) -> Iterator[str]:
    """The calls that a program had made, in a sentence."""
    if made:
        more = f", and {len(made) - NAMED:,} more" if len(made) > NAMED else ""
        yield f"Its program had made these calls: {', '.join(made[:NAMED])}{more}."


def _in_words(call: _Call, effect: Effect) -> Iterator[str]:
    """A call of a program, where it may have had an effect."""
    if effect is not Effect.FAILED and not call.only_reads:
        yield f"{call.title} ({effect.value})"


def _last_update(settled: ev.ToolCallSettled, terminals: Sequence[ToolContent]) -> ToolCallUpdate:
    """The final status of a call, as a person is shown it. What was shown of a change that was made stays.

    Of one that is not known to be made the words stand in its place, behind the terminals.
    """
    if settled.effect is Effect.COMMITTED and not settled.failed:
        note = {"note": settled.result, "effect": settled.effect.value}
        return ToolCallUpdate(settled.tool_call_id, status=ToolStatus.COMPLETED, raw_output=note)
    return ToolCallUpdate(
        settled.tool_call_id,
        status=ToolStatus.FAILED,
        content=(*terminals, Text(settled.result)),
        raw_output={"error": settled.result, "effect": settled.effect.value},
    )


_FOLDS: Mapping[type, Callable[[Recovery, Any], Sequence[ev.Event] | None]] = {
    ev.UserMessage: Recovery._on_user_message,
    ev.Idle: Recovery._on_idle,
    ev.RecordsLost: Recovery._on_lost,
    ev.ToolCallPrepared: Recovery._on_prepared,
    ev.ToolCallDispatched: Recovery._on_dispatched,
    ev.ToolCallSettled: Recovery._on_settled,
    ToolCallUpdate: Recovery._on_update,
    ev.TerminalUpdate: Recovery._on_terminal,
    ev.CompactionUpdate: Recovery._on_compaction,
}
