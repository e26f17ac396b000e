"""A file that an export is written to: 0600, whole or not at all, and never in place of another by chance.

It is written beside its place under another name, and given its name when it is whole.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from term2_acp.cli.sessions.kept import NotDone
from term2_acp.cli.terminal import Output

_FILE_MODE = 0o600

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


@contextmanager
def new_file(path: str, *, force: bool) -> Iterator[Output]:
    """Write to a file that has its name when the context is left well; ``force`` replaces another file.

    Raises ``NotDone``. Left badly, nothing is left behind.
    """
    path = os.path.abspath(path)
    _check(path, force=force)
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(4)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(beside, flags, _FILE_MODE)
    except OSError as error:
        raise _cannot(path, error) from error
    try:
        try:
            yield Output(descriptor)
        finally:
            os.close(descriptor)
        _give_name(beside, path, force=force)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)


def _check(path: str, *, force: bool) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise NotDone(f"{path} is there and is no regular file; nothing was written")
    if not force:
        raise NotDone(f"{path} is there already; --force replaces it")


def _give_name(beside: str, path: str, *, force: bool) -> None:
    try:
        if force:
            os.replace(beside, path)
        else:
            _link(beside, path)
    except FileExistsError as error:
        raise NotDone(f"{path} is there already; --force replaces it") from error
    except OSError as error:
        raise _cannot(path, error) from error


def _link(beside: str, path: str) -> None:
    """Unlike a renaming, a link fails where somebody was faster. Some file systems (exFAT) have none."""
    try:
        os.link(beside, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _check(path, force=False)
        os.rename(beside, path)


def _cannot(path: str, error: OSError) -> NotDone:
    return NotDone(f"{path} cannot be written: {error.strerror}")
