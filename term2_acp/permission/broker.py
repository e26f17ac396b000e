"""The desk where asks wait for their answers.

How one ask goes: the dispatcher awaits ``Broker.ask``, which posts an ``OpenAsk`` (the session puts it
into the outbox as a marker) and waits until that is settled. When the marker comes out, the pump hands
the ask to the client with ``OpenAsk.send_through``; so it is never sent before the tool call it is about.
The reader settles it with ``OpenAsk.settle_nowait``, inline.

Rules:

- Exactly one answer each. What comes after the first, or after the waiter left, is nothing.
- Only ``Selected`` with an allowing option of this very ask, while it is still current, is an approval.
  Everything else is a refusal with a sentence; a client that is gone, and an ask that is stale, end the
  turn (``Abandoned``).
- A question that is too long to be shown whole is not asked. Cut, it would have the person allow what they
  were not shown, and a grant hold for a path that its option does not name.
- A waiter that is cancelled withdraws its ask: still queued, it is never sent; sent, the client is told.
- Human time is nobody's: nothing here has a clock.
"""

import itertools
import logging
from collections.abc import Callable, Sequence

import trio
from attrs import evolve, field

from term2_acp.domain.classes import define, frozen
from term2_acp.domain.ids import SessionId
from term2_acp.domain.permission import Action, Answer, Ask, AskCancelled, Lost, Selected, Unintelligible
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.permission.choices import Choice, allows, escape_for_person, escape_lines, to_options
from term2_acp.permission.ground import Ground

logger = logging.getLogger(__name__)

_REFUSED = "The person refused this."
_NOT_OFFERED = "The editor answered with a choice that was not offered, so this was refused."
_NOT_UNDERSTOOD = "The editor did not give an answer that can be understood, so this was refused."
_DISMISSED = "The person dismissed the question, so this and the rest of the reply was not run."
_LOST = "The editor went away before it answered, so this was not run."
_TOO_LONG = (
    "The question about this call would be too long to be shown whole, so it was not asked and the call was "
    "not run. Split the call into smaller ones."
)
_STALE = "What was asked about changed before the answer came, so this was not run."

# Bytes, as JSON, of an ask's description and of the name of an option. Below the shares of a frame that these
# have (``acp.v2.client``), where longer ones would be cut.
MAX_DESCRIPTION_BYTES = 400_000
MAX_NAME_BYTES = 100_000

# One sequence for the whole process: a late answer of one session can never name the ask of another.
_ask_ids = itertools.count(1)


@frozen
class Approved:
    """The person allowed it. ``choice`` says for how long."""

    choice: Choice


@frozen
class Refused:
    """This call is not run; the turn goes on. ``reason`` is a sentence for the model and the person.

    ``choice`` is the option by which the person refused it; None when no answer came that counts.
    """

    reason: str
    choice: Choice | None = None


@frozen
class RefusedAll:
    """Neither this call nor the rest of its reply is run; the turn goes on. The person dismissed the ask."""

    reason: str


@frozen
class Abandoned:
    """There is no answer to be had, or none that still counts: the turn must end."""

    reason: str = _LOST


Verdict = Approved | Refused | RefusedAll | Abandoned


@define(eq=False)
class OpenAsk:
    """One ask on its way: queued, then sent, then closed. ``open`` until it is settled or withdrawn.

    ``revision`` is the broker's at the time the ask was made.
    """

    ask: Ask
    revision: int
    open: bool = True
    _answer: Answer = field(factory=Lost, init=False)
    _settled: trio.Event = field(factory=trio.Event, init=False)
    _sent: bool = False
    _withdraw: Callable[[], None] | None = None

    def send_through(self, client_ask: Callable[[Ask, Callable[[Answer], None]], Callable[[], None]]) -> None:
        """Send the ask now, unless it was withdrawn or settled before its turn came.

        ``client_ask`` is the client's ``ask``. If it raises, the ask counts as lost and the error goes on.
        """
        if not self.open or self._sent:
            return
        self._sent = True
        try:
            withdraw = client_ask(self.ask, self.settle_nowait)
        except BaseException:
            self.settle_nowait(Lost())
            raise
        if self.open:
            self._withdraw = withdraw

    def settle_nowait(self, answer: Answer) -> None:
        """Give the ask its one answer. An answer to an ask that is closed is nothing."""
        if not self.open:
            return
        self.open = False
        self._withdraw = None
        self._answer = answer
        self._settled.set()

    async def answer(self) -> Answer:
        """Wait for the answer. It may be there before: a client that is gone answers at once."""
        await self._settled.wait()
        return self._answer

    def withdraw_nowait(self) -> None:
        """Close the ask without an answer: it is never sent, or the client is told to drop it."""
        if not self.open:
            return
        self.open = False
        withdraw, self._withdraw = self._withdraw, None
        if withdraw is not None:
            withdraw()

    def lose_nowait(self) -> None:
        """Close the ask as lost: its waiter gets no other answer, and the client is told to drop it."""
        withdraw = self._withdraw
        self.settle_nowait(Lost())
        if withdraw is not None:
            withdraw()


