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

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import trio

from term2_acp.domain import events as ev
from term2_acp.domain.content import ContentBlock
from term2_acp.domain.ids import MessageId, new_message_id
from term2_acp.domain.options import Mode, OptionId
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.session.choosing import CLOSING, Chooser, Done, Refuse
from term2_acp.session.commands import PLAN, command_of
from term2_acp.session.history import History
from term2_acp.session.outbox import Admission, Closed, Outbox
from term2_acp.session.parts import SessionParts
from term2_acp.session.ports import Client
from term2_acp.session.pump import Pump
from term2_acp.session.speech import Speech
from term2_acp.session.state import Activity
from term2_acp.session.turns import INTERNAL_FAILURE, OpenTurn, last_words, run_turn
from term2_acp.store import SessionRecord

if TYPE_CHECKING:  # imported with the first turn
    from term2_acp.agent.transcript import Transcript
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

    def __init__(
        self,
        record: SessionRecord,
        parts: SessionParts,
        client: Client,
        history: History,
        owed: Sequence[ev.Event] = (),
    ) -> None:
        self.session_id = record.session_id
        self.cwd = record.cwd
        self.first_day = record.created_at[:10]
        self.parts = parts
        self.client = client
        self.history = history
        self.options = history.options
        self.meter = history.meter
        self.hands: Hands | None = None  # made with the first turn
        self.outbox = Outbox(merge_text=parts.mind.source.merge_text)
        self._pump = Pump(record.session_id, self.outbox, parts.store, client, owed)
        self.activity = Activity(lambda event: self.outbox.put_nowait([event]))
        self.speech = Speech(self.outbox, history, self.activity, parts.redactor, client)
        self.chooser = Chooser(history, self.speech, self._revise)
        self.ended = trio.Event()
        self.over = trio.Event()  # it has ended, or a close has given its turn up
        self.opening = False
        self.closing = False
        self._work: trio.Nursery | None = None
        self._life = trio.CancelScope()
        # Refuses the prompt that waits for its response.
        self._unanswered: Callable[[Failure], None] | None = None

    @property
    def transcript(self) -> "Transcript":
        """What a provider is told."""
        return self.history.transcript

    @property
    def turn(self) -> OpenTurn | None:
        """The turn that was admitted and has not settled."""
        return self.speech.turn

    @property
    def owed(self) -> Sequence[ev.Event]:
        """What its history and its client were told, and its journal was not (``Pump``)."""
        return self._pump.owed

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
            self.chooser.end(CLOSING)
            self.outbox.abandon_nowait()
            self.history.forget()
            self.ended.set()
            self.over.set()
            self.client.left(self.session_id)

    @property
    def running(self) -> bool:
        """Whether a turn was admitted and has not settled, or its prompt is not answered yet.

        A client that does not read is not answered. Were its next prompt admitted all the same, prompts
        would wait in the outbox without bound.
        """
        return self.turn is not None or self._unanswered is not None

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
        turn = self.turn
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
        refuse: Refuse,
        *,
        commands: bool = False,
    ) -> OpenTurn:
        """Admit a prompt. ``answer`` is called with its message id when the response may go out.

        ``refuse`` is called in its place when the prompt cannot be kept; it then leaves no trace. With
        ``commands``, one that begins with a command of term2's (``session.commands``) is taken as that.

        Raises:
            Busy: there is a turn already, or the session is being opened.
        """
        if self.running or self.opening or self._work is None:
            raise Busy
        command = command_of(content) if commands else None
        turn = OpenTurn(new_message_id(), command)
        try:
            self._work.start_soon(self._run_turn, turn)  # it begins when the reader is done here
        except RuntimeError:
            raise Busy from None  # its nursery is being left: the session has crashed and ends
        self.speech.turn = turn
        before = self.history.mark()

        def answered() -> None:
            self._unanswered = None
            answer(turn.message_id)

        def refused(failure: Failure) -> None:
            self._unanswered = None
            turn.refused = True
            turn.scope.cancel()
            self.history.rewind(before)  # no later prompt has built on it: none is admitted yet
            refuse(failure)

        def failed(failure: Failure) -> None:
            self.history.unkept = True
            turn.fail(failure)

        self._unanswered = refused

        if command is not None and command.name == PLAN and self.options.mode is not Mode.PLAN:
            # Before the prompt, which the model is to read in that mode. If it cannot be kept, no turn that
            # was to change nothing runs in another one.
            self.chooser.put_nowait(OptionId.MODE, Mode.PLAN, done=lambda options: None, refuse=turn.fail)
        self.activity.begin(over=lambda: turn.scope.cancel_called)
        self.outbox.put_nowait([Admission(answered, refused, failed)])
        message = ev.UserMessage(turn.message_id, content)
        if command is not None:
            message = command.marked(message)
        self.speech.emit_nowait([message, *self.history.name(message, self.parts.redactor)])
        return turn

    def cancel_nowait(self) -> None:
        """Stop the turn that is admitted now, if there is one."""
        self.speech.abort()

    async def _run_turn(self, turn: OpenTurn) -> None:
        reason = StopReason.CANCELLED
        try:
            reason = await turn.work(lambda: run_turn(self, turn))
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
            self.speech.emit_nowait(last_words(self, turn, reason, at_work=at_work))
        except Closed:
            logger.warning("a turn settled after its session was closed")
        if self.hands is not None:
            self.hands.settle(refused=turn.refused)
        self.activity.end()
        self.speech.turn = None
        turn.settled.set()

    # -- the options -------------------------------------------------------------------------------

    def set_option_nowait(self, option_id: str, value: str, done: Done, refuse: Refuse) -> None:
        """Set an option to one of the values that were shown, during a turn or between turns.

        It is in force at once. ``done`` is called with the options, whole, when the change is kept and shown;
        ``refuse`` in its place when it cannot be kept, and it is then taken back. One of the two is called,
        whatever happens to the session.

        Raises:
            UnknownOption: the session has no such option.
            UnknownValue: the option cannot have this value.
        """
        if self.closing or self._work is None:
            refuse(CLOSING)
            return
        self.chooser.set_nowait(option_id, value, done, refuse)

    async def reached(self) -> None:
        """Wait until everything said so far is journalled and on its way to the client."""
        await self.outbox.reached()

    def _revise(self) -> None:
        if self.hands is not None:
            self.hands.broker.revise_nowait()


async def _until_closed() -> None:
    """Wait for the close, which is a cancel of the work nursery."""
    await trio.sleep_forever()
