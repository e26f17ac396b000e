"""A Chat Completions provider against a loopback server with real sockets: every way in which a server can
fail, stall, lie or be left, and what the reader of the deltas sees of it. Retries run with the least
jitter, so they are quick; silences are real and short."""

import gc
import json
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from term2_acp.providers.base import (
    AssistantSaid,
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    Delta,
    DeltaStream,
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
    ToolCallDelta,
    UsageDelta,
    UserSaid,
)
from term2_acp.providers.chat.dialects import DIALECTS
from term2_acp.providers.chat.wire import ChatWire
from term2_acp.providers.http_provider import HttpProvider
from tests.kit.model_server import (
    USAGE,
    Answer,
    Call,
    ModelServer,
    body,
    breaks_after,
    call_piece,
    calls,
    chunk,
    event,
    head_only,
    in_pieces,
    keeps_alive,
    never,
    open_model_server,
    plays,
    refuse,
    says,
    status,
)

KEY = "sk-test-0123456789"
REQUEST = Request("m", "", [UserSaid("hi")])
HALF_CALL = chunk(tool_calls=[call_piece(0, id="a", name="f", arguments='{"x"')])
OK: list[Delta] = [TextDelta("ok"), UsageDelta(11, 7), Finished(Finish.STOP)]


@asynccontextmanager
async def lab(
    *answers: Answer, idle_s: float = 20.0, random: Callable[[], float] = lambda: 0.0
) -> AsyncIterator[tuple[HttpProvider, ModelServer]]:
    async with open_model_server(*answers) as server:
        provider = HttpProvider(
            "lab", ChatWire(), server.base_url, KEY, idle_s=idle_s, key_source="LAB_KEY", random=random
        )
        yield provider, server
        await provider.aclose()


async def read(deltas: DeltaStream) -> list[Delta]:
    """The whole stream. Also holds the protocol: never an empty list, and nothing after the end."""
    out: list[Delta] = []
    while True:
        piece = await deltas.receive()
        assert piece
        out += piece
        assert not any(isinstance(delta, Finished | Failed) for delta in out[:-1])
        if isinstance(out[-1], Finished | Failed):
            return out


async def ask(provider: HttpProvider, request: Request = REQUEST) -> list[Delta]:
    async with provider.stream(request) as deltas:
        return await read(deltas)


def failure(deltas: Sequence[Delta]) -> Any:
    assert isinstance(deltas[-1], Failed), deltas
    error = deltas[-1].error
    assert KEY not in error.message
    assert len(error.message) <= 300
    assert "\n" not in error.message
    return error


async def test_a_reply_and_the_request_that_asked_for_it() -> None:
    async with lab(says("ok")) as (provider, server):
        assert await ask(provider) == OK
        call = server.calls[0]
        assert (call.method, call.path) == ("POST", "/v1/chat/completions")
        assert call.headers["authorization"] == f"Bearer {KEY}"
        assert call.headers["content-type"] == "application/json"
        assert call.json["stream"] is True
        assert call.json["messages"] == [{"role": "user", "content": "hi"}]


async def test_a_call() -> None:
    async with lab(calls("read_file", {"path": "a"})) as (provider, _):
        assert await ask(provider) == [
            ToolCallDelta("call_1", "read_file", '{"path": "a"}'),
            UsageDelta(11, 7),
            Finished(Finish.TOOL_CALLS),
        ]


EMPTY: list[Delta] = [UsageDelta(11, 7), Finished(Finish.STOP)]
ZEROS = {"choices": [], "usage": {"prompt_tokens": 32767, "completion_tokens": 0}}
FITS_NOT = (
    "Input does not fit in context length. The input has 31430 tokens, but it only supports 30000 tokens."
)
LM_STUDIO_SAYS = (
    "event: error\ndata: " + json.dumps({"error": {"message": FITS_NOT}, "message": FITS_NOT}) + "\n\n"
)


