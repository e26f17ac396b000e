"""Which guarded names are links here, so that what they lead to is guarded as well.

``~/.ssh`` may be a link into a folder of dotfiles, and ``CLAUDE.md`` one to another file. Who opens or
changes what such a link leads to has the same effect as who goes through the name. The same goes for whoever
reaches a hidden place where it is mounted a second time. The table itself is in ``domain.paths``; ``links``
asks the file system about the names directly below the home directory and the workspace, ``aliases`` about
other names of a place. What only a walk through the workspace finds is handed in: a protected name deep in it
that is a link, and a folder that a ``.git`` file names.
"""

import logging
import os
import stat
from collections.abc import Mapping

from attrs import field

from term2_acp.domain.classes import frozen
from term2_acp.domain.paths import guard_of, hides, is_within, named_paths
from term2_acp.workspace.aliases import Aliases, mounts_below, other_names
from term2_acp.workspace.links import named_links
from term2_acp.workspace.refusals import PathRefused
from term2_acp.workspace.resolve import Resolved, canonical

logger = logging.getLogger(__name__)

Leads = tuple[tuple[str, str], ...]
"""Pairs of a place that is guarded for another reason than its name, and its guard."""

# Below these are no files of anybody's. A shell history is often a link to the null device.
_NO_FILES = ("/dev", "/proc", "/sys")

# How the names of the store's files begin, in term2's state directory.
STORE_FILES = ("sessions.db", "sessions.lock")


@frozen
class Guards:
    """The guarded places as seen from one workspace. All paths are canonical."""

    cwd: str
    home: str | None
    own_paths: tuple[str, ...] = ()
    own_code: tuple[str, ...] = ()
    _aliases: Aliases = field(init=False)

    @_aliases.default
    def _with_other_names(self) -> Aliases:
        home = (self.home,) if self.home is not None else ()
        hidden = (place for place, _guard in self._hidden())
        return Aliases((*home, *hidden, *self.own_paths, *self.own_code))

    def follow(self, path: str) -> tuple[Resolved, tuple[str, ...]]:
        """Where an absolute path leads, and the names of that place: its path, and what it is called below a
        guarded place that it reaches by another name.

        Raises:
            PathRefused: it leads nowhere that may be opened.
        """
        found = canonical(path)
        other = self._aliases.name_of(found.path, found.identities)
        names = (found.path,) if other is None else (found.path, other)
        if self._holds_open(names):
            # Closing a file drops every POSIX lock that this process has on it, the database's too.
            raise PathRefused("term2 keeps its sessions in this file and has it open; it cannot be used.")
        return found, names

    def guard(self, found: Resolved, names: tuple[str, ...], leads: Leads) -> str | None:
        """What guards a path that was followed, with its names; a hidden path is named first. ``leads``: see
        the module.
        """
        guards = [self._by_name(place) for place in (*names, *found.links)]
        linked = (*self._linked(), *leads)
        guards += [guard for place, guard in linked if any(is_within(place, name) for name in names)]
        named = [guard for guard in guards if guard is not None]
        return next((guard for guard in named if hides(guard)), named[0] if named else None)

    def mounts_below(self, folder: str) -> dict[str, str]:
        """What is mounted below ``folder`` and guarded under another name: the place, and that name.

        Looks at every such place, and one of them may be on a server that is gone: for a thread.
        """
        named = ((place, self._aliases.name_of(place)) for place in mounts_below(folder))
        mounts = {place: name for place, name in named if name is not None}
        # A mount higher up can give a hidden place a name below the folder as well.
        others = other_names(self._hidden_places())
        return mounts | {place: name for place, name in others.items() if is_within(folder, place)}

    def hidden_everywhere(self) -> tuple[str, ...]:
        """Every hidden place that exists, canonical, under each of its names. Blocks: for a thread."""
        places = self._hidden_places()
        return tuple(dict.fromkeys((*places, *other_names(places))))

    def hidden_names(self) -> tuple[str, ...]:
        """The hidden paths as they are written, there or not."""
        return (*(place for place, _guard in self._hidden()), *self.own_paths)

    def protects_whole(self, folder: str) -> bool:
        """Whether a canonical folder lies in a protected place, with everything below it."""
        return self._by_name(folder) is not None

    def hidden_below(self, folder: str, mounts: Mapping[str, str]) -> tuple[str, ...]:
        """The hidden places strictly below ``folder``, also under other names; ``mounts`` as found there."""
        hidden = [place for place, guard in (*self._hidden(), *self._linked()) if hides(guard)]
        hidden += self.own_paths
        below = [place for place in hidden if place != folder and is_within(folder, place)]
        below += [place for place, name in mounts.items() if any(is_within(one, name) for one in hidden)]
        other = self._aliases.name_of(folder)
        for here, name in (*mounts.items(), *(((folder, other),) if other is not None else ())):
            below += [here + one[len(name) :] for one in hidden if one != name and is_within(name, one)]
        return tuple(dict.fromkeys(below))

    def unless_planted(self, program: str | None) -> str | None:
        """A program, or None if it lies in the workspace and is not term2's own.

        PATH may name folders of the workspace, where a command can put what the next search would run.
        """
        if program is None:
            return None
        found = canonical(program)
        for place in (found.path, *found.links):
            if is_within(self.cwd, place) and not any(is_within(own, place) for own in self.own_code):
                logger.warning("%s lies in the workspace and is not run", program)
                return None
        return program

    def _holds_open(self, names: tuple[str, ...]) -> bool:
        """Whether a path is one of the store's files, which this process has open."""
        return any(
            is_within(own, name)
            for name in names
            if name.rpartition("/")[2].startswith(STORE_FILES)
            for own in self.own_paths
        )

    def _hidden_places(self) -> tuple[str, ...]:
        places = map(_what_is_at, self.hidden_names())
        return tuple(dict.fromkeys(place for place in places if place is not None))

    def _hidden(self) -> tuple[tuple[str, str], ...]:
        named = named_paths(self.home, home=True) if self.home is not None else ()
        return tuple((place, guard) for place, guard in named if hides(guard))

    def _by_name(self, path: str) -> str | None:
        return guard_of(path, home=self.home, own_paths=self.own_paths, own_code=self.own_code)

    def _linked(self) -> list[tuple[str, str]]:
        """Pairs of a place that a guarded name leads to, and that name's guard."""
        below_cwd = named_links(self.cwd, home=False).leading_elsewhere()
        return below_cwd + (named_links(self.home, home=True).leading_elsewhere() if self.home else [])


def _what_is_at(path: str) -> str | None:
    """The canonical path of the file or folder that a path leads to, if there is one to hide."""
    try:
        place = os.path.realpath(path)
        mode = os.lstat(place).st_mode
    except OSError:
        return None
    hides_something = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return place if hides_something and not any(is_within(none, place) for none in _NO_FILES) else None
