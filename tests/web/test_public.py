"""Fetching against real servers on the loopback interface, which a test's own ``Reach`` permits on that
server's port alone; every other rule is the product's. Names are looked up once and their addresses are the
ones connected to, redirects stay where they may, bodies and time are bounded, and however a fetch is left,
by a bound or a cancel in any phase, its connection is closed and nothing warns."""

import gc
import gzip
import socket
import ssl
from collections import Counter

import pytest
import trio
import trio.testing

from term2_acp import __version__
from term2_acp.web import public
from term2_acp.web.addresses import not_public
from term2_acp.web.body import ContentType, Inflow
from term2_acp.web.public import Elsewhere, Fetcher, NotFetched, Page, Reach
from term2_acp.web.url import parse_url
from tests.kit.authorities import authorities
from tests.kit.certificates import Certified
from tests.kit.model_server import Call, ModelServer, body, head_only, never, open_model_server, status
from tests.kit.until import until

HERE = "127.0.0.1"


class Names:
    """A resolver that answers from a table, one answer a look-up, and counts. The last answer stays."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self.answers = {name.replace("_", "."): list(found) for name, found in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        self.asked.append(host)
        found = self.answers.get(host, [[HERE]])
        return found.pop(0) if len(found) > 1 else found[0]


def fetcher(*ports: int, names: Names | None = None, **more: object) -> Fetcher:
    """One that may reach these ports of this machine, and nothing else that is not public."""

    def refusal(address: str, port: int) -> str | None:
        return None if address == HERE and port in ports else not_public(address)

    return Fetcher(Reach(resolve=names or Names(), refusal=refusal, **{"authorities": authorities, **more}))


def port_of(server: ModelServer) -> int:
    return int(server.base_url.rpartition(":")[2].partition("/")[0])


async def fetched(server: ModelServer, path: str = "/", names: Names | None = None, host: str = "site.test"):
    port = port_of(server)
    return await fetcher(port, names=names).fetch(parse_url(f"http://{host}:{port}{path}"))


def moved(to: str, code: int = 302):
    return status(code, "see there", {"Location": to})


async def left_nothing(server: ModelServer) -> None:
    """No connection is open, and no abandoned generator warns when it is collected."""
    with trio.fail_after(5):
        await server.until_sockets(0)
    gc.collect()


# -- a request and its answer ------------------------------------------------------------------------


async def test_a_page() -> None:
    async with open_model_server(body(b"hello", "text/plain; charset=utf-8")) as server:
        port = port_of(server)
        page = await fetched(server, "/a?b=c#d")
        assert page == Page(
            parse_url(f"http://site.test:{port}/a?b=c"), 200, ContentType("text/plain", "utf-8"), b"hello"
        )
        call = server.calls[0]
        assert (call.method, call.path, call.body) == ("GET", "/a?b=c", b"")
        assert dict(call.headers) == {
            "host": f"site.test:{port}",
            "user-agent": f"term2/{__version__}",
            "accept": call.headers["accept"],
            "accept-encoding": "gzip",
            "connection": "close",
        }
        assert call.headers["accept"].startswith("text/html, text/*")
        await left_nothing(server)


async def test_a_name_in_other_letters_goes_out_in_punycode() -> None:
    names = Names()
    async with open_model_server(body(b"x", "text/plain")) as server:
        await fetched(server, names=names, host="bücher.test")
        assert server.calls[0].headers["host"] == f"xn--bcher-kva.test:{port_of(server)}"
        assert names.asked == ["xn--bcher-kva.test"]


async def test_no_cookie_comes_back() -> None:
    async with open_model_server(
        status(302, "", {"Location": "/next", "Set-Cookie": "a=b; Path=/"}), body(b"x", "text/plain")
    ) as server:
        assert isinstance(await fetched(server), Page)
        assert not {"cookie", "referer", "authorization"} & set(server.calls[1].headers)


async def test_the_environment_brings_neither_a_proxy_nor_a_password(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine site.test login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with open_model_server(never) as proxy, open_model_server(body(b"x", "text/plain")) as server:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(variable, proxy.base_url)
        assert isinstance(await fetched(server), Page)
        assert proxy.accepted == 0
        assert "authorization" not in server.calls[0].headers


@pytest.mark.parametrize("code", [204, 304, 404, 500])
async def test_every_status_is_an_answer(code: int) -> None:
    async def answer(call: Call) -> None:
        await call.raw(b"HTTP/1.1 %d X\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n" % code)

    async with open_model_server(answer) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert (page.status, page.body) == (code, b"")


async def test_what_is_no_text_is_not_read() -> None:
    async def answer(call: Call) -> None:
        await call.raw(
            b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 900000000\r\n\r\n\x89PNG"
        )
        await call.pause()

    async with open_model_server(answer) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert (page.kind, page.body, page.size) == (ContentType("image/png"), None, 900_000_000)
        await left_nothing(server)


# -- addresses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("http://127.0.0.1:{port}/", "127.0.0.1 is a loopback address"),
        ("http://localhost:{port}/", "localhost leads to a loopback address"),
        ("http://[::1]:{port}/", "::1 is a loopback address"),
        ("http://[::ffff:127.0.0.1]:{port}/", "is a loopback address"),
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254 is a link-local address"),
    ],
)
async def test_the_product_reaches_nothing_of_this_machine(url: str, what: str) -> None:
    async with open_model_server(never) as server:
        answer = await Fetcher().fetch(parse_url(url.format(port=port_of(server))))
        assert isinstance(answer, NotFetched)
        assert what in answer.reason
        assert server.accepted == 0


def test_an_address_is_refused_before_anything_is_looked_up() -> None:
    assert Fetcher().refusal(parse_url("http://10.0.0.1/")) is not None
    assert Fetcher().refusal(parse_url("http://93.184.216.34/")) is None
    assert Fetcher().refusal(parse_url("http://localhost/")) is None


async def test_a_name_that_leads_to_one_inner_address_among_others_is_refused() -> None:
    async with open_model_server(never) as server:
        names = Names(site_test=[["93.184.216.34", "10.0.0.7"]])
        answer = await fetched(server, names=names)
        assert answer == NotFetched(
            "site.test leads to a private address; only public addresses are fetched from."
        )
        assert server.accepted == 0


async def test_a_name_that_changes_its_answer_is_asked_once() -> None:
    # The first answer is what is checked and what is connected to. (127.0.0.1 stands for a public address.)
    async with open_model_server(body(b"public", "text/plain")) as server, open_model_server(never) as inner:
        names = Names(site_test=[[HERE], ["127.0.0.2"]])
        page = await fetched(server, names=names)
        assert isinstance(page, Page)
        assert (page.body, names.asked) == (b"public", ["site.test"])
        assert inner.accepted == 0


async def test_a_redirect_is_looked_up_and_checked_anew() -> None:
    async with open_model_server(moved("/next"), never) as server:
        names = Names(site_test=[[HERE], ["127.0.0.2"]])
        answer = await fetched(server, names=names)
        assert answer == NotFetched(
            "site.test leads to a loopback address; only public addresses are fetched from."
        )
        assert server.accepted == 1


async def test_an_address_that_cannot_be_connected_to_gives_way_to_the_next() -> None:
    async with open_model_server(body(b"x", "text/plain")) as server:
        port = port_of(server)
        closed = socket.create_server(("127.0.0.3", 0))
        closed.close()
        reach = Reach(resolve=Names(site_test=[["127.0.0.3", HERE]]), refusal=lambda address, port: None)
        page = await Fetcher(reach).fetch(parse_url(f"http://site.test:{port}/"))
        assert isinstance(page, Page)
        assert page.body == b"x"


async def test_no_more_addresses_are_tried_than_the_bound() -> None:
    async with open_model_server(never) as server:
        dead = [f"127.0.1.{number}" for number in range(public.MAX_TRIED)]
        reach = Reach(resolve=Names(site_test=[[*dead, HERE]]), refusal=lambda address, port: None)
        answer = await Fetcher(reach).fetch(parse_url(f"http://site.test:{port_of(server)}/"))
        assert isinstance(answer, NotFetched)
        assert answer.reason.endswith("could not be fetched: Connection refused.")
        assert server.accepted == 0


async def test_a_name_without_an_address() -> None:
    async with open_model_server(never) as server:
        answer = await fetched(server, names=Names(site_test=[[]]))
    assert isinstance(answer, NotFetched)
    assert "it has no address" in answer.reason


async def test_a_name_that_is_not_known() -> None:
    answer = await Fetcher().fetch(parse_url("http://no_such.invalid/"))
    assert isinstance(answer, NotFetched)
    assert answer.reason.startswith("no_such.invalid could not be looked up: ")


# -- redirects -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_on_the_same_host_is_followed(code: int) -> None:
    async with open_model_server(moved("../b?c", code), body(b"there", "text/plain")) as server:
        page = await fetched(server, "/x/a")
        assert isinstance(page, Page)
        assert (page.body, page.url.target) == (b"there", "/b?c")
        assert [call.path for call in server.calls] == ["/x/a", "/b?c"]
        await left_nothing(server)


@pytest.mark.parametrize("code", [300, 304, 305])
async def test_other_answers_with_a_location_are_not_redirects(code: int) -> None:
    async with open_model_server(moved("/next", code)) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert page.status == code


async def test_a_redirect_to_another_host_is_handed_back() -> None:
    async with open_model_server(moved("http://other.test/x#y", 301)) as server:
        names = Names()
        answer = await fetched(server, "/a", names=names)
        here = parse_url(f"http://site.test:{port_of(server)}/a")
        assert answer == Elsewhere(here, 301, parse_url("http://other.test/x"))
        assert names.asked == ["site.test"]
        await left_nothing(server)


async def test_a_redirect_to_an_inner_address_is_handed_back_and_refused_when_asked_for() -> None:
    async with open_model_server(moved("http://169.254.169.254/latest/")) as server:
        answer = await fetched(server)
        assert isinstance(answer, Elsewhere)
        assert Fetcher().refusal(answer.target) is not None


async def test_a_redirect_to_another_port_of_the_same_host_is_handed_back() -> None:
    async with open_model_server(never) as other:
        async with open_model_server(moved(f"http://site.test:{port_of(other)}/")) as server:
            assert isinstance(await fetched(server), Elsewhere)
        assert other.accepted == 0


@pytest.mark.parametrize("to", ["file:///etc/passwd", "http://u:p@site.test/", "http://[", "//127.1/"])
async def test_a_redirect_to_what_cannot_be_fetched(to: str) -> None:
    async with open_model_server(moved(to)) as server:
        answer = await fetched(server)
        assert isinstance(answer, NotFetched)
        assert "redirects to what cannot be fetched" in answer.reason


async def test_a_redirect_without_a_place_is_an_answer() -> None:
    async with open_model_server(status(302, "lost")) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert (page.status, page.body) == (302, b"lost")


async def test_a_redirect_with_an_endless_body_is_followed_at_once() -> None:
    async def first(call: Call) -> None:
        await call.head(302, "text/plain", {"Location": "/next"})
        while True:
            await call.send(bytes(1000))

    async with open_model_server(first, body(b"there", "text/plain")) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert page.body == b"there"
        await left_nothing(server)


@pytest.mark.parametrize(("hops", "arrives"), [(5, True), (6, False)])
async def test_so_many_redirects_and_no_more(hops: int, arrives: bool) -> None:
    steps = [moved(f"/{number}") for number in range(hops)]
    async with open_model_server(*steps, body(b"x", "text/plain")) as server:
        answer = await fetched(server)
        assert isinstance(answer, Page) is arrives
        assert len(server.calls) == 6


async def test_a_loop_ends() -> None:
    async with open_model_server(moved("/")) as server:
        port = port_of(server)
        assert await fetched(server) == NotFetched(f"site.test:{port} redirects more than 5 times.")
        await left_nothing(server)


# -- bounds ----------------------------------------------------------------------------------------------


async def test_a_large_body_is_cut_and_the_connection_closed() -> None:
    sent = 0

    async def answer(call: Call) -> None:
        nonlocal sent
        await call.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100000000\r\n\r\n")
        for _ in range(1600):
            await call.raw(b"x" * 62500)
            sent += 62500

    async with open_model_server(answer) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert (page.body, page.cut) == (b"x" * public.MAX_BODY_BYTES, True)
        await left_nothing(server)
    assert sent < 20_000_000


async def test_a_body_as_large_as_the_bound_is_whole() -> None:
    async with open_model_server(body(b"x" * public.MAX_BODY_BYTES, "text/plain")) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert (len(page.body or b""), page.cut) == (public.MAX_BODY_BYTES, False)


async def test_a_body_in_tiny_pieces_starves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of one read of the socket are dealt with between two waits, unless we make one of each."""
    pieces, turns, now = 3000, [], 0

    class Counted(Inflow):
        def feed_nowait(self, data: bytes) -> None:
            turns.append(now)
            super().feed_nowait(data)

    async def another() -> None:
        nonlocal now
        while True:
            await trio.lowlevel.checkpoint()
            now += 1

    async def answer(call: Call) -> None:
        await call.head(content_type="text/plain")
        await call.raw(b"1\r\nx\r\n" * pieces)
        await call.end()

    monkeypatch.setattr(public, "Inflow", Counted)
    async with open_model_server(answer) as server, trio.open_nursery() as nursery:
        nursery.start_soon(another)
        page = await fetched(server)
        nursery.cancel_scope.cancel()
    assert isinstance(page, Page)
    assert page.body == b"x" * pieces
    assert len(turns) == pieces
    # Of two tasks that run in the same step, either may come first.
    assert max(Counter(turns).values()) <= 2


