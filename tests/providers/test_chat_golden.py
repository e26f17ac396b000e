"""One conversation with every known Chat Completions server, golden: its stream, with the server's habits,
comes to the same deltas wherever it is cut, and over a real connection too; and what is kept of it goes back
in the server's own words. Any well-paired history makes a body that a checker accepts which knows nothing of
how bodies are made."""

import json
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Delta,
    Effort,
    Finish,
    Finished,
    Image,
    Message,
    ModelInfo,
    Opaque,
    Request,
    TextDelta,
    ThoughtDelta,
    ToolAnswered,
    ToolCallDelta,
    ToolSpec,
    UsageDelta,
    UserSaid,
)
from term2_acp.providers.chat.dialects import DIALECTS, PLAIN, Dialect, dialect_of
from term2_acp.providers.chat.reply import ChatReply
from term2_acp.providers.chat.wire import ChatWire
from term2_acp.providers.http_provider import HttpProvider
from term2_acp.web.sse import SseParser
from tests.kit.model_server import in_pieces, open_model_server

GOLDEN = Path(__file__).parent.parent / "golden" / "wires"
NAMES = [*DIALECTS, "plain"]

THOUGHTS = [ThoughtDelta("I should look"), ThoughtDelta(" at both files.")]
TEXT = [TextDelta("Looking"), TextDelta(" at both — 𝄞.")]
READ, GREP = '{"path":"a.txt"}', '{"pattern":"b+","path":"src"}'

KEPT: dict[str, str | None] = {
    "openai": None,
    "openrouter": '{"wire":"chat","details":[{"type":"reasoning.text","format":"anthropic-claude-v1",'
    '"index":0,"text":"I should look at both files.","signature":"c2lnbmVk"}]}',
    "ollama": '{"wire":"chat","field":"reasoning","text":"I should look at both files."}',
    "llama.cpp": '{"wire":"chat","text":"I should look at both files."}',
    "lmstudio": None,
    "vllm": '{"wire":"chat","field":"reasoning","text":"I should look at both files."}',
    "groq": None,
    "mistral": '{"wire":"chat","text":"I should look at both files."}',
    "deepseek": '{"wire":"chat","text":"I should look at both files."}',
    "gemini": '{"wire":"chat","extra":{"google":{"thought_signature":"dGV4dA=="}},'
    '"calls":[{"google":{"thought_signature":"AY89a18IwQsQ8in/"}},null]}',
    "plain": '{"wire":"chat","text":"I should look at both files."}',
}
USAGE = {
    "openai": UsageDelta(2006, 300, 1920, 0, 256),
    "openrouter": UsageDelta(2006, 300, 1500, 400, 40, 6_137_520_000),
    "ollama": UsageDelta(2006, 300),
    "llama.cpp": UsageDelta(2006, 300, 1800),
    "lmstudio": UsageDelta(2006, 300),
    "vllm": UsageDelta(2006, 300, 1984),
    "groq": UsageDelta(2006, 300, 1024, 0, 30),
    "mistral": UsageDelta(2006, 300, 512),
    "deepseek": UsageDelta(2006, 300, 1920, 0, 25),
    "gemini": UsageDelta(2006, 130, 0, 0, 90),
    "plain": UsageDelta(2006, 300, 256),
}
IDS = {
    "openai": ("call_A1", "call_B2"),
    "openrouter": ("toolu_A1", "toolu_B2"),
    "ollama": ("call_A1", "call_B2"),
    "llama.cpp": ("A1", "B2"),
    "lmstudio": ("A1", "B2"),
    "vllm": ("call_A1", "call_B2"),
    "groq": ("fc_A1", "fc_B2"),
    "mistral": ("Aa1Aa1Aa1", "Bb2Bb2Bb2"),
    "deepseek": ("call_00_A1", "call_01_B2"),
    "gemini": ("function-call-1", "function-call-2"),
    "plain": ("", ""),
}
# Whatever white space a model writes into its arguments stays.
SPACED = {"deepseek": ('{"path": "a.txt"}', '{"pattern": "b+", "path": "src"}')}


