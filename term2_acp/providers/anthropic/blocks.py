"""The blocks of one reply on the Messages wire, each gathered from its pieces. Pure.

A block begins, gets deltas and stops. What comes for one that never began, or that has stopped, breaks the
reply, and so does a delta of another kind than its block: the server lost count, and what it says cannot be
put together. Blocks and deltas of kinds that are not known are let by: the wire grows.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.providers.anthropic.opaque import HiddenThought, Place, Thought
from term2_acp.providers.base import Delta, TextDelta, ThoughtDelta, ToolCallDelta
from term2_acp.providers.text import TextPieces, well_formed
from term2_acp.providers.wire import Broken
from term2_acp.providers.wire_values import MAX_ARGUMENTS, MAX_CALLS, arguments_of, parses

# Blocks in one reply. Real models make a few for each tool call.
MAX_BLOCKS = 8 * MAX_CALLS
# Characters that are gathered of one reply: arguments, thoughts and their signatures.
MAX_GATHERED = MAX_ARGUMENTS

# The kinds of deltas that are known, as they are called and by the member that holds what is new.
_MEMBERS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
_MIXED_UP = Broken("mixed the parts of its answer up")


@define
class _Block:
    """A block of a kind that is not known: everything in it is let by.

    ``takes`` are the members of deltas that belong into a block of its kind, None where nothing is known.
    """

    takes: ClassVar[frozenset[str] | None] = None
    open: bool = True

    def add(self, member: str, words: str) -> Sequence[Delta]:
        """Take what a delta brought in that member."""
        del member, words
        return ()

    def stop(self) -> Sequence[Delta]:
        """The block is whole; return what was held back."""
        self.open = False
        return ()

    @property
    def place(self) -> Place | None:
        """What is kept of it."""
        return None


@define
class _Text(_Block):
    takes = frozenset({"text"})
    size: int = 0  # characters that came out
    _text: TextPieces = field(factory=TextPieces)

    def add(self, member: str, words: str) -> Sequence[Delta]:
        del member
        return self._say(self._text.take(words))

    def stop(self) -> Sequence[Delta]:
        self.open = False
        return self._say(self._text.end())

    def _say(self, text: str) -> Sequence[Delta]:
        self.size += len(text)
        return [TextDelta(text)] if text else ()

    @property
    def place(self) -> Place | None:
        return self.size or None


@define
class _Thinking(_Block):
    takes = frozenset({"thinking", "signature"})
    pieces: list[str] = field(factory=list)
    signature: list[str] = field(factory=list)
    _text: TextPieces = field(factory=TextPieces)

    def add(self, member: str, words: str) -> Sequence[Delta]:
        if member == "signature":
            self.signature.append(words)
            return ()
        return self._say(self._text.take(words))

    def stop(self) -> Sequence[Delta]:
        self.open = False
        return self._say(self._text.end())

    def _say(self, text: str) -> Sequence[Delta]:
        self.pieces.append(text)
        return [ThoughtDelta(text)] if text else ()

    @property
    def place(self) -> Place | None:
        # One that was cut has no signature, and is nothing without.
        return None if self.open else Thought("".join(self.pieces), well_formed("".join(self.signature)))


@define
class _Hidden(_Block):
    takes = frozenset()
    data: str = ""

    @property
    def place(self) -> Place | None:
        return HiddenThought(well_formed(self.data))


@define
class _Call(_Block):
    takes = frozenset({"partial_json"})
    call_id: str = ""
    name: str = ""
    whole: str = ""  # arguments that came at once
    pieces: list[str] = field(factory=list)

    def add(self, member: str, words: str) -> Sequence[Delta]:
        del member
        self.pieces.append(words)
        return ()

    @property
    def place(self) -> Place | None:
        return "call"

    @property
    def arguments(self) -> str:
        return "".join(self.pieces) or self.whole or "{}"


class Blocks:
    """Gathers the blocks of one reply, in their order."""

    def __init__(self) -> None:
        self._by_index: dict[Any, _Block] = {}
        self._gathered = 0
        self._calls = 0

    def start(self, index: Any, content: Any) -> Sequence[Delta] | Broken:
        """A block begins. Some servers send all of it at once."""
        if not isinstance(content, dict) or not isinstance(index, int):
            return _MIXED_UP
        if index in self._by_index:
            return _MIXED_UP
        if len(self._by_index) >= MAX_BLOCKS:
            return Broken("made its answer of too many parts")
        block = _block(content)
        if isinstance(block, Broken):
            return block
        self._by_index[index] = block
        if isinstance(block, _Call):
            self._calls += 1
            if self._calls > MAX_CALLS:
                return Broken("made too many tool calls in one answer")
            return self._grow(len(block.whole)) or ()
        if isinstance(block, _Hidden):
            return self._grow(len(block.data)) or ()
        begun: list[Delta] = []
        for member in sorted(block.takes or ()):
            added = self._add(block, member, _string(content, member))
            if isinstance(added, Broken):
                return added
            begun += added
        return begun

    def take(self, index: Any, delta: Any) -> Sequence[Delta] | Broken | None:
        """Take one delta for the block with that index. None: there was nothing in it that is known."""
        block = self._by_index.get(index) if isinstance(index, int) else None
        if block is None or not block.open or not isinstance(delta, dict):
            return _MIXED_UP
        member = _MEMBERS.get(_string(delta, "type"))
        if member is None or block.takes is None:
            return None
        if member not in block.takes:
            return _MIXED_UP
        words = _string(delta, member)
        return self._add(block, member, words) if words else None

    def stop(self, index: Any) -> Sequence[Delta] | Broken:
        """The block with that index is whole."""
        block = self._by_index.get(index) if isinstance(index, int) else None
        if block is None or not block.open:
            return _MIXED_UP
        return block.stop()

    def end(self) -> Sequence[Delta]:
        """The reply is over: what text that never stopped holds back."""
        texts = (block for block in self._by_index.values() if isinstance(block, _Text) and block.open)
        return [delta for text in texts for delta in text.stop()]

    def calls(self, *, must_parse: bool) -> Sequence[ToolCallDelta] | Broken:
        """Every call. ``must_parse`` breaks the reply if a call's arguments do not."""
        deltas: list[ToolCallDelta] = []
        for call in self._by_index.values():
            if not isinstance(call, _Call):
                continue
            if not call.name:
                return Broken("sent a tool call without a name")
            if call.open or (must_parse and not parses(call.arguments)):
                return Broken("broke off in the middle of a tool call")
            deltas.append(ToolCallDelta(*map(well_formed, (call.call_id, call.name, call.arguments))))
        return deltas

    def places(self, *, with_calls: bool) -> Sequence[Place]:
        """What is kept of the blocks, in their order; the calls only if they were made."""
        places = (block.place for block in self._by_index.values())
        return [place for place in places if place is not None and (with_calls or place != "call")]

    def _add(self, block: _Block, member: str, words: str) -> Sequence[Delta] | Broken:
        if member != "text":  # the only one that is not kept
            too_large = self._grow(len(words))
            if too_large is not None:
                return too_large
        return block.add(member, words)

    def _grow(self, size: int) -> Broken | None:
        self._gathered += size
        return Broken("sent an answer that is too large") if self._gathered > MAX_GATHERED else None


def _block(content: Mapping[str, Any]) -> _Block | Broken:
    match content.get("type"):
        case "text":
            return _Text()
        case "thinking":
            return _Thinking()
        case "redacted_thinking":
            return _Hidden(data=_string(content, "data"))
        case "tool_use":
            whole = arguments_of(content.get("input"))
            if isinstance(whole, Broken):
                return whole
            return _Call(call_id=_string(content, "id"), name=_string(content, "name"), whole=whole)
    return _Block()


def _string(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""
