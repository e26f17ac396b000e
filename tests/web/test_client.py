"""The HTTP client against real sockets: what arrives is handed on in one piece, faults are values, and
however a stream is left (its end, an error, a cancel, twice), no socket, no warning and no task is left."""

import gc

import pytest
import trio
import trio.testing

from term2_acp.web.client import HttpClient, HttpExchange, HttpResponse, is_loopback
from term2_acp.web.faults import Fault, HttpFault
from tests.kit.model_server import (
    Call,
    body,
    breaks_after,
    chunk,
    head_only,
    never,
    open_model_server,
    plays,
    status,
)


async def head_of(exchange: HttpExchange) -> HttpResponse:
    head = await exchange.head()
    assert isinstance(head, HttpResponse), head
    return head


async def rest_of(response: HttpResponse) -> bytes:
    data = b""
    while piece := await response.receive():
        assert isinstance(piece, bytes), piece
        data += piece
    return data


async def test_a_whole_answer() -> None:
    async with open_model_server(body(b"hello", "text/plain", {"X-Odd": "Yes"})) as server:
        client = HttpClient(server.base_url)
        async with client.post(
            server.base_url + "/chat", {"authorization": "Bearer k"}, b'{"a":1}'
        ) as exchange:
            response = await head_of(exchange)
            assert (response.status, response.headers["x-odd"]) == (200, "Yes")
            assert await rest_of(response) == b"hello"
            assert await response.receive() == b""
        call = server.calls[0]
        assert (call.method, call.path, call.json) == ("POST", "/v1/chat", {"a": 1})
        assert call.headers["authorization"] == "Bearer k"
        assert call.headers["accept-encoding"] == "identity"
        await client.aclose()


async def test_a_get_has_no_body_and_uses_the_connection_of_a_post() -> None:
    async with open_model_server(body(b"[]", "application/json")) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {}, b"{}") as exchange:
            await rest_of(await head_of(exchange))
        async with client.get(server.base_url + "/models?limit=9", {"x-api-key": "k"}) as exchange:
            assert await rest_of(await head_of(exchange)) == b"[]"
        call = server.calls[1]
        assert (call.method, call.path, call.body) == ("GET", "/v1/models?limit=9", b"")
        assert call.headers["x-api-key"] == "k"
        assert call.headers["accept-encoding"] == "identity"
        assert "content-length" not in call.headers
        assert server.accepted == 1
        await client.aclose()


async def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    async with open_model_server(body(b"hello", "text/plain")) as server:
        client = HttpClient(server.base_url)
        for _ in range(3):
            async with client.post(server.base_url, {}, b"") as exchange:
                await rest_of(await head_of(exchange))
        assert server.accepted == 1
        await client.aclose()
        with trio.fail_after(5):
            await server.until_sockets(0)


async def test_what_arrived_meanwhile_comes_in_one_piece() -> None:
    sent = trio.Event()

    async def answer(call: Call) -> None:
        await call.head()
        for piece in (b"a", b"b", b"c"):
            await call.send(piece)
            await trio.lowlevel.checkpoint()
        await call.end()
        sent.set()

    async with open_model_server(answer) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {}, b"") as exchange:
            response = await head_of(exchange)
            await sent.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert await response.receive() == b"abc"
        await client.aclose()


class Boom(Exception):
    pass


async def test_one_piece_is_bounded() -> None:
    """A MiB that waits is not handed on, and parsed, in one go: nobody else would be served meanwhile."""
    data = bytes(range(256)) * 4096

    async def answer(call: Call) -> None:
        await call.head()
        await call.send(data)
        await call.end()

    async with open_model_server(answer) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {}, b"{}") as exchange:
            response = await exchange.head()
            assert isinstance(response, HttpResponse)
            pieces = []
            while piece := await response.receive():
                assert isinstance(piece, bytes)
                pieces.append(piece)
                await trio.testing.wait_all_tasks_blocked()
        assert b"".join(pieces) == data
        assert max(map(len, pieces)) < 256 * 1024
        await client.aclose()


@pytest.mark.parametrize("way", ["raise", "break", "cancel"])
async def test_leaving_early_closes_the_connection_without_a_warning(way: str) -> None:
    async with open_model_server(plays(*[chunk(content="x")] * 50, end=False)) as server:
        client = HttpClient(server.base_url)
        for _ in range(20):
            try:
                with trio.CancelScope() as scope:
                    async with client.post(server.base_url, {}, b"") as exchange:
                        response = await head_of(exchange)
                        assert await response.receive()
                        if way == "raise":
                            raise Boom
                        if way == "cancel":
                            scope.cancel()
                            await trio.lowlevel.checkpoint()
            except Boom:
                pass
        gc.collect()  # an abandoned asynchronous generator warns here, and a warning is an error
        with trio.fail_after(1):
            await server.until_sockets(0)
        await client.aclose()


async def test_an_error_inside_keeps_its_type_and_is_no_group() -> None:
    async with open_model_server(never) as server:
        client = HttpClient(server.base_url)
        with pytest.raises(Boom):
            async with client.post(server.base_url, {}, b""):
                raise Boom
        await client.aclose()


