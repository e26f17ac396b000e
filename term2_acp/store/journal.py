"""The journal of a session: append-only rows, reading them back in bounded pieces, and removing all of them.

Where a session's rows are is said in ``places``. They have no gaps: where one is, rows are lost. What cannot
be read costs itself only, and is said in its place.

The functions run on the store's thread.

``JournalReader`` reads up to the row that was the last when it was opened, a chunk at a time, and holds
no transaction in between: a long history neither fills memory nor keeps the write-ahead log from being
folded in, and what is appended meanwhile is not waited for.
"""

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from term2_acp.domain.classes import frozen
from term2_acp.domain.events import Event, RecordsLost
from term2_acp.store.errors import DAMAGED, StoreFailed, is_damage
from term2_acp.store.faults import FAULTS
from term2_acp.store.places import OF_SESSION, Span, bounds, last_of, seq_of

if TYPE_CHECKING:  # with the first row (``database``)
    from term2_acp.store.rows import Row, RowCodec

logger = logging.getLogger(__name__)

# One chunk of a read. 500 rows make the hop to the thread small beside decoding them (1.5 ms); the bytes
# bound memory when rows are large, and one larger row is read alone.
CHUNK_ROWS = 500
CHUNK_BYTES = 1024 * 1024

# What a row takes beside its body. It is counted where rows are removed, or a piece of short ones would be a
# hundred thousand of them.
_BESIDE_BODY = 64

_SELECT = "SELECT place, version, kind, body, at FROM journal"


@frozen
class Damage:
    """A row that cannot be read. ``reason`` names the fault and holds nothing of the content.

    ``newer``: it is not damaged, but was written by a newer term2. ``missing``: so many rows from this one on
    are not there at all.
    """

    seq: int
    reason: str
    newer: bool = False
    missing: int = 0

    @property
    def rows(self) -> int:
        """How many rows it is about."""
        return self.missing or 1


@frozen
class Chunk:
    """Some rows of a journal, read. ``place`` is the last row's; None when there were none.

    ``events`` has one event for each row, and one ``RecordsLost`` for each run of rows that cannot be read.
    ``times`` are when their rows were written (milliseconds since 1970), None where that is not known.
    """

    place: int | None
    events: Sequence[Event]
    times: Sequence[int | None]
    lost: Sequence[Damage]


@frozen
class Dated:
    """An event of a journal, and when its row was written; see ``Chunk``."""

    event: Event
    at: int | None


def append(connection: sqlite3.Connection, number: int, rows: "Sequence[Row]", at: int) -> None:
    """Add the rows behind the session's last, written ``at``. Inside the caller's write transaction.

    The last place is looked up for each row (2 us): nothing that is remembered can be wrong after a
    rollback or when another process wrote. It is one statement with the insertion, since every call of
    SQLite's gives the interpreter's lock away and has to win it back.
    """
    start, limit = bounds(number)
    connection.executemany(
        "INSERT INTO journal (place, version, kind, body, at) "
        f"SELECT COALESCE(MAX(place), ?1) + 1, ?3, ?4, ?5, ?6 {OF_SESSION}",
        [(start, limit, row.version, row.kind, row.body, at) for row in rows],
    )


def remove(connection: sqlite3.Connection, number: int, piece: int) -> bool:
    """Remove the last of a session's rows, ``piece`` bytes of them; whether any are left.

    What is left is the beginning of a journal, as a crash leaves one. Inside the caller's write transaction.
    Raises ``StoreFailed`` where damage leads to rows that cannot be removed: whoever goes on while any are
    left would go on for ever.
    """
    start, limit = bounds(number)
    rows = connection.execute(
        f"SELECT place, COALESCE(LENGTH(body), 0) {OF_SESSION} ORDER BY place DESC", (start, limit)
    )
    first, size, left = limit, 0, False
    for place, length in rows:
        size += length + _BESIDE_BODY
        if size > piece and first != limit:
            left = True
            break
        first = place
    rows.close()
    removed = connection.execute(f"DELETE {OF_SESSION}", (first if left else start, limit)).rowcount
    if left and removed == 0:
        raise StoreFailed.because(DAMAGED)
    return left


def read_chunk(connection: sqlite3.Connection, codec: "RowCodec", after: int, until: int) -> Chunk:
    """The next rows in ``(after, until]``, within the bounds of a chunk.

    A page of the database that cannot be read hides the rows in it, and no others. Nor can rows be found that
    a damaged tree does not lead to (``places``): they are missing, where the last of them is there.
    """
    taken = _Taken(codec, after)
    cursor = connection.cursor()
    try:
        cursor.execute(
            f"{_SELECT} WHERE place > ?1 AND place <= ?2 AND +place > ?1 AND +place <= ?2 "
            "ORDER BY place LIMIT ?3",
            (after, until, CHUNK_ROWS),
        )
        taken.take(cursor)
    except FAULTS as error:
        if not is_damage(error):
            raise
        if taken.place == after:  # else the damage comes first the next time
            _take_apart(connection, taken, after, min(until, after + CHUNK_ROWS))
    finally:
        cursor.close()  # an open cursor is an open read transaction
    if taken.place == after:
        # They are being deleted, and then from their end on, or the way to them is damaged.
        taken.miss(min(until, last_of(connection, after)))
    return Chunk(None if taken.place == after else taken.place, taken.events, taken.times, taken.lost)


