"""One session's view of the file system.

Every use of a file begins with ``resolve``, which gives the canonical target that is decided about, and
every later step makes sure that the path as it was typed still leads there. The workspace also keeps what
the model has *seen*: the digest of each file's content as it was read or written last in this session. A
file may be changed only while that is what it holds.

Small metadata calls are made inline. Contents are read, hashed and written in threads, with a limiter of
the session's own, so that a disk that hangs stops its own session only. Nobody waits for a thread that
was cancelled, and it has no effect any more.
"""

import logging
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import TypeVar

import trio

from term2_acp.domain.confinement import Confinement
from term2_acp.domain.paths import Target, hides, is_within
from term2_acp.workspace import opening, ripgrep
from term2_acp.workspace.content import FileContent, read_whole, text_of
from term2_acp.workspace.guards import Guards
from term2_acp.workspace.lookout import Lookout, require_same_guard
from term2_acp.workspace.patterns import PatternRefused, compile_pattern
from term2_acp.workspace.refusals import (
    ChangedSinceRead,
    FileRefused,
    Missing,
    NotRead,
    NotRegular,
    PathRefused,
)
from term2_acp.workspace.replace import Edit, Ticket
from term2_acp.workspace.resolve import absolute, canonical, require_same
from term2_acp.workspace.several import StagedEdits, require_own_name, stage_all

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Threads of one session that work on files at the same time.
MAX_THREADS = 4

# Files whose digests a session remembers, about 250 bytes each. The one forgotten has to be read again.
MAX_SEEN = 10_000

# Characters of a search pattern: far below what one argument of a command may hold.
MAX_QUERY = 10_000


class Kind(Enum):
    """What is at a path."""

    FILE = "file"
    FOLDER = "folder"
    NOTHING = "nothing"
    OTHER = "other"


