"""``apply_patch``: several files at once, made, changed, removed and moved, all of them or none.

Rules, beside those of a patch's text (``patch_format``) and of where its hunks go (``patch_apply``):

- A file that is changed, removed or moved was read in this session and holds what was read, as in
  ``search_replace``. Binary files are refused.
- Every path that is touched is an action of its own, the two of a move as well, so one question covers all.
- A path is named once, whatever it is spelled like. What depends on the order of the sections is refused:
  a new file or the end of a move where something is, also if another section removes or moves that; a file
  below another file of the patch.
- A link is followed when a file is made or changed. What is removed or moved goes by its own name: through
  a link it would be unclear whether the link goes or what it leads to, so that is refused.
- A move makes the new file with the mode, owner and access list of the old one, then removes that. Folders
  on the way of a new file are made; one that becomes empty stays.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
import trio

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import Change, Diff, Text
from term2_acp.domain.paths import is_within
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import FileDigests, Location, ToolKind
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext, ToolError
from term2_acp.tools.edits import commit
from term2_acp.tools.patch_format import parse
from term2_acp.tools.patch_parts import AddFile, DeleteFile, FilePatch, UpdateFile
from term2_acp.tools.patch_plan import Planned, Section, plan_all, require_room, texts_of
from term2_acp.tools.targets import brief, counted, refusals, resolve
from term2_acp.workspace import Edit, FileRefused, PartlyCommitted, require_own_name, text_of

# Characters of a patch that is read for its title, some 10 ms of work inline. A longer one is shown by its
# size.
MAX_TITLED = 64 * 1024

# Files that a title names, and files whose places are looked up before the patch is prepared.
_NAMED_FILES = 3
_PLACED_FILES = 10

PatchText = Annotated[str, msgspec.Meta(min_length=1, description="The whole patch.")]


class ApplyPatchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``apply_patch`` takes."""

    patch: PatchText


@frozen
class _Plan:
    edits: tuple[Edit, ...]
    diff: Diff
    done: str
    raw_output: dict[str, Any]