@define(eq=False)
class Broker:
    """The asks of one session. ``post`` queues an ask behind what was shown before it; it never waits."""

    session_id: SessionId
    post: Callable[[OpenAsk], None]
    revision: int = field(default=0, init=False)
    closed: bool = field(default=False, init=False)
    _open: dict[int, OpenAsk] = field(factory=dict, init=False)

    async def ask(
        self,
        *,
        title: str,
        description: str,
        tool_call: ToolCallUpdate,
        choices: Sequence[Choice],
        actions: Sequence[Action],
        ground: Ground,
    ) -> Verdict:
        """Ask the person, and wait for the answer, however long it takes.

        Title, description and the tool call's title are shown with hidden characters written out. In
        ``description`` line feeds divide lines; whoever composes it escapes the parts it did not write.

        Cancelled, the ask is withdrawn and nothing was decided. A cancel that was read before the answer
        is acted upon wins over the answer.

        Raises:
            ValueError: the choices cannot be offered for these actions; nothing was asked.
        """
        ask = Ask(
            ask_id=next(_ask_ids),
            session_id=self.session_id,
            title=escape_for_person(title),
            description=escape_lines(description),
            tool_call=_shown(tool_call),
            options=to_options(choices, actions, ground),
        )
        if self.closed:
            await trio.lowlevel.checkpoint()
            return Abandoned()
        if not _fits(ask):
            logger.warning("ask %d is too long to be shown, and was not asked", ask.ask_id)
            await trio.lowlevel.checkpoint()
            return Refused(_TOO_LONG)
        revision = self.revision
        answer = await self._wait_for_answer(ask)
        return self._judge(ask, revision, answer, choices)

    async def _wait_for_answer(self, ask: Ask) -> Answer:
        waiting = OpenAsk(ask, self.revision)
        self._open[ask.ask_id] = waiting
        try:
            self.post(waiting)
            answer = await waiting.answer()
            # A cancel that arrived together with the answer must not let the call start.
            await trio.lowlevel.checkpoint_if_cancelled()
        finally:
            waiting.withdraw_nowait()
            del self._open[ask.ask_id]
        return answer

    def _judge(self, ask: Ask, revision: int, answer: Answer, offered: Sequence[Choice]) -> Verdict:
        if self.closed:
            return Abandoned()
        if revision != self.revision:
            return Abandoned(_STALE)
        match answer:
            case Selected(option_id=option_id):
                choice = next((choice for choice in offered if choice == option_id), None)
                if choice is None:
                    logger.warning("ask %d was answered with an option that was not offered", ask.ask_id)
                    return Refused(_NOT_OFFERED)
                return Approved(choice) if allows(choice) else Refused(_REFUSED, choice)
            case AskCancelled():
                return RefusedAll(_DISMISSED)
            case Unintelligible(reason=reason):
                logger.warning("ask %d was not answered: %s", ask.ask_id, reason)
                return Refused(_NOT_UNDERSTOOD)
            case Lost():
                return Abandoned()

    def revise_nowait(self) -> None:
        """The mode or the turn changed: every open ask is stale, is withdrawn, and ends its turn."""
        self.revision += 1
        self._lose_all()

    def close_nowait(self) -> None:
        """The session closes or its client is gone: every open ask is lost, and so is every later one."""
        self.closed = True
        self._lose_all()

    def _lose_all(self) -> None:
        for waiting in tuple(self._open.values()):
            waiting.lose_nowait()


def _fits(ask: Ask) -> bool:
    return _size(ask.description) <= MAX_DESCRIPTION_BYTES and all(
        _size(option.name) <= MAX_NAME_BYTES for option in ask.options
    )


def _size(text: str) -> int:
    """Bytes of a text as JSON. It is escaped for a person, so no other character grows."""
    return len(text.encode()) + text.count('"') + text.count("\\") + text.count("\n")


def _shown(tool_call: ToolCallUpdate) -> ToolCallUpdate:
    title = None if tool_call.title is None else escape_for_person(tool_call.title)
    return tool_call if title == tool_call.title else evolve(tool_call, title=title)
