"""One session's view of the file system.

Every use of a file begins with ``resolve``, which gives the canonical target that is decided about, and
every later step makes sure that the path as it was typed still leads there. A file may be changed only while
it holds what the model has *seen* of it in this session (``seen``).

Small metadata calls are made inline; contents are read, hashed and written in threads (``threads``), except
that a small file whose bytes are in memory is read on the spot (``content.read_at_hand``). Where the client
is an editor that offers its files, they go through it (``buffers``).
"""

import logging
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from term2_acp.domain.confinement import Confinement
from term2_acp.domain.paths import Target, hides, is_within
from term2_acp.domain.toolcall import FileDigests
from term2_acp.workspace import opening, ripgrep
from term2_acp.workspace.buffers import BufferEdit, Buffers
from term2_acp.workspace.content import FileContent, read_at_hand, read_whole, text_of
from term2_acp.workspace.editor import EditorFiles
from term2_acp.workspace.guards import Guards
from term2_acp.workspace.lookout import Lookout, require_same_guard
from term2_acp.workspace.opening import Kind
from term2_acp.workspace.refusals import FileRefused, Missing
from term2_acp.workspace.replace import Edit, Ticket
from term2_acp.workspace.resolve import absolute, require_same
from term2_acp.workspace.searching import Searching
from term2_acp.workspace.seen import Seen
from term2_acp.workspace.several import StagedEdits, require_own_name, stage_all
from term2_acp.workspace.threads import Threads

logger = logging.getLogger(__name__)

T = TypeVar("T")

Staged = StagedEdits | BufferEdit
"""What is ready to be made: by us on the disk, or by the editor."""


