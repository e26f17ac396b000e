"""One request of the client's, from its acceptance to its one answer, and the door that takes it.

A call is answered exactly once: whoever comes second is told so in the log and changes nothing. The
calls of a batch hand their answers to the batch, which goes out as one array with the last of them.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
import trio
from attrs import define, field

from term2_acp.jsonrpc.envelope import RequestId
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.jsonrpc.frames import batch_frame, error_frame, result_frame

logger = logging.getLogger(__name__)

# No frame of ours is longer: clients of SDK 2.4.0 drop the connection at 32 MiB.
MAX_ANSWERS_BYTES = 8 * 1024 * 1024

INTERNAL_ERROR = "Internal error"

Work = Callable[[], Awaitable[object]]


class Call(msgspec.Struct, eq=False):
    """A request. ``params`` were checked: they may be decoded, and forwarded, without another look.

    ``finish`` takes the encoded answer to where it belongs. ``on_cancel`` is what a ``$/cancel_request``
    does, in place of cancelling the task that works on it; ``scope`` is the scope of that task. ``open``
    says that the id is in the table of open ids: what is answered inline never is.

    A msgspec Struct because it is made twice as fast as an attrs class, and one is made for every request.
    """

    id: RequestId
    method: str
    params: msgspec.Raw
    batched: bool
    finish: Callable[["Call", bytes], None]
    answered: bool = False
    open: bool = False
    on_cancel: Callable[[], None] | None = None
    scope: trio.CancelScope | None = None

    def answer_nowait(self, result: Any) -> None:
        """Answer with a result: a msgspec Struct or a JSON value."""
        if self.answered:
            self._second()
            return
        try:
            frame = result_frame(self.id, result)
        except Exception:  # the wall: a result that cannot be written is a fault of ours
            logger.exception("the result of %s cannot be written", self.method)
            self.fail_nowait(RpcError(ErrorCode.INTERNAL_ERROR, INTERNAL_ERROR))
            return
        self.answered = True
        self.finish(self, frame)

    def fail_nowait(self, error: RpcError) -> None:
        """Answer with an error."""
        if self.answered:
            self._second()
            return
        self.answered = True
        self.finish(self, error_frame(self.id, error))

    def _second(self) -> None:
        logger.error("a second answer to %s was dropped", self.method)


@define(eq=False)
class Answers:
    """The answers to one batch, on their way into one array.

    ``send`` gets the array and the number of answers in it, once, when the batch was read to its end
    and nothing in it is open. A batch of nothing but notifications and replies is not answered.
    """

    send: Callable[[bytes, int], None]
    _frames: list[bytes] = field(factory=list)
    _size: int = 0
    _open: int = 1  # the reading of the batch counts as one

    def expect(self) -> None:
        """One more request is open."""
        self._open += 1

    def add(self, frame: bytes, request_id: RequestId | None) -> None:
        """An answer, to an open request or to an entry that was none. One too many is cut to an error."""
        if self._size + len(frame) > MAX_ANSWERS_BYTES:
            too_long = RpcError(
                ErrorCode.INTERNAL_ERROR, "the answers of this batch do not fit into one message"
            )
            frame = error_frame(request_id, too_long)
        self._frames.append(frame)
        self._size += len(frame) + 1

    def settle(self) -> None:
        """A request that was open was answered, or the batch was read to its end."""
        self._open -= 1
        if not self._open and self._frames:
            self.send(batch_frame(self._frames), len(self._frames))


class Door(Protocol):
    """Who understands the methods. Both are called by the reader, inline and in the order of the input."""

    @property
    def unbatchable(self) -> frozenset[str]:
        """The methods whose order an array cannot keep: they may not stand in a batch."""
        ...

    def request(self, call: Call) -> Work | None:
        """Accept a request. Never waits.

        Returns the work to be done in a task, whose value is the result; or None when the call has been,
        or will be, answered through ``call``.

        Raises:
            RpcError: the request is refused with it.
        """
        ...

    def notification(self, method: str, params: msgspec.Raw) -> None:
        """Take a notification, known or not. Never waits."""
        ...
