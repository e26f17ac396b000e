"""Directories and files that only their owner can read, from the moment they exist.

The mode is given when a thing is made, whatever the umask says, so there is no moment in which another
user could open it. What exists already is left as it is: a person may have reasons.
"""

import errno
import os

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


def make_directory(path: str) -> None:
    """Make the directory and whatever is missing above it, 0700 each. Fine when it exists.

    Raises ``OSError``; ``NotADirectoryError`` when something else has the name.
    """
    path = os.path.abspath(path)
    try:
        _make_one(path)
    except FileNotFoundError:
        make_directory(os.path.dirname(path))
        # Once only: there are places (/proc) that say for ever that something is missing.
        _make_one(path)


def _make_one(path: str) -> None:
    """Make the directory itself, unless another process has made it meanwhile."""
    try:
        os.mkdir(path, _DIRECTORY_MODE)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None


def make_file(path: str) -> None:
    """Make an empty file, 0600, unless there is one.

    A file that exists is not even opened: closing any descriptor of a database releases the locks
    that SQLite holds on it in the whole process (POSIX record locks belong to the process).
    """
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE))
    except FileExistsError:
        pass


def open_file(path: str, flags: int) -> int:
    """Open a file, made 0600 if it is missing. The descriptor is not inherited."""
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
