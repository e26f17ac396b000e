"""The sessions that are being deleted.

A session is being deleted from when that was read until it is gone, or was not to be removed. Meanwhile it is
in no list and cannot be opened. Deletions of one session come one after the other, each behind what was open
or being opened of it when it was read, so none waits for what waits for it.

What the client asks for is done to whatever session it names. What nobody asked for (``retention``) is done
only to a session that nobody uses, and gives way to whoever comes to use it before it has the claim.
"""

from collections.abc import Awaitable, Callable, Collection

import trio
from attrs import evolve, field

from term2_acp.domain.classes import define
from term2_acp.domain.ids import SessionId
from term2_acp.session.session import CloseFailed
from term2_acp.store import Claim, ClaimedElsewhere, Page, SessionRecord, Store, UnknownSession


@define(eq=False)
class _Deletion:
    """``close`` closes what was open of the session, and ``before`` is the deletion that comes first."""

    close: Callable[[], Awaitable[None]] | None
    before: "_Deletion | None"
    over: trio.Event = field(factory=trio.Event)


class Deletions:
    """See the module. The registry has ``close_nowait``, and what is ``live`` and being opened just now."""

    def __init__(
        self,
        store: Store,
        close_nowait: Callable[[SessionId], Callable[[], Awaitable[None]] | None],
        live: Collection[SessionId],
        opening: Collection[SessionId],
    ) -> None:
        self._store = store
        self._close_nowait = close_nowait
        self._live = live
        self._opening = opening
        self._last: dict[SessionId, _Deletion] = {}

    def __contains__(self, session_id: object) -> bool:
        """Whether the session is being deleted."""
        return session_id in self._last

    @property
    def awaited(self) -> bool:
        """Whether a client waits for a session that is being opened."""
        return bool(self._opening)

    def in_use(self, session_id: SessionId) -> bool:
        """Whether the session is open, being opened or being deleted in this process."""
        return session_id in self._live or session_id in self._opening or session_id in self._last

    def left_out_of(self, page: Page) -> Page:
        """The page of the list without what is being deleted."""
        return evolve(page, sessions=tuple(one for one in page.sessions if one.session_id not in self))

    def begin_nowait(self, session_id: SessionId) -> Callable[[], Awaitable[None]]:
        """See ``Registry.delete_nowait``."""
        # Without an open store, the request may fail before it comes to what is returned.
        begun = self._begun(session_id) if self._store.opened else None
        return lambda: self._delete(session_id, begun or self._begun(session_id))

    def _begun(self, session_id: SessionId) -> _Deletion:
        deletion = _Deletion(self._close_nowait(session_id), self._last.get(session_id))
        self._last[session_id] = deletion
        return deletion

    async def delete_unused(self, session_id: SessionId, holds: Callable[[SessionRecord], bool]) -> bool:
        """Remove a session for good if nobody uses it, in any process, and ``holds`` is still true of it.

        False, with nothing done: it is in use or gone, or something became of it before its claim was taken.
        From when this has the claim until it returns, the session is being deleted.

        Raises ``StoreFailed``, as ``Store.delete`` does; the session is then known again. Cancelled, it may
        have been removed, in part, or not.
        """
        if self.in_use(session_id):
            return False
        try:
            claim = await self._store.claim(session_id)
        except (ClaimedElsewhere, UnknownSession):
            return False
        # Nothing was read since the claim was taken. Whoever wants the session now finds it unclaimed, as it
        # is given back at once, or finds it deleted.
        if self.in_use(session_id):
            claim.release()
            return False
        deletion = _Deletion(None, None)
        self._last[session_id] = deletion
        try:
            return await self._remove(session_id, claim, holds)
        finally:
            self._end(session_id, deletion)

    async def _delete(self, session_id: SessionId, deletion: _Deletion) -> None:
        try:
            if deletion.before is not None:
                await deletion.before.over.wait()
            if deletion.close is not None:
                try:
                    await deletion.close()
                except CloseFailed:
                    if session_id in self._live:
                        raise  # its turn was given up, and it still has the claim
            try:
                claim = await self._store.claim(session_id)
            except UnknownSession:
                return
            await self._remove(session_id, claim)
        finally:
            self._end(session_id, deletion)

    def _end(self, session_id: SessionId, deletion: _Deletion) -> None:
        deletion.over.set()
        if self._last.get(session_id) is deletion:
            del self._last[session_id]

    async def _remove(
        self, session_id: SessionId, claim: Claim, holds: Callable[[SessionRecord], bool] | None = None
    ) -> bool:
        """Remove what is claimed, where ``holds`` is true of it; whether that was done."""
        try:
            if holds is not None:
                record = await self._store.find(session_id)
                if record is None or not holds(record):
                    claim.release()
                    return False
            await self._store.delete(session_id)
        except trio.Cancelled:
            raise  # what the store was given it still does: nobody may open the session meanwhile
        except BaseException:
            claim.release()
            raise
        claim.release()
        return True
