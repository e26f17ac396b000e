"""Where the rows of a session are: the arithmetic of places, and finding the last one.

A row's place is ``number << 32 | seq``: the session's number and a sequence number from 1. So the rows of
a session are one range of the journal's own key.

A damaged page of the table's tree may lead to rows of other places, or back to the same ones for ever, and
SQLite does not look. So every statement checks the places that it finds beside those it looks for (``+place``
is a term that no index is used for), and whoever reads goes forward only: no session has rows of another.

The functions run on the store's thread.
"""

import sqlite3

from term2_acp.domain.classes import frozen
from term2_acp.store.errors import is_damage
from term2_acp.store.faults import FAULTS

SEQ_BITS = 32

LARGEST_NUMBER = 2**31 - 1
"""The largest number of a session, which shares 63 bits with the sequence numbers of its rows."""

OF_SESSION = "FROM journal WHERE place BETWEEN ?1 AND ?2 AND +place BETWEEN ?1 AND ?2"
"""The rows of a session: the first two parameters of a statement are the ``bounds`` of their places."""

# Rows that are stepped over in one statement, so that a tree that leads in circles is left.
_STEPS = 500

_BEHIND = (
    "SELECT place FROM journal WHERE place > ?1 AND place <= ?2 AND +place > ?1 AND +place <= ?2 "
    "ORDER BY place LIMIT ?3"
)

# How many rows it has at least. Being made is no activity, and is the only thing that leaves no row.
_AT_LEAST = (
    "SELECT COALESCE(records, updated_at <> created_at) FROM activity JOIN session ON number = session"
)


@frozen
class Span:
    """The places of a session's rows, as ``(after, until]``; both the same when there are none.

    ``hidden_end``: ``until`` is the last row that can be found, and damage hides whether others follow.
    """

    after: int
    until: int
    hidden_end: bool = False


def bounds(number: int) -> tuple[int, int]:
    """The place before a session's first row, and the last that one of its rows could have."""
    start = number << SEQ_BITS
    return start, start + (1 << SEQ_BITS) - 1


def seq_of(place: int) -> int:
    """The sequence number of a row."""
    return place & ((1 << SEQ_BITS) - 1)


def number_of(place: int) -> int:
    """The number of a row's session."""
    return place >> SEQ_BITS


def span(connection: sqlite3.Connection, number: int) -> Span:
    """Where a session's rows are. Raises ``FAULTS`` where SQLite sees that damage hides the last of them.

    It may not see it, and find fewer rows than there were. Then the end is hidden too.
    """
    start, limit = bounds(number)
    last, least = connection.execute(
        f"SELECT MAX(place), ({_AT_LEAST} WHERE session = ?3) {OF_SESSION}", (start, limit, number)
    ).fetchone()
    until = start if last is None else int(last)
    return Span(start, until, hidden_end=type(least) is int and until - start < least)


def last_of(connection: sqlite3.Connection, place: int) -> int:
    """The last row of the session that has this place; ``place`` itself where none is behind it, or none can
    be found for damage.
    """
    try:
        return max(place, span(connection, number_of(place)).until)
    except FAULTS as error:
        if not is_damage(error):
            raise
        return place


def readable_span(connection: sqlite3.Connection, number: int) -> Span:
    """As ``span``; where damage hides the last row, up to the last that can be found.

    That is looked for from the first row on, so it takes as long as reading the session does.
    """
    try:
        return span(connection, number)
    except FAULTS as error:
        if not is_damage(error):
            raise
    start, limit = bounds(number)
    last = start
    while True:
        last = _last_before_damage(connection, last, limit)
        beyond = _first_beyond(connection, last, limit)
        if beyond is None:
            return Span(start, last, hidden_end=True)
        last = beyond


def _last_before_damage(connection: sqlite3.Connection, place: int, limit: int) -> int:
    """The last row that is come to from ``place`` on, one after the other."""
    while True:
        before = place
        cursor = connection.cursor()
        try:
            for (found,) in cursor.execute(_BEHIND, (place, limit, _STEPS)):
                place = max(place, found)
        except FAULTS as error:
            if not is_damage(error):
                raise
            return place
        finally:
            cursor.close()
        if place == before:
            return place


def _first_beyond(connection: sqlite3.Connection, place: int, limit: int) -> int | None:
    """The first row behind the damage that comes after ``place``; None where none can be found.

    What is damaged is whole pages, so the places behind which nothing can be looked for are a stretch. Its
    end is felt for in ever larger steps, then halved in on.
    """
    bad, step = place, 1
    while not _can_look(connection, bad + step, limit):
        bad, step = bad + step, step * 2
        if bad + step >= limit:
            return None
    good = bad + step
    while good - bad > 1:
        middle = (good + bad) // 2
        if _can_look(connection, middle, limit):
            good = middle
        else:
            bad = middle
    return _next(connection, good, limit)


def _can_look(connection: sqlite3.Connection, place: int, limit: int) -> bool:
    """Whether no damage lies on the way to the first row at ``place`` or behind it."""
    try:
        _next(connection, place, limit)
    except FAULTS as error:
        if not is_damage(error):
            raise
        return False
    return True


def _next(connection: sqlite3.Connection, place: int, limit: int) -> int | None:
    """The first row at ``place`` or behind it."""
    row = connection.execute(_BEHIND, (place - 1, limit, 1)).fetchone()
    return None if row is None else int(row[0])