class Workspace:
    """The files a session works on, rooted at its canonical ``cwd``.

    ``home`` is the person's home directory. ``own_paths`` are term2's settings file and state directory,
    which are hidden; ``own_code`` the directory of its code, which is protected from changes.
    """

    def __init__(
        self,
        cwd: str,
        *,
        home: str | None,
        own_paths: tuple[str, ...] = (),
        own_code: tuple[str, ...] = (),
        find_ripgrep: ripgrep.WhereIsRipgrep = ripgrep.find,
    ) -> None:
        self.cwd = cwd
        self._guards = Guards(
            cwd,
            os.path.realpath(home) if home is not None else None,
            tuple(map(os.path.realpath, own_paths)),
            tuple(map(os.path.realpath, own_code)),
        )
        self._lookout = Lookout(self._guards)
        self._find_ripgrep: ripgrep.WhereIsRipgrep = lambda: self._guards.unless_planted(find_ripgrep())
        self._seen: dict[str, bytes] = {}
        self._threads: trio.CapacityLimiter | None = None

    # -- paths -------------------------------------------------------------------------------------

    def resolve(self, typed: str) -> Target:
        """Find out where a path leads, relative ones from the session's cwd. Metadata only.

        Raises:
            PathRefused: it leads nowhere that may be opened.
        """
        path = absolute(self.cwd, typed)
        found = canonical(path)
        if self._guards.holds_open(found):
            # Closing a file drops every POSIX lock that this process has on it, the database's too.
            raise PathRefused("term2 keeps its sessions in this file and has it open; it cannot be used.")
        return Target(
            typed=path,
            path=found.path,
            inside=is_within(self.cwd, found.path),
            guarded=self._guards.guard(found, self._lookout.leads),
        )

    def kind(self, target: Target) -> Kind:
        """What is at the target now. Metadata only."""
        try:
            mode = os.lstat(target.path).st_mode
        except OSError:
            return Kind.NOTHING
        if stat.S_ISREG(mode):
            return Kind.FILE
        return Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER

    def shown(self, path: str) -> str:
        """A canonical path as the model may write it: relative inside the workspace, else absolute."""
        if path == self.cwd:
            return "."
        return os.path.relpath(path, self.cwd) if is_within(self.cwd, path) else path

    # -- guarded places ----------------------------------------------------------------------------

    async def confinement(self) -> Confinement:
        """What a command that is started now may not touch. A repository without ``hooks`` gets that folder.

        A mount in the workspace may hang; cancelled, nobody waits for it.
        """
        return await self._lookout.confinement()

    async def newly_protected(self, before: Confinement) -> tuple[str, ...]:
        """The protected names in the workspace that are there since ``before``, or are something else now.

        Absolute paths, fit for a message; a name below another one is left out. Cancelled, nobody waits.
        """
        return await self._lookout.newly_protected(before)

    # -- contents ----------------------------------------------------------------------------------

    async def load(self, target: Target) -> FileContent | None:
        """Read a file whole; None when there is none. By this alone the model has not seen it.

        Raises:
            FileRefused: it cannot be read.
        """
        require_same(target)
        try:
            return await self.in_thread(lambda: read_whole(target.path))
        except Missing:
            await trio.lowlevel.checkpoint()
            return None

    def saw(self, target: Target, content: FileContent) -> None:
        """The model was given this content, or a part of it, as what the file holds."""
        self._remember(target.path, content)

    async def read_words(self, typed: str, limit: int) -> str | None:
        """The text of a file of the workspace, at most ``limit`` characters; None when it has none.

        For what is read without anyone being asked: what leads out of the workspace or to a hidden path
        is not read. It does not count as seen by the model.
        """
        await trio.lowlevel.checkpoint()
        if not _exists(os.path.join(self.cwd, typed)):
            return None  # the usual case, at each prompt: no thread for it
        try:
            target = self.resolve(typed)
            if not target.inside or hides(target.guarded):
                logger.warning("%s leads to %s and is not read", typed, target.path)
                return None
            content = await self.load(target)
        except FileRefused as error:
            logger.warning("%s is not read: %s", typed, error)
            return None
        found = text_of(content.data) if content is not None else None
        if found is None:
            return None
        left_out = len(found.text) - limit
        note = f"\n[{left_out:,} more characters are left out]"
        return found.text if left_out <= 0 else found.text[:limit] + note

    def forget_reads_nowait(self) -> None:
        """Forget what the model has seen: it is in no history any more, so each file is to be read again."""
        self._seen.clear()

    def require_seen(self, target: Target, content: FileContent) -> None:
        """Refuse an edit of a file whose present content the model has not seen.

        Raises:
            NotRead: it was never read in this session.
            ChangedSinceRead: it was, and holds something else now.
        """
        seen = self._seen.get(target.path)
        if seen is None:
            raise NotRead(f"{target.path} exists and was not read in this session. Read it first.")
        if seen != content.digest:
            raise ChangedSinceRead(f"{target.path} changed since it was read. Read it again, then edit it.")

    async def stage(self, target: Target, new: FileContent, old: FileContent | None) -> StagedEdits:
        """``stage_all`` for one file that is written."""
        return await self.stage_all([Edit(target, new, old)])

    async def stage_all(self, edits: Sequence[Edit]) -> StagedEdits:
        """Write new contents beside their files, each of which must still hold what it held.

        Cancelled, nothing is left behind.

        Raises:
            FileRefused: a file or its folder is not what it was, or cannot be written.
        """
        await self._lookout.look_before_edit(self.cwd)
        for edit in edits:
            await trio.lowlevel.checkpoint()
            require_same(edit.target)
            require_same_guard(edit.target, self.resolve(edit.target.typed))
            if edit.new is None:
                require_own_name(edit.target)
            if edit.target.inside and not _is_folder(self.cwd):
                # Making the missing folders of a new file would bring it back, empty.
                raise Missing(f"The workspace {self.cwd} is not there any more; nothing was written.")
        ticket = Ticket()
        try:
            return await self.in_thread(lambda: stage_all(edits, ticket, self._committed))
        except BaseException:
            ticket.abandon()
            raise

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work that blocks in a thread of the session's. Cancelled, its result is nobody's."""
        if self._threads is None:
            self._threads = trio.CapacityLimiter(MAX_THREADS)
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads)

    # -- folders -----------------------------------------------------------------------------------

    async def list_files(self, target: Target, pattern: str, limit: int) -> ripgrep.Listing:
        """List the files below a folder that match ``pattern``, at most ``limit``, in order.

        Ignore files are honoured; hidden files are listed, ``.git`` and hidden paths are not.

        Raises:
            FileRefused: the pattern or the folder cannot be used, or ripgrep is missing.
        """
        wanted = compile_pattern(pattern)
        mounts = await self.in_thread(lambda: self._guards.mounts_below(target.path))
        with self._folder(target, mounts) as ground:
            return await ripgrep.list_files(self._find_ripgrep(), ground, wanted, limit)

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
                return await ripgrep.search(self._find_ripgrep(), ground, query, limit)
        mounts = await self.in_thread(lambda: self._guards.mounts_below(target.path))
        with self._folder(target, mounts) as ground:
            return await ripgrep.search(self._find_ripgrep(), ground, query, limit)

    # -- inside ------------------------------------------------------------------------------------

    @contextmanager
    def _folder(self, target: Target, mounts: Mapping[str, str]) -> Iterator[ripgrep.Ground]:
        require_same(target)
        if self.kind(target) in (Kind.FILE, Kind.OTHER):
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

    def _committed(self, edit: Edit) -> None:
        if edit.new is not None:
            self._remember(edit.path, edit.new)
        else:
            self._seen.pop(edit.path, None)

    def _remember(self, path: str, content: FileContent) -> None:
        self._seen.pop(path, None)
        self._seen[path] = content.digest
        if len(self._seen) > MAX_SEEN:
            del self._seen[next(iter(self._seen))]


def _exists(path: str) -> bool:
    return os.path.lexists(path)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)
