"""What a patch says, as values, and how the lines of its hunks are read. Pure.

The two shapes of a patch, ``patch_envelope`` and ``patch_unified``, differ in what stands around a hunk; its
lines are the same: a space, ``-`` or ``+``, then the text. Read leniently where models commonly err and
nothing is ambiguous: an empty line within a hunk is an empty line of context, whose space was lost, and
empty lines after a hunk are none of its lines. Everything else that is not as it should be is refused, with
the number of the line in the patch and what was found there.
"""

from collections.abc import Callable, Iterable, Sequence

from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.tools.base import ToolError

# Characters of a line that a message shows.
_SHOWN = 100


@frozen
class Hunk:
    """One stretch of lines: ``lines`` are pairs of a sign (space, ``-``, ``+``) and a text without its end.

    ``at`` is the line of the patch where the hunk begins. ``anchors`` are lines that stand above it,
    outermost first; ``hint`` is the line of the old file where it should be. ``at_end`` says that it reaches
    to the end of the file, ``old_bare`` and ``new_bare`` that the old or the new file ends there without a
    line end.
    """

    at: int
    lines: tuple[tuple[str, str], ...]
    anchors: tuple[str, ...] = ()
    hint: int | None = None
    at_end: bool = False
    old_bare: bool = False
    new_bare: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that will be there."""
        return [text for sign, text in self.lines if sign != "-"]


@frozen
class AddFile:
    """Make a file. ``at`` is the line of the patch, here and below."""

    at: int
    path: str
    text: str


@frozen
class DeleteFile:
    """Remove a file; with hunks, one that holds exactly what they remove."""

    at: int
    path: str
    hunks: tuple[Hunk, ...] = ()


@frozen
class UpdateFile:
    """Change a file, with ``to`` also its path. Without hunks it is moved as it is."""

    at: int
    path: str
    hunks: tuple[Hunk, ...]
    to: str | None = None


FilePatch = AddFile | DeleteFile | UpdateFile


@define
class Lines:
    """The lines of a patch and the place that has been reached. ``first`` is the number of the first."""

    lines: Sequence[str]
    first: int = 1
    _at: int = field(default=0, init=False)

    @property
    def number(self) -> int:
        """The number of the line that comes next."""
        return self.first + self._at

    def peek(self, ahead: int = 0) -> str | None:
        """The line that comes next, or one after it; None behind the end."""
        at = self._at + ahead
        return self.lines[at] if at < len(self.lines) else None

    def take(self) -> str:
        """The line that comes next, and go on."""
        line = self.lines[self._at]
        self._at += 1
        return line

    def skip_blank(self) -> None:
        """Go on to the next line with something in it."""
        while (line := self.peek()) is not None and not line.strip():
            self._at += 1

    def fault(self, wanted: str) -> ToolError:
        """The refusal of the line that comes next."""
        found = self.peek()
        what = "the end of the patch" if found is None else shown(found)
        return ToolError(f"Line {self.number:,} of the patch: expected {wanted}; found {what}.")


def shown(line: str) -> str:
    """A line as a message shows it: in quotes, white space and controls told apart, not too long."""
    return (
        repr(line) if len(line) <= _SHOWN else f"{line[:_SHOWN]!r} and {len(line) - _SHOWN:,} more characters"
    )


@define
class Body:
    """The lines of one hunk, while they are read."""

    lines: list[tuple[str, str]] = field(factory=list)
    old_bare: bool = False
    new_bare: bool = False
    old_count: int = 0
    new_count: int = 0
    _blank: int = 0

    def take(self, source: Lines) -> None:
        """Take the line that comes next.

        Raises:
            ToolError: it is no line of a hunk.
        """
        line = source.peek()
        if line == "":
            self._blank += 1
        elif line is not None and line[0] in " -+":
            for _ in range(self._blank):
                self._add(" ", "", source)
            self._blank = 0
            self._add(line[0], line[1:], source)
        elif line is not None and line.startswith("\\ ") and self.lines:
            sign = self.lines[-1][0]
            self.old_bare = self.old_bare or sign != "+"
            self.new_bare = self.new_bare or sign != "-"
        else:
            raise source.fault("a line of a hunk, which begins with a space, `-` or `+`")
        source.take()

    def _add(self, sign: str, text: str, source: Lines) -> None:
        if (self.old_bare and sign != "+") or (self.new_bare and sign != "-"):
            raise source.fault("no line after the one that is said to have no newline at the end of the file")
        self.lines.append((sign, text))
        self.old_count += sign != "+"
        self.new_count += sign != "-"


def body(source: Lines, ends: Callable[[Lines, Body], bool]) -> Body:
    """Read lines of a hunk until ``ends`` says so, or the patch does."""
    read = Body()
    while source.peek() is not None and not ends(source, read):
        read.take(source)
    return read


def require_change(hunk: Hunk) -> Hunk:
    """The hunk, if it says anything.

    Raises:
        ToolError: it has no lines, or what it adds is what it removes.
    """
    if hunk.old == hunk.new and hunk.old_bare == hunk.new_bare:
        what = "changes nothing: no line of it is removed or added" if hunk.lines else "has no lines"
        raise ToolError(f"The hunk at line {hunk.at:,} of the patch {what}.")
    return hunk


def text_of_lines(lines: Iterable[str], *, bare: bool) -> str:
    """Lines as the text of a file."""
    text = "".join(f"{line}\n" for line in lines)
    return text[:-1] if bare else text
