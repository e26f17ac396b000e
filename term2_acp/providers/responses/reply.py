"""One reply gathered from the events of a Responses stream. Pure.

Theory of operation. Events go in one by one, told apart by the ``type`` in their data. Text and thoughts
come out at once; the items of the reply are gathered (``items``) and its calls come out, whole,
with the terminal event. ``response.completed``, ``incomplete`` and ``failed`` are terminal: nothing follows
them, and a stream that ends without one is broken, whatever else was in it.

Rules:

- ``response.created``, ``in_progress`` and ``queued`` carry nothing, and events of kinds that are not known
  here are ignored. So an error right behind them, which is how this server reports a rate limit, is an error
  before the first event. An item that begins is a sign of life.
- A server that thinks unseen sends nothing for minutes but ``keepalive`` events. While a reasoning item is
  open they count as signs of life, ``MAX_KEEPALIVES`` of them in one reply and no more.
- ``incomplete`` for want of tokens drops every call of the reply, for the last one is cut; by a filter of
  content it is a refusal, as a part of type ``refusal`` is. Other reasons break the reply. Where the event
  and the status inside it differ, the worse of them is believed.
- Text that only a whole item brings is given once. Text that was given is not taken back.
- Parts of a summary, and thoughts of several items in a row, are set apart by a blank line.
- Numbers of tokens that cannot be (``wire_values.tokens``) are dropped.

Source: OpenAI API reference, "Streaming events" of "Responses", November 2026.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from term2_acp.providers.base import Delta, Finish, Finished, TextDelta, ThoughtDelta, UsageDelta
from term2_acp.providers.responses.item import CALL, MESSAGE, REASONING, Item, word
from term2_acp.providers.responses.items import ItemGatherer
from term2_acp.providers.responses.opaque import Place, reasoning_item, write_places
from term2_acp.providers.text import well_formed
from term2_acp.providers.wire import Broken, ServerError
from term2_acp.providers.wire_values import NOT_STRICT, decode_loosely, tokens, value_of

# Keepalive events of one reply that count. They come about twice a minute, and the longest thoughts take a
# quarter of an hour.
MAX_KEEPALIVES = 60

_UNREADABLE = Broken("sent an event that cannot be read")
_GAP = "\n\n"

_Outcome = list[Delta] | Broken | ServerError | None


class _Event(msgspec.Struct):
    type: Any = None
    delta: Any = None
    item_id: Any = None
    output_index: Any = None
    content_index: Any = None
    summary_index: Any = None
    arguments: Any = None
    item: Any = None
    response: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class ResponsesReply:
    """Gathers one reply (``Reply``)."""

    def __init__(self) -> None:
        self.over = False
        self._finish: Finish | None = None
        self._items = ItemGatherer()
        self._usage: UsageDelta | None = None
        self._refused = False
        self._spoke: list[Item] = []  # the messages, each time one begins to speak
        self._thought: tuple[Item, Any] | None = None
        self._keepalives = 0

    @property
    def complete(self) -> bool:
        """See ``Reply``."""
        return self._finish is not None

    def feed(self, name: str, data: bytes) -> _Outcome:
        """See ``Reply``."""
        try:
            event = _decode(data)
        except NOT_STRICT:
            if data.strip() == b"[DONE]":  # other servers of this wire end so
                self.over = True
                return []
            loose = decode_loosely(data, _Event)
            if loose is None:
                return ServerError(value_of(data)) if name == "error" else _UNREADABLE
            event = loose
        kind = event.type if isinstance(event.type, str) else name
        fold = _FOLDS.get(kind)
        if fold is not None:
            return fold(self, kind, event)
        if kind == "error" or event.error is not None:
            return ServerError(value_of(data))
        return None

    def close(self) -> list[Delta] | Broken:
        """See ``Reply``."""
        finish = self._finish
        if finish is None:
            return Broken("ended its answer in the middle")
        if self._refused and finish is Finish.STOP:
            finish = Finish.REFUSAL
        deltas: list[Delta] = []
        if self._spoke and (text := self._spoke[-1].fall_silent()):
            deltas.append(TextDelta(text))
        opaque = None
        if finish is Finish.STOP:
            calls = self._items.calls()
            if isinstance(calls, Broken):
                return calls
            deltas += calls
            finish = Finish.TOOL_CALLS if calls else Finish.STOP
            opaque = self._opaque()
        if self._usage is not None:
            deltas.append(self._usage)
        return [*deltas, Finished(finish, opaque)]

    # -- what the events mean: each method takes one kind, and may return what ``feed`` does -----------

    def _on_text(self, _kind: str, event: _Event) -> _Outcome:
        delta = event.delta
        if not isinstance(delta, str) or not delta:
            return None
        item = self._items.of_piece(MESSAGE, event.item_id, event.output_index)
        if isinstance(item, Broken) or item.done:
            return item if isinstance(item, Broken) else None
        return self._say(item, item.say(delta))

    def _on_refusal(self, kind: str, event: _Event) -> _Outcome:
        self._refused = True
        return self._on_text(kind, event)

    def _on_summary(self, _kind: str, event: _Event) -> _Outcome:
        return self._on_thought(event, ("summary", event.summary_index))

    def _on_reasoning(self, _kind: str, event: _Event) -> _Outcome:
        return self._on_thought(event, ("content", event.content_index))

    def _on_thought(self, event: _Event, part: Any) -> _Outcome:
        delta = event.delta
        if not isinstance(delta, str) or not delta:
            return None
        item = self._items.of_piece(REASONING, event.item_id, event.output_index)
        if isinstance(item, Broken) or item.done:
            return item if isinstance(item, Broken) else None
        return self._think(item, part, delta)

    def _on_arguments(self, _kind: str, event: _Event) -> _Outcome:
        delta = event.delta
        if not isinstance(delta, str) or not delta:
            return None
        return self._items.add_arguments(event.item_id, event.output_index, delta) or []

    def _on_arguments_done(self, _kind: str, event: _Event) -> _Outcome:
        return self._items.whole_arguments(event.item_id, event.output_index, event.arguments)

    def _on_begin(self, _kind: str, event: _Event) -> _Outcome:
        if not isinstance(event.item, dict):
            return None
        begun = self._items.begin(event.item, event.output_index)
        if isinstance(begun, Broken):
            return begun
        return [] if begun is not None and begun.kind in {MESSAGE, REASONING, CALL} else None

    def _on_end(self, _kind: str, event: _Event) -> _Outcome:
        if not isinstance(event.item, dict):
            return None
        item = self._items.end(event.item, event.output_index)
        return item if isinstance(item, Broken) else self._tell_rest(item, event.item)

    def _on_keepalive(self, _kind: str, _event: _Event) -> _Outcome:
        self._keepalives += 1
        return [] if self._items.thinks and self._keepalives <= MAX_KEEPALIVES else None

    def _on_terminal(self, kind: str, event: _Event) -> _Outcome:
        response = event.response if isinstance(event.response, dict) else {}
        ends = {kind.removeprefix("response."), word(response.get("status"))}
        if "failed" in ends:
            error = response.get("error")
            return ServerError(error) if error else Broken("says that its answer failed, and not why")
        if "cancelled" in ends:
            return Broken("cancelled its answer")
        finish = _incomplete(response.get("incomplete_details")) if "incomplete" in ends else Finish.STOP
        if isinstance(finish, Broken):
            return finish
        deltas: list[Delta] = []
        output = response.get("output")
        for value in output if isinstance(output, list) else ():
            if not isinstance(value, dict) or (finish is not Finish.STOP and value.get("type") == CALL):
                continue
            item = self._items.enter(value)
            if isinstance(item, Broken):
                return item
            deltas += self._tell_rest(item, value)
        self._usage = usage_of(response.get("usage"))
        self._finish = finish
        self.over = True
        return deltas

    def _tell_rest(self, item: Item, value: dict[str, Any]) -> list[Delta]:
        """What a whole item brings that did not come in pieces."""
        if item.kind == MESSAGE:
            parts = _parts(value.get("content"))
            self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
            return self._say(item, item.say_rest("".join(map(_words, parts))))
        deltas: list[Delta] = []
        if item.kind == REASONING and not item.pieces:
            parts = [*_parts(value.get("summary")), *_parts(value.get("content"))]
            for number, part in enumerate(parts):
                if words := _words(part):
                    deltas += self._think(item, number, words)
        return deltas

    def _say(self, item: Item, text: str) -> list[Delta]:
        if not text:
            return []
        if not self._spoke or self._spoke[-1] is not item:
            self._spoke.append(item)
        self._thought = None
        return [TextDelta(text)]

    def _think(self, item: Item, part: Any, text: str) -> list[Delta]:
        gap = _GAP if self._thought not in (None, (item, part)) else ""
        self._thought = (item, part)
        text = well_formed(text)
        item.pieces.append(text)
        return [ThoughtDelta(gap + text)]

    def _opaque(self) -> str | None:
        items = self._items.in_order()
        # A text of several messages can be parted again only if they spoke one after the other.
        if self._spoke != [item for item in items if item.kind == MESSAGE and item.pieces]:
            return None
        return write_places([_place(item) for item in items])


_FOLDS: dict[str, Callable[[ResponsesReply, str, _Event], _Outcome]] = {
    "response.output_text.delta": ResponsesReply._on_text,
    "response.refusal.delta": ResponsesReply._on_refusal,
    "response.reasoning_summary_text.delta": ResponsesReply._on_summary,
    "response.reasoning_text.delta": ResponsesReply._on_reasoning,
    "response.function_call_arguments.delta": ResponsesReply._on_arguments,
    "response.function_call_arguments.done": ResponsesReply._on_arguments_done,
    "response.output_item.added": ResponsesReply._on_begin,
    "response.output_item.done": ResponsesReply._on_end,
    "response.completed": ResponsesReply._on_terminal,
    "response.incomplete": ResponsesReply._on_terminal,
    "response.failed": ResponsesReply._on_terminal,
    "keepalive": ResponsesReply._on_keepalive,
}


def usage_of(usage: Any) -> UsageDelta | None:
    """The usage of a response, or None where it cannot be."""
    if not isinstance(usage, dict):
        return None
    sent, made = tokens(usage.get("input_tokens")), tokens(usage.get("output_tokens"))
    if sent is None or made is None:
        return None
    of_input, of_output = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    read = min(_detail(of_input, "cached_tokens"), sent)
    written = min(_detail(of_input, "cache_write_tokens"), sent - read)
    return UsageDelta(sent, made, read, written, min(_detail(of_output, "reasoning_tokens"), made))


def _detail(details: Any, name: str) -> int:
    return (tokens(details.get(name)) if isinstance(details, dict) else None) or 0


def _incomplete(details: Any) -> Finish | Broken:
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "max_output_tokens":
        return Finish.LENGTH
    if reason == "content_filter":
        return Finish.REFUSAL
    return Broken(f"ended its answer with the unknown reason {word(reason)[:40]!r}")


def _place(item: Item) -> Place:
    if item.kind == MESSAGE:
        return Place(text=sum(map(len, item.pieces)), phase=item.phase)
    if item.kind == CALL:
        return Place(call=well_formed(item.call_id))
    return Place(reasoning=reasoning_item(item.kept) if item.kept and item.kind == REASONING else None)


def _parts(value: Any) -> list[dict[str, Any]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _words(part: dict[str, Any]) -> str:
    return word(part.get("text")) or word(part.get("refusal"))
