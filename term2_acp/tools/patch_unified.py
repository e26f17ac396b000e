"""Unified diffs, plain ones and Git's. Pure.

Every file begins with ``--- a/x`` and ``+++ b/x``, or with ``diff --git a/x b/x`` and Git's lines about it;
``/dev/null`` stands for no file. The prefixes ``a/`` and ``b/`` may be left out on both sides. Of a hunk's
header only the line of the old file is taken, as a hint. Its counts are often wrong in what models write, so
a hunk ends where the next header stands; they decide only whether two lines that look like the header of a
file are one.

Refused, since a patch here changes texts and paths alone: copies, changes of mode, links, binary patches.
"""

import re

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.tools.base import ToolError
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
    shown,
    text_of_lines,
)

GIT = "diff --git "
OLD = "--- "
_NEW = "+++ "
_NOTHING = "/dev/null"

_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_SAYS_NOTHING = ("index ", "similarity index ", "dissimilarity index ")
_REFUSED = {
    "old mode ": "no change of mode: modes are kept as they are",
    "new mode ": "no change of mode: modes are kept as they are",
    "copy from ": "no copy: add the new file with its text",
    "Binary files ": "a text file",
    "GIT binary patch": "a text file",
}
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


def read_unified(source: Lines) -> list[FilePatch]:
    """Read a unified diff to its end.

    Raises:
        ToolError: it is not as it should be.
    """
    found: list[FilePatch] = []
    source.skip_blank()
    while (line := source.peek()) is not None:
        head = _Head(source.number)
        if line.startswith(GIT):
            head.read_git(source)
        elif not line.startswith(OLD):
            raise source.fault(f"`{GIT.rstrip()}` or `{OLD.rstrip()}`")
        if (source.peek() or "").startswith(OLD):
            head.read_sides(source)
        found.append(_file(head, source))
        source.skip_blank()
    return found


@define
class _Head:
    """What the lines above a file's hunks say. Names are as they stand there, prefixes included."""

    at: int
    old: str | None = None
    new: str | None = None
    renamed: dict[str, str] = field(factory=dict)
    prefixed: bool = True

    def read_git(self, source: Lines) -> None:
        """Read Git's own lines."""
        names = _git_names(source)
        if names is not None:
            self.old, self.new = names
            self.prefixed = self.old != self.new
        source.take()
        while (line := source.peek()) is not None and line.strip():
            if line.startswith((OLD, GIT, "@@")):
                break
            self._read_extended(line.rstrip(), source)
            source.take()

    def _read_extended(self, line: str, source: Lines) -> None:
        for words, wanted in _REFUSED.items():
            if line.startswith(words):
                raise source.fault(wanted)
        if line.startswith("new file mode "):
            self.old = _NOTHING
            if not line.endswith(" 100644"):
                raise source.fault("mode 100644: a patch makes ordinary files, with no other mode")
        elif line.startswith("deleted file mode "):
            self.new = _NOTHING
            if not line.startswith("deleted file mode 100"):
                raise source.fault("an ordinary file")
        elif line.startswith(("rename from ", "rename to ")):
            _, which, name = line.split(" ", 2)
            self.renamed[which] = _unquoted(name, source)
        elif not line.startswith(_SAYS_NOTHING):
            raise source.fault(f"a line that Git writes above a file's hunks, or `{OLD.rstrip()}`")

    def read_sides(self, source: Lines) -> None:
        """Read ``---`` and ``+++``."""
        self.old = self._side(source, OLD, self.old, self.renamed.get("from"), "a/")
        self.new = self._side(source, _NEW, self.new, self.renamed.get("to"), "b/")

    def _side(self, source: Lines, mark: str, said: str | None, renamed: str | None, prefix: str) -> str:
        line = source.peek() or ""
        if not line.startswith(mark):
            raise source.fault(f"`{mark.rstrip()}`")
        name = _unquoted(line[len(mark) :], source)
        if said == _NOTHING != name or (renamed is not None and name not in (renamed, prefix + renamed)):
            raise source.fault("a name that agrees with the lines above")
        source.take()
        return name

    def names(self) -> tuple[str | None, str | None]:
        """The old and the new path, None where there is no file.

        Raises:
            ToolError: nobody can say what they are.
        """
        if self.renamed:
            if set(self.renamed) != {"from", "to"}:
                raise self._fault("`rename from` and `rename to`")
            return self.renamed["from"], self.renamed["to"]
        old, new = self.old, self.new
        if old is None or new is None or old == new == _NOTHING:
            raise self._fault("the name of a file")
        if old == _NOTHING:
            return None, new.removeprefix("b/") if self.prefixed else new
        if new == _NOTHING:
            return old.removeprefix("a/") if self.prefixed else old, None
        if old == new:
            return old, old
        path = old.removeprefix("a/")
        if path != new.removeprefix("b/"):
            raise self._fault("the same file on both sides, or `rename from` and `rename to`")
        return path, path

    def _fault(self, wanted: str) -> ToolError:
        found = f"{self.old or 'none'} and {self.new or 'none'}"
        return ToolError(f"Line {self.at:,} of the patch: expected {wanted}; found {shown(found)}.")


