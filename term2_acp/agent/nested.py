"""Calls that a program makes while it runs (``run_code``), each of them a tool call of its own.

Rules:

- A nested call is announced, decided about, asked about, journalled and ended as a call of the model is, with
  the id of its parent. It is no part of the model's reply: the model is told what the program wrote.
- Nothing that runs a program can be called from a program.
- When the program has ended there is nobody left to run a call for, so what is still open then has ended
  without effect. A cancel of the turn is different: the settle step ends those, as it ends all others.
- After a person has cancelled one call of a reply, no other call of that reply is run, nested ones included.
- A call begins when what the one before it said is journalled and on its way to the client. So a program that
  calls without end waits for both, and no more than one call of it stands in the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio
from attrs import field

from term2_acp.agent.calls import INTERNAL_RESULT, PROGRAM_ENDED, Call
from term2_acp.agent.ports import Workers
from term2_acp.domain.classes import define
from term2_acp.providers.base import ToolCallDelta
from term2_acp.tools.base import NestedResult

if TYPE_CHECKING:  # the dispatcher makes these, and is what they go through
    from term2_acp.agent.dispatch import Dispatcher

# Tools that run a program themselves.
NOT_NESTED = frozenset({"shell", "run_code"})

ALL_REFUSED = "This call was not run: the person cancelled an earlier call of the same reply."


@define(eq=False)
class NestedCalls:
    """The nested calls of one parent (``tools.base.Nesting``), while the context is open."""

    _dispatcher: Dispatcher
    _parent: Call
    _workers: Workers
    _made: list[Call] = field(factory=list, init=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if trio.current_effective_deadline() > -math.inf:
            for call in self._made:
                self._dispatcher.fail(call, PROGRAM_ENDED)

    async def call(
        self, name: str, arguments: str, while_asking: Callable[[], AbstractContextManager[None]]
    ) -> NestedResult:
        """See ``tools.base.Nesting``."""
        ports = self._dispatcher.ports
        await ports.reached()
        await ports.room()  # before the call is opened: what opens it must not be lost to a cancel
        call = self._dispatcher.decoded(ToolCallDelta("", name, arguments))
        call.parent = self._parent.tool_call_id
        if name in NOT_NESTED:
            call.fault = f"{name} cannot be called from a program; call it directly."
        elif self._parent.rest_refused:
            call.fault = ALL_REFUSED
        ports.emit_nowait(self._dispatcher.open_calls.announce(call))
        self._made.append(call)
        workers = _NestedWorkers(self._workers, while_asking)
        if not await self._dispatcher.run_one(call, workers, trio.Event()):
            self._parent.rest_refused = True
        self._made.remove(call)
        return call.result or NestedResult(INTERNAL_RESULT, failed=True)


@define(eq=False)
class _NestedWorkers:
    """A program that waits for the person waits as its call does (``agent.ports.Workers``)."""

    _workers: Workers
    _while_asking: Callable[[], AbstractContextManager[None]]

    @contextmanager
    def asking(self) -> Iterator[None]:
        with self._workers.asking(), self._while_asking():
            yield

    def done(self) -> None:
        """The parent is still at work."""
