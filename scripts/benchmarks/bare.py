"""The reference: what this stack can do with no product in it.

A hand-rolled ACP v2 agent on Trio and msgspec. It knows no session state worth the name, no store, no
permission, no provider and no error handling; it does the same input and output as term2, the best way
that was found:

- in: ``wait_readable`` and ``os.read`` into a list of parts; one decode of the envelope, then one of the
  typed params; everything that does not wait is answered inline;
- out: frames gather in one buffer, which is written when the loop is about to wait (an instrument's
  ``before_io_wait``) or when it holds 48 KiB; a task drains what the pipe refuses.

``python -m bare tick`` takes one Trio checkpoint a chunk: the honest floor for anything that streams.

Prompts, the same that the scripted ``bench`` provider knows: ``bench stream N SIZE`` says N chunks of SIZE
characters, ``bench flood SIZE`` does so without end, ``bench perm K`` asks K times, one after the other,
``bench read K`` shows K calls that do not ask, and ``bench hang`` waits for its cancel.
"""

import itertools
import os
import sys
from collections.abc import Iterable
from typing import Any

import msgspec
import trio

FLUSH_BYTES = 48 * 1024  # 64 KiB costs a quarter more
FULL_BYTES = 2 * FLUSH_BYTES  # a turn waits while this much is refused by the pipe
READ_BYTES = 64 * 1024


class Envelope(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"")


class Text(msgspec.Struct, tag="text", tag_field="type"):
    text: str


class PromptParams(msgspec.Struct):
    sessionId: str  # noqa: N815 - the wire's name
    prompt: list[Text]


class SessionParams(msgspec.Struct):
    sessionId: str  # noqa: N815


class Chunk(msgspec.Struct):
    sessionUpdate: str  # noqa: N815
    messageId: str  # noqa: N815
    content: Text


class Update(msgspec.Struct):
    sessionId: str  # noqa: N815
    update: Any


class Frame(msgspec.Struct, omit_defaults=True):
    jsonrpc: str
    id: int | str | None = None
    method: str | None = None
    params: Any = None
    result: Any = None


