"""Which guarded names are links here, so that what they lead to is guarded as well.

``~/.ssh`` may be a link into a folder of dotfiles, and ``CLAUDE.md`` one to another file. Who opens or
changes what such a link leads to has the same effect as who goes through the name. The table itself is in
``domain.paths``; ``links`` asks the file system about the names directly below the home directory and
the workspace.
"""

from attrs import frozen

from term2_acp.domain.paths import guard_of, hides, is_within, named_paths
from term2_acp.workspace.links import named_links

# How the names of the store's files begin, in term2's state directory.
STORE_FILES = ("sessions.db", "sessions.lock")


@frozen
class Guards:
    """The guarded places as seen from one workspace. All paths are canonical."""

    cwd: str
    home: str | None
    own_paths: tuple[str, ...] = ()
    own_code: tuple[str, ...] = ()

    def guard(self, path: str, links: tuple[str, ...] = ()) -> str | None:
        """What guards ``path`` when it is reached through ``links``; a hidden path is named first."""
        found = [self._by_name(place) for place in (path, *links)]
        found += [guard for place, guard in self._linked() if is_within(place, path)]
        named = [guard for guard in found if guard is not None]
        return next((guard for guard in named if hides(guard)), named[0] if named else None)

    def holds_open(self, path: str) -> bool:
        """Whether ``path`` is one of the store's files, which this process has open."""
        name = path.rpartition("/")[2]
        return name.startswith(STORE_FILES) and any(is_within(own, path) for own in self.own_paths)

    def hidden_below(self, folder: str) -> tuple[str, ...]:
        """The hidden places strictly below ``folder``."""
        named = named_paths(self.home, home=True) if self.home is not None else ()
        places = [*named, *self._linked()]
        hidden = [place for place, guard in places if hides(guard)] + list(self.own_paths)
        return tuple(place for place in hidden if place != folder and is_within(folder, place))

    def _by_name(self, path: str) -> str | None:
        return guard_of(path, home=self.home, own_paths=self.own_paths, own_code=self.own_code)

    def _linked(self) -> list[tuple[str, str]]:
        """Pairs of a place that a guarded name leads to, and that name's guard."""
        below_cwd = named_links(self.cwd, home=False).leading_elsewhere()
        return below_cwd + (named_links(self.home, home=True).leading_elsewhere() if self.home else [])