async def test_compressed_text() -> None:
    async with open_model_server(
        body(gzip.compress(b"hello"), "text/plain", {"Content-Encoding": "GZIP"})
    ) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert page.body == b"hello"


async def test_a_bomb_is_cut() -> None:
    async with open_model_server(
        body(gzip.compress(bytes(30_000_000)), "text/plain", {"Content-Encoding": "gzip"})
    ) as server:
        page = await fetched(server)
        assert isinstance(page, Page)
        assert (len(page.body or b""), page.cut) == (public.MAX_BODY_BYTES, True)
        await left_nothing(server)


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "deflate", "zstd"])
async def test_a_compression_that_was_not_asked_for_is_refused(coding: str) -> None:
    async with open_model_server(body(b"x", "text/plain", {"Content-Encoding": coding})) as server:
        answer = await fetched(server)
        assert isinstance(answer, NotFetched)
        assert "compression" in answer.reason
        await left_nothing(server)


async def test_an_endless_answer_that_is_not_the_gzip_it_says_is_left() -> None:
    async def answer(call: Call) -> None:
        await call.head(200, "text/plain", {"Content-Encoding": "gzip"})
        while True:
            await call.send(b"not gzip")

    async with open_model_server(answer) as server:
        assert isinstance(await fetched(server), NotFetched)
        await left_nothing(server)


