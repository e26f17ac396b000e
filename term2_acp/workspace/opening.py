"""Opening what a canonical path names, and nothing else.

The way is walked from ``/`` by descriptor, one name at a time, and no name on it may be a link: a folder
that was swapped for a link after the check is an error here, not a way out. What is opened in the end
must be a regular file, looked at before it is opened (opening a FIFO or a device has effects of its own)
and once more by its descriptor; ``O_NONBLOCK`` is for the moment between the two.

``openat2`` could do the walk in one call on newer kernels; six short calls do it everywhere.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from term2_acp.domain.classes import frozen
from term2_acp.workspace.refusals import Missing, NotRegular, PathChanged, from_os_error
from term2_acp.workspace.resolve import proc_device

# O_PATH asks for no permission but search; elsewhere than on Linux a folder must be readable.
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Kind(Enum):
    """What is at a path."""

    FILE = "file"
    FOLDER = "folder"
    NOTHING = "nothing"
    OTHER = "other"


@frozen
class Identity:
    """Which file it is and in which state, as far as metadata tells. Times are nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> "Identity":
        """The identity that a stat result shows."""
        return cls(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def kind(path: str) -> Kind:
    """What is at a canonical path now. Metadata only."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return Kind.NOTHING
    if stat.S_ISREG(mode):
        return Kind.FILE
    return Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER


def open_folder(path: str) -> int:
    """Open a canonical folder with no link followed; a descriptor that is the caller's to close.

    Raises:
        FileRefused: it is not there, or not what it was.
    """
    here = os.open("/", _FOLDER)
    try:
        for name in path.split("/"):
            if name:
                below = os.open(name, _FOLDER, dir_fd=here)
                os.close(here)
                here = below
    except OSError as error:
        os.close(here)
        raise from_os_error(error, path) from None
    return here


@contextmanager
def folder(path: str) -> Iterator[int]:
    """``open_folder`` as a context that closes the descriptor."""
    descriptor = open_folder(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def look(name: str, within: int) -> os.stat_result | None:
    """The metadata of a name in an open folder, a link's own, or None if there is nothing.

    Raises:
        OSError: it cannot be looked at.
    """
    try:
        return os.stat(name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:
        return None


def identity(path: str) -> Identity | None:
    """Which file a canonical path names now, or None if there is nothing. Metadata only.

    Raises:
        FileRefused: it cannot be looked at.
    """
    head, name = os.path.split(path)
    try:
        with folder(head) as within:
            found = look(name, within)
    except Missing:
        return None
    except OSError as error:
        raise from_os_error(error, path) from None
    return Identity.of(found) if found is not None else None


def open_regular(name: str, within: int, path: str) -> int:
    """Open a regular file for reading by its name in an open folder; ``path`` is for messages.

    Raises:
        FileRefused: it is missing, unreadable, or no regular file.
    """
    name = name or "."  # "/" has no name
    try:
        require_regular(os.stat(name, dir_fd=within, follow_symlinks=False), path)
        descriptor = os.open(name, _FILE, dir_fd=within)
    except OSError as error:
        raise from_os_error(error, path) from None
    try:
        require_regular(os.fstat(descriptor), path)
    except NotRegular:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(found: os.stat_result, path: str) -> None:
    """Refuse everything but a regular file.

    Raises:
        NotRegular: it is something else.
        PathChanged: it is a link, which a canonical path never names.
    """
    if stat.S_ISLNK(found.st_mode):
        raise PathChanged(f"{path} became a link after it was checked.")
    if not stat.S_ISREG(found.st_mode) or found.st_dev == proc_device():
        kind = next((words for test, words in _KINDS if test(found.st_mode)), "no regular file")
        raise NotRegular(f"{path} is {kind}; only regular files can be read or changed.")