@asynccontextmanager
async def lm_studio(answer: Answer, info: ModelInfo) -> AsyncIterator[HttpProvider]:
    async with open_model_server(answer) as server:
        wire = ChatWire(DIALECTS["lmstudio"])
        yield HttpProvider("lmstudio", wire, server.base_url, None, idle_s=20, describe=lambda _: info)


@pytest.mark.parametrize(
    ("info", "size"),
    [(ModelInfo(context_assumed=True), 1), (ModelInfo(8_000), 9_000)],
    ids=["unknown", "crowded"],
)
async def test_an_empty_reply_of_lm_studio_is_a_request_that_was_too_long(info: ModelInfo, size: int) -> None:
    request = Request("m", "", [UserSaid("x" * size)])
    async with lm_studio(plays(chunk(role="assistant"), chunk("stop"), ZEROS), info) as provider:
        deltas = await ask(provider, request)
        assert deltas[0] == UsageDelta(32767, 0), "what was counted of it is told"
        error = failure(deltas)
        assert isinstance(error, ContextOverflow)
        assert "answered with nothing" in error.message
        assert error.message.endswith("Load the model with a larger one, or start a new session.")
        await provider.aclose()


async def test_an_empty_reply_to_a_request_that_had_room_is_one() -> None:
    async with lm_studio(plays(chunk(role="assistant"), chunk("stop"), USAGE), ModelInfo(8_000)) as provider:
        assert await ask(provider) == EMPTY
        await provider.aclose()
    async with lab(plays(chunk(role="assistant"), chunk("stop"), USAGE)) as (other, _):
        assert await ask(other) == EMPTY, "another server's says nothing of its context"


async def test_lm_studio_may_say_so_too() -> None:
    async with lm_studio(body(LM_STUDIO_SAYS.encode(), "text/event-stream"), ModelInfo(8_000)) as provider:
        error = failure(await ask(provider))
        assert isinstance(error, ContextOverflow)
        assert "31430 tokens" in error.message
        await provider.aclose()


CUT_AT_ONCE = {"choices": [], "usage": {"prompt_tokens": 8191, "completion_tokens": 1}}


async def test_a_reply_that_is_cut_before_its_first_word_had_no_room() -> None:
    """As Ollama's, which cuts a request to its context and then has no token left."""
    async with lab(plays(chunk(role="assistant", content=""), chunk("length"), CUT_AT_ONCE)) as (provider, _):
        deltas = await ask(provider)
        assert deltas[0] == UsageDelta(8191, 1)
        assert isinstance(failure(deltas), ContextOverflow)
    async with lab(plays(chunk("length"))) as (provider, server):
        assert isinstance(failure(await ask(provider)), ContextOverflow)
        assert len(server.calls) == 1
    hidden = {"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 4096}}
    for value in (hidden, chunk(content="x"), chunk(reasoning="x"), HALF_CALL):
        async with lab(plays(value, chunk("length"))) as (provider, _):
            assert (await ask(provider))[-1] == Finished(Finish.LENGTH), "it wrote, shown or not"


async def test_no_key_sends_no_header() -> None:
    async with open_model_server(says("ok")) as server:
        provider = HttpProvider("lab", ChatWire(), server.base_url + "/", None, idle_s=5)
        assert await ask(provider) == OK
        assert "authorization" not in server.calls[0].headers
        assert server.calls[0].path == "/v1/chat/completions"
        await provider.aclose()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
async def test_text_is_exact_in_pieces_of_one_byte(end: str) -> None:
    text = "a\u2028b\u2029c\u0085d\u000be — 𝄞é"
    stream = (
        "\ufeff: hi"
        + end
        + "".join(
            event(json.dumps(value, ensure_ascii=False), end)
            for value in (chunk(content=text), chunk(content="!"), chunk("stop"))
        )
    )
    async with lab(in_pieces(stream.replace("data: ", "data:").encode())) as (provider, _):
        deltas = await ask(provider)
    assert deltas == [TextDelta(text), TextDelta("!"), Finished(Finish.STOP)]


async def test_what_arrives_in_one_read_is_one_list() -> None:
    stream = "".join(event(value) for value in [chunk(content="x")] * 64 + [chunk("stop"), "[DONE]"])
    async with lab(body(stream.encode(), "text/event-stream")) as (provider, _):
        async with provider.stream(REQUEST) as deltas:
            assert await deltas.receive() == [TextDelta("x")] * 64 + [Finished(Finish.STOP)]


async def test_the_connection_is_used_again() -> None:
    async with lab(says("ok")) as (provider, server):
        for _ in range(3):
            assert await ask(provider) == OK
        assert server.accepted == 1


# -- streams that end as they should not -----------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        plays(chunk(content="half"), done=False),
        plays(chunk(content="half")),
        plays(chunk(content="half"), HALF_CALL, done=False),
        plays(chunk(content="half"), chunk(None)),
        plays(chunk(content="half"), HALF_CALL, chunk("stop")),
        plays(chunk(content="half"), chunk("tool_calls")),
        breaks_after(chunk(content="half")),
        plays(chunk(content="half"), "{nonsense"),
    ],
    ids=[
        "end without [DONE]",
        "[DONE] without a reason",
        "end in a call",
        "null, then [DONE]",
        "stop with half a call",
        "calls without any",
        "reset",
        "no JSON",
    ],
)
async def test_a_stream_without_its_end_is_broken_and_the_text_stands(answer: Answer) -> None:
    async with lab(answer, says("never asked for")) as (provider, server):
        deltas = await ask(provider)
        assert deltas[:-1] == [TextDelta("half")]
        assert isinstance(failure(deltas), StreamBroke)
        assert len(server.calls) == 1


