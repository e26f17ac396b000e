"""``search_replace``: literal replacements in a file that the model has read, all of them or none."""

from typing import Annotated, Any, ClassVar

import msgspec

from term2_acp.domain.toolcall import ToolKind
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext, ToolError
from term2_acp.tools.edits import Written, make_edit, plan_edit
from term2_acp.tools.replacing import Replacement, apply
from term2_acp.tools.targets import FilePath, brief, counted, describe, refusals, resolve
from term2_acp.workspace import FileContent, text_of

# Replacements of one call.
MAX_REPLACEMENTS = 200


SearchText = Annotated[
    str, msgspec.Meta(min_length=1, description="The text to replace, exactly as it is in the file.")
]
NewText = Annotated[str, msgspec.Meta(description="The text to put in its place.")]
MatchAll = Annotated[
    bool, msgspec.Meta(description="Replace every match. Without it, exactly one must match.")
]


class ReplacementArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement of literal text."""

    search_content: SearchText
    replace_content: NewText
    match_all: MatchAll | None = None


Replacements = Annotated[
    list[ReplacementArguments],
    msgspec.Meta(
        min_length=1,
        max_length=MAX_REPLACEMENTS,
        description="Applied in order, each to the result of the one before.",
    ),
]


class SearchReplaceArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``search_replace`` takes."""

    path: FilePath
    replacements: Replacements


class SearchReplace:
    """Changes one file."""

    name: ClassVar[str] = "search_replace"
    kind: ClassVar[ToolKind] = ToolKind.EDIT
    description: ClassVar[str] = (
        "Replace literal text in a file that you have read in this session. Each search_content must match "
        "exactly once, whitespace and all, unless match_all is set. All replacements are made or none. "
        "Encoding and line ends are kept."
    )
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = SearchReplaceArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        return describe(context, f"Edit {brief(arguments.path)}", arguments.path)

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        target = resolve(context, arguments.path)
        replacements = [
            Replacement(part.search_content, part.replace_content, bool(part.match_all))
            for part in arguments.replacements
        ]
        with refusals():
            old = await context.files.load(target)
            if old is None:
                raise ToolError(f"{target.path} does not exist. To make it, use create_file.")
            context.files.require_seen(target, old)
        return await plan_edit(context, target, old, lambda: _written(target.path, old, replacements))

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """See ``Tool``."""
        return await make_edit(context, prepared)


def _written(path: str, old: FileContent, replacements: list[Replacement]) -> Written:
    found = text_of(old.data)
    if found is None:
        raise ToolError(f"{path} is a binary file; only text can be edited.")
    text, places = apply(found.text, replacements)
    data = found.encode(text)
    return Written(
        data=data,
        summary=f"Replace {counted(places, 'passage')} in {path}.",
        done=f"Replaced {counted(places, 'passage')} in {path}.",
        raw_output={"path": path, "bytes": len(data), "replaced": places},
    )
