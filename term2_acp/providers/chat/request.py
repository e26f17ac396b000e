"""A request as the Chat Completions wire wants it. Pure.

Rules:

- Everything that some server is known to refuse for good is mapped here, so that a session which holds it
  can go on: ids, names and arguments of calls, two prompts in a row, text that is not Unicode, images
  before a model or a server that cannot read them.
- What only some servers want is in their ``Dialect``.
- What is kept of a reply (``opaque``) goes back with it, or not at all.

Source: OpenAI API reference, "Create chat completion", November 2026.
"""

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
from term2_acp.providers.chat.dialects import PLAIN, Dialect
from term2_acp.providers.chat.opaque import Back, Kept, kept_in
from term2_acp.providers.wire_words import (
    CUT_NOTE,
    CallIds,
    encode,
    function_name,
    marked_if_cut,
    object_arguments,
)

# Tokens of one reply, where they have to be limited. More than any file that a model writes in one go;
# the context has to hold them beside the prompt, so it is not simply what the model can.
MAX_OUTPUT_TOKENS = 32_768

_UNKNOWN = ModelInfo()
_Message = dict[str, Any]


def chat_request(
    request: Request, info: ModelInfo = _UNKNOWN, provider: str = "", dialect: Dialect = PLAIN
) -> bytes:
    """The body of a streaming request, as JSON in UTF-8. ``provider`` is the name that opaque data have."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": chat_messages(request, info, provider, dialect),
        "stream": True,
    }
    if dialect.stream_options:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if request.effort is not Effort.DEFAULT:
        body.update(dialect.effort(request.effort))
    if dialect.limits_output and info.output_tokens is not None:
        body["max_tokens"] = min(info.output_tokens, MAX_OUTPUT_TOKENS)
    body.update(dialect.cache(request.model, request.cache_key))
    return encode(body)


def chat_messages(request: Request, info: ModelInfo, provider: str, dialect: Dialect) -> list[_Message]:
    """The history in the wire's words, the system prompt first."""
    ids = CallIds()
    out: list[_Message] = []
    # The model's own template refuses it too, whoever runs the model: Mistral, Devstral, Ministral ...
    bridged = dialect.says_after_results or "stral" in request.model.lower()
    if request.system:
        out.append({"role": "system", "content": request.system})
    for message in request.messages:
        match message:
            case UserSaid():
                _add_prompt(out, _prompt(message, info, dialect), bridged=bridged)
            case AssistantSaid():
                kept = kept_in(request.opaque_of(message, provider), len(message.calls))
                told = _assistant(message, ids, kept, dialect)
                if told is not None:
                    out.append(told)
            case ToolAnswered(call_id=call_id, result=result):
                out.append({"role": "tool", "tool_call_id": ids.of_result(call_id), "content": result})
    return out


# -- prompts ---------------------------------------------------------------------------------------


def _prompt(said: UserSaid, info: ModelInfo, dialect: Dialect) -> str | list[_Message]:
    """A prompt's content: plain text where that is enough, for many servers take nothing else."""
    texts, images = [said.text], []
    for image in said.images:
        if info.sees_images and image.mime_type in dialect.image_types:
            url = f"data:{image.mime_type};base64,{image.data}"
            images.append({"type": "image_url", "image_url": {"url": url}})
        else:
            texts.append(unseen(image))
    text = "\n\n".join(filter(None, texts))
    return [*_parts(text), *images] if images else text


def _add_prompt(out: list[_Message], content: str | list[_Message], *, bridged: bool) -> None:
    last = out[-1] if out else {}
    if last.get("role") != "user":
        if last.get("role") == "tool" and bridged:
            out.append({"role": "assistant", "content": CUT_NOTE})
        out.append({"role": "user", "content": content})
        return
    # Some templates insist that roles alternate, and a failed turn leaves a prompt alone.
    before = last["content"]
    if isinstance(before, str) and isinstance(content, str):
        last["content"] = f"{before}\n\n{content}"
    else:
        last["content"] = [*_parts(before), *_parts(content)]


def _parts(content: str | list[_Message]) -> list[_Message]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return content


# -- replies ---------------------------------------------------------------------------------------


def _assistant(said: AssistantSaid, ids: CallIds, kept: Kept | None, dialect: Dialect) -> _Message | None:
    text = marked_if_cut(said.text, said.cut)
    if not text and not said.calls:
        return None  # a reply without a word says nothing to the model, and is refused by several servers
    message: _Message = {"role": "assistant", "content": text}
    if kept is not None:
        _give_back(message, kept, dialect)
    if not message["content"]:
        message["content"] = None
        if not dialect.null_content:
            del message["content"]
    if dialect.always_reasoning:
        message.setdefault("reasoning_content", "")
    if said.calls:
        message["tool_calls"] = [_call(call, ids.of_call(call.call_id)) for call in said.calls]
        _sign(message["tool_calls"], kept, dialect)
    return message


def _give_back(message: _Message, kept: Kept, dialect: Dialect) -> None:
    """Put what was kept of a reply where its server wants it."""
    if dialect.back is Back.FIELD and kept.text:
        message[kept.field] = kept.text
    elif dialect.back is Back.DETAILS and kept.details:
        message["reasoning_details"] = kept.details
    elif dialect.back is Back.PARTS and kept.text:
        thinking = {"type": "thinking", "thinking": _parts(kept.text)}
        message["content"] = [thinking, *_parts(message["content"])]
    elif dialect.back is Back.SIGNATURES and kept.extra:
        message["extra_content"] = kept.extra


def _sign(calls: list[_Message], kept: Kept | None, dialect: Dialect) -> None:
    if dialect.back is not Back.SIGNATURES:
        return
    for call, extra in zip(calls, kept.calls if kept is not None else (), strict=False):
        if extra is not None:
            call["extra_content"] = extra
    # Of calls that were made side by side only the first is signed.
    if dialect.stand_in_signature is not None:
        calls[0].setdefault("extra_content", dialect.stand_in_signature)


def _call(call: CallMade, wire_id: str) -> _Message:
    function = {"name": function_name(call.name), "arguments": object_arguments(call.arguments)}
    return {"id": wire_id, "type": "function", "function": function}


def _tool(tool: ToolSpec) -> _Message:
    function = {"name": function_name(tool.name), "description": tool.description, "parameters": tool.schema}
    return {"type": "function", "function": function}
