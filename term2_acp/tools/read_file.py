"""``read_file``: a text file, or a range of its lines.

The text goes to the model as it is, without line numbers, so that what it copies into an edit matches;
line ends are shown as ``\\n``. One last line in brackets says which lines these are, what was left out,
and how to read on. Whatever part was read, the whole file counts as seen: its digest is of all of it.
"""

from typing import Annotated, Any, ClassVar

import msgspec
import trio

from term2_acp.domain.content import Text
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import Location, ToolKind
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext, ToolError
from term2_acp.tools.excerpt import MAX_BYTES, MAX_LINES, Excerpt, excerpt
from term2_acp.tools.targets import FilePath, brief, counted, describe, refusals, resolve
from term2_acp.workspace import FileContent, FileText, LineEnd, has_one_line_end, line_end_of, text_of

FirstLine = Annotated[int, msgspec.Meta(ge=1, description="First line, counted from 1. Default: 1.")]
LastLine = Annotated[int, msgspec.Meta(ge=1, description="Last line, inclusive. Default: the file's last.")]

# Bytes of a file whose lines are cut on the spot: a thread would take longer to start.
INLINE_BYTES = 32 * 1024


class ReadFileArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``read_file`` takes."""

    path: FilePath
    start_line: FirstLine | None = None
    end_line: LastLine | None = None


class ReadFile:
    """Reads one text file."""

    name: ClassVar[str] = "read_file"
    kind: ClassVar[ToolKind] = ToolKind.READ
    description: ClassVar[str] = (
        "Read a text file. Returns its text without line numbers, then one line in brackets that says which "
        f"lines these are. At most {MAX_LINES:,} lines and {MAX_BYTES // 1024} KiB come at once; "
        "read on with start_line. A file must be read before it can be edited."
    )
    reads_only: ClassVar[bool] = True
    Arguments: ClassVar[type[msgspec.Struct]] = ReadFileArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        title = f"Read {brief(arguments.path)}"
        if arguments.start_line is not None or arguments.end_line is not None:
            title += f" (lines {arguments.start_line or 1} to {arguments.end_line or 'the last'})"
        return describe(context, title, arguments.path, arguments.start_line)

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        # No turn of the loop: the call and its ask then go out together.
        await trio.lowlevel.checkpoint_if_cancelled()
        first, last = arguments.start_line or 1, arguments.end_line
        if last is not None and last < first:
            raise ToolError(f"end_line {last} is before start_line {first}.")
        target = resolve(context, arguments.path)
        return Prepared(
            actions=(Action(Access.READ, target),),
            locations=(Location(target.path, arguments.start_line),),
            work=(target, first, last),
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """See ``Tool``."""
        target, first, last = prepared.work
        with refusals():
            content = await context.files.load(target)
            if content is None:
                raise ToolError(f"{target.path} does not exist.")
            if len(content.data) <= INLINE_BYTES:
                outcome = _outcome(target.path, content, first, last)
            else:
                outcome = await context.files.in_thread(lambda: _outcome(target.path, content, first, last))
        context.files.saw(target, content)
        return outcome


def _outcome(path: str, content: FileContent, first: int, last: int | None) -> Outcome:
    found = text_of(content.data)
    if found is None:
        size = counted(len(content.data), "byte")
        raise ToolError(f"{path} is a binary file of {size}; only text can be read.")
    part = excerpt(found.text, first, last)
    if first > max(part.total, 1):
        raise ToolError(f"{path} has only {counted(part.total, 'line')}.")
    left_out = part.cut is not None or part.last < min(last or part.total, part.total)
    shown = f"{part.text}\n" if part.total else ""
    return Outcome(
        result=f"{shown}[{' '.join(_notes(content, found, part, last))}]",
        content=(Text(_lines(part)),),
        raw_output={
            "lines": part.last - part.first + 1,
            "bytes": len(part.text.encode()),
            "truncated": left_out,
        },
    )


def _lines(part: Excerpt) -> str:
    if not part.total:
        return "The file is empty."
    if part.first == part.last:
        return f"Line {part.first:,} of {part.total:,}."
    return f"Lines {part.first:,} to {part.last:,} of {part.total:,}."


def _notes(content: FileContent, found: FileText, part: Excerpt, last: int | None) -> list[str]:
    notes = [_lines(part)]
    if part.cut is not None:
        notes.append(f"Line {part.last:,} has {part.cut:,} bytes; the first {MAX_BYTES:,} are shown.")
    left_out = min(last or part.total, part.total) - part.last
    if left_out > 0:
        lines = counted(left_out, "line is", "lines are")
        notes.append(f"{lines} left out; read on with start_line={part.last + 1}.")
    if found.encoding != "utf-8" or found.mark:
        notes.append(f"Encoding: {found.encoding}{' with byte-order mark' if found.mark else ''}.")
    end = line_end_of(found.text)
    if end is not LineEnd.LF or not has_one_line_end(found.text):
        kind = end.name if has_one_line_end(found.text) else "CRLF and LF mixed"
        notes.append(f"Line ends: {kind}, shown as LF; an edit keeps them.")
    if found.text and not found.text.endswith(("\n", "\r")):
        notes.append("The last line has no line end.")
    if content.unsaved:
        notes.append("The editor shows this text, and it is not saved: searches and commands see another.")
    return notes
