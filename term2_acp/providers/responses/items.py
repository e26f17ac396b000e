"""The items of one reply of the Responses wire, gathered from the events of its stream. Pure.

Which item an event is about, in the order of what can be relied on; each rule is for servers that were seen
to need it:

1. Its item id, if an item has it.
2. The id of the call, for events that carry it.
3. Its ``output_index``: the last item of that kind with it. Some servers give an item another id in every
   event, and some give every item index 0; so a call under another call id, and what begins or is done under
   an index whose item is done already, is another item.
4. Nothing at all: the one item of its kind that is open. Several calls are a guess, and break the reply.

At its end the response lists its output. An item of the list is the one that rules 1 and 2 find, else the
next of its kind; what was never heard of is taken from there. A call that a list leaves out is a
contradiction; an empty list is none, for some servers never fill it.
"""

from collections.abc import Sequence
from typing import Any

from term2_acp.providers.base import ToolCallDelta
from term2_acp.providers.responses.item import (
    CALL,
    MIXED_UP,
    REASONING,
    Item,
    differ,
    word,
)
from term2_acp.providers.text import well_formed
from term2_acp.providers.wire import Broken
from term2_acp.providers.wire_values import MAX_ARGUMENTS, MAX_CALLS, arguments_of, parses

# Items in one reply. Real ones have a handful besides their calls.
MAX_ITEMS = 1024


class ItemGatherer:
    """Gathers the items of one reply. A parameter that is ``Any`` may be missing or of any type."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._calls = 0
        self._size = 0  # characters of arguments

    @property
    def thinks(self) -> bool:
        """Whether a reasoning item has begun and is not done."""
        return any(item.kind == REASONING and not item.done for item in self._items)

    def of_piece(self, kind: str, item_id: Any, index: Any) -> Item | Broken:
        """The item that a piece of text, thought or arguments belongs to; it may begin with it."""
        item_id = word(item_id)
        found = self._known(kind, item_id)
        if found is not None:
            return found
        index = _index(index)
        if index is not None:
            return self._at(kind, index) or self._add(kind, item_id, index)
        opened = self._opened(kind)
        if len(opened) > 1 and kind == CALL and not item_id:
            return MIXED_UP
        if opened and not (item_id and opened[-1].item_id):
            return opened[-1]
        return self._add(kind, item_id, None)

    def add_arguments(self, item_id: Any, index: Any, piece: str) -> Broken | None:
        """Take a piece of the arguments of a call."""
        item = self.of_piece(CALL, item_id, index)
        if isinstance(item, Broken):
            return item
        item.pieces.append(piece)
        return self._grow(len(piece))

    def whole_arguments(self, item_id: Any, index: Any, arguments: Any) -> Broken | None:
        """Take arguments that the server calls whole."""
        item, arguments = self.of_piece(CALL, item_id, index), arguments_of(arguments)
        if isinstance(item, Broken) or isinstance(arguments, Broken):
            return item if isinstance(item, Broken) else arguments
        return item.tell_whole(arguments) or self._grow(len(arguments))

    def begin(self, value: dict[str, Any], index: Any) -> Item | Broken | None:
        """Take an item that begins; None if it was known."""
        count = len(self._items)
        item = self._of_value(value, _index(index), begins=True)
        if isinstance(item, Broken):
            return item
        broken = item.tell(value)
        if broken is None and item.kind == CALL:
            begun = arguments_of(value.get("arguments"))
            if isinstance(begun, Broken):
                return begun
            item.begun = item.begun or begun
            broken = self._grow(len(begun))
        return broken or (item if len(self._items) > count else None)

    def end(self, value: dict[str, Any], index: Any) -> Item | Broken:
        """Take an item that is done."""
        item = self._of_value(value, _index(index), begins=False)
        return item if isinstance(item, Broken) else self._settle(item, value)

    def enter(self, value: dict[str, Any]) -> Item | Broken:
        """Take an item as the response lists it at its end, in the order of its output."""
        kind, item_id, call_id = _names(value)
        item: Item | Broken | None = self._known(kind, item_id) or self._called(kind, call_id)
        if item is None:
            left = (item for item in self._items if item.kind == kind and not item.listed)
            item = next((item for item in left if not differ(item.call_id, call_id)), None)
        item = item or self._add(kind, item_id, None)
        if isinstance(item, Broken):
            return item
        item.listed = True
        return self._settle(item, value)

    def in_order(self) -> Sequence[Item]:
        """The items by their index, if all have one; else as they began."""
        if any(item.index is None for item in self._items):
            return self._items
        return sorted(self._items, key=lambda item: item.index or 0)

    def calls(self) -> Sequence[ToolCallDelta] | Broken:
        """The calls of a complete reply, in order."""
        deltas: list[ToolCallDelta] = []
        lists = any(item.listed for item in self._items)
        for item in self.in_order():
            if item.kind != CALL:
                continue
            if not item.name:
                return Broken("sent a tool call without a name")
            if lists and not item.listed:
                return Broken("takes back a tool call at its end")
            # What the server calls whole is as the model wrote it; anything else may be half a call.
            if item.cut or not (item.whole or parses(item.arguments)):
                return Broken("broke off in the middle of a tool call")
            deltas.append(ToolCallDelta(well_formed(item.call_id), well_formed(item.name), item.arguments))
        return deltas

    def _of_value(self, value: dict[str, Any], index: int | None, *, begins: bool) -> Item | Broken:
        kind, item_id, call_id = _names(value)
        found = self._known(kind, item_id) or self._called(kind, call_id)
        if found is not None:
            return found
        if index is not None:
            found = self._at(kind, index)
            another = found is not None and found.done and (begins or differ(found.item_id, item_id))
        else:
            found = next(iter(self._opened(kind)), None)
            another = found is not None and (begins or differ(found.item_id, item_id))
        if found is None or another or differ(found.call_id, call_id):
            return self._add(kind, item_id, index)
        if item_id and not found.item_id:
            found.item_id = item_id
            self._by_id[item_id] = found
        return found

    def _settle(self, item: Item, value: dict[str, Any]) -> Item | Broken:
        before = len(item.whole)
        return item.settle(value) or self._grow(len(item.whole) - before) or item

    def _grow(self, size: int) -> Broken | None:
        self._size += size
        # Each call's arguments may come twice: in pieces, and whole.
        return Broken("sent tool calls that are too large") if self._size > 2 * MAX_ARGUMENTS else None

    def _opened(self, kind: str) -> Sequence[Item]:
        return [item for item in self._items if item.kind == kind and not item.done]

    def _known(self, kind: str, item_id: str) -> Item | None:
        item = self._by_id.get(item_id)
        return item if item is not None and item.kind == kind else None

    def _called(self, kind: str, call_id: str) -> Item | None:
        if kind != CALL or not call_id:
            return None
        return next((item for item in self._items if item.call_id == call_id), None)

    def _at(self, kind: str, index: int) -> Item | None:
        return next(
            (item for item in reversed(self._items) if (item.index, item.kind) == (index, kind)), None
        )

    def _add(self, kind: str, item_id: str, index: int | None) -> Item | Broken:
        self._calls += kind == CALL
        if self._calls > MAX_CALLS:
            return Broken("made too many tool calls in one answer")
        if len(self._items) >= MAX_ITEMS:
            return Broken("sent too many items in one answer")
        item = Item(kind, item_id, index)
        self._items.append(item)
        if item_id:
            self._by_id.setdefault(item_id, item)
        return item


def _names(value: dict[str, Any]) -> tuple[str, str, str]:
    return word(value.get("type")), word(value.get("id")), word(value.get("call_id"))


def _index(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
