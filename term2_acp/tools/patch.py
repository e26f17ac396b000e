"""Git patches, a file each, with absolute paths and no ``a/`` and ``b/`` before them (ACP v2: git_patch).

Lines end at ``\\n`` here, as Git has it; a ``\\r`` before it is a character of the line.

The work is bounded, whatever the texts: lines that are unique in both are found first and the longest
increasing run of them divides the file (patience diff); only small stretches without any are compared by
``difflib``, whose worst case is cubic, and that within a budget for the whole patch. Where the budget is
used up, or nothing divides, the stretch is replaced as a whole, which is a longer patch and as true.
"""

import bisect
import difflib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from term2_acp.domain.classes import frozen

# Unchanged lines shown around a change.
CONTEXT = 3

# The most lines of one side, times those of the other, that difflib is given at once; and in all.
_SMALL = 2_000
_BUDGET = 200_000

# How often a stretch is divided again. Ordinary texts need two or three.
_MAX_DEPTH = 16


@frozen
class Change:
    """Lines ``old[a:b]`` became ``new[c:d]``."""

    a: int
    b: int
    c: int
    d: int


def git_patch(path: str, old: str | None, new: str | None, *, moved_from: str | None = None) -> str:
    """The patch that makes ``new`` of ``old``, where None stands for no file.

    With ``moved_from``, that is where the old text was.
    """
    name, old_name = _quoted(path), _quoted(moved_from or path)
    head = [f"diff --git {old_name} {name}\n"]
    if old is None:
        head.append("new file mode 100644\n")
    elif new is None:
        head.append("deleted file mode 100644\n")
    elif moved_from is not None:
        alike = "similarity index 100%\n" if old == new else ""
        head.append(f"{alike}rename from {old_name}\nrename to {name}\n")
    hunks = list(_hunks(_lines(old or ""), _lines(new or "")))
    if hunks:
        head.append(f"--- {'/dev/null' if old is None else _with_tab(old_name)}\n")
        head.append(f"+++ {'/dev/null' if new is None else _with_tab(name)}\n")
    return "".join([*head, *hunks])


def _with_tab(name: str) -> str:
    """Git ends a name that has a space with a tab here, so that nothing takes the rest for a date."""
    return name + "\t" if " " in name else name


def changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """What differs between two lists of lines, in order; ranges neither touch nor overlap."""
    found: list[Change] = []
    budget = _BUDGET
    todo = [(0, len(old), 0, len(new), 0)]
    while todo:
        a, b, c, d, depth = todo.pop()
        while a < b and c < d and old[a] == new[c]:
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        if a == b or c == d:
            if a < b or c < d:
                found.append(Change(a, b, c, d))
            continue
        anchors = _anchors(old, new, a, b, c, d) if depth < _MAX_DEPTH else []
        size = (b - a) * (d - c)
        if anchors:
            edges = [(a - 1, c - 1), *anchors, (b, d)]
            # Popped from the end, so the first stretch goes in last.
            todo += [
                (i + 1, j, k + 1, m, depth + 1)
                for (i, k), (j, m) in reversed(list(itertools.pairwise(edges)))
            ]
        elif size <= min(_SMALL, budget):
            budget -= size
            matcher = difflib.SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
            found += [
                Change(a + i, a + j, c + k, c + m)
                for tag, i, j, k, m in matcher.get_opcodes()
                if tag != "equal"
            ]
        else:
            found.append(Change(a, b, c, d))
    return found


def _anchors(old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
    """Pairs of places of lines that are unique on both sides, rising on both: as many as there can be."""
    count_old, count_new = Counter(old[a:b]), Counter(new[c:d])
    where = {new[at]: at for at in range(c, d) if count_new[new[at]] == 1}
    pairs = [(at, where[old[at]]) for at in range(a, b) if count_old[old[at]] == 1 and old[at] in where]
    # Patience sorting: `tops` are the ends of the best runs of each length, `before` links the runs.
    tops: list[int] = []
    ends: list[int] = []
    before: list[int | None] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect.bisect_left(tops, place)
        before.append(ends[length - 1] if length else None)
        tops[length : length + 1] = [place]
        ends[length : length + 1] = [index]
    run: list[tuple[int, int]] = []
    last = ends[-1] if ends else None
    while last is not None:
        run.append(pairs[last])
        last = before[last]
    return run[::-1]


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    group: list[Change] = []
    for change in changes(old, new):
        if group and change.a - group[-1].b > 2 * CONTEXT:
            yield from _hunk(old, new, group)
            group = []
        group.append(change)
    if group:
        yield from _hunk(old, new, group)


def _hunk(old: Sequence[str], new: Sequence[str], group: Sequence[Change]) -> Iterator[str]:
    first, last = group[0], group[-1]
    lead = min(CONTEXT, first.a)
    a, c = first.a - lead, first.c - lead
    b = min(last.b + CONTEXT, len(old))
    d = last.d + (b - last.b)
    yield f"@@ -{_range(a, b)} +{_range(c, d)} @@\n"
    at = a
    for change in group:
        yield from (_line(" ", line) for line in old[at : change.a])
        yield from (_line("-", line) for line in old[change.a : change.b])
        yield from (_line("+", line) for line in new[change.c : change.d])
        at = change.b
    yield from (_line(" ", line) for line in old[at:b])


def _range(begin: int, end: int) -> str:
    """Lines as a hunk counts them: from 1, and an empty range by the line before it."""
    length = end - begin
    start = begin + 1 if length else begin
    return f"{start}" if length == 1 else f"{start},{length}"


def _line(sign: str, line: str) -> str:
    return sign + line if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    *whole, rest = text.split("\n")
    lines = [line + "\n" for line in whole]
    return [*lines, rest] if rest else lines


_ESCAPES = {
    ord("\\"): "\\\\",
    ord('"'): '\\"',
    7: "\\a",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    11: "\\v",
    12: "\\f",
    13: "\\r",
}
_ESCAPES |= {code: f"\\{code:03o}" for code in (*range(32), 127) if code not in _ESCAPES}


def _quoted(path: str) -> str:
    """A path as Git writes it: in quotes and escaped when it holds a control, a quote or a backslash."""
    escaped = path.translate(_ESCAPES)
    return path if escaped == path else f'"{escaped}"'
