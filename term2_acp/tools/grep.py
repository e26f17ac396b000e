"""``grep``: the lines of files that match a pattern."""

import itertools
from typing import Annotated, Any, ClassVar

import msgspec
import trio

from term2_acp.domain.content import Text
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import Location, ToolKind
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext
from term2_acp.tools.bounded import UNREADABLE, in_bounds, join_path, place
from term2_acp.tools.targets import brief, counted, describe, refusals, resolve
from term2_acp.workspace import Hits, Kind, Query, compile_pattern

# Matching lines of one result.
MAX_HITS = 500


Expression = Annotated[
    str, msgspec.Meta(min_length=1, description="A regular expression (Rust's syntax), matched line by line.")
]
SearchedPath = Annotated[
    str, msgspec.Meta(description="The folder or file to search. Default: the working directory.")
]
Literally = Annotated[bool, msgspec.Meta(description="Take the pattern literally.")]
AnyCase = Annotated[bool, msgspec.Meta(description="Match without regard to case.")]
Included = Annotated[
    str, msgspec.Meta(description="Search only files whose path fits this, such as `*.{c,h}`.")
]
Excluded = Annotated[
    str, msgspec.Meta(description="Leave out files and folders whose path fits this, such as `tests`.")
]


class GrepArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``grep`` takes."""

    pattern: Expression
    path: SearchedPath | None = None
    fixed_strings: Literally | None = None
    ignore_case: AnyCase | None = None
    include: Included | None = None
    exclude: Excluded | None = None


class Grep:
    """Searches in files."""

    name: ClassVar[str] = "grep"
    kind: ClassVar[ToolKind] = ToolKind.SEARCH
    description: ClassVar[str] = (
        "Search files for lines that match a regular expression. Returns them by file, with line numbers, at "
        f"most {MAX_HITS}; long lines are cut. Binary files, .git and what ignore files (.gitignore) leave "
        "out are not searched; links are not followed."
    )
    reads_only: ClassVar[bool] = True
    Arguments: ClassVar[type[msgspec.Struct]] = GrepArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        where = f" in {brief(arguments.path)}" if arguments.path else ""
        return describe(context, f"Search for {brief(arguments.pattern)}{where}", arguments.path or ".")

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        # No turn of the loop: the call and its ask then go out together.
        await trio.lowlevel.checkpoint_if_cancelled()
        target = resolve(context, arguments.path or ".")
        with refusals():
            include = compile_pattern(arguments.include) if arguments.include else None
            if arguments.exclude:
                compile_pattern(arguments.exclude)
        query = Query(
            arguments.pattern,
            fixed_strings=bool(arguments.fixed_strings),
            ignore_case=bool(arguments.ignore_case),
            include=include,
            exclude=arguments.exclude or None,
        )
        # A file's own grant is narrower than its folder's, so the two are different actions.
        access = Access.READ if context.files.kind(target) is Kind.FILE else Access.SEARCH
        return Prepared(
            actions=(Action(access, target),),
            locations=(Location(target.path),),
            work=(target, query, access),
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """See ``Tool``."""
        target, query, access = prepared.work
        with refusals():
            one_file = access is Access.READ
            hits = await context.files.search(target, query, MAX_HITS, one_file=one_file)
        where = context.files.shown(target.path)
        lines: list[str] = []
        for path, found in itertools.groupby(hits.hits, key=lambda hit: hit.path):
            lines.append(where if one_file else join_path(where, path))
            lines += [f"{hit.line}: {hit.text}" for hit in found]
        lines, left_out = in_bounds(lines)
        truncated = hits.truncated or left_out > 0
        said = _summary(hits, where, truncated=truncated) + (UNREADABLE if hits.unreadable else "")
        result = "\n".join([*lines, f"[{said}]"])
        files = len({hit.path for hit in hits.hits})
        return Outcome(
            result, (Text(result),), {"matches": len(hits.hits), "files": files, "truncated": truncated}
        )


def _summary(hits: Hits, where: str, *, truncated: bool) -> str:
    if hits.binary:
        return f"{where} is a binary file, and it matches."
    if not hits.hits:
        return f"No matches in {place(where)}."
    if truncated:
        return "These are the first matches; there are more. Narrow the pattern or the files."
    files = len({hit.path for hit in hits.hits})
    return f"{counted(len(hits.hits), 'matching line')} in {counted(files, 'file')}."
