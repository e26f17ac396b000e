"""One reply of a model, spoken on each wire: what it says goes in, the events of that wire's stream come out.

The shapes are those of the vendors' public references, written down here apart from the product's own. A
request is read back too: ``told`` gives what a model was told in it, the same for the same history on
every wire, so that a test can hold all wires to one conversation.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from tests.kit.model_server import Answer, Call

Json = dict[str, Any]

WIRES = ("openai", "openai-compatible", "anthropic")
"""The types of providers in the settings, each of which has a wire of its own."""

PATHS = {"openai": "/responses", "openai-compatible": "/chat/completions", "anthropic": "/messages"}


@frozen
class Reply:
    """One reply of a model. ``calls`` are (name, arguments); ``usage`` is (read, written, cached)."""

    thought: str = ""
    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    usage: tuple[int, int, int] = (100, 20, 40)
    end: str = "stop"  # stop, length or refusal


def speaks(wire: str, reply: Reply) -> Answer:
    """The reply as an answer of the model server, each event in a chunk of its own."""
    events = spoken(wire, reply)

    async def answer(call: Call) -> None:
        assert call.path.endswith(PATHS[wire]), call.path
        await call.head()
        for event in events:
            await call.send(event)
        await call.end()

    return answer


def spoken(wire: str, reply: Reply) -> list[str]:
    """The reply as the events of the wire's stream."""
    return list(_SPOKEN[wire](reply))


def pieces(text: str) -> list[str]:
    """The text in pieces of a few characters, as models send it."""
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _event(value: Json, *, named: bool = True) -> str:
    name = f"event: {value['type']}\n" if named else ""
    return f"{name}data: {json.dumps(value, ensure_ascii=False)}\n\n"


# -- Chat Completions ------------------------------------------------------------------------------


def _chat(reply: Reply) -> Iterator[str]:
    def chunk(finish: str | None = None, **delta: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({'object': 'chat.completion.chunk', 'choices': [choice]})}\n\n"

    yield chunk(role="assistant", content="")
    for piece in pieces(reply.thought):
        yield chunk(reasoning_content=piece)
    for piece in pieces(reply.text):
        yield chunk(content=piece)
    for index, (name, arguments) in enumerate(reply.calls):
        yield chunk(
            tool_calls=[
                {
                    "index": index,
                    "id": f"call_{index}",
                    "type": "function",
                    "function": {"name": name, "arguments": ""},
                }
            ]
        )
        for piece in pieces(json.dumps(arguments)):
            yield chunk(tool_calls=[{"index": index, "function": {"arguments": piece}}])
    ends = {"stop": "tool_calls" if reply.calls else "stop", "length": "length", "refusal": "content_filter"}
    yield chunk(ends[reply.end])
    read, written, cached = reply.usage
    usage = {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n"
    yield "data: [DONE]\n\n"


# -- Responses -------------------------------------------------------------------------------------


def _responses(reply: Reply) -> Iterator[str]:
    items: list[Json] = []
    response: Json = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    yield _event({"type": "response.created", "response": response})
    yield _event({"type": "response.in_progress", "response": response})
    if reply.thought:
        place = {"item_id": "rs_1", "output_index": len(items)}
        item: Json = {"type": "reasoning", "id": "rs_1", "summary": []}
        yield _event({"type": "response.output_item.added", "output_index": len(items), "item": item})
        part = {"type": "summary_text", "text": ""}
        yield _event(
            {"type": "response.reasoning_summary_part.added", **place, "summary_index": 0, "part": part}
        )
        for piece in pieces(reply.thought):
            yield _event(
                {
                    "type": "response.reasoning_summary_text.delta",
                    **place,
                    "summary_index": 0,
                    "delta": piece,
                }
            )
        summary = [{"type": "summary_text", "text": reply.thought}]
        item = {**item, "summary": summary, "encrypted_content": "c2VhbGVk"}
        yield _event({"type": "response.output_item.done", "output_index": len(items), "item": item})
        items.append(item)
    if reply.text:
        yield from _responses_text(reply, items)
    for number, (name, arguments) in enumerate(reply.calls):
        call: Json = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": "",
            "status": "in_progress",
        }
        place = {"item_id": call["id"], "output_index": len(items)}
        yield _event({"type": "response.output_item.added", "output_index": len(items), "item": call})
        for piece in pieces(json.dumps(arguments)):
            yield _event({"type": "response.function_call_arguments.delta", **place, "delta": piece})
        whole = json.dumps(arguments)
        yield _event({"type": "response.function_call_arguments.done", **place, "arguments": whole})
        call = {**call, "arguments": whole, "status": "completed"}
        yield _event({"type": "response.output_item.done", "output_index": len(items), "item": call})
        items.append(call)
    read, written, cached = reply.usage
    usage = {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }
    if reply.end == "length":
        details: Json = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        yield _event(
            {
                "type": "response.incomplete",
                "response": {**response, **details, "output": items, "usage": usage},
            }
        )
        return
    done = {**response, "status": "completed", "output": items, "usage": usage}
    yield _event({"type": "response.completed", "response": done})


