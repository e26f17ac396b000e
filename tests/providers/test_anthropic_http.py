"""The Messages wire through the provider, against a loopback server with real sockets: what is asked, which
faults are worth another try, what stands of a reply that breaks, and that a cancel closes the socket."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from term2_acp.providers.anthropic.wire import AnthropicWire
from term2_acp.providers.base import (
    AuthenticationFailed,
    ContextOverflow,
    Delta,
    Failed,
    Finish,
    Finished,
    Overloaded,
    ProviderError,
    RateLimited,
    Request,
    RequestRefused,
    StreamBroke,
    StreamSilent,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
    UserSaid,
)
from term2_acp.providers.http_provider import HttpProvider
from tests.kit.model_server import Answer, Call, ModelServer, in_pieces, open_model_server, status

KEY = "sk-ant-test-0123456789"
REQUEST = Request("claude-opus-5-5", "", [UserSaid("hi")])


def event(kind: str, **rest: Any) -> str:
    """One event as the server writes it."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **rest})}\n\n"


START = event("message_start", message={"usage": {"input_tokens": 3, "output_tokens": 1}})
PING = event("ping")
TEXT = (
    event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    + event("content_block_delta", index=0, delta={"type": "text_delta", "text": "ok"})
    + event("content_block_stop", index=0)
)
CALL = (
    event(
        "content_block_start",
        index=1,
        content_block={"type": "tool_use", "id": "t", "name": "f", "input": {}},
    )
    + event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{}"})
    + event("content_block_stop", index=1)
)
STOP = event("message_stop")


def end(reason: str) -> str:
    return event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 4})


def error(kind: str, message: str = "words") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def fails(kind: str, message: str = "words") -> str:
    return event("error", **error(kind, message))


WHOLE = START + PING + TEXT + CALL + end("tool_use") + STOP
DELTAS: list[Delta] = [
    UsageDelta(3, 1),
    TextDelta("ok"),
    ToolCallDelta("t", "f", "{}"),
    UsageDelta(3, 4),
    Finished(Finish.TOOL_CALLS),
]


def plays(*parts: str, then: str = "end") -> Answer:
    """Parts of a stream, each in a chunk of its own; then a clean end, nothing, or pings for ever."""

    async def answer(call: Call) -> None:
        await call.head()
        for part in parts:
            await call.send(part)
        if then == "end":
            await call.end()
        elif then == "nothing":
            await call.pause()
        while then == "pings" and not call.left.is_set():
            await call.send(PING)
            with trio.move_on_after(0.02):
                await call.left.wait()

    return answer


@asynccontextmanager
async def lab(
    *answers: Answer, idle_s: float = 20.0, key: str | None = KEY
) -> AsyncIterator[tuple[HttpProvider, ModelServer]]:
    async with open_model_server(*answers) as server:
        provider = HttpProvider(
            "lab", AnthropicWire(), server.base_url, key, idle_s=idle_s, random=lambda: 0.0
        )
        yield provider, server
        await provider.aclose()


async def ask(provider: HttpProvider) -> list[Delta]:
    deltas: list[Delta] = []
    async with provider.stream(REQUEST) as stream:
        while not deltas or not isinstance(deltas[-1], Finished | Failed):
            deltas += await stream.receive()
    return deltas


def failure(deltas: list[Delta]) -> ProviderError:
    assert isinstance(deltas[-1], Failed)
    assert KEY not in deltas[-1].error.message
    return deltas[-1].error


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_reply_and_the_request_that_asked_for_it(size: int) -> None:
    async with lab(in_pieces(WHOLE.encode(), size)) as (provider, server):
        assert await ask(provider) == DELTAS
        call = server.calls[0]
        assert (call.method, call.path) == ("POST", "/v1/messages")
        assert call.headers["x-api-key"] == KEY
        assert call.headers["anthropic-version"] == "2023-06-01"
        assert "authorization" not in call.headers
        assert call.json["stream"] is True
        assert call.json["model"] == "claude-opus-5-5"


async def test_without_a_key_none_is_sent() -> None:
    async with lab(plays(WHOLE), key=None) as (provider, server):
        assert await ask(provider) == DELTAS
        assert "x-api-key" not in server.calls[0].headers


async def test_the_connection_is_used_again() -> None:
    async with lab(plays(WHOLE)) as (provider, server):
        assert await ask(provider) == await ask(provider) == DELTAS
        assert server.accepted == 1