class Output(trio.abc.Instrument):
    """The one writer."""

    def __init__(self) -> None:
        # A description of our own, so that the parent's keeps its flags.
        self.descriptor = os.open("/proc/self/fd/1", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.buffer = bytearray()
        self.encoder = msgspec.json.Encoder()
        self.token = trio.lowlevel.current_trio_token()
        self.blocked = False  # the pipe refused bytes, and the drain has them now
        self.refused = trio.Event()
        self.room = trio.Event()

    def put(self, frame: Frame) -> None:
        self.encoder.encode_into(frame, self.buffer, -1)
        self.buffer += b"\n"
        if len(self.buffer) >= FLUSH_BYTES:
            self.flush()

    def before_io_wait(self, timeout: float) -> None:
        if timeout > 0:
            self.flush()

    def flush(self) -> None:
        if self.blocked or not self.buffer:
            return
        self._write()
        if self.buffer:
            self.blocked = True
            # Through the token: a task that is woken when the loop is about to wait stays asleep.
            self.token.run_sync_soon(self.refused.set)

    async def drain(self) -> None:
        while True:
            await self.refused.wait()
            self.refused = trio.Event()
            while self.buffer:
                await trio.lowlevel.wait_writable(self.descriptor)
                self._write()
            self.blocked = False
            self.room.set()
            self.room = trio.Event()

    def _write(self) -> None:
        try:
            del self.buffer[: os.write(self.descriptor, self.buffer)]
        except BlockingIOError:
            pass


class Agent:
    """One connection."""

    def __init__(self, nursery: trio.Nursery, output: Output, tick: bool) -> None:
        self.nursery = nursery
        self.output = output
        self.tick = tick
        self.sessions: dict[str, trio.CancelScope | None] = {}
        self.asked: dict[Any, trio.Event] = {}
        self.made = 0
        self.envelopes = msgspec.json.Decoder(Envelope)
        self.prompts = msgspec.json.Decoder(PromptParams)
        self.session_params = msgspec.json.Decoder(SessionParams)

    def accept(self, line: bytes) -> None:
        message = self.envelopes.decode(line)
        match message.method:
            case None:
                self.asked.pop(message.id).set()
            case "session/close":
                self.sessions.pop(self.session_params.decode(message.params).sessionId, None)
                self.answer(message.id, {})
            case "session/prompt":
                params = self.prompts.decode(message.params)
                scope = self.sessions[params.sessionId] = trio.CancelScope()
                self.made += 1
                user, said = f"msg_{self.made}u", f"msg_{self.made}a"
                self.update(params.sessionId, {"sessionUpdate": "state_update", "state": "running"})
                self.answer(message.id, {"messageId": user})
                self.update(
                    params.sessionId,
                    {"sessionUpdate": "user_message", "messageId": user, "content": params.prompt},
                )
                self.nursery.start_soon(self.turn, params, said, scope)
            case "session/cancel":
                turn = self.sessions.get(self.session_params.decode(message.params).sessionId)
                if turn is not None:
                    turn.cancel()
            case "session/new":
                self.made += 1
                session = f"sess_{self.made:032x}"
                self.sessions[session] = None
                self.answer(message.id, {"sessionId": session})
            case "initialize":
                info = {"name": "bare", "title": "bare", "version": "0"}
                self.answer(message.id, {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}})

    def answer(self, request: int | str | None, result: dict[str, Any]) -> None:
        self.output.put(Frame("2.0", id=request, result=result))

    def update(self, session: str, update: Any) -> None:
        self.output.put(Frame("2.0", method="session/update", params=Update(session, update)))

    async def turn(self, params: PromptParams, said: str, scope: trio.CancelScope) -> None:
        session = params.sessionId
        words = params.prompt[0].text.split()
        await trio.lowlevel.checkpoint()
        with scope:
            match words:
                case ["bench", "stream", count, size]:
                    await self.stream(session, said, range(int(count)), "x" * int(size))
                case ["bench", "flood", size]:
                    await self.stream(session, said, itertools.count(), "x" * int(size))
                case ["bench", "perm", count]:
                    for _ in range(int(count)):
                        await self.ask(session)
                case ["bench", "read", count]:
                    for _ in range(int(count)):
                        await self.call(session)
                case ["bench", "hang"]:
                    await trio.sleep_forever()
                case _:
                    await self.stream(session, said, range(1), "hello")
        reason = "cancelled" if scope.cancel_called else "end_turn"
        self.update(session, {"sessionUpdate": "state_update", "state": "idle", "stopReason": reason})
        self.sessions[session] = None

    async def stream(self, session: str, said: str, numbers: Iterable[int], text: str) -> None:
        buffer, tick = self.output.buffer, self.tick
        for done in numbers:
            self.update(session, Chunk("agent_message_chunk", said, Text(text)))
            if len(buffer) > FULL_BYTES:
                await self.output.room.wait()
            # Without a checkpoint now and then no cancel would ever be read.
            elif tick or done % 64 == 63:
                await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    async def call(self, session: str) -> None:
        self.made += 1
        call = {"sessionUpdate": "tool_call_update", "toolCallId": f"call_{self.made}"}
        self.update(session, {**call, "title": "Read", "kind": "read", "status": "pending"})
        self.update(session, {**call, "status": "in_progress"})
        self.update(session, {**call, "status": "completed", "rawOutput": {"lines": 1}})
        await trio.lowlevel.checkpoint()

    async def ask(self, session: str) -> None:
        self.made += 1
        call = {"toolCallId": f"call_{self.made}", "title": "Read", "kind": "read", "status": "pending"}
        self.update(session, {"sessionUpdate": "tool_call_update", **call})
        answered = self.asked[self.made] = trio.Event()
        params = {
            "sessionId": session,
            "title": "Read?",
            "subject": {"type": "tool_call", "toolCall": call},
            "options": [
                {"optionId": "approve", "name": "Allow", "kind": "allow_once"},
                {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
            ],
        }
        self.output.put(Frame("2.0", id=self.made, method="session/request_permission", params=params))
        await answered.wait()


async def serve(tick: bool) -> None:
    output = Output()
    trio.lowlevel.add_instrument(output)
    parts: list[bytes] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(output.drain)
        agent = Agent(nursery, output, tick)
        while True:
            await trio.lowlevel.wait_readable(0)
            data = os.read(0, READ_BYTES)
            if not data:
                break
            *lines, rest = data.split(b"\n")
            if lines and parts:
                lines[0] = b"".join([*parts, lines[0]])
                parts.clear()
            for line in lines:
                if line:
                    agent.accept(line)
            if rest:
                parts.append(rest)
        output.flush()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(serve, sys.argv[1:] == ["tick"])
