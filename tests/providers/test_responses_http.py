"""The Responses wire under the provider, against a loopback server with real sockets: what is asked again,
what is not, and that no call comes out of a stream without its terminal event. What every wire has in common
(statuses, silence, pools) is tested once, with the Chat Completions wire."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    ContextOverflow,
    Delta,
    Effort,
    Failed,
    Finish,
    Finished,
    ModelInfo,
    Opaque,
    Overloaded,
    RateLimited,
    Request,
    RequestRefused,
    StreamBroke,
    StreamSilent,
    TextDelta,
    ToolAnswered,
    ToolCallDelta,
    UsageDelta,
    UserSaid,
)
from term2_acp.providers.http_provider import HttpProvider
from term2_acp.providers.responses.wire import ResponsesWire
from tests.kit.model_server import (
    Answer,
    Call,
    ModelServer,
    breaks_after,
    event,
    in_pieces,
    open_model_server,
    plays,
    status,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "wires"
KEY = "sk-test-0123456789"
REQUEST = Request("gpt-astra", "", [UserSaid("hi")])
CREATED = {"type": "response.created", "response": {"status": "in_progress"}}
WORKING = {"type": "response.in_progress", "response": {"status": "in_progress"}}
THINKS = {"type": "response.output_item.added", "output_index": 0, "item": {"id": "rs", "type": "reasoning"}}
HALF = {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": "half"}
CALL = {"id": "fc", "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
CALL_DONE = {"type": "response.output_item.done", "output_index": 1, "item": CALL}
COMPLETED = {"type": "response.completed", "response": {"usage": {"input_tokens": 3, "output_tokens": 2}}}
OK: list[Delta] = [TextDelta("half"), UsageDelta(3, 2), Finished(Finish.STOP)]


def error(code: str | None, message: str = "words") -> dict[str, Any]:
    return {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 2}


def nested(code: str, message: str = "words") -> dict[str, Any]:
    return {"type": "error", "error": {"type": "tokens", "code": code, "message": message}}


def failed(code: str, message: str = "words") -> dict[str, Any]:
    return {"type": "response.failed", "response": {"error": {"code": code, "message": message}}}


def stream(*values: Any) -> Answer:
    return plays(*values, done=False)


OK_ANSWER = stream(CREATED, HALF, COMPLETED)


@asynccontextmanager
async def lab(*answers: Answer, idle_s: float = 20.0) -> AsyncIterator[tuple[HttpProvider, ModelServer]]:
    info = ModelInfo(efforts=frozenset({Effort.HIGH}))
    async with open_model_server(*answers) as server:
        provider = HttpProvider(
            "lab",
            ResponsesWire(),
            server.base_url,
            KEY,
            idle_s=idle_s,
            describe=lambda _model: info,
            random=lambda: -0.99,  # waits of milliseconds
        )
        yield provider, server
        await provider.aclose()


async def ask(provider: HttpProvider, request: Request = REQUEST) -> list[Delta]:
    out: list[Delta] = []
    async with provider.stream(request) as deltas:
        while not out or not isinstance(out[-1], Finished | Failed):
            out += await deltas.receive()
    return out


def failure(deltas: list[Delta]) -> Any:
    assert isinstance(deltas[-1], Failed), deltas
    assert KEY not in deltas[-1].error.message
    return deltas[-1].error


async def test_a_reply_and_the_request_that_asked_for_it() -> None:
    async with lab(OK_ANSWER) as (provider, server):
        assert await ask(provider) == OK
        call = server.calls[0]
        assert (call.method, call.path) == ("POST", "/v1/responses")
        assert call.headers["authorization"] == f"Bearer {KEY}"
        assert call.json["input"][0]["content"] == [{"type": "input_text", "text": "hi"}]
        assert call.json["include"] == ["reasoning.encrypted_content"]


async def test_the_reasoning_of_one_reply_goes_back_with_the_next_request() -> None:
    golden = in_pieces((GOLDEN / "responses-calls.sse").read_bytes(), 7)
    async with lab(golden, OK_ANSWER) as (provider, server):
        deltas = await ask(provider)
        end = deltas[-1]
        assert isinstance(end, Finished)
        assert end.opaque is not None
        calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
        made = tuple(CallMade(f"ours-{call.call_id}", call.name, call.arguments) for call in calls)
        text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
        reply = AssistantSaid(text, made, Opaque("lab", "gpt-astra", end.opaque))
        results = [ToolAnswered(call.call_id, call.name, "result") for call in made]
        assert await ask(provider, Request("gpt-astra", "", [UserSaid("hi"), reply, *results])) == OK
        sent = server.calls[1].json["input"][1:]
        assert [item["type"] for item in sent] == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
            "function_call_output",
            "function_call_output",
        ]
        assert sent[0]["encrypted_content"] == "gAAAAB-notes-first=="
        assert [item["call_id"] for item in sent[2:]] == ["call_a1", "call_a2"] * 2


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [
        [error("rate_limit_exceeded")],
        [CREATED, WORKING, nested("rate_limit_exceeded")],
        [CREATED, failed("rate_limit_exceeded")],
        [CREATED, failed("server_error")],
        [CREATED, WORKING, error("server_is_overloaded")],
    ],
)
async def test_what_may_pass_is_asked_again_if_nothing_of_an_answer_came(first: list[Any]) -> None:
    async with lab(stream(*first), OK_ANSWER) as (provider, server):
        assert await ask(provider) == OK
        assert len(server.calls) == 2


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        ([error("invalid_prompt")], RequestRefused),
        ([CREATED, WORKING, error(None)], RequestRefused),
        ([CREATED, failed("bio_policy")], RequestRefused),
        ([CREATED, failed("context_length_exceeded")], ContextOverflow),
        ([CREATED, nested("insufficient_quota")], RateLimited),
        ([CREATED, {"type": "response.failed", "response": {}}], StreamBroke),
        ([CREATED, WORKING], StreamBroke),
    ],
)
async def test_what_asking_again_cannot_help_is_one_request(first: list[Any], kind: type) -> None:
    async with lab(stream(*first), OK_ANSWER) as (provider, server):
        assert type(failure(await ask(provider))) is kind
        assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("events", "before", "kind"),
    [
        ([HALF, error("rate_limit_exceeded")], [TextDelta("half")], RateLimited),
        ([HALF, failed("server_error", f"the key {KEY}\nis gone")], [TextDelta("half")], Overloaded),
        ([THINKS, error("server_error")], [], Overloaded),
    ],
)
async def test_behind_the_beginning_of_an_answer_nothing_is_asked_again(
    events: list[Any], before: list[Delta], kind: type
) -> None:
    async with lab(stream(CREATED, *events), OK_ANSWER) as (provider, server):
        deltas = await ask(provider)
        assert deltas[:-1] == before
        assert type(failure(deltas)) is kind
        assert len(server.calls) == 1


async def test_a_status_is_told_in_the_words_of_the_server() -> None:
    body = {"error": {"message": "no such model", "type": "invalid_request_error", "code": "model_not_found"}}
    async with lab(status(400, json.dumps(body)), OK_ANSWER) as (provider, server):
        assert "no such model" in failure(await ask(provider)).message
        assert len(server.calls) == 1


# -- streams without their end ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        stream(CREATED, HALF, CALL_DONE),
        plays(CREATED, HALF, CALL_DONE),
        breaks_after(CREATED, HALF, CALL_DONE),
        stream(CREATED, HALF, CALL_DONE, "{nonsense"),
    ],
    ids=["ends", "[DONE]", "breaks", "no JSON"],
)
async def test_a_stream_without_its_terminal_event_runs_no_call(answer: Answer) -> None:
    async with lab(answer, OK_ANSWER) as (provider, server):
        deltas = await ask(provider)
        assert deltas[:-1] == [TextDelta("half")]
        assert isinstance(failure(deltas), StreamBroke)
        assert len(server.calls) == 1


async def test_a_call_runs_once_the_terminal_event_is_there_even_if_the_connection_then_breaks() -> None:
    async with lab(breaks_after(CREATED, CALL_DONE, COMPLETED)) as (provider, _):
        assert await ask(provider) == [
            ToolCallDelta("c", "f", "{}"),
            UsageDelta(3, 2),
            Finished(Finish.TOOL_CALLS),
        ]


async def test_nothing_is_waited_for_behind_the_terminal_event() -> None:
    answer = plays(CREATED, HALF, COMPLETED, done=False, end=False)
    async with lab(answer) as (provider, server):
        with trio.fail_after(2):
            assert await ask(provider) == OK
            await server.until_sockets(0)


def repeats(value: Any, *before: Any, every_s: float = 0.02) -> Answer:
    """Events, then one of them again and again until the client leaves."""

    async def answer(call: Call) -> None:
        await call.head()
        await call.send("".join(map(event, before)))
        while not call.left.is_set():
            await call.send(event(value))
            with trio.move_on_after(every_s):
                await call.left.wait()

    return answer


@pytest.mark.parametrize("answer", [repeats(WORKING, CREATED), repeats({"type": "keepalive"}, CREATED, HALF)])
async def test_events_that_carry_nothing_are_silence(answer: Answer) -> None:
    async with lab(answer, OK_ANSWER, idle_s=0.2) as (provider, server):
        assert isinstance(failure(await ask(provider)), StreamSilent)
        assert len(server.calls) == 1


async def test_a_server_that_thinks_unseen_may_take_longer_than_the_watchdog() -> None:
    async def answer(call: Call) -> None:
        await call.head()
        await call.send(event(CREATED) + event(THINKS))
        for _ in range(6):
            await trio.sleep(0.15)
            await call.send(event({"type": "keepalive", "sequence_number": 3}))
        await call.send(event(HALF) + event(COMPLETED))
        await call.end()

    async with lab(answer, idle_s=0.5) as (provider, _):
        assert await ask(provider) == OK


@pytest.mark.parametrize("before", [[], [CREATED], [CREATED, HALF], [CREATED, CALL_DONE]])
async def test_a_cancel_closes_the_socket(before: list[Any]) -> None:
    async with lab(plays(*before, done=False, end=False)) as (provider, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, provider)
            call = await server.until_call(1)
            await call.reached.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            await server.until_sockets(0)
        assert len(server.calls) == 1