def _responses_text(reply: Reply, items: list[Json]) -> Iterator[str]:
    refused = reply.end == "refusal"
    kind, member = ("refusal", "refusal") if refused else ("output_text", "text")
    item: Json = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    place = {"item_id": "msg_1", "output_index": len(items), "content_index": 0}
    yield _event({"type": "response.output_item.added", "output_index": len(items), "item": item})
    part: Json = {"type": kind, member: "", "annotations": []}
    yield _event({"type": "response.content_part.added", **place, "part": part})
    for piece in pieces(reply.text):
        yield _event({"type": f"response.{kind}.delta", **place, "delta": piece})
    yield _event({"type": f"response.{kind}.done", **place, member: reply.text})
    part = {**part, member: reply.text}
    yield _event({"type": "response.content_part.done", **place, "part": part})
    item = {**item, "status": "completed", "content": [part]}
    yield _event({"type": "response.output_item.done", "output_index": len(items), "item": item})
    items.append(item)


# -- Messages --------------------------------------------------------------------------------------


def _messages(reply: Reply) -> Iterator[str]:
    read, written, cached = reply.usage
    usage = {"input_tokens": read - cached, "cache_read_input_tokens": cached, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    yield _event({"type": "message_start", "message": message})
    yield _event({"type": "ping"})
    blocks: list[tuple[Json, list[Json]]] = []
    if reply.thought:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(reply.thought)]
        sealed = {"type": "signature_delta", "signature": "c2VhbGVk"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, sealed]))
    if reply.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(reply.text)]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for number, (name, arguments) in enumerate(reply.calls):
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in pieces(json.dumps(arguments))
        ]
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        blocks.append((block, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield _event({"type": "content_block_start", "index": index, "content_block": block})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    ends = {"stop": "tool_use" if reply.calls else "end_turn", "length": "max_tokens", "refusal": "refusal"}
    delta = {"stop_reason": ends[reply.end], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": written}})
    yield _event({"type": "message_stop"})


_SPOKEN = {"openai": _responses, "openai-compatible": _chat, "anthropic": _messages}


# -- what a model was told -------------------------------------------------------------------------


def told(wire: str, body: Json) -> list[tuple[str, Any]]:
    """The history in a request: (user | assistant, text), (call, name and arguments), (result, text)."""
    return [*_TOLD[wire](body)]


def _chat_told(body: Json) -> Iterator[tuple[str, Any]]:
    for message in body["messages"]:
        if message["role"] in ("system", "developer"):
            continue
        if message["role"] == "tool":
            yield "result", message["content"]
            continue
        if message["content"]:
            yield message["role"], message["content"]
        for call in message.get("tool_calls", ()):
            yield "call", (call["function"]["name"], json.loads(call["function"]["arguments"]))


def _responses_told(body: Json) -> Iterator[tuple[str, Any]]:
    for item in body["input"]:
        kind = item.get("type", "message")
        if kind == "message":
            content = item["content"]
            text = content if isinstance(content, str) else "".join(part["text"] for part in content)
            yield item["role"], text
        elif kind == "function_call":
            yield "call", (item["name"], json.loads(item["arguments"]))
        elif kind == "function_call_output":
            yield "result", item["output"]


def _messages_told(body: Json) -> Iterator[tuple[str, Any]]:
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                yield message["role"], block["text"]
            elif block["type"] == "tool_use":
                yield "call", (block["name"], block["input"])
            elif block["type"] == "tool_result":
                result = block["content"]
                yield "result", result if isinstance(result, str) else "".join(p["text"] for p in result)


_TOLD = {"openai": _responses_told, "openai-compatible": _chat_told, "anthropic": _messages_told}


def opaque_came_back(wire: str, body: Json) -> bool:
    """Whether the sealed thoughts of an earlier reply are in a request."""
    if wire == "openai-compatible":
        return False  # plain servers seal nothing
    return "c2VhbGVk" in json.dumps(body)
