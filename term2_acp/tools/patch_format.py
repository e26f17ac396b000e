"""Reading a patch as models write them: which shape it has, and what is wrapped around it. Pure.

Two shapes, told apart by the first line: the envelope that begins with ``*** Begin Patch``
(``patch_envelope``), and unified diffs, Git's or plain ones (``patch_unified``).

Taken off, since nothing is ambiguous: blank lines around the patch, a code fence, a shell's here-document,
and ``\\r`` at the end of lines where every line of the patch has one. Where only some have, it is a character
of those lines. Numbers of lines in messages are those of the patch as it was written.
"""

import re

from term2_acp.tools.base import ToolError
from term2_acp.tools.patch_envelope import BEGIN, read_envelope
from term2_acp.tools.patch_parts import AddFile, FilePatch, Lines
from term2_acp.tools.patch_unified import GIT, OLD, read_unified

# Files and hunks of one patch. What is larger than this is no edit any more but a program's work.
MAX_FILES = 100
MAX_HUNKS = 1_000

_FENCE = re.compile(r"```[\w+-]*\s*")
_HERE_DOCUMENT = re.compile(r"""[^<]*<<-?\s*(['"]?)(\w+)\1\s*""")


def parse(patch: str) -> list[FilePatch]:
    """What a patch says, file by file in its order.

    Raises:
        ToolError: it is no patch, or larger than the bounds. Line number and what was found are named.
    """
    source = _unwrapped(patch)
    if source.peek() is None:
        raise ToolError("The patch is empty.")
    first = (source.peek() or "").rstrip()
    if first == BEGIN:
        found = read_envelope(source)
    elif first.startswith((GIT, OLD)):
        found = read_unified(source)
    else:
        raise source.fault(f"`{BEGIN}`, or a diff that begins with `{GIT.rstrip()}` or `{OLD.rstrip()}`")
    hunks = sum(len(one.hunks) for one in found if not isinstance(one, AddFile))
    if not found:
        raise ToolError("The patch names no file.")
    if len(found) > MAX_FILES or hunks > MAX_HUNKS:
        raise ToolError(
            f"The patch has {len(found):,} files and {hunks:,} hunks; at most {MAX_FILES} and {MAX_HUNKS:,} "
            "are taken."
        )
    return found


def _unwrapped(patch: str) -> Lines:
    """The lines of the patch itself."""
    if patch.count("\r\n") == patch.count("\n"):
        patch = patch.replace("\r\n", "\n")
    lines = patch.split("\n")
    begin, end = 0, len(lines)
    while True:
        begin, last = _without_blank(lines, begin, end)
        if last - begin < 2:
            break
        opening, closing = lines[begin].strip(), lines[last - 1].strip()
        here = _HERE_DOCUMENT.fullmatch(opening)
        if not (_FENCE.fullmatch(opening) and closing == "```") and not (here and closing == here[2]):
            break
        begin, end = begin + 1, last - 1
    # Of what is blank at the end and not wrapped, a space alone stays: it may be a line of context.
    while end > begin and not lines[end - 1]:
        end -= 1
    return Lines(lines[begin:end], begin + 1)


def _without_blank(lines: list[str], begin: int, end: int) -> tuple[int, int]:
    """The range without blank lines at either end."""
    while begin < end and not lines[begin].strip():
        begin += 1
    while begin < end and not lines[end - 1].strip():
        end -= 1
    return begin, end
