"""A request as the Chat Completions wire wants it. Pure.

Rules:

- Everything that some server is known to refuse for good is mapped here, so that a session which holds it
  can go on: ids, names and arguments of calls, two prompts in a row, text that is not Unicode.
- A call and its result get the same id, whatever becomes of it. Ids are nine letters and digits, the
  strictest rule of any server (Mistral's; OpenAI's is at most 40 of ``[a-zA-Z0-9_-]``), and they depend on
  the history alone, so that a server's prompt cache holds from one request to the next.
- ``effort`` is sent only when it was chosen.

Source: OpenAI API reference, "Create chat completion", November 2026.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Effort,
    Message,
    Request,
    ToolAnswered,
    ToolSpec,
    UserSaid,
)
from term2_acp.providers.text import well_formed

# What stands behind a reply that did not come to its end, so that the model does not take it for whole.
CUT_NOTE = "[This reply was cut off here.]"
# The longest name of a function that servers take, in characters, and what may be in it.
_NAME_LIMIT = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_ID_LENGTH = 9
# Characters of arguments that do not parse which the model is shown again. It has them in the error
# result too.
_MALFORMED_LIMIT = 500


def chat_request(request: Request) -> bytes:
    """The body of a streaming request, as JSON in UTF-8."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": chat_messages(request.system, request.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.effort is not Effort.DEFAULT:
        body["reasoning_effort"] = request.effort.value
    return encode(body)


def encode(value: Any) -> bytes:
    """JSON in UTF-8. Lone surrogates, which no UTF-8 has, become U+FFFD.

    Raises ``RecursionError`` for a value that is nested deeper than the interpreter can follow.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_all_well_formed(value))


def chat_messages(system: str, messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The history in the wire's words, the system prompt first."""
    ids = _CallIds()
    out: list[dict[str, Any]] = []
    if system:
        out.append({"role": "system", "content": system})
    for message in messages:
        match message:
            case UserSaid(text=text):
                # Some templates insist that roles alternate, and a failed turn leaves a prompt alone.
                if out and out[-1]["role"] == "user":
                    out[-1]["content"] += f"\n\n{text}"
                else:
                    out.append({"role": "user", "content": text})
            case AssistantSaid():
                told = _assistant(message, ids)
                if told is not None:
                    out.append(told)
            case ToolAnswered(call_id=call_id, result=result):
                out.append({"role": "tool", "tool_call_id": ids.of_result(call_id), "content": result})
    return out


def _assistant(message: AssistantSaid, ids: "_CallIds") -> dict[str, Any] | None:
    text = message.text
    if message.cut:
        text = f"{text}\n{CUT_NOTE}" if text else CUT_NOTE
    if message.calls:
        return {
            "role": "assistant",
            "content": text or None,
            "tool_calls": [_call(call, ids.of_call(call.call_id)) for call in message.calls],
        }
    # A reply without a word says nothing to the model, and is refused by several servers.
    return {"role": "assistant", "content": text} if text else None


def _call(call: CallMade, wire_id: str) -> dict[str, Any]:
    name = _NOT_IN_NAMES.sub("_", call.name)[:_NAME_LIMIT] or "unnamed"
    return {
        "id": wire_id,
        "type": "function",
        "function": {"name": name, "arguments": _arguments(call.arguments)},
    }


def _arguments(arguments: str) -> str:
    """The arguments as the model wrote them, if they are an object.

    Templates parse them, and fail the whole request when they cannot.
    """
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass
    return encode({"malformed": arguments[:_MALFORMED_LIMIT]}).decode()


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
    }


class _CallIds:
    """Gives each call of one history an id of its own, and each result the id of its call."""

    def __init__(self) -> None:
        self._of_last_call: dict[str, str] = {}
        self._used: set[str] = set()

    def of_call(self, call_id: str) -> str:
        turn = 0
        while True:
            digest = hashlib.sha256(f"{call_id}/{turn}".encode("utf-8", "replace")).hexdigest()
            wire_id = digest[:_ID_LENGTH]
            if wire_id not in self._used:
                break
            turn += 1
        self._used.add(wire_id)
        self._of_last_call[call_id] = wire_id
        return wire_id

    def of_result(self, call_id: str) -> str:
        known = self._of_last_call.get(call_id)
        return known if known is not None else self.of_call(call_id)


def _all_well_formed(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list | tuple):
        return [_all_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {_all_well_formed(key): _all_well_formed(item) for key, item in value.items()}
    return value