async def endless_head(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\n")
    while True:
        await call.raw(b"x-more: and more of it\r\n" * 100)


async def garbage(call: Call) -> None:
    await call.raw(b"\x00\x01 nonsense\r\n\r\n")


async def bad_chunks(call: Call) -> None:
    await call.head(200, "text/plain")
    await call.raw(b"5\r\nhello\r\nZZZ\r\n")


async def bad_length(call: Call) -> None:
    await call.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nhello")


async def resets(call: Call) -> None:
    await call.head(200, "text/plain")
    await call.send(b"hello")
    await call.reset()


@pytest.mark.parametrize("answer", [endless_head, garbage, bad_chunks, bad_length, resets])
async def test_what_is_no_http_is_a_fault(answer) -> None:
    async with open_model_server(answer) as server:
        found = await fetched(server)
        assert isinstance(found, NotFetched)
        assert "could not be fetched" in found.reason
        await left_nothing(server)


async def trickle(call: Call) -> None:
    """Bytes for ever, and never the end: no silence would end it."""
    await call.head(200, "text/plain")
    await call.send(b"x")
    await call.pause()


async def informs(call: Call) -> None:
    await call.raw(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 3)
    await call.pause()


@pytest.mark.parametrize("answer", [never, head_only, trickle, informs])
async def test_a_fetch_has_an_end(answer, mock_clock: trio.testing.MockClock) -> None:
    async with open_model_server(answer) as server:
        found: list[object] = []

        async def fetch() -> None:
            found.append(await fetched(server))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch)
            call = await server.until_call(1)
            await call.reached.wait()
            mock_clock.jump(public.FETCH_S - 1)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert found == []
            mock_clock.jump(1.1)
        assert found == [NotFetched(f"site.test:{port_of(server)} took longer than 30 seconds.")]
        await server.until_sockets(0)
        gc.collect()


