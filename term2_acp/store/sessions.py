"""The list of sessions: plain functions over a connection, run on the store's thread.

Texts that come from outside (ids, directories, titles) are kept as bytes: UTF-8 in which lone
surrogates may stand, because a directory's name on Linux need not be UTF-8 and SQLite takes no lone
surrogate as text.

A page is found by its *key*, the activity and number of the last session of the page before, never by
an offset: sessions that are added meanwhile come before it and move nothing. A session that is used
while someone pages moves to the front, so a later page no longer has it.
"""

import base64
import binascii
import re
import sqlite3

import msgspec

from term2_acp.domain.ids import SessionId
from term2_acp.store.errors import DAMAGED, BadCursor, StoreFailed
from term2_acp.store.places import LARGEST_NUMBER, span
from term2_acp.store.records import Page, SessionRecord

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)

_CURSOR_LIMIT = 200  # characters; ours have about 60


def create(connection: sqlite3.Connection, record: SessionRecord) -> int:
    """Add the session and return its number. Raises ``ValueError`` for a time of another form."""
    if not (_TIME.fullmatch(record.created_at) and _TIME.fullmatch(record.updated_at)):
        raise ValueError("times are ISO 8601, UTC, with milliseconds and Z")
    cursor = connection.execute(
        "INSERT INTO session (id, cwd, title, created_at) VALUES (?, ?, ?, ?)",
        (
            text_to_column(record.session_id),
            text_to_column(record.cwd),
            None if record.title is None else text_to_column(record.title),
            record.created_at,
        ),
    )
    number = cursor.lastrowid
    assert number is not None
    connection.execute(
        "INSERT INTO activity (session, updated_at) VALUES (?, ?)", (number, record.updated_at)
    )
    return number


def number_of(connection: sqlite3.Connection, session_id: str) -> int | None:
    """The number of the session, or None when there is no such session."""
    row = connection.execute(
        "SELECT number FROM session WHERE id = ?", (text_to_column(session_id),)
    ).fetchone()
    return None if row is None else int(row[0])


def touch(connection: sqlite3.Connection, number: int, updated_at: str, title: str | None, rows: int) -> bool:
    """Note that the session was active, its title if there is one, and that so many rows are added to those
    that it has. False: no such session.

    Raises ``StoreFailed`` where damage hides some of its rows: nothing can be put behind them.
    """
    if title is not None:
        connection.execute("UPDATE session SET title = ? WHERE number = ?", (text_to_column(title), number))
    found = span(connection, number)
    if found.hidden_end:
        raise StoreFailed.because(DAMAGED)
    cursor = connection.execute(
        "UPDATE activity SET updated_at = ?, records = ? WHERE session = ?",
        (updated_at, found.until - found.after + rows, number),
    )
    return cursor.rowcount == 1


def shorten(connection: sqlite3.Connection, number: int) -> None:
    """Note that rows of the session are being removed."""
    connection.execute("UPDATE activity SET records = NULL WHERE session = ?", (number,))


def remove(connection: sqlite3.Connection, number: int) -> None:
    """Take the session off the list. Its number is never given to another."""
    connection.execute("DELETE FROM activity WHERE session = ?", (number,))
    connection.execute("DELETE FROM session WHERE number = ?", (number,))


_SELECT = (
    "SELECT number, id, cwd, title, created_at, updated_at FROM session JOIN activity ON session = number "
)


def find(connection: sqlite3.Connection, session_id: str) -> SessionRecord | None:
    """The session's record, or None when there is no such session."""
    row = connection.execute(_SELECT + "WHERE id = ?", (text_to_column(session_id),)).fetchone()
    return None if row is None else _from_row(row)


def page(connection: sqlite3.Connection, cwd: str | None, cursor: str | None, limit: int) -> Page:
    """One page. Raises ``BadCursor``."""
    conditions = ["1"]
    values: list[object] = []
    if cursor is not None:
        conditions.append("(updated_at, session) < (?, ?)")
        values += _key_from_cursor(cursor)
    if cwd is not None:
        conditions.append("session IN (SELECT number FROM session WHERE cwd = ?)")
        values.append(text_to_column(cwd))
    # The keys first, from the narrow table, and the records of this page only. One more than the page
    # holds tells whether another follows.
    keys = (
        f"SELECT session FROM activity WHERE {' AND '.join(conditions)} "  # noqa: S608 - from the lines above
        "ORDER BY updated_at DESC, session DESC LIMIT ?"
    )
    rows = connection.execute(
        _SELECT + f"WHERE number IN ({keys}) ORDER BY updated_at DESC, session DESC", (*values, limit + 1)
    ).fetchall()
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(
        sessions=tuple(_from_row(row) for row in rows),
        next_cursor=_key_to_cursor(rows[-1][5], rows[-1][0]) if more else None,
    )


def text_to_column(text: str) -> bytes:
    """Text as it is kept; see the file's rules."""
    return text.encode("utf-8", "surrogatepass")


def text_from_column(column: object) -> str:
    """What stands in a column of text, whatever it is."""
    if not isinstance(column, bytes):
        return str(column)  # someone edited the database by hand
    try:
        return column.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        # One damaged text must not hide the session, let alone the list.
        return column.decode("utf-8", "replace")


def _from_row(row: tuple[object, ...]) -> SessionRecord:
    _number, session_id, cwd, title, created_at, updated_at = row
    return SessionRecord(
        session_id=SessionId(text_from_column(session_id)),
        cwd=text_from_column(cwd),
        title=None if title is None else text_from_column(title),
        created_at=str(created_at),
        updated_at=str(updated_at),
    )


def _key_to_cursor(updated_at: str, number: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((updated_at, number))).decode("ascii")


def _key_from_cursor(cursor: str) -> tuple[str, int]:
    """The key in a cursor. Only what ``_key_to_cursor`` makes is taken, to the letter."""
    try:
        if len(cursor) > _CURSOR_LIMIT:
            raise BadCursor
        text = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        updated_at, number = msgspec.json.decode(text, type=tuple[str, int])
    except (binascii.Error, UnicodeEncodeError, msgspec.DecodeError):
        raise BadCursor from None
    sound = _TIME.fullmatch(updated_at) and 0 < number <= LARGEST_NUMBER
    if not sound or _key_to_cursor(updated_at, number) != cursor:
        raise BadCursor
    return updated_at, number
