"""The client's side of one connection: it writes and reads lines, and forgives nothing.

Every line that term2 writes goes through the schema gate and the order checker; one that fails ends the
test. ``Wire`` is given a function that sends bytes, and is fed with what arrives; where the bytes go
(a pipe, a socket, a terminal, a memory stream) is the business of whoever made it.
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable
from operator import itemgetter
from typing import Any

import trio
from attrs import define, field

from tests.kit.order import Order
from tests.kit.order_v1 import OrderV1
from tests.kit.schema import Gate

# Nothing that a test waits for takes longer, unless it is broken.
ANSWERS_WITHIN_S = 20

Json = dict[str, Any]


class Refused(Exception):
    """A request was answered with an error; or is to be, where ``Wire.on_call`` raises it."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']} {error.get('data', '')}")
        self.error = error
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data = error.get("data")


@define
class Call:
    """A request on its way. ``result`` waits for its answer."""

    request_id: int | str
    method: str
    _answered: trio.Event = field(factory=trio.Event)
    answer: Json | None = None

    def settle(self, answer: Json) -> None:
        self.answer = answer
        self._answered.set()

    @property
    def answered(self) -> bool:
        return self._answered.is_set()

    async def result(self) -> Any:
        """The result of the request, once it is there.

        Raises:
            Refused: it was answered with an error.
            trio.TooSlowError: it was not answered.
        """
        with trio.fail_after(ANSWERS_WITHIN_S):
            await self._answered.wait()
        assert self.answer is not None
        if "error" in self.answer:
            raise Refused(self.answer["error"])
        return self.answer["result"]


