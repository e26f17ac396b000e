"""What a turn needs of the session that runs it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from term2_acp.domain.events import Event


class TurnPorts(Protocol):
    """The turn's way to the person, to the journal and to its own end."""

    async def emit(self, events: Sequence[Event]) -> None:
        """Show and keep the events, in order, once there is room. Cancelled, none of them was taken."""
        ...

    async def room(self) -> None:
        """Wait while the client reads slowly. What is then emitted without waiting is taken whole."""
        ...

    @property
    def full(self) -> bool:
        """Whether ``room`` would wait. For the stream of deltas, where a coroutine a delta is felt."""
        ...

    def emit_nowait(self, events: Sequence[Event]) -> None:
        """Show and keep the events whatever waits: for the ends of calls, which must not be lost."""
        ...

    async def reached(self) -> None:
        """Wait until everything emitted so far is journalled and on its way to the client."""
        ...

    @property
    def unkept(self) -> bool:
        """Whether the journal could not take something that this turn said, so that the turn ends."""
        ...

    def working(self, calls: int) -> AbstractContextManager["Workers"]:
        """Say that ``calls`` tool calls are at work, until each of them is done or the context is left."""
        ...

    def abort(self) -> None:
        """End this turn as a cancel would: it settles ``cancelled``."""
        ...


class Workers(Protocol):
    """The calls of one group, as far as the person is concerned.

    While nobody works and somebody asks, the session shows ``requires_action``.
    """

    def asking(self) -> AbstractContextManager[None]:
        """One of the calls waits for the person while the context is open."""
        ...

    def done(self) -> None:
        """One of the calls ended."""
        ...
