"""The pump: what comes out of the outbox is journalled, then shown, then its markers are reached.

The journal goes first, so that a client never sees what a restart would forget. When the journal cannot
take a group, what is in it is not shown; the turn is told, ends with a failure, and only what ends it is
shown without being kept: the failure's sentence, the bare final status of calls the client knows, the idle.
"""

import logging
from collections.abc import Callable, Sequence

from attrs import define, field

from term2_acp.domain import events as ev
from term2_acp.domain.ids import SessionId, ToolCallId
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.domain.turn import Failure
from term2_acp.session.outbox import Marker, Outbox
from term2_acp.session.ports import Client
from term2_acp.store import Store, StoreFailed

logger = logging.getLogger(__name__)


@define(eq=False)
class Pump:
    """See the module. ``unkept`` is told each time a group could not be journalled."""

    session_id: SessionId
    outbox: Outbox
    store: Store
    client: Client
    unkept: Callable[[Failure], None]
    _unseen: set[ToolCallId] = field(factory=set, init=False)

    async def run(self) -> None:
        """Pump until the outbox is closed and drained. Cancelled, what is left in it is lost."""
        while entries := await self.outbox.take():
            kept = [entry for entry in entries if type(entry) in _KEPT]
            if kept:
                try:
                    await self.store.append(self.session_id, kept)  # type: ignore[arg-type]
                except StoreFailed as error:
                    logger.error("the journal could not be written: %s", error.message)  # noqa: TRY400
                    self.unkept(Failure(error.code, error.message))
                    entries = self._last_words(entries)
            await self.client.ready()
            self._hand_on(entries)

    def _hand_on(self, entries: Sequence[ev.Event | Marker]) -> None:
        run: list[ev.Event] = []
        for entry in entries:
            if callable(entry):
                if run:
                    self.client.show(self.session_id, run)
                    run = []
                entry()
            else:
                run.append(entry)
        if run:
            self.client.show(self.session_id, run)

    def _last_words(self, entries: Sequence[ev.Event | Marker]) -> list[ev.Event | Marker]:
        """What of an unkept group is handed on all the same."""
        shown: list[ev.Event | Marker] = []
        for entry in entries:
            if isinstance(entry, ToolCallUpdate):
                if entry.name is not None:  # its announcement: the client never heard of it
                    self._unseen.add(entry.tool_call_id)
                elif (
                    entry.status is not None and entry.status.final and entry.tool_call_id not in self._unseen
                ):
                    shown.append(ToolCallUpdate(entry.tool_call_id, status=entry.status))
            elif (
                callable(entry)
                or type(entry) in ev.SHOWN_ONLY
                or isinstance(entry, ev.Idle)
                or (isinstance(entry, ev.AgentMessage) and not entry.spoken_by_model)
            ):
                shown.append(entry)
        return shown


# Markers are no events, and what is shown only says what is going on now.
_KEPT: frozenset[type] = frozenset(ev.Event.__args__) - ev.SHOWN_ONLY
