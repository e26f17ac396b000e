"""A request as the Messages wire wants it. Pure.

Rules:

- Roles alternate, the first and the last message are the person's. The results of a reply stand first in
  the message after it; prompts that follow, one or many, stand behind them. Where the person said nothing,
  ``_GO_ON`` stands.
- What is blank is not sent: the server refuses empty text.
- The same history is told in the same words each time (``wire_words``), or neither the prompt's cache nor
  the thoughts in it would hold from one request to the next.
- A model's thoughts go back to it, where they stood, as long as it may think (``thinking``).
- Breakpoints of the cache stand behind the tools, the system prompt and the last two messages of the
  person: a conversation that grows finds at the second what it wrote at the first. The server takes four.
- The temperature is never sent: newer models refuse it.

Source: Claude API documentation, "Messages", "Tool use" and "Prompt caching", November 2026.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from term2_acp.providers.anthropic.opaque import lay_out, places_of
from term2_acp.providers.anthropic.thinking import Family, family_of, thinking_for
from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Image,
    ModelInfo,
    Request,
    ToolAnswered,
    ToolSpec,
    UserSaid,
    unseen,
)
from term2_acp.providers.wire_words import (
    CallIds,
    encode,
    function_name,
    marked_if_cut,
    object_arguments,
)

# Tokens. A reply longer than this is a model that does not find its end; the hardest tasks think that much.
MOST_OUTPUT_TOKENS = 64_000
# Kinds of images that the server takes.
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
# Stands where the person must have said something and did not.
_GO_ON = "Go on."
# A failed result must say something.
_NO_WORDS = "It failed without a word."
# Messages of the person, from the end, that have a breakpoint of the cache.
_CACHED_MESSAGES = 2
_CACHE = {"type": "ephemeral"}


def anthropic_request(request: Request, info: ModelInfo, provider: str) -> bytes:
    """The body of a streaming request, as JSON in UTF-8."""
    family = family_of(request.model)
    limit = max_tokens(info, family)
    thinking = thinking_for(family, request.effort, limit)
    messages = _messages(request, info, provider, with_thoughts=thinking.on)
    if thinking.leads and not _leads_with_thought(messages):
        thinking = thinking_for(family, request.effort, limit, may_think=False)
        messages = _messages(request, info, provider, with_thoughts=thinking.on)
    body: dict[str, Any] = {"model": request.model, "max_tokens": limit, "stream": True, **thinking.members}
    if request.tools:
        body["tools"] = [_tool(tool, family) for tool in request.tools]
        body["tools"][-1]["cache_control"] = _CACHE
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHE}]
    body["messages"] = messages
    return encode(body)


def max_tokens(info: ModelInfo, family: Family) -> int:
    """How long a reply may be: what the model can, within our bound and half of its context."""
    can = info.output_tokens or family.output_tokens
    return max(1, min(can, MOST_OUTPUT_TOKENS, info.context_tokens // 2))


def _leads_with_thought(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the turn that goes on, if it has called tools, began with a thought."""
    first: list[Any] = []
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message["content"]
        elif any(block["type"] != "tool_result" for block in message["content"]):
            break
    called = any(block["type"] == "tool_use" for block in first)
    return not called or first[0]["type"] in {"thinking", "redacted_thinking"}


def _messages(
    request: Request, info: ModelInfo, provider: str, *, with_thoughts: bool
) -> list[dict[str, Any]]:
    ids = CallIds()
    history = _History()
    for message in request.messages:
        match message:
            case UserSaid():
                history.user(_said(message, info))
            case ToolAnswered():
                history.result(_result(message, ids.of_result(message.call_id)))
            case AssistantSaid():
                kept = request.opaque_of(message, provider) if with_thoughts else None
                history.assistant(_reply(message, kept, ids))
    return history.finish()


class _History:
    """The messages so far. Whatever comes, roles alternate, and results stand first."""

    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []

    def user(self, blocks: list[Any]) -> None:
        if blocks:
            self._of_user().extend(blocks)

    def result(self, block: dict[str, Any]) -> None:
        content = self._of_user()
        behind = sum(other["type"] == "tool_result" for other in content)
        content.insert(behind, block)

    def assistant(self, blocks: list[Any]) -> None:
        if not blocks:
            return
        if not self._messages or self._messages[-1]["role"] == "assistant":
            self.user(_words(_GO_ON))
        self._messages.append({"role": "assistant", "content": blocks})

    def finish(self) -> list[dict[str, Any]]:
        if not self._messages or self._messages[-1]["role"] == "assistant":
            self.user(_words(_GO_ON))
        users = [message for message in self._messages if message["role"] == "user"]
        for message in users[-_CACHED_MESSAGES:]:
            message["content"][-1]["cache_control"] = _CACHE
        return self._messages

    def _of_user(self) -> list[Any]:
        if not self._messages or self._messages[-1]["role"] == "assistant":
            self._messages.append({"role": "user", "content": []})
        content: list[Any] = self._messages[-1]["content"]
        return content


def _said(message: UserSaid, info: ModelInfo) -> list[dict[str, Any]]:
    """A prompt. Images stand before the words that are about them, as the documentation advises."""
    blocks: list[dict[str, Any]] = []
    for image in message.images:
        blocks += _image(image, info)
    return blocks + _words(message.text)


def _image(image: Image, info: ModelInfo) -> list[dict[str, Any]]:
    if not info.sees_images or image.mime_type not in _IMAGES:
        return _words(unseen(image))
    source = {"type": "base64", "media_type": image.mime_type, "data": image.data}
    return [{"type": "image", "source": source}]


def _words(text: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _reply(message: AssistantSaid, kept: str | None, ids: CallIds) -> list[dict[str, Any]]:
    calls = [_call(call, ids.of_call(call.call_id)) for call in message.calls]
    if message.cut:
        blocks = lay_out((), marked_if_cut(message.text, cut=True), calls)
    else:
        blocks = lay_out(places_of(kept), message.text, calls)
    if blocks and blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()
    return blocks


def _call(call: CallMade, wire_id: str) -> dict[str, Any]:
    arguments = msgspec.Raw(object_arguments(call.arguments).encode())
    return {"type": "tool_use", "id": wire_id, "name": function_name(call.name), "input": arguments}


def _result(message: ToolAnswered, wire_id: str) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id}
    if message.result.strip():
        block["content"] = message.result
    elif message.failed:
        block["content"] = _NO_WORDS
    if message.failed:
        block["is_error"] = True
    return block


def _tool(tool: ToolSpec, family: Family) -> dict[str, Any]:
    told: dict[str, Any] = {"name": function_name(tool.name), "input_schema": tool.schema}
    if tool.description.strip():
        told["description"] = tool.description
    if family.eager:
        # Or the server holds the arguments back until they are whole: minutes of silence for a long file.
        told["eager_input_streaming"] = True
    return told