async def test_a_finish_reason_is_enough_if_the_connection_breaks_after_it() -> None:
    async with lab(breaks_after(chunk(content="ok"), chunk("stop"))) as (provider, _):
        assert await ask(provider) == [TextDelta("ok"), Finished(Finish.STOP)]


async def test_a_last_event_without_its_blank_line_counts() -> None:
    stream = event(chunk(content="ok")) + event(chunk("stop")).rstrip("\n")
    async with lab(body(stream.encode(), "text/event-stream")) as (provider, _):
        assert await ask(provider) == [TextDelta("ok"), Finished(Finish.STOP)]


async def test_length_keeps_the_text_and_drops_the_half_call() -> None:
    async with lab(plays(chunk(content="x"), HALF_CALL, chunk("length"))) as (provider, _):
        assert await ask(provider) == [TextDelta("x"), Finished(Finish.LENGTH)]


async def test_an_end_that_never_comes_behind_done_is_waited_for_only_a_moment() -> None:
    async with lab(plays(chunk(content="ok"), chunk("stop"), USAGE, end=False)) as (provider, server):
        assert await ask(provider) == OK
        with trio.fail_after(2):
            await server.until_sockets(0)


# -- errors inside a 200 ---------------------------------------------------------------------------


async def test_an_error_in_the_middle_keeps_the_text_and_tells_the_reason() -> None:
    error = {"error": {"message": f"the key {KEY} is\ngone", "type": "invalid_request_error"}}
    async with lab(plays(chunk(content="half"), error), says("no")) as (provider, server):
        deltas = await ask(provider)
        assert deltas[0] == TextDelta("half")
        error_ = failure(deltas)
        assert isinstance(error_, RequestRefused)
        assert "the key [redacted] is gone" in error_.message
        assert len(server.calls) == 1


async def test_a_named_error_event() -> None:
    async def answer(call: Call) -> None:
        await call.head()
        await call.send('event: error\ndata: {"message": "bad model", "type": "not_found_error"}\n\n')
        await call.end()

    async with lab(answer, says("no")) as (provider, server):
        error = failure(await ask(provider))
        assert isinstance(error, RequestRefused)
        assert "bad model" in error.message
        assert len(server.calls) == 1


async def test_an_overload_inside_a_200_is_tried_again_if_it_is_the_first_event() -> None:
    overload = {"error": {"message": "busy", "code": 529}}
    async with lab(plays(overload), says("ok")) as (provider, server):
        assert await ask(provider) == OK
        assert len(server.calls) == 2


