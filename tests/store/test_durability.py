"""What becomes of the files: processes that share them or are killed, a write-ahead log that was torn, a
disk that is full, files that are damaged, from another time, or not ours to write."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from term2_acp.domain.events import AgentMessageChunk, RecordsLost, UserMessage
from term2_acp.domain.ids import MessageId
from term2_acp.store import InlineRunner, Store, StoreFailed, StoreTooNew, ThreadRunner
from term2_acp.store.examine import examine
from term2_acp.store.findings import Kind
from term2_acp.store.schema import migration_files, open_database
from term2_acp.store.verify import verify
from term2_acp.store.viewer import connect
from term2_acp.store.writer import FLUSH_SECONDS, GroupWriter

APPEND = """
import sys, trio
from term2_acp.domain.events import AgentMessageChunk
from term2_acp.store import SessionRecord, Store, ThreadRunner, now

async def main(directory, name, count):
    store = Store(directory, ThreadRunner())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        await store.open()
        await store.create(SessionRecord(name, "/w", None, now(), now()))
        number = 0
        while number < count or count < 0:
            await store.append(name, [AgentMessageChunk(f"m{number}", f"{number}")])
            print(number, flush=True)
            number += 1
        await store.aclose()

trio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


def appender(directory, name, count):
    """Another process that appends ``count`` events (for ever: -1) and prints each once it is kept."""
    return subprocess.Popen(
        [sys.executable, "-c", APPEND, str(directory), name, str(count)], stdout=subprocess.PIPE, text=True
    )


async def test_what_was_acknowledged_survives_a_kill(opened, history, said, tmp_path):
    for round_ in range(2):
        name = f"s{round_}"
        with appender(tmp_path, name, -1) as process:
            for _ in range(5 + 20 * round_):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            lines = process.stdout.read().split("\n")
        acknowledged = 5 + 20 * round_ + len(lines) - 1
        async with opened(tmp_path) as store:
            texts = [event.text for event in await history(store, name)]
            # The one that was under way when the signal came may be there, and nothing else.
            assert texts == [f"{n}" for n in range(len(texts))]
            assert len(texts) in (acknowledged, acknowledged + 1)
            await store.append(name, [said("after")])
            assert (await history(store, name))[-1] == said("after")
            (await store.claim(name)).release()


async def test_processes_share_the_store(opened, history, tmp_path):
    processes = [appender(tmp_path, f"s{n}", 40) for n in range(2)]
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0
        assert output.split() == [f"{n}" for n in range(40)]
    async with opened(tmp_path) as store:
        for n in range(2):
            assert [e.text for e in await history(store, f"s{n}")] == [f"{i}" for i in range(40)]


def test_migration_by_many_at_once(tmp_path):
    # Threads of their own and connections of their own: as far as SQLite goes, other processes.
    for round_ in range(5):
        path = str(tmp_path / f"{round_}.db")
        start = threading.Barrier(6)
        faults = []

        def migrate(path=path, start=start, faults=faults):
            start.wait()
            try:
                open_database(path).close()
            except sqlite3.Error as error:
                faults.append(error)

        threads = [threading.Thread(target=migrate) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA user_version").fetchone() == (len(migration_files()),)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT COUNT(*) FROM sqlite_master WHERE name = 'journal'").fetchone() == (
            1,
        )
        connection.close()


async def test_a_migration_that_fails_leaves_nothing_behind(tmp_path):
    path = tmp_path / "sessions.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE journal (x)")  # in the way of the last table of the migration
    connection.commit()
    connection.close()
    store = Store(str(tmp_path), InlineRunner())
    with pytest.raises(StoreFailed):
        await store.open()
    await store.aclose()
    connection = sqlite3.connect(path)
    assert [row[0] for row in connection.execute("SELECT name FROM sqlite_master")] == ["journal"]
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    connection.close()


def copy_of_living_store(directory, target):
    for name in ("sessions.db", "sessions.db-wal"):
        shutil.copy(directory / name, target / name)


