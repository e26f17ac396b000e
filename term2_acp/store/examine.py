"""Looking at the session database without touching it, also while daemons work with it.

A connection that only reads is not enough for that: beside a database in WAL mode SQLite makes the two files
it coordinates by, and a reader leaves them behind. So there are two ways of looking:

- *At rest* (no log, no index beside it): as a file that nobody changes. SQLite takes no lock and makes
  nothing. Should a daemon begin meanwhile, what was read may not fit together, so a bad verdict counts only
  if the file is still the same afterwards.
- *In use*, or left behind by a process that was killed: as one reader more, with the index opened for reading
  only. Writers go on; what such a reader needs and does not find is an error, and nothing is made. (If the
  last daemon ends in the instant before SQLite looks, an empty log stays; the next to end removes it.)

The look takes ``LOOK_SECONDS`` at most. That is well below what a daemon's statement waits
(``schema.BUSY_SECONDS``), for the file systems on which a reader keeps writers out.
"""

import os
import sqlite3
import stat
import time
from contextlib import closing
from urllib.parse import quote

from term2_acp.domain.classes import frozen
from term2_acp.store import schema
from term2_acp.store.errors import BUSY, DAMAGED, READ_ONLY, StoreFailed, StoreTooNew
from term2_acp.store.faults import FAULTS

LOOK_SECONDS = 2.0

DATABASE = "sessions.db"

_FILES = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "sessions.lock")

# How often SQLite asks whether it is time to stop, in instructions of its machine: about every millisecond.
_INSTRUCTIONS = 10_000

# A daemon that starts or ends in the midst of a look changes which way is right. More often than this it is
# no coincidence.
ATTEMPTS = 3


@frozen
class Examined:
    """What there is. ``found``: there is a database; ``sound``: it was looked at whole, and nothing is wrong.

    ``sessions`` is how many it holds; None where they were not counted. ``note`` says why ``sound`` is false.
    """

    found: bool
    sound: bool = False
    sessions: int | None = None
    note: str = ""


_TOO_LONG = Examined(
    found=True, note="The database is too large to be looked at whole; nothing wrong was seen."
)
_LEFT_OPEN = Examined(
    found=True,
    note="The database was left in the midst of a write; the next start sees to that before it is used.",
)
_LOCKED = Examined(found=True, note="Another process kept the database locked, so it was not looked at.")


def barred(directory: str) -> tuple[str, ...]:
    """The store's files in the directory that are there and that this user cannot both read and write."""
    paths = [os.path.join(directory, name) for name in _FILES]
    return tuple(path for path in paths if os.path.exists(path) and not os.access(path, os.R_OK | os.W_OK))


def examine(directory: str) -> Examined:
    """Look at the database in the state directory. It blocks, for ``LOOK_SECONDS`` at most.

    Raises ``StoreTooNew``, and ``StoreFailed`` for a database that is damaged or cannot be read.
    """
    path = os.path.join(directory, DATABASE)
    give_up = time.monotonic() + LOOK_SECONDS
    for attempt in range(ATTEMPTS):
        before = state_of(path)
        if before is None:
            return Examined(found=False)
        try:
            return _look(path, give_up, in_use=in_use(path))
        except (*FAULTS, StoreFailed) as error:
            if before == state_of(path) or attempt == ATTEMPTS - 1:
                return _verdict(error)
    raise AssertionError  # the last attempt returns or raises


def state_of(path: str) -> tuple[object, ...] | None:
    """What is another when a daemon has begun, ended, or written to the database itself; None without one."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreFailed.from_error(error) from error
    if not stat.S_ISREG(status.st_mode):
        raise StoreFailed.because(DAMAGED)
    return status.st_ino, status.st_size, status.st_mtime_ns, in_use(path)


def in_use(path: str) -> bool:
    """Whether something lies beside the database that belongs to it. An empty log holds nothing."""
    return os.path.exists(f"{path}-shm") or _size(f"{path}-wal") > 0 or _size(f"{path}-journal") > 0


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # it is not there, perhaps since a moment ago
        return 0


def _look(path: str, give_up: float, *, in_use: bool) -> Examined:
    way = "mode=ro&readonly_shm=1" if in_use else "mode=ro&immutable=1"
    uri = f"file://{quote(os.fsencode(path))}?{way}"
    # Half of the time may go in waiting for a lock, so that some is left for the look.
    patience = max(give_up - time.monotonic(), 0.0) / 2
    with closing(sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > give_up, _INSTRUCTIONS)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(schema.migration_files()):
            raise StoreTooNew
        sessions = None
        if version > 0:
            (sessions,) = connection.execute("SELECT count(*) FROM session").fetchone()
        (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if said != "ok":
            raise StoreFailed.because(DAMAGED)
    return Examined(found=True, sound=True, sessions=sessions)


def _verdict(error: Exception) -> Examined:
    """What an error means. Raises ``StoreFailed`` where it means that the database cannot be used."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_INTERRUPT:
        return _TOO_LONG
    failure = StoreFailed.from_error(error)
    if failure.code == BUSY:
        return _LOCKED
    if code is not None and failure.code == READ_ONLY and code & 0xFF != sqlite3.SQLITE_PERM:
        # A log without its index, or a rollback that only a writer may make. A file that could not be
        # opened at all has been seen before: its permissions are looked at by themselves.
        return _LEFT_OPEN
    raise failure from error
