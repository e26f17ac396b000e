"""What a line that cannot be decoded still says about itself: which call it is, or which it answers.

A line that is too long, too deep or otherwise refused is answered with its own id where it has one, so
that the caller does not wait for ever; and a bad line that answers one of our calls has to settle that
call. Neither can be decoded, so this scanner reads the top level of the object and nothing else.

Theory of operation: the scanner is fed with pieces of the line and keeps only the members of the
outermost object, each clipped, with every nested value replaced by ``[]``. It judges nothing; a line
that is no JSON may well have an outline. Memory is bounded by ``MEMBER_BYTES`` and time by ``MAX_STEPS``,
whatever is fed; a line that needs more has no outline.
"""

import re
from typing import Any

import msgspec

# An id of 4,300 digits, the longest that the decoder takes, fits with room; longer members are clipped.
MEMBER_BYTES = 8_192

# Strings, escaped quotes and structural characters looked at one by one in one line. No message of ACP
# has a tenth of them; a hostile line of nothing else costs a fifth of a second.
MAX_STEPS = 200_000

# How much of a line in one piece is looked at at a time, so that nothing long is ever copied.
_PIECE_BYTES = 65_536

# How far to look ahead for the end of what is nested: far enough to skip a deep line quickly, and not so
# far that looking in vain costs more than a step.
_GLANCE_BYTES = 256

_STRUCTURE = re.compile(rb'["{}\[\]:,]')
_MEMBER = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:\s*(.*)', re.DOTALL)
_decode = msgspec.json.Decoder().decode

_UNREADABLE = object()


class Outline(msgspec.Struct):
    """The top level of a line. ``ids`` holds the value of every ``id`` member, readable or not.

    ``version`` says that every ``jsonrpc`` member is "2.0" and that there is one; ``method`` that there
    is a ``method`` and all of them are strings; ``answers`` that there is a ``result`` or an ``error``.
    """

    version: bool = False
    method: bool = False
    answers: bool = False
    ids: list[Any] = []

    @property
    def id(self) -> int | str | None:
        """The id, when the line has exactly one and it is an integer or a string."""
        if len(self.ids) == 1 and type(self.ids[0]) in (int, str):
            value: int | str = self.ids[0]
            return value
        return None


def outline_of(line: bytes) -> Outline:
    """The outline of a whole line."""
    scanner = OutlineScanner()
    for start in range(0, len(line), _PIECE_BYTES):
        scanner.feed(line[start : start + _PIECE_BYTES])
    return scanner.close()


class OutlineScanner:
    """Reads the outline of one line out of its pieces, in bounded memory. Never raises."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False  # the last piece ended in a backslash that escapes what comes
        self._member = bytearray()
        self._steps = 0
        self._lost = False  # no object, or too much of it: there is no outline
        self._complete = False
        self._versions: list[Any] = []
        self._methods: list[bool] = []
        self._ids: list[Any] = []
        self._answers = False

    def feed(self, data: bytes) -> None:
        """Take the next piece of the line, which may end anywhere."""
        position = 0
        while position < len(data) and not self._lost:
            self._steps += 1
            self._lost = self._steps > MAX_STEPS
            position = self._string(data, position) if self._in_string else self._structure(data, position)

    def close(self) -> Outline:
        """The line is over. Empty when it is not one whole object."""
        if self._lost or not self._complete:
            return Outline()
        return Outline(
            version=bool(self._versions) and all(version == "2.0" for version in self._versions),
            method=bool(self._methods) and all(self._methods),
            answers=self._answers,
            ids=self._ids,
        )

    def _string(self, data: bytes, start: int) -> int:
        """Go on to the end of the string or piece. A quote after an odd run of backslashes is text."""
        if start == 0 and not self._escaped and _is_inside_string(data):
            self._keep(data, 0, len(data))
            return len(data)
        position = start
        if self._escaped:
            self._escaped = False
            position += 1
        while (quote := data.find(b'"', position)) >= 0:
            if not _ends_in_escape(data[position:quote]):
                self._in_string = False
                self._keep(data, start, quote + 1)
                return quote + 1
            self._steps += 1
            position = quote + 1
        self._escaped = _ends_in_escape(data[position:])
        self._keep(data, start, len(data))
        return len(data)

    def _structure(self, data: bytes, start: int) -> int:
        """Go on to the next structural character, or to the end of the piece."""
        if self._depth > 1:
            text, quote, _ = data[start : start + _GLANCE_BYTES].partition(b'"')
            closings = text.count(b"]") + text.count(b"}")
            if closings < self._depth - 1:  # the top level is not reached, so nothing of this matters
                self._depth += text.count(b"[") + text.count(b"{") - closings
                self._in_string = bool(quote)
                return start + len(text) + len(quote)
        found = _STRUCTURE.search(data, start)
        end = found.start() if found else len(data)
        if self._depth == 0 and data[start:end].strip():
            self._lost = True
        self._keep(data, start, end)
        if found is None:
            return end
        match found.group():
            case b'"':
                self._in_string = True
                self._lost = self._lost or self._depth == 0
                self._keep(data, end, end + 1)
            case b"{" | b"[" as opening:
                self._open(opening)
            case b"}" | b"]":
                self._close()
            case b",":
                if self._depth == 1:
                    self._end_member()
            case _:
                self._keep(data, end, end + 1)
        return end + 1

    def _open(self, opening: bytes) -> None:
        if self._depth == 0 and (self._complete or opening == b"["):
            self._lost = True
        if self._depth == 1:
            self._keep(b"[", 0, 1)
        self._depth += 1

    def _close(self) -> None:
        self._depth -= 1
        if self._depth == 1:
            self._keep(b"]", 0, 1)
        elif self._depth == 0:
            self._end_member()
            self._complete = True
        elif self._depth < 0:
            self._lost = True

    def _keep(self, data: bytes, start: int, end: int) -> None:
        if self._depth == 1:
            room = MEMBER_BYTES - len(self._member)
            self._member += data[start : min(end, start + room)]

    def _end_member(self) -> None:
        """Note the member that was kept. One that filled its room was clipped, so its value is unreadable."""
        member = _MEMBER.match(self._member)
        clipped = len(self._member) >= MEMBER_BYTES
        self._member = bytearray()
        if member is None:
            return
        match _decoded(b'"' + member[1] + b'"'):
            case "jsonrpc":
                self._versions.append(_UNREADABLE if clipped else _decoded(member[2]))
            case "method":
                self._methods.append(member[2].startswith(b'"'))
            case "id":
                self._ids.append(_UNREADABLE if clipped else _decoded(member[2]))
            case "result" | "error":
                self._answers = True


def _decoded(text: bytes) -> Any:
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _UNREADABLE


def _is_inside_string(piece: bytes) -> bool:
    """Whether a piece that begins inside a string also ends there, with nothing carried over."""
    plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b'"' not in plain and not plain.endswith(b"\\")


def _ends_in_escape(text: bytes) -> bool:
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1
