"""Opening the database, and bringing its tables up to date.

Migrations are the files ``migrations/NNNN_name.sql``, numbered from 1 without a gap; ``user_version``
in the database says how many of them it has seen. They run inside one ``BEGIN IMMEDIATE`` transaction
that looks at the number again, so two processes that open the store at once are safe: the second finds
the work done. A migration that was released never changes; a database that has seen more migrations
than we know belongs to a newer term2 and is left alone.

WAL lets one process write while others read. ``synchronous = NORMAL`` survives the death of the process
at any instant; a power cut may take the last moments, never the database (sqlite.org/wal.html). FULL
costs ten times as much here and a hundred times as much on a laptop.

``secure_delete`` overwrites with zeros what is removed, in the pages it stood in and in the pages that it
leaves free. It is on from the start and not only while something is removed, because rows also move between
pages as others are put among them, and leave copies behind. Nothing is ever removed but whole sessions, so it
costs an append nothing.

``auto_vacuum = INCREMENTAL`` lets a deletion give its pages back to the disk. It costs a commit that needs a
new page some 5 % more, and can only be chosen before there is a table: a database from before that keeps its
free pages for what comes next. A ``VACUUM`` would do without, but nobody could write while it copies the
whole database (20 ms a MiB), and what it copies would be left in a temporary file.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

from term2_acp.store.errors import BUSY, DAMAGED, StoreFailed, StoreTooNew
from term2_acp.store.private import make_file

# How long a statement waits for another process that is writing. A group takes well under a
# millisecond; a process that was stopped in the middle of one must not hold the others up for long.
BUSY_SECONDS = 5.0

# Changing the journal mode needs the database for itself and does not always ask the busy handler, so
# it is tried again after this long, within BUSY_SECONDS.
_RETRY_SECONDS = 0.01

# How long emptying the log waits for readers of other processes. They read for milliseconds, and whoever is
# waited for longer has the log emptied when it is done.
_EMPTYING_SECONDS = 0.5

_MIGRATIONS = os.path.join(os.path.dirname(__file__), "migrations")


def open_database(path: str) -> sqlite3.Connection:
    """Open the database in the calling thread, made 0600 if it is missing, with tables up to date.

    Raises ``StoreTooNew`` and ``FAULTS``; the connection is closed then.
    """
    make_file(path)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        # A damaged text must not hide its neighbours; the default would raise for the whole result.
        connection.text_factory = decode_leniently
        migrations = migration_files()
        version = version_of(connection)
        if version > len(migrations):
            raise StoreTooNew
        if version == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _use_wal(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA secure_delete = ON")
        if version_of(connection) < len(migrations):
            _migrate(connection, migrations)
    except StoreTooNew:
        _close_untouched(connection, path)
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def commit(connection: sqlite3.Connection, work: Callable[[], None]) -> None:
    """Do the work in one write transaction, rolled back when anything is raised.

    IMMEDIATE, because a transaction that turns from reading to writing gets SQLITE_BUSY without the
    busy timeout. Some errors (a full disk) roll back by themselves.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        work()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def empty_log(connection: sqlite3.Connection) -> bool:
    """Fold the write-ahead log into the database and cut it to nothing; False where that cannot be done now.

    What was removed stands in the log until then, as it was written once.
    """
    connection.execute(f"PRAGMA busy_timeout = {int(_EMPTYING_SECONDS * 1000)}")
    try:
        (busy, _frames, _folded) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    return not busy


def give_back(connection: sqlite3.Connection, pages: int) -> bool:
    """Take so many pages that nothing is in off the end of the database; whether there may be more.

    They go back to the disk when the log is emptied. Of a database that cannot give any back, none.
    """
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    if not free:
        return False
    # A script, since it is done when every page has been stepped over, and `execute` takes one step.
    connection.executescript(f"PRAGMA incremental_vacuum({pages})")
    (left,) = connection.execute("PRAGMA freelist_count").fetchone()
    return 0 < int(left) < int(free)


def _close_untouched(connection: sqlite3.Connection, path: str) -> None:
    """Close a database that is not ours to write to.

    The last to close it would fold the log in that a process left which was killed. Who only reads cannot do
    that, so a reader stays for longer; without a log to keep, it would leave one behind.
    """
    try:
        log = os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        log = 0
    if not log:
        connection.close()
        return
    reader = sqlite3.connect(f"file://{quote(os.fsencode(path))}?mode=ro", uri=True)
    try:
        version_of(reader)
        connection.close()
    finally:
        reader.close()


def decode_leniently(text: bytes) -> str:
    """A text of the database, whatever is in it."""
    return text.decode(errors="replace")


def version_of(connection: sqlite3.Connection) -> int:
    """How many migrations the database has seen."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def migration_files() -> list[str]:
    """The paths of the migrations, in order."""
    names = sorted(name for name in os.listdir(_MIGRATIONS) if name.endswith(".sql"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    return [os.path.join(_MIGRATIONS, name) for name in names]


def _use_wal(connection: sqlite3.Connection) -> None:
    give_up = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if StoreFailed.from_error(error).code != BUSY or time.monotonic() > give_up:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            # A file system without shared memory keeps the old mode. It is safe, and slower.
            assert mode in ("wal", "delete", "memory"), mode
            return


def _migrate(connection: sqlite3.Connection, migrations: list[str]) -> None:
    def work() -> None:
        seen = version_of(connection)
        if seen > len(migrations):
            raise StoreTooNew
        for path in migrations[seen:]:
            with open(path, encoding="utf-8") as file:
                for statement in _statements(file.read()):
                    connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")

    commit(connection, work)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script. (``executescript`` would commit the transaction we are in.)"""
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        statement = "\n".join(lines)
        if sqlite3.complete_statement(statement):
            yield statement
            lines.clear()
    if "".join(lines).strip():
        raise StoreFailed.because(DAMAGED)
