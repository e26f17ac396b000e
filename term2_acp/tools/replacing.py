"""Literal replacement that changes nothing but what differs.

Theory of operation. A model sees line ends as ``\\n``. Where its search text has some and no ``\\r``, each
matches whatever ends lines in the file: the text is searched in a copy with plain line ends, and the
places are mapped back. Of a match, only the part in which search and replacement differ is replaced, so
that unchanged lines keep the ends they have. Line ends in the new part follow those of the lines they
replace, one by one where their number is the same, else those of the surroundings. Text that holds a
``\\r`` of its own is taken as it is, on either side.

Nothing here is a pattern: no character of a search or replacement text means anything but itself. All
searching is done by ``str.find``, which takes linear time; there is no expression that could backtrack.
"""

from collections.abc import Iterable, Iterator, Sequence

from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.tools.base import ToolError
from term2_acp.tools.targets import counted
from term2_acp.workspace import MAX_FILE_BYTES, LineEnd, line_end_of

# Places that one replacement with match_all may change. Whoever wants more writes a program.
MAX_MATCHES = 100_000

# Line numbers that a message names.
_NAMED_LINES = 10


@frozen
class Replacement:
    """Replace ``search`` by ``replace``: the one place where it is, or with ``match_all`` all of them."""

    search: str
    replace: str
    match_all: bool = False


def apply(text: str, replacements: Sequence[Replacement]) -> tuple[str, int]:
    """Apply all replacements in order, each to what the ones before left; the text and how many places.

    Raises:
        ToolError: one of them does not match, matches too often, or changes nothing. None is applied.
    """
    places = 0
    for number, replacement in enumerate(replacements, 1):
        which = "" if len(replacements) == 1 else f"Replacement {number}: "
        try:
            text, count = _apply_one(text, replacement)
        except ToolError as error:
            raise ToolError(f"{which}{error} Nothing was changed.") from None
        places += count
    return text, places


def _apply_one(text: str, replacement: Replacement) -> tuple[str, int]:
    search, replace = replacement.search, replacement.replace
    if not search:
        raise ToolError("search_content is empty. To make a new file, use create_file.")
    if search == replace:
        raise ToolError("replace_content is the same as search_content.")
    plain = Plain.of(text, search)
    starts = _starts(plain.text, search, match_all=replacement.match_all)
    if not starts:
        raise ToolError(_missing(text, plain.text, search))
    # Before any text is built: a short search text and a long replacement multiply.
    if len(text) + len(starts) * (len(replace) - len(search)) > MAX_FILE_BYTES:
        raise ToolError(f"The file would grow beyond {MAX_FILE_BYTES:,} bytes.")
    passage = Passage.of(search, replace)
    literal = "\r" in search or "\r" in replace
    return put(text, plain, ((start, passage) for start in starts), literal=literal), len(starts)


@frozen
class Passage:
    """A text and what takes its place. Both begin with the same ``head`` and end with the same ``tail``.

    These are numbers of characters.
    """

    search: str
    replace: str
    head: int
    tail: int

    @classmethod
    def of(cls, search: str, replace: str) -> "Passage":
        """A passage with what both texts have in common worked out."""
        return cls(search, replace, *_in_common(search, replace))


def put(text: str, plain: "Plain", places: Iterable[tuple[int, Passage]], *, literal: bool) -> str:
    """The text with each passage's new part in its place.

    A place is where the passage begins in the plain text; places are in order and do not overlap. With
    ``literal``, line ends of the new parts are taken as they are.
    """
    literal = literal or "\r" not in text
    parts: list[str] = []
    done = 0
    for start, passage in places:
        search, replace, head, tail = passage.search, passage.replace, passage.head, passage.tail
        begin = plain.original(start)
        first = plain.original(start + head)
        last = plain.original(start + len(search) - tail)
        end = plain.original(start + len(search))
        core = replace[head : len(replace) - tail]
        new = core if literal else _with_line_ends(core, text, begin, end, search, replace, head)
        parts += (text[done:first], new)
        done = last
    parts.append(text[done:])
    return "".join(parts)


def _starts(text: str, search: str, *, match_all: bool) -> list[int]:
    """Where ``search`` is: nowhere, in one place, or with ``match_all`` in many that do not overlap."""
    first = text.find(search)
    if first < 0:
        return []
    if not match_all:
        # One character on, not one match: places that overlap are as ambiguous as others.
        if text.find(search, first + 1) >= 0:
            raise ToolError(_ambiguous(text, search))
        return [first]
    if text.count(search) > MAX_MATCHES:
        raise ToolError(f"search_content matches more than {MAX_MATCHES:,} times.")
    starts = []
    while first >= 0:
        starts.append(first)
        first = text.find(search, first + len(search))
    return starts


