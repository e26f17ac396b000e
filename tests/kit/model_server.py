"""A model server on the loopback interface, with real sockets and faults on demand.

``async with open_model_server(answer, answer, …) as server`` listens on a port of its own. The nth POST is
played by the nth answer, and the last answer plays all that follow. An answer is an async function that
gets a ``Call`` and does to the socket what it likes: the functions below make the usual ones. The server
records every request (``server.calls``) and counts its open sockets (``server.open_sockets``); whoever
tests for leaks waits on ``server.until_sockets``.
"""

import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
from attrs import define, field

Answer = Callable[["Call"], Awaitable[None]]


@define(eq=False)
class Call:
    """One request, and the means to answer it byte by byte."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    left: trio.Event = field(factory=trio.Event)  # the client closed its side, or the connection broke
    reached: trio.Event = field(factory=trio.Event)  # the answer came to its `pause`
    _stream: Any = field(default=None, alias="stream")
    _chunked: bool = False
    _done: bool = False
    _next: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def head(
        self, status: int = 200, content_type: str = "text/event-stream", headers: Mapping[str, str] = {}
    ) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", "transfer-encoding: chunked"]
        if content_type:
            lines.append(f"content-type: {content_type}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._chunked = True
        await self.raw("\r\n".join([*lines, "", ""]).encode())

    async def send(self, data: bytes | str) -> None:
        """One HTTP chunk."""
        data = data.encode() if isinstance(data, str) else data
        if data:
            await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def raw(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def end(self) -> None:
        self._done = True
        await self.raw(b"0\r\n\r\n")

    async def pause(self) -> None:
        """Say that this point is reached, then do nothing until the client leaves."""
        self.reached.set()
        await self.left.wait()

    async def reset(self) -> None:
        """Break the connection with a TCP reset."""
        stream = getattr(self._stream, "transport_stream", self._stream)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        stream.socket.close()


@define(eq=False)
class ModelServer:
    base_url: str
    answers: list[Answer]
    calls: list[Call] = field(factory=list)
    open_sockets: int = 0
    accepted: int = 0
    _changed: trio.Event = field(factory=trio.Event)

    async def until_call(self, count: int) -> Call:
        """Wait for the nth request (from 1) and return it."""
        while len(self.calls) < count:
            await self._changed.wait()
        return self.calls[count - 1]

    async def until_sockets(self, count: int) -> None:
        """Wait until at most ``count`` sockets are open."""
        while self.open_sockets > count:
            await self._changed.wait()

    def change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def answer_for(self, number: int) -> Answer:
        return self.answers[min(number, len(self.answers) - 1)]


@asynccontextmanager
async def open_model_server(
    *answers: Answer, tls: ssl.SSLContext | None = None, port: int = 0
) -> AsyncIterator[ModelServer]:
    """Serve until the block ends; with ``tls`` over TLS, and on a port of one's own choice."""
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    server = ModelServer(f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1", list(answers))

    async def connection(stream: Any) -> None:
        if tls is not None:
            stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        server.open_sockets += 1
        server.accepted += 1
        server.change()
        try:
            await _serve(server, stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            server.open_sockets -= 1
            server.change()
            await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, connection, listeners)
        try:
            yield server
        finally:
            nursery.cancel_scope.cancel()


async def _serve(server: ModelServer, stream: Any) -> None:
    buffer = b""
    while True:
        while b"\r\n\r\n" not in buffer:
            data = await stream.receive_some()
            if not data:
                return
            buffer += data
        head, _, buffer = buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", "0"))
        while len(buffer) < length:
            data = await stream.receive_some()
            if not data:
                return
            buffer += data
        body, buffer = buffer[:length], buffer[length:]
        method, path, _ = first.split(" ")
        call = Call(method, path, headers, body, stream=stream)
        answer = server.answer_for(len(server.calls))
        server.calls.append(call)
        server.change()
        async with trio.open_nursery() as nursery:
            # A client sends nothing while it waits for its answer: what can be read is its leaving, or, at
            # the very end, the beginning of its next request.
            nursery.start_soon(_watch, stream, call)
            try:
                await answer(call)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the client left, or the answer broke the connection: `_done` is not set
            nursery.cancel_scope.cancel()
        if not call._done:
            return
        buffer += call._next


async def _watch(stream: Any, call: Call) -> None:
    try:
        call._next = bytes(await stream.receive_some())
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass
    if not call._next:
        call.left.set()


# -- what a server of Chat Completions says --------------------------------------------------------


def event(value: Any, end: str = "\n") -> str:
    """One event with a JSON value (or a bare word such as ``[DONE]``) as its data."""
    data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"data: {data}{end}{end}"


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One ``chat.completion.chunk``."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def call_piece(index: int | None = 0, **rest: Any) -> dict[str, Any]:
    """One piece of a tool call: ``id``, ``name`` and ``arguments`` go where the wire wants them."""
    function = {name: rest.pop(name) for name in ("name", "arguments") if name in rest}
    return {"index": index, "function": function, **rest}


USAGE = {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}}