async def test_an_overload_behind_text_is_not_tried_again() -> None:
    overload = {"error": {"message": "busy", "type": "overloaded_error"}}
    async with lab(plays(chunk(content="half"), overload), says("no")) as (provider, server):
        assert isinstance(failure(await ask(provider)), Overloaded)
        assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (body(b"<html><title>Welcome</title>\n<p>hi", "text/html"), StreamBroke, "Welcome"),
        (
            body(b"<title>Log in</title>\n<img src='data:image/png;base64,AA'>", "text/html"),
            StreamBroke,
            "something else than a stream: Log in",
        ),
        (
            body(b'{"error": {"message": "no such model", "code": 404}}', "application/json"),
            RequestRefused,
            "no such",
        ),
        (
            body(b'{"error": {"message": "no such model"}}', "text/event-stream"),
            RequestRefused,
            "no such model",
        ),
        (body(b'{"choices": []}', "application/json"), StreamBroke, "something else than a stream"),
        (body(b"", "text/event-stream"), StreamBroke, "empty answer"),
        (body(b"\n\n: hi\n\n", "text/event-stream"), StreamBroke, "something else"),
        (body(b"data: [DONE]\n\n", "text/event-stream"), StreamBroke, "in the middle"),
    ],
    ids=[
        "HTML",
        "HTML with a picture inside",
        "JSON",
        "JSON said to be a stream",
        "a reply that is no stream",
        "empty",
        "comments",
        "only [DONE]",
    ],
)
async def test_a_200_that_is_no_reply(answer: Answer, kind: type, words: str) -> None:
    async with lab(answer, says("no")) as (provider, server):
        error = failure(await ask(provider))
        assert type(error) is kind
        assert words in error.message
        assert len(server.calls) == 1


# -- statuses and retries --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (400, '{"error": {"message": "bad field"}}', RequestRefused),
        (400, '{"error": {"message": "x", "code": "context_length_exceeded"}}', ContextOverflow),
        (400, '{"error": {"message": "request exceeds the available context size"}}', ContextOverflow),
        (401, '{"error": {"message": "Incorrect API key provided: ' + KEY + '"}}', AuthenticationFailed),
        (403, "{}", AuthenticationFailed),
        (404, "<html><title>404 Not Found</title>", RequestRefused),
        (413, "", ContextOverflow),
        (422, '{"detail": [{"loc": ["body"], "msg": "field required"}]}', RequestRefused),
        (429, '{"error": {"message": "no money", "code": "insufficient_quota"}}', RateLimited),
        (302, "", RequestRefused),
    ],
)
async def test_what_trying_again_cannot_help_is_one_request(code: int, text: str, kind: type) -> None:
    async with lab(status(code, text), says("no")) as (provider, server):
        error = failure(await ask(provider))
        assert type(error) is kind
        assert len(server.calls) == 1


@pytest.mark.parametrize("answer", [status(c) for c in (408, 409, 429, 500, 502, 503, 529)] + [refuse])
async def test_what_may_pass_is_tried_again(answer: Answer) -> None:
    async with lab(answer, says("ok")) as (provider, server):
        assert await ask(provider) == OK
        assert len(server.calls) == 2


async def test_a_server_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    async with open_model_server(never) as server:
        url = server.base_url
    provider = HttpProvider(
        "lab", ChatWire(), url, KEY, idle_s=5, random=lambda: -0.99
    )  # waits of milliseconds
    with caplog.at_level(logging.INFO, "term2_acp.providers"):
        error = failure(await ask(provider))
    assert isinstance(error, ConnectionFailed)
    assert "Connection refused" in error.message
    assert "Gave up after 5 tries" in error.message
    assert sum("Again in" in record.message for record in caplog.records) == 4
    await provider.aclose()


