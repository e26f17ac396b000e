"""Tool calls gathered from their pieces, for wires that send them in pieces. Pure.

Which call a piece belongs to, in the order of what can be relied on; each rule is for servers that were
seen to need it:

1. Its ``index``, if it has one. Every call of some servers has index 0, so a name begins another call under
   an index whose call is not half, if the name or the id is new, or if there is more for a call that is
   whole. An index that comes late is the last call's.
2. Its ``id``, if a call has it; an id that no call has begins one, if a name comes with it.
3. Neither: a name begins a call, unless it is the last call's and that one still lacks arguments (names
   are repeated by some servers in every piece). Otherwise the piece continues the last call.

Where a rule would guess, because another call is open too, the last one is whole or a name does not fit, the
reply is broken: arguments are never merged. A name is taken once. Arguments may come as text, as any JSON
value, whole, or not at all (then they are ``{}``). Mistral writes ``null`` for an id that it does not have.
"""

import re
from collections.abc import Sequence
from typing import Any

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.providers.base import ToolCallDelta
from term2_acp.providers.text import well_formed
from term2_acp.providers.wire import Broken
from term2_acp.providers.wire_values import MAX_ARGUMENTS, MAX_CALLS, arguments_of, parses

_MARKS = re.compile(r'["\\{}\[\]]')


@define
class _Nesting:
    """How deep JSON is inside of its brackets, read in pieces."""

    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False  # a backslash was the last character
    _last: str = ""  # the last character that is no white space

    @property
    def closed(self) -> bool:
        """Whether a brace closed everything, and nothing follows it."""
        return self._depth == 0 and not self._in_string and self._last == "}"

    def read(self, piece: str) -> bool:
        """Read on; return whether there was anything but white space."""
        passed = 0 if self._escaped else -1  # the place of what a backslash takes the meaning of
        for found in _MARKS.finditer(piece):
            mark, at = found[0], found.start()
            if at == passed:
                continue
            if mark == "\\":
                passed = at + 1
            elif mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string:
                self._depth += 1 if mark in "{[" else -1
        self._escaped = passed == len(piece)
        words = piece.rstrip()
        self._last = words[-1:] or self._last
        return bool(words)


@define
class _Call:
    index: int | None
    call_id: str
    name: str
    pieces: list[str]
    extra: Any = None
    _nesting: _Nesting = field(factory=_Nesting)
    _read: int = 0  # pieces that `_nesting` has read
    _whole: bool = False
    _spoilt: bool = False  # it ended and is no object: nothing that follows makes it one

    @property
    def arguments(self) -> str:
        return "".join(self.pieces) or "{}"

    @property
    def whole(self) -> bool:
        """Whether arguments came, and are a whole JSON object by now."""
        before, self._read = self._read, len(self.pieces)
        more = False
        for piece in self.pieces[before:]:
            more = self._nesting.read(piece) or more
        if more and not self._spoilt:
            # Parsing at every piece would be quadratic; an object ends with the brace that closes its first.
            self._whole = self._nesting.closed and parses(self.arguments)
            self._spoilt = self._nesting.closed and not self._whole
        return self._whole

    @property
    def half(self) -> bool:
        """Whether arguments came, and more are missing."""
        return bool(self.pieces) and not self.whole

    def add(self, arguments: str) -> None:
        self.pieces.append(arguments)


class CallGatherer:
    """Gathers the calls of one reply, in the order in which they began."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._size = 0

    def take(self, index: Any, call_id: Any, name: Any, arguments: Any, extra: Any = None) -> Broken | None:
        """Take one piece; any of its parts may be missing or of a strange type.

        ``extra`` is what the server wants back with the call; the first that is not None counts.
        """
        index = index if isinstance(index, int) and not isinstance(index, bool) else None
        call_id = call_id if isinstance(call_id, str) and call_id != "null" else ""
        name = name if isinstance(name, str) else ""
        arguments = arguments_of(arguments)
        if isinstance(arguments, Broken):
            return arguments
        call = self._call_of(index, call_id, name, arguments)
        if isinstance(call, Broken):
            return call
        call.name = call.name or name
        call.call_id = call.call_id or call_id
        if extra is not None and call.extra is None:
            call.extra = extra
        if arguments:
            self._size += len(arguments)
            if self._size > MAX_ARGUMENTS:
                return Broken("sent tool calls that are too large")
            call.add(arguments)
        return None

    @property
    def extras(self) -> Sequence[Any]:
        """What the server wants back with each call, or None, in the order of ``calls``."""
        return [call.extra for call in self._calls]

    def calls(self, *, must_parse: bool) -> Sequence[ToolCallDelta] | Broken:
        """Every call, as it stands at the end of the reply.

        ``must_parse`` breaks the reply if a call's arguments do not: the server did not say that it
        ended with a call, so a call that is not whole was cut.
        """
        deltas: list[ToolCallDelta] = []
        for call in self._calls:
            if not call.name:
                return Broken("sent a tool call without a name")
            if must_parse and not parses(call.arguments):
                return Broken("broke off in the middle of a tool call")
            words = map(well_formed, (call.call_id, call.name, call.arguments))
            deltas.append(ToolCallDelta(*words))
        return deltas

    def _call_of(self, index: int | None, call_id: str, name: str, arguments: str) -> _Call | Broken:
        if index is not None:
            found: _Call | Broken | None = self._by_index(index, call_id, name, arguments)
        elif call_id:
            found = self._by_id(call_id, name, arguments)
        else:
            found = self._by_place(name, arguments)
        if found is not None:
            return found
        if len(self._calls) >= MAX_CALLS:
            return Broken("made too many tool calls in one answer")
        self._calls.append(_Call(index, call_id, name, []))
        return self._calls[-1]

    def _by_index(self, index: int, call_id: str, name: str, arguments: str) -> _Call | Broken | None:
        call = next((call for call in reversed(self._calls) if call.index == index), None)
        if call is not None and not name:
            return call
        if call is not None:
            new_name = call.name not in {"", name}
            if call.half:
                return Broken("mixed its tool calls up") if new_name else call
            new_id = "" not in {call_id, call.call_id} and call_id != call.call_id
            more = bool(arguments.strip()) and call.whole
            return None if new_name or new_id or more else call
        last = self._last
        if last is not None and last.index is None and not name and call_id in {"", last.call_id}:
            last.index = index
            return last
        return None

    def _by_id(self, call_id: str, name: str, arguments: str) -> _Call | Broken | None:
        known = next((call for call in reversed(self._calls) if call.call_id == call_id), None)
        if known is None:
            return None if name else self._by_place(name, arguments)
        # Whole, and yet there is more, with a name: an id that is used twice.
        return None if name and arguments and known.whole else known

    def _by_place(self, name: str, arguments: str) -> _Call | Broken | None:
        last = self._last
        if last is None:
            return None
        if name and (name != last.name or (arguments and last.whole)):
            return None
        others_open = any(call.half for call in self._calls[:-1])
        if arguments.strip() and (others_open or last.whole):
            return Broken("mixed its tool calls up")
        return last

    @property
    def _last(self) -> _Call | None:
        return self._calls[-1] if self._calls else None