class Orders:
    """The order checker of the version that the gate saw agreed on. Both see what the client sends."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._of: dict[int, Order | OrderV1] = {1: OrderV1(), 2: Order()}

    def sent(self, line: bytes | str) -> None:
        for order in self._of.values():
            order.sent(line)

    def received(self, line: bytes | str) -> None:
        self._of[self._gate.version].received(line)

    def finish(self) -> None:
        self._of[self._gate.version].finish()


class Wire:
    """One connection.

    ``on_ask`` may answer permission requests with a result; None leaves them for ``next_ask``. ``on_call``
    may answer every other request of term2's (those for files) likewise, or raise ``Refused``; None leaves
    them for ``next_call``. ``tap`` gets the bytes as they arrive, before anything looks at them.
    """

    def __init__(self, send_bytes: Callable[[bytes], Awaitable[None]], *, watch: bool = True) -> None:
        """``watch`` false lets everything pass, for tests of what comes before any rule."""
        self.frames: list[Json] = []
        self.gate = Gate.if_available() if watch else None
        self.order = Orders(self.gate) if self.gate is not None else None
        self.on_ask: Callable[[Json], Json | None] | None = None
        self.on_call: Callable[[Json], Json | None] | None = None
        self.tap: Callable[[bytes], None] | None = None
        self.ended = trio.Event()
        self._send_bytes = send_bytes
        self._sending = trio.Lock()
        self._pending = bytearray()
        self._asks_in, self._asks_out = trio.open_memory_channel[Json](1000)
        self._calls_in, self._calls_out = trio.open_memory_channel[Json](1000)
        self._calls: dict[tuple[type, Any], Call] = {}
        self._next_id = 0
        self._changed = trio.Event()
        # By session, each with the number of its frame: sweeps hold a hundred turns on one connection.
        self._updates: defaultdict[str, list[tuple[int, Json]]] = defaultdict(list)

    # -- talking -----------------------------------------------------------------------------------

    async def send_line(self, line: bytes | str, opens: int | str | None = None) -> None:
        """Write a line as it is, good or bad. ``opens`` is an id in it that only term2 can read."""
        raw = line.encode() if isinstance(line, str) else line
        if self.gate is not None and self.order is not None:
            self.gate.sent(raw)
            self.order.sent(raw)
            if opens is not None:
                self.gate.opened(opens, "?")
        await self.send_bytes(raw + b"\n")

    async def send_bytes(self, data: bytes) -> None:
        """Write bytes that the watch does not see."""
        async with self._sending:
            await self._send_bytes(data)

    async def send(self, value: Any) -> None:
        """Write a value as one line."""
        await self.send_line(json.dumps(value))

    async def send_together(self, *values: Any) -> None:
        """Write several values, a line each, in one piece: they are read together."""
        lines = [json.dumps(value).encode() for value in values]
        if self.gate is not None and self.order is not None:
            for line in lines:
                self.gate.sent(line)
                self.order.sent(line)
        await self.send_bytes(b"".join(line + b"\n" for line in lines))

    async def call(self, method: str, params: Any = None, request_id: int | str | None = None) -> Call:
        """Send a request without waiting for its answer."""
        call = self.prepare(method, request_id)
        await self.send(self.request_frame(call, params))
        return call

    def prepare(self, method: str, request_id: int | str | None = None) -> Call:
        """A call whose frame the test writes itself, so that several go out in one piece."""
        if request_id is None:
            request_id, self._next_id = self._next_id, self._next_id + 1
        call = Call(request_id, method)
        self._calls[type(request_id), request_id] = call
        return call

    @staticmethod
    def request_frame(call: Call, params: Any) -> Json:
        """The frame of a prepared call."""
        frame: Json = {"jsonrpc": "2.0", "id": call.request_id, "method": call.method}
        return frame if params is None else {**frame, "params": params}

    async def request(self, method: str, params: Any = None, request_id: int | str | None = None) -> Any:
        """Send a request and wait for its result; raises ``Refused`` for an error."""
        return await (await self.call(method, params, request_id)).result()

    async def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        frame: Json = {"jsonrpc": "2.0", "method": method}
        await self.send(frame if params is None else {**frame, "params": params})

    async def refused(self, method: str, params: Any = None) -> Refused:
        """Send a request that has to be refused, and return how."""
        call = await self.call(method, params)
        try:
            result = await call.result()
        except Refused as refused:
            return refused
        raise AssertionError(f"{method} was taken: {result!r}")

    async def next_ask(self) -> Json:
        """The next permission request that nothing answered yet."""
        with trio.fail_after(ANSWERS_WITHIN_S):
            return await self._asks_out.receive()

    async def next_call(self) -> Json:
        """The next other request of term2's that nothing answered yet; ``reply`` and ``refuse`` answer it."""
        with trio.fail_after(ANSWERS_WITHIN_S):
            return await self._calls_out.receive()

    async def refuse(self, call: Json, code: int, message: str) -> None:
        """Answer a request of term2's with an error."""
        await self.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": code, "message": message}})

    async def choose(self, ask: Json, option_id: str) -> None:
        """Answer an ask with an option."""
        await self.reply(ask, {"outcome": {"outcome": "selected", "optionId": option_id}})

    async def reply(self, ask: Json, result: Any) -> None:
        """Answer an ask, or any request of term2's, with any result."""
        await self.send({"jsonrpc": "2.0", "id": ask["id"], "result": result})

    # -- listening ---------------------------------------------------------------------------------

    def updates(self, session_id: str, start: int = 0) -> list[Json]:
        """The updates of a session that came so far, from frame number ``start`` on."""
        updates = self._updates.get(session_id, [])
        return [update for _, update in updates[bisect_left(updates, start, key=itemgetter(0)) :]]

    async def update(self, session_id: str, fits: Callable[[Json], bool], start: int = 0) -> Json:
        """Wait for an update of the session that fits, and return it."""

        def is_it(frame: Json) -> bool:
            return (
                frame.get("method") == "session/update"
                and frame["params"]["sessionId"] == session_id
                and fits(frame["params"]["update"])
            )

        update: Json = (await self.frame(is_it, start))["params"]["update"]
        return update

    async def frame(self, fits: Callable[[Json], bool], start: int = 0) -> Json:
        """Wait for a frame that fits and return it; fails when the connection ended or says nothing."""
        at = start
        with trio.fail_after(ANSWERS_WITHIN_S):
            while True:
                while at < len(self.frames):
                    if fits(self.frames[at]):
                        return self.frames[at]
                    at += 1
                assert not self.ended.is_set(), "the connection ended before it came"
                await self._changed.wait()

    async def quiet(self, seconds: float) -> list[Json]:
        """The frames that come within so many seconds, for rules that something does *not* come."""
        start = len(self.frames)
        await trio.sleep(seconds)
        return self.frames[start:]

    def feed(self, data: bytes) -> list[Json]:
        """Take bytes that arrived, and return what has to be sent in answer at once."""
        if self.tap is not None:
            self.tap(data)
        seen = len(self._pending)
        self._pending += data
        if self._pending.find(b"\n", seen) < 0:
            return []
        *whole, rest = bytes(self._pending).split(b"\n")
        self._pending[:] = rest
        replies = [reply for line in whole for reply in self._arrived(line)]
        self._wake()
        return replies

    def end(self) -> None:
        """Nothing more will arrive.

        Raises:
            AssertionError: the last line had no end.
        """
        self.ended.set()
        self._wake()
        assert not self._pending, f"the stream ended within a line: {bytes(self._pending[:200])!r}"

    def check_ended_well(self) -> None:
        """Every request was answered, and every turn has had its idle."""
        if self.gate is not None and self.order is not None:
            assert self.gate.unanswered() == [], f"requests without an answer: {self.gate.unanswered()}"
            self.order.finish()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _arrived(self, line: bytes) -> list[Json]:
        value = self._watched(line) if self.gate is not None else json.loads(line)
        frame = value if isinstance(value, dict) else {"batch": value}
        if frame.get("method") == "session/update":
            self._updates[frame["params"]["sessionId"]].append((len(self.frames), frame["params"]["update"]))
        self.frames.append(frame)
        replies = []
        for message in value if isinstance(value, list) else [value]:
            if "method" not in message:
                call = self._calls.pop((type(message["id"]), message["id"]), None)
                if call is not None:
                    call.settle(message)
            elif "id" in message:
                reply = self._called(message)
                if reply is not None:
                    replies.append({"jsonrpc": "2.0", "id": message["id"]} | reply)
        return replies

    def _called(self, call: Json) -> Json | None:
        """What a request of term2's is answered with at once."""
        ask = call["method"] == "session/request_permission"
        on_it = self.on_ask if ask else self.on_call
        try:
            result = on_it(call) if on_it is not None else None
        except Refused as refused:
            return {"error": refused.error}
        if result is None:
            (self._asks_in if ask else self._calls_in).send_nowait(call)
            return None
        return {"result": result}

    def _watched(self, line: bytes) -> Any:
        assert self.gate is not None
        assert self.order is not None
        try:
            value = self.gate.received(line)
            self.order.received(line)
        except AssertionError as fault:
            frame = line[:2000].decode(errors="replace")
            raise AssertionError(f"{fault}\nin the frame {frame}") from None
        return value
