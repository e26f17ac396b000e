"""What can go wrong in the store, in words for the person.

Every error carries a ``code``, one stable word, and a ``message``, one sentence that says what failed
and what to do. Neither holds a path, a key or anything of a session's content: the sentence goes to
the editor. What SQLite or the system said is in the log and in ``__cause__``.
"""

import errno

CLOSED = "store_closed"
FULL = "store_full"
READ_ONLY = "store_read_only"
BUSY = "store_busy"
DAMAGED = "store_damaged"
FAILED = "store_failed"

_SENTENCES = {
    CLOSED: "The session store is closed.",
    FULL: "The disk that holds term2's state is full; free some space and try again.",
    READ_ONLY: "term2's state directory cannot be written to; check its permissions.",
    BUSY: "Another process kept the session store locked; try again.",
    DAMAGED: (
        "The session store is damaged; export what can be read, then move sessions.db out of term2's state "
        "directory, with its -wal and -shm, to start afresh."
    ),
    FAILED: "The session store could not be used; the log has the details.",
}

# SQLite's primary result codes (sqlite.org/rescode.html), by number so that this module can be imported
# without sqlite3. CANTOPEN is what a directory without permission gives: WAL needs files beside the
# database.
_SQLITE_CODES = {
    3: READ_ONLY,  # PERM
    5: BUSY,  # BUSY
    6: BUSY,  # LOCKED
    8: READ_ONLY,  # READONLY
    11: DAMAGED,  # CORRUPT
    13: FULL,  # FULL
    14: READ_ONLY,  # CANTOPEN
    15: BUSY,  # PROTOCOL: locks of the WAL index were contended for too long
    26: DAMAGED,  # NOTADB
}

# Extended result codes that say more than their primary one.
_EXTENDED_CODES = {
    4874: FULL,  # IOERR_SHMSIZE: no room for the index of the WAL
}

_PRIMARY_CODE = 0xFF  # the low byte of an extended result code

_ERRNOS = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EFBIG: FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: READ_ONLY,
    errno.EPERM: READ_ONLY,
    errno.ENOENT: READ_ONLY,
    errno.ENOTDIR: READ_ONLY,
    errno.EISDIR: READ_ONLY,
}


class StoreError(Exception):
    """Something was asked of the store that it could not do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StoreFailed(StoreError):
    """The store could not read or write. Nothing of what was asked for was kept.

    It says nothing about other sessions, nor about the next attempt: a disk that was full may have
    room again.
    """

    @classmethod
    def because(cls, code: str) -> "StoreFailed":
        """The failure for one of this module's codes, with its sentence."""
        return cls(code, _SENTENCES[code])

    @classmethod
    def from_error(cls, error: BaseException) -> "StoreFailed":
        """What SQLite or the operating system said, as a failure. A failure is handed through."""
        if isinstance(error, cls):
            return error
        number = getattr(error, "sqlite_errorcode", None)
        if number is not None:
            primary = _SQLITE_CODES.get(number & _PRIMARY_CODE, FAILED)
            failure = cls.because(_EXTENDED_CODES.get(number, primary))
        elif isinstance(error, UnicodeDecodeError):  # see ``faults``
            failure = cls.because(DAMAGED)
        elif isinstance(error, OSError):
            failure = cls.because(_ERRNOS.get(error.errno or 0, FAILED))
        else:
            failure = cls.because(FAILED)
        failure.__cause__ = error
        return failure


def is_damage(error: BaseException) -> bool:
    """Whether what SQLite said means that the database is damaged."""
    return StoreFailed.from_error(error).code == DAMAGED


class StoreTooNew(StoreFailed):
    """The database was written by a newer term2. It was not touched."""

    def __init__(self) -> None:
        super().__init__(
            "store_too_new", "The session store was written by a newer term2; update this one to use it."
        )


class UnknownSession(StoreFailed):
    """There is no session with that id."""

    def __init__(self) -> None:
        super().__init__("unknown_session", "There is no such session in the store.")


class BadCursor(StoreError):
    """The cursor is not one that ``Store.page`` made."""

    def __init__(self) -> None:
        super().__init__("bad_cursor", "The cursor is not one that this agent made.")


class ClaimedElsewhere(StoreError):
    """Someone who is alive holds the session. ``pid`` is the process; 0 when it could not be told."""

    def __init__(self, pid: int) -> None:
        super().__init__("claimed_elsewhere", f"The session is open in another process (pid {pid}).")
        self.pid = pid
