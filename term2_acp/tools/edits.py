"""What the tools that change a file have in common: the plan of a change, and making it.

The plan is made before anyone is asked, with the very bytes that would be written, so the diff in the
question is the change. Its making checks that the file still holds what the plan was made from.
"""

from collections.abc import Callable, Sequence
from typing import Any

import trio

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import MAX_DIFF_TEXT, Change, Diff, FileTexts, Operation, Text
from term2_acp.domain.paths import Target
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import FileDigests, Location
from term2_acp.tools.base import Outcome, OutcomeUnknown, Prepared, ToolContext, ToolError
from term2_acp.tools.patch import git_patch
from term2_acp.tools.targets import counted, refusals
from term2_acp.workspace import MAX_FILE_BYTES, Edit, EditorLost, FileContent, StagedEdits, text_of


@frozen
class Written:
    """What is to be written, worked out in a thread. ``done`` says it in words, for the model."""

    data: bytes
    summary: str
    done: str
    raw_output: dict[str, Any]


@frozen
class EditPlan:
    """One change of one file, complete."""

    target: Target
    old: FileContent | None
    new: FileContent
    diff: Diff
    written: Written
    changes: tuple[FileDigests, ...]


async def plan_edit(
    context: ToolContext, target: Target, old: FileContent | None, write: Callable[[], Written]
) -> Prepared:
    """Work out a change in a thread, with its diff.

    Raises:
        ToolError: ``write`` refuses, the new content is too large, or it is the old.
    """

    def work() -> EditPlan:
        written = write()
        new = content_of(written.data)
        if old is not None and old.digest == new.digest:
            raise ToolError(f"{target.path} holds exactly this already; nothing was changed.")
        changes = context.files.changes_of([Edit(target, new, old)])
        return EditPlan(target, old, new, diff_of(target.path, old, new), written, changes)

    with refusals():
        plan = await context.files.in_thread(work)
    return Prepared(
        actions=(Action(Access.EDIT, target),),
        preview=(plan.diff,),
        locations=(Location(target.path, first_changed_line(plan.diff.patch)),),
        summary=plan.written.summary,
        work=plan,
        changes=plan.changes,
    )


async def make_edit(context: ToolContext, prepared: Prepared) -> Outcome:
    """Make a planned change (``commit``).

    Raises:
        ToolError: the file is not what it was, or cannot be written. Nothing happened.
        OutcomeUnknown: the editor was told to write it, and nobody knows whether it did.
    """
    plan: EditPlan = prepared.work
    with refusals():
        await commit(context, [Edit(plan.target, plan.new, plan.old)])
    return Outcome(plan.written.done, (plan.diff,), plan.written.raw_output)


async def commit(context: ToolContext, edits: Sequence[Edit]) -> None:
    """Make planned changes, all or none. The one place where a tool changes files.

    On the disk they are made inline, after the last checkpoint. An editor is told to make them and answers
    in its own time: cancelled meanwhile, the call's ports know that nobody knows.

    Raises:
        ToolError: the session's mode allows no change of files any more. Nothing happened.
        OutcomeUnknown: the editor did not say whether it made them.
        PartlyCommitted: see there.
        FileRefused: the files are not what they were, or cannot be written. Nothing happened.
    """
    with await context.files.stage_all(edits) as staged:
        context.require_changes_nowait()
        if isinstance(staged, StagedEdits):
            staged.commit_nowait()
            return
        try:
            await staged.write()
        except EditorLost as error:
            raise OutcomeUnknown(_unknown(error.reason)) from None
        except trio.Cancelled:
            if staged.told and context.ports is not None:
                context.ports.stopped_nowait(_cut_off(staged.edit.path))
            raise


def _unknown(reason: str) -> str:
    return f"outcome_unknown: {reason} It may or may not have been written; look before you repeat it."


def _cut_off(path: str) -> Outcome:
    words = _unknown(f"The editor was writing {path} when this call was cancelled.")
    return Outcome(words, (Text(words),), {"error": words}, failed=True)


def diff_of(path: str, old: FileContent | None, new: FileContent) -> Diff:
    """The diff of one file that is made or changed. Takes a while for a long one: for a thread."""
    change = Change(Operation.ADD if old is None else Operation.MODIFY, path)
    before = text_of(old.data) if old is not None else None
    after = text_of(new.data)
    if after is None or (old is not None and before is None):
        return Diff((change,))
    texts = before.text if before is not None else None, after.text
    return Diff((change,), git_patch(path, *texts), file_texts(path, *texts))


def file_texts(path: str, old: str | None, new: str | None) -> tuple[FileTexts, ...]:
    """The whole texts of a changed file for its diff; nothing where one is too long."""
    if max(len(old or ""), len(new or "")) > MAX_DIFF_TEXT:
        return ()
    return (FileTexts(path, old, new),)


def content_of(data: bytes) -> FileContent:
    """What a file is to hold.

    Raises:
        ToolError: it is too large.
    """
    if len(data) > MAX_FILE_BYTES:
        size = counted(len(data), "byte")
        raise ToolError(f"The file would have {size}; at most {MAX_FILE_BYTES:,} are written.")
    return FileContent.of(data)


def first_changed_line(patch: str | None) -> int | None:
    """The line that an editor may jump to in one file's patch: the first of its first hunk that is new."""
    if patch is None:
        return None
    _, mark, hunk = patch.partition("\n@@ -")
    if not mark:
        return None
    start = int(hunk.split(" ", 2)[1].lstrip("+").split(",")[0])
    head, *lines = hunk.split("\n", 10)
    del head
    unchanged = next((index for index, line in enumerate(lines) if not line.startswith(" ")), 0)
    return max(start + unchanged, 1)
