"""What a deletion removes, from what: the list, the journal, the artifacts, the pages of the database and the
log beside it; what it leaves alone; and what becomes of one that fails half-way."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import trio

from term2_acp.domain.events import SessionInfoUpdate
from term2_acp.domain.ids import SessionId
from term2_acp.store import ClaimedElsewhere, StoreFailed, ThreadRunner, UnknownSession
from term2_acp.store.artifacts import artifacts_of
from term2_acp.store.schema import open_database
from tests.kit.small_disk import on_a_disk_of

ROOT = Path(__file__).parents[2]

# Found byte for byte wherever it is left.
CANARY = "canary-4d1f"
A, B = SessionId("sess_a"), SessionId("sess_b")


def left_in(directory: Path) -> list[str]:
    """The files below the directory that hold the canary."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return sorted(path.name for path in found if CANARY.encode() in path.read_bytes())


def keep_output(directory: Path, session_id: SessionId, words: str) -> None:
    artifact = artifacts_of(str(directory), session_id).open("call_1.txt")
    artifact.write(words.encode())
    artifact.close()


async def test_nothing_of_it_is_left_in_the_files(opened, record, said, tmp_path):
    # Rows of two sessions in turn: pages split, and rows move between them.
    async with opened(tmp_path) as store:
        await store.create(record(A, cwd=f"/{CANARY}"))
        await store.create(record(B))
        keep_output(tmp_path, A, CANARY)
        keep_output(tmp_path, B, "stays")
        for number in range(60):
            await store.append(A, [said(f"{CANARY} {number} {'x' * 50 * number}")] * 5)
            await store.append(B, [said(f"{number} {'y' * 30 * number}")] * 5)
        await store.append(A, [SessionInfoUpdate(f"{CANARY} title", "2026-01-01T00:00:00.000Z")])
        assert "sessions.db-wal" in left_in(tmp_path)
        await store.delete(A)
        assert left_in(tmp_path) == []
        assert (tmp_path / "sessions.db-wal").stat().st_size == 0
    assert left_in(tmp_path) == []
    assert [path.name for path in (tmp_path / "artifacts").iterdir()] == [B]


async def test_the_others_lose_nothing(opened, record, said, history, tmp_path):
    events = [said(str(number)) for number in range(50)]
    async with opened(tmp_path) as store:
        for session_id in ("before", A, B):
            await store.create(record(session_id))
            await store.append(session_id, events)
        await store.delete(A)
        assert await store.find(A) is None
        assert {one.session_id for one in (await store.page(None, None)).sessions} == {"before", B}
        for session_id in ("before", B):
            assert await history(store, session_id) == events
        with pytest.raises(UnknownSession):
            await history(store, A)
        with pytest.raises(UnknownSession):
            await store.append(A, [said("late")])
        with pytest.raises(UnknownSession):
            await store.claim(A)
        await store.append(B, [said("more")])
        assert len(await history(store, B)) == 51


async def test_an_unknown_one_is_nothing_whatever_it_is_called(opened, record, tmp_path):
    (tmp_path / "keys").mkdir()
    async with opened(tmp_path) as store:
        await store.create(record(B))
        await store.delete(SessionId("../keys"))
        await store.delete(SessionId("\ud800"))
        assert await store.find(B) is not None
    assert (tmp_path / "keys").is_dir()


async def test_a_number_is_never_given_again(opened, record, tmp_path, database):
    async with opened(tmp_path) as store:
        for session_id in (A, B):
            await store.create(record(session_id))
        held = await store.claim(B)  # the newest: its record is the last in the lock file
        await store.delete(B)
        await store.create(record("next"))
        assert database("SELECT number FROM session ORDER BY number") == [(1,), (3,)]
        again = await store.claim("next")  # the record of what was deleted is still locked, and another
        held.release()
        again.release()


