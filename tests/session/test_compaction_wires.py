"""Compaction over every wire, with a model server that refuses what is too long in its vendor's words: each
request is one that the vendor takes (calls with their results, sealed thoughts with what they led to), before
a compaction and after it, in this process and in the next; and a server that refuses for ever ends the turn.
"""

import json
from contextlib import asynccontextmanager

import pytest

from term2_acp.providers.base import ModelInfo
from term2_acp.providers.http_provider import HttpProvider
from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.presets import PRESETS
from term2_acp.providers.servers.wires import wire_of
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.model_server import open_model_server, status
from tests.kit.wires import WIRES, Reply, opaque_came_back, speaks, told

REFUSALS = {
    "openai": {
        "message": "Your input exceeds the context window of this model. Please adjust your input.",
        "type": "invalid_request_error",
        "param": "input",
        "code": "context_length_exceeded",
    },
    "openai-compatible": {
        "message": "This model's maximum context length is 8192 tokens, your messages have 9000.",
        "type": "BadRequestError",
        "code": 400,
    },
    "anthropic": {
        "type": "invalid_request_error",
        "message": "prompt is too long: 215000 tokens > 200000 maximum",
    },
}


LONG = {"path": "long.txt"}
LINES = ("long words " * 9 + "\n") * 200  # 20 kB


def looks(thought, *names):
    calls = [("read_file", LONG) if name is LONG else ("reading_probe", {"name": name}) for name in names]
    return Reply(thought, "Let me look.", calls)


class Server:
    """Refuses requests of more than ``most`` bytes, sums up when it is asked to, else says the next reply.

    ``checked`` are the requests, each held to what the vendor takes. One that is ``silent`` does not refuse:
    its reply is empty.
    """

    silent = False

    def __init__(self, wire, replies, most):
        self.wire, self.replies, self.most = wire, list(replies), most
        self.checked, self.refused, self.questions = [], 0, 0

    async def answer(self, call):
        body = call.json
        CHECKS[self.wire](body)
        self.checked.append(body)
        history = told(self.wire, body)
        if len(call.body) > self.most:
            self.refused += 1
            if self.silent:
                await speaks(self.wire, Reply(usage=(9_000, 0, 0)))(call)
                return
            await status(400, json.dumps({"type": "error", "error": REFUSALS[self.wire]}))(call)
        elif "The conversation is about to be cut here." in history[-1][1]:
            self.questions += 1
            await speaks(self.wire, Reply("Hm.", f"Summed up, {self.questions}."))(call)
        else:
            await speaks(self.wire, self.replies.pop(0))(call)


@asynccontextmanager
async def opened(root, wire, *, profile="full"):
    """A function that begins a daemon with the server that it is given."""

    @asynccontextmanager
    async def daemon(server):
        async with open_model_server(server.answer) as there:
            known = Known(
                "lab", wire, there.base_url, "key", like=PRESETS["lmstudio"] if server.silent else None
            )
            info = ModelInfo(context_assumed=True)
            provider = HttpProvider(
                "lab", wire_of(known), there.base_url, "key", idle_s=20, describe=lambda _: info
            )
            async with indoors(root, provider=provider, profile=profile) as inside:
                (inside.workspace / "long.txt").write_text(LINES)
                yield inside
            await provider.aclose()

    yield daemon


def check_chat(body):
    waiting = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting, "a result of no call"
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "a call without its result"
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        assert message.get("content") or waiting, "an empty message"
    assert not waiting
    assert body["messages"][-1]["role"] in ("user", "tool")


def check_messages(body):
    assert body["messages"][0]["role"] == "user"
    waiting = []
    for number, message in enumerate(body["messages"]):
        assert message["role"] == ("user", "assistant")[number % 2], "roles take turns"
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        assert blocks
        kinds = [block["type"] for block in blocks]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert results == waiting, "each call has its result in the next message"
        assert kinds[: len(results)] == ["tool_result"] * len(results), "before anything else"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if "thinking" in kinds:
            assert kinds[0] == "thinking"
            assert kinds[-1] != "thinking", "sealed thoughts go with what they led to"
            assert all(block["signature"] for block in blocks if block["type"] == "thinking")
        assert all(block["text"].strip() for block in blocks if block["type"] == "text")
    assert not waiting
    assert body["messages"][-1]["role"] == "user"


def check_responses(body):
    waiting, thought = [], False
    for item in body["input"]:
        kind, role = item.get("type", "message"), item.get("role")
        by_model = kind == "function_call" or (kind == "message" and role == "assistant")
        assert not thought or by_model, "sealed thoughts go with what they led to"
        thought = kind == "reasoning"
        if kind == "function_call":
            waiting.append(item["call_id"])
        elif kind == "function_call_output":
            assert item["call_id"] in waiting, "a result of no call"
            waiting.remove(item["call_id"])
        elif role == "user":
            assert not waiting, "a call without its result"
    assert not waiting
    assert not thought