def plays(*values: Any, done: bool = True, end: bool = True) -> Answer:
    """A stream of events, each in a chunk of its own, then ``[DONE]`` and a clean end."""

    async def answer(call: Call) -> None:
        await call.head()
        for value in values:
            await call.send(event(value))
        if done:
            await call.send(event("[DONE]"))
        if end:
            await call.end()
        else:
            await call.pause()

    return answer


def says(text: str) -> Answer:
    """A whole reply of plain text, with usage."""
    return plays(chunk(role="assistant", content=""), chunk(content=text), chunk("stop"), USAGE)


def calls(name: str, arguments: Mapping[str, Any], call_id: str = "call_1") -> Answer:
    """A whole reply of one tool call."""
    piece = call_piece(id=call_id, name=name, arguments=json.dumps(arguments))
    return plays(chunk(tool_calls=[piece]), chunk("tool_calls"), USAGE)


def status(code: int, body: str = "", headers: Mapping[str, str] = {}) -> Answer:
    """An error status with a body, JSON by its looks."""

    async def answer(call: Call) -> None:
        await call.head(code, "application/json" if body.startswith("{") else "text/plain", headers)
        await call.send(body)
        await call.end()

    return answer


def body(text: bytes, content_type: str, headers: Mapping[str, str] = {}) -> Answer:
    """A 200 whose body is anything."""

    async def answer(call: Call) -> None:
        await call.head(200, content_type, headers)
        await call.send(text)
        await call.end()

    return answer


async def never(call: Call) -> None:
    """Take the request and say nothing, not even a head."""
    await call.pause()


async def head_only(call: Call) -> None:
    """Send the head and nothing after it."""
    await call.head()
    await call.pause()


async def refuse(call: Call) -> None:
    """Break the connection before any answer."""
    await call.reset()


def breaks_after(*values: Any) -> Answer:
    """Events, then a TCP reset."""

    async def answer(call: Call) -> None:
        await call.head()
        for value in values:
            await call.send(event(value))
        await call.reset()

    return answer


def in_pieces(data: bytes, size: int = 1, pieces: Sequence[int] = ()) -> Answer:
    """A body of an event stream, cut every ``size`` bytes, each piece a chunk of its own."""

    async def answer(call: Call) -> None:
        await call.head()
        for start in range(0, len(data), size):
            await call.send(data[start : start + size])
        await call.end()

    return answer


def keeps_alive(*values: Any, every_s: float = 0.02) -> Answer:
    """Events, then comments for ever."""

    async def answer(call: Call) -> None:
        await call.head()
        for value in values:
            await call.send(event(value))
        call.reached.set()
        while not call.left.is_set():
            await call.send(": keep-alive\n\n")
            with trio.move_on_after(every_s):
                await call.left.wait()

    return answer
