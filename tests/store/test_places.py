"""Where a session's rows are when a page of the database cannot be read: whichever page it is, all rows in
the other pages are found, also behind it, and that an end is hidden is said where it may be."""

import sqlite3

import pytest

from term2_acp.domain.events import RecordsLost
from term2_acp.store import schema
from term2_acp.store.database import Database
from term2_acp.store.errors import StoreFailed, is_damage
from term2_acp.store.findings import Kind
from term2_acp.store.places import Span, bounds, seq_of, span
from term2_acp.store.records import SessionRecord
from term2_acp.store.verify import verify
from tests.store.conftest import TIME

_PAGE = 4096
_SESSIONS = range(1, 4)
_ROWS = 30  # of each; some four lie on a page, so that there are pages that lead to pages


@pytest.fixture
def path(tmp_path, said):
    """The path of a database in which sessions follow one another."""
    path = tmp_path / "sessions.db"
    database = Database.open(str(path))
    for number in _SESSIONS:
        database.commit(lambda n=number: database.create(SessionRecord(f"s{n}", "/w", None, TIME, TIME)))
    for number in _SESSIONS:
        rows = database.to_rows([said(f"{number} {seq} {'x' * 900}") for seq in range(1, _ROWS + 1)])
        database.commit(lambda n=number, r=rows: database.append(n, r, 0, None, None))
    database.close()
    return path


def read(database: Database, number: int) -> tuple[list[int], bool]:
    """The sequence numbers of the rows that are read, and whether the end is said to be hidden."""
    where = database.span(number)
    after, found = where.after, []
    while after < where.until:
        chunk = database.read_chunk(after, where.until)
        after = where.until if chunk.place is None else chunk.place
        for event in chunk.events:
            if not isinstance(event, RecordsLost):
                of, seq = event.text.split()[:2]
                assert int(of) == number
                found.append(int(seq))
    return found, where.hidden_end


def whole(number: int) -> list[int]:
    return list(range(1, _ROWS + 1))


def journal_pages(content: bytes) -> list[int]:
    """The pages of the tree in which rows lie: leaves with our text, and what leads to them."""
    starts = range(_PAGE, len(content), _PAGE)
    leaves = [at for at in starts if content[at] == 13 and b"x" * 800 in content[at : at + _PAGE]]
    return leaves + [at for at in starts if content[at] == 5]


def test_whichever_page_is_damaged_the_rows_of_all_others_are_found(path):
    content = path.read_bytes()
    pages = journal_pages(content)
    assert len(pages) > 20
    hidden = 0
    for start in pages:
        damaged = bytearray(content)
        damaged[start : start + _PAGE] = b"\xa5" * _PAGE
        path.write_bytes(damaged)
        database = Database.open(str(path))
        for number in _SESSIONS:
            there = [seq for seq in whole(number) if b"%d %d xx" % (number, seq) in damaged]
            found, hidden_end = read(database, number)
            if content[start] == 13:
                assert found == there
            if found != whole(number) and found == list(range(1, len(found) + 1)):
                assert hidden_end  # its end is what is missing
            hidden += hidden_end
        database.close()
    assert 3 <= hidden <= len(pages) * len(_SESSIONS) // 2


def test_a_hidden_end_is_told_to_who_reads_and_to_who_verifies(path):
    content = path.read_bytes()
    last = next(
        start for start in journal_pages(content) if b"1 %d xx" % _ROWS in content[start : start + _PAGE]
    )
    path.write_bytes(content[:last] + b"\xa5" * _PAGE + content[last + _PAGE :])
    verified = verify(str(path.parent))
    rows = [(found.session, found.seq) for found in verified.findings if found.kind is Kind.UNREADABLE]
    assert ("s1", read_to(path, 1) + 1) in rows
    assert Kind.DATABASE in verified.counts
    assert Kind.UNSETTLED not in verified.counts


def read_to(path, number: int) -> int:
    database = Database.open(str(path))
    where = database.span(number)
    assert where.hidden_end
    assert database.length(number) is None
    database.close()
    return seq_of(where.until)


def test_without_damage_nothing_is_hidden(path):
    database = Database.open(str(path))
    for number in _SESSIONS:
        assert read(database, number) == (whole(number), False)
    start, _limit = bounds(9)
    assert database.span(9) == Span(start, start)
    database.close()


def test_where_nothing_can_be_found_the_end_is_hidden_from_the_first_row_on(path):
    content = bytearray(path.read_bytes())
    connection = schema.open_database(str(path))
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'journal'").fetchone()
    connection.close()
    content[(root - 1) * _PAGE : root * _PAGE] = b"\xa5" * _PAGE
    path.write_bytes(content)
    database = Database.open(str(path))
    start, _limit = bounds(2)
    assert database.span(2) == Span(start, start, hidden_end=True)
    database.close()


def test_what_is_no_damage_is_raised(path):
    connection = schema.open_database(str(path))
    connection.execute("DROP TABLE journal")
    with pytest.raises(sqlite3.Error) as caught:
        span(connection, 1)
    assert not is_damage(caught.value)
    database = Database(connection)
    with pytest.raises(sqlite3.Error) as caught:
        database.span(1)
    assert StoreFailed.from_error(caught.value).code == "store_failed"
    database.close()
