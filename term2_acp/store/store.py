"""The store's face to the rest of the daemon: what is awaited here is done on the runner's thread.

Order of life: make it, ``run`` it in a nursery that outlives every session, ``open`` it before the
first use (any number of times), ``aclose`` it when the sessions are closed.

- Reads and writes share the one thread and the one connection, and each is one hop. Writes go through
  the ``GroupWriter``; an ``append`` that returned is on disk as far as the death of the process goes.
- A session's number never changes, so it is remembered once it was seen in a *committed* state.
- Locks are taken on the loop, after the last checkpoint: a cancel cannot lose a claim that was taken.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

import trio

from term2_acp.domain.events import Event, Idle, SessionInfoUpdate, UserMessage
from term2_acp.domain.ids import SessionId
from term2_acp.store.claims import Claim, Locks, holder_in, open_locks
from term2_acp.store.errors import CLOSED, StoreFailed
from term2_acp.store.private import make_directory
from term2_acp.store.records import Page, SessionRecord, Standing
from term2_acp.store.removal import Removal
from term2_acp.store.runner import Runner
from term2_acp.store.writer import GroupWriter

if TYPE_CHECKING:  # they import sqlite3 and cattrs, which wait for the store to be opened
    import sqlite3

    from term2_acp.store.database import Database
    from term2_acp.store.journal import Chunk, JournalReader
    from term2_acp.store.places import Span

logger = logging.getLogger(__name__)

T = TypeVar("T")

# The events by which a session counts as active.
_ACTIVITY: frozenset[type] = frozenset({UserMessage, Idle, SessionInfoUpdate})

PAGE_SIZE = 50
"""Sessions on one page of the list."""


def now() -> str:
    """This moment as the store keeps it: ISO 8601, UTC, milliseconds, ``Z``."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds() -> int:
    """This moment as the rows of a journal keep it: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Store:
    """What survives a restart: the sessions, their journals, and who has them open.

    It owns the runner and closes it. ``clock`` gives the time of an activity; ``connect`` opens the
    database at a path, with its tables, in the calling thread.

    Every method but ``run`` and ``aclose`` raises ``StoreFailed`` when the store cannot be read or
    written, and before ``open`` and after ``aclose``.
    """

    def __init__(
        self,
        directory: str,
        runner: Runner,
        *,
        clock: Callable[[], str] = now,
        connect: "Callable[[str], sqlite3.Connection] | None" = None,
    ) -> None:
        self._directory = directory
        self._runner = runner
        self._clock = clock
        self._connect = connect
        self._database: Database | None = None
        self._locks: Locks | None = None
        self._opening = trio.Lock()
        self._closed = False
        self._files_are_closed = False
        self._numbers: dict[str, int] = {}
        self._writer = GroupWriter(runner, self._opened)

    @property
    def opened(self) -> bool:
        """Whether it is open, and not closed again."""
        return self._database is not None and not self._closed

    async def open(self) -> None:
        """Make the directory (0700) and the files (0600) and bring the tables up to date.

        At once when it is open already. After a failure it may be tried again. Raises ``StoreTooNew``
        (the file was not touched) and ``StoreFailed``.
        """
        async with self._opening:
            if self._closed:
                raise StoreFailed.because(CLOSED)
            if self._database is None:
                await self._runner.run(self._open_here)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """The writer task. It ends by ``aclose`` or a cancel, and writes what waits first."""
        task_status.started()
        await self._writer.run()

    async def aclose(self) -> None:
        """Take nothing more, write what waits, give all claims back, and close the files.

        It waits for the disk; the caller bounds it. Cancelled, the process may end as it is: the store
        opens cleanly afterwards.
        """
        self._closed = True
        await self._writer.aclose()
        if not self._files_are_closed:
            self._files_are_closed = True
            await self._runner.run(self._close_here)
        await self._runner.aclose()

    async def create(self, record: SessionRecord) -> None:
        """Add a session and wait until that is committed.

        Cancelled, the session is added all the same: it is then in the list, and empty.
        """
        self._numbers[record.session_id] = await self._writer.write(lambda database: database.create(record))

    async def find(self, session_id: str) -> SessionRecord | None:
        """Look a session up by its id; None when there is no such session."""
        return await self._read(lambda database: database.find(session_id))

    async def page(self, cwd: str | None, cursor: str | None, limit: int = PAGE_SIZE) -> Page:
        """Read one page of the list, last active first; only sessions of ``cwd`` when it is given.

        ``cursor`` is the ``next_cursor`` of the page before. Sessions that are added meanwhile change
        nothing that follows. Raises ``BadCursor``.
        """
        return await self._read(lambda database: database.page(cwd, cursor, limit))

    async def standing(self, session_id: SessionId) -> Standing:
        """How much there is of a session, and who has it open. It only looks, and takes no claim.

        Raises ``UnknownSession``.
        """

        def look(database: "Database") -> Standing:
            number = database.number_of(session_id)
            try:
                return Standing(database.length(number), holder_in(self._directory, number))
            except OSError as error:
                raise StoreFailed.from_error(error) from error

        return await self._read(look)

    async def append(self, session_id: SessionId, events: Sequence[Event], *, active: bool = True) -> None:
        """Journal what is to be kept of these events and wait until it is committed.

        Events that are only shown are left out, and a run of chunks of one message becomes one row.
        A session counts as active when a turn of it begins or ends, and takes the title of a
        ``SessionInfoUpdate``; without ``active``, neither. Raises ``StoreFailed``: nothing of these events
        was kept, those of other sessions were. Cancelled, the events are kept all the same.
        """
        if self._database is None:
            raise StoreFailed.because(CLOSED)
        rows = self._database.to_rows(events)
        if not rows:
            await trio.lowlevel.checkpoint()
            return
        title = updated_at = None
        # Not at each append: while a turn streams, that would be a page more in every commit.
        if active and not _ACTIVITY.isdisjoint(map(type, events)):
            title = next((e.title for e in reversed(events) if isinstance(e, SessionInfoUpdate)), None)
            updated_at = self._clock()
        known = self._numbers.get(session_id)
        at = milliseconds()

        def work(database: "Database") -> int:
            number = database.number_of(session_id) if known is None else known
            database.append(number, rows, at, updated_at, title)
            return number

        self._numbers[session_id] = await self._writer.write(work)

    def journal(self, session_id: SessionId) -> "JournalReader":
        """What the session's journal holds now, to be read in pieces of bounded size.

        Use it as ``async with store.journal(session_id) as journal`` and call ``receive`` until it
        gives ``[]``. Entering raises ``UnknownSession``.
        """
        from term2_acp.store.journal import JournalReader  # it imports sqlite3 and cattrs

        async def find_span() -> "Span":
            return await self._read(lambda database: database.span(database.number_of(session_id)))

        async def read(after: int, until: int) -> "Chunk":
            return await self._read(lambda database: database.read_chunk(after, until))

        return JournalReader(session_id, find_span, read)

    async def claim(self, session_id: SessionId) -> Claim:
        """Take the session for this process, or raise ``ClaimedElsewhere`` at once; it never queues.

        A process that was killed holds nothing. Raises ``UnknownSession``. Cancelled, nothing is held.
        """
        number = self._numbers.get(session_id)
        if number is None:
            number = await self._read(lambda database: database.number_of(session_id))
            self._numbers[session_id] = number
        else:
            await trio.lowlevel.checkpoint()
        if self._locks is None:
            raise StoreFailed.because(CLOSED)
        self._locks.acquire(number)
        return Claim(self._locks, number)

    async def delete(self, session_id: SessionId) -> None:
        """Remove a session for good: its artifacts, its journal and its place in the list, in this order.

        The caller holds its claim. Nothing happens when there is no such session. When this returns, the
        texts of the session are overwritten in the database, and the write-ahead log that held them is
        emptied, unless another process reads at that moment: then the next deletion does it, or the last
        process to end. What the database has no use for is given back to the disk, and not overwritten there.

        How, also on a disk that is full, ``removal`` says.

        Raises ``StoreFailed``: it is still in the list, without its artifacts and perhaps the end of a long
        journal, and can be deleted again. Cancelled, it may have been removed, in part, or not.
        """
        if await self.find(session_id) is None:
            return
        await self._on_thread(lambda: self._remove_artifacts(session_id))
        removal = Removal(session_id, self._writer.write, self._read)
        await removal.rows()
        self._numbers.pop(session_id, None)
        if not self._closed:  # else the log is about to be folded in
            await removal.space()

    async def _read(self, fn: "Callable[[Database], T]") -> T:
        return await self._on_thread(lambda: self._opened().read(fn))

    async def _on_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise StoreFailed.because(CLOSED)
        return await self._runner.run(work)

    # -- on the runner's thread --------------------------------------------------------------------

    def _opened(self) -> "Database":
        if self._database is None:
            raise StoreFailed.because(CLOSED)
        return self._database

    def _open_here(self) -> None:
        from term2_acp.store.database import Database  # it imports sqlite3 and cattrs

        if self._database is not None:
            return  # a caller that was cancelled has opened it all the same
        try:
            make_directory(self._directory)
            self._locks = self._locks or open_locks(self._directory)
            self._database = Database.open(os.path.join(self._directory, "sessions.db"), self._connect)
        except StoreFailed:
            raise
        except OSError as error:
            logger.exception("the session store cannot be opened")
            raise StoreFailed.from_error(error) from error

    def _remove_artifacts(self, session_id: SessionId) -> None:
        from term2_acp.store.artifacts import artifacts_of  # few sessions are ever deleted

        try:
            artifacts_of(self._directory, session_id).remove()
        except OSError as error:
            logger.exception("the artifacts of a session cannot be removed")
            raise StoreFailed.from_error(error) from error

    def _close_here(self) -> None:
        database, self._database = self._database, None
        locks, self._locks = self._locks, None
        if locks is not None:
            locks.close()
        if database is not None:
            database.close()
