"""What a command in the workspace may not touch: the guarded places, found anew before each command.

Rules.

- Hidden places count wherever they are, under each of their names. Protected ones count inside the workspace:
  all else a command cannot change anyway.
- A protected name is read-only as a whole, by what it leads to if it is a link. A git folder is not: only the
  parts that git executes or believes are, and the folder is held so that it cannot be moved away from them.
- What exists is guarded. Nothing is made in a project to be guarded, with one exception: a repository without
  a ``hooks`` folder gets an empty one, as `git init` would have made it, since otherwise a command could make
  it. What else a command newly makes (``.git/commondir``, an ``AGENTS.md``, a link that takes the place of
  another) is told by ``newly_protected``.
- What was guarded once stays guarded while it exists. Nobody can push it out of the bounds by making a
  thousand nearer names.

All of it blocks, and is for one thread at a time.
"""

import os
import posixpath
import stat
from collections.abc import Collection, Iterator

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.domain.confinement import Confinement
from term2_acp.domain.paths import GIT_FOLDER, GIT_PARTS, GIT_SCRIPTS, guard_of, is_within, protected_at
from term2_acp.workspace import gitdir
from term2_acp.workspace.guarded_tree import GuardedTree
from term2_acp.workspace.guards import Guards, Leads

# Places of one workspace that are made read-only. Each costs the sandbox a mount, at about 10 microseconds.
MAX_GUARDED = 256

# Folders that cannot be looked into and are made read-only therefore.
MAX_CLOSED = 64

Sight = tuple[str, int, int]
"""Where a name led and which file was there: device and inode, or zeros; for a script inode and time."""


@define(eq=False)
class GuardedPlaces:
    """The guarded places of one session's workspace, whose canonical folder is that of ``guards``."""

    guards: Guards
    leads: Leads = ()
    """Places that are guarded because a name found in the workspace leads there, as of the last look."""
    _tree: GuardedTree = field(init=False)
    _kept: tuple[str, ...] = ()

    @_tree.default
    def _at_top(self) -> GuardedTree:
        return GuardedTree(self.guards.cwd)

    def look(self, *, make_hooks: bool = False) -> Confinement:
        """Find the places as they are now. With ``make_hooks`` a missing ``hooks`` folder is made."""
        cwd = self.guards.cwd
        hidden = self.guards.hidden_everywhere()
        own = tuple(code for code in self.guards.own_code if is_within(cwd, code) and os.path.lexists(code))
        walk = self._tree.walk(frozenset((*hidden, *own)))
        look = _Look(cwd, hidden, make_hooks=make_hooks)
        for name in self.guards.hidden_names():
            if is_within(cwd, name) and os.path.lexists(name):
                look.seen[name] = _sight(name)
        for place in (*own, *walk.closed[:MAX_CLOSED]):
            look.keep(place)
        for name in dict.fromkeys((*self._kept, *walk.names, *walk.repositories)):
            look.take(name)
        self._kept, self.leads = tuple(look.taken), tuple(look.leads)
        is_whole = self.guards.protects_whole(cwd)
        read_only = (cwd,) if is_whole else _outermost(look.read_only)
        kept = frozenset(read_only)
        return Confinement(
            workspace=cwd,
            hidden=hidden,
            read_only=read_only,
            held=tuple(
                path for path in look.held if not any(above in kept for above in (path, *_above(path)))
            ),
            own_inside=bool(own) or any(is_within(code, cwd) for code in self.guards.own_code),
            incomplete=walk.incomplete or look.is_full or len(walk.closed) > MAX_CLOSED,
            seen=look.seen,
        )


def newly_protected(before: Confinement, now: Confinement) -> tuple[str, ...]:
    """The protected names of the workspace that were not there before, or are something else now.

    A name below another of these is left out. What came into view only because less was looked at before
    counts as new. The paths are for people: what is not UTF-8 in them is replaced.
    """
    new = {name for name, sight in now.seen.items() if before.seen.get(name) != sight}
    return tuple(os.fsencode(name).decode(errors="replace") for name in _outermost(sorted(new)))


