"""The one table of the open tool calls of a turn, and how each of them ends.

Invariants, held here and nowhere else:

- a call is announced once (pending, with title, name, kind, input and places) and ends once, with a final
  status, a raw output and an effect record;
- the records of a call (``domain.kept``) are written in their order, each once, and whatever ends it: those
  that wait (``Call.unwritten``) go before the next that is written;
- what a tool has done stands: a call whose outcome is known when the turn is cancelled is ``completed``;
- no terminal that was shown outlasts its turn: one that nobody has ended by then ends with no exit known.

Dispatch settles calls as they end. ``settle_all`` ends whatever is still open when the turn's scope has
been left, in the order of the calls, without waiting for anything.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from attrs import field

from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.content import Text, ToolContent
from term2_acp.domain.ids import TerminalId, ToolCallId, new_tool_call_id
from term2_acp.domain.toolcall import Effect, FileDigests, Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.permission.choices import escape_for_person
from term2_acp.providers.base import ToolCallDelta
from term2_acp.tools.base import Description, NestedResult, Outcome, Tool

# Levels of a model's arguments that are shown as JSON; no tool takes as many. What is deeper is shown as the
# text that it is, since every reader of nested values has a depth at which it breaks.
MAX_DEPTH = 64

CANCELLED_RESULT = "The turn was cancelled before this call was run to its end. It had no effect."
NOT_RUN_RESULT = "The turn could not go on, so this call was not run to its end and had no effect."
PROGRAM_ENDED = (
    "The program that made this call ended, or closed its way to the tools, before the call did, so it was "
    "not run. It had no effect."
)
LOST_RESULT = (
    "outcome_unknown: this call did not end as it should while it was at work. It may or may not have had "
    "its effect; look before you repeat it."
)
INTERNAL_RESULT = "This call failed inside term2. It had no effect."


@define(eq=False)
class Call:
    """One call of one reply. ``arguments`` is None when they did not decode; ``fault`` then says why.

    ``parent`` is the call in whose program this one was made. ``stopped`` is how far a call came that was
    cancelled while it worked. ``rest_refused``: the person cancelled a call of its program, so what follows
    it in the reply is not run. ``result`` is what the model is told once the call has ended.

    ``unwritten`` are its records that have not been given to the journal yet. ``dispatched_at`` is when it
    was recorded that it acts, and ``dispatched`` is set when it does.
    """

    tool_call_id: ToolCallId
    made: ToolCallDelta
    tool: Tool | None
    arguments: Any
    description: Description
    fault: str | None = None
    parent: ToolCallId | None = None
    unwritten: list[ev.KeptOnly] = field(factory=list, init=False)
    dispatched_at: float | None = field(default=None, init=False)
    dispatched: bool = field(default=False, init=False)
    outcome: Outcome | None = field(default=None, init=False)
    stopped: Outcome | None = field(default=None, init=False)
    rest_refused: bool = field(default=False, init=False)
    result: NestedResult | None = field(default=None, init=False)

    @property
    def kind(self) -> ToolKind:
        """What the person sees it as."""
        return self.tool.kind if self.tool is not None else ToolKind.OTHER

    @property
    def reads_only(self) -> bool:
        """Whether it may run beside others. A call that cannot run at all only reads."""
        return self.tool is None or self.tool.reads_only

    @functools.cached_property
    def raw_input(self) -> Mapping[str, Any]:
        """The arguments as a JSON object; text that is none is shown as the model wrote it."""
        text = self.made.arguments
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            value = text
        # So few brackets prove that it is not deep; only beyond is it looked through.
        if text.count("{") + text.count("[") > MAX_DEPTH and _deeper(value, MAX_DEPTH):
            value = text
        return value if isinstance(value, dict) else {"arguments": value}

    def shown(
        self,
        status: ToolStatus,
        content: tuple[ToolContent, ...] | None = None,
        locations: tuple[Location, ...] = (),
    ) -> ToolCallUpdate:
        """The call whole, as it is announced and, with what is known by then, as an ask shows it."""
        return ToolCallUpdate(
            self.tool_call_id,
            title=escape_for_person(self.description.title),
            name=self.made.name,
            kind=self.kind,
            status=status,
            content=content,
            locations=locations or self.description.locations,
            raw_input=self.raw_input,
            parent=self.parent,
        )


class OpenCalls:
    """The calls that were announced and have not ended yet, in the order of their announcement.

    ``now`` is the clock, in seconds, by which it is told how long calls took.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._open: dict[ToolCallId, Call] = {}
        self._terminals: dict[TerminalId, None] = {}  # shown and not ended, in their order

    def __len__(self) -> int:
        return len(self._open)

    def is_open(self, call: Call) -> bool:
        """Whether the call has been announced and has not ended."""
        return call.tool_call_id in self._open

    def see_terminal(self, update: ev.TerminalUpdate) -> None:
        """A terminal is shown, or has ended."""
        if update.exit_status is None:
            self._terminals[update.terminal_id] = None
        else:
            self._terminals.pop(update.terminal_id, None)

    def announce(self, call: Call) -> list[ev.Event]:
        """Open the call; the events that show it and keep it."""
        self._open[call.tool_call_id] = call
        made = call.made
        digest = hashlib.sha256(f"{made.name}\0{made.arguments}".encode(errors="surrogatepass")).hexdigest()
        return [
            ev.ToolCallPrepared(
                call.tool_call_id, made.name, made.arguments, made.call_id, digest, call.parent
            ),
            call.shown(ToolStatus.PENDING),
        ]

    def dispatch(self, call: Call, changes: tuple[FileDigests, ...]) -> list[ev.Event]:
        """The call is about to act: its records that are to be journalled before it does.

        ``changes`` are as in ``ToolCallDispatched``. A call that only reads has no effect to tell of after a
        crash, so its records wait for its end, and it for no journal.
        """
        call.dispatched_at = self._now()
        call.unwritten.append(ev.ToolCallDispatched(call.tool_call_id, changes))
        return [] if call.reads_only else _taken(call)

    def complete(self, call: Call, outcome: Outcome) -> list[ev.Event]:
        """The tool did its work, or came as far as a limit let it."""
        status = ToolStatus.FAILED if outcome.failed else ToolStatus.COMPLETED
        return self._end_with(call, status, outcome, Effect.COMMITTED)

    def fail(self, call: Call, reason: str) -> list[ev.Event]:
        """The call did nothing; ``reason`` is for the model and, in place of its content, the person.

        One that was stopped at its work said how far it came, and that is told instead.
        """
        if call.stopped is not None:
            return self._end_with(call, ToolStatus.FAILED, call.stopped, Effect.OUTCOME_UNKNOWN)
        return self._end_without_effect(call, ToolStatus.FAILED, reason)

    def lose(self, call: Call, reason: str = LOST_RESULT) -> list[ev.Event]:
        """Nobody knows how far the call came: its tool broke, did not give way, or says so in ``reason``."""
        return self._end(call, ToolStatus.FAILED, reason, Effect.OUTCOME_UNKNOWN)

    def settle_all(self, failure: str | None, *, at_work: bool = False) -> list[ev.Event]:
        """End every open call: with its outcome if it has one, else failed with ``failure``, or cancelled.

        With ``at_work``, calls that were dispatched did not give way, and their outcome is unknown. Terminals
        that are open end before the calls.
        """
        unended, self._terminals = self._terminals, {}
        events: list[ev.Event] = [ev.TerminalUpdate(one, exit_status=ev.ExitStatus()) for one in unended]
        for call in list(self._open.values()):
            if call.outcome is not None:
                events += self.complete(call, call.outcome)
            elif call.stopped is not None:
                status = ToolStatus.CANCELLED if failure is None else ToolStatus.FAILED
                events += self._end_with(call, status, call.stopped, Effect.OUTCOME_UNKNOWN)
            elif at_work and call.dispatched and not call.reads_only:
                events += self.lose(call)
            elif failure is None:
                events += self._end_without_effect(call, ToolStatus.CANCELLED, CANCELLED_RESULT)
            else:
                events += self.fail(call, f"{NOT_RUN_RESULT} {failure}")
        return events

    def _end_without_effect(self, call: Call, status: ToolStatus, reason: str) -> list[ev.Event]:
        return self._end(call, status, reason, Effect.FAILED)

    def _end(self, call: Call, status: ToolStatus, reason: str, effect: Effect) -> list[ev.Event]:
        outcome = Outcome(reason, (Text(reason),), {"error": reason}, failed=True)
        return self._end_with(call, status, outcome, effect)

    def _end_with(self, call: Call, status: ToolStatus, outcome: Outcome, effect: Effect) -> list[ev.Event]:
        """The one place where a call ends."""
        del self._open[call.tool_call_id]
        failed = status is not ToolStatus.COMPLETED
        call.result = NestedResult(outcome.result, failed)
        at = call.dispatched_at
        took_ms = None if at is None else round((self._now() - at) * 1000)
        return [
            *_taken(call),
            ev.ToolCallSettled(call.tool_call_id, effect, outcome.result, failed, took_ms),
            ToolCallUpdate(
                call.tool_call_id,
                status=status,
                content=outcome.content or None,
                raw_output=outcome.raw_output,
            ),
        ]


def _taken(call: Call) -> list[ev.Event]:
    """The records of the call that wait, which are written now."""
    taken: list[ev.Event] = [*call.unwritten]
    call.unwritten.clear()
    return taken


def _deeper(value: Any, levels: int) -> bool:
    """Whether a JSON value has more than so many levels."""
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for outer in layer
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not layer:
            return False
    return any(isinstance(inner, dict | list) for inner in layer)


def new_call(made: ToolCallDelta, tool: Tool | None, arguments: Any, description: Description) -> Call:
    """A call that can be announced, with an id of ours."""
    return Call(new_tool_call_id(), made, tool, arguments, description)
