"""What a reply costs on each wire: a server that is stuck, cuts very small or repeats itself costs time that
grows with what it sends and no faster, so that it cannot hold up the sessions beside it."""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from term2_acp.providers.anthropic.reply import AnthropicReply
from term2_acp.providers.chat.reply import ChatReply
from term2_acp.providers.responses.reply import ResponsesReply
from term2_acp.providers.wire import Broken, Reply
from tests.kit.model_server import call_piece, chunk

Play = Callable[[int], tuple[Reply, Iterable[Any]]]


def blanks(count: int) -> tuple[Reply, Iterable[Any]]:
    return ChatReply(), [chunk(content="\n" * 100)] * count


def braces(count: int) -> tuple[Reply, Iterable[Any]]:
    begins = chunk(tool_calls=[call_piece(None, id="a", name="f", arguments='{"x": "')])
    return ChatReply(), [begins, *[chunk(tool_calls=[call_piece(None, arguments="x" * 99 + "}")])] * count]


def signature(count: int) -> tuple[Reply, Iterable[Any]]:
    delta = {"type": "signature_delta", "signature": "x" * 100}
    begins = {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}}
    return AnthropicReply(), [begins, *[{"type": "content_block_delta", "index": 0, "delta": delta}] * count]


def done_again(count: int) -> tuple[Reply, Iterable[Any]]:
    item = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "x"}]}
    piece = {"type": "response.output_text.delta", "item_id": "m", "delta": "x" * 100}
    return ResponsesReply(), [
        *[piece] * count,
        *[{"type": "response.output_item.done", "item": item}] * count,
    ]


def seconds(play: Play, count: int) -> float:
    """What the events cost, the least of three times."""
    return min(_seconds(*play(count)) for _ in range(3))


def _seconds(reply: Reply, values: Iterable[Any]) -> float:
    events: Sequence[bytes] = [json.dumps(value).encode() for value in values]
    began = time.process_time()
    for event in events:
        assert not isinstance(reply.feed("message", event), Broken)
    return time.process_time() - began


@pytest.mark.parametrize("play", [blanks, braces, signature, done_again])
def test_cost_grows_with_what_is_sent(play: Play) -> None:
    """Eight times as much costs eight times as much; if it grew by the square, it would be 64 times."""
    assert seconds(play, 8_000) < 24 * seconds(play, 1_000)
