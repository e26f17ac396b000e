"""Changing a file: written beside it in a thread, put in its place in one inline step.

Theory of operation. ``stage`` runs in a thread: it opens the folder with no link followed and keeps it
open, takes a last look at the file's content, and writes the new content to a file of its own name in
that folder. ``commit_nowait`` runs in the turn, between two checkpoints: it makes sure that the canonical
path still names that folder, that the file is still the one that was looked at (by identity: a thread
cannot stop the world, and ``ctime`` cannot be set back), and renames. A cancel therefore comes either
before the effect or after it.

A stage whose caller was cancelled has no effect: whoever comes last, the thread or the caller, removes
the file. Folders that are yet to be made are made by ``commit_nowait``, below the deepest one that
exists, where the staged file waits meanwhile.

Kept: mode, owner and POSIX access list of the old file. Not kept: its hard links, which stay with the
old content. Nothing is flushed to the disk: the file system orders the rename after the data.
"""

import contextlib
import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable
from typing import Self

from attrs import define, field, frozen

from term2_acp.workspace import opening
from term2_acp.workspace.content import FileContent, read_descriptor
from term2_acp.workspace.opening import Identity
from term2_acp.workspace.refusals import (
    AlreadyThere,
    ChangedSinceRead,
    Failed,
    FileRefused,
    PathChanged,
    from_os_error,
)

# What a staged file is called, as a pattern: no search shows one, for another session may be at work in the
# same folder, and a process that was killed leaves its own behind.
STAGED_NAMES = ".term2-" + 16 * "?" + ".tmp"

_ACCESS_LIST = "system.posix_acl_access"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_CHANGED = "{} changed since it was read; nothing was written. Read it again, then edit what it holds now."


@frozen
class Edit:
    """New content for a canonical path. ``old`` is what it replaces, None for a new file."""

    path: str
    new: FileContent
    old: FileContent | None


@define(eq=False)
class StagedEdit:
    """An edit that is written, and not in its place yet.

    Used up by ``commit_nowait`` or ``discard_nowait``; as a context it discards what was not committed.
    """

    edit: Edit
    folder: int  # the open folder that holds the staged file
    folder_path: str
    staged: str
    below: tuple[str, ...]  # folders to be made, then the file's name
    identity: Identity | None
    committed: Callable[[Edit], None]
    _open: bool = field(default=True, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard_nowait()

    def discard_nowait(self) -> None:
        """Remove what was staged. After a commit, and a second time, it does nothing."""
        if self._open:
            self._open = False
            with contextlib.suppress(OSError):
                os.unlink(self.staged, dir_fd=self.folder)
            os.close(self.folder)

    def commit_nowait(self) -> None:
        """Put the new content in its place. Never waits; there is no half of it.

        Raises:
            FileRefused: folder or file are not what they were, or the system refused. Nothing happened.
        """
        path = self.edit.path
        try:
            self._require_same_folder()
            self._require_same_file()
            if len(self.below) > 1:
                self._move_below()
            elif self.edit.old is None:
                _move_new(self.staged, self.folder, self.below[0], self.folder)
            else:
                os.rename(self.staged, self.below[0], src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except FileExistsError:
            raise _appeared(path) from None
        except OSError as error:
            raise from_os_error(error, path) from None
        finally:
            self.discard_nowait()  # a staged file that was moved is not there any more
        self.committed(self.edit)

    def _require_same_folder(self) -> None:
        with opening.folder(self.folder_path) as now:
            here, there = os.fstat(now), os.fstat(self.folder)
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise PathChanged(f"{self.folder_path} is not the folder that it was; nothing was written.")

    def _require_same_file(self) -> None:
        found = opening.look(self.below[0], self.folder)
        if self.identity is None:
            if found is not None:
                raise _appeared(os.path.join(self.folder_path, self.below[0]))
        elif found is None or Identity.of(found) != self.identity:
            raise ChangedSinceRead(_CHANGED.format(self.edit.path))

    def _move_below(self) -> None:
        """Make the missing folders and move the file there; on failure the folders go again."""
        *folders, name = self.below
        opened = [self.folder]
        try:
            for part in folders:
                os.mkdir(part, dir_fd=opened[-1])
                opened.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened[-1]))
            _move_new(self.staged, self.folder, name, opened[-1])
        except OSError:
            for part, within in reversed(list(zip(folders, opened, strict=False))):
                with contextlib.suppress(OSError):
                    os.rmdir(part, dir_fd=within)
            raise
        finally:
            for descriptor in opened[1:]:
                os.close(descriptor)


def _appeared(path: str) -> AlreadyThere:
    return AlreadyThere(f"{path} appeared meanwhile; nothing was written. Look at it first.")


