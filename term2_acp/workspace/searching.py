"""Listing and searching what lies below a folder, with ripgrep and without what is hidden.

Searches see the disk, also where an editor has changes that are not saved.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from term2_acp.domain.classes import frozen
from term2_acp.domain.paths import Target
from term2_acp.workspace import opening, ripgrep
from term2_acp.workspace.guards import Guards
from term2_acp.workspace.opening import Kind
from term2_acp.workspace.patterns import PatternRefused, compile_pattern
from term2_acp.workspace.refusals import NotRegular
from term2_acp.workspace.resolve import require_same
from term2_acp.workspace.threads import Threads

# Characters of a search pattern: far below what one argument of a command may hold.
MAX_QUERY = 10_000


@frozen
class Searching:
    """Searches in the view of one session, whose guards say what is left out."""

    _guards: Guards
    _ripgrep: ripgrep.WhereIsRipgrep
    _threads: Threads

    async def list_files(self, target: Target, pattern: str, limit: int) -> ripgrep.Listing:
        """List the files below a folder that match ``pattern``, at most ``limit``, in order.

        Ignore files are honoured; hidden files are listed, ``.git`` and hidden paths are not.

        Raises:
            FileRefused: the pattern or the folder cannot be used, or ripgrep is missing.
        """
        wanted = compile_pattern(pattern)
        mounts = await self._threads.run(lambda: self._guards.mounts_below(target.path))
        with self._folder(target, mounts) as ground:
            return await ripgrep.list_files(self._find(), ground, wanted, limit)

    async def search(
        self, target: Target, query: ripgrep.Query, limit: int, *, one_file: bool
    ) -> ripgrep.Hits:
        """Search for at most ``limit`` matching lines, in order.

        With ``one_file`` the target is that file, and is not searched if it has become a folder; else it
        is a folder, of which is searched what ``list_files`` lists.

        Raises:
            FileRefused: the pattern or the target cannot be used, or ripgrep is missing.
        """
        if len(query.pattern) > MAX_QUERY or "\0" in query.pattern + (query.exclude or ""):
            raise PatternRefused(f"A pattern has at most {MAX_QUERY:,} characters, and no NUL among them.")
        if one_file:
            with self._file(target) as ground:
                return await ripgrep.search(self._find(), ground, query, limit)
        mounts = await self._threads.run(lambda: self._guards.mounts_below(target.path))
        with self._folder(target, mounts) as ground:
            return await ripgrep.search(self._find(), ground, query, limit)

    @contextmanager
    def _folder(self, target: Target, mounts: Mapping[str, str]) -> Iterator[ripgrep.Ground]:
        require_same(target)
        if opening.kind(target.path) in (Kind.FILE, Kind.OTHER):
            raise NotRegular(f"{target.path} is no folder.")
        with opening.folder(target.path) as descriptor:
            left_out = self._guards.hidden_below(target.path, mounts)
            yield ripgrep.Ground(descriptor, target.path, left_out)

    @contextmanager
    def _file(self, target: Target) -> Iterator[ripgrep.Ground]:
        require_same(target)
        head, name = os.path.split(target.path)
        with opening.folder(head) as descriptor:
            file = opening.open_regular(name, descriptor, target.path)
            try:
                yield ripgrep.Ground(descriptor, target.path, file=file)
            finally:
                os.close(file)

    def _find(self) -> str | None:
        return self._guards.unless_planted(self._ripgrep())