class Workspace:
    """The files a session works on, rooted at its canonical ``cwd``.

    ``home`` is the person's home directory. ``own_paths`` are term2's settings file and state directory,
    which are hidden; ``own_code`` the directory of its code, which is protected from changes. Where there is
    an ``editor``, files go through it as far as it offers that (``buffers``). ``owner`` is the session: what
    is staged for it can be cleared up after its process was killed (``aftermath``).
    """

    def __init__(
        self,
        cwd: str,
        *,
        home: str | None,
        own_paths: tuple[str, ...] = (),
        own_code: tuple[str, ...] = (),
        find_ripgrep: ripgrep.WhereIsRipgrep = ripgrep.find,
        editor: EditorFiles | None = None,
        owner: str = "",
    ) -> None:
        self.cwd = cwd
        self._owner = owner
        self._guards = Guards(
            cwd,
            os.path.realpath(home) if home is not None else None,
            tuple(map(os.path.realpath, own_paths)),
            tuple(map(os.path.realpath, own_code)),
        )
        self._lookout = Lookout(self._guards)
        self._threads = Threads()
        self._searching = Searching(self._guards, find_ripgrep, self._threads)
        self._seen = Seen()
        self._buffers = Buffers(editor, self._threads, self._seen) if editor is not None else None

    # -- paths -------------------------------------------------------------------------------------

    def resolve(self, typed: str) -> Target:
        """Find out where a path leads, relative ones from the session's cwd. Metadata only.

        Raises:
            PathRefused: it leads nowhere that may be opened.
        """
        path = absolute(self.cwd, typed)
        found, names = self._guards.follow(path)
        return Target(
            typed=path,
            path=found.path,
            inside=is_within(self.cwd, found.path),
            guarded=self._guards.guard(found, names, self._lookout.leads),
        )

    def path_of(self, typed: str) -> str:
        """The ``path`` that ``resolve`` would give now, for whoever asks for nothing else of the target.

        Raises:
            PathRefused: as ``resolve`` does.
        """
        found, _names = self._guards.follow(absolute(self.cwd, typed))
        return found.path

    def kind(self, target: Target) -> Kind:
        """What is at the target now. Metadata only."""
        return opening.kind(target.path)

    def shown(self, path: str) -> str:
        """A canonical path as the model may write it: relative inside the workspace, else absolute."""
        if path == self.cwd:
            return "."
        return os.path.relpath(path, self.cwd) if is_within(self.cwd, path) else path

    # -- guarded places ----------------------------------------------------------------------------

    async def confinement(self, *, read_only: bool = False) -> Confinement:
        """What a command that is started now may not touch. A repository without ``hooks`` gets that folder.

        With ``read_only`` it may change nothing in the workspace, and nothing is made there. A mount in the
        workspace may hang; cancelled, nobody waits for it.
        """
        if self._buffers is not None and not read_only:
            self._buffers.disturbed = True
        return await self._lookout.confinement(read_only=read_only)

    async def newly_protected(self, before: Confinement) -> tuple[str, ...]:
        """The protected names in the workspace that are there since ``before``, or are something else now.

        Absolute paths, fit for a message; a name below another one is left out. Cancelled, nobody waits.
        """
        return await self._lookout.newly_protected(before)

    # -- contents ----------------------------------------------------------------------------------

    async def load(self, target: Target) -> FileContent | None:
        """Read a file whole, as the person sees it; None when there is none on the disk.

        By this alone the model has not seen it.

        Raises:
            FileRefused: it cannot be read.
        """
        if self._buffers is None or not self._buffers.cover(target):
            return await self._load_saved(target)
        require_same(target)
        try:
            return await self._buffers.load(target)
        except Missing:
            await trio.lowlevel.checkpoint()
            return None

    async def _load_saved(self, target: Target) -> FileContent | None:
        """``load``, always from the disk."""
        await trio.lowlevel.checkpoint_if_cancelled()
        found = require_same(target)
        try:
            content = read_at_hand(target.path) if found.on_disk else None
            if content is None:
                content = await self.in_thread(lambda: read_whole(target.path))
        except Missing:
            await trio.lowlevel.checkpoint()
            return None
        return content

    def saw(self, target: Target, content: FileContent) -> None:
        """The model was given this content, or a part of it, as what the file holds."""
        self._seen.see(target.path, content)

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
            content = await self._load_saved(target)
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
        self._seen.forget_all()

    def require_seen(self, target: Target, content: FileContent) -> None:
        """Refuse an edit of a file whose present content the model has not seen.

        Raises:
            NotRead: it was never read in this session.
            ChangedSinceRead: it was, and holds something else now.
        """
        self._seen.require(target.path, content)

    def changes_of(self, edits: Sequence[Edit]) -> tuple[FileDigests, ...]:
        """What edits will make of their files on the disk. Pure; long texts take a while.

        Nothing for those that the editor makes: it saves a text its own way, so nobody knows the bytes.

        Raises:
            Unsaved: they do not go through the editor, and it has changes of a file that are not saved.
        """
        if self._buffers is not None:
            if self._buffers.text_to_write(edits) is not None:
                return ()
            self._buffers.require_saved(edits)
        return tuple(_digests(edit) for edit in edits)

    async def stage(self, target: Target, new: FileContent, old: FileContent | None) -> Staged:
        """``stage_all`` for one file that is written."""
        return await self.stage_all([Edit(target, new, old)])

    async def stage_all(self, edits: Sequence[Edit]) -> Staged:
        """Make everything ready for edits of files, each of which must still hold what it held.

        For the disk, the new contents are written beside their files; an edit that the editor is to make is
        only looked at. Cancelled, nothing is left behind.

        Raises:
            FileRefused: a file or its folder is not what it was, or cannot be written.
        """
        await self._lookout.look_before_edit(self.cwd)
        for edit in edits:
            await trio.lowlevel.checkpoint()
            self._require_target(edit)
        if self._buffers is not None:
            buffers = self._buffers
            text = await self.in_thread(lambda: buffers.text_to_write(edits))
            if text is not None:
                return await buffers.stage(edits[0], text, self._require_target, self._seen.wrote)
            buffers.require_saved(edits)
            await buffers.require_still_saved(edits)
            buffers.disturbed = True
        ticket = Ticket()
        try:
            return await self.in_thread(lambda: stage_all(edits, ticket, self._seen.wrote, self._owner))
        except BaseException:
            ticket.abandon()
            raise

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work that blocks in a thread of the session's. Cancelled, its result is nobody's."""
        return await self._threads.run(work)

    # -- folders -----------------------------------------------------------------------------------

    async def list_files(self, target: Target, pattern: str, limit: int) -> ripgrep.Listing:
        """See ``Searching.list_files``."""
        return await self._searching.list_files(target, pattern, limit)

    async def search(
        self, target: Target, query: ripgrep.Query, limit: int, *, one_file: bool
    ) -> ripgrep.Hits:
        """See ``Searching.search``."""
        return await self._searching.search(target, query, limit, one_file=one_file)

    # -- inside ------------------------------------------------------------------------------------

    def _require_target(self, edit: Edit) -> None:
        """Refuse an edit whose path leads elsewhere than it did, or is guarded in another way."""
        require_same(edit.target)
        require_same_guard(edit.target, self.resolve(edit.target.typed))
        if edit.new is None:
            require_own_name(edit.target)
        if edit.target.inside and not _is_folder(self.cwd):
            # Making the missing folders of a new file would bring it back, empty.
            raise Missing(f"The workspace {self.cwd} is not there any more; nothing was written.")


def _digests(edit: Edit) -> FileDigests:
    old, new = edit.old, edit.new
    return FileDigests(
        edit.path,
        before=None if old is None else old.on_disk.hex(),
        after=None if new is None else new.digest.hex(),
    )


def _exists(path: str) -> bool:
    return os.path.lexists(path)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)
