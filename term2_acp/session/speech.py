"""What a session says: into its line, which the journal and the client get, and into its history.

Two ways:

- Within a turn (``emit_nowait``; ``agent.ports.TurnPorts``). It stands and falls with the turn. What is said
  when no turn is open is nobody's, and is dropped.
- Beside the turns (``say_nowait``), whether one is open or not. It is kept and shown by itself, or refused.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from term2_acp.agent.ports import Workers
from term2_acp.domain import events as ev
from term2_acp.domain.turn import Failure
from term2_acp.redact import Redactor
from term2_acp.session.history import History
from term2_acp.session.outbox import Aside, Outbox
from term2_acp.session.ports import Client
from term2_acp.session.redaction import redacted
from term2_acp.session.state import Activity
from term2_acp.session.turns import OpenTurn

if TYPE_CHECKING:  # imported with the first turn
    from term2_acp.domain.permission import Answer, Ask
    from term2_acp.permission.broker import OpenAsk


def _nobody(update: ev.TerminalUpdate) -> None:
    del update


class Speech:
    """See the module. ``turn`` is the one that is open; ``on_terminal`` is told of its terminals."""

    def __init__(
        self, outbox: Outbox, history: History, activity: Activity, redactor: Redactor, client: Client
    ) -> None:
        self.turn: OpenTurn | None = None
        self.on_terminal: Callable[[ev.TerminalUpdate], None] = _nobody
        self._outbox = outbox
        self._history = history
        self._activity = activity
        self._redactor = redactor
        self._redacts = bool(redactor)  # asked at each delta
        self._client = client

    # -- within a turn -----------------------------------------------------------------------------

    async def emit(self, events: Sequence[ev.Event]) -> None:
        """See ``agent.ports.TurnPorts``."""
        await self._outbox.room()
        self.emit_nowait(events)

    def emit_nowait(self, events: Sequence[ev.Event]) -> None:
        """See ``agent.ports.TurnPorts``.

        Raises:
            Closed: the session is closing, and its line takes nothing more.
        """
        if self.turn is None:
            return
        if self._redacts:
            events = [redacted(event, self._redactor) for event in events]
        self._outbox.put_nowait(events)
        if self.turn.refused:
            return  # its cancel may not have reached its task yet; the pump lets none of this through
        for event in events:
            self._history.see(event)
            if type(event) is ev.TerminalUpdate:
                self.on_terminal(event)

    async def room(self) -> None:
        """See ``agent.ports.TurnPorts``."""
        await self._outbox.room()

    @property
    def full(self) -> bool:
        """See ``agent.ports.TurnPorts``."""
        return self._outbox.full

    async def reached(self) -> None:
        """See ``agent.ports.TurnPorts``."""
        await self._outbox.reached()

    @property
    def unkept(self) -> bool:
        """See ``agent.ports.TurnPorts``."""
        return self.turn is not None and self.turn.failure is not None

    def working(self, calls: int) -> AbstractContextManager[Workers]:
        """See ``agent.ports.TurnPorts``."""
        return self._activity.working(calls)

    def abort(self) -> None:
        """See ``agent.ports.TurnPorts``."""
        if self.turn is not None:
            self.turn.scope.cancel()

    def post(self, open_ask: "OpenAsk") -> None:
        """Put an ask of the broker into the line; it goes out when everything before it has."""

        def send(ask: "Ask", settle: "Callable[[Answer], None]") -> Callable[[], None]:
            return self._client.ask(redacted(ask, self._redactor), settle)

        turn = self.turn

        def reached() -> None:
            # The waiter withdraws an ask of a cancelled turn, but it may not have run yet.
            if turn is not None and not turn.scope.cancel_called:
                open_ask.send_through(send)

        self._outbox.put_nowait([reached])

    # -- beside the turns --------------------------------------------------------------------------

    def say_nowait(
        self, events: Sequence[ev.Event], said: Callable[[], None], refused: Callable[[Failure], None]
    ) -> None:
        """Keep and show the events by themselves; see ``outbox.Aside``. The history is the caller's to tell.

        Raises:
            Closed: the session is closing, and its line takes nothing more; neither is called.
        """
        events = [redacted(event, self._redactor) for event in events] if self._redacts else events
        self._outbox.put_nowait([Aside(tuple(events), said, refused)])
