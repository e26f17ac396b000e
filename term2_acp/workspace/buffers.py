"""Files as the editor has them: what is read and written through it, and what stays with the disk.

Rules, beside those of every other file (a path is resolved and decided about first):

- Only what lies inside the workspace and is no hidden path goes this way, and only UTF-8 text, with or
  without a mark: an editor is asked for text, and most take the bytes of any file for UTF-8.
- The disk is looked at first. An editor answers for a file that does not exist with an empty buffer, and for
  a binary one with rubbish. A new file is not made over a text that only the editor has, though: one that
  was typed and never saved, or whose file went away. What the model has seen of it may be replaced.
- A buffer is clean when its text is the file's but for the kind of its line ends and for the last of them,
  which some editors do not count as text. The content is then what the disk holds, exactly. Else there are
  changes that are not saved: the content is the editor's text with the file's mark and line ends put back.
  A file that was changed on the disk just now, maybe by us or a command, gets a moment: the editor may have
  yet to notice.
- What the editor refuses is refused. Nothing falls back to the disk, where other words may stand.
- The editor writes one file that is made or changed, as UTF-8 without a mark: one request, and no write of
  ours. All else is for the disk, as a whole, and is refused where the editor has changes that are not saved.
- One that shows line feeds for CRLF is given line feeds: it puts CRLF back when it saves, some a second time.
- An editor goes by a path, so the way is looked at again when it has answered, and once more right before it
  is told to write. A swap while it is at it is the editor's to see.
"""

import functools
import time
from collections.abc import Callable, Sequence
from typing import Self

import attrs
import trio
from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.domain.paths import Target, hides
from term2_acp.workspace import opening
from term2_acp.workspace.content import (
    MAX_FILE_BYTES,
    FileContent,
    FileText,
    LineEnd,
    has_one_line_end,
    line_end_of,
    read_identified,
)
from term2_acp.workspace.editor import EditorFiles, EditorRefused, EditorSilent
from term2_acp.workspace.refusals import ChangedSinceRead, TooLarge, Unsaved
from term2_acp.workspace.replace import Edit, StagedEdit, Ticket, changed, stage
from term2_acp.workspace.resolve import require_same
from term2_acp.workspace.seen import Seen
from term2_acp.workspace.texts import gist_of, is_clean, utf8_text_of, without_mark
from term2_acp.workspace.threads import Threads

# Bytes of a text that an editor is told to write. JSON makes six of one at worst, and a frame has 8 MiB.
MAX_WRITTEN_BYTES = 1024 * 1024

# How often a file is read that is saved just then, before it is given up.
_LOOKS = 3

# Seconds in which an editor notices that a file was changed by another program and shows that, where it does
# so by itself; and seconds after which it is asked again meanwhile.
SETTLES_S = 1.0
_STEP_S = 0.1


