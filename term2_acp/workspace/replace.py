"""Staging a change of a file: written beside its place in a thread, and not in its place yet.

Theory of operation. ``stage`` runs in a thread: it opens the folder with no link followed and keeps it
open, takes a last look at the file's content, and writes the new content to a file of its own name in
that folder. What it gives back is put in its place later (``several``), in the turn, between two
checkpoints: then it is made sure that the canonical path still names that folder, and that the file is
still the one that was looked at (by identity: a thread cannot stop the world, and ``ctime`` cannot be set
back). A cancel therefore comes either before the effect or after it.

A stage whose caller was cancelled has no effect: whoever comes last, the thread or the caller, removes
the file. Folders that are yet to be made are made with the effect, below the deepest one that exists,
where the staged file waits meanwhile.

Kept: mode, owner and POSIX access list of the old file. Not kept: its hard links, which stay with the
old content. Nothing is flushed to the disk: the file system orders the rename after the data.
"""

import contextlib
import hashlib
import os
import re
import secrets
import threading
from typing import Protocol, Self

from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.domain.paths import Target
from term2_acp.workspace import opening
from term2_acp.workspace.content import FileContent, read_descriptor
from term2_acp.workspace.likeness import look_like
from term2_acp.workspace.opening import Identity
from term2_acp.workspace.refusals import (
    AlreadyThere,
    ChangedSinceRead,
    Failed,
    PathChanged,
    from_os_error,
)

# What a staged file, or one that is put aside, is called, as a pattern: no search shows one, for another
# session may be at work in the same folder, and a process that was killed leaves its own behind.
STAGED_NAMES = ".term2-" + 16 * "?" + "*.tmp"

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_CHANGED = "{} changed since it was read; nothing was written. Read it again, then edit what it holds now."


@frozen
class Edit:
    """What a file holds, ``old``, and what it is to hold, ``new``; None stands for no file.

    A new file is as the umask has it, or with ``like`` as that file is: owner, access list and mode.
    """

    target: Target
    new: FileContent | None
    old: FileContent | None
    like: Target | None = None

    @property
    def path(self) -> str:
        """The canonical path."""
        return self.target.path


