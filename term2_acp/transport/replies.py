"""What we answer, on its way out, and how much of it the client has not read.

Replies are the one thing that a client can make us queue without bound: it sends and does not read. So
each is remembered by the count of bytes at which it will have been taken, and the reader waits while too
many are not. Without that, 60 MB of unknown methods cost 170 MiB (measured).
"""

from collections import deque

from term2_acp.jsonrpc.envelope import RequestId
from term2_acp.jsonrpc.errors import RpcError
from term2_acp.jsonrpc.frames import error_frame
from term2_acp.transport.call import Answers
from term2_acp.transport.writer import Writer

# Replies that wait unread before the reader pauses.
MAX_UNREAD_REPLIES = 1_024


class Replies:
    """Sends answers. Never waits, but for ``read``.

    ``unread`` may hold some that were read meanwhile; ``read`` finds out. It is to be waited for when
    ``MAX_UNREAD_REPLIES`` are in it.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.unread: deque[int] = deque()  # where each reply ends, in bytes ever queued

    def send_nowait(self, frame: bytes, count: int = 1) -> None:
        """Send one line that holds ``count`` answers."""
        self._writer.send_nowait(frame)
        if count == 1:
            self.unread.append(self._writer.queued)
        else:
            self.unread.extend([self._writer.queued] * count)

    def refuse_nowait(self, request_id: RequestId | None, error: RpcError, answers: Answers | None) -> None:
        """Answer what never became a call, by a line of its own or in the array of its batch."""
        frame = error_frame(request_id, error)
        if answers is None:
            self.send_nowait(frame)
        else:
            answers.add(frame, request_id)

    async def read(self) -> None:
        """Wait until fewer than ``MAX_UNREAD_REPLIES`` are unread, or the client is gone."""
        self._writer.flush_nowait()
        while not self._writer.broken:
            while self.unread and self.unread[0] <= self._writer.written:
                self.unread.popleft()
            if len(self.unread) < MAX_UNREAD_REPLIES:
                return
            await self._writer.progress()
        self.unread.clear()
