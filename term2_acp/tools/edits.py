"""What the tools that change a file have in common: the plan of a change, and making it.

The plan is made before anyone is asked, with the very bytes that would be written, so the diff in the
question is the change. Its making checks that the file still holds what the plan was made from.
"""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from term2_acp.domain.content import Change, Diff, Operation
from term2_acp.domain.paths import Target
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import Location
from term2_acp.tools.base import Outcome, Prepared, ToolContext, ToolError
from term2_acp.tools.patch import git_patch
from term2_acp.tools.targets import counted, refusals
from term2_acp.workspace import MAX_FILE_BYTES, FileContent, text_of


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
        return EditPlan(target, old, new, _diff(target.path, old, new), written)

    with refusals():
        plan = await context.files.in_thread(work)
    return Prepared(
        actions=(Action(Access.EDIT, target),),
        preview=(plan.diff,),
        locations=(Location(target.path, first_changed_line(plan.diff.patch)),),
        summary=plan.written.summary,
        work=plan,
    )


async def make_edit(context: ToolContext, prepared: Prepared) -> Outcome:
    """Make a planned change: written in a thread, put in its place inline, after the last checkpoint.

    Raises:
        ToolError: the file is not what it was, or cannot be written. Nothing happened.
    """
    plan: EditPlan = prepared.work
    with refusals():
        with await context.files.stage(plan.target, plan.new, plan.old) as staged:
            staged.commit_nowait()
    return Outcome(plan.written.done, (plan.diff,), plan.written.raw_output)


def _diff(path: str, old: FileContent | None, new: FileContent) -> Diff:
    change = Change(Operation.ADD if old is None else Operation.MODIFY, path)
    before = text_of(old.data) if old is not None else None
    after = text_of(new.data)
    if after is None or (old is not None and before is None):
        return Diff((change,))
    return Diff((change,), git_patch(path, before.text if before is not None else None, after.text))


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
