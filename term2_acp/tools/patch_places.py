"""Where a hunk belongs in a text, or what is there instead. Pure.

A hunk is found by the lines that must be there, its context and what it removes, exactly and as whole lines,
below the hunk before it. They must be found once. The lines after ``@@`` narrow that down: looked at first is
the block that such a line opens, which goes on as long as lines are indented deeper (or begin with no letter,
as a closing bracket), and only then the rest of the file. A hunk that reaches to the end of the file is
looked for there alone. Among several places the line number of a diff decides, if one of them is exactly
there; nothing is ever taken because it is merely near.

All searching is done by ``str.find``, which takes linear time.
"""

import itertools
from collections.abc import Iterator, Sequence

from term2_acp.domain.classes import define, frozen
from term2_acp.tools.base import ToolError
from term2_acp.tools.patch_parts import Hunk, shown

# Lines that are looked at one by one for one purpose: those of a block, and those that resemble a line.
_LOOKED_AT = 10_000

# Line numbers that a message names, and places at which it looks for the best part of a hunk.
_NAMED_LINES = 10


@frozen
class _Place:
    start: int  # in the plain text
    line: int  # from 1


@define
class Ground:
    """A text in which hunks are looked for; ``begin`` is the start of the first line below the last hunk.

    In ``framed`` a line end stands on either side of every line. A line begins there one character on, so a
    line that is found with the line end before it has the same place as in the text.
    """

    text: str
    begin: int = 0
    line: int = 1
    framed: str = ""

    def __attrs_post_init__(self) -> None:
        self.framed = "\n" + self.text + ("\n" if self.bare else "")

    @property
    def bare(self) -> bool:
        """Whether the last line has no line end."""
        return self.text != "" and not self.text.endswith("\n")

    @property
    def end(self) -> int:
        """Where a line below the last one would begin."""
        return len(self.framed) - 1

    def pass_to(self, start: int) -> None:
        """Go on to the line that begins at ``start``."""
        self.line += self.framed.count("\n", self.begin + 1, start + 1)
        self.begin = start

    def line_at(self, start: int) -> str:
        """The text of the line that begins at ``start``."""
        return self.framed[start + 1 : self.framed.find("\n", start + 1)]

    def start_of(self, line: int) -> int | None:
        """Where a line begins that is not above ``begin``, or None.

        Steps over the lines in between, which all hunks of a file together do once.
        """
        start = self.begin if line >= self.line else -1
        for _ in range(line - self.line):
            start = self.framed.find("\n", start + 1)
            if start < 0:
                break
        return start if 0 <= start < self.end else None

    def places(self, lines: Sequence[str], begin: int, stop: int) -> Iterator[_Place]:
        """Where these lines are, one after the other, beginning at or after ``begin`` and before ``stop``."""
        needle = "\n" + "".join(f"{line}\n" for line in lines)
        at, line = begin, self._line_of(begin)
        found = self.framed.find(needle, begin)
        while 0 <= found < stop:
            line += self.framed.count("\n", at + 1, found + 1)
            at = found
            yield _Place(found, line)
            found = self.framed.find(needle, found + 1)

    def loose_places(self, wanted: str, begin: int, stop: int) -> Iterator[_Place]:
        """Where a line is that differs from ``wanted`` in white space around it at most."""
        words = wanted.strip()
        at, line = begin, self._line_of(begin)
        found = self.framed.find(words, begin) if words else -1
        for _ in range(_LOOKED_AT):
            if found < 0:
                break
            start = self.framed.rfind("\n", 0, found)
            if start >= stop:
                break
            line += self.framed.count("\n", at + 1, start + 1)
            at = start
            if start >= begin and self.line_at(start).strip() == words:
                yield _Place(start, line)
            found = self.framed.find(words, self.framed.find("\n", found))

    def _line_of(self, start: int) -> int:
        if start < self.begin:
            return 1 + self.framed.count("\n", 1, start + 1)
        return self.line + self.framed.count("\n", self.begin + 1, start + 1)


def locate(ground: Ground, hunk: Hunk) -> int:
    """Where the hunk begins.

    Raises:
        ToolError: nowhere, or nobody can say where. The message goes on from "Hunk 1 of /a/b".
    """
    old = hunk.old
    begin, stop = _narrowed(ground, hunk.anchors)
    if hunk.at_end or hunk.old_bare or hunk.new_bare:
        start = ground.end - sum(len(line) + 1 for line in old)
        if not old or (start >= begin and any(ground.places(old, start, start + 1))):
            if hunk.old_bare and not ground.bare:
                raise ToolError("says that the last line has no newline at its end, and it has one.")
            return start
        raise ToolError(f"does not match at the end of the file. {_mismatch(ground, hunk, begin)}")
    if not old:
        if not ground.text:
            return 0
        raise ToolError(
            "has added lines only, and nothing says where they go. Give it a line of context, or end it with "
            "`*** End of File`."
        )
    place = _chosen(ground, hunk, begin, stop)
    if place is None and stop < ground.end:
        place = _chosen(ground, hunk, begin, ground.end)
    if place is None:
        raise ToolError(f"does not match. {_mismatch(ground, hunk, begin)}")
    return place.start


