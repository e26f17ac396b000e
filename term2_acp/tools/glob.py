"""``glob``: the files below a folder whose names fit a pattern."""

from typing import Annotated, Any, ClassVar

import msgspec
import trio

from term2_acp.domain.content import Text
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import Location, ToolKind
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext
from term2_acp.tools.bounded import UNREADABLE, in_bounds, join_path, place
from term2_acp.tools.targets import brief, counted, describe, refusals, resolve
from term2_acp.workspace import Listing, compile_pattern

# Paths of one result.
MAX_PATHS = 1000


FilePattern = Annotated[
    str, msgspec.Meta(description="`src/**/*.py`, `*.{ts,tsx}` ...; without a slash, names at any depth.")
]
FolderPath = Annotated[
    str, msgspec.Meta(description="The folder to look in. Default: the working directory.")
]


class GlobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``glob`` takes."""

    pattern: FilePattern
    path: FolderPath | None = None


class Glob:
    """Lists files."""

    name: ClassVar[str] = "glob"
    kind: ClassVar[ToolKind] = ToolKind.SEARCH
    description: ClassVar[str] = (
        "Find files by name. Returns their paths in order, at most "
        f"{MAX_PATHS:,}. What ignore files (.gitignore) leave out and .git are not listed; hidden files are; "
        "links are not followed."
    )
    reads_only: ClassVar[bool] = True
    Arguments: ClassVar[type[msgspec.Struct]] = GlobArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        where = f" in {brief(arguments.path)}" if arguments.path else ""
        return describe(context, f"Find {brief(arguments.pattern)}{where}", arguments.path or ".")

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        # No turn of the loop: the call and its ask then go out together.
        await trio.lowlevel.checkpoint_if_cancelled()
        target = resolve(context, arguments.path or ".")
        with refusals():
            compile_pattern(arguments.pattern)
        return Prepared(
            actions=(Action(Access.SEARCH, target),),
            locations=(Location(target.path),),
            work=(target, arguments.pattern),
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """See ``Tool``."""
        target, pattern = prepared.work
        with refusals():
            listing: Listing = await context.files.list_files(target, pattern, MAX_PATHS)
        folder = context.files.shown(target.path)
        lines, left_out = in_bounds([join_path(folder, path) for path in listing.paths])
        truncated = listing.truncated or left_out > 0
        said = counted(len(lines), "file") if lines else "No files"
        said += " shown; there are more. Narrow the pattern." if truncated else f" found in {place(folder)}."
        if listing.unreadable:
            said += UNREADABLE
        if listing.unprintable:
            said += f" {counted(listing.unprintable, 'name is', 'names are')} not UTF-8 and left out."
        result = "\n".join([*lines, f"[{said}]"])
        return Outcome(result, (Text(result),), {"files": len(lines), "truncated": truncated})