def hidden_end(span: Span) -> Chunk | None:
    """What stands behind the last row that can be found; None where nothing is hidden there."""
    if not span.hidden_end:
        return None
    seq = seq_of(span.until) + 1
    lost = Damage(seq, "damage hides whether more follow")
    return Chunk(span.until, [RecordsLost(seq, 0, 0, hidden_end=True)], [None], [lost])


def _take_apart(connection: sqlite3.Connection, taken: "_Taken", after: int, until: int) -> None:
    """Look for each row of ``(after, until]`` by itself, up to the first that can be read."""
    for place in range(after + 1, until + 1):
        try:
            found = connection.execute(f"{_SELECT} WHERE place = ?", (place,)).fetchall()
        except FAULTS as error:
            if not is_damage(error):
                raise
            taken.lose(place, "its page of the database is damaged")
            continue
        taken.take(found)
        if found:
            return
    taken.miss(until)


class _Taken:
    """What a chunk has so far; see ``Chunk``. ``place`` is what it has been taken to."""

    def __init__(self, codec: "RowCodec", place: int) -> None:
        self._codec = codec
        self.place = place
        self.events: list[Event] = []
        self.times: list[int | None] = []
        self.lost: list[Damage] = []

    def take(self, rows: Iterable[tuple[int, object, str, bytes, object]]) -> None:
        """The next rows, until there are bytes enough."""
        from term2_acp.store.rows import DamagedRow, NewerRow  # it is there: somebody made the codec

        read, event, time = self._codec.from_row, self.events.append, self.times.append
        size = 0
        for place, version, kind, body, at in rows:
            if place != self.place + 1:
                if place <= self.place:
                    continue  # a damaged tree: the row was read, or told to be missing
                self.miss(place - 1)
            self.place = place
            try:
                event(read(version, kind, body))
                time(at if type(at) is int else None)
                size += len(body)
            except DamagedRow as error:
                self.lose(place, str(error))
            except NewerRow as error:
                self.lose(place, str(error), newer=True)
            if size >= CHUNK_BYTES:
                break

    def lose(self, place: int, reason: str, *, newer: bool = False) -> None:
        """The next row, which cannot be read. It stands in its place; neighbours are one loss."""
        self.place = place
        self._lose(Damage(seq_of(place), reason, newer))

    def miss(self, until: int) -> None:
        """The next rows, up to this place, which are not there. As ``lose``."""
        count = until - self.place
        if count > 0:
            self._lose(Damage(seq_of(self.place + 1), "it is not there", missing=count))
            self.place = until

    def _lose(self, row: Damage) -> None:
        self.lost.append(row)
        damaged, newer = (0, 1) if row.newer else (row.rows, 0)
        last = self.events[-1] if self.events else None
        if isinstance(last, RecordsLost):
            self.events[-1] = RecordsLost(last.seq, last.damaged + damaged, last.newer + newer)
        else:
            self.events.append(RecordsLost(row.seq, damaged, newer))
            self.times.append(None)


class JournalReader:
    """One reading of a journal: ``async with store.journal(session_id) as journal``.

    ``skipped`` counts the rows that were not handed on, so far. They are named in the log when the
    context is left.
    """

    def __init__(
        self,
        session_id: str,
        find_span: Callable[[], Awaitable[Span]],
        read: Callable[[int, int], Awaitable[Chunk]],
    ) -> None:
        self._session_id = session_id
        self._find_span = find_span
        self._read = read
        self._after = self._until = 0
        self._end: Chunk | None = None
        self._first: dict[bool, Damage] = {}  # by whether it is newer; all of them would grow with the damage
        self._counts = {False: 0, True: 0}

    @property
    def skipped(self) -> int:
        """How many rows were damaged or of a newer format, so far."""
        return sum(self._counts.values())

    async def receive(self) -> list[Event]:
        """Wait for the next events, in order; ``[]`` at the end, and from then on.

        A ``RecordsLost`` stands in place of rows that cannot be read.

        Raises ``StoreFailed``. Cancelled, it may be called again and goes on where it was.
        """
        chunk = await self._next()
        return [] if chunk is None else list(chunk.events)

    async def receive_dated(self) -> list[Dated]:
        """As ``receive``, each event with its time."""
        chunk = await self._next()
        return [] if chunk is None else list(map(Dated, chunk.events, chunk.times))

    async def _next(self) -> Chunk | None:
        while self._after < self._until:
            chunk = await self._read(self._after, self._until)
            self._count(chunk)
            self._after = self._until if chunk.place is None else chunk.place
            if chunk.events:
                return chunk
        await trio.lowlevel.checkpoint()
        end, self._end = self._end, None
        if end is not None:
            self._count(end)
        return end

    def _count(self, chunk: Chunk) -> None:
        for row in chunk.lost:
            self._first.setdefault(row.newer, row)
            self._counts[row.newer] += row.rows

    async def __aenter__(self) -> Self:
        span = await self._find_span()
        self._after, self._until, self._end = span.after, span.until, hidden_end(span)
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        for newer, first in self._first.items():
            logger.warning(
                "session %s: %d row(s) of its journal are %s and were skipped; the first is row %d (%s)",
                self._session_id,
                self._counts[newer],
                "from a newer term2" if newer else "damaged",
                first.seq,
                first.reason,
            )