def _narrowed(ground: Ground, anchors: Sequence[str]) -> tuple[int, int]:
    """Where to look: from the innermost anchor on, and first as far as its block goes."""
    begin, stop = ground.begin, ground.end
    for anchor in anchors:
        found = _anchor(ground, anchor, begin, stop) or _anchor(ground, anchor, begin, ground.end)
        if not found:
            raise ToolError(
                f"is to be found below a line {shown(anchor)}, and no such line is there"
                f"{_from_line(ground.line)}."
            )
        begin = found[0].start
        # Several such lines say only that the hunk is not above the first.
        stop = _block_end(ground, begin, stop) if len(found) == 1 else ground.end
    return begin, stop


def _anchor(ground: Ground, anchor: str, begin: int, stop: int) -> list[_Place]:
    """The first two places of an anchor; one that is not there as it is may be indented otherwise."""
    for places in (ground.places([anchor], begin, stop), ground.loose_places(anchor, begin, stop)):
        found = list(itertools.islice(places, 2))
        if found:
            return found
    return []


def _block_end(ground: Ground, start: int, stop: int) -> int:
    """Where the block ends that the line at ``start`` opens."""
    stop = stop if start < stop else ground.end
    head = ground.line_at(start)
    at = start + len(head) + 1
    for _ in range(_LOOKED_AT):
        if at >= stop:
            break
        line = ground.line_at(at)
        words = line.strip()
        if words and _depth(line) <= _depth(head) and (words[0].isalnum() or words[0] in "_@"):
            return at
        at += len(line) + 1
    return stop


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _chosen(ground: Ground, hunk: Hunk, begin: int, stop: int) -> _Place | None:
    """The one place of a hunk from ``begin`` to ``stop``, or None where it is not there.

    Raises:
        ToolError: there are several.
    """
    found = list(itertools.islice(ground.places(hunk.old, begin, stop), _NAMED_LINES + 1))
    if len(found) < 2:
        return found[0] if found else None
    at = ground.start_of(hunk.hint) if hunk.hint is not None else None
    if at is not None and begin <= at < stop and (there := next(ground.places(hunk.old, at, at + 1), None)):
        return there
    lines = ", ".join(f"{place.line:,}" for place in found[:_NAMED_LINES])
    more = " and others" if len(found) > _NAMED_LINES else ""
    raise ToolError(
        f"matches in several places, at line {lines}{more}. Add lines of context, or after `@@` a line "
        "above it."
    )


# -- what is there instead -------------------------------------------------------------------------


def _from_line(line: int) -> str:
    return f" from line {line:,} on" if line > 1 else ""


def _mismatch(ground: Ground, hunk: Hunk, begin: int) -> str:
    """What was found in place of a hunk. The model has read the file, so its lines may be quoted."""
    old = hunk.old
    if not old:
        return "Read the file again."
    above = next(ground.places(old, 0, begin), None)
    if above is not None:
        return (
            f"Its lines are at line {above.line:,}, which is above where it may be: hunks follow each other "
            "in the order of the file and do not overlap, and stand below the line after `@@`."
        )
    best: tuple[int, _Place] | None = None
    for place in itertools.islice(ground.places(old[:1], begin, ground.end), _NAMED_LINES):
        matching = _matching(ground, old, place.start)
        if best is None or matching > best[0]:
            best = matching, place
    if best is not None:
        count, place = best
        at = place.start + sum(len(line) + 1 for line in old[:count])
        if count == len(old):
            return f"Its lines are at line {place.line:,}, and the file goes on below them."
        there = "the file has ended" if at >= ground.end else f"there is {shown(ground.line_at(at))}"
        return (
            f"Its first line is at line {place.line:,}, but at line {place.line + count:,}, where it has "
            f"{shown(old[count])}, {there}."
        )
    loose = next(ground.loose_places(old[0], begin, ground.end), None)
    if loose is not None:
        return (
            f"Its first line is {shown(old[0])}; line {loose.line:,} differs from that in white space: "
            f"{shown(ground.line_at(loose.start))}."
        )
    return f"Its first line {shown(old[0])} is not there{_from_line(ground.line)}; read the file again."


def _matching(ground: Ground, lines: Sequence[str], start: int) -> int:
    count = 0
    for line in lines:
        if start >= ground.end or ground.line_at(start) != line:
            break
        start += len(line) + 1
        count += 1
    return count
