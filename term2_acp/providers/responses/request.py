"""A request as the Responses wire wants it. Pure.

Rules:

- The server stores nothing (``store`` is false) and is told everything: the whole history goes with each
  request, and no ``previous_response_id``.
- A reply goes back in the order in which its server made it, with its reasoning items and the server's own
  ids of its calls (``opaque``), to the model that made it; to others, and if anything of it was
  lost, as its text and then its calls. A reasoning item goes only where the item that it led to follows: the
  server refuses it alone. A reply that was cut goes without.
- Items have no ids, reasoning items excepted, whose encrypted content is bound to theirs: an id is looked up
  in what the server stored. Calls and results are paired by call ids, at most 64 of ``[a-zA-Z0-9_-]``, which
  depend on the history alone.
- ``reasoning.encrypted_content`` is refused for a model that does not reason. It is asked for where the model
  is known to: by the levels of effort that it takes, by the level that the person set, or by its own
  reasoning in the history. Newer models send it without being asked.
- ``summary`` is sent only if the wire was made so: an organisation that is not verified is refused for it,
  and its models would not work at all. ``default`` sends no effort.
- No limit of output is sent: without one the model may use what it has.

Source: OpenAI API reference, "Create a model response"; guides "Reasoning models" and "Conversation state",
November 2026.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Effort,
    ModelInfo,
    Request,
    ToolAnswered,
    ToolSpec,
    UserSaid,
    unseen,
)
from term2_acp.providers.responses.opaque import GOOD_ID, Place, phase_of, read_places, reasoning_item
from term2_acp.providers.wire_words import CallIds, encode, function_name, marked_if_cut, object_arguments

# Characters that a key of the prompt cache may have.
_CACHE_KEY_LIMIT = 64


def responses_request(request: Request, info: ModelInfo, provider: str, *, summaries: bool = False) -> bytes:
    """The body of a streaming request, as JSON in UTF-8.

    ``provider`` is the name that opaque data are kept under. ``summaries`` asks for what the model thinks in
    short.
    """
    items = input_items(request, info, provider)
    body: dict[str, Any] = {"model": request.model}
    if request.system:
        body["instructions"] = request.system
    body["input"] = items
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    reasons = _reasons(request, info, items)
    reasoning = {}
    if request.effort is not Effort.DEFAULT:
        reasoning["effort"] = request.effort.value
    if reasons and summaries:
        reasoning["summary"] = "auto"
    if reasoning:
        body["reasoning"] = reasoning
    if reasons:
        body["include"] = ["reasoning.encrypted_content"]
    if request.cache_key:
        body["prompt_cache_key"] = _cache_key(request.cache_key)
    return encode({**body, "store": False, "stream": True})


def input_items(request: Request, info: ModelInfo, provider: str) -> list[dict[str, Any]]:
    """The history in the wire's words."""
    ids = _Ids()
    items: list[dict[str, Any]] = []
    for message in request.messages:
        match message:
            case UserSaid():
                items += _user(message, info)
            case AssistantSaid(cut=True):
                items += _plain(message, ids)
            case AssistantSaid():
                places = read_places(request.opaque_of(message, provider))
                items += _plain(message, ids) if places is None else _in_places(message, places, ids)
            case ToolAnswered(call_id=call_id, result=result):
                wire_id = ids.of_result(call_id)
                if wire_id is not None:  # a result of no call would be refused for good
                    told = {"type": "function_call_output", "call_id": wire_id, "output": result}
                    items.append(told)
    return items


def _reasons(request: Request, info: ModelInfo, items: Sequence[dict[str, Any]]) -> bool:
    if info.efforts or any(item["type"] == "reasoning" for item in items):
        return True
    return info.efforts is None and request.effort not in {Effort.DEFAULT, Effort.NONE}


def _user(message: UserSaid, info: ModelInfo) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    if message.text:
        content.append({"type": "input_text", "text": message.text})
    for image in message.images:
        if info.sees_images:
            url = f"data:{image.mime_type};base64,{image.data}"
            content.append({"type": "input_image", "image_url": url, "detail": "auto"})
        else:
            content.append({"type": "input_text", "text": unseen(image)})
    return [{"type": "message", "role": "user", "content": content}] if content else []


def _plain(message: AssistantSaid, ids: "_Ids") -> list[dict[str, Any]]:
    """A reply as its text and then its calls."""
    told = _said(marked_if_cut(message.text, message.cut), None)
    return [*told, *(_call(call, ids.of_call(call.call_id)) for call in message.calls)]


def _in_places(message: AssistantSaid, places: Sequence[Place], ids: "_Ids") -> list[dict[str, Any]]:
    """A reply as its server made it, as far as the places fit what is known of it."""
    lengths = [place.text for place in places if place.text is not None]
    calls_fit = sum(place.call is not None for place in places) == len(message.calls)
    if not calls_fit or (message.text and not lengths):
        return _plain(message, ids)
    texts = iter(_parted(message.text, lengths))
    calls = iter(message.calls)
    items: list[dict[str, Any]] = []
    thoughts: list[dict[str, Any]] = []
    for place in places:
        if place.reasoning is not None:
            item = reasoning_item(place.reasoning)
            thoughts = [*thoughts, item] if item else []
            continue
        told: list[dict[str, Any]] = []
        if place.text is not None:
            told = _said(next(texts), phase_of(place.phase))
        elif place.call is not None:
            call = next(calls)
            told = [_call(call, ids.of_call(call.call_id, place.call))]
        if told:
            items += thoughts
        thoughts = []
        items += told
    return items


def _parted(text: str, lengths: Sequence[int]) -> list[str]:
    """The text in pieces of these lengths; the whole in the first, if it is no longer as long as it was."""
    if sum(lengths) != len(text) or min(lengths, default=0) < 0:
        return [text, *[""] * (len(lengths) - 1)]
    pieces, at = [], 0
    for length in lengths:
        pieces.append(text[at : at + length])
        at += length
    return pieces


def _said(text: str, phase: str | None) -> list[dict[str, Any]]:
    if not text:
        return []
    content = [{"type": "output_text", "text": text, "annotations": []}]
    told: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
    return [{**told, "phase": phase} if phase else told]


def _call(call: CallMade, wire_id: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": wire_id,
        "name": function_name(call.name),
        "arguments": object_arguments(call.arguments),
    }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "name": function_name(tool.name),
        "description": tool.description,
        "parameters": tool.schema,
        # Strict schemas have no optional members, and ours do.
        "strict": False,
    }


def _cache_key(key: str) -> str:
    return key if len(key) <= _CACHE_KEY_LIMIT else hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


class _Ids:
    """Gives each call of one history an id of its own, the server's where it is known, and each result that
    of its call. Results come in the order of the calls.
    """

    def __init__(self) -> None:
        self._mapped = CallIds()
        self._open: dict[str, list[str]] = {}
        self._used: set[str] = set()

    def of_call(self, call_id: str, theirs: str = "") -> str:
        wire_id = theirs if GOOD_ID.fullmatch(theirs) else self._mapped.of_call(call_id)
        while wire_id in self._used:
            wire_id = self._mapped.of_call(call_id)
        self._used.add(wire_id)
        self._open.setdefault(call_id, []).append(wire_id)
        return wire_id

    def of_result(self, call_id: str) -> str | None:
        opened = self._open.get(call_id)
        return opened.pop(0) if opened else None
