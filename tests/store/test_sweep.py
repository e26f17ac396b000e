"""A seeded sweep of damage over the pages of a database with some sessions: whatever became of a page, who
lists, reads and verifies comes to an end with words, no session has rows of another, and none has fewer rows
than it had without that being said to whoever reads and to whoever verifies.

A letter that became another within a text is not seen: rows have no sums.
"""

import random

import pytest

from term2_acp.domain.events import RecordsLost
from term2_acp.store.database import Database
from term2_acp.store.errors import StoreFailed
from term2_acp.store.records import SessionRecord
from term2_acp.store.verify import verify
from term2_acp.store.viewer import connect
from tests.store.conftest import TIME

_PAGE = 4096
_LATER = TIME.replace("10:00", "11:00")
_LENGTHS = {1: 0, 2: 1, 3: 25, 4: 8, 5: 25, 6: 3}
_MOST_CHUNKS = 50
# Two bytes of each page's head, and where its cells begin: what SQLite goes by.
_HEAD = (0, 1, 3, 5, 7, 8, 9, 10, 12, 13)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a database whose sessions were written in turn."""
    from term2_acp.domain.events import AgentMessageChunk
    from term2_acp.domain.ids import MessageId, SessionId

    path = tmp_path_factory.mktemp("sweep") / "sessions.db"
    chance = random.Random(1)
    database = Database.open(str(path))
    for number in _LENGTHS:
        database.commit(
            lambda n=number: database.create(SessionRecord(SessionId(f"s{n}"), "/w", None, TIME, TIME))
        )
    turns = [number for number, length in _LENGTHS.items() for _ in range(length)]
    chance.shuffle(turns)
    lengths = dict.fromkeys(_LENGTHS, 0)
    for number in turns:
        lengths[number] += 1
        text = f"{number} {lengths[number]} {'x' * chance.choice((100, 500, 900, 6000))}"
        rows = database.to_rows([AgentMessageChunk(MessageId("m"), text)])
        database.commit(lambda n=number, r=rows: database.append(n, r, 0, _LATER, None))
    database.close()
    return path.read_bytes()


def damages(content: bytes, seed: int, count: int):
    """So many damaged copies, each with what was done to it."""
    chance = random.Random(seed)
    pages = range(len(content) // _PAGE)
    for _ in range(count):
        damaged = bytearray(content)
        kind, page = chance.choice(("bit", "zeros", "noise", "torn", "other", "cut")), chance.choice(pages)
        start, end = page * _PAGE, (page + 1) * _PAGE
        if kind == "bit":
            at = start + (100 if page == 0 else 0) + chance.choice(_HEAD)
            damaged[at] ^= 1 << chance.randrange(8)
        elif kind == "zeros":
            damaged[start:end] = bytes(_PAGE)
        elif kind == "noise":
            damaged[start:end] = chance.randbytes(_PAGE)
        elif kind == "torn":
            torn = start + 512 * chance.randrange(1, 8)
            damaged[torn:end] = bytes(end - torn)
        elif kind == "other":
            other = chance.choice(pages) * _PAGE
            damaged[start:end] = content[other : other + _PAGE]
        else:
            del damaged[chance.randrange(len(content)) :]
        yield f"{kind} at page {page}", bytes(damaged)


def read(database: Database, number: int) -> tuple[list[int], bool]:
    """The sequence numbers of the rows that are read, and whether it is said that others were lost."""
    span = database.span(number)
    after, found, lost = span.after, [], span.hidden_end
    for _ in range(_MOST_CHUNKS):
        if after >= span.until:
            return found, lost
        chunk = database.read_chunk(after, span.until)
        after = span.until if chunk.place is None else chunk.place
        for event in chunk.events:
            if isinstance(event, RecordsLost):
                lost = True
            else:
                of, seq = event.text.split()[:2]
                assert int(of) == number
                found.append(int(seq))
    raise AssertionError("it does not end")


def look(path) -> bool:
    """List and read all of it as `term2 sessions` does; whether something is lost, or nothing can be used."""
    try:
        database = Database.open(str(path), connect)
    except StoreFailed:
        return True
    try:
        return look_at(database)
    except StoreFailed:
        return True
    finally:
        database.close()


def look_at(database: Database) -> bool:
    names = [one.session_id for one in database.read(lambda it: it.page(None, None, 1000)).sessions]
    assert len(set(names)) == len(names)
    some_lost = len(names) < len(_LENGTHS)
    for number, length in _LENGTHS.items():
        assert database.read(lambda it, n=number: it.number_of(f"s{n}")) == number
        found, lost = database.read(lambda it, n=number: read(it, n))
        assert found == sorted(set(found))
        assert lost or found == list(range(1, length + 1))
        if lost:
            assert database.read(lambda it, n=number: it.length(n)) in (length, None)
        some_lost = some_lost or lost
    return some_lost


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_of_a_page_goes_unsaid_or_astray(sound, tmp_path, seed):
    path = tmp_path / "sessions.db"
    some = 0
    for what, content in damages(sound, seed, 40):
        for left in tmp_path.iterdir():
            left.unlink()
        path.write_bytes(content)
        try:
            lost = look(path)
            assert not (lost and _verifies(tmp_path)), "it is lost, and verified as sound"
        except Exception as error:
            raise AssertionError(f"seed {seed}: {what}") from error
        some += lost
    assert some > 10


def _verifies(directory) -> bool:
    try:
        return verify(str(directory)).sound
    except StoreFailed:
        return False


def test_without_damage_nothing_is_lost(sound, tmp_path):
    path = tmp_path / "sessions.db"
    path.write_bytes(sound)
    assert not look(path)
    assert _verifies(tmp_path)
    database = Database.open(str(path))
    assert {number: database.length(number) for number in _LENGTHS} == _LENGTHS
    database.close()
