"""Hunks onto a text: only lines that they remove or add are touched. Pure.

Each hunk is found (``patch_places``) and handed to ``replacing``, stretch by stretch of removed and added
lines, so line ends follow the same rules as in ``search_replace``. Where any line of a file's hunks holds a
``\\r``, the whole file is taken literally: such a patch was made from its very bytes. A file without a line
end at its end keeps that, unless the patch says otherwise (``\\ No newline at end of file``).
"""

from collections.abc import Iterator, Sequence

from term2_acp.domain.classes import define
from term2_acp.tools.base import ToolError
from term2_acp.tools.patch_parts import Hunk
from term2_acp.tools.patch_places import Ground, locate
from term2_acp.tools.replacing import Passage, Plain, put


def apply_hunks(path: str, text: str, hunks: Sequence[Hunk]) -> str:
    """The text with all hunks applied; ``path`` is for messages.

    Raises:
        ToolError: a hunk does not match, or matches in several places. None is applied.
    """
    literal = any("\r" in line for hunk in hunks for _, line in hunk.lines)
    plain = Plain(text) if literal else Plain.of(text, "\n")
    ground = Ground(plain.text)
    stretches: list[_Stretch] = []
    for number, hunk in enumerate(hunks, 1):
        try:
            start = locate(ground, hunk)
        except ToolError as error:
            raise ToolError(f"Hunk {number:,} of {path} (line {hunk.at:,} of the patch) {error}") from None
        for stretch in _stretches(hunk, start):
            if stretches and stretches[-1].end == stretch.start:
                stretches[-1].extend(stretch)
            else:
                stretches.append(stretch)
        ground.pass_to(start + sum(len(line) + 1 for line in hunk.old))
    last = hunks[-1] if hunks else None
    bare = _ends_bare(ground, last)
    return put(text, plain, (_place(ground, stretch, bare=bare) for stretch in stretches), literal=literal)


@define
class _Stretch:
    """Removed and added lines with no line between them that stays; ``end`` is where the next line begins."""

    start: int
    end: int
    removed: list[str]
    added: list[str]

    def extend(self, other: "_Stretch") -> None:
        """Take in a stretch that begins where this one ends."""
        self.end = other.end
        self.removed += other.removed
        self.added += other.added


def _stretches(hunk: Hunk, start: int) -> Iterator[_Stretch]:
    now = _Stretch(start, start, [], [])
    for sign, line in hunk.lines:
        if sign == "+":
            now.added.append(line)
            continue
        after = now.end + len(line) + 1
        if sign == "-":
            now.removed.append(line)
            now.end = after
            continue
        if now.removed or now.added:
            yield now
        now = _Stretch(after, after, [], [])
    if now.removed or now.added:
        yield now


def _ends_bare(ground: Ground, last: Hunk | None) -> bool:
    """Whether the new text is to end without a line end."""
    if last is not None and (last.old_bare or last.new_bare):
        return last.new_bare
    return ground.bare


def _place(ground: Ground, stretch: _Stretch, *, bare: bool) -> tuple[int, Passage]:
    """A stretch as a replacement of text. At the end of the file the line end before it may be part of it."""
    search = "".join(f"{line}\n" for line in stretch.removed)
    replace = "".join(f"{line}\n" for line in stretch.added)
    start = stretch.start
    if stretch.end == ground.end:
        if bare:
            replace = replace.removesuffix("\n")
        if ground.bare:
            search = search.removesuffix("\n")
            if not stretch.removed:
                # Below the last line, which has to get a line end first.
                start, replace = start - 1, "\n" + replace
            elif not stretch.added and bare and start > 0:
                # The line above becomes the last one, and loses its line end.
                start, search = start - 1, "\n" + search
    return start, Passage.of(search, replace)
