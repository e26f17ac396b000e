"""The folders that git keeps its own things in: which they are, and how they lead to one another.

A ``.git`` may be a folder, or a file of one line that names one (a worktree, a submodule). Such a folder may
hold others for submodules and worktrees, and may name a common one that it takes its configuration from. What
of all this git executes is in the table of ``domain.paths``; here is only how to get there.

Nothing is believed that git would not believe: a folder counts if git would take it for a repository. Nothing
is opened but a short regular file, with no link followed. All of it blocks: for a thread.
"""

import contextlib
import itertools
import os
import posixpath
from collections import deque
from collections.abc import Iterator

from term2_acp.domain.paths import GIT_INNER
from term2_acp.workspace import opening
from term2_acp.workspace.refusals import FileRefused

# Bytes of a file that names a folder. A path is no longer.
_MAX_TEXT = 4096 + len("gitdir: \n")

# A submodule's folder is called as the submodule, which may have slashes in its name.
_MAX_DEPTH = 8

# Folders for submodules and worktrees that are looked at in one repository.
MAX_INNER = 1000

# Entries of a git folder, and of what is below it, that are looked at for links.
MAX_ENTRIES = 5000

_NAMES_FOLDER = "gitdir: "

# What git writes most in its folder, to look at first; and in which folders there it writes more.
_WRITTEN = (
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "HEAD",
    "MERGE_MSG",
    "ORIG_HEAD",
    "SQUASH_MSG",
    "TAG_EDITMSG",
    "index",
    "info",
    "logs",
    "logs/HEAD",
    "logs/refs",
    "objects",
    "packed-refs",
    "refs",
    "refs/heads",
)
_WRITTEN_BELOW = frozenset({"info", "logs", "rebase-apply", "rebase-merge", "refs", "sequencer"})

# What is in a git folder and holds no other one, or one that is asked for on its own.
_PARTS = frozenset({"hooks", "info", "lfs", "logs", "modules", "objects", "refs", "worktrees"})


def named_by(file: str) -> str | None:
    """The canonical folder that a ``.git`` file names, if git would take it; ``file`` is canonical."""
    text = _text_of(file)
    if text is None or not text.startswith(_NAMES_FOLDER):
        return None
    return _led_to(posixpath.dirname(file), text[len(_NAMES_FOLDER) :])


def common_of(folder: str) -> str | None:
    """The canonical folder that a git folder takes its configuration and its hooks from, if another."""
    text = _text_of(posixpath.join(folder, "commondir"))
    found = _led_to(folder, text) if text is not None else None
    return found if found != folder else None


def is_git_folder(folder: str) -> bool:
    """Whether git could take a folder for one of its own: a repository, or what a worktree has of it."""
    return os.path.lexists(posixpath.join(folder, "HEAD"))


def is_repository(folder: str) -> bool:
    """Whether git would take a folder for a whole repository, with a configuration and hooks of its own."""
    return all(os.path.lexists(posixpath.join(folder, name)) for name in ("HEAD", "objects", "refs"))


def inner_folders(folder: str) -> tuple[list[str], bool]:
    """The git folders in one, of its submodules and worktrees, and whether these are all.

    Canonical if ``folder`` is. Not those that are in one of these again.
    """
    found: list[str] = []
    left = MAX_INNER
    todo = deque((os.path.realpath(posixpath.join(folder, name)), 1) for name in GIT_INNER)
    while todo and left > 0:
        path, depth = todo.popleft()
        left -= 1
        is_one = is_git_folder(path)
        if is_one:
            found.append(path)
        if depth < _MAX_DEPTH:
            # A command can make any folder look like a git folder; what else is in it still counts.
            names = (name for name in _folders_in(path) if not (is_one and name in _PARTS))
            todo.extend((posixpath.join(path, name), depth + 1) for name in itertools.islice(names, left))
    return found, not todo


def links(folder: str) -> Iterator[str]:
    """The links in a git folder, where git writes.

    Git makes none, and follows them: a message, or a line of a log, that it writes later would go wherever
    they lead, into the start-up file of a shell for one. Not every entry of a large folder is looked at, but
    what git writes most is.
    """
    yield from (path for name in _WRITTEN if os.path.islink(path := posixpath.join(folder, name)))
    left = MAX_ENTRIES
    todo = deque([folder])
    while todo and left > 0:
        path = todo.popleft()
        with contextlib.suppress(OSError), os.scandir(path) as entries:
            for entry in itertools.islice(entries, left):
                left -= 1
                if entry.is_symlink():
                    yield entry.path
                elif entry.is_dir(follow_symlinks=False) and (path != folder or entry.name in _WRITTEN_BELOW):
                    todo.append(entry.path)


def make_hooks_folder(folder: str) -> None:
    """Make the ``hooks`` folder of a canonical git folder, empty, as `git init` makes it.

    A folder that is missing cannot be kept from changes. Where it cannot be made, nothing happens.
    """
    with contextlib.suppress(OSError, FileRefused), opening.folder(folder) as here:
        os.mkdir("hooks", dir_fd=here)


def _led_to(folder: str, typed: str) -> str | None:
    """The git folder that a file's text leads to, from the folder of that file."""
    if not typed:
        return None
    try:
        found = os.path.realpath(posixpath.join(folder, typed))
    except (OSError, ValueError):
        return None
    return found if is_git_folder(found) else None


def _text_of(file: str) -> str | None:
    """What a short regular file holds, without the ends of lines at its end: as git reads them."""
    head, name = posixpath.split(file)
    try:
        with opening.folder(head) as within:
            descriptor = opening.open_regular(name, within, file)
        try:
            data = os.read(descriptor, _MAX_TEXT)
        finally:
            os.close(descriptor)
    except (OSError, FileRefused):
        return None
    return os.fsdecode(data.rstrip(b"\r\n"))


def _folders_in(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
