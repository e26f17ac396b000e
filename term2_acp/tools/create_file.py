"""``create_file``: a new file, or with ``overwrite`` a new content for one that the model has read.

A new file is UTF-8 without a byte-order mark. An overwritten one keeps its encoding and its mark, and,
where all of its lines end alike in ``\\r\\n`` and the new text has no ``\\r``, its line ends.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from term2_acp.domain.toolcall import ToolKind
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext, ToolError
from term2_acp.tools.edits import Written, make_edit, plan_edit
from term2_acp.tools.targets import FilePath, brief, counted, describe, refusals, resolve
from term2_acp.workspace import FileContent, FileText, LineEnd, has_one_line_end, line_end_of, text_of

WholeText = Annotated[str, msgspec.Meta(description="The whole text of the file.")]
Overwrite = Annotated[bool, msgspec.Meta(description="Replace a file that exists and that you have read.")]


class CreateFileArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``create_file`` takes."""

    path: FilePath
    content: WholeText
    overwrite: Overwrite | None = None


class CreateFile:
    """Makes one file."""

    name: ClassVar[str] = "create_file"
    kind: ClassVar[ToolKind] = ToolKind.EDIT
    description: ClassVar[str] = (
        "Create a text file with the given content; folders on the way are made. An existing file is refused "
        "unless overwrite is true and you have read it in this session; prefer search_replace for changes."
    )
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = CreateFileArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        verb = "Overwrite" if arguments.overwrite else "Create"
        return describe(context, f"{verb} {brief(arguments.path)}", arguments.path)

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        target = resolve(context, arguments.path)
        if arguments.path.endswith("/"):
            raise ToolError("The path names a folder; a file's path does not end with `/`.")
        with refusals():
            old = await context.files.load(target)
            if old is not None:
                if not arguments.overwrite:
                    size = counted(len(old.data), "byte")
                    raise ToolError(
                        f"{target.path} exists already ({size}). Read it and change it with search_replace, "
                        "or set overwrite to replace all of it."
                    )
                context.files.require_seen(target, old)
        return await plan_edit(context, target, old, lambda: _written(target.path, old, arguments.content))

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """See ``Tool``."""
        return await make_edit(context, prepared)


def _written(path: str, old: FileContent | None, content: str) -> Written:
    found = text_of(old.data) if old is not None else None
    found = found or FileText("", "utf-8")
    text = content
    if line_end_of(found.text) is LineEnd.CRLF and has_one_line_end(found.text) and "\r" not in content:
        text = content.replace("\n", "\r\n")
    data = found.encode(text)
    size = counted(content.count("\n") + (not content.endswith("\n") and content != ""), "line")
    verb, done = ("Create", "Created") if old is None else ("Overwrite", "Overwrote")
    return Written(
        data=data,
        summary=f"{verb} {path} ({size}).",
        done=f"{done} {path}: {size}, {counted(len(data), 'byte')}.",
        raw_output={"path": path, "bytes": len(data), "created": old is None},
    )
