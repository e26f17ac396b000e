r"""File changes as ACP v1 shows them: two texts a file, before and after.

Rules:

- Texts that came with the change are shown as they are. Where there are none (a replay, a file too long to
  carry), both sides are read from the hunks of the git patch. What the hunks leave out did not change, so the
  same line stands for it on both sides, and says how many lines it stands for. How many lines follow the
  last hunk no patch says, and so nothing is said of them.
- A new file has no old text; one that was deleted has an empty new one. A file that was moved stands at its
  new path, with a sentence that says where it was.
- A change with neither texts nor hunks (a binary file) is said in words: an empty diff would say that the
  file had been emptied.

The patches read here are the ones that term2 wrote: a file each, absolute names without ``a/`` and ``b/``,
quoted as Git quotes. Lines end at ``\n`` and nowhere else; a ``\r`` is a character of its line. A file whose
hunks are not what their heads say counts as one without hunks.
"""

import itertools
import re
from collections.abc import Sequence
from types import MappingProxyType

from attrs import field

from term2_acp.acp.shown import Wire
from term2_acp.domain.classes import define, frozen
from term2_acp.domain.content import Diff, Operation

_BEGIN = "diff --git "
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def diff_to_wire(diff: Diff, *, whole: bool = True) -> list[Wire]:
    """The content that shows these changes: diffs first, then what only words can say.

    Without ``whole`` the texts that came with the changes are passed over where the patch has hunks, which
    are shorter.
    """
    texts = {one.path: Sides(one.old, one.new or "") for one in diff.texts}
    needed = not whole or any(change.path not in texts for change in diff.changes)
    patches = read_patch(diff.patch) if needed and diff.patch is not None else {}
    diffs: list[Wire] = []
    words: list[str] = []
    for change in diff.changes:
        both = (texts.get(change.path), patches.get(change.path))
        sides = both[0] or both[1] if whole else both[1] or both[0]
        moved = change.operation is Operation.MOVE and change.old_path is not None
        if moved:
            words.append(f"{change.old_path} was moved to {change.path}.")
        if sides is not None:
            diffs.append(_diff(change.path, sides))
        elif not moved:
            words.append(f"{_DONE[change.operation]} {change.path}. There is no text to compare.")
    return [*diffs, *({"type": "content", "content": {"type": "text", "text": one}} for one in words)]


_DONE = MappingProxyType(
    {
        Operation.ADD: "Added",
        Operation.DELETE: "Deleted",
        Operation.MODIFY: "Changed",
        Operation.MOVE: "Moved",
    }
)


@frozen
class Sides:
    """One file before and after. There is no ``old`` of a file that is new; one that is gone is empty."""

    old: str | None = field(repr=False)
    new: str = field(repr=False)


def _diff(path: str, sides: Sides) -> Wire:
    wire: Wire = {"type": "diff", "path": path}
    if sides.old is not None:
        wire["oldText"] = sides.old
    wire["newText"] = sides.new
    return wire


# -- reading a patch -----------------------------------------------------------------------------------


@define(eq=False)
class _Hunk:
    """Lines of both sides, with the line ends that they have. ``start`` counts the old side's from 1."""

    start: int
    old: list[str] = field(factory=list)
    new: list[str] = field(factory=list)
    length: int = 0  # of the old side


def read_patch(patch: str) -> dict[str, Sides]:
    """The sides of each file of a patch, as far as its hunks have them. Never raises.

    A file with neither hunks nor a word about its beginning or end (one that was only moved) is left out.
    """
    lines = patch.split("\n")
    # Lines of a hunk have a sign before them, so none of them looks like the beginning of a file.
    begins = [at for at, line in enumerate(lines) if line.startswith(_BEGIN)]
    found: dict[str, Sides] = {}
    for begin, end in itertools.pairwise([*begins, len(lines)]):
        section = _section(lines[begin:end])
        if section is not None:
            path, sides = section
            found[path] = sides
    return found


def _section(lines: Sequence[str]) -> tuple[str, Sides] | None:
    at = next((at for at, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    head = lines[:at]
    path = _path(head)
    hunks = _hunks(lines[at:])
    created = any(line.startswith("new file mode ") for line in head)
    deleted = any(line.startswith("deleted file mode ") for line in head)
    if path is None or hunks is None or not (hunks or created or deleted):
        return None
    old, new = _joined(hunks)
    return path, Sides(None if created else old, new)


def _path(head: Sequence[str]) -> str | None:
    """Where the file is after the change, or was, if it is no more."""
    for mark in ("rename to ", "+++ ", "--- "):
        for line in head:
            name = line.removeprefix(mark).removesuffix("\t")
            if line.startswith(mark) and name != "/dev/null":
                return _unquoted(name)
    # An empty file that came or went has its name twice in the first line and nowhere else.
    names = head[0].removeprefix(_BEGIN)
    half = len(names) // 2
    return _unquoted(names[:half]) if names[:half] == names[half + 1 :] else None


def _hunks(lines: Sequence[str]) -> list[_Hunk] | None:
    """The hunks of one file; None when they are not what their heads say."""
    hunks: list[_Hunk] = []
    at = 0
    while at < len(lines) and lines[at]:
        head = _HUNK.match(lines[at])
        if head is None:
            return None
        start, old_length, _, new_length = (1 if one is None else int(one) for one in head.groups())
        # An empty range is counted by the line before it.
        hunk = _Hunk(start if old_length else start + 1, length=old_length)
        at = _fill(hunk, lines, at + 1, new_length)
        if (len(hunk.old), len(hunk.new)) != (old_length, new_length):
            return None
        hunks.append(hunk)
    return hunks


def _fill(hunk: _Hunk, lines: Sequence[str], at: int, new_length: int) -> int:
    """Read the lines of a hunk, and return where it ends."""
    touched: tuple[list[str], ...] = ()
    while at < len(lines) and lines[at]:
        sign, line = lines[at][0], lines[at][1:]
        if sign == "\\":  # the line before it has no line end
            for side in touched:
                side[-1] = side[-1].removesuffix("\n")
        elif sign not in " -+" or (len(hunk.old) >= hunk.length and len(hunk.new) >= new_length):
            break
        else:
            touched = tuple(side for side, name in ((hunk.old, "-"), (hunk.new, "+")) if sign in (" ", name))
            for side in touched:
                side.append(line + "\n")
        at += 1
    return at


def _joined(hunks: Sequence[_Hunk]) -> tuple[str, str]:
    """Both sides of one file's hunks, with a line for what is left out between them."""
    old: list[str] = []
    new: list[str] = []
    line = 1
    for hunk in hunks:
        left_out = hunk.start - line
        if left_out > 0:
            note = f"… {left_out:,} unchanged line{'s' if left_out > 1 else ''} …\n"
            old.append(note)
            new.append(note)
        old += hunk.old
        new += hunk.new
        line = hunk.start + hunk.length
    return "".join(old), "".join(new)


# -- names ---------------------------------------------------------------------------------------------

_ESCAPED = re.compile(r"\\([abfnrtv\"\\]|[0-7]{3})")
_MEANS = MappingProxyType(
    {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", '"': '"', "\\": "\\"}
)


def _unquoted(name: str) -> str:
    """The path that a name in a patch means."""
    if len(name) < 2 or not (name.startswith('"') and name.endswith('"')):
        return name
    return _ESCAPED.sub(lambda found: _MEANS.get(found[1]) or chr(int(found[1], 8)), name[1:-1])
