"""Which of the guarded names directly below a folder are links, looked up only when it may have changed.

A look at every name costs a hundred calls of the system, and each path that a model writes is resolved
several times. A name becomes a link, or ceases to be one, only by a change of the folder that holds it,
and that shows in the folder's own metadata; a folder that is not there can appear only by a change of the
one above it. So the names are looked at again when one of those few folders changed; where a link leads is
asked each time, since that needs no change of theirs.

The clock of a file system ticks in milliseconds: what was looked at within ``UNSETTLED_NS`` of a change may
have changed once more without a trace, and is looked at again.
"""

import functools
import os
import posixpath
import time

from term2_acp.domain.paths import named_paths

# Folders in use at a time: home, and the workspaces of the open sessions.
_FEW_FOLDERS = 256

# Far above the tick of any file system's clock, far below what a person notices.
UNSETTLED_NS = 100_000_000

_State = tuple[tuple[int, int, int] | None, ...]


class NamedLinks:
    """The guarded names below one folder that are links. ``folder`` is canonical."""

    def __init__(self, folder: str, *, home: bool) -> None:
        self._names = named_paths(folder, home=home)
        self._holders = tuple(dict.fromkeys(posixpath.dirname(path) for path, _guard in self._names))
        self._watched: tuple[str, ...] = (folder,)
        self._state: _State | None = None
        self._links: tuple[tuple[str, str], ...] = ()

    def leading_elsewhere(self) -> list[tuple[str, str]]:
        """Pairs of the place that a guarded name leads to now, there or not, and that name's guard."""
        state = tuple(map(_state_of, self._watched))
        if state != self._state:
            looked_at = time.time_ns()
            self._watched = tuple(dict.fromkeys(map(_there, self._holders)))
            state = tuple(map(_state_of, self._watched))
            self._links = tuple((path, guard) for path, guard in self._names if _leads_elsewhere(path))
            settled = all(entry is None or looked_at - entry[2] > UNSETTLED_NS for entry in state)
            self._state = state if settled else None
        return [(_real(path), guard) for path, guard in self._links]


@functools.lru_cache(maxsize=_FEW_FOLDERS)
def named_links(folder: str, *, home: bool) -> NamedLinks:
    """The links of a folder, remembered for as long as it is in use."""
    return NamedLinks(folder, home=home)


def _state_of(folder: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, max(found.st_mtime_ns, found.st_ctime_ns)


def _there(folder: str) -> str:
    """The folder, or the deepest one above it that is there."""
    while folder != "/" and not os.path.isdir(folder):
        folder = posixpath.dirname(folder)
    return folder


def _leads_elsewhere(path: str) -> bool:
    return os.path.lexists(path) and _real(path) != path


def _real(path: str) -> str:
    """Where a path leads; the path itself when it changes at this very moment, as ``realpath`` may raise."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path
