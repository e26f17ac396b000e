"""Looking at the database without touching it, beside real processes that use it, were killed, or write on.

After each look the state directory is compared with what it was: names, and the bytes of each file. The one
thing that may change is the index beside a database that a live process uses, which is shared memory.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import pytest

from term2_acp.store import StoreFailed, StoreTooNew, schema
from term2_acp.store import examine as examine_module
from term2_acp.store.errors import DAMAGED, FAILED
from term2_acp.store.examine import Examined, barred, examine

# Makes or opens the database, adds a session, says so, and waits for a line before it adds another and ends.
_HOLDER = """
import sys
from term2_acp.store.schema import commit, open_database
connection = open_database(sys.argv[1])
connection.execute("PRAGMA busy_timeout = 0")
def add():
    commit(connection, lambda: connection.execute(
        "INSERT INTO session (id, cwd, created_at) VALUES (randomblob(8), x'2f', '')"))
add()
print("open", flush=True)
sys.stdin.readline()
add()
print("added", flush=True)
sys.stdin.readline()
connection.close()
"""

_JOURNALLED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN EXCLUSIVE")
connection.executemany("INSERT INTO filler VALUES (?)", [("x" * 1000,)] * 200)
print("open", flush=True)
sys.stdin.readline()
"""


class Holder:
    """A process that has the database open."""

    def __init__(self, process):
        self.process = process

    def hears(self):
        return self.process.stdout.readline().strip()

    def goes_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def is_killed(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def holding(folder, program=_HOLDER):
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder / "sessions.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    holder = Holder(process)
    try:
        assert holder.hears() == "open"
        yield holder
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def snapshot(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def look(folder):
    """Examine the folder, and see that everything in it is as it was."""
    before = snapshot(folder)
    try:
        return examine(str(folder))
    finally:
        assert snapshot(folder) == before


@pytest.fixture
def at_rest(tmp_path):
    """A folder with a database of two sessions that nobody has open."""
    connection = schema.open_database(str(tmp_path / "sessions.db"))
    for session in (b"one", b"two"):
        row = "INSERT INTO session (id, cwd, created_at) VALUES (?, x'2f', '')"
        schema.commit(connection, partial(connection.execute, row, (session,)))
    connection.close()
    assert [path.name for path in tmp_path.iterdir()] == ["sessions.db"]
    return tmp_path


def test_there_is_none(tmp_path):
    assert look(tmp_path) == Examined(found=False)
    assert examine(str(tmp_path / "nowhere")) == Examined(found=False)


def test_at_rest(at_rest):
    assert look(at_rest) == Examined(found=True, sound=True, sessions=2)


def test_beside_a_process_that_uses_it(tmp_path):
    """What is only in the log is seen, the writer goes on, and its close leaves a clean folder."""
    with holding(tmp_path) as holder:
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["sessions.db", "sessions.db-shm", "sessions.db-wal"]
        assert examine(str(tmp_path)) == Examined(found=True, sound=True, sessions=1)
        holder.goes_on()
        assert holder.hears() == "added"
        assert examine(str(tmp_path)) == Examined(found=True, sound=True, sessions=2)
        assert sorted(path.name for path in tmp_path.iterdir()) == names
        holder.goes_on()
        assert holder.process.wait() == 0
    assert [path.name for path in tmp_path.iterdir()] == ["sessions.db"]


def test_left_behind_by_a_process_that_was_killed(tmp_path):
    with holding(tmp_path) as holder:
        holder.is_killed()
    assert look(tmp_path) == Examined(found=True, sound=True, sessions=1)


def test_a_log_without_its_index_is_not_looked_at(tmp_path):
    with holding(tmp_path) as holder:
        holder.is_killed()
    (tmp_path / "sessions.db-shm").unlink()
    found = look(tmp_path)
    assert (found.found, found.sound, found.sessions) == (True, False, None)
    assert "midst of a write" in found.note


def test_an_empty_log_holds_nothing(at_rest):
    (at_rest / "sessions.db-wal").touch()
    assert look(at_rest) == Examined(found=True, sound=True, sessions=2)


def test_a_file_that_was_made_and_not_yet_filled(tmp_path):
    (tmp_path / "sessions.db").touch()
    assert look(tmp_path) == Examined(found=True, sound=True, sessions=None)


def test_any_path(tmp_path, at_rest):
    odd = tmp_path / "odd ?mode=rw&x#y%41 \udcff"
    odd.mkdir()
    (at_rest / "sessions.db").rename(odd / "sessions.db")
    assert look(odd).sessions == 2


def _garbage_in_a_page(folder):
    path = folder / "sessions.db"
    content = bytearray(path.read_bytes())
    content[2 * 4096 : 3 * 4096] = b"\xa5" * 4096  # the second says where pages belong, and holds nothing
    path.write_bytes(content)


def _no_database(folder):
    (folder / "sessions.db").write_text("not a database, and long enough to be looked at as one\n" * 50)


def _folder_in_its_place(folder):
    (folder / "sessions.db").unlink()
    (folder / "sessions.db").mkdir()


def _pipe_in_its_place(folder):
    (folder / "sessions.db").unlink()
    os.mkfifo(folder / "sessions.db")


@pytest.mark.parametrize(
    "damage", [_garbage_in_a_page, _no_database, _folder_in_its_place, _pipe_in_its_place]
)
def test_damaged(at_rest, damage):
    damage(at_rest)
    with pytest.raises(StoreFailed) as caught:
        examine(str(at_rest))
    assert caught.value.code == DAMAGED


def change(folder, statement):
    connection = sqlite3.connect(folder / "sessions.db")
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_somebody_elses_database(at_rest):
    change(at_rest, "ALTER TABLE session RENAME TO other")
    with pytest.raises(StoreFailed) as caught:
        look(at_rest)
    assert caught.value.code == FAILED


def test_of_a_newer_term2(at_rest):
    change(at_rest, f"PRAGMA user_version = {len(schema.migration_files()) + 1}")
    with pytest.raises(StoreTooNew):
        look(at_rest)


def test_what_takes_too_long_is_given_up(at_rest, monkeypatch):
    monkeypatch.setattr(examine_module, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(examine_module, "_INSTRUCTIONS", 1)
    found = look(at_rest)
    assert (found.found, found.sound) == (True, False)
    assert "too large" in found.note


# -- without a write-ahead log, as on file systems that have no shared memory ----------------------


@pytest.fixture
def journalled(at_rest):
    """The database in the mode in which a writer keeps readers out."""
    change(at_rest, "PRAGMA journal_mode = DELETE")
    change(at_rest, "CREATE TABLE filler (text)")
    return at_rest


def test_at_rest_without_a_log(journalled):
    assert look(journalled) == Examined(found=True, sound=True, sessions=2)


def test_locked_by_a_writer(journalled, monkeypatch):
    monkeypatch.setattr(examine_module, "LOOK_SECONDS", 0.02)
    with holding(journalled, _JOURNALLED):
        found = look(journalled)
    assert (found.found, found.sound) == (True, False)
    assert "locked" in found.note


def test_a_writer_was_killed_in_its_midst(journalled):
    with holding(journalled, _JOURNALLED) as holder:
        holder.is_killed()
    assert (journalled / "sessions.db-journal").stat().st_size > 0
    found = look(journalled)
    assert (found.found, found.sound) == (True, False)
    assert "midst of a write" in found.note


# -- a daemon begins meanwhile ---------------------------------------------------------------------


def test_a_bad_verdict_on_a_file_that_changed_meanwhile_does_not_count(at_rest, monkeypatch):
    real = examine_module._look
    looks = []

    def torn(path, give_up, *, in_use):
        looks.append(in_use)
        if len(looks) == 1:
            os.utime(path, ns=(0, 0))
            raise StoreFailed.because(DAMAGED)
        return real(path, give_up, in_use=in_use)

    monkeypatch.setattr(examine_module, "_look", torn)
    assert examine(str(at_rest)) == Examined(found=True, sound=True, sessions=2)
    assert looks == [False, False]


def test_a_bad_verdict_on_a_file_that_never_rests_counts(at_rest, monkeypatch):
    def torn(path, give_up, *, in_use):
        os.utime(path, ns=(0, os.stat(path).st_mtime_ns + 1))
        raise StoreFailed.because(DAMAGED)

    monkeypatch.setattr(examine_module, "_look", torn)
    with pytest.raises(StoreFailed):
        examine(str(at_rest))


# -- permissions -----------------------------------------------------------------------------------


def test_files_that_this_user_cannot_write(at_rest):
    assert barred(str(at_rest)) == ()
    if os.geteuid() == 0:
        pytest.skip("root may write to any file; the tests of `term2 doctor` try it as an ordinary user")
    (at_rest / "sessions.db").chmod(0o400)
    assert barred(str(at_rest)) == (str(at_rest / "sessions.db"),)
