"""Our calls of the client's methods: permission questions, mostly.

Every call is settled at most once: by the client's answer, by nothing once it was withdrawn, or as
``Gone`` when no answer can come any more. Whoever waits for a permission takes all but an explicit answer
for a refusal, so nothing here may lose one silently.
"""

import logging
from collections.abc import Callable

import msgspec

from term2_acp.jsonrpc.envelope import ErrorReply, MalformedReply, RequestId, Result
from term2_acp.jsonrpc.frames import call_frame, notification_frame
from term2_acp.jsonrpc.inflight import Inflight
from term2_acp.transport.call import Call
from term2_acp.transport.writer import Writer

logger = logging.getLogger(__name__)


class Gone(msgspec.Struct, frozen=True):
    """The client went away before it answered a call of ours."""


Reply = Result | ErrorReply | MalformedReply | Gone
Settle = Callable[[Reply], None]


class Calls:
    """The calls of ours that are open on one connection."""

    def __init__(self, inflight: Inflight[Call, Settle], writer: Writer) -> None:
        self._inflight = inflight
        self._writer = writer
        self._closed = False

    def call_nowait(self, method: str, params: object, settle: Settle) -> Callable[[], None]:
        """Send a call; see ``Peer.call_nowait``."""
        call_id = self._inflight.next_id()
        frame = call_frame(call_id, method, params)
        if self._closed or self._writer.broken:
            _settle(settle, Gone())
            return _nothing
        self._inflight.call(call_id, settle)
        self._writer.send_nowait(frame)

        def withdraw() -> None:
            if self._inflight.settle(call_id) is not None:
                self._writer.send_nowait(notification_frame("$/cancel_request", {"requestId": call_id}))

        return withdraw

    def settle(self, call_id: RequestId, reply: Reply) -> bool:
        """Settle a call; False when it is not open: never made, withdrawn, or answered."""
        settle = self._inflight.settle(call_id)
        if settle is None:
            return False
        _settle(settle, reply)
        return True

    def close(self) -> None:
        """No answer can come any more: settle what is open as ``Gone``, and at once what is called later."""
        self._closed = True
        for settle in self._inflight.settle_all():
            _settle(settle, Gone())


def _settle(settle: Settle, reply: Reply) -> None:
    try:
        settle(reply)
    except Exception:  # the wall: whoever made the call is not the reader's concern
        logger.exception("the answer to a call of ours could not be taken")


def _nothing() -> None:
    """Withdraw a call that was never made."""
