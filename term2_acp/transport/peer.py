"""The connection: one reader that accepts in order, the tasks of what must wait, and calls both ways.

Theory of operation:

- The reader decides inline and in the order of the input. It never waits for a handler; what has to wait
  is handed back by the door as ``Work`` and runs in a task and a cancel scope of its own.
- No exception of a handler leaves the reader.
- A client that sends and does not read is the one case in which the reader pauses.
- When the input ends, or we are told to stop, nothing more is accepted and every open call of ours is
  settled as ``Gone``, at once. Answers still go out.

Sources: JSON-RPC 2.0; ACP v2 for ``$/cancel_request`` and for what may stand in a batch.
"""

import logging
from collections.abc import Callable

import msgspec
import trio

from term2_acp.jsonrpc.envelope import (
    Batch,
    ErrorReply,
    Fault,
    MalformedReply,
    Message,
    Notification,
    Request,
    RequestId,
    Result,
    decode,
)
from term2_acp.jsonrpc.envelope import Reply as ReplyMessage
from term2_acp.jsonrpc.errors import RpcError
from term2_acp.jsonrpc.framing import Line, LineSplitter
from term2_acp.jsonrpc.inflight import Inflight
from term2_acp.transport.call import Answers, Call, Door, Work
from term2_acp.transport.calls import Calls, Gone, Reply, Settle
from term2_acp.transport.replies import MAX_UNREAD_REPLIES, Replies
from term2_acp.transport.requests import Requests
from term2_acp.transport.streams import Incoming
from term2_acp.transport.writer import Writer

__all__ = ["Call", "Door", "ErrorReply", "Gone", "MalformedReply", "Peer", "Reply", "Result", "Work"]

logger = logging.getLogger(__name__)


class _CancelParams(msgspec.Struct):
    requestId: RequestId  # noqa: N815 - ACP's spelling


_decode_cancel = msgspec.json.Decoder(_CancelParams).decode


class Peer:
    """One client, from its first byte to the end of its last request.

    ``ended`` is set when no more input will be accepted.
    """

    def __init__(self, incoming: Incoming, writer: Writer, door: Door) -> None:
        self.ended = trio.Event()
        self._incoming = incoming
        self._writer = writer
        self._door = door
        self._splitter = LineSplitter()
        inflight: Inflight[Call, Settle] = Inflight()
        self._replies = Replies(writer)
        self._calls = Calls(inflight, writer)
        self._requests = Requests(inflight, self._replies, door)
        self._reading = trio.CancelScope()

    # -- running -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read until the input ends or ``stop_nowait``; then until the tasks of all requests have ended.

        Cancelled, it stops reading, and requests that are worked on are answered -32800.
        """
        async with trio.open_nursery() as watchers:
            watchers.start_soon(self._settle_when_broken)
            async with trio.open_nursery() as requests:
                self._requests.work_in(requests)
                try:
                    with self._reading:
                        await self._read()
                finally:
                    self._end()
            watchers.cancel_scope.cancel()

    def stop_nowait(self) -> None:
        """Accept no more input. What was read and not yet accepted is dropped."""
        self._reading.cancel()
        self._end()

    @property
    def behind(self) -> bool:
        """Whether ``ready`` would wait."""
        return self._writer.behind

    async def ready(self) -> None:
        """Wait while the client has a lot to read; at once when it is gone."""
        await self._writer.ready()

    def notify_nowait(self, frame: bytes) -> None:
        """Send a notification that is encoded already: a whole line, without its newline."""
        self._writer.send_nowait(frame)

    def call_nowait(self, method: str, params: object, settle: Callable[[Reply], None]) -> Callable[[], None]:
        """Call a method of the client and return how to withdraw the call.

        ``settle`` is called at most once, inline, by the reader; before this returns when the client is
        gone already. Withdrawing tells the client (``$/cancel_request``) and makes a late answer nothing;
        after the answer it does nothing.

        Raises:
            TypeError, ValueError: ``params`` cannot be written as JSON; nothing was sent.
        """
        return self._calls.call_nowait(method, params, settle)

    def _end(self) -> None:
        self.ended.set()
        self._calls.close()

    async def _settle_when_broken(self) -> None:
        """A client that cannot hear us will answer nothing more."""
        await self._writer.broke()
        self._calls.close()

    # -- reading -----------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            try:
                data = await self._incoming.receive()
            except OSError:
                logger.exception("the input broke")
                data = b""
            for line in self._splitter.feed(data) if data else self._splitter.finish():
                if self.ended.is_set():
                    return
                self._accept(line)
                del line  # it may be 32 MiB, and the wait for the next one has no end
                if len(self._replies.unread) >= MAX_UNREAD_REPLIES:
                    await self._replies.read()
            if not data:
                return

    def _accept(self, line: Line) -> None:
        message = decode(line)
        if type(message) is Request:  # by far the most frequent, and hot
            self._requests.accept_nowait(message, None)
            return
        if not isinstance(message, Batch):
            self._dispatch(message, None)
            return
        answers = Answers(self._replies.send_nowait)
        for entry in message.entries:
            self._dispatch(entry, answers)
        answers.settle()

    def _dispatch(self, message: Message, answers: Answers | None) -> None:
        match message:
            case Request():
                self._requests.accept_nowait(message, answers)
            case Notification():
                self._notification(message)
            case ReplyMessage(call_id, outcome):
                if not self._calls.settle(call_id, outcome):
                    logger.debug("an answer to no open call was ignored")
            case Fault():
                self._fault(message, answers)
            case _:
                logger.info("ignored %s", message.reason)

    def _fault(self, fault: Fault, answers: Answers | None) -> None:
        if fault.answers is not None and self._calls.settle(fault.answers, MalformedReply(fault.message)):
            return
        self._replies.refuse_nowait(fault.id, RpcError(fault.code, fault.message), answers)

    def _notification(self, message: Notification) -> None:
        try:
            if message.method == "$/cancel_request":
                self._cancel(message.params)
            elif not message.method.startswith("$/"):
                self._door.notification(message.method, message.params)
        except Exception:  # the wall: a notification is never answered
            logger.exception("the notification %s failed", message.method)

    def _cancel(self, params: msgspec.Raw) -> None:
        try:
            request_id = _decode_cancel(params).requestId
        except msgspec.DecodeError:
            logger.info("ignored a cancel request without the id of a request")
            return
        self._requests.cancel_nowait(request_id)
