"""The pump: what comes out of the outbox is journalled, then shown, then its markers are reached.

The journal goes first, so that a client never sees what a restart would forget. When it cannot take a
group, the turn that the group belongs to is over, and until its idle nothing of it is shown but what ends it:

- A turn whose prompt is in the group is *refused*: the request is answered with an error, and the turn
  leaves no trace, not even its idle.
- A turn that is under way *fails*: shown are the sentence that says why, the bare final status of calls, the
  bare exit status of terminals and the end of compactions that the client knows (one whose summary was not
  kept has failed), and an idle that does not say that all went well. They are kept if that works again.

The outbox is one line and every turn in it ends with exactly one idle, so the pump knows by itself where a
turn that failed ends and the next one begins.

What is said beside the turns (``outbox.Aside``) is kept and shown by itself, in its place in the line. When
the journal cannot take it, it is refused, and nothing else is: no turn before, around or after it.

What is ``owed`` was told already and could not be kept: how a turn ended that was cut off. It goes to the
journal ahead of whatever is kept first, or the end of that turn would stand behind what came after it.

A client that reads slowly holds the pump up, and by it the turn. A session that closes waits for no client:
its last words must reach the journal, and what is left in the outbox is bounded.
"""

import logging
from collections.abc import Iterator, Sequence

import trio
from attrs import evolve, field

from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.ids import CompactionId, SessionId, TerminalId, ToolCallId, new_message_id
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.session.outbox import Admission, Aside, Marker, Outbox
from term2_acp.session.ports import Client
from term2_acp.store import Store, StoreFailed

logger = logging.getLogger(__name__)

Entry = ev.Event | Marker

# What a client gets in place of the output of a call whose end could not be kept.
UNKEPT = {"note": "What this call returned could not be kept, so it is not shown."}


