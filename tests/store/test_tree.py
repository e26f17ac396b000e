"""A page that leads to the rows of the journal is damaged so that it leads astray, which SQLite does not see:
whichever key in it is another, no session has rows of others, none is read twice or for ever, none is written
among others, and a deletion takes nothing of them."""

import sqlite3
import struct
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from term2_acp.domain.events import RecordsLost
from term2_acp.store.database import Database
from term2_acp.store.errors import DAMAGED, FAILED, StoreFailed
from term2_acp.store.findings import Kind
from term2_acp.store.records import SessionRecord
from term2_acp.store.verify import verify
from tests.store.conftest import TIME

_PAGE = 4096
_SESSIONS = range(1, 4)
_ROWS = 14  # of each; four lie on a page


def numbers(database: Database, number: int, said) -> list[int]:
    """The sequence numbers of the rows that are read of a session, each of which must be its own."""
    span = database.span(number)
    after, until = span.after, span.until
    read: list[int] = []
    chunks = 0
    while after < until:
        chunk = database.read_chunk(after, until)
        after = until if chunk.place is None else chunk.place
        for event in chunk.events:
            if not isinstance(event, RecordsLost):
                of, seq = event.text.split()[:2]
                assert int(of) == number
                read.append(int(seq))
        chunks += 1
        assert chunks < 10
    return read


@pytest.fixture
def store(tmp_path, said):
    """The path of a database with some sessions whose rows were written in turn."""
    path = tmp_path / "sessions.db"
    database = Database.open(str(path))
    for number in _SESSIONS:
        database.commit(lambda n=number: database.create(SessionRecord(f"s{n}", "/w", None, TIME, TIME)))
    for seq in range(1, _ROWS + 1):
        for number in _SESSIONS:
            append(database, said, number, seq)
    database.close()
    return path


def there(path, number: int) -> set[int]:
    """The sequence numbers of a session's rows, wherever they are: not every one may be found any more."""
    with closing(sqlite3.connect(path)) as connection:
        places = connection.execute("SELECT place FROM journal").fetchall()
    return {place & 0xFFFFFFFF for (place,) in places if place >> 32 == number}


def append(database: Database, said, number: int, seq: int) -> None:
    rows = database.to_rows([said(f"{number} {seq} {'x' * 450}")])
    database.commit(lambda: database.append(number, rows, 0, None, None))


def remove(database: Database, number: int) -> None:
    database.commit(lambda: database.remove(f"s{number}", 1 << 20))


def refusal(work: Callable[..., None], *arguments: object) -> str | None:
    """Why the store does not do it, as a code; None where it does."""
    try:
        work(*arguments)
    except (sqlite3.Error, StoreFailed) as error:
        return StoreFailed.from_error(error).code
    return None


def keys(content: bytes) -> Iterator[int]:
    """Where the keys stand in the one page that leads to the journal's leaves (sqlite.org/fileformat2)."""
    (page,) = (
        start
        for start in range(0, len(content), _PAGE)
        if content[start] == 5 and struct.unpack_from(">H", content, start + 3)[0] > 2
    )
    (cells,) = struct.unpack_from(">H", content, page + 3)
    for (cell,) in struct.iter_unpack(">H", content[page + 12 : page + 12 + 2 * cells]):
        yield page + cell + 4


def test_wherever_it_leads_no_session_has_rows_of_another(store, said):
    content = store.read_bytes()
    starts = list(keys(content))
    assert len(starts) > 6
    strayed = 0
    for start in starts[1::3]:
        # The bits that tell one session from the next, and those of the sequence number.
        for place, bit in ((0, 1), (0, 4), (4, 8)):
            damaged = bytearray(content)
            damaged[start + place] ^= bit
            store.write_bytes(damaged)
            database = Database.open(str(store))
            before = {number: numbers(database, number, said) for number in _SESSIONS}
            for read in before.values():
                assert read == sorted(set(read))
            assert refusal(append, database, said, 2, 99) in (None, DAMAGED, FAILED)
            for number in (1, 3):
                assert numbers(database, number, said) == before[number]
            strayed += Kind.DATABASE in verify(str(store.parent)).counts
            assert refusal(remove, database, 2) in (None, DAMAGED)
            database.close()
            for number in (1, 3):
                assert there(store, number) >= set(before[number])
    assert strayed > 3


def leaves(content: bytes, text: bytes) -> list[int]:
    """Where the pages begin in which rows with such a text lie."""
    return [
        at for at in range(0, len(content), _PAGE) if content[at] == 13 and text in content[at : at + _PAGE]
    ]


def swapped(content: bytes, one: int, other: int) -> bytes:
    """The content with two pages in each other's place."""
    damaged = bytearray(content)
    damaged[one : one + _PAGE], damaged[other : other + _PAGE] = (
        content[other : other + _PAGE],
        content[one : one + _PAGE],
    )
    return bytes(damaged)


def removed_in_pieces(database: Database) -> str | None:
    """Remove a session as a deletion does; why that ended too soon, as a code, None where it did not."""
    left: list[bool] = []
    for _ in range(60):
        code = refusal(database.commit, lambda: left.append(database.remove("s2", 2_000)))
        if code is not None or not left[-1]:
            return code
    raise AssertionError("it goes on for ever")


def test_a_deletion_that_is_led_to_rows_it_cannot_remove_ends(tmp_path, said):
    path = tmp_path / "sessions.db"
    database = Database.open(str(path))
    for number in _SESSIONS:
        database.commit(lambda n=number: database.create(SessionRecord(f"s{n}", "/w", None, TIME, TIME)))
    for number in _SESSIONS:
        rows = database.to_rows([said(f"{number} {seq} {'x' * 900}") for seq in range(1, 31)])
        database.commit(lambda n=number, r=rows: database.append(n, r, 0, None, None))
    database.close()
    content = path.read_bytes()
    pages = leaves(content, b"2 ")
    (last,) = leaves(content, b"2 30 xx")
    refused = 0
    for page in pages:
        path.write_bytes(swapped(content, page, last))
        database = Database.open(str(path))
        code = removed_in_pieces(database)
        assert code in (None, DAMAGED)
        refused += code is not None
        database.close()
    assert refused


def lead_back(path, table: str) -> None:
    """Have the last row of a table with one page be the one before it."""
    content = bytearray(path.read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    page = (root - 1) * _PAGE
    assert content[page] == 13
    (cells,) = struct.unpack_from(">H", content, page + 3)
    last = page + 8 + 2 * (cells - 1)
    content[last : last + 2] = content[last - 2 : last]
    path.write_bytes(content)


def test_a_look_at_all_sessions_that_is_led_back_ends(store):
    lead_back(store, "session")
    verified = verify(str(store.parent))
    assert Kind.DATABASE in verified.counts
    assert verified.sessions == len(_SESSIONS) - 1
