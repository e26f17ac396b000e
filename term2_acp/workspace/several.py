"""Several staged edits made as one: all of them, or none.

Theory of operation. ``stage_all`` runs in a thread and stages each edit beside its place (``replace``).
``commit_nowait`` runs in the turn, with no checkpoint in it. First every edit is checked once more; then
one step after the other is made, new files first and removals last, so that a process that is killed in
between has lost nothing (what it leaves behind is sorted out by ``aftermath``). Each step leaves a way back
before the next begins:

- a new file is taken away again, and so are the folders that were made for it;
- a file that is replaced keeps its old self under a hidden name beside it, as a second link where the file
  system has links (its own name is then never without a file), else renamed;
- a file that is removed is renamed to such a name, and only the end of the commit unlinks it.

What was put aside is looked at before anything takes its place: it must be the very file that was looked
at when the edit was staged. On the way back nothing is overwritten but what this commit itself has put
there. The last step, when it replaces a file, needs no way back: so one edit alone is one rename.

A way back can fail as well, on a disk that breaks or fills up in that moment. ``PartlyCommitted`` is the one
refusal of this room after which files are changed, and says which.
"""

import contextlib
import errno
import logging
import os
from collections.abc import Callable, Sequence
from typing import Self

from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.domain.paths import Target
from term2_acp.workspace import opening
from term2_acp.workspace.opening import Identity
from term2_acp.workspace.refusals import FileRefused, PathRefused, from_os_error
from term2_acp.workspace.replace import (
    Edit,
    StagedEdit,
    Ticket,
    appeared,
    changed,
    move_new,
    name_aside,
    stage,
)
from term2_acp.workspace.resolve import canonical

logger = logging.getLogger(__name__)


class PartlyCommitted(FileRefused):
    """A commit failed, and taking it back failed as well.

    ``changed`` are the canonical paths that are not what they were, ``unchanged`` the others of the commit.
    """

    def __init__(self, reason: str, changed: tuple[str, ...], unchanged: tuple[str, ...]) -> None:
        super().__init__(reason)
        self.changed = changed
        self.unchanged = unchanged


def require_own_name(target: Target) -> None:
    """Refuse a path that is itself a link. Metadata only.

    What is removed or moved by a link's name could be the link or what it leads to; the two differ, and
    neither may be taken for the other. A folder on the way may be a link: the file is the same by any way.

    Raises:
        PathRefused: the last name of the path as it was typed is a link.
    """
    head, name = os.path.split(target.typed)
    if os.path.join(canonical(head).path, name) != target.path:
        raise PathRefused(
            f"{target.typed} is a link to {target.path}. Links are neither removed nor moved, and nothing is "
            "through one: name the file itself."
        )