async def test_a_torn_log_loses_its_last_commits_and_nothing_else(opened, record, history, said, tmp_path):
    live = tmp_path / "live"
    async with opened(live) as store:
        await store.create(record("a"))
        for number in range(12):
            await store.append("a", [said(f"{number}")])
        length = (live / "sessions.db-wal").stat().st_size
        survivors = set()
        for cut in [*range(length - 9000, length, 1997), 0, 31, 32, 33, length // 2, length - 1, length]:
            torn = tmp_path / f"torn{cut}"
            torn.mkdir()
            copy_of_living_store(live, torn)
            os.truncate(torn / "sessions.db-wal", cut)
            async with opened(torn) as again:
                if await again.find("a") is None:
                    survivors.add(-1)
                    await again.create(record("a"))
                events = await history(again, "a")
                assert events == [said(f"{n}") for n in range(len(events))]
                survivors.add(len(events))
                await again.append("a", [said("new")])
            async with opened(torn) as again:
                assert await history(again, "a") == [*events, said("new")]
        assert {-1, 12, 11} <= survivors


async def test_a_full_disk_fails_the_append_and_not_the_store(
    opened, record, history, said, code_of, tmp_path
):
    connections = []

    def connect(path):
        connections.append(open_database(path))
        connections[0].execute("PRAGMA max_page_count = 40")  # of 4 KiB
        return connections[0]

    async with opened(tmp_path, connect=connect) as store:
        await store.create(record("a"))
        await store.create(record("b"))
        kept = []

        async def fill():
            for number in range(100):
                event = AgentMessageChunk(MessageId(f"{number}"), "x" * 10_000)
                await store.append("a", [event])
                kept.append(event)

        with pytest.raises(StoreFailed) as caught:
            await fill()
        assert caught.value.code == "store_full"
        assert str(tmp_path) not in caught.value.message
        assert len(kept) > 3
        assert await history(store, "a") == kept
        assert len((await store.page(None, None)).sessions) == 2
        # A small one still fits, a group with a large one in it loses only the large one.
        outcomes = {}

        async def attempt(name, size):
            event = AgentMessageChunk(MessageId("m"), "x" * size)
            outcomes[name] = await code_of(store.append(name, [event]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(attempt, "a", 20_000)
            nursery.start_soon(attempt, "b", 10)
        assert outcomes == {"a": "store_full", "b": "kept"}
        connections[0].execute("PRAGMA max_page_count = 1000")
        await store.append("a", [said("room again")])
        assert await history(store, "a") == [*kept, said("room again")]


FULL_FILE_SYSTEM = """
import resource, sys, trio
from term2_acp.domain.events import AgentMessageChunk
from term2_acp.store import SessionRecord, Store, StoreFailed, ThreadRunner, now

async def main(directory):
    store = Store(directory, ThreadRunner())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        await store.open()
        await store.create(SessionRecord("a", "/w", None, now(), now()))
        await store.append("a", [AgentMessageChunk("m", "kept")])
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            await store.append("a", [AgentMessageChunk("n", "x" * 200_000)])
        except StoreFailed as error:
            print(error.code)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await store.append("a", [AgentMessageChunk("o", "again")])
        async with store.journal("a") as journal:
            print([event.text for event in await journal.receive()])
        await store.aclose()

trio.run(main, sys.argv[1])
"""


def test_a_write_that_the_system_refuses_is_not_half_there(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", FULL_FILE_SYSTEM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    code, texts = result.stdout.splitlines()
    assert code in ("store_failed", "store_full")
    assert texts == "['kept', 'again']"


async def test_a_database_that_cannot_be_written_says_so(opened, record, said, history, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        await store.append("a", [said("kept")])

    def connect(path):
        return sqlite3.connect(f"file:{path}?mode=ro", uri=True, isolation_level=None)

    async with opened(tmp_path, connect=connect) as store:
        with pytest.raises(StoreFailed) as caught:
            await store.append("a", [said("x")])
        assert caught.value.code == "store_read_only"
        assert await history(store, "a") == [said("kept")]


READ_ONLY_DIRECTORY = """
import os, sys, trio
from term2_acp.store import InlineRunner, Store, StoreFailed
import term2_acp.store.database

async def main(directory):
    if os.geteuid() == 0:
        os.seteuid(65534)
    store = Store(directory, InlineRunner())
    try:
        await store.open()
    except StoreFailed as error:
        print(error.code)
        print(error.message)
    await store.aclose()

trio.run(main, sys.argv[1])
"""


@pytest.mark.parametrize("below", ["", "missing/deep"])
def test_a_directory_that_cannot_be_written_is_named_without_its_path(below):
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o555)
        result = subprocess.run(
            [sys.executable, "-c", READ_ONLY_DIRECTORY, os.path.join(directory, below)],
            capture_output=True,
            text=True,
            check=True,
        )
        code, message = result.stdout.splitlines()
        assert code == "store_read_only"
        assert directory not in message
        assert os.listdir(directory) == []


async def test_a_file_in_place_of_the_directory_or_a_directory_in_place_of_the_file(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "state" / "sessions.db").mkdir(parents=True)
    for directory in ("file", "file/below", "state"):
        store = Store(str(tmp_path / directory), InlineRunner())
        with pytest.raises(StoreFailed) as caught:
            await store.open()
        assert caught.value.code == "store_read_only"
        await store.aclose()


async def test_a_place_where_no_directory_can_be_made_is_a_failure_like_any_other():
    # Nothing is missing above it, and still the system says that something is.
    store = Store("/proc/term2/state", InlineRunner())
    with pytest.raises(StoreFailed) as caught:
        await store.open()
    assert caught.value.code == "store_read_only"
    await store.aclose()


class Stuck:
    """A runner whose disk never answers. It keeps what it was handed."""

    def __init__(self):
        self.handed = 0

    async def run(self, fn):
        self.handed += 1
        await trio.sleep_forever()

    async def aclose(self):
        await trio.sleep_forever()


async def test_a_close_that_ran_out_of_time_is_not_waited_for_again(autojump_clock):
    runner = Stuck()
    writer = GroupWriter(runner, lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        nursery.start_soon(writer.write, lambda database: None)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(writer.write, lambda database: None)
        await trio.testing.wait_all_tasks_blocked()
        assert runner.handed == 1
        with trio.move_on_after(1.5):
            await writer.aclose()
        assert trio.current_time() == 1.5
        nursery.cancel_scope.cancel()
    assert trio.current_time() == 1.5
    assert runner.handed == 2  # what still waited was handed over all the same


async def test_a_writer_that_is_cancelled_without_a_close_waits_for_the_disk_but_not_for_ever(autojump_clock):
    runner = Stuck()
    writer = GroupWriter(runner, lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        nursery.start_soon(writer.write, lambda database: None)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert trio.current_time() == FLUSH_SECONDS
    assert runner.handed == 2


async def test_opening_may_be_tried_again(record, tmp_path):
    (tmp_path / "state").write_text("in the way")
    store = Store(str(tmp_path / "state"), InlineRunner())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        with pytest.raises(StoreFailed):
            await store.open()
        (tmp_path / "state").unlink()
        await store.open()
        await store.create(record("a"))
        assert await store.find("a") == record("a")
        await store.aclose()


async def test_a_newer_store_is_refused_and_not_touched(opened, record, database, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
    database("PRAGMA user_version = 1000")
    before = (tmp_path / "sessions.db").read_bytes()
    store = Store(str(tmp_path), InlineRunner())
    with pytest.raises(StoreTooNew) as caught:
        await store.open()
    assert caught.value.code == "store_too_new"
    await store.aclose()
    assert (tmp_path / "sessions.db").read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"this is no database at all, and long enough to be one" * 100, b"SQLite format 3\0"]
)
async def test_a_file_that_is_no_database_is_left_alone_and_named(tmp_path, content):
    (tmp_path / "sessions.db").write_bytes(content)
    store = Store(str(tmp_path), InlineRunner())
    with pytest.raises(StoreFailed) as caught:
        await store.open()
    assert caught.value.code == "store_damaged"
    await store.aclose()
    assert (tmp_path / "sessions.db").read_bytes() == content


async def test_a_schema_that_is_no_text_is_damage_to_everyone_who_looks(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
    path = tmp_path / "sessions.db"
    content = path.read_bytes()
    assert content.count(b"tablejournaljournal") == 1
    path.write_bytes(content.replace(b"tablejournaljournal", b"tablej\xe0urnaljournal"))
    store = Store(str(tmp_path), InlineRunner())
    with pytest.raises(StoreFailed) as caught:
        await store.open()
    assert caught.value.code == "store_damaged"
    assert isinstance(caught.value.__cause__, UnicodeDecodeError), "SQLite's own words quote it"
    await store.aclose()
    with pytest.raises(StoreFailed) as caught:
        examine(str(tmp_path))
    assert caught.value.code == "store_damaged"
    with pytest.raises(StoreFailed) as caught:
        connect(str(path))
    assert caught.value.code == "store_damaged"
    assert verify(str(tmp_path)).counts == {Kind.DATABASE: 1}


async def test_what_lies_in_pages_that_were_overwritten_is_lost_and_nothing_is_put_behind_it(
    opened, record, said, history, code_of, tmp_path
):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        await store.append("a", [UserMessage(MessageId(f"{n}" * 50), ()) for n in range(400)])
    content = bytearray((tmp_path / "sessions.db").read_bytes())
    for start in range(7 * 4096, len(content), 4096):
        content[start : start + 64] = b"\xa5" * 64
    (tmp_path / "sessions.db").write_bytes(content)
    async with opened(tmp_path) as store:
        found = await store.find("a")
        assert (found.session_id, found.cwd) == ("a", "/w")
        assert await history(store, "a") == [RecordsLost(1, 0, 0, hidden_end=True)]
        assert await code_of(store.append("a", [said("x")])) == "store_damaged"


async def test_an_empty_file_is_a_new_store(opened, record, tmp_path):
    (tmp_path / "sessions.db").write_bytes(b"")
    async with opened(tmp_path) as store:
        await store.create(record("a"))


async def test_another_process_that_keeps_the_lock_is_waited_for_then_named(
    opened, record, said, history, code_of, tmp_path
):
    statements = []

    def connect(path):
        connection = open_database(path)
        connection.execute("PRAGMA busy_timeout = 50")
        connection.set_trace_callback(statements.append)
        return connection

    async with opened(tmp_path, runner=ThreadRunner(), connect=connect) as store:
        await store.create(record("a"))
        await store.create(record("b"))
        other = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        codes = []
        statements.clear()

        async def attempt(name):
            codes.append(await code_of(store.append(name, [said("x")])))

        async with trio.open_nursery() as nursery:
            for name in "abab":
                nursery.start_soon(attempt, name)
        assert codes == ["store_busy"] * 4
        # The wait is for the whole store: once for the first, once for the three behind it.
        assert statements.count("BEGIN IMMEDIATE") == 2
        assert await history(store, "a") == []
        other.execute("ROLLBACK")
        other.close()
        await store.append("a", [said("y")])
        assert await history(store, "a") == [said("y")]


async def test_everything_is_private_from_creation(opened, record, said, tmp_path):
    old = os.umask(0)
    try:
        async with opened(tmp_path / "a" / "b" / "state") as store:
            await store.create(record("a"))
            await store.append("a", [said("x")])
            (await store.claim("a")).release()
            found = {}
            for base, directories, files in os.walk(tmp_path / "a"):
                for name in [*directories, *files]:
                    path = os.path.join(base, name)
                    found[name] = os.stat(path).st_mode & 0o777
            found["a"] = (tmp_path / "a").stat().st_mode & 0o777
    finally:
        os.umask(old)
    assert found == {
        "a": 0o700,
        "b": 0o700,
        "state": 0o700,
        "sessions.db": 0o600,
        "sessions.db-wal": 0o600,
        "sessions.db-shm": 0o600,
        "sessions.lock": 0o600,
    }


async def test_a_second_store_in_the_process_leaves_the_locks_of_the_first_alone(
    opened, record, said, tmp_path
):
    # Closing any descriptor of the database drops the process' record locks on it, so a store that is
    # opened and closed must not have opened the file in any other way than by SQLite.
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        async with opened(tmp_path) as second:
            await second.append("a", [said("1")])
        locks = Path("/proc/locks").read_text()
        inode = str((tmp_path / "sessions.db").stat().st_ino)
        assert any(line.split()[5].endswith(f":{inode}") for line in locks.splitlines())
        await store.append("a", [said("2")])