def expected(name: str) -> list[Delta]:
    read, grep = SPACED.get(name, (READ, GREP))
    first, second = IDS[name]
    return [
        *([] if name in {"openai", "gemini"} else THOUGHTS),
        *TEXT,
        ToolCallDelta(first, "read_file", read),
        ToolCallDelta(second, "grep", grep),
        USAGE[name],
        Finished(Finish.TOOL_CALLS, KEPT[name]),
    ]


def stream(name: str) -> bytes:
    return (GOLDEN / f"chat-{name}.sse").read_bytes()


def read(pieces: Iterable[bytes], dialect: Dialect) -> list[Any]:
    """What the pieces of a stream come to, as the provider's reader would read them."""
    parser, reply = SseParser(), ChatReply(dialect)
    events = [event for piece in pieces for event in parser.feed(piece)]
    deltas: list[Any] = []
    for event in [*events, *parser.finish()]:
        outcome = reply.feed(event.name, event.data)
        assert outcome is None or isinstance(outcome, list), outcome
        deltas += outcome or []
    end = reply.close()
    assert isinstance(end, list), end
    return deltas + end


@pytest.mark.parametrize("name", NAMES)
def test_the_stream_of_each_server(name: str) -> None:
    assert read([stream(name)], dialect_of(name)) == expected(name)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(NAMES), st.data())
def test_it_does_not_matter_where_a_stream_is_cut(name: str, data: st.DataObject) -> None:
    whole = stream(name)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=40).map(sorted))
    pieces = [whole[start:end] for start, end in pairwise([0, *cuts, len(whole)])]
    assert read(pieces, dialect_of(name)) == expected(name)


def test_bytes_one_by_one() -> None:
    for name in NAMES:
        assert read((bytes([byte]) for byte in stream(name)), dialect_of(name)) == expected(name)


@pytest.mark.parametrize("name", NAMES)
async def test_over_a_real_connection(name: str) -> None:
    async with open_model_server(in_pieces(stream(name), 100)) as server:
        provider = HttpProvider(name, ChatWire(dialect_of(name)), server.base_url, None, idle_s=20)
        deltas: list[Any] = []
        async with provider.stream(Request("m", "", [UserSaid("hi")])) as received:
            while not deltas or not isinstance(deltas[-1], Finished):
                deltas += await received.receive()
        await provider.aclose()
    assert deltas == expected(name)


# -- the way back ----------------------------------------------------------------------------------

