"""Looking at all that is kept, whole: the database by SQLite's own check, then each journal, row by row.

Nothing is changed and nobody is kept from writing: it is one reader more, in the ways of ``examine``, and as
long as it takes. (A database that an older term2 wrote is brought up to date first, as by a daemon.) What is
found is told by session and row, never by content. Journals are read in bounded pieces and folded as they
come, and of what is found only so much is kept, so memory does not grow with the store.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import quote

from term2_acp.domain.events import RecordsLost
from term2_acp.store import journal, schema
from term2_acp.store.claims import holder_in
from term2_acp.store.errors import BUSY, DAMAGED, READ_ONLY, StoreFailed, StoreTooNew, is_damage
from term2_acp.store.examine import ATTEMPTS, DATABASE, in_use, state_of
from term2_acp.store.faults import FAULTS
from term2_acp.store.findings import Kind, Verified
from term2_acp.store.pairing import UNASKED, UNSETTLED, Pairing
from term2_acp.store.places import LARGEST_NUMBER, bounds, number_of, readable_span, seq_of
from term2_acp.store.rows import RowCodec
from term2_acp.store.sessions import text_from_column

# Messages of SQLite's check, which ends there. Each may be a page; the first ones say enough.
_MESSAGES = 100

# Sessions that are looked up at once.
_PAGE = 500

_LEFT_OPEN = (
    "The database was left in the midst of a write; `term2 sessions list` sees to that. Then verify again."
)


def verify(directory: str) -> Verified:
    """Look at the store in the state directory, however long that takes.

    Raises ``StoreTooNew``, and ``StoreFailed`` where it could not look.
    """
    try:
        return _verify(directory, os.path.join(directory, DATABASE))
    except StoreFailed as error:
        if error.code != DAMAGED:
            raise
    verified = Verified(found=True)
    verified.add(Kind.DATABASE, None, None, "it cannot be read as a database")
    return verified


def _verify(directory: str, path: str) -> Verified:
    for _attempt in range(ATTEMPTS):
        before = state_of(path)
        if before is None:
            return Verified()
        at_rest = not in_use(path)
        try:
            verified = _look(directory, path, at_rest=at_rest)
        except StoreFailed:
            if before != state_of(path):
                continue  # it began or ended under our eyes, so it is looked at in the other way
            raise
        # At rest it is read as a file that nobody changes. Where somebody did, it may not fit together.
        if verified.sound or not at_rest or before == state_of(path):
            return verified
    raise StoreFailed.because(BUSY)


def _look(directory: str, path: str, *, at_rest: bool) -> Verified:
    verified = Verified(found=True)
    try:
        with closing(connection_to_look(path, at_rest=at_rest)) as connection:
            _check_database(connection, verified)
            look = _Look(directory, connection, verified)
            try:
                look.at_sessions()
                look.at_files()
            except FAULTS as error:
                _note_damage(error, verified)
    except FAULTS as error:
        raise _failure(error) from error
    return verified


def connection_to_look(path: str, *, at_rest: bool) -> sqlite3.Connection:
    """A connection that only reads: of a database that nobody changes, or as one reader more (``examine``).

    Raises ``StoreTooNew``, ``StoreFailed`` and ``FAULTS``.
    """
    known = len(schema.migration_files())
    for _attempt in range(2):
        way = "mode=ro&immutable=1" if at_rest else "mode=ro&readonly_shm=1"
        uri = f"file:{quote(os.fsencode(path))}?{way}"
        connection = sqlite3.connect(uri, uri=True, timeout=schema.BUSY_SECONDS, isolation_level=None)
        try:
            version = schema.version_of(connection)
            if version == known:
                connection.text_factory = schema.decode_leniently
                return connection
            if version > known:
                raise StoreTooNew
        except BaseException:
            connection.close()
            raise
        connection.close()
        schema.open_database(path).close()
    raise StoreFailed.because(BUSY)


def _failure(error: Exception) -> StoreFailed:
    failure = StoreFailed.from_error(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if failure.code == READ_ONLY and code != sqlite3.SQLITE_PERM:
        return StoreFailed(READ_ONLY, _LEFT_OPEN)
    return failure


def _check_database(connection: sqlite3.Connection, verified: Verified) -> None:
    """SQLite's own check, whole. It may give up at a damage behind which much can be read."""
    try:
        for (said,) in connection.execute(f"PRAGMA integrity_check({_MESSAGES})"):
            if said != "ok":
                verified.add(Kind.DATABASE, None, None, said)
    except FAULTS as error:
        _note_damage(error, verified)


def _note_damage(error: Exception, verified: Verified) -> None:
    """Add that the database is damaged, unless that was found already. Raises another error again."""
    if not is_damage(error):
        raise error
    if Kind.DATABASE not in verified.counts:
        verified.add(Kind.DATABASE, None, None, "it cannot be read to its end")