async def test_a_look_up_has_an_end(mock_clock: trio.testing.MockClock) -> None:
    asked = trio.Event()

    async def silent(host: str, port: int) -> list[str]:
        asked.set()
        await trio.sleep_forever()
        raise AssertionError

    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def end() -> None:
            await asked.wait()
            mock_clock.jump(public.FETCH_S + 1)

        answer = await Fetcher(Reach(resolve=silent)).fetch(parse_url("http://site.test/"))
    assert answer == NotFetched("site.test took longer than 30 seconds.")


# -- cancelling ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [never, head_only, trickle])
async def test_a_cancel_closes_the_connection_at_once(answer) -> None:
    async with open_model_server(answer) as server:
        for number in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetched, server)
                call = await server.until_call(number + 1)
                await call.reached.wait()
                nursery.cancel_scope.cancel()
            with trio.fail_after(5):
                await call.left.wait()
        await left_nothing(server)


async def test_a_cancel_of_a_look_up() -> None:
    asked = trio.Event()

    async def silent(host: str, port: int) -> list[str]:
        asked.set()
        await trio.sleep_forever()
        raise AssertionError

    async with trio.open_nursery() as nursery:
        nursery.start_soon(Fetcher(Reach(resolve=silent)).fetch, parse_url("http://site.test/"))
        await asked.wait()
        nursery.cancel_scope.cancel()