PNG, SVG = Image("image/png", "iVBORw0KGgo="), Image("image/svg+xml", "PHN2Zy8+")
TOOLS = (
    ToolSpec(
        "read_file",
        "Reads a file.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    ),
)


def history(name: str) -> list[Message]:
    """A prompt with images, a reply with all that can be kept of it, a failed result, a reply that was cut,
    a prompt, a reply of another model with a call that no server takes as it is, and a prompt behind it."""
    kept = KEPT[name]
    calls = (CallMade("one", "read_file", READ), CallMade("two", "grep", GREP))
    opaque = None if kept is None else Opaque(name, "m", kept)
    return [
        UserSaid("Look at these, then at both files.", (PNG, SVG)),
        AssistantSaid("Looking at both — 𝄞.", calls, opaque),
        ToolAnswered("one", "read_file", "alpha\n"),
        ToolAnswered("two", "grep", "Error: no such folder", failed=True),
        AssistantSaid("The first", cut=True),
        UserSaid("Go on."),
        AssistantSaid("", (CallMade("one", "Read File!", '{"path":'),), Opaque(name, "other", kept or "")),
        ToolAnswered("one", "Read File!", "The arguments are no JSON."),
        UserSaid("Stop."),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_the_request_to_each_server(name: str) -> None:
    request = Request("m", "Be good.", history(name), TOOLS, Effort.HIGH, "session-7")
    info = ModelInfo(output_tokens=100_000, sees_images=True)
    body = ChatWire(dialect_of(name)).body(request, info, name)
    assert json.loads(body) == json.loads((GOLDEN / f"chat-{name}.json").read_bytes())
    check(json.loads(body), dialect_of(name))


# -- an independent checker ------------------------------------------------------------------------


def check(body: dict[str, Any], dialect: Dialect) -> None:
    """What the strictest of the servers want, said anew."""
    known = {"model", "messages", "stream", "stream_options", "tools", "max_tokens"}
    known |= {"reasoning_effort", "reasoning", "thinking", "chat_template_kwargs"}
    known |= {"prompt_cache_key", "cache_control"}
    assert set(body) <= known
    assert body["stream"] is True
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    assert "system" not in roles[1:]
    open_calls: list[str] = []
    seen: set[str] = set()
    for before, message in pairwise([{"role": ""}, *messages]):
        role = message["role"]
        if role == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
            assert isinstance(message["content"], str)
            continue
        assert not open_calls, "a call without its result"
        if role == "user":
            assert before["role"] != "user"
            assert not (dialect.says_after_results and before["role"] == "tool")
            check_parts(message["content"], dialect)
        if role == "assistant":
            assert message.get("content") or message.get("tool_calls")
            assert dialect.null_content or message.get("content", "") is not None
            for call in message.get("tool_calls", ()):
                assert re.fullmatch("[a-zA-Z0-9]{9}", call["id"])
                assert call["id"] not in seen
                assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
                seen.add(call["id"])
                open_calls.append(call["id"])
            assert not dialect.always_reasoning or isinstance(message["reasoning_content"], str)
            if message.get("tool_calls"):
                signed = "extra_content" in message["tool_calls"][0]
                assert signed == (dialect.stand_in_signature is not None)
    assert not open_calls


def check_parts(content: Any, dialect: Dialect) -> None:
    if isinstance(content, str):
        return
    assert any(part["type"] == "image_url" for part in content)
    for part in content:
        if part["type"] == "text":
            assert part["text"]
        else:
            kind = re.fullmatch("data:([a-z/]+);base64,[A-Za-z0-9+/=]*", part["image_url"]["url"])
            assert kind is not None
            assert kind[1] in dialect.image_types


words = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
kept_texts = st.one_of(
    st.sampled_from([kept for kept in KEPT.values() if kept]),
    st.sampled_from(
        ["", "null", "[]", '{"wire":"responses"}', '{"wire":"chat","text":5}', '{"wire":"chat"}']
    ),
    words,
)


@st.composite
def histories(draw: st.DrawFn) -> Sequence[Message]:
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            images = draw(st.lists(st.sampled_from([PNG, SVG, Image("image/jpeg", "/9j/")]), max_size=2))
            messages.append(UserSaid(draw(words), tuple(images)))
            continue
        calls = tuple(
            CallMade(
                draw(st.sampled_from(["", "a", "b"])), draw(words), draw(st.one_of(words, st.just(READ)))
            )
            for _ in range(draw(st.integers(0, 3)))
        )
        # Ids of ours are unique within one reply.
        calls = tuple({call.call_id: call for call in calls}.values())
        opaque = draw(st.none() | st.builds(Opaque, st.just("p"), st.sampled_from("mn"), kept_texts))
        messages.append(AssistantSaid(draw(words), calls, opaque, draw(st.booleans())))
        messages += [ToolAnswered(call.call_id, call.name, draw(words)) for call in calls]
    return messages


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.sampled_from([*DIALECTS.values(), PLAIN]), st.sampled_from(Effort), st.booleans())
def test_any_well_paired_history_makes_a_good_body(
    messages: Sequence[Message],
    dialect: Dialect,
    effort: Effort,
    sees: bool,
) -> None:
    request = Request("m", "Be good.", messages, TOOLS, effort, "key")
    check(json.loads(ChatWire(dialect).body(request, ModelInfo(sees_images=sees), "p")), dialect)
