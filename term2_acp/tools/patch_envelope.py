"""The envelope: ``*** Begin Patch``, one section a file, ``*** End Patch``. Pure.

::

    *** Begin Patch
    *** Add File: new.py
    +every line of the new file
    *** Update File: old.py
    *** Move to: elsewhere.py
    @@ def method(self):
     context
    -removed
    +added
    *** End of File
    *** Delete File: gone.py
    *** End Patch

``*** Move to:`` and ``*** End of File`` are optional. A hunk begins with ``@@``, which the first of a file
may leave out, and the text after it is a line somewhere above; several such lines narrow it down, outermost
first. ``@@ -1,2 +3,4 @@``, from the other shape, counts as a hint of a line number.
"""

import re

from term2_acp.tools.patch_parts import (
    AddFile,
    Body,
    DeleteFile,
    FilePatch,
    Hunk,
    Lines,
    UpdateFile,
    body,
    require_change,
    text_of_lines,
)

BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_ADD = "*** Add File:"
_UPDATE = "*** Update File:"
_DELETE = "*** Delete File:"
_MOVE = "*** Move to:"
_END_OF_FILE = "*** End of File"

_NUMBERS = re.compile(r"@@ -(\d{1,9})(?:,\d{1,9})? \+\d{1,9}(?:,\d{1,9})? @@")


def read_envelope(source: Lines) -> list[FilePatch]:
    """Read an envelope from its first line to the end of the patch.

    Raises:
        ToolError: it is not as it should be.
    """
    source.take()
    found: list[FilePatch] = []
    while True:
        source.skip_blank()
        line = (source.peek() or "").rstrip()
        if line == _END:
            break
        if line.startswith(_ADD):
            found.append(_added(source))
        elif line.startswith(_UPDATE):
            found.append(_updated(source))
        elif line.startswith(_DELETE):
            found.append(DeleteFile(source.number, _path(source, _DELETE)))
        else:
            raise source.fault(f"`{_ADD}`, `{_UPDATE}`, `{_DELETE}` or `{_END}`")
    source.take()
    source.skip_blank()
    if source.peek() is not None:
        raise source.fault(f"nothing after `{_END}`")
    return found


def _path(source: Lines, mark: str) -> str:
    path = (source.peek() or "")[len(mark) :].strip()
    if not path:
        raise source.fault(f"a path after `{mark}`")
    source.take()
    return path


def _section_ends(source: Lines, _: Body | None = None) -> bool:
    line = source.peek()
    return line is None or line.startswith("*** ")


def _hunk_ends(source: Lines, _: Body) -> bool:
    return _section_ends(source) or (source.peek() or "").startswith("@@")


def _added(source: Lines) -> AddFile:
    at = source.number
    path = _path(source, _ADD)

    def ends(source: Lines, _: Body) -> bool:
        line = source.peek()
        if _section_ends(source):
            return True
        if line and line[0] not in "+\\":
            raise source.fault("a line of the new file, which begins with `+`")
        return False

    # An empty line between others is read as one of context, and is one of the file.
    read = body(source, ends)
    return AddFile(at, path, text_of_lines((text for _, text in read.lines), bare=read.new_bare))


def _updated(source: Lines) -> UpdateFile:
    at = source.number
    path = _path(source, _UPDATE)
    to = _path(source, _MOVE) if (source.peek() or "").startswith(_MOVE) else None
    hunks: list[Hunk] = []
    source.skip_blank()
    while not _section_ends(source):
        hunks.append(_hunk(source))
        source.skip_blank()
    if not hunks and to is None:
        raise source.fault(f"a hunk for {path}")
    return UpdateFile(at, path, tuple(hunks), to)


def _hunk(source: Lines) -> Hunk:
    at = source.number
    anchors: list[str] = []
    hint: int | None = None
    while (line := source.peek()) is not None and line.startswith("@@"):
        source.take()
        numbers = _NUMBERS.match(line)
        if numbers:
            hint = int(numbers[1])
        elif anchor := line[2:].removesuffix("@@").removeprefix(" ").rstrip():
            anchors.append(anchor)
    read = body(source, _hunk_ends)
    at_end = (source.peek() or "").rstrip() == _END_OF_FILE
    if at_end:
        source.take()
    hunk = Hunk(at, tuple(read.lines), tuple(anchors), hint, at_end, read.old_bare, read.new_bare)
    return require_change(hunk)