CHECKS = {"openai": check_responses, "openai-compatible": check_chat, "anthropic": check_messages}

MOST = 46_000
DONE = Reply("", "Done.")
PROMPTS = ("look", "look again", "and again", "at last")
REPLIES = (
    looks("I look at two.", LONG, "b"),
    DONE,
    looks("I look once more.", LONG),
    looks("And again.", "c", "d"),
    DONE,
    looks("Third.", LONG),
    looks("Fourth.", "e"),
    DONE,
    DONE,
)


async def replayed(inside, session_id):
    params = {"sessionId": session_id, "cwd": str(inside.workspace), "replayFrom": {"type": "start"}}
    start = len(inside.editor.frames)
    await inside.editor.request("session/resume", params)
    return fold(inside.editor.updates(session_id, start))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_outgrows_its_context_again_and_again(tmp_path, wire):
    async with opened(tmp_path, wire) as daemon:
        server = Server(wire, REPLIES, MOST)
        async with daemon(server) as inside:
            await inside.editor.initialize()
            session_id = await inside.editor.new_session(inside.workspace)
            for prompt in PROMPTS:
                turn = await inside.editor.prompt(session_id, prompt)
                assert turn.updates[-1]["stopReason"] == "end_turn", turn.updates[-1]
            live = fold(inside.editor.updates(session_id))
            assert await replayed(inside, session_id) == live
        assert server.refused >= 2
        assert server.questions >= 2, "two in a row, the second with the first one's summary"
        assert not server.replies
        sealed = [opaque_came_back(wire, body) for body in server.checked]
        assert any(sealed) == (wire != "openai-compatible")
        last = told(wire, server.checked[-1])
        again = Server(wire, [DONE], MOST)
        async with daemon(again) as inside:
            await inside.editor.initialize()
            assert await replayed(inside, session_id) == live
            await inside.editor.prompt(session_id, "still?")
        assert told(wire, again.checked[0])[: len(last)] == last, "the next process tells the same"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_refuses_for_ever_ends_the_turn_with_a_sentence(tmp_path, wire):
    async with opened(tmp_path, wire) as daemon:
        server = Server(wire, REPLIES, MOST)
        async with daemon(server) as inside:
            await inside.editor.initialize()
            session_id = await inside.editor.new_session(inside.workspace)
            await inside.editor.prompt(session_id, "look")
            server.most, before = 0, len(server.checked)
            for calls in (3, 6):  # the turn's, the summary's, and half of it
                turn = await inside.editor.prompt(session_id, "more")
                idle = turn.updates[-1]
                assert idle["stopReason"] == "_term2_error"
                assert idle["_meta"]["term2"]["error"]["code"] == "context_overflow"
                assert idle["_meta"]["term2"]["usage"]["modelCalls"] == 3
                assert len(server.checked) - before == calls
                (sentence,) = [u["content"][0]["text"] for u in turn.of("agent_message")]
                assert "too long" in sentence
            server.most = MOST
            server.replies = [DONE]
            assert (await inside.editor.prompt(session_id, "and now?")).text == "Done."


@pytest.mark.parametrize("wire", WIRES)
async def test_the_first_request_of_a_session_may_be_too_long(tmp_path, wire):
    async with opened(tmp_path, wire, profile="baseline") as daemon:
        server = Server(wire, [DONE], 0)
        async with daemon(server) as inside:
            session_id, turn = await inside.begin("hi")
            assert await turn.ended() == "_term2_error"
            assert (len(server.checked), server.questions) == (1, 0)
            assert len(turn.of("agent_message")) == 1, "nothing was summed up"
            server.most = MOST
            assert (await inside.editor.prompt(session_id, "hi again")).text == "Done."


async def test_a_server_that_answers_with_nothing_is_compacted_for_once(tmp_path):
    """As LM Studio does."""
    async with opened(tmp_path, "openai-compatible") as daemon:
        server = Server("openai-compatible", [looks("", LONG), looks("", LONG), DONE, DONE], MOST)
        server.silent = True
        async with daemon(server) as inside:
            await inside.editor.initialize()
            session_id = await inside.editor.new_session(inside.workspace)
            assert (await inside.editor.prompt(session_id, "look")).text.endswith("Done.")
            assert (server.refused, server.questions) == (2, 1), "the question was halved"
            server.most, before = 0, len(server.checked)
            turn = await inside.editor.prompt(session_id, "more")
            assert turn.updates[-1]["_meta"]["term2"]["error"]["code"] == "context_overflow"
            (sentence,) = [u["content"][0]["text"] for u in turn.of("agent_message")]
            assert sentence.startswith("The model server of lab answered with nothing, as it does when")
            assert len(server.checked) - before == 3
            assert turn.updates[-1]["_meta"]["term2"]["usage"]["inputTokens"] == 27_000, "what it counted"
