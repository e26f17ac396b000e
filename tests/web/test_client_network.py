"""The HTTP client between real proxies, authorities and servers with habits: what the environment says is
obeyed, except that loopback is never sent to a proxy; connections are used again, and one that a server gave
up meanwhile costs nothing; no redirect is followed; heads and compressed bodies are bounded."""

import gzip
import ssl
import zlib
from collections.abc import Mapping

import pytest
import trio
import trio.testing

from term2_acp.web.client import HttpClient, HttpResponse
from term2_acp.web.compression import PIECE_BYTES
from term2_acp.web.faults import Fault, HttpFault
from tests.kit.certificates import Certified
from tests.kit.model_server import Answer, Call, body, event, open_model_server, status
from tests.kit.proxy import open_proxy

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of proxies and authorities only what a test sets."""
    for name in (*PROXIES, "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


async def asked(
    client: HttpClient, url: str, headers: Mapping[str, str] = {}, content: bytes | None = None
) -> tuple[int, bytes] | HttpFault:
    """The status and the whole body, or the fault that came in place of either."""
    exchanging = client.get(url, headers) if content is None else client.post(url, headers, content)
    async with exchanging as exchange:
        response = await exchange.head()
        if isinstance(response, HttpFault):
            return response
        data = b""
        while piece := await response.receive():
            if isinstance(piece, HttpFault):
                return piece
            data += piece
        return response.status, data


async def asked_once(url: str, headers: Mapping[str, str] = {}) -> tuple[int, bytes] | HttpFault:
    client = HttpClient(url)
    answer = await asked(client, url, headers)
    await client.aclose()
    return answer


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


OK = body(b"ok", "text/plain")

# -- proxies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_a_proxy_for_plain_http(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    async with open_model_server(OK) as proxy:
        monkeypatch.setenv(variable, proxy.base_url.removesuffix("/v1"))
        assert await asked_once("http://model.test/v1/models", {"authorization": "Bearer k"}) == (200, b"ok")
        call = proxy.calls[0]
        assert (call.method, call.path) == ("GET", "http://model.test/v1/models")
        assert call.headers["authorization"] == "Bearer k"


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
async def test_a_tunnel_for_https_sees_no_key(
    monkeypatch: pytest.MonkeyPatch, certified: Certified, variable: str
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certified.authority))
    async with open_model_server(OK, tls=certified.server_context()) as server:
        async with open_proxy({"site.test:443": port_of(server.base_url)}) as proxy:
            monkeypatch.setenv(variable, proxy.url)
            client = HttpClient("https://site.test/v1")
            for _ in range(3):
                answer = await asked(
                    client, "https://site.test/v1", {"authorization": "Bearer secret"}, b"{}"
                )
                assert answer == (200, b"ok")
            assert [head.partition("\r\n")[0] for head in proxy.asked] == ["CONNECT site.test:443 HTTP/1.1"]
            assert "secret" not in proxy.asked[0]
            assert server.calls[0].headers["authorization"] == "Bearer secret"
            assert server.accepted == 1
            await client.aclose()


async def test_credentials_for_the_proxy_are_for_the_proxy(
    monkeypatch: pytest.MonkeyPatch, certified: Certified
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certified.authority))
    async with open_model_server(OK, tls=certified.server_context()) as server:
        async with open_proxy({"site.test:443": port_of(server.base_url)}) as proxy:
            monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//user:word@"))
            assert await asked_once("https://site.test/") == (200, b"ok")
            assert "proxy-authorization: basic dxnlcjp3b3jk" in proxy.asked[0].lower()
            assert "proxy-authorization" not in server.calls[0].headers


async def test_a_proxy_that_refuses_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_proxy({}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//user:word@"))
        assert await asked_once("https://site.test/") == HttpFault(Fault.UNREACHABLE, "502 Nowhere")


async def test_a_proxy_that_is_not_there_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_proxy({}) as proxy:
        url = proxy.url
    monkeypatch.setenv("HTTPS_PROXY", url)
    assert await asked_once("https://site.test/") == HttpFault(Fault.UNREACHABLE, "Connection refused")


async def test_a_socks_proxy_is_a_fault_that_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://user:word@127.0.0.1:9")
    answer = await asked_once("https://site.test/")
    assert isinstance(answer, HttpFault)
    assert answer.kind is Fault.UNUSABLE
    assert "package that is not installed" in answer.reason
    assert "word" not in answer.reason


@pytest.mark.parametrize("exempt", ["model.invalid", ".invalid", "*", "other.test,model.invalid"])
async def test_no_proxy_is_obeyed(monkeypatch: pytest.MonkeyPatch, exempt: str) -> None:
    async with open_model_server(OK) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
        monkeypatch.setenv("NO_PROXY", exempt)
        answer = await asked_once("http://model.invalid/")
        assert isinstance(answer, HttpFault)
        assert answer.kind is Fault.UNREACHABLE
        assert proxy.calls == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("tls", [False, True])
async def test_loopback_is_never_sent_to_a_proxy(
    monkeypatch: pytest.MonkeyPatch, certified_here: Certified, host: str, tls: bool
) -> None:
    """Though the environment's authorities are its own too."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certified_here.authority))
    for name in PROXIES[:3]:
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with open_model_server(OK, tls=certified_here.server_context() if tls else None) as server:
        assert await asked_once(server.base_url.replace("127.0.0.1", host)) == (200, b"ok")


