"""The channel between a program and the daemon: how the program of ``run_code`` calls tools.

Theory of operation. The channel is a pair of sockets; the program holds one end and may write anything to it.
One frame is one line of JSON. The daemon begins (``first_frame``), and from then on they take turns: the
program asks (``{"name": ..., "arguments": {...}}``), and nothing more is taken from it until the daemon has
answered (``{"text": ...}``, or ``{"error": ...}``). So a program has one call open at most, what it writes
without reading answers waits in its own socket, and memory is bounded by one frame.

Rules:

- What is no call, or out of turn, or too long, too deep, too much, is ``Garbage``: the channel is closed for
  good, and the call that is open is ended. So it is when the program closes its end. The daemon goes on, and
  so does the program, whose later calls fail.
- The arguments that go on are written anew from what was decoded: what is shown is what runs.
- After ``MAX_CALLS`` calls, or ``MAX_ARGUMENT_BYTES`` of arguments, the next one is refused with words, and
  the channel is closed.
"""

import json
import re
import socket
from collections.abc import Mapping
from typing import Any

import msgspec
import trio
from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.jsonrpc.closelook import holds_too_many_values
from term2_acp.tools.base import CallPorts, NestedResult, Nesting
from term2_acp.tools.clock import Clock

# Calls of one program. A person watches them; what needs more is better done in the program itself.
MAX_CALLS = 200

# Bytes of one frame: a file of any size that an edit makes sense for, and its escapes.
MAX_FRAME_BYTES = 8 * 1024 * 1024

# Bytes of the arguments of all calls of one program. They are shown and journalled, so disks pay for them.
MAX_ARGUMENT_BYTES = 64 * 1024 * 1024

# Values in one frame. The longest list that a tool takes has some hundreds; each value costs time to look at.
MAX_VALUES = 20_000

# Containers inside one another in one frame. No tool takes more than four.
MAX_DEPTH = 64

# Characters of a tool's name; none has as many, and a name is shown in a title.
MAX_NAME = 100

# What a tool's name is made of. Others are not made a call of: a name is shown.
_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")

# Bytes that are read at a time.
READ_BYTES = 64 * 1024


class Garbage(Exception):
    """What the program wrote to the channel is no call in its turn. The message says what was seen."""


@frozen
class Asked:
    """A call that a program asks for. ``arguments`` is JSON text of an object."""

    name: str
    arguments: str


def first_frame(code: str, parameters: Mapping[str, tuple[str, ...]]) -> bytes:
    """What the program is begun with: its code, and the names of each tool's arguments in their order."""
    return _frame({"code": code, "parameters": parameters, "max_frame_bytes": MAX_FRAME_BYTES})


def answer(result: NestedResult) -> bytes:
    """What the program is told of a call that has ended."""
    frame = _frame({"error" if result.failed else "text": result.text})
    if len(frame) > MAX_FRAME_BYTES:
        return refusal("The result of this call is too long to be handed to a program.")
    return frame


def refusal(words: str, *, last: bool = False) -> bytes:
    """What the program is told of a call that was not made. ``last``: no other will be."""
    return _frame({"error": words, "last": last})


def _frame(value: Any) -> bytes:
    """One line. Escaped whole, so that a lone surrogate, which no encoder takes, arrives as it is."""
    return json.dumps(value).encode() + b"\n"