def _file(head: _Head, source: Lines) -> FilePatch:
    old, new = head.names()
    hunks = []
    while (line := source.peek()) is not None and line.startswith("@@"):
        hunks.append(_hunk(source))
    if new is None:
        _require_signs(hunks, "-", "a file that is deleted")
        return DeleteFile(head.at, old or "", tuple(hunks))
    if old is None:
        _require_signs(hunks, "+", "a new file")
        if len(hunks) > 1:
            raise ToolError(f"Line {hunks[1].at:,} of the patch: a new file has one hunk; found another.")
        bare = bool(hunks) and hunks[0].new_bare
        return AddFile(head.at, new, text_of_lines(hunks[0].new if hunks else (), bare=bare))
    if not hunks and old == new:
        raise source.fault(f"a hunk for {old}, which begins with `@@ -`")
    return UpdateFile(head.at, old, tuple(hunks), new if new != old else None)


def _hunk(source: Lines) -> Hunk:
    at = source.number
    header = _HEADER.match(source.peek() or "")
    if header is None:
        raise source.fault("`@@ -LINE,COUNT +LINE,COUNT @@`")
    source.take()
    counts = [int(count) if count is not None else 1 for count in (header[2], header[3])]

    def ends(source: Lines, read: Body) -> bool:
        line = source.peek() or ""
        if line.startswith(("@@", GIT)):
            return True
        if not (line.startswith(OLD) and (source.peek(1) or "").startswith(_NEW)):
            return False
        # A removed "-- x" above an added "++ y" looks the same.
        left = [counts[0] - read.old_count, counts[1] - read.new_count]
        return (source.peek(2) or "").startswith("@@") and left != [1, 1]

    read = body(source, ends)
    return require_change(
        Hunk(at, tuple(read.lines), hint=int(header[1]), old_bare=read.old_bare, new_bare=read.new_bare)
    )


def _require_signs(hunks: list[Hunk], sign: str, what: str) -> None:
    for hunk in hunks:
        other = next((other + text for other, text in hunk.lines if other != sign), None)
        if other is not None:
            raise ToolError(
                f"The hunk at line {hunk.at:,} of the patch: every line of {what} begins with `{sign}`; "
                f"found {shown(other)}."
            )


def _git_names(source: Lines) -> tuple[str, str] | None:
    """The two names of ``diff --git`` where they are of one length, as those of one file always are."""
    rest = (source.peek() or "")[len(GIT) :].rstrip()
    middle = len(rest) // 2
    if len(rest) % 2 == 0 or rest[middle] != " ":
        return None
    return _unquoted(rest[:middle], source), _unquoted(rest[middle + 1 :], source)


def _unquoted(name: str, source: Lines) -> str:
    """A name as it stands in a header: without a date behind a tab, and unescaped where it is in quotes."""
    name = name.split("\t")[0].rstrip()
    if not name.startswith('"'):
        if not name:
            raise source.fault("a path")
        return name
    if len(name) < 3 or not name.endswith('"'):
        raise source.fault("a path that ends with the quote that it begins with")
    try:
        return _ESCAPE.sub(_unescape, name[1:-1].encode()).decode()
    except UnicodeDecodeError:
        raise source.fault("a path in UTF-8") from None


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if len(code) == 3:
        return bytes([int(code, 8) & 0xFF])
    return _ESCAPED.get(code, code)