@define(eq=False)
class BufferEdit:
    """An edit that the editor is about to be told, with the file it is of looked at; ``told``: it has been.

    As a context it lets go of what it holds open.
    """

    edit: Edit
    _text: str = field(repr=False)
    _staged: StagedEdit
    _editor: EditorFiles
    _recheck: Callable[[Edit], None]
    _written: Callable[[Edit], None]
    told: bool = field(default=False, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._staged.discard_nowait()

    async def write(self) -> None:
        """Tell the editor to write, after a last look without a wait between, and wait until it has.

        Cancelled before that it is not told, and cancelled later it may write all the same.

        Raises:
            EditorLost: nobody knows whether it has written.
            FileRefused: the file is not what it was, or the editor refused. Nothing was written.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._recheck(self.edit)
        self._staged.check_nowait()
        self.told = True
        await self._editor.write(self.edit.path, self._text)
        self._written(self.edit)


@define(eq=False)
class Buffers:
    """One session's way to the editor's files.

    ``disturbed``: the session may have changed files behind the editor's back.
    """

    editor: EditorFiles
    threads: Threads
    seen: Seen
    disturbed: bool = field(default=False, init=False)

    def cover(self, target: Target) -> bool:
        """Whether the file may go through the editor, as far as its path tells."""
        return target.inside and not hides(target.guarded)

    # -- reading -----------------------------------------------------------------------------------

    async def load(self, target: Target) -> FileContent:
        """Read a file that ``cover`` covers, as the person sees it.

        Raises:
            FileRefused: it cannot be read, or the editor refused.
        """
        content, changed_at = await self._seen_in_both(target)
        # The clock of a file server may be ahead of ours.
        until = trio.current_time() + min(SETTLES_S, SETTLES_S - (time.time() - changed_at))
        while content.unsaved and self.disturbed and trio.current_time() < until:
            await trio.sleep(_STEP_S)
            content, _ = await self._seen_in_both(target)
        return content

    async def _seen_in_both(self, target: Target) -> tuple[FileContent, float]:
        """A file on the disk and in the editor at one time, and when it was changed on the disk."""
        path = target.path
        for _ in range(_LOOKS):
            saved = await self.threads.run(lambda: _look(path))
            if saved.text is None or not self.editor.reads:
                return saved.content, 0.0
            shown = await self.editor.read(path)
            require_same(target)
            if opening.identity(path) == saved.identity:
                content = await self.threads.run(functools.partial(_as_shown, path, saved, saved.text, shown))
                return content, saved.identity.changed / 1e9
        raise ChangedSinceRead(f"{path} kept changing while it was read. Try again.")

    # -- writing -----------------------------------------------------------------------------------

    def text_to_write(self, edits: Sequence[Edit]) -> str | None:
        """The text that the editor is to write; None when the edits are for the disk. May take a while."""
        if not self.editor.writes or len(edits) != 1:
            return None
        (edit,) = edits
        if edit.new is None or not self.cover(edit.target):
            return None
        if len(edit.new.data) > MAX_WRITTEN_BYTES:
            return None
        new = utf8_text_of(edit.new.data)
        old = utf8_text_of(edit.old.data) if edit.old is not None else _EMPTY
        if old is None or new is None or old.mark or new.mark:
            return None
        return new.text

    def require_saved(self, edits: Sequence[Edit]) -> None:
        """Refuse edits for the disk that were made of a text that is not on it. May take a while.

        Raises:
            Unsaved: the editor has changes of a file that are not saved.
        """
        for edit in edits:
            if edit.old is not None and edit.old.unsaved and self.text_to_write(edits) is None:
                raise unsaved(edit.path)

    async def require_still_saved(self, edits: Sequence[Edit]) -> None:
        """Ask the editor once more about the files of edits for the disk.

        Raises:
            Unsaved: it has changes of one that are not saved.
            FileRefused: the editor refused.
        """
        for edit in edits:
            if edit.old is None:
                await self._require_untyped(edit.target)
            elif not (await self._shows(edit.target, edit.old))[0]:
                raise unsaved(edit.path)

    async def stage(
        self, edit: Edit, text: str, recheck: Callable[[Edit], None], written: Callable[[Edit], None]
    ) -> BufferEdit:
        """Look at an edit's file, on the disk and in the editor. Cancelled, nothing is left open.

        Raises:
            FileRefused: the file is not what it was, or the editor refused.
        """
        ticket = Ticket()
        try:
            staged, known = await self.threads.run(lambda: _staged(edit, text, ticket))
            if edit.old is None:
                await self._require_untyped(edit.target)
            else:
                same, feeds = await self._shows(edit.target, edit.old)
                if not same:
                    raise changed(edit.path)
                text = text.replace("\r\n", "\n") if feeds else text
        except BaseException:
            ticket.abandon()
            raise
        return BufferEdit(known, text, staged, self.editor, recheck, written)

    async def _shows(self, target: Target, content: FileContent) -> tuple[bool, bool]:
        """Whether the editor shows a file as it was read, which it does where it is not asked; and whether
        that is with line feeds alone.
        """
        if not self.editor.reads or not self.cover(target):
            return True, False
        found = await self.threads.run(lambda: utf8_text_of(content.data))
        if found is None:
            return True, False
        shown = await self.editor.read(target.path)
        feeds = "\n" in shown and "\r" not in shown
        return await self.threads.run(lambda: is_clean(found, shown)), feeds

    async def _require_untyped(self, target: Target) -> None:
        """Refuse to make a file where the editor has a text that is nowhere else and that nobody has read."""
        if not self.editor.reads or not self.cover(target):
            return
        try:
            shown = await self.editor.read(target.path)
        except EditorSilent:
            raise
        except EditorRefused:
            return  # the usual answer for what is not there
        content = await self.threads.run(lambda: _content_of(shown))
        if content.gist != gist_of("") and not self.seen.knows(target.path, content):
            raise Unsaved(
                f"{target.path} is not on the disk, and the editor has a text of it that is not saved. "
                "Nothing was written. Ask the person to save the file or to close it there."
            )


def unsaved(path: str) -> Unsaved:
    """The refusal of an edit that cannot go through the editor, which has more than the disk."""
    return Unsaved(
        f"{path} has changes in the editor that are not saved, and this edit would be made on the disk. "
        "Nothing was written. Ask the person to save the file, then read it again."
    )


# -- inside --------------------------------------------------------------------------------------------

_EMPTY = FileText("", "utf-8")  # what stands for the text of no file


@frozen
class _Saved:
    """What the disk holds, which file that is, and its text if that is one for the editor."""

    content: FileContent
    identity: opening.Identity
    text: FileText | None


def _look(path: str) -> _Saved:
    content, identity = read_identified(path)
    found = utf8_text_of(content.data)
    if found is not None:
        content = attrs.evolve(content, gist=gist_of(found.text))
    return _Saved(content, identity, found)


def _as_shown(path: str, saved: _Saved, found: FileText, shown: str) -> FileContent:
    """What the file holds for the person, who sees the text ``shown``."""
    if is_clean(found, shown):
        return saved.content
    text = without_mark(found, shown)
    end = line_end_of(found.text)
    if end is not LineEnd.LF and has_one_line_end(found.text) and "\r" not in text:
        text = text.replace("\n", end)
    now = FileContent.of(found.encode(text))
    if len(now.data) > MAX_FILE_BYTES:
        size = f"{path} holds {len(now.data):,} bytes in the editor"
        raise TooLarge(f"{size}; at most {MAX_FILE_BYTES:,} bytes of a file are read.")
    return attrs.evolve(now, on_disk=saved.content.digest, gist=gist_of(text))


def _content_of(text: str) -> FileContent:
    return attrs.evolve(FileContent.of(text.encode()), gist=gist_of(text))


def _staged(edit: Edit, text: str, ticket: Ticket) -> tuple[StagedEdit, Edit]:
    """The edit's file looked at, and the edit with its new content as one that the editor has yet to save."""
    staged = stage(edit, write=False)
    ticket.finish(staged)
    assert edit.new is not None, "an editor removes no files"
    under = edit.old.on_disk if edit.old is not None else b""
    return staged, attrs.evolve(edit, new=attrs.evolve(edit.new, on_disk=under, gist=gist_of(text)))
