"""A proxy on the loopback interface that opens tunnels (``CONNECT``) to where a test wants them to lead."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import trio
from attrs import define, field


@define(eq=False)
class Proxy:
    """``asked`` are the heads of the requests it got; ``open_sockets`` counts the clients it has now."""

    url: str
    asked: list[str] = field(factory=list)
    open_sockets: int = 0
    _changed: trio.Event = field(factory=trio.Event)

    async def until_asked(self, count: int) -> None:
        """Wait for the nth request (from 1)."""
        while len(self.asked) < count:
            await self._changed.wait()

    async def until_sockets(self, count: int) -> None:
        """Wait until at most ``count`` clients are connected."""
        while self.open_sockets > count:
            await self._changed.wait()

    def change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def open_proxy(routes: Mapping[str, int]) -> AsyncIterator[Proxy]:
    """Serve until the block ends. ``routes`` gives the port on this machine for each ``host:port``.

    What it has no route for is refused with 502; a route to port 0 is never answered.
    """
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = Proxy(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")

    async def serve(client: trio.SocketStream) -> None:
        proxy.open_sockets += 1
        try:
            await _tunnel(proxy, client, routes)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            proxy.open_sockets -= 1
            proxy.change()

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, serve, listeners)
        try:
            yield proxy
        finally:
            nursery.cancel_scope.cancel()


async def _tunnel(proxy: Proxy, client: trio.SocketStream, routes: Mapping[str, int]) -> None:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        data = await client.receive_some(1)
        if not data:
            return
        head += data
    proxy.asked.append(head.decode())
    proxy.change()
    port = routes.get(head.split(b" ")[1].decode())
    if port is None:
        await client.send_all(b"HTTP/1.1 502 Nowhere\r\ncontent-length: 0\r\n\r\n")
        return
    if port == 0:
        await client.receive_some()
        return
    server = await trio.open_tcp_stream("127.0.0.1", port)
    async with server, trio.open_nursery() as nursery:
        await client.send_all(b"HTTP/1.1 200 Connected\r\n\r\n")
        for source, target in ((client, server), (server, client)):
            nursery.start_soon(_copy, source, target, nursery.cancel_scope)


async def _copy(source: trio.SocketStream, target: trio.SocketStream, both: trio.CancelScope) -> None:
    """Until either side ends: then the tunnel ends."""
    try:
        while data := await source.receive_some():
            await target.send_all(data)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    both.cancel()
