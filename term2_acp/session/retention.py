"""What is removed without being asked for, where the settings say so.

Which sessions: those that were last active more than ``days`` days ago, and those beyond the newest
``sessions`` ones, whoever has them open being counted too. Of these, only what nobody uses: a session that is
open in any process, that is being opened or deleted here, or that became active since it was chosen, is kept
(``Deletions.delete_unused``), and so is one whose time cannot be read or cannot be right. Oldest first.

When: from ``run`` on, once, and then once a day. Nobody waits for it, so it waits for everybody: it rests
before each session, longer while a client waits for one to be opened, and removes a bounded number each time.
The store's own thread and writer are held for one piece of one session, as by any other deletion.

What goes wrong is logged, once each time, and ends nothing. A session whose files cannot be removed is passed
over, or it would keep all newer ones for ever; when the store fails, the rest is for the next time.
"""

import logging
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import trio

from term2_acp.domain.classes import frozen
from term2_acp.domain.ids import SessionId
from term2_acp.session.deletions import Deletions
from term2_acp.store import SessionRecord, Store, StoreFailed, now

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 500
"""Sessions that are removed each time. With a rest before each, that is two minutes."""

EVERY_S = 24 * 60 * 60.0
"""From one time to the next, in seconds of the machine being awake: a daemon may run for weeks."""

REST_S = 0.2
"""Seconds before each session, in which whoever works is served."""

LAST_S = 0.5
"""Seconds that a shutdown gives to the removal of the session that is under way. A very long one is then left
without its end, and goes as a whole the next time."""

FIRST = datetime(2020, 1, 1, tzinfo=UTC)
"""No session was active before that. A clock without a battery starts in 1970, and a session that was used
until it was set is no old one."""

SETTLED = timedelta(minutes=1)
"""A session that was active since is kept, however many there are: it may be one that another process has put
on the list and not claimed yet, or that an editor has closed to start term2 anew and open it again."""

_PAGE = 100  # sessions that are read at once, in about two milliseconds of the store's thread


@frozen
class _Old:
    """A session that is to go, as it was when it was chosen, and why."""

    session_id: SessionId
    updated_at: str
    why: str

    def holds(self, record: SessionRecord) -> bool:
        """Whether it was not active since."""
        return record.updated_at == self.updated_at


class Retention:
    """See the module. At least one of ``days`` and ``sessions`` is not None.

    ``clock`` says what time it is, as ``store.now`` does.
    """

    def __init__(
        self,
        store: Store,
        deletions: Deletions,
        days: int | None,
        sessions: int | None,
        clock: Callable[[], str] = now,
    ) -> None:
        self._store = store
        self._deletions = deletions
        self._days = days
        self._sessions = sessions
        self._clock = clock
        self._scope = trio.CancelScope()
        self._stopping = trio.Event()
        self._over = trio.Event()

    async def run(self) -> None:
        """Remove what is to go, now and once a day, until ``aclose`` or until the store is closed.

        Cancelled, the session that is being removed may have been removed, in part, or not.
        """
        try:
            with self._scope:
                while self._store.opened and not self._stopping.is_set():
                    await self._remove_old_ones()
                    await self._pause(EVERY_S)
        finally:
            self._over.set()

    async def aclose(self) -> None:
        """Stop between two sessions, or after ``LAST_S`` within one; ``run`` has ended then."""
        self._stopping.set()
        with trio.move_on_after(LAST_S):
            await self._over.wait()
        self._scope.cancel()
        await self._over.wait()

    async def _remove_old_ones(self) -> None:
        failures: list[StoreFailed] = []
        try:
            await self._rest()
            for old in await self._old_ones():
                await self._rest()
                if self._stopping.is_set():
                    break
                try:
                    if await self._deletions.delete_unused(old.session_id, old.holds):
                        logger.info("removed session %s: %s", old.session_id, old.why)
                except StoreFailed as failure:
                    failures.append(failure)
                    if not isinstance(failure.__cause__, OSError):
                        break  # not of this session's files, but of the database
        except StoreFailed as failure:
            failures.append(failure)
        except Exception:
            # The wall: what nobody asked for ends nothing that somebody did.
            logger.exception("removing sessions by the settings failed")
        if failures:
            logger.warning("old sessions could not all be removed: %s", failures[0].message)

    async def _rest(self) -> None:
        """Let others work: for a while, and for as long as a client waits for a session."""
        await self._pause(REST_S)
        while self._deletions.awaited and not self._stopping.is_set():
            await self._pause(REST_S)

    async def _pause(self, seconds: float) -> None:
        with trio.move_on_after(seconds):
            await self._stopping.wait()

    async def _old_ones(self) -> list[_Old]:
        """The oldest of those that are to go, oldest first. Raises ``StoreFailed``."""
        moment = datetime.fromisoformat(self._clock())
        oldest: deque[_Old] = deque(maxlen=MOST_AT_ONCE)
        newer, cursor = 0, None
        while not self._stopping.is_set():
            page = await self._store.page(None, cursor, _PAGE)
            for record in page.sessions:
                why = self._why(record, newer, moment)
                newer += 1
                if why is not None and not self._deletions.in_use(record.session_id):
                    oldest.appendleft(_Old(record.session_id, record.updated_at, why))
            cursor = page.next_cursor
            if cursor is None:
                break
        return list(oldest)

    def _why(self, record: SessionRecord, newer: int, moment: datetime) -> str | None:
        """Why the session is to go, of which there are so many ``newer`` ones; None if it stays."""
        try:
            last = datetime.fromisoformat(record.updated_at)
            age = moment - last
            if last < FIRST:
                return None
        except (ValueError, TypeError):  # not a time, or one without its place on earth
            return None
        if self._days is not None and age > timedelta(days=self._days):
            return f"last active {record.updated_at}, more than {self._days} days ago"
        if self._sessions is not None and newer >= self._sessions and age > SETTLED:
            return f"last active {record.updated_at}, before the newest {self._sessions}"
        return None