# -- certificates ----------------------------------------------------------------------------------------


async def test_an_authority_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, certified_here: Certified
) -> None:
    async with open_model_server(OK, tls=certified_here.server_context()) as server:
        unknown = await asked_once(server.base_url)
        assert unknown == HttpFault(
            Fault.TLS, "its certificate was not accepted: unable to get local issuer certificate"
        )
        monkeypatch.setenv("SSL_CERT_FILE", str(certified_here.authority))
        assert await asked_once(server.base_url) == (200, b"ok")


async def test_a_folder_of_authorities(
    monkeypatch: pytest.MonkeyPatch, certified_here: Certified, tmp_path
) -> None:
    line = ["openssl", "x509", "-subject_hash", "-noout", "-in", certified_here.authority]
    name = (await trio.run_process(line, capture_stdout=True)).stdout.decode().strip()
    (tmp_path / f"{name}.0").write_bytes(certified_here.authority.read_bytes())
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    async with open_model_server(OK, tls=certified_here.server_context()) as server:
        assert await asked_once(server.base_url) == (200, b"ok")


async def test_a_certificate_for_another_name(monkeypatch: pytest.MonkeyPatch, certified: Certified) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certified.authority))
    async with open_model_server(OK, tls=certified.server_context()) as server:
        answer = await asked_once(server.base_url)
    assert answer == HttpFault(
        Fault.TLS,
        "its certificate was not accepted: IP address mismatch, certificate is not valid for '127.0.0.1'",
    )
    assert server.calls == []


async def test_an_old_protocol_that_is_still_in_use(
    monkeypatch: pytest.MonkeyPatch, certified_here: Certified
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certified_here.authority))
    context = certified_here.server_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with open_model_server(OK, tls=context) as server:
        assert await asked_once(server.base_url) == (200, b"ok")


# -- connections -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tls", [False, True])
async def test_one_connection_serves_a_turn(
    monkeypatch: pytest.MonkeyPatch, certified_here: Certified, tls: bool
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certified_here.authority))
    async with open_model_server(OK, tls=certified_here.server_context() if tls else None) as server:
        client = HttpClient(server.base_url)
        for number in range(10):
            content = None if number % 3 else b"{}"
            assert await asked(client, server.base_url, {}, content) == (200, b"ok")
        assert server.accepted == 1
        await client.aclose()
        with trio.fail_after(5):
            await server.until_sockets(0)