@define(eq=False)
class _Look:
    """One look at the names of a workspace, and what has come of it so far."""

    cwd: str
    hidden: tuple[str, ...]
    make_hooks: bool = field(kw_only=True)
    read_only: dict[str, None] = field(factory=dict, init=False)
    held: dict[str, None] = field(factory=dict, init=False)
    seen: dict[str, Sight] = field(factory=dict, init=False)
    leads: dict[tuple[str, str], None] = field(factory=dict, init=False)
    taken: dict[str, None] = field(factory=dict, init=False)
    is_full: bool = field(default=False, init=False)
    _git_folders: dict[str, None] = field(factory=dict, init=False)

    def take(self, name: str) -> None:
        """Guard a protected name, or a git folder of whatever name."""
        if not os.path.lexists(name) or self._is_hidden(name):
            return
        if len(self.read_only) >= MAX_GUARDED:
            self.is_full = True
            return
        guard = protected_at(*posixpath.split(name))
        if guard is None:
            if gitdir.is_git_folder(name):
                self._take_git_folders(name)
            return
        self.taken[name] = None
        place = self._see(name)
        if place != name:
            self._lead(place, guard)
        if guard != GIT_FOLDER:
            self.keep(place)
            if place == name:
                self._hold_between(name, guard)
        elif os.path.isdir(place):
            self._take_git_folders(place)
        else:
            self.keep(place)
            folder = gitdir.named_by(place)
            if folder is not None:
                self._take_git_folders(folder)

    def keep(self, place: str) -> None:
        """Make a canonical place read-only, if it is a file or folder in the workspace."""
        if self._is_inside(place) and _is_file_or_folder(place):
            self.read_only[place] = None

    def _see(self, name: str) -> str:
        sight = self.seen[name] = _sight(name)
        return sight[0]

    def _lead(self, place: str, guard: str) -> None:
        # What holds the whole workspace guards nothing: it would only make every edit a question.
        if not is_within(place, self.cwd) and guard_of(place, home=None) is None:
            self.leads[place, guard] = None

    def _hold_between(self, name: str, guard: str) -> None:
        """Hold the folders that are part of a protected name: ``.github`` for ``.github/workflows/``."""
        for _ in range(guard.rstrip("/").count("/")):
            name = posixpath.dirname(name)
            self.held[name] = None

    def _take_git_folders(self, first: str) -> None:
        """Guard a canonical git folder and those that it leads to."""
        todo = [first]
        while todo:
            folder = todo.pop()
            if folder in self._git_folders or (is_within(folder, self.cwd) and folder != self.cwd):
                continue
            if len(self.read_only) >= MAX_GUARDED:
                self.is_full = True
                return
            self._git_folders[folder] = None
            self._lead(folder, GIT_FOLDER)
            if self._is_inside(folder) or folder == self.cwd:
                self.taken[folder] = None
                self._hold(folder)
                self._take_parts(folder)
                inner, is_all = gitdir.inner_folders(folder)
                self.is_full = self.is_full or not is_all
                todo += inner
            common = gitdir.common_of(folder)
            if common is not None:
                todo.append(common)

    def _hold(self, folder: str) -> None:
        """Hold a git folder, and what stands between it and the one that it is in."""
        between: list[str] = []
        while folder != self.cwd and (not between or folder not in self._git_folders):
            between.append(folder)
            folder = posixpath.dirname(folder)
        in_another = folder in self._git_folders
        self.held.update(dict.fromkeys(between if in_another else between[:1]))

    def _take_parts(self, folder: str) -> None:
        """Guard what git executes or believes in a git folder; the folder itself may be written."""
        if self.make_hooks and gitdir.is_repository(folder):
            gitdir.make_hooks_folder(folder)
        for part in GIT_PARTS:
            name = posixpath.join(folder, part)
            if os.path.lexists(name):
                place = self._see(name)
                self.keep(place)
                self._lead(place, GIT_FOLDER)
        for part in GIT_SCRIPTS:
            name = posixpath.join(folder, part)
            if os.path.lexists(name):
                self.seen[name] = _sight_of_content(name)
        for name in gitdir.links(folder):
            self._see(name)

    def _is_inside(self, place: str) -> bool:
        return place != self.cwd and is_within(self.cwd, place) and not self._is_hidden(place)

    def _is_hidden(self, place: str) -> bool:
        return any(is_within(hidden, place) for hidden in self.hidden)


def _sight(name: str) -> Sight:
    try:
        place = os.path.realpath(name)
    except OSError:
        place = name  # it changes at this very moment
    try:
        found = os.stat(place)
    except OSError:
        return place, 0, 0
    return place, found.st_dev, found.st_ino


def _sight_of_content(name: str) -> Sight:
    """A sight of what may be written in place: by a time that nobody can set."""
    place = _sight(name)[0]
    try:
        found = os.stat(place)
    except OSError:
        return place, 0, 0
    return place, found.st_ino, found.st_ctime_ns


def _is_file_or_folder(place: str) -> bool:
    try:
        mode = os.lstat(place).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _outermost(paths: Collection[str]) -> tuple[str, ...]:
    """The paths that lie below none of the others, in their order."""
    known = frozenset(paths)
    return tuple(path for path in paths if not any(above in known for above in _above(path)))


def _above(path: str) -> Iterator[str]:
    while path != "/":
        path = posixpath.dirname(path)
        yield path