async def test_a_page_that_was_cut_in_the_middle_goes_on(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        for number in range(6):
            await store.create(record(f"s{number}", at=f"2026-11-30T10:00:0{number}.000Z"))
        first = await store.page(None, None, 2)
        await store.delete(SessionId("s4"))  # the cursor's own
        await store.delete(SessionId("s3"))
        second = await store.page(None, first.next_cursor, 2)
        assert [one.session_id for one in second.sessions] == ["s2", "s1"]


async def test_a_reader_in_the_midst_of_it_comes_to_an_end(opened, record, said, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record(A))
        await store.append(A, [said(str(number)) for number in range(1200)])
        async with store.journal(A) as journal:
            assert len(await journal.receive()) == 500
            await store.delete(A)
            assert await journal.receive() == []
            assert journal.skipped == 0


# -- half-way --------------------------------------------------------------------------------------------


async def test_artifacts_that_stay_leave_the_session_to_be_deleted_again(
    opened, record, said, history, tmp_path, monkeypatch, caplog
):
    async with opened(tmp_path) as store:
        await store.create(record(A))
        await store.append(A, [said("x")])
        keep_output(tmp_path, A, CANARY)
        with monkeypatch.context() as patched:
            patched.setattr("shutil.rmtree", _refuses)
            with pytest.raises(StoreFailed) as failed:
                await store.delete(A)
        assert failed.value.code == "store_read_only"
        assert "cannot be removed" in caplog.text
        assert await history(store, A) == [said("x")]
        await store.delete(A)
        assert await store.find(A) is None
    assert left_in(tmp_path) == []


def _refuses(path):
    raise PermissionError(13, "Permission denied", path)


async def test_a_full_disk_leaves_it_whole_to_be_deleted_again(opened, record, said, history, tmp_path):
    made = []
    async with opened(tmp_path, connect=lambda path: _connected(path, made)) as store:
        await store.create(record(A))
        await store.append(A, [said("x")])
        made[0].full = True
        with pytest.raises(StoreFailed):
            await store.delete(A)
        made[0].full = False
        assert await history(store, A) == [said("x")]
        assert (await store.find(A)).session_id == A
        await store.delete(A)
        assert await store.find(A) is None


async def test_a_long_one_goes_in_pieces_from_its_end(opened, record, said, history, tmp_path, monkeypatch):
    monkeypatch.setattr("term2_acp.store.removal.PIECE_BYTES", 1000)
    events = [said(f"{number} {CANARY} {'x' * 300}") for number in range(9)]
    made, kept = [], []
    async with opened(tmp_path, connect=lambda path: _connected(path, made)) as store:
        for session_id in (A, B):
            await store.create(record(session_id))
        for event in events:
            await store.append(A, [event])
        removing = made[0].execute

        def execute(sql, *values):
            if sql.startswith("DELETE FROM journal"):
                kept.append(removing("SELECT count(*) FROM journal").fetchone()[0])
            return removing(sql, *values)

        made[0].execute = execute
        made[0].full = True
        with pytest.raises(StoreFailed):
            await store.delete(A)
        assert len(kept) > 3, "others may write in between"
        left = await history(store, A)
        assert left == events[: len(left)]
        assert 0 < len(left) < len(events)
        made[0].full = False
        await store.delete(A)
        assert await store.find(A) is None
        assert (await store.find(B)).session_id == B
    assert left_in(tmp_path) == []


async def test_a_row_that_damage_took_the_body_of_goes_like_any_other(
    opened, record, said, database, tmp_path
):
    async with opened(tmp_path) as store:
        await store.create(record(A))
        await store.append(A, [said("1"), said("2")])
    with closing(sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'BLOB NOT NULL', 'BLOB')")
    database("UPDATE journal SET body = NULL WHERE place & 4294967295 = 1")
    async with opened(tmp_path) as store:
        await store.delete(A)
    assert database("SELECT count(*) FROM journal") == [(0,)]


async def test_a_row_that_is_longer_than_a_piece_is_one(opened, record, said, tmp_path, monkeypatch):
    monkeypatch.setattr("term2_acp.store.removal.PIECE_BYTES", 10)
    async with opened(tmp_path) as store:
        await store.create(record(A))
        for number in range(3):
            await store.append(A, [said(f"{number} {CANARY}")])
        await store.delete(A)
        assert await store.find(A) is None
    assert left_in(tmp_path) == []


# Two sessions of more than 1 MiB are there when all but 200 KB of the disk are taken, and one is deleted.
ON_A_FULL_DISK = """
import os, sys, trio
from pathlib import Path
from term2_acp.domain.events import AgentMessageChunk
from term2_acp.store import SessionRecord, Store, StoreFailed, ThreadRunner, now
from tests.kit.small_disk import Disk

async def main(directory):
    disk, state = Disk(os.getpid(), Path(directory)), Path(directory, "state")
    for deletes in (False, True):
        store = Store(str(state), ThreadRunner())
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            await store.open()
            if deletes:
                disk.fill(leave=200_000)
                before = (state / "sessions.db").stat().st_size
                await store.delete("a")
                print(before - (state / "sessions.db").stat().st_size)
                print([one.session_id for one in (await store.page(None, None)).sessions])
                disk.free()
                disk.fill()
                try:
                    await store.delete("b")
                except StoreFailed as error:
                    print(error.message)
            else:
                for name in "ab":
                    await store.create(SessionRecord(name, "/w", None, now(), now()))
                    await store.append(name, [AgentMessageChunk(f"m{n}", "x" * 2000) for n in range(300)])
            await store.aclose()

trio.run(main, sys.argv[1])
"""


def test_on_a_full_disk_it_goes_in_small_pieces_and_makes_room(tmp_path):
    program = [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path)]
    done = subprocess.run(
        on_a_disk_of(8 * 1024 * 1024, tmp_path, program), capture_output=True, text=True, cwd=ROOT, check=True
    )
    given, listed, sentence = done.stdout.splitlines()
    assert int(given) > 1_000_000, done.stderr
    assert listed == "['b']"
    assert sentence == "The disk that holds term2's state is full; free some space and try again."


