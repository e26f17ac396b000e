"""Leaving an exchange at any moment: the socket is closed at once, by us and not by the garbage collector,
nothing warns, and the client serves the next request. Each moment is a test of its own, over plain HTTP,
TLS and a tunnel through a proxy; and a sweep leaves at every step of the scheduler, whatever it is."""

import gc
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest
import trio
import trio.testing

from term2_acp.web.client import HttpClient, HttpResponse
from tests.kit.certificates import Certified
from tests.kit.model_server import Call, body, head_only, never, open_model_server
from tests.kit.proxy import open_proxy
from tests.kit.steps import at_step
from tests.kit.until import until

HERE = "127.0.0.1"


@pytest.fixture(autouse=True)
def uncollected() -> Iterator[None]:
    """Nothing is collected while a test runs, so whatever closes is closed by us; then all is, and warns."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()


async def ask(client: HttpClient, url: str, content: bytes = b"{}") -> bytes:
    """The whole body of an answer."""
    data = b""
    async with client.post(url, {}, content) as exchange:
        response = await exchange.head()
        assert isinstance(response, HttpResponse), response
        while piece := await response.receive():
            assert isinstance(piece, bytes), piece
            data += piece
    return data


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


@asynccontextmanager
async def listening(serve) -> AsyncIterator[int]:
    """A server that is no HTTP server; the port."""
    listeners = await trio.open_tcp_listeners(0, host=HERE)
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


class Silent:
    """Reads and never answers; tells when the client begins, and when it leaves."""

    def __init__(self) -> None:
        self.begun, self.left = trio.Event(), trio.Event()

    async def __call__(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                while await stream.receive_some():
                    self.begun.set()
            except trio.BrokenResourceError:
                pass
        self.left.set()


# -- one moment after another ----------------------------------------------------------------------------


async def test_in_the_look_up() -> None:
    class Silent(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_args: object, **_more: object):
            asked.set()
            await trio.sleep_forever()

        async def getnameinfo(self, *_args: object):
            raise NotImplementedError

    asked = trio.Event()
    trio.socket.set_custom_hostname_resolver(Silent())  # of this run alone
    client = HttpClient("http://model.test/")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, client, "http://model.test/")
        await asked.wait()
        nursery.cancel_scope.cancel()
    await client.aclose()


async def test_in_the_connect() -> None:
    """A listener whose queue is full answers no one: the connect hangs."""
    with socket.socket() as full:
        full.bind((HERE, 0))
        full.listen(0)
        url = f"http://{HERE}:{full.getsockname()[1]}/"
        with socket.create_connection(full.getsockname()):
            client = HttpClient(url)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, client, url)
                await until(lambda: trio.lowlevel.current_statistics().io_statistics.tasks_waiting_write)
                nursery.cancel_scope.cancel()
            await client.aclose()


async def test_in_the_handshake() -> None:
    server = Silent()
    async with listening(server) as port:
        url = f"https://{HERE}:{port}/"
        client = HttpClient(url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, client, url)
            await server.begun.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            await server.left.wait()
        await client.aclose()


async def test_while_a_proxy_opens_the_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_proxy({"model.test:443": 0}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        client = HttpClient("https://model.test/")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, client, "https://model.test/")
            await proxy.until_asked(1)
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            await proxy.until_sockets(0)
        await client.aclose()


async def test_in_the_handshake_through_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Silent()
    async with listening(server) as port, open_proxy({"model.test:443": port}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        client = HttpClient("https://model.test/")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, client, "https://model.test/")
            await server.begun.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(1):
            await proxy.until_sockets(0)
        await client.aclose()


@pytest.mark.parametrize("tls", [False, True])
async def test_while_the_body_is_sent(tls: bool, certified_here: Certified, monkeypatch) -> None:
    """The server reads nothing behind the first bytes, so the rest of the body cannot be sent."""
    stuck, cancelled, left = trio.Event(), trio.Event(), trio.Event()

    async def reads_little(stream: trio.SocketStream) -> None:
        whole = trio.SSLStream(stream, certified_here.server_context(), server_side=True) if tls else stream
        try:
            await whole.receive_some(100)
            # What fits into the buffers of both sides is less than the body; the end comes behind it.
            await trio.testing.wait_all_tasks_blocked(0.05)
            stuck.set()
            await cancelled.wait()
            while await stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        finally:
            left.set()
            await trio.aclose_forcefully(whole)

    monkeypatch.setenv("SSL_CERT_FILE", str(certified_here.authority))
    async with listening(reads_little) as port:
        url = f"{'https' if tls else 'http'}://{HERE}:{port}/"
        client = HttpClient(url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, client, url, bytes(50_000_000))
            await stuck.wait()
            nursery.cancel_scope.cancel()
        cancelled.set()
        with trio.fail_after(5):
            await left.wait()
        await client.aclose()


async def some(call: Call) -> None:
    await call.head()
    await call.send(b"data: x\n\n")
    await call.pause()


async def half_a_head(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\ncontent-")
    await call.pause()


async def more_than_is_read(call: Call) -> None:
    await call.head()
    call.reached.set()
    while True:
        await call.send(bytes(10_000))


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("answer", [never, half_a_head, head_only, some, more_than_is_read])
async def test_before_the_head_and_in_the_body(
    answer, tls: bool, certified_here: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certified_here.authority))
    context = certified_here.server_context() if tls else None
    async with open_model_server(answer, answer, body(b"ok", ""), tls=context) as server:
        client = HttpClient(server.base_url)
        for number in (1, 2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, client, server.base_url)
                await (await server.until_call(number)).reached.wait()
                nursery.cancel_scope.cancel()
            with trio.fail_after(1):
                await server.until_sockets(0)
        assert await ask(client, server.base_url) == b"ok"
        await client.aclose()


async def test_while_nobody_reads_the_body() -> None:
    """The reading task waits for room, under a shield, when the exchange is left."""
    async with open_model_server(more_than_is_read) as server:
        client = HttpClient(server.base_url)
        with trio.CancelScope() as scope:
            async with client.get(server.base_url, {}) as exchange:
                assert isinstance(await exchange.head(), HttpResponse)
                await trio.testing.wait_all_tasks_blocked(0.05)
                scope.cancel()
                await trio.lowlevel.checkpoint()
        with trio.fail_after(1):
            await server.until_sockets(0)
        await client.aclose()


async def test_while_draining_what_is_left_of_a_reply() -> None:
    """Behind the last event of a reply the body goes on; whoever waits for its end may lose patience."""
    async with open_model_server(some) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {}, b"") as exchange:
            response = await exchange.head()
            assert isinstance(response, HttpResponse)
            assert await response.receive() == b"data: x\n\n"
            with trio.move_on_after(0.01) as patience:
                await response.receive()
            assert patience.cancelled_caught
        with trio.fail_after(1):
            await server.until_sockets(0)
        await client.aclose()


async def test_closing_the_client_under_an_exchange() -> None:
    async with open_model_server(some) as server:
        client = HttpClient(server.base_url)
        async with client.post(server.base_url, {}, b"") as exchange:
            response = await exchange.head()
            assert isinstance(response, HttpResponse)
            await client.aclose()
            with trio.fail_after(1):
                while isinstance(await response.receive(), bytes):
                    pass
                await server.until_sockets(0)


# -- every step ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("way", "stride"), [("plain", 1), ("tls", 1), ("tunnel", 3)])
async def test_at_every_step(
    way: str, stride: int, certified: Certified, certified_here: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The k-th step of any task from the request on, for k = 1, 2, … until the whole exchange fits before.

    With a tunnel, the steps of the proxy and the server are most of them; a third of all will do.
    """
    context = {"plain": None, "tls": certified_here.server_context(), "tunnel": certified.server_context()}
    authority = (certified if way == "tunnel" else certified_here).authority
    # Made once: reading the system's authorities for each of a hundred clients would take most of the time.
    ours = ssl.create_default_context(cafile=authority)
    monkeypatch.setattr(httpx2, "create_ssl_context", lambda **_more: ours)
    async with open_model_server(body(bytes(100_000), "text/plain"), tls=context[way]) as server:
        async with open_proxy({"site.test:443": port_of(server.base_url)}) as proxy:
            url = server.base_url
            if way == "tunnel":
                monkeypatch.setenv("HTTPS_PROXY", proxy.url)
                url = "https://site.test/v1"
            left = 0
            for k in range(1, 1000, stride):
                client = HttpClient(url)
                with trio.CancelScope() as scope, at_step(k, scope.cancel):
                    await ask(client, url)
                # The one connection that may be open now is one whose answer came whole: the next request
                # takes it, so one is open then. What was left behind would be a second one.
                assert await ask(client, url) == bytes(100_000)
                with trio.fail_after(5):
                    await server.until_sockets(1)
                    await proxy.until_sockets(1)
                left += scope.cancelled_caught
                await client.aclose()
                await server.until_sockets(0)
                if not scope.cancel_called:
                    break
    assert left > 10
    assert not scope.cancel_called, "the sweep has to reach the end of the exchange"
