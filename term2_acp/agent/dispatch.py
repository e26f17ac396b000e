"""One round: the tool calls of one reply, each of which ends.

Calls start in the order of the reply. A run of calls that only read goes side by side; every other call
goes alone. What ends a call is always the table of open calls (``calls.OpenCalls``): here when the call
ran, was refused or failed, and in the settle step when the turn was cancelled under it.
"""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence

import attrs
import trio
from attrs import field

from term2_acp.agent.budget import REPEAT_WARNING, Repeat, Repeats
from term2_acp.agent.calls import INTERNAL_RESULT, Call, OpenCalls, new_call
from term2_acp.agent.gate import Abort, Gate, No
from term2_acp.agent.nested import NestedCalls
from term2_acp.agent.ports import TurnPorts, Workers
from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.ids import ToolCallId
from term2_acp.domain.toolcall import FileDigests, ToolCallUpdate
from term2_acp.providers.base import ToolCallDelta
from term2_acp.tools.base import Description, Outcome, OutcomeUnknown, Prepared, Tool, ToolContext, ToolError
from term2_acp.tools.registry import decode

logger = logging.getLogger(__name__)

NOT_RUN = "This call was not run: the person cancelled another call of the same reply."


@define(eq=False)
class Dispatcher:
    """Runs the rounds of one turn. ``circumstances`` tells what its calls are made under."""

    ports: TurnPorts
    gate: Gate
    tools: Mapping[str, Tool]
    context: ToolContext
    open_calls: OpenCalls
    repeats: Repeats
    circumstances: Callable[[], ev.Circumstances]
    _told: bool = field(default=False, init=False)  # the circumstances are

    def announce(self, made: Sequence[ToolCallDelta]) -> tuple[list[Call], list[ev.Event], bool]:
        """Open the calls of a reply: the calls, the events that show them, and whether the turn must end.

        Says which repeat too often: a call past the warning is announced as failed already. The first events
        of a turn begin with its circumstances.
        """
        calls: list[Call] = []
        events: list[ev.Event] = [] if self._told else [self.circumstances()]
        self._told = True
        stop = False
        for delta in made:
            call = self.decoded(delta)
            calls.append(call)
            events += self.open_calls.announce(call)
            repeat = self.repeats.see(delta.name, delta.arguments)
            stop = stop or repeat is Repeat.STOP
            if repeat is not Repeat.RUN and call.fault is None:
                call.fault = REPEAT_WARNING
        return calls, events, stop

    async def run(self, calls: Sequence[Call]) -> None:
        """Run the announced calls of one reply, until each has ended. Cancelled, the rest stay open."""
        rest = True
        for reads_only, group in itertools.groupby(calls, key=lambda call: call.reads_only):
            members = list(group)
            batches = [members] if reads_only else [[call] for call in members]
            for batch in batches:
                rest = rest and await self._together(batch)
                if not rest:
                    for call in batch:
                        self.fail(call, NOT_RUN)

    def decoded(self, delta: ToolCallDelta) -> Call:
        """The call that was asked for, with its fault where it cannot be run. Nothing of it is shown yet."""
        tool = self.tools.get(delta.name)
        if tool is None:
            known = ", ".join(sorted(self.tools))
            call = new_call(delta, None, None, Description(f"Unknown tool {delta.name[:100]}"))
            call.fault = f"There is no tool {delta.name[:100]!r}. The tools are: {known}."
            return call
        try:
            arguments = decode(tool, delta.arguments)
        except ToolError as error:
            call = new_call(delta, tool, None, Description(f"{tool.name} with arguments that do not fit"))
            call.fault = str(error)
            return call
        try:
            description = tool.describe(arguments, self.context)
        except Exception:
            # The same wall as around its run. Nothing of this reply is shown yet, and the other calls of it
            # are open already: they must not end without having been announced.
            logger.exception("tool %s failed inside", tool.name)
            call = new_call(delta, tool, None, Description(tool.name))
            call.fault = INTERNAL_RESULT
            return call
        return new_call(delta, tool, arguments, description)

    async def _together(self, calls: Sequence[Call]) -> bool:
        """Run calls side by side, started in order; False when the rest of the reply must not run."""
        with self.ports.working(len(calls)) as workers:
            if len(calls) == 1:
                return await self._one(calls[0], workers, trio.Event())
            async with trio.open_nursery() as nursery:
                for call in calls:
                    begun = trio.Event()
                    nursery.start_soon(self._member, call, workers, begun, nursery.cancel_scope)
                    await begun.wait()
        return not nursery.cancel_scope.cancel_called

    async def _member(self, call: Call, workers: Workers, begun: trio.Event, group: trio.CancelScope) -> None:
        try:
            if not await self._one(call, workers, begun):
                group.cancel()
        finally:
            begun.set()

    async def _one(self, call: Call, workers: Workers, begun: trio.Event) -> bool:
        try:
            return await self.run_one(call, workers, begun)
        finally:
            workers.done()

    async def run_one(self, call: Call, workers: Workers, begun: trio.Event) -> bool:
        """One call from its preparation to its end; False when the rest of the reply must not run.

        Cancelled, the call stays open.
        """
        try:
            return await self._steps(call, workers, begun)
        except ToolError as error:
            self.fail(call, str(error))
        except OutcomeUnknown as error:
            if self.open_calls.is_open(call):
                self.ports.emit_nowait(self.open_calls.lose(call, str(error)))
        except Exception:
            # The wall between a tool's fault and the turn: logged here, told in one sentence.
            logger.exception("tool %s failed inside", call.made.name)
            if call.dispatched and not call.reads_only and self.open_calls.is_open(call):
                self.ports.emit_nowait(self.open_calls.lose(call))
            else:
                self.fail(call, INTERNAL_RESULT)
        return not call.rest_refused

    async def _steps(self, call: Call, workers: Workers, begun: trio.Event) -> bool:
        tool = call.tool
        if call.fault is not None or tool is None:
            self.fail(call, call.fault or INTERNAL_RESULT)
            return True
        prepared = await tool.prepare(call.arguments, self.context)
        if prepared.preview or _moved(call, prepared):
            await self.ports.emit([_as_prepared(call, prepared)])
        # From here to its first wait the call runs alone, and the first thing it waits for is the answer
        # to an ask that is already posted: so asks go out in the order of the reply.
        begun.set()
        admission = await self.gate.admit(call, prepared, workers)
        if isinstance(admission, Abort):
            logger.warning("the turn is aborted: %s", admission.reason)
            self.ports.abort()
            await trio.lowlevel.checkpoint()
            return False
        if isinstance(admission, No):
            self.fail(call, admission.reason)
            return not admission.rest_too
        await self.ports.room()  # before it counts as dispatched
        records = self.open_calls.dispatch(call, self._findable(prepared.changes))
        self.ports.emit_nowait([*records, ev.ToolCallBegan(call.tool_call_id)])
        if not tool.reads_only:
            # Journalled before it acts: after a crash the journal tells what may have happened.
            await self.ports.reached()
        if (reason := self.gate.changed_nowait(prepared, admission)) is not None:
            raise ToolError(reason)
        call.dispatched = True
        ports = _Ports(self, call, workers)
        outcome = await tool.run(prepared, attrs.evolve(self.context, ports=ports))
        if not self.open_calls.is_open(call):
            return True  # a close has given it up, and has ended it
        call.outcome = outcome
        # Without a wait: a cancel now finds the call ended, not half ended.
        self.ports.emit_nowait(self.open_calls.complete(call, call.outcome))
        return not call.rest_refused

    def _findable(self, changes: tuple[FileDigests, ...]) -> tuple[FileDigests, ...]:
        """The changes, if every file of them can be found by its path as it is kept.

        Nothing of theirs where a path has a key of ours in it: what stands in its place names another file,
        and whoever looked for that would be told that nothing happened.
        """
        redact = self.context.redactor.redact
        return changes if all(redact(change.path) == change.path for change in changes) else ()

    def fail(self, call: Call, reason: str) -> None:
        """End the call, unless it has ended, as one that did nothing."""
        if self.open_calls.is_open(call):
            self.ports.emit_nowait(self.open_calls.fail(call, reason))


@define(eq=False)
class _Ports:
    """What one running call says about itself (``tools.base.CallPorts``)."""

    _dispatcher: Dispatcher
    _call: Call
    _workers: Workers

    @property
    def tool_call_id(self) -> ToolCallId:
        return self._call.tool_call_id

    def show_nowait(self, events: Sequence[ev.Event]) -> None:
        self._dispatcher.ports.emit_nowait(events)

    def stopped_nowait(self, outcome: Outcome) -> None:
        self._call.stopped = outcome

    def nesting(self) -> NestedCalls:
        return NestedCalls(self._dispatcher, self._call, self._workers)


def _moved(call: Call, prepared: Prepared) -> bool:
    """Whether the call turned out to be about other places than those it was announced with."""
    return bool(prepared.locations) and prepared.locations != call.description.locations


def _as_prepared(call: Call, prepared: Prepared) -> ToolCallUpdate:
    return ToolCallUpdate(
        call.tool_call_id,
        content=prepared.preview or None,
        locations=prepared.locations if _moved(call, prepared) else None,
    )
