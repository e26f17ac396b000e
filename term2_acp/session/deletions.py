"""The sessions that are being deleted.

A session is being deleted from when that was read until it is gone, or was not to be removed. Meanwhile it is
in no list and cannot be opened. Deletions of one session come one after the other, each behind what was open
or being opened of it when it was read, so none waits for what waits for it.
"""

from collections.abc import Awaitable, Callable

import trio
from attrs import define, evolve, field

from term2_acp.domain.ids import SessionId
from term2_acp.session.session import CloseFailed
from term2_acp.store import Page, Store, UnknownSession


@define(eq=False)
class _Deletion:
    """``close`` closes what was open of the session, and ``before`` is the deletion that comes first."""

    close: Callable[[], Awaitable[None]] | None
    before: "_Deletion | None"
    over: trio.Event = field(factory=trio.Event)


class Deletions:
    """See the module. ``close_nowait`` and ``is_live`` are the registry's."""

    def __init__(
        self,
        store: Store,
        close_nowait: Callable[[SessionId], Callable[[], Awaitable[None]] | None],
        is_live: Callable[[SessionId], bool],
    ) -> None:
        self._store = store
        self._close_nowait = close_nowait
        self._is_live = is_live
        self._last: dict[SessionId, _Deletion] = {}

    def __contains__(self, session_id: object) -> bool:
        """Whether the session is being deleted."""
        return session_id in self._last

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

    async def _delete(self, session_id: SessionId, deletion: _Deletion) -> None:
        try:
            if deletion.before is not None:
                await deletion.before.over.wait()
            if deletion.close is not None:
                try:
                    await deletion.close()
                except CloseFailed:
                    if self._is_live(session_id):
                        raise  # its turn was given up, and it still has the claim
            await self._remove(session_id)
        finally:
            deletion.over.set()
            if self._last.get(session_id) is deletion:
                del self._last[session_id]

    async def _remove(self, session_id: SessionId) -> None:
        try:
            claim = await self._store.claim(session_id)
        except UnknownSession:
            return
        try:
            await self._store.delete(session_id)
        except trio.Cancelled:
            raise  # what the store was given it still does: nobody may open the session meanwhile
        except BaseException:
            claim.release()
            raise
        claim.release()