class Ticket:
    """Who clears up after a stage: the thread that writes it, or the caller that waits for it.

    A cancelled caller does not learn whether its thread had finished, so both sides say when they are
    through, and the second one discards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._abandoned = False
        self._staged: StagedEdit | None = None

    def finish(self, staged: StagedEdit) -> StagedEdit:
        """The thread has written the edit."""
        with self._lock:
            self._staged = staged
            if self._abandoned:
                staged.discard_nowait()
        return staged

    def abandon(self) -> None:
        """The caller waits no longer."""
        with self._lock:
            self._abandoned = True
            if self._staged is not None:
                self._staged.discard_nowait()


def stage(edit: Edit, ticket: Ticket, committed: Callable[[Edit], None]) -> StagedEdit:
    """Write an edit beside its place. Blocks: for a thread.

    Raises:
        FileRefused: the file is not what it was, or cannot be written. Nothing is left behind.
    """
    folder, folder_path, below = _deepest_folder(edit)
    staged = f".term2-{secrets.token_hex(8)}.tmp"
    try:
        identity = _last_look(edit, folder, below[0])
        _write(edit, folder, staged, below[0])
    except OSError as error:
        os.close(folder)
        raise from_os_error(error, edit.path) from None
    except FileRefused:
        os.close(folder)
        raise
    return ticket.finish(StagedEdit(edit, folder, folder_path, staged, below, identity, committed))


def _deepest_folder(edit: Edit) -> tuple[int, str, tuple[str, ...]]:
    """The deepest folder on the way that exists, open; its path; and what is below it on the way."""
    head, name = os.path.split(edit.path)
    below = [name]
    while edit.old is None and not os.path.lexists(head):
        head, part = os.path.split(head)
        below.insert(0, part)
    return opening.open_folder(head), head, tuple(below)


def _last_look(edit: Edit, folder: int, name: str) -> Identity | None:
    if edit.old is None:
        if opening.look(name, folder) is not None:
            raise _appeared(edit.path)
        return None
    descriptor = opening.open_regular(name, folder, edit.path)
    try:
        before = Identity.of(os.fstat(descriptor))
        same = FileContent.of(read_descriptor(descriptor, edit.path)).digest == edit.old.digest
        if not same or Identity.of(os.fstat(descriptor)) != before:
            raise ChangedSinceRead(_CHANGED.format(edit.path))
    finally:
        os.close(descriptor)
    if not os.access(name, os.W_OK, dir_fd=folder):
        # A rename would not ask the file, only its folder.
        raise Failed(f"{edit.path} is read-only; nothing was written.")
    return before


def _write(edit: Edit, folder: int, staged: str, name: str) -> None:
    """Write the staged file: a new one as the umask has it, else as the old file is."""
    descriptor = os.open(staged, _NEW, 0o666 if edit.old is None else 0o600, dir_fd=folder)
    try:
        rest = memoryview(edit.new.data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if edit.old is not None:
            _look_like(descriptor, name, folder)
    except OSError:
        os.unlink(staged, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)


def _look_like(descriptor: int, name: str, folder: int) -> None:
    """Give the staged file the owner, the access list and the mode of the old one, and no more than those.

    Owner, group and list are kept as far as the system lets us. The mode always is, but for the set-id
    bits of a file that got another owner or group: they would now lend out somebody else's rights.
    """
    old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = stat.S_IMODE(old.st_mode)
    if not _keep_owner(descriptor, old):
        mode &= ~(stat.S_ISUID | stat.S_ISGID)
    # The list before the mode: with a list, the mode's group bits are the bounds of the list, and without
    # it for a moment they would be what the group may do.
    if hasattr(os, "getxattr"):
        with contextlib.suppress(OSError):
            _keep_access_list(descriptor, name, folder)
    os.fchmod(descriptor, mode)


def _keep_owner(descriptor: int, old: os.stat_result) -> bool:
    """Give the file the owner and group of the old one; whether it has both now."""
    new = os.fstat(descriptor)
    if old.st_gid != new.st_gid:
        # On its own: a group that we are in can be kept also where the owner cannot.
        with contextlib.suppress(OSError):
            os.fchown(descriptor, -1, old.st_gid)
    if old.st_uid != new.st_uid:
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, -1)
    new = os.fstat(descriptor)
    return (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid)


def _keep_access_list(descriptor: int, name: str, folder: int) -> None:
    """Give the file the access list of the old one, or none where that has none.

    A new file gets a list from its folder, where the folder has a default one, and the mode would then
    open the file to everybody named there.
    """
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        access = os.getxattr(source, _ACCESS_LIST)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        os.removexattr(descriptor, _ACCESS_LIST)
    else:
        os.setxattr(descriptor, _ACCESS_LIST, access)
    finally:
        os.close(source)


def _move_new(staged: str, within: int, name: str, into: int) -> None:
    """Give a staged file its name unless something has it already.

    Raises:
        FileExistsError: something has the name.
        OSError: the system refused.
    """
    try:
        os.link(staged, name, src_dir_fd=within, dst_dir_fd=into, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        # No hard links here (FAT, some network shares). The name was looked at just before.
        if opening.look(name, into) is not None:
            raise FileExistsError from None
        os.rename(staged, name, src_dir_fd=within, dst_dir_fd=into)
