"""The one HTTP client: streaming requests under Trio, with faults as values.

Theory of operation. ``HttpClient.post`` and ``HttpClient.get`` are contexts. A task of its own sends the
request and reads the answer into a bounded channel; ``HttpExchange.head`` waits for its head, and
``HttpResponse.receive`` hands on, in one piece, what has arrived since, within a bound. Leaving the
context, by its end, by an error or by a cancel, cancels that task; a connection that was still being made is
closed (``connecting``).

Why a task: httpx2 reads through nested asynchronous generators. Left by ``break`` or an exception they
are closed by the garbage collector, with a warning and without the loop; cancelled from inside, each of
them closes itself and gives its connection back. So the reading is always inside a scope of ours, it is
always that scope which ends it, and it must find the task *inside* the generators: between two chunks the
task waits under a shield, for room in the channel, which leaving the context closes.

Rules:

- Network faults, timeouts and protocol errors are ``HttpFault`` values. Cancellation passes through.
- httpx2 (58 ms) and the TLS context (20 to 33 ms) are made on first use, never at start-up.
- Proxies and certificate authorities come from the environment (``HTTP_PROXY``, ``HTTPS_PROXY``,
  ``ALL_PROXY``, ``NO_PROXY``; ``SSL_CERT_FILE``, ``SSL_CERT_DIR``). Loopback is never sent to a proxy.
- No redirect is followed: a key must not travel to a host that nobody configured.
- No compression is asked for. Gzip is undone all the same, in bounded pieces, because gateways compress what
  they like; any other compression is a fault.
- No clock but that of the connect: how long a silence may last is the caller's knowledge.
"""

import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trio
from attrs import define, field

from term2_acp.web.compression import NotReadable, Passing, compression_of
from term2_acp.web.connecting import Connecting
from term2_acp.web.faults import Fault, HttpFault, fault_of

if TYPE_CHECKING:
    import httpx2

# A connect that takes longer than this (seconds, per address) is a host that drops packets.
CONNECT_S = 15
# Connections that are kept open for the next request of a turn.
_KEPT_CONNECTIONS = 20
# Seconds an idle connection is kept. Tools run between two requests of a turn; servers commonly close
# after 5 to 120 s, and a connection that they closed is noticed before it is used.
_KEPT_FOR_S = 60
# Chunks (of at most 64 KiB) read ahead of whoever parses them.
_READ_AHEAD = 16
# Bytes from which on no more are joined to what is handed on: parsing a MiB of small events takes a tenth of
# a second, in which nobody else is served.
_MOST_AT_ONCE = 128 * 1024


