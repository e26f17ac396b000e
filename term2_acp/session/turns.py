"""A turn as its session holds it, and the step that settles it.

The turn is made by the reader when the prompt is admitted, with its cancel scope not yet entered, so that a
cancel which is read next finds it. Order comes from the outbox and from this object, never from when the
task starts.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio
from attrs import field

from term2_acp.agent.mind import TurnFailed
from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.ids import MessageId, new_message_id
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.session.commands import Command
from term2_acp.session.state import State
from term2_acp.store import StoreFailed

if TYPE_CHECKING:  # a session has its turns, and is what they work with
    from term2_acp.session.session import Session

logger = logging.getLogger(__name__)

INTERNAL_FAILURE = Failure(
    "internal",
    "Something failed inside term2, and the turn could not go on. The log has the details; try again.",
)


@define(eq=False)
class OpenTurn:
    """The foreground turn of a session.

    ``scope`` is the only thing that decides whether its work goes on: ``session/cancel`` cancels it and
    does nothing else. ``failure`` is set when the turn cannot go on; ``settled`` when its idle is in the
    outbox. ``refused`` is set when its prompt could not be kept: what it still says is told to nobody.
    ``command`` is what its prompt begins with, if that is one of term2's.
    """

    message_id: MessageId
    command: Command | None = None
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    settled: trio.Event = field(factory=trio.Event)
    failure: Failure | None = None
    internal_fault: bool = False
    refused: bool = False

    def fail(self, failure: Failure) -> None:
        """Something outside the turn's task (the journal) makes it impossible to go on."""
        if not self.scope.cancel_called:  # a turn that was cancelled before ends cancelled
            self.failure = failure
        self.scope.cancel()

    async def work(self, run: Callable[[], Awaitable[StopReason]]) -> StopReason:
        """Run the turn in its scope and say why it ended. Raises nothing but a cancel from outside."""
        reason = StopReason.END_TURN
        try:
            with self.scope:
                # A cancel that was read before this task began is delivered here, before any work.
                await trio.lowlevel.checkpoint_if_cancelled()
                reason = await run()
        except TurnFailed as failed:
            logger.warning("turn failed (%s): %s", failed.failure.code, failed.failure.message)
            if not self.scope.cancel_called:  # what breaks after a cancel was read is the cancel's
                self.failure = failed.failure
        except Exception:
            # The wall between a turn and its session: the session, and all others, go on.
            logger.exception("turn failed inside")
            self.failure = INTERNAL_FAILURE
            self.internal_fault = True
        if self.failure is not None:
            return StopReason.ERROR
        # Not `cancelled_caught`: a cancel read after the last checkpoint is still a cancel.
        return StopReason.CANCELLED if self.scope.cancel_called else reason


async def run_turn(session: "Session", turn: OpenTurn) -> StopReason:
    """Answer the turn's command, or prepare the turn and run it; a cancel may come at any moment."""
    if session.history.unkept:
        await _catch_up(session)
    # With the first prompt: an editor waits for its session, and what a turn needs takes a while to import.
    if turn.command is not None and not turn.command.to_model:
        from term2_acp.session.answering import answer

        return await answer(session, turn.command)
    from term2_acp.session import workbench

    return await workbench.run_turn(session)


async def _catch_up(session: "Session") -> None:
    """Go by what is kept: an earlier turn failed, and said what nobody was shown.

    Raises:
        TurnFailed: what is kept cannot be read.
    """
    from term2_acp.session.reading import read_again

    await session.reached()  # this turn's prompt is kept
    try:
        await read_again(session.parts.store, session.session_id, session.history)
    except StoreFailed as error:
        raise TurnFailed(Failure(error.code, error.message)) from error
    if session.hands is not None:
        session.hands.files.forget_reads_nowait()  # the model may not know of them any more


def last_words(session: "Session", turn: OpenTurn, reason: StopReason, *, at_work: bool) -> list[ev.Event]:
    """What ends the session's turn: last statuses of its open calls, the usage of a model's call that was cut
    off, the sentence of a failure, and the idle. ``at_work`` is as in ``OpenCalls.settle_all``.
    """
    failure = turn.failure if reason is StopReason.ERROR else None
    events: list[ev.Event] = []
    if session.hands is not None:
        sentence = None if failure is None else failure.message
        events += session.hands.open_calls.settle_all(sentence, at_work=at_work)
    update = session.meter.update()
    if update is not None:
        events.append(update)
    if failure is not None:
        if session.activity.state is State.REQUIRES_ACTION:
            events.append(ev.Running())  # nobody is asked any more, and a sentence follows
        events.append(ev.AgentMessage(new_message_id(), failure.message, spoken_by_model=False))
    return [*events, ev.Idle(reason, failure, session.meter.turn_usage())]