class _Look:
    """The look at the rows and files of a database that can be read."""

    def __init__(self, directory: str, connection: sqlite3.Connection, verified: Verified) -> None:
        self._directory = directory
        self._connection = connection
        self._verified = verified
        self._codec = RowCodec()

    def at_sessions(self) -> None:
        """Every session, and every row that there is."""
        bad = "SELECT COUNT(*) FROM session WHERE number NOT BETWEEN 1 AND ?"
        if self._connection.execute(bad, (LARGEST_NUMBER,)).fetchone() != (0,):
            self._verified.add(
                Kind.DATABASE, None, None, "there are sessions with numbers that none can have"
            )
        after = -LARGEST_NUMBER
        for number, session_id, listed in self._sessions():
            self._at_strays(after, number)
            after = number
            self._verified.sessions += 1
            if not listed:
                self._verified.add(
                    Kind.NOT_LISTED, session_id, None, "it has no time of last activity, so it is in no list"
                )
            self._guarded(number, session_id)
        self._at_strays(after, LARGEST_NUMBER + 1)

    def at_files(self) -> None:
        """The folders of outputs."""
        folder = os.path.join(self._directory, "artifacts")
        try:
            names = sorted(os.listdir(folder))
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreFailed.from_error(error) from error
        for name in names:
            known = self._connection.execute(
                "SELECT 1 FROM session WHERE id = ?", (os.fsencode(name),)
            ).fetchone()
            if known is None and os.path.lexists(os.path.join(folder, name)):
                self._verified.add(Kind.STRAY_FILES, name, None, "outputs are kept of a session that is not")

    def _sessions(self) -> Iterator[tuple[int, str, bool]]:
        after = 0
        while rows := self._connection.execute(
            "SELECT number, id, activity.session IS NOT NULL FROM session "
            "LEFT JOIN activity ON activity.session = number "
            "WHERE number > ? AND number <= ? ORDER BY number LIMIT ?",
            (after, LARGEST_NUMBER, _PAGE),
        ).fetchall():
            before = after
            for number, session_id, listed in rows:
                if number > after:  # a damaged tree may lead back
                    yield number, text_from_column(session_id), bool(listed)
                    after = number
            if after == before:
                reason = "the way from one session to the next leads back"
                self._verified.add(Kind.DATABASE, None, None, reason)
                return

    def _at_strays(self, after: int, before: int) -> None:
        """Rows whose session would be between these numbers, where there is none.

        One statement sees both as they are at one time: a session may be made or deleted meanwhile.
        """
        _start, last = bounds(after)
        while row := self._connection.execute(
            "SELECT place FROM journal WHERE place > ? AND place < ? "
            "AND NOT EXISTS (SELECT 1 FROM session WHERE number = place >> 32) ORDER BY place LIMIT 1",
            (last, bounds(before)[0] - 1),
        ).fetchone():
            if row[0] <= last:  # a damaged tree leads back; the check of the database says that it is one
                return
            number = number_of(row[0])
            reason = f"there are records of a session {number}, which there is not"
            self._verified.add(Kind.NO_SESSION, None, seq_of(row[0]), reason)
            _start, last = bounds(number)

    def _guarded(self, number: int, session_id: str) -> None:
        try:
            self._at_journal(number, session_id)
        except FAULTS as error:
            if not is_damage(error):
                raise
            self._verified.add(Kind.DATABASE, session_id, None, "its records cannot be read to their end")

    def _at_journal(self, number: int, session_id: str) -> None:
        held = self._held(number)
        pairing = Pairing()
        span = readable_span(self._connection, number)
        after, until = span.after, span.until
        seq = 0
        while after < until:
            chunk = journal.read_chunk(self._connection, self._codec, after, until)
            if chunk.place is None:
                if not self._held(number):  # else it is being deleted, from its end
                    self._lost(session_id, journal.Damage(seq_of(after) + 1, "", missing=until - after))
                break
            for row in chunk.lost:
                self._lost(session_id, row)
            for event in chunk.events:
                size = event.damaged + event.newer if isinstance(event, RecordsLost) else 1
                seq += size
                wrong = pairing.see(event)
                if wrong is not None:
                    self._out_of_order(session_id, seq, wrong)
            self._verified.records += chunk.place - after - sum(row.missing for row in chunk.lost)
            after = chunk.place
        if (end := journal.hidden_end(span)) is not None:
            self._lost(session_id, *end.lost)
            pairing.see(*end.events)
        if pairing.unsettled and not held and not self._held(number):
            self._out_of_order(session_id, seq, UNSETTLED)

    def _held(self, number: int) -> bool:
        """Whether a process that lives has the session open, or it has just been deleted."""
        there = self._connection.execute("SELECT 1 FROM session WHERE number = ?", (number,)).fetchone()
        return there is None or holder_in(self._directory, number) is not None

    def _lost(self, session_id: str, row: journal.Damage) -> None:
        if row.missing:
            reason = "records are missing from here to the next"
            self._verified.add(Kind.MISSING, session_id, row.seq, reason)
        else:
            kind = Kind.NEWER if row.newer else Kind.UNREADABLE
            self._verified.add(kind, session_id, row.seq, row.reason)

    def _out_of_order(self, session_id: str, seq: int, wrong: str) -> None:
        if wrong == UNSETTLED:
            reason = "a tool call was never settled; opening the session says what became of it"
            self._verified.add(Kind.UNSETTLED, session_id, seq, reason)
        elif wrong == UNASKED:
            self._verified.add(Kind.OUT_OF_ORDER, session_id, seq, "a record of a call that nobody asked for")
        else:
            self._verified.add(
                Kind.OUT_OF_ORDER, session_id, seq, "a record of a call comes twice or too late"
            )