async def test_retry_after_is_waited_for_and_a_long_one_is_not() -> None:
    async with lab(status(429, "", {"retry-after": "0.4"}), says("ok")) as (provider, _):
        begin = trio.current_time()
        assert await ask(provider) == OK
        assert trio.current_time() - begin >= 0.4
    async with lab(status(503, "", {"retry-after": "3600"}), says("no")) as (provider, server):
        error = failure(await ask(provider))
        assert isinstance(error, Overloaded)
        assert "3600 seconds" in error.message
        assert len(server.calls) == 1


def trickles(text: str) -> Answer:
    """One event, so slowly that it is not whole before the watchdog barks."""

    async def answer(call: Call) -> None:
        await call.head()
        for letter in text:
            await call.send(letter)
            with trio.move_on_after(0.05):
                await call.left.wait()

    return answer


# -- silence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "before"),
    [
        (never, []),
        (head_only, []),
        (plays(chunk(content="x"), done=False, end=False), [TextDelta("x")]),
        (keeps_alive(chunk(content="x")), [TextDelta("x")]),
        (keeps_alive(), []),
        (plays(HALF_CALL, done=False, end=False), []),
        (trickles(event(chunk(content="x"))), []),
    ],
    ids=[
        "no head",
        "no event",
        "text, then nothing",
        "text, then comments",
        "comments",
        "half a call",
        "a byte at a time",
    ],
)
async def test_silence_ends_a_stream_and_is_not_tried_again(answer: Answer, before: list[Delta]) -> None:
    async with lab(answer, says("no"), idle_s=0.2) as (provider, server):
        deltas = await ask(provider)
        assert deltas[:-1] == before
        error = failure(deltas)
        assert isinstance(error, StreamSilent)
        assert "0.2 seconds" in error.message
        assert len(server.calls) == 1
        await server.until_sockets(0)


async def test_empty_events_are_silence_too() -> None:
    async def answer(call: Call) -> None:
        await call.head()
        while not call.left.is_set():
            await call.send(event(chunk(content="")))
            with trio.move_on_after(0.02):
                await call.left.wait()

    async with lab(answer, idle_s=0.2) as (provider, _):
        assert isinstance(failure(await ask(provider)), StreamSilent)


async def test_pieces_of_a_call_are_signs_of_life() -> None:
    pieces = [
        chunk(tool_calls=[call_piece(0, id="a", name="f", arguments=text)])
        for text in ('{"x": "', *"abcd", '"}')
    ]

    async def answer(call: Call) -> None:
        await call.head()
        for piece in pieces:
            await call.send(event(piece))
            await trio.sleep(0.15)
        await call.send(event(chunk("tool_calls")) + event("[DONE]"))
        await call.end()

    async with lab(answer, idle_s=0.5) as (provider, _):
        assert await ask(provider) == [ToolCallDelta("a", "f", '{"x": "abcd"}'), Finished(Finish.TOOL_CALLS)]


async def test_the_time_in_which_nobody_reads_is_no_silence() -> None:
    async with lab(plays(chunk(content="x"), chunk("stop")), idle_s=0.2) as (provider, _):
        async with provider.stream(REQUEST) as deltas:
            await trio.sleep(0.5)
            assert (await read(deltas))[-1] == Finished(Finish.STOP)


# -- leaving ---------------------------------------------------------------------------------------


def hangs_after(text: str) -> Answer:
    async def answer(call: Call) -> None:
        await call.head()
        await call.send(text)
        await call.pause()

    return answer


async def waits_between_tries(call: Call) -> None:
    await status(503, "", {"retry-after": "50"})(call)
    call.reached.set()


@pytest.mark.parametrize(
    "answer",
    [
        never,
        head_only,
        hangs_after(event(chunk(content="x"))),
        hangs_after(event(HALF_CALL)),
        hangs_after('data: {"choices'),
        waits_between_tries,
    ],
    ids=["before the head", "before an event", "in text", "in a call", "in an event", "between tries"],
)
async def test_a_cancel_ends_everything_at_once(answer: Answer) -> None:
    async with lab(answer, says("no")) as (provider, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, provider)
            call = await server.until_call(1)
            await call.reached.wait()
            begin = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - begin < 1
        await provider.aclose()
        with trio.fail_after(1):
            await server.until_sockets(0)
        assert len(server.calls) == 1


