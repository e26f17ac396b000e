"""One conversation, in its own nursery.

Who owns what::

    run ................... one task for the session's whole life
    ├─ pump ............... journal, then client; ends when the outbox is closed and drained
    └─ work (nursery) ..... close cancels it, after the turn has settled
       └─ turn (0 or 1) ... in a scope of its own; cancel cancels that scope and nothing else

Invariants:

- Admission, cancel and the beginning of a close are decided synchronously, in the order in which they
  were read. Busy is busy also while a turn is still being prepared.
- A turn puts exactly one idle, in its settle step, after its scope; everything it shows comes before it.
- A close is a cancel, then the settling, then the end of the work nursery, then the drained outbox.
  (Cancelling the nursery first would pass through the turn's scope and lose the settling.)
"""

import functools
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import trio

from term2_acp.agent.ports import Workers
from term2_acp.agent.usage import METERED, Meter
from term2_acp.domain import events as ev
from term2_acp.domain.content import ContentBlock
from term2_acp.domain.ids import MessageId, new_message_id
from term2_acp.domain.permission import Answer, Ask
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.session.outbox import Admission, Closed, Outbox
from term2_acp.session.parts import SessionParts
from term2_acp.session.ports import Client
from term2_acp.session.pump import Pump
from term2_acp.session.redaction import redacted
from term2_acp.session.state import Activity
from term2_acp.session.title import name
from term2_acp.session.turns import INTERNAL_FAILURE, OpenTurn, last_words, run_turn
from term2_acp.store import SessionRecord

if TYPE_CHECKING:  # imported with the first turn
    from term2_acp.agent.transcript import Transcript
    from term2_acp.permission.broker import OpenAsk
    from term2_acp.session.hands import Hands

logger = logging.getLogger(__name__)

# How long a close waits for a cancelled turn to settle. Everything in a turn gives way to a cancel at
# once; this bound is for what does not, and is half of what a shutdown allows for all sessions.
SETTLE_S = 4.0

# How long a close then waits for the idle that it put itself to be journalled and shown.
LAST_WORDS_S = 0.3


class Busy(Exception):
    """The session has a foreground turn, or is being opened."""


class CloseFailed(Exception):
    """The session is closed, but its turn failed inside or did not settle in time."""