@pytest.mark.parametrize("how", ["closed", "reset"])
@pytest.mark.parametrize("tls", [False, True])
async def test_a_connection_that_the_server_gave_up_fails_no_request(
    monkeypatch: pytest.MonkeyPatch, certified_here: Certified, tls: bool, how: str
) -> None:
    async def then_leaves(call: Call) -> None:
        await OK(call)
        await told.wait()
        if how == "reset":
            await call.reset()
        call._done = False  # it promised to keep the connection, and closes it

    told = trio.Event()
    monkeypatch.setenv("SSL_CERT_FILE", str(certified_here.authority))
    context = certified_here.server_context() if tls else None
    async with open_model_server(then_leaves, OK, tls=context) as server:
        client = HttpClient(server.base_url)
        assert await asked(client, server.base_url, {}, b"{}") == (200, b"ok")
        told.set()
        await server.until_sockets(0)
        assert await asked(client, server.base_url, {}, b"{}") == (200, b"ok")
        assert server.accepted == 2
        await client.aclose()


async def test_a_hundred_requests_side_by_side() -> None:
    async def together(call: Call) -> None:
        await server.until_call(100)
        await OK(call)

    async with open_model_server(together) as server:
        client = HttpClient(server.base_url)

        async def one() -> None:
            assert await asked(client, server.base_url) == (200, b"ok")

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(one)
        with trio.fail_after(5):
            await server.until_sockets(20)  # what is kept for the next turn
        await client.aclose()
        await server.until_sockets(0)


# -- answers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("content", [None, b"{}"])
async def test_no_redirect_is_followed(code: int, content: bytes | None) -> None:
    async with open_model_server(OK) as elsewhere:
        headers = {"Location": elsewhere.base_url, "Content-Type": "text/plain"}
        async with open_model_server(status(code, "there", headers)) as server:
            client = HttpClient(server.base_url)
            answer = await asked(client, server.base_url, {"authorization": "Bearer k"}, content)
            assert answer == (code, b"there")
            await client.aclose()
        assert elsewhere.calls == []