@pytest.mark.parametrize("answer", [never, head_only])
async def test_a_cancel_ends_a_silent_server_at_once(answer) -> None:
    async with open_model_server(answer) as server:
        client = HttpClient(server.base_url)
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                async with client.post(server.base_url, {}, b"") as exchange:
                    await rest_of(await head_of(exchange))

            nursery.start_soon(ask)
            call = await server.until_call(1)
            await call.reached.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            await call.left.wait()
            await server.until_sockets(0)
        await client.aclose()


async def test_sixty_cancelled_streams_leave_no_connection_and_block_nobody() -> None:
    async with open_model_server(
        *[plays(chunk(content="x"), done=False, end=False)] * 60, body(b"ok", "")
    ) as server:
        client = HttpClient(server.base_url)

        async def ask() -> None:
            async with client.post(server.base_url, {}, b"") as exchange:
                await rest_of(await head_of(exchange))

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(ask)
                await (await server.until_call(number + 1)).reached.wait()
            nursery.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            await server.until_sockets(0)
            async with client.post(server.base_url, {}, b"") as exchange:
                assert await rest_of(await head_of(exchange)) == b"ok"
        await client.aclose()


async def test_no_server_is_unreachable() -> None:
    async with open_model_server(never) as server:
        url = server.base_url
    client = HttpClient(url)
    async with client.post(url, {}, b"") as exchange:
        head = await exchange.head()
    assert head == HttpFault(Fault.UNREACHABLE, "Connection refused")
    await client.aclose()


async def test_an_unknown_host_is_unreachable() -> None:
    client = HttpClient("http://host.invalid")
    async with client.post("http://host.invalid/", {}, b"") as exchange:
        head = await exchange.head()
    assert isinstance(head, HttpFault)
    assert head.kind is Fault.UNREACHABLE
    await client.aclose()


async def test_plain_http_on_a_tls_address_is_a_fault() -> None:
    async def garbage(call: Call) -> None: ...

    async with open_model_server(garbage) as server:
        url = server.base_url.replace("http:", "https:")

        async def close_at_once(stream: trio.SocketStream) -> None:
            await stream.receive_some()
            await stream.send_all(b"HTTP/1.1 400 Bad\r\n\r\n")

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        url = f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, close_at_once, listeners)
            client = HttpClient(url)
            async with client.post(url, {}, b"") as exchange:
                head = await exchange.head()
            await client.aclose()
            nursery.cancel_scope.cancel()
    assert isinstance(head, HttpFault)
    assert head.kind is Fault.TLS


async def test_a_reset_in_the_body_comes_behind_what_was_sent() -> None:
    async with open_model_server(breaks_after(chunk(content="x"))) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {}, b"") as exchange:
            response = await head_of(exchange)
            data = b""
            while isinstance(piece := await response.receive(), bytes):
                assert piece
                data += piece
        assert piece.kind is Fault.BROKE
        await client.aclose()


async def test_an_answer_that_is_no_http_broke() -> None:
    async def garbage(call: Call) -> None:
        await call.raw(b"\x00\x01 nonsense\r\n\r\n")

    async with open_model_server(garbage) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {}, b"") as exchange:
            head = await exchange.head()
        assert isinstance(head, HttpFault)
        assert head.kind is Fault.BROKE
        await client.aclose()


@pytest.mark.parametrize("header", ["Bearer sécret-key", "Bearer secret-key\r\nx: y"])
async def test_a_header_that_cannot_be_sent_is_a_fault_that_does_not_quote_it(header: str) -> None:
    async with open_model_server(status(200)) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {"authorization": header}, b"") as exchange:
            head = await exchange.head()
        assert isinstance(head, HttpFault)
        assert head.kind is Fault.UNUSABLE
        assert "cret" not in head.reason
        await client.aclose()


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "nonsense", "http://[::1"])
async def test_a_url_that_cannot_be_asked_is_a_fault(url: str) -> None:
    client = HttpClient(url)
    async with client.post(url, {}, b"") as exchange:
        head = await exchange.head()
    assert isinstance(head, HttpFault)
    assert head.kind is Fault.UNUSABLE
    await client.aclose()


async def test_loopback_is_never_sent_to_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    async with open_model_server(status(204)) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {}, b"") as exchange:
            assert (await head_of(exchange)).status == 204
        await client.aclose()


async def test_a_proxy_of_the_environment_is_used_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_model_server(status(204)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        client = HttpClient("http://model.invalid/v1")
        async with client.post("http://model.invalid/v1", {}, b"") as exchange:
            assert (await head_of(exchange)).status == 204
        assert proxy.calls[0].path == "http://model.invalid/v1"
        await client.aclose()


@pytest.mark.parametrize(
    ("variable", "value"), [("HTTP_PROXY", "weird://x"), ("SSL_CERT_FILE", "/nowhere/ca.pem")]
)
async def test_a_wrong_environment_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    client = HttpClient("https://model.invalid")
    async with client.post("https://model.invalid", {}, b"") as exchange:
        head = await exchange.head()
    assert isinstance(head, HttpFault)
    assert head.kind is Fault.UNUSABLE
    await client.aclose()


@pytest.mark.parametrize(
    ("host", "yes"),
    [
        ("localhost", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", True),
        ("localhost.example.org", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_is_loopback(host: str, yes: bool) -> None:
    assert is_loopback(host) is yes