async def test_a_cancel_while_connecting() -> None:
    """A listener whose queue is full answers no one: the connect hangs."""
    with socket.socket() as full:
        full.bind((HERE, 0))
        full.listen(0)
        port = full.getsockname()[1]
        with socket.create_connection((HERE, port)):
            names = Names()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetcher(port, names=names).fetch, parse_url(f"http://site.test:{port}/"))
                await until(lambda: names.asked)
                await trio.testing.wait_all_tasks_blocked(0.05)
                nursery.cancel_scope.cancel()
    gc.collect()


async def test_a_cancel_in_the_handshake() -> None:
    async def silent(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            greeted.set()
            while await stream.receive_some():
                pass
            closed.set()

    greeted, closed = trio.Event(), trio.Event()
    listeners = await trio.open_tcp_listeners(0, host=HERE)
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as servers:
        servers.start_soon(trio.serve_listeners, silent, listeners)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetcher(port).fetch, parse_url(f"https://site.test:{port}/"))
            await greeted.wait()
            gc.disable()  # so that it is we who close
            nursery.cancel_scope.cancel()
        try:
            with trio.fail_after(5):
                await closed.wait()
        finally:
            gc.enable()
        servers.cancel_scope.cancel()


# -- certificates ----------------------------------------------------------------------------------------


async def over_tls(certified: Certified, host: str, *, trusted: bool):
    """Fetch from a server that is certified as ``site.test``: what came, and the name it was greeted by."""
    theirs = certified.server_context()
    greeted: list[str | None] = []
    theirs.sni_callback = lambda connection, name, context: greeted.append(name)

    async def answer(stream: trio.SSLStream) -> None:
        try:
            await stream.receive_some()
            await stream.send_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 6\r\n\r\nsecret"
            )
        except trio.BrokenResourceError:
            pass  # the client did not like the certificate
        finally:
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listeners = await trio.open_ssl_over_tcp_listeners(0, theirs, host=HERE, https_compatible=True)
        port = listeners[0].transport_listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, answer, listeners)
        ours = (
            {"authorities": lambda: ssl.create_default_context(cafile=certified.authority)} if trusted else {}
        )
        found = await fetcher(port, **ours).fetch(parse_url(f"https://{host}:{port}/"))
        nursery.cancel_scope.cancel()
    return found, greeted


async def test_a_certificate_for_the_name_is_taken_though_the_connection_is_to_a_number(certified) -> None:
    page, greeted = await over_tls(certified, "site.test", trusted=True)
    assert isinstance(page, Page)
    assert (page.body, greeted) == (b"secret", ["site.test"])


@pytest.mark.parametrize(
    ("host", "what"),
    [("other.test", "Hostname"), ("evil.site.test", "Hostname"), ("127.0.0.1", "IP address")],
)
async def test_a_certificate_for_another_name_is_refused(certified, host: str, what: str) -> None:
    found, _ = await over_tls(certified, host, trusted=True)
    assert isinstance(found, NotFetched)
    assert (
        f"its certificate was not accepted: {what} mismatch, certificate is not valid for '{host}'."
        in found.reason
    )


async def test_a_certificate_by_an_unknown_authority_is_refused(certified) -> None:
    found, _ = await over_tls(certified, "site.test", trusted=False)
    assert isinstance(found, NotFetched)
    assert "its certificate was not accepted: unable to get local issuer certificate." in found.reason


async def test_the_environment_may_name_the_authorities(certified, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certified.authority))
    page, _ = await over_tls(certified, "site.test", trusted=False)
    assert isinstance(page, Page)


async def test_an_authority_that_cannot_be_read_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    async with open_model_server(never) as server:
        answer = await fetched(server)
    assert isinstance(answer, NotFetched)
    assert answer.reason.startswith("A certificate file that the environment names cannot be used")
