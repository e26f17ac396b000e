"""The live sessions of a process, and the ids that are being opened.

Invariants:

- An id is live in one place: in one process by the store's claim, in this process by this table.
- A session ends in one way, whatever ended it: out of the table, its claim released, ``ended`` set.
- A session that crashes is logged and ends; no other notices.
- A session that is being deleted is in no list and cannot be opened (``deletions``).
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio
from attrs import field

from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.ids import SessionId, new_session_id
from term2_acp.session.deletions import Deletions
from term2_acp.session.history import History
from term2_acp.session.parts import SessionParts
from term2_acp.session.ports import Client
from term2_acp.session.session import Busy, CloseFailed, Session
from term2_acp.store import Claim, Page, SessionRecord, UnknownSession, now

logger = logging.getLogger(__name__)


class OtherWorkspace(Exception):
    """The session belongs to another workspace than the one that was named."""


@define(eq=False)
class _Opening:
    """A session that is being opened. ``close_next``: a close was read since, and comes next."""

    over: trio.Event = field(factory=trio.Event)
    close_next: bool = False


class Registry:
    """See the module. ``nursery`` is the one that all sessions live in."""

    def __init__(self, parts: SessionParts, nursery: trio.Nursery) -> None:
        self._parts = parts
        self._nursery = nursery
        self._live: dict[SessionId, Session] = {}
        self._opening: dict[SessionId, _Opening] = {}
        self.deletions = Deletions(parts.store, self.close_nowait, self._live.keys(), self._opening.keys())

    # -- decided by the reader, synchronously ---------------------------------------------------------

    def find(self, session_id: SessionId) -> Session | None:
        """The live session with this id, unless it is closing: for its client it is closed then."""
        session = self._live.get(session_id)
        return session if session is not None and not session.closing else None

    def reserve_nowait(self, session_id: SessionId) -> None:
        """Claim the opening of a session, until ``open`` is left. No prompt is admitted meanwhile.

        Raises:
            Busy: it is being opened already, or its turn runs.
            UnknownSession: it is being deleted.
        """
        if session_id in self.deletions:
            raise UnknownSession
        session = self.find(session_id)
        if session_id in self._opening or (session is not None and session.running):
            raise Busy
        self._opening[session_id] = _Opening()
        if session is not None:
            session.opening = True

    def is_opening(self, session_id: SessionId) -> bool:
        """Whether the session is being opened just now."""
        return session_id in self._opening

    def release_nowait(self, session_id: SessionId) -> None:
        """The opening is over, however it ended."""
        opening = self._opening.pop(session_id)
        opening.over.set()
        session = self._live.get(session_id)
        if session is not None:
            session.opening = False
            if opening.close_next:  # here, and not in the task of the close: no prompt is read in between
                session.begin_close_nowait()

    # -- work ------------------------------------------------------------------------------------------

    async def new(self, cwd: str, client: Client) -> Session:
        """Make a session for the canonical directory ``cwd`` and start it.

        Raises:
            StoreFailed: it cannot be kept.
        """
        time = now()
        record = SessionRecord(
            session_id=new_session_id(), cwd=cwd, title=None, created_at=time, updated_at=time
        )
        await self._parts.store.create(record)
        async with self._claimed(record.session_id) as claim:
            return await self._start(Session(record, self._parts, client, History(self._parts.mind)), claim)

    async def open(self, session_id: SessionId, cwd: str, client: Client, *, replay: bool) -> None:
        """Open a reserved session, replaying it first if asked; the snapshot of its state comes last.

        A turn of it that was cut off by the death of its process is ended first (``reading``).

        Raises:
            UnknownSession: the store has none with this id.
            OtherWorkspace: ``cwd`` is not its workspace.
            ClaimedElsewhere: another process has it open.
            StoreFailed: it cannot be read.
        """
        from term2_acp.session import reading  # a new session has nothing to read

        record = await self._parts.store.find(session_id)
        if record is None:
            raise UnknownSession
        if record.cwd != cwd:
            raise OtherWorkspace
        live = self._live.get(session_id)
        if live is not None and live.closing:
            await live.over.wait()
            if not live.ended.is_set():
                raise Busy  # its turn was given up, and still has the claim
            live = None
        if live is not None:
            await live.reached()  # what its last turn said is in the journal
            live = None if live.ended.is_set() else live  # it may have crashed instead
        if live is not None:
            if replay:
                await reading.show_again(self._parts.store, session_id, client, live.owed)
        else:
            async with self._claimed(session_id) as claim:
                history = History(self._parts.mind, record.title)
                shown = client if replay else None
                own = self._parts.own_paths
                owed = await reading.make_whole(self._parts.store, session_id, history, own, shown)
                await self._start(Session(record, self._parts, client, history, owed), claim)
        client.show(session_id, [ev.Idle()])

    def close_nowait(self, session_id: SessionId) -> Callable[[], Awaitable[None]] | None:
        """Begin to close what was live or being opened when this was called; None when there is nothing.

        The session is closed for its client from here, unless it is being opened: then it is opened first.
        What is returned waits for its end, and raises ``CloseFailed`` as ``Session.close`` does.
        """
        opening, session = self._opening.get(session_id), self._live.get(session_id)
        if opening is not None:
            opening.close_next = True
            return lambda: self._close_opened(session_id, opening)
        if session is None:
            return None
        session.begin_close_nowait()
        return session.close

    async def _close_opened(self, session_id: SessionId, opening: _Opening) -> None:
        await opening.over.wait()
        session = self._live.get(session_id)
        if session is not None:
            await session.close()

    # -- deletion --------------------------------------------------------------------------------------

    async def page(self, cwd: str | None, cursor: str | None) -> Page:
        """Read one page of the list, as ``Store.page`` does. What is being deleted is not in it.

        Raises:
            BadCursor: the cursor is not one of ours.
            StoreFailed: the list cannot be read.
        """
        return self.deletions.left_out_of(await self._parts.store.page(cwd, cursor))

    def delete_nowait(self, session_id: SessionId) -> Callable[[], Awaitable[None]]:
        """Begin to remove a session for good. What is returned does it, once the store is open.

        From here the session is closed for its client, as by ``close_nowait``, and nobody finds it. An
        unknown one is removed already.

        What is returned raises, and the session is then known again:

        - ``ClaimedElsewhere``: another process has it open.
        - ``CloseFailed``: its turn did not settle in time. One that does, later, lets it go.
        - ``StoreFailed``: it cannot be removed. It may have lost its artifacts and the end of a long history,
          and can be deleted again.

        Cancelled, the session may have been removed, in part, or not.
        """
        return self.deletions.begin_nowait(session_id)

    # -- the end ---------------------------------------------------------------------------------------

    def begin_close_nowait(self) -> None:
        """Cancel the turn of every live session; none admits another."""
        for session in self._live.values():
            session.begin_close_nowait()

    def abandon_nowait(self) -> None:
        """End every session that is still live, outright."""
        for session in self._live.values():
            session.abandon_nowait()

    async def close_all(self) -> None:
        """Close every live session, side by side. One that fails holds up no other."""
        async with trio.open_nursery() as nursery:
            for session in list(self._live.values()):
                session.begin_close_nowait()
                nursery.start_soon(self._close_quietly, session)

    async def _close_quietly(self, session: Session) -> None:
        try:
            await session.close()
        except CloseFailed:
            logger.warning("a session did not settle before it was closed")

    @asynccontextmanager
    async def _claimed(self, session_id: SessionId) -> AsyncIterator[Claim]:
        """The claim of a session, released again if it was not started."""
        claim = await self._parts.store.claim(session_id)
        try:
            yield claim
        except BaseException:
            claim.release()
            raise

    async def _start(self, session: Session, claim: Claim) -> Session:
        await self._nursery.start(self._keep, session, claim)
        return session

    async def _keep(  # noqa: ASYNC114, ASYNC128 - the session that it runs says when it has started
        self, session: Session, claim: Claim, *, task_status: trio.TaskStatus[None]
    ) -> None:
        """The session's one task, with the wall around it."""
        self._live[session.session_id] = session
        session.opening = session.session_id in self._opening
        try:
            await session.run(task_status=task_status)
        except Exception:
            logger.exception("a session failed inside and has ended")
        finally:
            del self._live[session.session_id]
            claim.release()
            if not self._live:
                self._parts.mind.rest_nowait()
