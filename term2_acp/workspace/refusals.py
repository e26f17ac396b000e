"""Why the file port refuses. Each message is one for the model: what was found, and what would work.

None of these is a fault of term2, and none means that a file was changed, but for the one that says so
(``several.PartlyCommitted``).
"""

import errno
import os


class FileRefused(Exception):
    """The file or folder cannot be used in this way. The base of everything this room raises."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class PathRefused(FileRefused):
    """The path as written leads nowhere that may be opened: bad characters, a loop, ``/proc``."""


class PathChanged(FileRefused):
    """The path leads elsewhere than it did when it was checked: a link or a folder was swapped."""


class Missing(FileRefused):
    """There is nothing at the path."""


class NotRegular(FileRefused):
    """Something is there, but no regular file (or, where a folder is wanted, no folder)."""


class TooLarge(FileRefused):
    """The file is larger than the room reads."""


class AlreadyThere(FileRefused):
    """A new file was to be made where one appeared meanwhile."""


class NotRead(FileRefused):
    """The model has not read this file in this session, so it must not change it."""


class ChangedSinceRead(FileRefused):
    """The file's content is not what the model has seen."""


class Unsaved(FileRefused):
    """The editor has changes of the file that are not saved, and an edit of the disk would pass them by."""


class Failed(FileRefused):
    """The operating system refused: permissions, a full disk, a broken disk."""


def from_os_error(error: OSError, path: str) -> FileRefused:
    """The refusal that an error of the operating system means, for the canonical ``path``."""
    if error.errno == errno.ENOENT:
        return Missing(f"{path} does not exist.")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PathChanged(f"{path} cannot be opened: a part of it is no folder, or became a link meanwhile.")
    if error.errno == errno.ENAMETOOLONG:
        return PathRefused("The path is too long.")
    reason = os.strerror(error.errno) if error.errno else "unknown error"
    return Failed(f"{path} cannot be used: {reason}.")
