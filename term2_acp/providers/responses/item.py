"""One item of a reply of the Responses wire: a message, reasoning, or a call. Pure.

What says an item whole is taken before its pieces: the item when it is done, then ``arguments.done``, then
the pieces, then what the item began with. Whole arguments that differ, by more than how they are written,
are a contradiction, as two names or two call ids are.
"""

from typing import Any

import msgspec
from attrs import field

from term2_acp.domain.classes import define
from term2_acp.providers.responses.opaque import phase_of
from term2_acp.providers.text import TextPieces, well_formed
from term2_acp.providers.wire import Broken
from term2_acp.providers.wire_values import arguments_of

MESSAGE, REASONING, CALL = "message", "reasoning", "function_call"

MIXED_UP = Broken("mixed its tool calls up")


@define(eq=False)
class Item:
    """One item. ``pieces`` are those of its text (as handed on), of its thoughts or of its arguments.

    ``begun`` and ``whole`` are the arguments that a call began with and those that the server calls whole;
    ``kept`` is a reasoning item when it was done. ``listed``: the response names it at its end.
    """

    kind: str
    item_id: str
    index: int | None
    call_id: str = ""
    name: str = ""
    phase: str | None = None
    pieces: list[str] = field(factory=list)
    begun: str = ""
    whole: str = ""
    kept: dict[str, Any] | None = None
    done: bool = False
    cut: bool = False
    listed: bool = False
    _size: int = 0  # characters of text
    _text: TextPieces = field(factory=TextPieces)

    @property
    def arguments(self) -> str:
        """The arguments of a call, by what is known of them."""
        return well_formed(self.whole or "".join(self.pieces) or self.begun or "{}")

    def say(self, text: str) -> str:
        """Add text; return what is certain of it by now, as Unicode."""
        text = self._text.take(text)
        if text:
            self.pieces.append(text)
            self._size += len(text)
        return text

    def fall_silent(self) -> str:
        """No more text comes: what stands for half of a pair of surrogates whose other half never came."""
        return self.say(self._text.end())

    def say_rest(self, whole: str) -> str:
        """Add what of the whole text did not come in pieces, and return it.

        A whole that does not begin with the pieces adds nothing: what was shown stands.
        """
        whole = well_formed(whole)
        # The length first: a whole may be told many times, and joining the pieces for each is quadratic.
        if len(whole) <= self._size or not whole.startswith("".join(self.pieces)):
            return ""
        self._text.end()  # a half that waits is in the whole text, with its other half
        return self.say(whole[self._size :])

    def tell(self, value: dict[str, Any]) -> Broken | None:
        """Take what an event says of the item, apart from its content."""
        name, call_id = word(value.get("name")), word(value.get("call_id"))
        if differ(self.name, name) or differ(self.call_id, call_id):
            return MIXED_UP
        self.name = self.name or name
        self.call_id = self.call_id or call_id
        self.phase = phase_of(value.get("phase")) or self.phase
        return None

    def tell_whole(self, arguments: str) -> Broken | None:
        """Take arguments that the server calls whole. None at all take nothing back."""
        if self.whole and arguments and not _same(self.whole, arguments):
            return Broken("says two things of one tool call")
        self.whole = self.whole or arguments
        return None

    def settle(self, value: dict[str, Any]) -> Broken | None:
        """Take what an item that is done says of itself. Said twice, it has to be the same."""
        broken = self.tell(value)
        if broken is not None:
            return broken
        self.done = True
        if self.kind == REASONING:
            self.kept = self.kept or value
        if self.kind != CALL:
            return None
        self.cut = self.cut or value.get("status") == "incomplete"
        arguments = arguments_of(value.get("arguments"))
        return arguments if isinstance(arguments, Broken) else self.tell_whole(arguments)


def word(value: Any) -> str:
    """A string of an event, "" for anything else."""
    return value if isinstance(value, str) else ""


def differ(one: str, other: str) -> bool:
    """Whether both words are there and are not the same."""
    return bool(one and other and one != other)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