@define(eq=False)
class Pump:
    """See the module."""

    session_id: SessionId
    outbox: Outbox
    store: Store
    client: Client
    owed: Sequence[ev.Event] = ()
    _turn: Admission | None = field(default=None, init=False)  # whose entries are passing
    _failure: Failure | None = field(default=None, init=False)  # why that turn cannot be shown
    _refused: bool = field(default=False, init=False)
    _unseen: set[ToolCallId | TerminalId | CompactionId] = field(factory=set, init=False)
    _hurried: bool = field(default=False, init=False)
    _patience: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    async def run(self) -> None:
        """Pump until the outbox is closed and drained. Cancelled, what is left in it is lost."""
        while entries := await self.outbox.take():
            for piece in _apart(entries):
                if isinstance(piece, Aside):
                    await self._pass_aside(piece)
                    continue
                left = piece
                while left:
                    left = await self._pass_on(left)

    def hurry_nowait(self) -> None:
        """Wait for the client no more: the session closes."""
        self._hurried = True
        self._patience.cancel()

    async def _pass_on(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Pass on entries of one state of affairs, and return those that are left."""
        if self._failure is None:
            failure = await self._keep(entries)
            if failure is None:
                await self._hand_on(entries)
                return ()
            self._fail(entries, failure)
        assert self._failure is not None
        of_turn, rest = _to_idle(entries)
        words = self._last_words(of_turn, self._failure)
        await self._keep(words)
        await self._hand_on(words)
        if of_turn and isinstance(of_turn[-1], ev.Idle):
            self._failure, self._turn, self._refused = None, None, False
            self._unseen.clear()
        return rest

    async def _pass_aside(self, aside: Aside) -> None:
        failure = await self._keep(aside.events)
        if failure is None:
            await self._hand_on([*aside.events, aside.said])
        else:
            aside.refused(failure)

    async def _keep(self, entries: Sequence[Entry]) -> Failure | None:
        """Journal what is to be kept of the entries; why that failed, if it did."""
        kept = [entry for entry in entries if type(entry) in _KEPT]
        if not kept:
            return None
        if self.owed:
            kept[:0] = self.owed
        try:
            await self.store.append(self.session_id, kept)  # type: ignore[arg-type]
        except StoreFailed as error:
            logger.error("the journal could not be written: %s", error.message)  # noqa: TRY400
            return Failure(error.code, error.message)
        self.owed = ()
        return None

    async def _hand_on(self, entries: Sequence[Entry]) -> None:
        """Show the events and reach the markers, in order, once the client has read enough."""
        if self.client.behind and not self._hurried:
            with trio.CancelScope() as self._patience:
                await self.client.ready()
        if _EVENTS.issuperset(map(type, entries)):  # the usual case, and the hot one
            self.client.show(self.session_id, entries)  # type: ignore[arg-type]
            return
        run: list[ev.Event] = []
        for entry in entries:
            if not callable(entry):
                run.append(entry)
                continue
            if run:
                self.client.show(self.session_id, run)
                run = []
            if isinstance(entry, Admission):
                self._turn = entry
            entry()
        if run:
            self.client.show(self.session_id, run)

    # -- a journal that fails ------------------------------------------------------------------------

    def _fail(self, entries: Sequence[Entry], failure: Failure) -> None:
        """End the turn whose entries come first among those that could not be kept."""
        self._failure = failure
        of_turn, _rest = _to_idle(entries)
        admission = next((entry for entry in of_turn if isinstance(entry, Admission)), None)
        if admission is not None:
            self._refused = True
            admission.refused(failure)
        elif self._turn is not None:
            self._turn.failed(failure)

    def _last_words(self, entries: Sequence[Entry], failure: Failure) -> list[Entry]:
        """What is still said of a turn that was refused (nothing) or failed (what ends it)."""
        if self._refused:
            return []
        words: list[Entry] = []
        for entry in entries:
            if isinstance(entry, ToolCallUpdate):
                words += self._bare_end(entry)
            elif isinstance(entry, ev.TerminalUpdate):
                words += self._bare_exit(entry)
            elif isinstance(entry, ev.CompactionUpdate):
                words += self._end_of_compaction(entry, failure)
            elif isinstance(entry, ev.ToolCallSettled | ev.ToolCallBegan):
                words += [entry] if entry.tool_call_id not in self._unseen else []
            elif isinstance(entry, ev.ToolCallPrepared):
                self._unseen.add(entry.tool_call_id)
            elif isinstance(entry, ev.Idle):
                words += _honest(entry, failure)
            elif type(entry) in ev.SHOWN_ONLY or _is_ours(entry):
                words.append(entry)
        return words

    def _bare_end(self, update: ToolCallUpdate) -> list[Entry]:
        """The final status of a call that the client knows, without the content that was not kept."""
        if update.status is None or not update.status.final or update.tool_call_id in self._unseen:
            return []
        return [ToolCallUpdate(update.tool_call_id, status=update.status, raw_output=UNKEPT)]

    def _bare_exit(self, update: ev.TerminalUpdate) -> list[Entry]:
        """The end of a terminal that the client knows; without it, its command seems to run on."""
        if update.command is not None:  # it begins here, in what is not shown
            self._unseen.add(update.terminal_id)
        if update.exit_status is None or update.terminal_id in self._unseen:
            return []
        return [ev.TerminalUpdate(update.terminal_id, exit_status=update.exit_status)]

    def _end_of_compaction(self, update: ev.CompactionUpdate, failure: Failure) -> list[Entry]:
        """The end of a compaction that the client knows; a journal without its summary has the history."""
        if update.status is ev.CompactionStatus.IN_PROGRESS:
            self._unseen.add(update.compaction_id)
        if update.compaction_id in self._unseen:
            return []
        if update.status is not ev.CompactionStatus.COMPLETED:
            return [update]
        failed = ev.CompactionStatus.FAILED
        return [evolve(update, status=failed, summary=None, error=failure.message)]


def _apart(entries: Sequence[Entry | Aside]) -> Iterator[Sequence[Entry] | Aside]:
    """The asides, and what stands before, between and behind them, in order."""
    if Aside not in map(type, entries):  # the usual case, and the hot one
        yield entries  # type: ignore[misc]
        return
    run: list[Entry] = []
    for entry in entries:
        if type(entry) is Aside:
            if run:
                yield run
                run = []
            yield entry
        else:
            run.append(entry)  # type: ignore[arg-type]
    if run:
        yield run


def _to_idle(entries: Sequence[Entry]) -> tuple[Sequence[Entry], Sequence[Entry]]:
    """The entries up to the first idle, that one included, and the rest."""
    end = next((place for place, entry in enumerate(entries) if isinstance(entry, ev.Idle)), len(entries))
    return entries[: end + 1], entries[end + 1 :]


def _is_ours(entry: Entry) -> bool:
    return isinstance(entry, ev.AgentMessage) and not entry.spoken_by_model


def _honest(idle: ev.Idle, failure: Failure) -> list[Entry]:
    """The idle of a turn whose end was not kept: it cannot say that all went well."""
    if idle.failure is not None or idle.stop_reason is StopReason.CANCELLED:
        return [idle]
    sentence = ev.AgentMessage(new_message_id(), failure.message, spoken_by_model=False)
    return [sentence, ev.Idle(StopReason.ERROR, failure, idle.usage)]


_EVENTS: frozenset[type] = frozenset(ev.Event.__args__)
# What is shown only says what is going on now.
_KEPT = _EVENTS - ev.NEVER_KEPT