def _in_common(search: str, replace: str) -> tuple[int, int]:
    """How many characters the two begin with in common, and how many more they end with."""
    shorter = min(len(search), len(replace))
    head = _common(search, replace, shorter)
    return head, _common(search[::-1], replace[::-1], shorter - head)


def _common(one: str, other: str, most: int) -> int:
    """The length of the longest common beginning, at most ``most``, by halving."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@define
class Plain:
    """A text with plain line ends, and the way back to the original. Serves one pass over the places."""

    text: str
    _source: str | None = None  # the original where the two differ in length
    _at: int = field(default=0, init=False)
    _passed: int = field(default=0, init=False)

    @classmethod
    def of(cls, text: str, search: str) -> "Plain":
        """The text in which ``search`` is to be found: as it is, or with each line end a ``\\n``."""
        if "\r" not in text or "\r" in search or "\n" not in search:
            return cls(text)
        if line_end_of(text) is LineEnd.CR:
            return cls(text.replace("\r", "\n"))
        return cls(text.replace("\r\n", "\n"), text)

    def original(self, position: int) -> int:
        """The place in the original of a place in the plain text. Places must not go backwards."""
        if self._source is None:
            return position
        while True:
            found = self._source.find("\r\n", self._at)
            if found < 0:
                self._at = len(self._source)
                return position + self._passed
            if found - self._passed >= position:
                return position + self._passed
            self._at = found + 2
            self._passed += 1


def _with_line_ends(core: str, text: str, begin: int, end: int, search: str, replace: str, head: int) -> str:
    """The new part of one match with the line ends that its place asks for."""
    if "\n" not in core:
        return core
    inside = list(_line_ends(text, begin, end)) if "\n" in search else []
    if len(inside) == replace.count("\n"):
        skip = replace.count("\n", 0, head)
        ends: Iterator[str] = iter(inside[skip:])
    else:
        around = inside[0] if inside else _line_end_near(text, begin, end)
        return core.replace("\n", around)
    first, *rest = core.split("\n")
    return first + "".join(next(ends) + line for line in rest)


def _line_ends(text: str, begin: int, end: int) -> Iterator[str]:
    if line_end_of(text) is LineEnd.CR:
        yield from ["\r"] * text.count("\r", begin, end)
        return
    at = text.find("\n", begin, end)
    while at >= 0:
        yield _end_at(text, at)
        at = text.find("\n", at + 1, end)


def _line_end_near(text: str, begin: int, end: int) -> str:
    """What ends the line that a match is in; for the last line, the one before."""
    at = text.find("\n", end)
    if at < 0:
        at = text.rfind("\n", 0, begin)
    return line_end_of(text).value if at < 0 else _end_at(text, at)


def _end_at(text: str, at: int) -> str:
    return "\r\n" if text[at - 1 : at] == "\r" else "\n"


# -- what was found instead ------------------------------------------------------------------------


def _ambiguous(text: str, search: str) -> str:
    lines: list[int] = []
    count = 0
    at = text.find(search)
    while at >= 0 and count < MAX_MATCHES:
        count += 1
        if len(lines) < _NAMED_LINES:
            lines.append(_line_of(text, at))
        at = text.find(search, at + 1)
    more = " and others" if count > len(lines) else ""
    return (
        f"search_content matches {counted(count, 'time')}, at line {_listed(lines)}{more}. "
        "Add lines around it until it matches once, or set match_all."
    )


def _missing(text: str, plain: str, search: str) -> str:
    line = next((line.strip() for line in search.split("\n") if line.strip()), "")
    message = "search_content is not in the file."
    if not line:
        return message
    lines: list[int] = []
    at = plain.find(line)
    while at >= 0 and len(lines) < _NAMED_LINES:
        lines.append(_line_of(plain, at))
        at = plain.find("\n", at)
        at = plain.find(line, at) if at >= 0 else -1
    if lines:
        where = _listed(lines)
        return (
            f"{message} Its first line is found at line {where}, but its indentation or what follows differs."
        )
    if line.lower() in text.lower():
        return f"{message} Its first line is there in other letter case."
    return f"{message} Not even its first line is found; read the file again."


def _line_of(text: str, at: int) -> int:
    return text.count("\r" if line_end_of(text) is LineEnd.CR else "\n", 0, at) + 1


def _listed(lines: Sequence[int]) -> str:
    return ", ".join(f"{line:,}" for line in lines)