async def test_what_it_held_is_given_back_to_the_disk(opened, record, said, history, tmp_path):
    path = tmp_path / "sessions.db"
    async with opened(tmp_path) as store:
        await store.create(record(B))
        await store.append(B, [said(f"{number}") for number in range(50)])
        await store.create(record(A))
        await store.append(A, [said(f"{number} {'x' * 2000}") for number in range(200)])
        await store.append(B, [said("behind it")])
        await store.delete(A)
        assert path.stat().st_size < 100_000
        assert len(await history(store, B)) == 51


async def test_a_database_of_before_that_keeps_its_pages_for_what_comes_next(opened, record, said, tmp_path):
    async with opened(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "sessions.db")) as connection:
        for statement in ("journal_mode = DELETE", "auto_vacuum = NONE"):
            connection.execute(f"PRAGMA {statement}").fetchall()
        connection.execute("VACUUM")
    async with opened(tmp_path) as store:
        await store.create(record(A))
        await store.append(A, [said(f"{number} {'x' * 2000}") for number in range(200)])
        await store.delete(A)
        size = (tmp_path / "sessions.db").stat().st_size
        assert size > 400_000
        await store.create(record(B))
        await store.append(B, [said(f"{number} {'x' * 2000}") for number in range(200)])
    assert (tmp_path / "sessions.db").stat().st_size == size


class _Refusing:
    """A connection on which removing from the list fails, after the journal's rows were removed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.full = False
        self._connection = connection

    def execute(self, sql, *values):
        if self.full and sql.startswith("DELETE FROM session"):
            raise sqlite3.OperationalError("database or disk is full")
        return self._connection.execute(sql, *values)

    def __getattr__(self, name):
        return getattr(self._connection, name)


def _connected(path, made):
    made.append(_Refusing(open_database(path)))
    return made[-1]


# -- beside other processes ------------------------------------------------------------------------------

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM journal").fetchone()
print("reads", flush=True)
sys.stdin.readline()
"""


def reader_of(directory):
    """Another process that is in the midst of reading, until it is told something."""
    command = [sys.executable, "-c", HOLD, str(directory / "sessions.db")]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


async def test_a_reader_elsewhere_keeps_the_log_and_not_the_deletion(opened, record, said, tmp_path):
    async with opened(tmp_path) as store:
        for session_id in (A, B):
            await store.create(record(session_id))
        await store.append(A, [said(CANARY)])
        with reader_of(tmp_path) as reader:
            assert reader.stdout.readline() == b"reads\n"
            await store.delete(A)
            assert await store.find(A) is None
            assert left_in(tmp_path) != []
            reader.communicate(b"\n")
        await store.delete(B)  # the next one empties it
        assert left_in(tmp_path) == []


async def test_two_at_once_are_one_and_after_the_end_there_is_none(opened, record, said, tmp_path):
    async with opened(tmp_path, runner=ThreadRunner()) as store:
        await store.create(record(A))
        await store.append(A, [said(CANARY)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.delete, A)
            nursery.start_soon(store.delete, A)
        assert await store.find(A) is None
        assert left_in(tmp_path) == []
    with pytest.raises(StoreFailed):
        await store.delete(A)


async def test_a_session_of_another_process_is_claimed_and_not_deleted(opened, record, tmp_path):
    async with opened(tmp_path) as mine, opened(tmp_path) as theirs:
        await theirs.create(record(A))
        claim = await theirs.claim(A)
        with pytest.raises(ClaimedElsewhere) as refused:
            await mine.claim(A)
        assert refused.value.pid == os.getpid()
        claim.release()
        (await mine.claim(A)).release()
        await mine.delete(A)
        assert await theirs.find(A) is None
        claim = await theirs.claim(A)  # it remembers the number: the claim holds nothing
        claim.release()
        with pytest.raises(UnknownSession):
            async with theirs.journal(A):
                pass
