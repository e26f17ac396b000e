"""Pages of the public internet: one GET at a time, to an address that was checked, within bounds.

Theory of operation. A URL is read once (``url``). Its host is looked up once, by us; every address that came
back must be public (``addresses``); and the connection is made to one of those very addresses, with the name
only in the ``Host`` header and in the TLS handshake, where the certificate is checked against it. Between the
check and the connection nobody asks a name server again, so a name that changes its answer gains nothing.
A redirect is an answer, not an instruction: the same host is asked again from the start, another host is
handed back to the caller, who asks a person.

An exchange runs inside a scope of ours, which alone ends it early: httpx2 reads through nested asynchronous
generators, and a ``break`` or an exception in the middle would leave those to the garbage collector (see
``client``).

Rules:

- Nothing of the person goes along: no cookies, no credentials, no referrer.
- No proxy of the environment is used: it would look the name up for us, inside a network that we must not
  reach, and none of the checks would mean anything. The environment's certificate authorities are.
- Nothing is kept between two requests: a connection serves one.
- Faults, refusals and redirects to elsewhere are values. Cancellation passes through, and closes the
  connection at once. (A look-up that was given up goes on in its thread until the resolver ends it.)
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from term2_acp import __version__
from term2_acp.web.addresses import not_public
from term2_acp.web.body import ContentType, Inflow, content_type_of
from term2_acp.web.compression import Compression, NotReadable, compression_of
from term2_acp.web.connecting import Connecting
from term2_acp.web.faults import Fault, HttpFault, fault_of
from term2_acp.web.url import PublicUrl, UrlRefused

if TYPE_CHECKING:
    import ssl

    import httpx2

# Seconds for everything: the look-ups, each redirect, the body.
FETCH_S = 30
# Seconds to connect to one address: a host with a dead one among several must leave time for the next.
CONNECT_S = 8
# Addresses of one host that are tried.
MAX_TRIED = 4
# Bytes of a body, decompressed: more than any page that is read, and less than a download.
MAX_BODY_BYTES = 5 * 1024 * 1024
# Redirects that are followed on one host: enough for https, a slash at the end and a language. (The bound of
# an answer's head, 100 KiB, is that of the HTTP library.)
MAX_REDIRECTS = 5

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Compression is asked for by name, so that none comes which is not undone within a bound.
_HEADERS = {
    "user-agent": f"term2/{__version__}",
    "accept": "text/html, text/*;q=0.9, application/json;q=0.9, application/xml;q=0.8, */*;q=0.1",
    "accept-encoding": "gzip",
    "connection": "close",
}


@frozen
class Page:
    """An answer, whatever its status. ``url`` is where it came from in the end.

    ``body`` is None when its kind is not one of text; it was then not read at all, and ``size`` is how many
    bytes the server said it has, if it did. ``cut``: it went on after ``MAX_BODY_BYTES``.
    """

    url: PublicUrl
    status: int
    kind: ContentType
    body: bytes | None
    cut: bool = False
    size: int | None = None


@frozen
class Elsewhere:
    """``url`` says that what was asked for is at ``target``, and nobody has allowed to go there."""

    url: PublicUrl
    status: int
    target: PublicUrl


@frozen
class NotFetched:
    """There is no answer. ``reason`` is a sentence; words of the server in it are not escaped."""

    reason: str


@frozen
class _Moved:
    status: int
    location: str


Fetched = Page | Elsewhere | NotFetched

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


async def look_up(host: str, port: int) -> Sequence[str]:
    """Wait for the addresses of a name, in the order in which the system would try them.

    Raises:
        OSError: it has none, or no name server answers.
    """
    # As bytes: Trio would put text through another reading of names than the one they have been through.
    found = await trio.socket.getaddrinfo(host.encode("ascii"), port, type=trio.socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def only_public(address: str, port: int) -> str | None:
    """What an address is that must not be reached, on any port; None for a public one."""
    del port
    return not_public(address)


def system_authorities() -> "ssl.SSLContext":
    """A TLS context that checks names, with the certificate authorities of the system or the environment."""
    import httpx2  # heavy: not before the first request

    return httpx2.create_ssl_context()


@frozen
class Reach:
    """How far a fetch may go. The product uses it as it is; a test widens it to fetch from itself.

    ``resolve`` gives the addresses of a name. ``refusal`` says of an address and a port what they are that
    must not be reached, or None. ``authorities`` makes the TLS context.
    """

    resolve: Resolve = look_up
    refusal: Callable[[str, int], str | None] = only_public
    authorities: Callable[[], "ssl.SSLContext"] = system_authorities


class Fetcher:
    """Fetches pages. Made without cost; it keeps nothing but the TLS context, made on first use."""

    def __init__(self, reach: Reach | None = None) -> None:
        self._reach = reach or Reach()
        self._context: ssl.SSLContext | None = None

    def refusal(self, url: PublicUrl) -> str | None:
        """Why ``url`` cannot be fetched, as far as that shows without a look-up: a sentence, or None."""
        return self._refused(url, [url.host]) if url.literal else None

    async def fetch(self, url: PublicUrl) -> Fetched:
        """Wait for the answer to a GET, for at most ``FETCH_S`` seconds.

        Cancelled, the connection is closed at once.
        """
        with trio.move_on_after(FETCH_S):
            return await self._follow(url)
        return NotFetched(f"{url.place} took longer than {FETCH_S} seconds.")

    async def _follow(self, url: PublicUrl) -> Fetched:
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._ask(url)
            if not isinstance(answer, _Moved):
                return answer
            try:
                target = url.join(answer.location)
            except UrlRefused as error:
                return NotFetched(f"{url.place} redirects to what cannot be fetched. {error.reason}")
            if not url.leads_to(target):
                return Elsewhere(url, answer.status, target)
            url = target
        return NotFetched(f"{url.place} redirects more than {MAX_REDIRECTS} times.")

    async def _ask(self, url: PublicUrl) -> Page | NotFetched | _Moved:
        """One request: look up, check, and try the addresses in order until one can be connected to."""
        addresses: Sequence[str] = [url.host]
        if not url.literal:
            try:
                addresses = await self._reach.resolve(url.host, url.port)
            except OSError as error:
                return NotFetched(f"{url.host} could not be looked up: {error.strerror or 'no answer'}.")
        refused = self._refused(url, addresses)
        if refused is not None:
            return NotFetched(refused)
        fault = HttpFault(Fault.UNREACHABLE, "it has no address")
        for address in addresses[:MAX_TRIED]:
            answer = await self._get(url, address)
            if not isinstance(answer, HttpFault):
                return answer
            fault = answer
            if fault.kind is not Fault.UNREACHABLE:
                break
        return NotFetched(f"{url.place} could not be fetched: {fault.reason}.")

    def _refused(self, url: PublicUrl, addresses: Sequence[str]) -> str | None:
        """A sentence when one of the addresses must not be reached: then none of them is.

        It does not say which address: a model could map a network by asking.
        """
        for address in addresses:
            what = self._reach.refusal(address, url.port)
            if what is not None:
                leads = "is" if url.literal else "leads to"
                return f"{url.host} {leads} {what}; only public addresses are fetched from."
        return None

    async def _get(self, url: PublicUrl, address: str) -> Page | NotFetched | _Moved | HttpFault:
        """Send the request to this very address, and read the answer."""
        import httpx2  # heavy: not before the first request

        try:
            if self._context is None:
                self._context = self._reach.authorities()
        except OSError as error:
            return NotFetched(
                f"A certificate file that the environment names cannot be used: {error.strerror}."
            )
        where = httpx2.URL(
            scheme=url.scheme, host=address, port=url.port, raw_path=url.target.encode("ascii")
        )
        clocks = httpx2.Timeout(None, connect=CONNECT_S)
        connecting = Connecting()
        try:
            async with httpx2.AsyncClient(verify=self._context, trust_env=False, timeout=clocks) as client:
                return await _exchange(client, where, url, connecting)
        except httpx2.HTTPError as error:
            return fault_of(error, CONNECT_S)
        finally:
            await connecting.aclose()


async def _exchange(
    client: "httpx2.AsyncClient", where: "httpx2.URL", url: PublicUrl, connecting: Connecting
) -> Page | NotFetched | _Moved:
    """Ask, and read to the end or the bound. Only the scope here ends the reading before the server does."""
    # The certificate is checked against `sni_hostname`; without it, against the address.
    extensions = {"sni_hostname": url.host, "trace": connecting.trace}
    headers = {**_HEADERS, "host": url.authority}
    unreadable = ""
    with trio.CancelScope() as reading:
        async with client.stream("GET", where, headers=headers, extensions=extensions) as response:
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                return _Moved(response.status_code, location)
            kind = content_type_of(response.headers.get("content-type"))
            if not kind.is_text:
                return Page(url, response.status_code, kind, None, size=_declared_size(response))
            compression = compression_of(response.headers.get("content-encoding"))
            if compression is None:
                return NotFetched(f"{url.place} answers in a compression that was not asked for.")
            inflow = Inflow(MAX_BODY_BYTES, compression is Compression.GZIP)
            async for data in response.aiter_raw():
                try:
                    inflow.feed_nowait(data)
                except NotReadable as error:
                    unreadable = str(error)
                if inflow.ended or unreadable:
                    reading.cancel()  # met where the next bytes would be waited for
                # The library waits only when it has nothing left. A server that sends a byte a piece would
                # have ten thousand pieces dealt with between two waits, and nobody else served meanwhile. A
                # cancel must not be met here, but inside of the generator.
                await trio.lowlevel.cancel_shielded_checkpoint()
    try:
        body = inflow.body()
    except NotReadable as error:
        unreadable = unreadable or str(error)
    if unreadable:
        return NotFetched(f"{url.place} answers with what cannot be read: {unreadable}.")
    return Page(url, response.status_code, kind, body, cut=inflow.cut)


def _declared_size(response: "httpx2.Response") -> int | None:
    declared = response.headers.get("content-length", "")
    # Longer than any number of bytes there is, it is no number to be read.
    return int(declared) if declared.isdecimal() and len(declared) < 20 else None