def head_of(size: int) -> Answer:
    async def answer(call: Call) -> None:
        lines = b"".join(b"x-%d: %s\r\n" % (number, b"y" * 1000) for number in range(size // 1000))
        await call.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n" + lines + b"\r\nok")
        call._done = True

    return answer


async def test_a_large_head_is_read() -> None:
    async with open_model_server(head_of(90_000)) as server:
        assert await asked_once(server.base_url) == (200, b"ok")


async def endless_head(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.raw(b"x-more: and more of it\r\n" * 100)


async def one_endless_header(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\nx-more: ")
    while True:
        await call.raw(b"and more of it" * 100)


@pytest.mark.parametrize("answer", [head_of(300_000), endless_head, one_endless_header])
async def test_a_head_without_end_is_a_fault(answer: Answer) -> None:
    async with open_model_server(answer) as server:
        found = await asked_once(server.base_url)
        assert isinstance(found, HttpFault)
        assert found.kind is Fault.BROKE
        with trio.fail_after(5):
            await server.until_sockets(0)


async def slow_head(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\n")
    call.reached.set()
    while not call.left.is_set():
        await call.raw(b"x-more: and more of it\r\n")
        with trio.move_on_after(0.02):
            await call.left.wait()


async def always_early(call: Call) -> None:
    call.reached.set()
    while not call.left.is_set():
        await call.raw(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        with trio.move_on_after(0.001):
            await call.left.wait()


@pytest.mark.parametrize("answer", [slow_head, always_early])
async def test_a_head_that_takes_for_ever_takes_as_long_as_the_caller_lets_it(answer: Answer) -> None:
    async with open_model_server(answer) as server:
        client = HttpClient(server.base_url)
        async with client.get(server.base_url, {}) as exchange:
            await (await server.until_call(1)).reached.wait()
            with trio.move_on_after(0.1) as scope:
                await exchange.head()
        assert scope.cancelled_caught
        with trio.fail_after(1):
            await server.until_sockets(0)
        await client.aclose()


GZIPPED = {"Content-Encoding": "gzip"}


async def test_gzip_that_was_not_asked_for_is_undone() -> None:
    data = bytes(range(256)) * 1000
    async with open_model_server(body(gzip.compress(data), "text/plain", GZIPPED)) as server:
        client = HttpClient(server.base_url)
        for _ in range(2):
            assert await asked(client, server.base_url) == (200, data)
        assert server.accepted == 1
        await client.aclose()


async def test_a_bomb_is_as_large_as_what_is_read_of_it() -> None:
    """It is unpacked as far as the channel has room, and no further before that is taken."""
    bomb = gzip.compress(bytes(1 << 26))  # 64 MiB out of 64 KiB
    async with open_model_server(body(bomb, "text/plain", GZIPPED)) as server:
        client = HttpClient(server.base_url)
        async with client.get(server.base_url, {}) as exchange:
            response = await exchange.head()
            assert isinstance(response, HttpResponse)
            await trio.testing.wait_all_tasks_blocked(0.01)
            piece = await response.receive()
            assert isinstance(piece, bytes)
            assert len(piece) <= 20 * PIECE_BYTES
        # All of the body may have come before it was left: then its connection was good for another request.
        await client.aclose()
        with trio.fail_after(20):
            await server.until_sockets(0)


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate", "gzip, gzip"])
async def test_another_compression_is_a_fault_behind_the_head(coding: str) -> None:
    async with open_model_server(body(b"x", "text/plain", {"Content-Encoding": coding})) as server:
        found = await asked_once(server.base_url)
        assert found == HttpFault(Fault.UNUSABLE, "it answers in a compression that was not asked for")
        await server.until_sockets(0)


async def test_endless_bytes_that_are_not_the_gzip_they_should_be_are_left() -> None:
    async def answer(call: Call) -> None:
        await call.head(200, "text/plain", GZIPPED)
        while True:
            await call.send(b"not gzip")

    async with open_model_server(answer) as server:
        found = await asked_once(server.base_url)
        assert isinstance(found, HttpFault)
        assert found.kind is Fault.BROKE
        assert "not gzip" in found.reason
        with trio.fail_after(1):
            await server.until_sockets(0)


async def test_gzip_that_breaks_off_is_a_fault_behind_what_came() -> None:
    async with open_model_server(body(gzip.compress(b"hello")[:-4], "text/plain", GZIPPED)) as server:
        client = HttpClient(server.base_url)
        async with client.get(server.base_url, {}) as exchange:
            response = await exchange.head()
            assert isinstance(response, HttpResponse)
            assert await response.receive() == b"hello"
            assert await response.receive() == HttpFault(
                Fault.BROKE, "what came is not gzip: the compressed data is incomplete"
            )
        await client.aclose()


async def test_events_come_through_gzip_one_by_one() -> None:
    """A gateway that compresses a stream flushes it after each event."""

    async def answer(call: Call) -> None:
        packer = zlib.compressobj(wbits=31)
        await call.head(headers=GZIPPED)
        for word in ("a", "b"):
            await call.send(packer.compress(event(word).encode()) + packer.flush(zlib.Z_SYNC_FLUSH))
            await heard.wait()
        await call.send(packer.flush())
        await call.end()

    heard = trio.Event()
    async with open_model_server(answer) as server:
        client = HttpClient(server.base_url)
        async with client.get(server.base_url, {}) as exchange:
            response = await exchange.head()
            assert isinstance(response, HttpResponse)
            assert await response.receive() == b"data: a\n\n"
            heard.set()
            assert await response.receive() == b"data: b\n\n"
            assert await response.receive() == b""
        await client.aclose()
