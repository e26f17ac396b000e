"""A client in memory, for tests under the autojump clock: no descriptor, no thread, no process.

``Wire`` is the pair of streams that a peer is given, and the client's hands on them: it feeds bytes, ends
the input, stops reading, goes away. ``WireClient`` speaks JSON-RPC over it and keeps the books: a request
that is answered twice, an answer to nothing, or, when it is closed, a request that was never answered
fails the test. ``served`` puts a peer and a client together.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
from trio.lowlevel import ParkingLot

from term2_acp.transport.peer import Door, Peer
from term2_acp.transport.streams import PeerGone
from term2_acp.transport.writer import Writer

Json = dict[str, Any]

# What a pipe holds on Linux.
PIPE_BYTES = 65_536


class Wire:
    """Both streams of one connection. The client's end is here; ``incoming`` and ``outgoing`` are ours.

    ``received`` is every byte that the client has read. A client that stopped reading leaves at most
    ``capacity`` bytes in the pipe.
    """

    def __init__(self, capacity: int = PIPE_BYTES) -> None:
        self.incoming = MemoryIncoming()
        self.outgoing = MemoryOutgoing(capacity)

    @property
    def received(self) -> bytes:
        """What the client has read."""
        return bytes(self.outgoing.read)

    def feed(self, data: bytes) -> None:
        """The client writes."""
        self.incoming.put(data)

    def end(self) -> None:
        """The client closes its output: our input ends after what was fed."""
        self.incoming.end()

    def stop_reading(self) -> None:
        """The client does not read on."""
        self.outgoing.stop()

    def resume_reading(self) -> None:
        """The client reads again."""
        self.outgoing.resume()

    def break_(self) -> None:
        """The client goes away: our writes fail."""
        self.outgoing.break_()


class MemoryIncoming:
    """``Incoming`` without a descriptor. Each ``feed`` is received in one piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._ended = False
        self._waiting = ParkingLot()

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while not self._pieces and not self._ended:
            await self._waiting.park()
        return self._pieces.pop(0) if self._pieces else b""

    def close(self) -> None:
        self._ended = True

    @property
    def unread(self) -> int:
        """How many pieces nobody has received."""
        return len(self._pieces)

    def put(self, data: bytes) -> None:
        assert data
        assert not self._ended, "the input has ended"
        self._pieces.append(data)
        self._waiting.unpark_all()

    def end(self) -> None:
        self._ended = True
        self._waiting.unpark_all()


class MemoryOutgoing:
    """``Outgoing`` without a descriptor: it holds ``capacity`` bytes while the client does not read."""

    def __init__(self, capacity: int) -> None:
        self.read = bytearray()
        self.writes: list[int] = []  # the size of every write that was taken, for those who count them
        self._capacity = capacity
        self._held = bytearray()
        self._reading = True
        self._broken = False
        self._changed = ParkingLot()

    def send_nowait(self, data: bytes | memoryview) -> int:
        if self._broken:
            raise PeerGone
        taken = len(data) if self._reading else min(len(data), self._capacity - len(self._held))
        (self.read if self._reading else self._held).extend(data[:taken])
        if taken:
            self.writes.append(taken)
            self._wake()
        return taken

    async def send(self, data: memoryview) -> int:
        await trio.lowlevel.checkpoint()
        while not (taken := self.send_nowait(data)):
            await self._changed.park()
        return taken

    def close(self) -> None:
        self.break_()

    async def more(self) -> None:
        """Wait until the client has read more, or is gone."""
        await self._changed.park()

    def stop(self) -> None:
        self._reading = False

    def resume(self) -> None:
        self._reading = True
        self.read += self._held
        self._held.clear()
        self._wake()

    def break_(self) -> None:
        self._broken = True
        self._wake()

    def _wake(self) -> None:
        self._changed.unpark_all()
        # The write may come from an instrument, when the loop has already decided to wait.
        trio.lowlevel.current_trio_token().run_sync_soon(lambda: None, idempotent=True)


