"""The journal of a session: append-only rows, reading them back in bounded pieces, and removing all of them.

A row's place is ``number << 32 | seq``: the session's number and a sequence number from 1, so that a
session's rows are one range of the table's own key. The functions run on the store's thread.

``JournalReader`` reads up to the row that was the last when it was opened, a chunk at a time, and holds
no transaction in between: a long history neither fills memory nor keeps the write-ahead log from being
folded in, and what is appended meanwhile is not waited for.
"""

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio
from attrs import frozen

from term2_acp.domain.events import Event

if TYPE_CHECKING:  # with the first row (``database``)
    from term2_acp.store.rows import Row, RowCodec

logger = logging.getLogger(__name__)

# One chunk of a read. 500 rows make the hop to the thread small beside decoding them (1.5 ms); the bytes
# bound memory when rows are large, and one larger row is read alone.
CHUNK_ROWS = 500
CHUNK_BYTES = 1024 * 1024

# One piece of a removal: some 50 ms, in which nobody else can write. The bytes that a row takes beside its
# body are counted too, or a piece of short rows would be a hundred thousand of them.
PIECE_BYTES = 4 * 1024 * 1024
_BESIDE_BODY = 64

_SEQ_BITS = 32


@frozen
class Damage:
    """A row that was skipped. ``reason`` names the fault and holds nothing of the content."""

    seq: int
    reason: str


@frozen
class Chunk:
    """Some rows of a journal, read. ``place`` is the last row's; None when there were none."""

    place: int | None
    events: Sequence[Event]
    damaged: Sequence[Damage]
    newer: Sequence[Damage]


def append(connection: sqlite3.Connection, number: int, rows: "Sequence[Row]") -> None:
    """Add the rows behind the session's last. Inside the caller's write transaction.

    The last place is looked up for each row (2 us): nothing that is remembered can be wrong after a
    rollback or when another process wrote. It is one statement with the insertion, since every call of
    SQLite's gives the interpreter's lock away and has to win it back.
    """
    start = number << _SEQ_BITS
    limit = start + (1 << _SEQ_BITS) - 1
    connection.executemany(
        "INSERT INTO journal (place, version, kind, body) "
        "SELECT COALESCE(MAX(place), ?) + 1, ?, ?, ? FROM journal WHERE place BETWEEN ? AND ?",
        [(start, row.version, row.kind, row.body, start, limit) for row in rows],
    )


def span(connection: sqlite3.Connection, number: int) -> tuple[int, int]:
    """The places of a session's rows as ``(after, until]``; both the same when there are none."""
    start = number << _SEQ_BITS
    limit = start + (1 << _SEQ_BITS) - 1
    (last,) = connection.execute(
        "SELECT MAX(place) FROM journal WHERE place BETWEEN ? AND ?", (start, limit)
    ).fetchone()
    return start, start if last is None else int(last)


def remove(connection: sqlite3.Connection, number: int) -> bool:
    """Remove the last of a session's rows, a piece of them; whether any are left.

    What is left is the beginning of a journal, as a crash leaves one. Inside the caller's write transaction.
    """
    start = number << _SEQ_BITS
    limit = start + (1 << _SEQ_BITS) - 1
    rows = connection.execute(
        "SELECT place, LENGTH(body) FROM journal WHERE place BETWEEN ? AND ? ORDER BY place DESC",
        (start, limit),
    )
    first, size, left = limit, 0, False
    for place, length in rows:
        size += length + _BESIDE_BODY
        if size > PIECE_BYTES and first != limit:
            left = True
            break
        first = place
    rows.close()
    connection.execute("DELETE FROM journal WHERE place BETWEEN ? AND ?", (first, limit))
    return left


def read_chunk(connection: sqlite3.Connection, codec: "RowCodec", after: int, until: int) -> Chunk:
    """The next rows in ``(after, until]``, within the bounds of a chunk."""
    from term2_acp.store.rows import DamagedRow, NewerRow

    events: list[Event] = []
    damaged: list[Damage] = []
    newer: list[Damage] = []
    place: int | None = None
    size = 0
    cursor = connection.execute(
        "SELECT place, version, kind, body FROM journal "
        "WHERE place > ? AND place <= ? ORDER BY place LIMIT ?",
        (after, until, CHUNK_ROWS),
    )
    for place, version, kind, body in cursor:
        try:
            events.append(codec.from_row(version, kind, body))
        except DamagedRow as error:
            damaged.append(Damage(_seq(place), f"{kind}: {error}"))
        except NewerRow:
            newer.append(Damage(_seq(place), f"{kind}, format {version}"))
        size += len(body or b"")
        if size >= CHUNK_BYTES:
            break
    cursor.close()  # an open cursor is an open read transaction
    return Chunk(place, events, damaged, newer)


def _seq(place: int) -> int:
    return place & ((1 << _SEQ_BITS) - 1)


class JournalReader:
    """One reading of a journal: ``async with store.journal(session_id) as journal``.

    ``skipped`` counts the rows that were not handed on, so far. They are named in the log when the
    context is left.
    """

    def __init__(
        self,
        session_id: str,
        find_span: Callable[[], Awaitable[tuple[int, int]]],
        read: Callable[[int, int], Awaitable[Chunk]],
    ) -> None:
        self._session_id = session_id
        self._find_span = find_span
        self._read = read
        self._after = self._until = 0
        self._damaged: list[Damage] = []
        self._damaged_count = 0
        self._newer: list[Damage] = []
        self._newer_count = 0

    @property
    def skipped(self) -> int:
        """How many rows were damaged or of a newer format, so far."""
        return self._damaged_count + self._newer_count

    async def receive(self) -> list[Event]:
        """Wait for the next events, in order; ``[]`` at the end, and from then on.

        Raises ``StoreFailed``. Cancelled, it may be called again and goes on where it was.
        """
        while self._after < self._until:
            chunk = await self._read(self._after, self._until)
            self._note(chunk)
            self._after = self._until if chunk.place is None else chunk.place
            if chunk.events:
                return list(chunk.events)
        await trio.lowlevel.checkpoint()
        return []

    def _note(self, chunk: Chunk) -> None:
        # The first one is enough to look at; a list of all of them would grow with the damage.
        self._damaged = self._damaged or list(chunk.damaged[:1])
        self._damaged_count += len(chunk.damaged)
        self._newer = self._newer or list(chunk.newer[:1])
        self._newer_count += len(chunk.newer)

    async def __aenter__(self) -> Self:
        self._after, self._until = await self._find_span()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        for what, count, first in (
            ("damaged", self._damaged_count, self._damaged),
            ("from a newer term2", self._newer_count, self._newer),
        ):
            if count:
                logger.warning(
                    "session %s: %d row(s) of its journal are %s and were skipped; the first is row %d (%s)",
                    self._session_id, count, what, first[0].seq, first[0].reason,
                )  # fmt: skip