@define
class HttpResponse:
    """The head of an answer, and its body as it arrives. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    _chunks: "trio.MemoryReceiveChannel[bytes | HttpFault]" = field(alias="chunks")
    _fault: HttpFault | None = field(default=None, init=False)

    async def receive(self) -> bytes | HttpFault:
        """Wait for bytes: what has arrived, in one piece; ``b""`` is the end of the body.

        After the end or a fault there is nothing more to receive. Cancelled, it loses nothing that it
        would have returned.
        """
        if self._fault is not None:
            await trio.lowlevel.checkpoint()
            return self._fault
        try:
            first = await self._chunks.receive()
        except trio.EndOfChannel:
            return b""
        if isinstance(first, HttpFault):
            return first
        chunks, size = [first], len(first)
        while size < _MOST_AT_ONCE:
            try:
                chunk = self._chunks.receive_nowait()
            except (trio.WouldBlock, trio.EndOfChannel):
                break
            if isinstance(chunk, HttpFault):
                self._fault = chunk  # for the next call: what came before it stands
                break
            chunks.append(chunk)
            size += len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


@define
class HttpExchange:
    """A request that is under way."""

    _head: "trio.MemoryReceiveChannel[HttpResponse | HttpFault]" = field(alias="head")

    async def head(self) -> HttpResponse | HttpFault:
        """Wait for the head of the answer, or the fault that came instead. To be called once."""
        return await self._head.receive()


@define
class _Pipe:
    """The bytes of one answer, from the task that reads them to the one that wants them."""

    send: "trio.MemorySendChannel[bytes | HttpFault]"
    receive: "trio.MemoryReceiveChannel[bytes | HttpFault]"

    async def pass_on(self, what: bytes | HttpFault) -> None:
        """Wait for room. A cancel must not be met here (see above); leaving the context ends the wait."""
        with trio.CancelScope(shield=True):
            try:
                await self.send.send(what)
            except trio.BrokenResourceError:
                pass  # nobody reads any more, and the scope around the reading is cancelled


class HttpClient:
    """A pool of connections to one base URL. Made without cost; opened by the first request."""

    def __init__(self, base_url: str) -> None:
        try:
            parts = urlsplit(base_url)
        except ValueError:  # half an IPv6 address, say; the request will tell
            parts = urlsplit("")
        self._trust_env = not is_loopback(parts.hostname or "")
        # A plain-HTTP loopback server needs no certificates, and loading them takes 20 ms.
        self._verify = parts.scheme != "http" or self._trust_env
        self._client: httpx2.AsyncClient | None = None

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[HttpExchange]:
        """Send ``body``. The context is entered at once; what it yields waits for the answer.

        Leaving the context stops the reading; the connection goes back to the pool if the body was
        read to its end, and is closed otherwise.
        """
        return self._ask("POST", url, headers, body)

    def get(self, url: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[HttpExchange]:
        """Ask for ``url``; the context is that of ``post``."""
        return self._ask("GET", url, headers, None)

    async def aclose(self) -> None:
        """Close every connection. Waits for nothing but the sockets' own closing."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def _ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> AsyncIterator[HttpExchange]:
        send_head, receive_head = trio.open_memory_channel[HttpResponse | HttpFault](1)
        chunks = _Pipe(*trio.open_memory_channel[bytes | HttpFault](_READ_AHEAD))
        error: Exception | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._exchange, method, url, headers, body, send_head, chunks)
            try:
                yield HttpExchange(receive_head)
            except Exception as raised:  # noqa: BLE001 - raised again below, outside of the nursery
                error = raised
            finally:
                chunks.receive.close()
                nursery.cancel_scope.cancel()
        if error is not None:
            raise error

    async def _exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        head: "trio.MemorySendChannel[HttpResponse | HttpFault]",
        chunks: _Pipe,
    ) -> None:
        import httpx2  # heavy: not before the first request

        head_sent = False
        fault: HttpFault | None = None
        connecting = Connecting()
        try:
            client = self._open()
            # Compression would hold small events back in the server's and our buffers.
            sent = {"accept-encoding": "identity", **headers}
            extensions = {"trace": connecting.trace}
            async with client.stream(
                method, url, headers=sent, content=body, extensions=extensions
            ) as response:
                names = {name.lower(): value for name, value in response.headers.items()}
                head.send_nowait(HttpResponse(response.status_code, names, chunks.receive))
                head_sent = True
                fault = await _read(response, names.get("content-encoding"), chunks)
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            fault = fault_of(error, CONNECT_S)
        except (ImportError, OSError, ValueError) as error:
            fault = HttpFault(Fault.UNUSABLE, _unusable_reason(error))
        finally:
            await connecting.aclose()
        if not head_sent:
            assert fault is not None
            head.send_nowait(fault)
            return
        if fault is not None:
            await chunks.pass_on(fault)
        chunks.send.close()

    def _open(self) -> "httpx2.AsyncClient":
        if self._client is None:
            import httpx2  # heavy: not before the first request

            self._client = httpx2.AsyncClient(
                trust_env=self._trust_env,
                # Read whatever the rule for proxies: a server of this machine may have an own authority.
                verify=httpx2.create_ssl_context() if self._verify else False,
                timeout=httpx2.Timeout(None, connect=CONNECT_S),
                limits=httpx2.Limits(
                    max_connections=None,
                    max_keepalive_connections=_KEPT_CONNECTIONS,
                    keepalive_expiry=_KEPT_FOR_S,
                ),
            )
        return self._client


async def _read(response: "httpx2.Response", coding: str | None, chunks: _Pipe) -> HttpFault | None:
    """Pass the body on to its end; returns why it cannot be read, where the network is not at fault."""
    compression = compression_of(coding)
    if compression is None:
        return HttpFault(Fault.UNUSABLE, "it answers in a compression that was not asked for")
    passing = Passing(compression)
    unreadable: NotReadable | None = None
    with trio.CancelScope() as reading:  # as everywhere here: only a scope ends the reading early
        async for data in response.aiter_raw():
            try:
                for piece in passing.feed(data):
                    await chunks.pass_on(piece)
            except NotReadable as error:
                unreadable = error
                reading.cancel()  # met where the next bytes would be waited for
    if unreadable is None:
        try:
            passing.finish()
        except NotReadable as error:
            unreadable = error
    return None if unreadable is None else HttpFault(Fault.BROKE, f"what came is not gzip: {unreadable}")


def is_loopback(host: str) -> bool:
    """Whether ``host`` is this machine by its name or number; nothing is looked up."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _unusable_reason(error: Exception) -> str:
    """What the environment or the settings got wrong, without the value: it may hold a password."""
    if isinstance(error, ImportError):
        return "the proxy that the environment names needs a package that is not installed"
    if isinstance(error, OSError):
        return f"a certificate file that the environment names cannot be used: {error.strerror}"
    return "an address, a header or a proxy setting is not valid"