class Refused(Exception):
    """A request was answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class WireClient:
    """A JSON-RPC client over a ``Wire``. ``check`` is given every frame that arrives, decoded.

    ``frames`` holds every frame in the order of arrival, the entries of an array one by one.
    """

    def __init__(self, wire: Wire, check: Callable[[Json], None] | None = None) -> None:
        self.wire = wire
        self.frames: list[Json] = []
        self._check = check
        self._parsed = 0
        self._next_id = 0
        self._open: Counter[tuple[type, int | str]] = Counter()
        self._answers: dict[tuple[type, int | str], list[Json]] = {}

    # -- sending -----------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Write one message, and note the requests in it."""
        for entry in message if isinstance(message, list) else [message]:
            if isinstance(entry, dict) and "method" in entry and isinstance(entry.get("id"), int | str):
                self.expect(entry["id"])
        self.wire.feed(json.dumps(message).encode() + b"\n")

    def start(self, method: str, params: Any = None, request_id: int | str | None = None) -> int | str:
        """Send a request and return its id."""
        if request_id is None:
            self._next_id += 1
            request_id = self._next_id
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        self.send(message if params is None else message | {"params": params})
        return request_id

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else message | {"params": params})

    def answer(self, request: Json, result: Any) -> None:
        """Answer a request of ours to the client."""
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def expect(self, *request_ids: int | str) -> None:
        """Note requests that were, or will be, fed to the wire as bytes: one answer to each is due."""
        self._open.update((type(request_id), request_id) for request_id in request_ids)

    # -- receiving ---------------------------------------------------------------------------------

    async def request(self, method: str, params: Any = None) -> Any:
        """Send a request and wait for its result. Raises ``Refused`` for an error."""
        answer = await self.response(self.start(method, params))
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    async def response(self, request_id: int | str) -> Json:
        """Wait for the next answer to that id: the whole frame."""
        key = (type(request_id), request_id)
        while not self._answers.get(key):
            await self._more()
        return self._answers[key].pop(0)

    async def next(self, predicate: Callable[[Json], bool], start: int = 0) -> Json:
        """Wait for the first frame, from the given place in ``frames`` on, that fits."""
        while True:
            self._parse()
            for frame in self.frames[start:]:
                if predicate(frame):
                    return frame
            start = len(self.frames)
            await self._more()

    async def called(self, method: str, start: int = 0) -> Json:
        """Wait for a request or notification of ours by its method."""
        return await self.next(lambda frame: frame.get("method") == method, start)

    def arrived(self) -> list[Json]:
        """All frames that have arrived, without waiting."""
        self._parse()
        return self.frames

    def close(self) -> None:
        """The end of the test: every request must have its answer."""
        self._parse()
        unanswered = sorted(repr(request_id) for _, request_id in self._open.elements())
        assert not unanswered, f"never answered: {unanswered}"

    async def _more(self) -> None:
        if not self._parse():
            await self.wire.outgoing.more()
            self._parse()

    def _parse(self) -> bool:
        """Take in the lines that are complete; whether there were any."""
        data = self.wire.outgoing.read
        end = data.rfind(b"\n")
        if end < self._parsed:
            return False
        lines = bytes(data[self._parsed : end]).split(b"\n")
        self._parsed = end + 1
        for line in lines:
            message = json.loads(line)
            entries = message if isinstance(message, list) else [message]
            assert entries, "an empty array was sent"
            for frame in entries:
                self._take(frame)
        return True

    def _take(self, frame: Json) -> None:
        assert frame["jsonrpc"] == "2.0", frame
        self.frames.append(frame)
        if self._check is not None:
            self._check(frame)
        if "method" in frame:
            return
        assert ("result" in frame) != ("error" in frame), frame
        if frame["id"] is None:
            return
        key = (type(frame["id"]), frame["id"])
        assert self._open[key], f"an answer to nothing, or a second one: {frame}"
        self._open[key] -= 1
        self._answers.setdefault(key, []).append(frame)


@asynccontextmanager
async def served(
    door: Door, *, wire: Wire | None = None, check: Callable[[Json], None] | None = None
) -> AsyncIterator[tuple[WireClient, Peer]]:
    """A running peer with that door, and its client; at the end the input ends and the books are closed."""
    wire = wire or Wire()
    client = WireClient(wire, check)
    writer = Writer(wire.outgoing)
    peer = Peer(wire.incoming, writer, door)

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await peer.run()

    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        await nursery.start(run)
        yield client, peer
        wire.end()
        await peer.ended.wait()
        await writer.drained()
        nursery.cancel_scope.cancel()
    client.close()