class ApplyPatch:
    """Changes several files."""

    name: ClassVar[str] = "apply_patch"
    kind: ClassVar[ToolKind] = ToolKind.EDIT
    description: ClassVar[str] = (
        "Make, change, remove and move several text files at once; all of it is done or none. The patch:\n"
        "*** Begin Patch\n"
        "*** Add File: a/new.py\n"
        "+each line of the new file\n"
        "*** Update File: a/old.py\n"
        "*** Move to: a/other.py\n"
        "@@ def method(self):\n"
        " an unchanged line\n"
        "-a removed line\n"
        "+an added line\n"
        "*** Delete File: a/gone.py\n"
        "*** End Patch\n"
        "`*** Move to:` is optional. Each hunk begins with `@@`; after it may stand a line above the hunk, "
        "such as a function's head. A hunk's unchanged and removed lines must be in the file exactly, once, "
        "and below the hunk before; give some 3 unchanged lines on each side. `*** End of File` after a hunk "
        "puts it at the end. A unified diff (`--- a/x`, `+++ b/x`) is taken as well. Files to change, remove "
        "or move must have been read in this session; each is named once. Encoding, line ends and modes are "
        "kept."
    )
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = ApplyPatchArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        if len(arguments.patch) > MAX_TITLED:
            return Description(f"Apply a patch of {counted(len(arguments.patch), 'character')}")
        try:
            says = parse(arguments.patch)
        except ToolError:
            return Description("Apply a patch")
        paths = [path for one in says for path in _paths(one)]
        named = ", ".join(brief(path) for path in paths[:_NAMED_FILES])
        more = f" and {len(paths) - _NAMED_FILES:,} more" if len(paths) > _NAMED_FILES else ""
        return Description(f"Patch {named}{more}", _locations(context, paths[:_PLACED_FILES]))

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        says = await context.files.in_thread(lambda: parse(arguments.patch))
        sections: list[Section] = []
        for one in says:
            # Each costs calls of the system, a hundred of which are long enough for others to notice.
            await trio.lowlevel.checkpoint()
            sections.append(_section(one, context))
        _require_apart(sections)
        loaded: list[Section] = []
        total = 0
        for section in sections:
            await trio.lowlevel.checkpoint()  # as above: a small file is read on the spot
            with refusals():
                loaded.append(await _loaded(section, context))
            old = loaded[-1].old
            total += len(old.data) if old is not None else 0
            require_room(total)

        def work() -> tuple[list[Planned], tuple[Edit, ...], tuple[FileDigests, ...]]:
            planned = plan_all(loaded)
            edits = tuple(edit for one in planned for edit in one.edits)
            return planned, edits, context.files.changes_of(edits)

        with refusals():
            planned, edits, changes = await context.files.in_thread(work)
        shown = tuple(one.change for one in planned)
        diff = Diff(shown, "".join(one.patch for one in planned), texts_of(planned))
        count = counted(len(planned), "file")
        doing = "; ".join(f"{verb} {rest}" for verb, _, rest in (one.words for one in planned))
        done = "\n".join(f"{past} {rest}." for _, past, rest in (one.words for one in planned))
        plan = _Plan(
            edits,
            diff,
            f"Applied the patch to {count}.\n{done}",
            {"files": [_raw(one.change) for one in planned]},
        )
        return Prepared(
            actions=tuple(Action(Access.EDIT, target) for one in loaded for target in one.targets),
            preview=(diff,),
            locations=tuple(location for one in planned for location in one.locations),
            summary=f"Patch {count}: {doing}.",
            work=plan,
            changes=changes,
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """See ``Tool``. What could be made only in part is an outcome that failed, and says which part."""
        plan: _Plan = prepared.work
        try:
            await commit(context, plan.edits)
        except PartlyCommitted as error:
            raw = {"error": error.reason, "changed": list(error.changed), "unchanged": list(error.unchanged)}
            return Outcome(error.reason, (Text(error.reason),), raw, failed=True)
        except FileRefused as error:
            raise ToolError(f"{error.reason} No file of the patch was changed.") from None
        return Outcome(plan.done, (plan.diff,), plan.raw_output)


# -- which files -----------------------------------------------------------------------------------


def _paths(says: FilePatch) -> list[str]:
    return [says.path, says.to] if isinstance(says, UpdateFile) and says.to is not None else [says.path]


def _locations(context: ToolContext, paths: Sequence[str]) -> tuple[Location, ...]:
    found: list[Location] = []
    for path in paths:
        try:
            found.append(Location(context.files.path_of(path)))
        except FileRefused:
            continue
    return tuple(found)


def _section(says: FilePatch, context: ToolContext) -> Section:
    for path in _paths(says):
        if path.rpartition("/")[2] in ("", ".", ".."):
            raise ToolError(f"{path} names a folder; a patch changes files.")
    targets = [resolve(context, path) for path in _paths(says)]
    section = Section(says, targets[0], targets[1] if len(targets) > 1 else None)
    if section.to is not None or isinstance(says, DeleteFile):
        with refusals():
            for end in section.targets:
                require_own_name(end)
    return section


def _require_apart(sections: Sequence[Section]) -> None:
    """Refuse paths that are named twice, and files below files.

    Raises:
        ToolError: there are such.
    """
    lines: dict[str, int] = {}
    for section in sections:
        if section.to is not None and section.to.path == section.target.path:
            raise ToolError(f"{section.to.path} is where the file is already; leave out the move.")
        for target in section.targets:
            if target.path in lines:
                raise ToolError(
                    f"{target.path} is named twice, at lines {lines[target.path]:,} and {section.says.at:,} "
                    "of the patch. Put all that is done to a file into one section; a file that is to take "
                    "the place of another needs a second patch."
                )
            lines[target.path] = section.says.at
    above = ""
    # With a slash at their ends, what is below a path comes right after it.
    for path in sorted(lines, key=lambda path: path + "/"):
        if above and is_within(above, path):
            raise ToolError(f"{path} would be below {above}, which is a file of this patch as well.")
        above = path


async def _loaded(section: Section, context: ToolContext) -> Section:
    """The section with what its file holds, if that may be changed."""
    files, target = context.files, section.target
    old = await files.load(target)
    if isinstance(section.says, AddFile):
        if old is not None:
            raise ToolError(
                f"{target.path} exists already ({counted(len(old.data), 'byte')}). Read it and change it "
                "with `*** Update File:`, or replace all of it with create_file."
            )
        return section
    if old is None:
        raise ToolError(f"{target.path} does not exist.")
    if text_of(old.data) is None:
        raise ToolError(f"{target.path} is a binary file; only text can be edited, removed or moved.")
    files.require_seen(target, old)
    if section.to is not None and await files.load(section.to) is not None:
        raise ToolError(f"{section.to.path} exists already; a move does not replace a file.")
    return Section(section.says, target, section.to, old)


def _raw(change: Change) -> dict[str, str]:
    moved = {"from": change.old_path} if change.old_path is not None else {}
    return {"path": change.path, "operation": change.operation.value, **moved}