@define(eq=False)
class StagedEdits:
    """Edits that are written, and not in their places yet.

    Used up by ``commit_nowait`` or ``discard_nowait``; as a context it discards what was not committed.
    """

    edits: tuple[StagedEdit, ...]
    committed: Callable[[Edit], None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard_nowait()

    def discard_nowait(self) -> None:
        """Remove what was staged. After a commit, and a second time, it does nothing."""
        for staged in self.edits:
            staged.discard_nowait()

    def commit_nowait(self) -> None:
        """Make all the edits. Never waits; there is no half of it.

        Raises:
            PartlyCommitted: a step failed, and what was done before could not all be taken back.
            FileRefused: folders or files are not what they were, or the system refused. Nothing happened.
        """
        try:
            for staged in self.edits:
                staged.check_nowait()
            _commit(sorted(self.edits, key=_turn))
        finally:
            self.discard_nowait()  # a staged file that was moved is not there any more
        for staged in self.edits:
            self.committed(staged.edit)


def stage_all(
    edits: Sequence[Edit], ticket: Ticket, committed: Callable[[Edit], None], owner: str = ""
) -> StagedEdits:
    """Write edits beside their places, for the session ``owner``. Blocks: for a thread.

    Raises:
        FileRefused: a file is not what it was, or cannot be written. Nothing is left behind.
    """
    staged: list[StagedEdit] = []
    with contextlib.ExitStack() as on_failure:
        for edit in edits:
            if ticket.abandoned:
                break  # what there is goes when the ticket is finished
            staged.append(on_failure.enter_context(stage(edit, owner=owner)))
        on_failure.pop_all()
    group = StagedEdits(tuple(staged), committed)
    ticket.finish(group)
    return group


def _turn(staged: StagedEdit) -> int:
    if staged.edit.old is None:
        return 0
    return 1 if staged.edit.new is not None else 2


def _commit(edits: Sequence[StagedEdit]) -> None:
    steps = _Steps()
    try:
        with steps.folders, steps.way_back:
            for staged in edits:
                steps.make(staged, last=staged is edits[-1])
            steps.way_back.pop_all()
    except FileRefused as error:
        if not steps.stuck:
            raise
        raise _partly(error, edits, steps.stuck) from None
    for staged, aside in steps.aside:
        try:
            os.unlink(aside, dir_fd=staged.folder)
        except OSError as error:
            logger.warning("%s stays behind in %s: %s", aside, staged.folder_path, error.strerror)


def _partly(error: FileRefused, edits: Sequence[StagedEdit], stuck: "Sequence[_Stuck]") -> PartlyCommitted:
    paths = tuple(one.path for one in stuck)
    rest = tuple(staged.edit.path for staged in edits if staged.edit.path not in paths)
    words = [f"{error.reason} What was done before that could not all be taken back."]
    words += [one.words for one in stuck]
    words.append(f"As they were: {', '.join(rest)}." if rest else "None of the files is as it was.")
    return PartlyCommitted(" ".join(words), paths, rest)


@frozen
class _Stuck:
    """What could not be taken back."""

    path: str
    words: str


@define(eq=False)
class _Steps:
    """The steps of one commit, and the way back from where they are.

    ``folders`` are the open folders that were made, by their paths as well; they are needed on the way back.
    """

    folders: contextlib.ExitStack = field(factory=contextlib.ExitStack)
    way_back: contextlib.ExitStack = field(factory=contextlib.ExitStack)
    aside: list[tuple[StagedEdit, str]] = field(factory=list)
    stuck: list[_Stuck] = field(factory=list)
    _made: dict[str, int] = field(factory=dict)

    def make(self, staged: StagedEdit, *, last: bool) -> None:
        """Make one edit.

        Raises:
            FileRefused: the place is not what it was, or the system refused.
        """
        path = staged.edit.path
        try:
            if staged.staged is None:
                self._remove(staged)
            elif staged.identity is None:
                self._add(staged, staged.staged)
            else:
                self._replace(staged, staged.staged, last=last)
        except FileExistsError:
            raise appeared(path) from None
        except OSError as error:
            raise from_os_error(error, path) from None

    def _add(self, staged: StagedEdit, name: str) -> None:
        into = self._folder_of(staged)
        move_new(name, staged.folder, staged.below[-1], into)
        self._on_the_way_back(staged.edit.path, "It was made, and is there.", _take_away, staged, into)

    def _replace(self, staged: StagedEdit, name: str, *, last: bool) -> None:
        folder, place = staged.folder, staged.below[0]
        if last:
            _require_original(staged, place)
        else:
            self._put_aside(staged, keeps_name=True)
        os.rename(name, place, src_dir_fd=folder, dst_dir_fd=folder)

    def _remove(self, staged: StagedEdit) -> None:
        self._put_aside(staged, keeps_name=False)

    def _put_aside(self, staged: StagedEdit, *, keeps_name: bool) -> None:
        """Give the old file a hidden name, as a second one where that is possible and asked for."""
        folder, place = staged.folder, staged.below[0]
        aside = name_aside(staged.owner)
        linked = False
        if keeps_name:
            # No hard links here, or none to somebody else's file: then the file is without its name for a
            # moment.
            with contextlib.suppress(OSError):
                os.link(place, aside, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                linked = True
        if not linked:
            os.rename(place, aside, src_dir_fd=folder, dst_dir_fd=folder)
        what = f"It does not hold what it did; that is in {os.path.join(staged.folder_path, aside)}."
        self._on_the_way_back(staged.edit.path, what, _restore, staged, aside)
        _require_original(staged, aside)
        self.aside.append((staged, aside))

    def _folder_of(self, staged: StagedEdit) -> int:
        """The open folder that is to hold the file; those on the way that are missing are made."""
        here, path = staged.folder, staged.folder_path
        for name in staged.below[:-1]:
            path = os.path.join(path, name)
            if path not in self._made:
                os.mkdir(name, dir_fd=here)
                self._on_the_way_back(path, "The folder was made, and is there.", _remove_folder, name, here)
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
                self.folders.callback(os.close, below)
                self._made[path] = below
            here = self._made[path]
        return here

    def _on_the_way_back(self, path: str, what: str, step: Callable[..., None], *of: object) -> None:
        def take_back() -> None:
            try:
                step(*of)
            except OSError as error:
                self.stuck.append(_Stuck(path, f"{path}: {error.strerror}. {what}"))

        self.way_back.callback(take_back)


def _require_original(staged: StagedEdit, name: str) -> None:
    """Refuse a name that is not that of the file that was looked at when the edit was staged.

    ``ctime`` is left out: a second link changes it, and so does a rename.
    """
    found, original = opening.look(name, staged.folder), staged.identity
    same = (
        found is not None
        and original is not None
        and _is(found, original)
        and (found.st_size, found.st_mtime_ns) == (original.size, original.modified)
    )
    if not same:
        raise changed(staged.edit.path)


def _take_away(staged: StagedEdit, into: int) -> None:
    name = staged.below[-1]
    found = opening.look(name, into)
    if found is not None and _is(found, staged.written):
        os.unlink(name, dir_fd=into)


def _restore(staged: StagedEdit, aside: str) -> None:
    """Give the old file its place again; nothing but our own new one is overwritten."""
    folder, place = staged.folder, staged.below[0]
    found, old = opening.look(place, folder), opening.look(aside, folder)
    if found is None:
        move_new(aside, folder, place, folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=folder)
    elif old is not None and _is(found, Identity.of(old)):
        os.unlink(aside, dir_fd=folder)
    elif _is(found, staged.written):
        os.rename(aside, place, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        raise FileExistsError(errno.EEXIST, "Something else is there now")


def _remove_folder(name: str, within: int) -> None:
    os.rmdir(name, dir_fd=within)


def _is(found: os.stat_result, file: Identity | None) -> bool:
    return file is not None and (found.st_dev, found.st_ino) == (file.device, file.inode)
