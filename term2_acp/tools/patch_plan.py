"""What a patch makes of the files that it names: the bytes that will be written, and their diffs. Pure."""

from collections.abc import Sequence

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import MAX_DIFF_TEXT, Change, FileTexts, Operation
from term2_acp.domain.paths import Target
from term2_acp.domain.toolcall import Location
from term2_acp.tools.base import ToolError
from term2_acp.tools.edits import content_of, file_texts, first_changed_line
from term2_acp.tools.patch import git_patch
from term2_acp.tools.patch_apply import apply_hunks
from term2_acp.tools.patch_parts import AddFile, DeleteFile, FilePatch
from term2_acp.tools.targets import refusals
from term2_acp.workspace import MAX_FILE_BYTES, Edit, FileContent, FileText, text_of

# Bytes that the files of one patch hold, before and after: they are all in memory at once.
MAX_TOTAL_BYTES = 4 * MAX_FILE_BYTES

# Characters of the texts of all its files that are carried with a patch's diff. A frame has 8 MiB, so more
# could not be shown.
MAX_TEXTS = 8 * MAX_DIFF_TEXT


@frozen
class Section:
    """What the patch says about one file, with the places it means and what is there."""

    says: FilePatch
    target: Target
    to: Target | None = None
    old: FileContent | None = None

    @property
    def targets(self) -> tuple[Target, ...]:
        """Every place that is touched."""
        return (self.target,) if self.to is None else (self.target, self.to)


@frozen
class Planned:
    """One section worked out. ``words`` are a verb, its past, and the rest of the sentence about it."""

    edits: tuple[Edit, ...]
    change: Change
    patch: str
    texts: tuple[FileTexts, ...]
    locations: tuple[Location, ...]
    words: tuple[str, str, str]


def require_room(total: int) -> None:
    """Refuse a patch whose files hold too many bytes together.

    Raises:
        ToolError: they do.
    """
    if total > MAX_TOTAL_BYTES:
        raise ToolError(
            f"The files of the patch hold more than {MAX_TOTAL_BYTES:,} bytes; make several of it."
        )


def texts_of(planned: Sequence[Planned]) -> tuple[FileTexts, ...]:
    """The whole texts of the changed files, in their order, as far as there is room for them."""
    room = MAX_TEXTS
    kept: list[FileTexts] = []
    for texts in (texts for one in planned for texts in one.texts):
        size = len(texts.old or "") + len(texts.new or "")
        if size <= room:
            room -= size
            kept.append(texts)
    return tuple(kept)


def plan_all(sections: Sequence[Section]) -> list[Planned]:
    """Every section worked out. Blocks: for a thread."""
    planned: list[Planned] = []
    total = 0
    with refusals():
        for section in sections:
            one = _plan(section)
            total += sum(len(edit.new.data) for edit in one.edits if edit.new is not None)
            require_room(total)
            planned.append(one)
    return planned


def _plan(section: Section) -> Planned:
    says, target, old = section.says, section.target, section.old
    path = target.path
    if isinstance(says, AddFile):
        new = content_of(FileText("", "utf-8").encode(says.text))
        return _one_edit(Operation.ADD, Edit(target, new, None), None, says.text, ("add", "Added"))
    found = text_of(old.data) if old is not None else None
    if old is None or found is None:
        raise ToolError(f"{path} is no text file.")
    text = apply_hunks(path, found.text, says.hunks)
    if isinstance(says, DeleteFile):
        if says.hunks and text:
            raise ToolError(f"{path} holds more lines than the patch removes; it is not deleted.")
        return _one_edit(Operation.DELETE, Edit(target, None, old), found.text, None, ("delete", "Deleted"))
    new = content_of(found.encode(text))
    if section.to is None:
        if new.digest == old.digest:
            raise ToolError(f"{path} holds exactly this already; nothing was changed.")
        return _one_edit(Operation.MODIFY, Edit(target, new, old), found.text, text, ("update", "Updated"))
    to = section.to
    patch = git_patch(to.path, found.text, text, moved_from=path)
    return Planned(
        (Edit(to, new, None, like=target), Edit(target, None, old)),
        Change(Operation.MOVE, to.path, path),
        patch,
        file_texts(to.path, found.text, text),
        (Location(path), Location(to.path, first_changed_line(patch))),
        ("move", "Moved", f"{path} to {to.path}{', with changes' if text != found.text else ''}"),
    )


def _one_edit(
    operation: Operation, edit: Edit, before: str | None, after: str | None, verbs: tuple[str, str]
) -> Planned:
    patch = git_patch(edit.path, before, after)
    line = first_changed_line(patch) if after is not None else None
    return Planned(
        (edit,),
        Change(operation, edit.path),
        patch,
        file_texts(edit.path, before, after),
        (Location(edit.path, line),),
        (*verbs, edit.path),
    )
