"""The database as one object: everything here blocks, and runs on the store's thread.

This module and those below it (``schema``, ``sessions``, ``journal``) import sqlite3; ``store`` imports it
when it is opened, so that a daemon that has no session yet does not pay for it. How events become rows, and
where those stand, is imported with the first of them: a session that is only made has none, and an editor
waits for it.
"""

import functools
import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from term2_acp.domain.events import Event
from term2_acp.store import schema, sessions
from term2_acp.store.errors import StoreFailed, UnknownSession, is_damage
from term2_acp.store.faults import FAULTS
from term2_acp.store.places import Span, readable_span, span
from term2_acp.store.records import Page, SessionRecord

if TYPE_CHECKING:  # see the module
    from term2_acp.store.journal import Chunk
    from term2_acp.store.rows import Row, RowCodec

logger = logging.getLogger(__name__)

T = TypeVar("T")


@functools.cache
def _codec() -> "RowCodec":
    """The one of this process, made where it is needed first: in two threads at once, either will do."""
    from term2_acp.store.rows import RowCodec

    return RowCodec()


class Database:
    """One connection and the codec of its rows. Methods raise ``faults.FAULTS`` and ``StoreFailed``.

    Those that write are called by the work of a ``commit``. All but ``to_rows`` belong to the thread
    that made the object.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(cls, path: str, connect: Callable[[str], sqlite3.Connection] | None = None) -> "Database":
        """Open the database at the path, by ``connect`` if it is given. Raises ``StoreFailed``."""
        try:
            return cls((connect or schema.open_database)(path))
        except FAULTS as error:
            logger.exception("the session store cannot be opened")
            raise StoreFailed.from_error(error) from error

    def read(self, fn: Callable[["Database"], T]) -> T:
        """Call ``fn`` with this database; what SQLite raises comes out as ``StoreFailed``."""
        try:
            return fn(self)
        except FAULTS as error:
            logger.exception("the store could not read")
            raise StoreFailed.from_error(error) from error

    def commit(self, work: Callable[[], None]) -> None:
        """Do the work in one write transaction."""
        schema.commit(self._connection, work)

    def close(self) -> None:
        """Close the connection; the last one to close folds the write-ahead log in."""
        self._connection.close()

    def create(self, record: SessionRecord) -> int:
        """Add a session; its number."""
        return sessions.create(self._connection, record)

    def find(self, session_id: str) -> SessionRecord | None:
        """The session's record, if there is such a session."""
        return sessions.find(self._connection, session_id)

    def page(self, cwd: str | None, cursor: str | None, limit: int) -> Page:
        """One page of the list."""
        return sessions.page(self._connection, cwd, cursor, limit)

    def number_of(self, session_id: str) -> int:
        """The session's number. Raises ``UnknownSession``."""
        number = sessions.number_of(self._connection, session_id)
        if number is None:
            raise UnknownSession
        return number

    def to_rows(self, events: Iterable[Event]) -> "list[Row]":
        """The rows that keep these events. Safe on any thread."""
        return _codec().to_rows(events)

    def append(
        self, number: int, rows: "Sequence[Row]", at: int, updated_at: str | None, title: str | None
    ) -> None:
        """Add rows to a session's journal, written ``at``; with ``updated_at`` it was active then.

        Raises ``UnknownSession``, where it has to look, and ``StoreFailed`` where damage hides its end.
        """
        from term2_acp.store import journal

        if updated_at is not None and not sessions.touch(
            self._connection, number, updated_at, title, len(rows)
        ):
            raise UnknownSession
        journal.append(self._connection, number, rows, at)

    def remove(self, session_id: str, piece: int) -> bool:
        """Remove a session, or the end of one that is longer than ``piece`` bytes; whether more is left."""
        from term2_acp.store import journal

        number = sessions.number_of(self._connection, session_id)
        if number is None:
            return False
        if journal.remove(self._connection, number, piece):
            sessions.shorten(self._connection, number)
            return True
        sessions.remove(self._connection, number)
        return False

    def give_back(self, pages: int) -> bool:
        """Take so many free pages off the end of the database; whether there may be more."""
        return schema.give_back(self._connection, pages)

    def empty_log(self) -> bool:
        """Fold the write-ahead log in and leave nothing of it behind; False where others use it just now."""
        return schema.empty_log(self._connection)

    def span(self, number: int) -> Span:
        """Where a session's rows are, as far as they can be found."""
        return readable_span(self._connection, number)

    def length(self, number: int) -> int | None:
        """How many rows a session has; None where damage hides the last of them."""
        try:
            whole = span(self._connection, number)
        except FAULTS as error:
            if not is_damage(error):
                raise
            return None
        return None if whole.hidden_end else whole.until - whole.after

    def read_chunk(self, after: int, until: int) -> "Chunk":
        """The next rows of a session."""
        from term2_acp.store import journal

        return journal.read_chunk(self._connection, _codec(), after, until)