class Decoder:
    """Bytes of a program in, its calls out. It takes one call at a time, and holds one frame at most."""

    def __init__(self) -> None:
        self._line = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How much of a frame that has not ended is kept."""
        return len(self._line)

    def feed(self, data: bytes) -> Asked | None:
        """Take bytes as they come; the call that they complete.

        Raises:
            Garbage: they are no call, or go on behind one. Nothing more must be fed.
        """
        end = data.find(b"\n")
        self._line += data
        if len(self._line) > MAX_FRAME_BYTES:
            raise Garbage(f"more than {MAX_FRAME_BYTES:,} bytes in one frame")
        if end < 0:
            return None
        if end != len(data) - 1:
            raise Garbage("bytes behind a call that is not answered yet")
        line = bytes(self._line)
        self._line.clear()
        return _decoded(line)


def _decoded(line: bytes) -> Asked:
    if holds_too_many_values(line, line.count(b"{") + line.count(b"[")):
        raise Garbage("too many values")
    try:
        frame = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Garbage("bytes that are no JSON") from None
    if not isinstance(frame, dict) or frame.keys() != {"name", "arguments"}:
        raise Garbage("a frame that is no call")
    name, arguments = frame["name"], frame["arguments"]
    if not isinstance(name, str) or len(name) > MAX_NAME or not isinstance(arguments, dict):
        raise Garbage("a frame that is no call")
    _check_size(arguments)
    return Asked(name, msgspec.json.encode(arguments).decode())


def _check_size(arguments: dict[str, Any]) -> None:
    """Look at no more values than are allowed, level by level.

    Raises:
        Garbage: there are more, or they go deeper.
    """
    layer: list[Any] = [arguments]
    left = MAX_VALUES
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for value in layer:
            left -= len(value)
            if left < 0:
                raise Garbage("too many values")
            members = value.values() if isinstance(value, dict) else value
            inner += (member for member in members if isinstance(member, dict | list))
        if not inner:
            return
        layer = inner
    raise Garbage("values too deep inside one another")


@define(eq=False)
class Channel:
    """The daemon's end of the channel of one program. ``clock`` stands still while the person is asked.

    ``fault`` says what garbage closed it, once it has been closed by some.
    """

    _socket: socket.socket
    _clock: Clock
    calls: int = field(default=0, init=False)
    fault: str | None = field(default=None, init=False)
    _argument_bytes: int = field(default=0, init=False)
    _decoder: Decoder = field(factory=Decoder, init=False)
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    async def serve(self, first: bytes, ports: CallPorts) -> None:
        """Send the first frame, then answer calls until the channel is closed, by whomever.

        A call that is open when it is closed has ended as failed when this returns. Cancelled, such a call
        stays open, for the turn to end it. In any case our end of the channel is closed.
        """
        try:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(self._socket))
            async with ports.nesting() as nesting:
                with self._scope:
                    await self._take_turns(stream, first, nesting)
        except Garbage as garbage:
            self.fault = str(garbage)
        finally:
            self._socket.close()

    def close_nowait(self) -> None:
        """The program has ended: ``serve`` ends the call that is open, and returns."""
        self._scope.cancel()

    async def _take_turns(self, stream: trio.SocketStream, first: bytes, nesting: Nesting) -> None:
        try:
            await stream.send_all(first)
            while (asked := await self._next(stream)) is not None:
                words = self._over_limit(asked)
                if words is not None:
                    await stream.send_all(refusal(words, last=True))
                    return
                if not _NAME.fullmatch(asked.name):
                    await stream.send_all(refusal("There is no tool of that name."))
                    continue
                result = await self._result(stream, asked, nesting)
                if result is None:
                    return
                await stream.send_all(answer(result))
        except trio.BrokenResourceError:
            return  # the program, or its end, has gone

    async def _next(self, stream: trio.SocketStream) -> Asked | None:
        """Wait for a call; None when the program closed its end."""
        while data := await stream.receive_some(READ_BYTES):
            asked = self._decoder.feed(bytes(data))
            if asked is not None:
                return asked
        return None

    def _over_limit(self, asked: Asked) -> str | None:
        """Count the call; why it is one too many, if it is."""
        self.calls += 1
        self._argument_bytes += len(asked.arguments.encode())
        if self.calls > MAX_CALLS:
            return f"This program has made its {MAX_CALLS} calls; it can make no more."
        if self._argument_bytes > MAX_ARGUMENT_BYTES:
            return f"The calls of this program have more than {MAX_ARGUMENT_BYTES:,} bytes; it makes no more."
        return None

    async def _result(self, stream: trio.SocketStream, asked: Asked, nesting: Nesting) -> NestedResult | None:
        """Make the call; None when the program closes its end meanwhile, and nobody waits for the result.

        Raises:
            Garbage: the program writes although it is not its turn.
        """
        results: list[NestedResult] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_readable, stream, nursery.cancel_scope)
            results.append(await nesting.call(asked.name, asked.arguments, self._clock.paused))
            nursery.cancel_scope.cancel()
        if not results and await stream.receive_some(1):
            raise Garbage("bytes before the answer to a call")
        return results[0] if results else None


async def _until_readable(stream: trio.SocketStream, call: trio.CancelScope) -> None:
    """The program says something, if only that it has gone, before its call is answered: end the call."""
    await trio.lowlevel.wait_readable(stream.socket)
    call.cancel()
