"""Where protected names lie in a workspace, at any depth: a walk that remembers what it saw.

Theory of operation. The walk is breadth first, so that what is nearest is found within its bounds. It follows
no link, and does not go into what is guarded as a whole. A folder is listed once and remembered with the
metadata that tell of any change among its names; the next walk costs one look at each folder, and a listing
only of those that changed.

The clock of a file system may stand still while things happen: what was listed within ``SETTLED_NS`` of a
change may have changed once more without a trace, and is listed again.

A folder that must not be looked into is itself among what is found. Who owns it can open it again, and would
have hidden a protected name there from the walk and not from a command.

Only metadata is asked for. A mount in the workspace may hang, so all of this is for a thread, and for one
thread at a time. Who can swap folders for links in the midst of a walk can have names listed from elsewhere;
whoever uses what was found follows each name once more.
"""

import os
import posixpath
import stat
import time
from collections import deque
from collections.abc import Container, Iterator

from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.domain.paths import protected_at, protected_below

# Folders of one workspace that are looked at, some 500 bytes and 5 microseconds each.
MAX_FOLDERS = 20_000

# Protected names that are taken from one folder, and in all. Letters that a file system may ignore in a name
# make any number of spellings.
_MAX_NAMES_EACH = 256
_MAX_NAMES = 4096

# Names of sub-folders that are remembered; a folder that would go beyond is listed each time.
_MAX_REMEMBERED = 4 * MAX_FOLDERS

# Above the coarsest clock of a file system in use: FAT counts in two seconds.
SETTLED_NS = 3_000_000_000

# Folders that programs fill by the thousand with other people's projects. They are looked at last.
_LAST = frozenset({"node_modules", ".venv", "venv"})

# A folder with these three is a repository to git, whatever it is called.
_REPOSITORY = ("HEAD", "objects", "refs")

# File systems that hold no files, for a workspace that is "/".
_NO_FILES = frozenset({"/proc", "/sys", "/dev"})

_State = tuple[int, int, int, int]


@frozen
class Walk:
    """What a walk found, nearest first, all paths below the canonical top.

    ``names`` are protected names as they are written; one may be a link, or lie behind one. ``repositories``
    are folders that git takes for bare repositories. ``closed`` are folders that cannot be looked into.
    ``incomplete``: there are more folders than were looked at.
    """

    names: tuple[str, ...]
    repositories: tuple[str, ...]
    closed: tuple[str, ...]
    incomplete: bool


@frozen
class _Folder:
    """A folder as it was listed. ``state`` is None where that cannot be relied upon a second time."""

    state: _State | None
    folders: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    is_repository: bool = False
    is_closed: bool = False
    is_cut: bool = False


_NOT_REMEMBERED = _Folder(None)


@define(eq=False)
class GuardedTree:
    """The folders below ``top``, which is canonical."""

    top: str
    _known: dict[str, _Folder] = field(factory=dict, init=False)

    def walk(self, shut: Container[str] = ()) -> Walk:
        """Walk all of it, but not into the folders ``shut``. What cannot be looked at is left out."""
        known: dict[str, _Folder] = {}
        names: list[str] = []
        repositories: list[str] = []
        closed: list[str] = []
        incomplete = False
        remembered = 0
        for path, folder in self._folders(shut):
            remembered += len(folder.folders)
            known[path] = folder if remembered <= _MAX_REMEMBERED else _NOT_REMEMBERED
            names += (posixpath.join(path, name) for name in folder.names)
            if folder.is_repository:
                repositories.append(path)
            if folder.is_closed:
                closed.append(path)
            incomplete = incomplete or folder.is_cut
        self._known = known
        incomplete = incomplete or len(known) >= MAX_FOLDERS or len(names) > _MAX_NAMES
        return Walk(tuple(names[:_MAX_NAMES]), tuple(repositories), tuple(closed), incomplete)

    def _folders(self, shut: Container[str]) -> Iterator[tuple[str, _Folder]]:
        """The folders in the order of the walk: those that may be many or slow come last."""
        first, last = deque([self.top]), deque[str]()
        device: int | None = None
        left = MAX_FOLDERS
        while (first or last) and left > 0:
            is_early = bool(first)
            path = first.popleft() if is_early else last.popleft()
            found = _look(path)
            if found is None:
                continue
            device = found.st_dev if device is None else device
            if is_early and found.st_dev != device:
                last.append(path)  # another file system, perhaps across a network
                continue
            folder = self._folder(path, found)
            left -= 1
            yield path, folder
            if folder.is_repository and path != self.top:
                continue
            base = path.rstrip("/") + "/"
            for name in folder.folders:
                below = base + name
                queue = last if name in _LAST else first
                if below not in shut and below not in _NO_FILES and len(queue) < MAX_FOLDERS:
                    queue.append(below)

    def _folder(self, path: str, found: os.stat_result) -> _Folder:
        state = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known.state == state:
            return known
        is_settled = time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) > SETTLED_NS
        return _listed(path, state if is_settled else None)


def _look(path: str) -> os.stat_result | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISDIR(found.st_mode) else None


def _listed(path: str, state: _State | None) -> _Folder:
    folders: list[str] = []
    names: list[str] = []
    marks = 0
    try:
        # Without the right to search, names can be listed and not looked at.
        if not os.access(path, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            return _Folder(None, is_closed=True)
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if protected_at(path, name) is not None:
                    names.append(name)
                elif entry.is_symlink():
                    names += (f"{name}/{rest}" for rest in protected_below(name))
                elif entry.is_dir(follow_symlinks=False) and len(folders) < MAX_FOLDERS:
                    folders.append(name)
                marks += name in _REPOSITORY
    except PermissionError:
        return _Folder(None, is_closed=True)
    except OSError:
        return _Folder(None)
    return _Folder(
        state,
        tuple(sorted(folders)),
        tuple(sorted(names)[:_MAX_NAMES_EACH]),
        is_repository=marks == len(_REPOSITORY),
        is_cut=len(folders) >= MAX_FOLDERS or len(names) > _MAX_NAMES_EACH,
    )