@pytest.mark.parametrize(
    ("before", "kind"),
    [
        ((), "overloaded_error"),
        ((PING,), "rate_limit_error"),
        ((START,), "api_error"),
        ((START, PING), "timeout_error"),
    ],
)
async def test_an_error_before_the_first_word_is_tried_again(before: tuple[str, ...], kind: str) -> None:
    async with lab(plays(*before, fails(kind)), plays(WHOLE)) as (provider, server):
        assert await ask(provider) == DELTAS
        assert len(server.calls) == 2
        assert server.calls[0].body == server.calls[1].body


async def test_an_error_after_words_is_not_and_they_stand() -> None:
    async with lab(plays(START, TEXT, CALL, fails("overloaded_error")), plays(WHOLE)) as (provider, server):
        deltas = await ask(provider)
        assert isinstance(failure(deltas), Overloaded)
        assert deltas[:-1] == [UsageDelta(3, 1), TextDelta("ok")]
        assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("kind", "message", "error_type"),
    [
        ("invalid_request_error", "max_tokens: too high", RequestRefused),
        ("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum", ContextOverflow),
        ("authentication_error", "invalid x-api-key", AuthenticationFailed),
        ("permission_error", "no access", AuthenticationFailed),
        ("not_found_error", "model: claude-opus-9", RequestRefused),
        ("billing_error", "no credit", RateLimited),
    ],
)
async def test_an_error_that_trying_again_cannot_help_is_one_request(
    kind: str, message: str, error_type: type[ProviderError]
) -> None:
    async with lab(plays(START, fails(kind, message)), plays(WHOLE)) as (provider, server):
        assert type(failure(await ask(provider))) is error_type
        assert len(server.calls) == 1


@pytest.mark.parametrize("code", [429, 500, 529])
async def test_a_status_that_passes_is_tried_again(code: int) -> None:
    async with lab(status(code, json.dumps(error("overloaded_error"))), plays(WHOLE)) as (provider, server):
        assert await ask(provider) == DELTAS
        assert len(server.calls) == 2


@pytest.mark.parametrize(
    ("code", "kind", "error_type"),
    [
        (401, "authentication_error", AuthenticationFailed),
        (403, "permission_error", AuthenticationFailed),
        (403, "billing_error", RateLimited),
        (404, "not_found_error", RequestRefused),
        (413, "request_too_large", ContextOverflow),
        (400, "invalid_request_error", RequestRefused),
    ],
)
async def test_a_status_that_does_not_is_one_request(
    code: int, kind: str, error_type: type[ProviderError]
) -> None:
    body = json.dumps(error(kind, f"refused, {KEY}"))
    async with lab(status(code, body), plays(WHOLE)) as (provider, server):
        told = failure(await ask(provider))
        assert type(told) is error_type
        assert "refused, [redacted]" in told.message
        assert len(server.calls) == 1


@pytest.mark.parametrize(
    "parts",
    [
        (START, TEXT, CALL),
        (START, TEXT, CALL, STOP),
        (START, TEXT, CALL, end("tool_use").replace("tool_use", "who_knows"), STOP),
        (START, TEXT, CALL, CALL, end("tool_use"), STOP),
    ],
)
async def test_a_reply_that_is_not_whole_runs_nothing(parts: tuple[str, ...]) -> None:
    async with lab(plays(*parts)) as (provider, server):
        deltas = await ask(provider)
        assert isinstance(failure(deltas), StreamBroke)
        assert deltas[:-1] == [UsageDelta(3, 1), TextDelta("ok")]
        assert len(server.calls) == 1


async def test_a_body_that_ends_behind_the_stop_reason_is_whole() -> None:
    async with lab(plays(START, TEXT, CALL, end("tool_use"))) as (provider, _):
        assert await ask(provider) == DELTAS


async def test_pings_do_not_keep_a_silent_server_alive() -> None:
    async with lab(plays(START, TEXT, then="pings"), idle_s=0.3) as (provider, server):
        deltas = await ask(provider)
        assert isinstance(failure(deltas), StreamSilent)
        assert deltas[:-1] == [UsageDelta(3, 1), TextDelta("ok")]
        await server.until_sockets(0)


@pytest.mark.parametrize("parts", [(), (START, PING), (START, TEXT, CALL)])
async def test_a_cancel_closes_the_socket(parts: tuple[str, ...]) -> None:
    async with lab(plays(*parts, then="nothing")) as (provider, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, provider)
            call = await server.until_call(1)
            await call.reached.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(5):
            await server.until_sockets(0)
