"""Where a path really leads: links and ``..`` followed one step at a time, as the kernel would.

Theory of operation. A decision is made on the canonical path, and that path is later opened with no link
followed (``opening``), so the two cannot disagree: whatever is swapped in between makes the opening
fail. Parts that do not exist are kept as they are written, so a file that is yet to be made has a
canonical path too, and a dangling link counts by where it leads. The names of the links that were passed
are kept as well: a file that is reached by the name ``.bashrc`` is guarded wherever the link points.

Only metadata is asked for, and nothing is opened.
"""

import functools
import os
import posixpath
import stat
from collections import deque
from collections.abc import Mapping

from term2_acp.domain.classes import frozen
from term2_acp.domain.paths import Target
from term2_acp.workspace.aliases import Identity, identity_of
from term2_acp.workspace.refusals import PathChanged, PathRefused

# Linux's own bounds, in bytes; the limit on links is the kernel's, too.
MAX_PATH_BYTES = 4096
MAX_NAME_BYTES = 255
MAX_LINKS = 40

_TOO_LONG = f"The path is too long: at most {MAX_PATH_BYTES:,} bytes, {MAX_NAME_BYTES} for each name."


@frozen
class Resolved:
    """A canonical path, and the paths of the links that were followed to reach it.

    ``identities`` are those of everything that was passed on the way, the path itself included, by name.
    """

    path: str
    links: tuple[str, ...]
    identities: Mapping[str, Identity]

    @property
    def on_disk(self) -> bool:
        """Whether there is something at the path, on a file system that a block device holds.

        One that comes over a network, or out of another process, has the major number 0: there even the
        opening of a file may hang. (Drivers outside the kernel for a disk have the number of the disk. Where
        one hangs, so does the look at a name that came before.)
        """
        identity = self.identities.get(self.path)
        return identity is not None and os.major(identity[0]) != 0


def canonical(path: str) -> Resolved:
    """Follow an absolute path to where it leads.

    Raises:
        PathRefused: the path cannot be followed, or leads through ``/proc``.
    """
    todo = deque(path.split("/"))
    current = ""  # the root, so that what is below it needs no case of its own
    links: list[str] = []
    identities: dict[str, Identity] = {}
    while todo:
        part = todo.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            current = _above(current)
            continue
        current = f"{current}/{part}"
        found = _look(current)
        if found is None:
            continue
        if not stat.S_ISLNK(found.st_mode):
            identity = identity_of(found)
            if identity is not None:
                identities[current] = identity
            continue
        links.append(current)
        if len(links) > MAX_LINKS:
            raise PathRefused("The path goes through too many links, or links that lead back to themselves.")
        leads_to = _read_link(current)
        todo.extendleft(reversed(leads_to.split("/")))
        current = "" if leads_to.startswith("/") else _above(current)
    return Resolved(current or "/", tuple(links), identities)


def absolute(cwd: str, typed: str) -> str:
    """A path as the model wrote it, made absolute from ``cwd`` and otherwise untouched.

    Raises:
        PathRefused: the text is no path that this room takes.
    """
    if not typed.strip():
        raise PathRefused("The path is empty.")
    if "\0" in typed:
        raise PathRefused("The path holds a NUL character.")
    if typed == "~" or typed.startswith("~/"):
        raise PathRefused("`~` is not expanded. Write the absolute path of the home directory instead.")
    if typed.lower().startswith("file:"):
        raise PathRefused("This is a URL. Write the plain path instead.")
    path = _text(posixpath.join(cwd, typed))
    data = os.fsencode(path)
    if len(data) > MAX_NAME_BYTES and (
        len(data) >= MAX_PATH_BYTES or any(len(name) > MAX_NAME_BYTES for name in data.split(b"/"))
    ):
        raise PathRefused(_TOO_LONG)
    return path


def require_same(target: Target) -> Resolved:
    """Where a target leads now: refuses one that is not what its path leads to any more.

    Raises:
        PathChanged: it leads elsewhere now.
        PathRefused: it cannot be followed any more.
    """
    found = canonical(target.typed)
    if found.path != target.path:
        raise PathChanged(f"{target.typed} led to {target.path} when it was checked; now it leads elsewhere.")
    return found


@functools.cache
def proc_device() -> int | None:
    """The device number of ``/proc``, or None where there is no such file system."""
    try:
        proc, root = os.stat("/proc"), os.stat("/")
    except OSError:
        return None
    return proc.st_dev if proc.st_dev != root.st_dev else None


def _above(path: str) -> str:
    """The folder that a canonical path is in; the root is empty text here."""
    return path.rpartition("/")[0]


def _look(path: str) -> os.stat_result | None:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise PathRefused(f"{path} cannot be looked at: {error.strerror}.") from None
    if found.st_dev == proc_device():
        # Its links lead to whatever a process has open, its files are no files, and one of them is
        # the environment that our keys came in.
        raise PathRefused(f"{path} is in /proc, which shows processes and holds no files.")
    return found


def _read_link(path: str) -> str:
    try:
        return _text(os.readlink(path))
    except OSError:
        raise PathRefused(f"{path} changed while it was looked at.") from None


def _text(path: str) -> str:
    """The path, if it is text: a name that is not UTF-8 can be put into no message to anyone."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise PathRefused("The path goes through a name that is not UTF-8.") from None
    return path
