"""Who has a session open: locks that the kernel holds, and that die with their holder.

One lock file serves all sessions of all processes. A session's record in it is four bytes at
``4 * number``: an open-file-description lock on the record *is* the claim, and what is written in it is
the holder's process id. The id is read only while the lock is refused, and only to tell the person;
nobody is signalled and nothing is decided by it, so one that is stale or used again does no harm. (A
lock that was taken this instant may show its last holder.)

Ten thousand sessions cost one descriptor, and as neighbouring records merge in the kernel, few locks.
Open-file-description locks belong to the descriptor, not to the process, so another store in the same
process is refused like any other; a second claim through the same store is refused by ``_held``.

The number of a session that was deleted is never given to another, so whoever still takes its lock holds
nothing and keeps nobody out.

Without such locks (macOS, on which this was not tried) each session has a file of its own and
``flock``: a descriptor a session.
"""

import errno
import fcntl
import os
import struct
from typing import Protocol

from term2_acp.store.errors import ClaimedElsewhere, StoreFailed
from term2_acp.store.private import make_directory, open_file

_RECORD = struct.Struct("<I")  # a process id

# struct flock as fcntl(2) has it with 64-bit offsets: type, whence, start, length, pid (0 for these locks).
_FLOCK = struct.Struct("@hhqqi4x")

_REFUSED = (errno.EAGAIN, errno.EACCES)

# In the state directory: the one lock file, or the folder of one a session.
_FILE = "sessions.lock"
_FOLDER = "locks"


class Locks(Protocol):
    """The claims of one store. Nothing here waits."""

    def acquire(self, number: int) -> None:
        """Take the session's lock. Raises ``ClaimedElsewhere``, and ``StoreFailed`` without locks."""
        ...

    def release(self, number: int) -> None:
        """Give it back; nothing happens when it is not held."""
        ...

    def close(self) -> None:
        """Give all back."""
        ...


class Claim:
    """A session that is held, until ``release`` or until the store is closed or the process dies."""

    def __init__(self, locks: Locks, number: int) -> None:
        self._locks: Locks | None = locks
        self._number = number

    def release(self) -> None:
        """Let others have the session. Never waits; a second call does nothing."""
        if self._locks is not None:
            self._locks.release(self._number)
            self._locks = None


def open_locks(directory: str) -> Locks:
    """The locks of the store in this directory, by what the system offers. Raises ``OSError``."""
    if hasattr(fcntl, "F_OFD_SETLK"):
        return LockFile(os.path.join(directory, _FILE))
    return LockFolder(os.path.join(directory, _FOLDER))


def holder_in(directory: str, number: int) -> int | None:
    """The process that has the session open, 0 where it cannot be told; None when nobody has it open.

    It only looks: nothing is made and no lock is taken (with files of their own, ``flock`` is held for an
    instant). Raises ``OSError``.
    """
    single = hasattr(fcntl, "F_OFD_GETLK")
    name, start = (_FILE, number * _RECORD.size) if single else (os.path.join(_FOLDER, f"{number}.lock"), 0)
    try:
        fd = os.open(os.path.join(directory, name), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        held = _is_locked(fd, start) if single else _is_flocked(fd)
        return _pid_from(os.pread(fd, _RECORD.size, start)) if held else None
    finally:
        os.close(fd)


def _is_locked(fd: int, start: int) -> bool:
    request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, _RECORD.size, 0)
    (kind, *_rest) = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, request))
    return bool(kind != fcntl.F_UNLCK)


def _is_flocked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _REFUSED:
            return True
        raise
    return False


class LockFile:
    """One file, one record a session, open-file-description locks."""

    def __init__(self, path: str) -> None:
        self._fd = open_file(path, os.O_RDWR)
        self._held: set[int] = set()

    def acquire(self, number: int) -> None:
        """See ``Locks.acquire``."""
        if number in self._held:
            raise ClaimedElsewhere(os.getpid())
        start = number * _RECORD.size
        try:
            self._set(fcntl.F_WRLCK, start)
        except OSError as error:
            if error.errno in _REFUSED:
                raise ClaimedElsewhere(_pid_from(os.pread(self._fd, _RECORD.size, start))) from None
            raise StoreFailed.from_error(error) from error
        self._held.add(number)
        _note_pid(self._fd, start)

    def release(self, number: int) -> None:
        """See ``Locks.release``."""
        if number in self._held:
            self._held.discard(number)
            self._set(fcntl.F_UNLCK, number * _RECORD.size)

    def close(self) -> None:
        """See ``Locks.close``."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._held.clear()

    def _set(self, kind: int, start: int) -> None:
        request = _FLOCK.pack(kind, os.SEEK_SET, start, _RECORD.size, 0)
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, request)


class LockFolder:
    """One file a session, ``flock``."""

    def __init__(self, path: str) -> None:
        make_directory(path)
        self._path = path
        self._held: dict[int, int] = {}

    def acquire(self, number: int) -> None:
        """See ``Locks.acquire``."""
        if number in self._held:
            raise ClaimedElsewhere(os.getpid())
        try:
            fd = open_file(os.path.join(self._path, f"{number}.lock"), os.O_RDWR)
        except OSError as error:
            raise StoreFailed.from_error(error) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _pid_from(os.pread(fd, _RECORD.size, 0))
            os.close(fd)
            if error.errno in _REFUSED:
                raise ClaimedElsewhere(holder) from None
            raise StoreFailed.from_error(error) from error
        self._held[number] = fd
        _note_pid(fd, 0)

    def release(self, number: int) -> None:
        """See ``Locks.release``."""
        fd = self._held.pop(number, None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """See ``Locks.close``."""
        for number in list(self._held):
            self.release(number)


def _note_pid(fd: int, start: int) -> None:
    try:
        os.pwrite(fd, _RECORD.pack(os.getpid()), start)
    except OSError:
        # A full disk. The lock holds; only the process id that others are told may be an old one.
        pass


def _pid_from(record: bytes) -> int:
    return int(_RECORD.unpack(record)[0]) if len(record) == _RECORD.size else 0