class Session:
    """See the module. A session is made idle; ``run`` must be started before a prompt is admitted."""

    def __init__(self, record: SessionRecord, parts: SessionParts, client: Client, meter: Meter) -> None:
        self.session_id = record.session_id
        self.cwd = record.cwd
        self.first_day = record.created_at[:10]
        self.title = record.title
        self.parts = parts
        self.meter = meter
        self.hands: Hands | None = None  # made with the first turn
        self.outbox = Outbox(merge_text=parts.mind.source.merge_text)
        self._pump = Pump(record.session_id, self.outbox, parts.store, client)
        self.activity = Activity(lambda event: self.outbox.put_nowait([event]))
        self.ended = trio.Event()
        self.over = trio.Event()  # it has ended, or a close has given its turn up
        self.opening = False
        self.closing = False
        self._client = client
        self._turn: OpenTurn | None = None
        self._work: trio.Nursery | None = None
        self._life = trio.CancelScope()
        # Refuses the prompt that waits for its response.
        self._unanswered: Callable[[Failure], None] | None = None

    @functools.cached_property
    def transcript(self) -> "Transcript":
        """The history that a provider is given. A new one is made, and imported, with the first prompt."""
        from term2_acp.agent.transcript import Transcript

        return Transcript()

    # -- life --------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Live until ``close``. Cancelled from outside, it ends at once and drains nothing.

        However it ends, a prompt that waits for its response gets one. A crash between the commit and the
        response refuses a prompt that is kept: a replay then shows it, and that it was interrupted.
        """
        try:
            with self._life:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump.run)
                    try:
                        async with trio.open_nursery() as work:
                            self._work = work
                            task_status.started()
                            await _until_closed()
                    finally:
                        self._work = None  # what is read from here on is not admitted
                    self.outbox.close_nowait()
        finally:
            if self.hands is not None:
                self.hands.end()
            if self._unanswered is not None:
                self._unanswered(INTERNAL_FAILURE)
            self.outbox.abandon_nowait()
            vars(self).pop("transcript", None)  # a session is a cycle: images would wait for the collector
            self.ended.set()
            self.over.set()

    @property
    def running(self) -> bool:
        """Whether a turn was admitted and has not settled, or its prompt is not answered yet.

        A client that does not read is not answered. Were its next prompt admitted all the same, prompts
        would wait in the outbox without bound.
        """
        return self._turn is not None or self._unanswered is not None

    def begin_close_nowait(self) -> None:
        """Cancel the turn and admit no other. From here the session is closed for its client."""
        self.closing = True
        self._pump.hurry_nowait()
        self.cancel_nowait()

    def abandon_nowait(self) -> None:
        """End the session outright: what a close could not do within the shutdown's bound."""
        self._life.cancel()

    async def close(self) -> None:
        """Close: cancel, wait for the idle, end the work, drain the outbox.

        Must not be cancelled by a client; at shutdown it may be, and the session is then ended by its
        nursery's cancel.

        Raises:
            CloseFailed: the session is closed, but its turn failed inside or did not settle in time.
        """
        self.begin_close_nowait()
        turn = self._turn
        with trio.move_on_after(SETTLE_S) as bound:
            if turn is not None:
                await turn.settled.wait()
        if self._work is not None:
            self._work.cancel_scope.cancel()
        if turn is not None and bound.cancelled_caught:
            # What did not give way to one cancel will not to another: nobody waits for it any longer, and
            # whatever it still says is nobody's.
            self._settle(turn, StopReason.CANCELLED, at_work=True)
            self.over.set()
            with trio.move_on_after(LAST_WORDS_S):
                await self.outbox.reached()
            raise CloseFailed
        await self.over.wait()
        if not self.ended.is_set() or (turn is not None and turn.internal_fault):
            raise CloseFailed

    # -- the turn ----------------------------------------------------------------------------------

    def admit_nowait(
        self,
        content: tuple[ContentBlock, ...],
        answer: Callable[[MessageId], None],
        refuse: Callable[[Failure], None],
    ) -> OpenTurn:
        """Admit a prompt. ``answer`` is called with its message id when the response may go out.

        ``refuse`` is called in its place when the prompt cannot be kept; it then leaves no trace.

        Raises:
            Busy: there is a turn already, or the session is being opened.
        """
        if self.running or self.opening or self._work is None:
            raise Busy
        turn = OpenTurn(new_message_id())
        try:
            self._work.start_soon(self._run_turn, turn)  # it begins when the reader is done here
        except RuntimeError:
            raise Busy from None  # its nursery is being left: the session has crashed and ends
        self._turn = turn
        before = self.transcript.mark(), self.meter.mark(), self.title

        def answered() -> None:
            self._unanswered = None
            answer(turn.message_id)

        def refused(failure: Failure) -> None:
            self._unanswered = None
            turn.refused = True
            turn.scope.cancel()
            said, spent, self.title = before  # no later prompt has built on it: none is admitted yet
            self.transcript.rewind(said)
            self.meter.rewind(spent)
            refuse(failure)

        self._unanswered = refused

        self.activity.begin(over=lambda: turn.scope.cancel_called)
        self.outbox.put_nowait([Admission(answered, refused, turn.fail)])
        self.title, named = name(self.title, content, self.parts.redactor)
        self.emit_nowait([ev.UserMessage(turn.message_id, content), *named])
        return turn

    def cancel_nowait(self) -> None:
        """Stop the turn that is admitted now, if there is one."""
        if self._turn is not None:
            self._turn.scope.cancel()

    async def _run_turn(self, turn: OpenTurn) -> None:
        reason = StopReason.CANCELLED
        try:
            reason = await turn.work(lambda: run_turn(self))
        finally:
            self._settle(turn, reason)

    def _settle(self, turn: OpenTurn, reason: StopReason, *, at_work: bool = False) -> None:
        """End the turn: last statuses of its open calls, the sentence of a failure, the idle. Never waits.

        Done once; a turn that is settled already stays as it is. ``at_work`` says that its calls did not
        give way, and may still have an effect.
        """
        if turn.settled.is_set():
            return
        try:
            self.emit_nowait(last_words(self, turn, reason, at_work=at_work))
        except Closed:
            logger.warning("a turn settled after its session was closed")
        if self.hands is not None:
            self.hands.settle(refused=turn.refused)
        self.activity.end()
        self._turn = None
        turn.settled.set()

    # -- ports of the turn -------------------------------------------------------------------------

    async def emit(self, events: Sequence[ev.Event]) -> None:
        """See ``agent.ports.TurnPorts``."""
        await self.outbox.room()
        self.emit_nowait(events)

    def emit_nowait(self, events: Sequence[ev.Event]) -> None:
        """See ``agent.ports.TurnPorts``. What is said when no turn is open is dropped."""
        if self._turn is None:
            return
        if self.parts.redactor:
            events = [redacted(event, self.parts.redactor) for event in events]
        self.outbox.put_nowait(events)
        if self._turn.refused:
            return  # its cancel may not have reached its task yet; the pump lets none of this through
        for event in events:
            self.transcript.apply(event)
            if type(event) in METERED:
                self.meter.apply(event)
            elif type(event) is ev.TerminalUpdate and self.hands is not None:
                self.hands.open_calls.see_terminal(event)

    async def room(self) -> None:
        """See ``agent.ports.TurnPorts``."""
        await self.outbox.room()

    @property
    def full(self) -> bool:
        """See ``agent.ports.TurnPorts``."""
        return self.outbox.full

    async def reached(self) -> None:
        """See ``agent.ports.TurnPorts``."""
        await self.outbox.reached()

    def working(self, calls: int) -> AbstractContextManager[Workers]:
        """See ``agent.ports.TurnPorts``."""
        return self.activity.working(calls)

    def abort(self) -> None:
        """See ``agent.ports.TurnPorts``."""
        self.cancel_nowait()

    def post(self, open_ask: "OpenAsk") -> None:
        """Put an ask of the broker into the line; it goes out when everything before it has."""

        def send(ask: Ask, settle: Callable[[Answer], None]) -> Callable[[], None]:
            return self._client.ask(redacted(ask, self.parts.redactor), settle)

        turn = self._turn

        def reached() -> None:
            # The waiter withdraws an ask of a cancelled turn, but it may not have run yet.
            if turn is not None and not turn.scope.cancel_called:
                open_ask.send_through(send)

        self.outbox.put_nowait([reached])


async def _until_closed() -> None:
    """Wait for the close, which is a cancel of the work nursery."""
    await trio.sleep_forever()