@define(eq=False)
class StagedEdit:
    """An edit that is written, and not in its place yet."""

    edit: Edit
    folder: int  # the open folder that holds the staged file
    folder_path: str
    below: tuple[str, ...]  # folders to be made, then the file's name
    owner: str = ""
    staged: str | None = None  # the staged file's name; None where the file is to go
    written: Identity | None = None  # of the staged file
    identity: Identity | None = None  # of the file at its last look
    _open: bool = field(default=True, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard_nowait()

    def discard_nowait(self) -> None:
        """Remove what is still staged, and let go of the folder. A second time it does nothing."""
        if self._open:
            self._open = False
            if self.staged is not None:
                with contextlib.suppress(OSError):
                    os.unlink(self.staged, dir_fd=self.folder)
            os.close(self.folder)

    def check_nowait(self) -> None:
        """Make sure that folder and file are what they were when this was staged.

        Raises:
            FileRefused: they are not.
        """
        try:
            self._require_same_folder()
            self._require_same_file()
        except OSError as error:
            raise from_os_error(error, self.edit.path) from None

    def _require_same_folder(self) -> None:
        with opening.folder(self.folder_path) as now:
            here, there = os.fstat(now), os.fstat(self.folder)
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise PathChanged(f"{self.folder_path} is not the folder that it was; nothing was written.")

    def _require_same_file(self) -> None:
        found = opening.look(self.below[0], self.folder)
        if self.identity is None:
            if found is not None:
                raise appeared(os.path.join(self.folder_path, self.below[0]))
        elif found is None or Identity.of(found) != self.identity:
            raise changed(self.edit.path)


def appeared(path: str) -> AlreadyThere:
    """The refusal for a place that was to be empty and is not."""
    return AlreadyThere(f"{path} appeared meanwhile; nothing was written. Look at it first.")


def changed(path: str) -> ChangedSinceRead:
    """The refusal for a file that is not the one that was looked at."""
    return ChangedSinceRead(_CHANGED.format(path))


class Discardable(Protocol):
    """What is staged and may be given up."""

    def discard_nowait(self) -> None:
        """Remove what is staged; a second time it does nothing."""
        ...


class Ticket:
    """Who clears up after a stage: the thread that writes it, or the caller that waits for it.

    A cancelled caller does not learn whether its thread had finished, so both sides say when they are
    through, and the second one discards.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._abandoned = False
        self._staged: Discardable | None = None

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits any more."""
        return self._abandoned

    def finish(self, staged: Discardable) -> None:
        """The thread has written what it was to write."""
        with self._lock:
            self._staged = staged
            if self._abandoned:
                staged.discard_nowait()

    def abandon(self) -> None:
        """The caller waits no longer."""
        with self._lock:
            self._abandoned = True
            if self._staged is not None:
                self._staged.discard_nowait()


def stage(edit: Edit, *, owner: str = "", write: bool = True) -> StagedEdit:
    """Write an edit beside its place. Blocks: for a thread. The caller discards what it gets.

    ``owner`` is the session that it is for; what is staged for nobody is never cleared up by another process.
    Without ``write`` it is only looked at, for somebody else to write it.

    Raises:
        FileRefused: the file is not what it was, or cannot be written. Nothing is left behind.
    """
    folder, folder_path, below = _deepest_folder(edit)
    staged = StagedEdit(edit, folder, folder_path, below, owner)
    with contextlib.ExitStack() as on_failure:
        on_failure.callback(staged.discard_nowait)
        try:
            staged.identity = _last_look(edit, folder, below[0])
            if write and edit.new is not None:
                _write(staged, edit.new)
        except OSError as error:
            raise from_os_error(error, edit.path) from None
        on_failure.pop_all()
    return staged


def name_aside(owner: str) -> str:
    """A name for a file that is put aside for the session."""
    return f"{_marked(owner)}{secrets.token_hex(8)}.old.tmp"


def staged_names_of(owner: str) -> re.Pattern[str]:
    """What the names of the files are that were staged for the session, for a full match."""
    return re.compile(rf"{re.escape(_marked(owner))}[0-9a-f]{{16}}\.tmp")


def names_aside_of(owner: str) -> re.Pattern[str]:
    """As ``staged_names_of``, of the files that were put aside for it."""
    return re.compile(rf"{re.escape(_marked(owner))}[0-9a-f]{{16}}\.old\.tmp")


def _marked(owner: str) -> str:
    """How the names of a session's files begin. Its id itself is nobody else's business."""
    mark = hashlib.sha256(owner.encode(errors="surrogatepass")).hexdigest() if owner else secrets.token_hex(8)
    return f".term2-{mark[:16]}"


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
            raise appeared(edit.path)
        return None
    descriptor = opening.open_regular(name, folder, edit.path)
    try:
        before = Identity.of(os.fstat(descriptor))
        same = FileContent.of(read_descriptor(descriptor, edit.path)).digest == edit.old.on_disk
        if not same or Identity.of(os.fstat(descriptor)) != before:
            raise changed(edit.path)
    finally:
        os.close(descriptor)
    if not os.access(name, os.W_OK, dir_fd=folder):
        # A rename would not ask the file, only its folder.
        raise Failed(f"{edit.path} is read-only; nothing was written.")
    return before


def _write(staged: StagedEdit, new: FileContent) -> None:
    """Write the staged file: a new one as the umask has it, else as the old file is."""
    edit = staged.edit
    resembles = edit.target if edit.old is not None else edit.like
    name = f"{_marked(staged.owner)}{secrets.token_hex(8)}.tmp"
    descriptor = os.open(name, _NEW, 0o666 if resembles is None else 0o600, dir_fd=staged.folder)
    staged.staged = name
    try:
        rest = memoryview(new.data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if resembles is not None:
            head, old_name = os.path.split(resembles.path)
            with opening.folder(head) as folder:
                look_like(descriptor, old_name, folder)
        staged.written = Identity.of(os.fstat(descriptor))
    finally:
        os.close(descriptor)


def move_new(name: str, within: int, new_name: str, into: int) -> None:
    """Give a file a new name unless something has that already. The old name may be left to it.

    Raises:
        FileExistsError: something has the name.
        OSError: the system refused.
    """
    try:
        os.link(name, new_name, src_dir_fd=within, dst_dir_fd=into, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        # No hard links here (FAT, some network shares). The name was looked at just before.
        if opening.look(new_name, into) is not None:
            raise FileExistsError from None
        os.rename(name, new_name, src_dir_fd=within, dst_dir_fd=into)