async def test_two_hundred_streams_left_early_leave_nothing() -> None:
    class Left(Exception):
        pass

    flood = plays(*[chunk(content="x")] * 20, done=False, end=False)
    async with lab(flood) as (provider, server):
        for number in range(200):
            try:
                async with provider.stream(REQUEST) as deltas:
                    await deltas.receive()
                    if number % 2:
                        raise Left
            except Left:
                pass
        gc.collect()
        with trio.fail_after(1):
            await server.until_sockets(0)


async def test_sixty_cancelled_streams_do_not_block_the_next() -> None:
    async with lab(*[hangs_after(event(chunk(content="x")))] * 60, says("ok")) as (provider, server):
        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(ask, provider)
                await (await server.until_call(number + 1)).reached.wait()
            nursery.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
        assert await ask(provider) == OK
        with trio.fail_after(1):
            await server.until_sockets(1)


async def test_two_streams_side_by_side_do_not_mix() -> None:
    async def echo(call: Call) -> None:
        text = call.json["messages"][0]["content"]
        await plays(*[chunk(content=text)] * 50, chunk("stop"))(call)

    async with lab(echo) as (provider, _):
        seen: dict[str, set[str]] = {}

        async def one(text: str) -> None:
            async with provider.stream(Request("m", "", [UserSaid(text)])) as deltas:
                seen[text] = {delta.text for delta in await read(deltas) if isinstance(delta, TextDelta)}

        async with trio.open_nursery() as nursery:
            for text in "abcdefgh":
                nursery.start_soon(one, text)
        assert seen == {text: {text} for text in "abcdefgh"}


@pytest.mark.parametrize(
    "refusal",
    [
        '{"error":{"code":"invalid_encrypted_content","message":"It could not be verified."}}',
        '{"error":{"message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}',
    ],
)
async def test_sealed_thoughts_that_are_not_taken_back_are_left_out(refusal: str) -> None:
    """A session whose key changed must go on; one that refuses for good is asked once more."""
    opaque = Opaque("lab", "m", '{"wire":"chat","reasoning_content":"sealed"}')
    said = [UserSaid("hi"), AssistantSaid("hello", (), opaque), UserSaid("go on")]
    request = Request("m", "", said)
    async with lab(status(400, refusal), says("ok")) as (provider, server):
        async with provider.stream(request) as deltas:
            assert await read(deltas) == OK
        assert len(server.calls) == 2
        assert request.has_opaque
        assert not request.without_opaque().has_opaque
    async with lab(status(400, refusal)) as (provider, server):
        async with provider.stream(request) as deltas:
            assert isinstance(failure(await read(deltas)), RequestRefused)
        assert len(server.calls) == 2
    async with lab(status(400, refusal)) as (provider, server):
        assert isinstance(failure(await ask(provider)), RequestRefused)
        assert len(server.calls) == 1


async def test_what_is_waited_for_is_told_once_it_is_felt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seconds, all tries and the waits between them together, are what a person wonders about."""
    told: list[str] = []
    limited = status(429, '{"error":{"message":"slow down"}}', {"retry-after": "0.3"})

    async def slow(call: Call) -> None:
        await trio.sleep(0.3)
        await status(429, '{"error":{"message":"slow down"}}')(call)

    async with lab(limited, limited, says("ok"), random=lambda: -0.99) as (provider, _server):
        async with provider.stream(REQUEST, told.append) as deltas:
            assert await read(deltas) == OK
    assert told == []
    monkeypatch.setattr("term2_acp.providers.http_provider.VISIBLE_WAIT_S", 0.3)
    for answer in (limited, slow):
        told.clear()
        async with lab(answer, says("ok"), random=lambda: -0.99) as (provider, _server):
            async with provider.stream(REQUEST, told.append) as deltas:
                assert await read(deltas) == OK
        assert len(told) == 1
        assert told[0].startswith("The model server of lab limits our rate (429): slow down.")
        assert told[0].endswith("(Asking again in 1 s.)")
