"""The only code that writes to the client.

Theory of operation: frames are gathered in a list. They are written in one piece when the event loop is
about to wait, so that whatever one round of it produced costs one system call, or when 48 KiB have
gathered, whichever comes first. While the loop is busy without a pause they are written after
``MAX_AGE_S``. What the client's pipe refuses waits for it in ``run``, and frames gather behind it.

An instrument of Trio's gives the moment before the wait. Trio drops an instrument that raises, without a
word, so flushing never does. An instrument also runs after the loop has decided how long to wait: whoever
is woken there would sleep on, so the loop is told to turn once more.

Sending never waits. Who can wait does so in ``ready`` before it produces more.
"""

import logging
import math
import time
from collections.abc import Callable

import trio
from trio.lowlevel import ParkingLot

from term2_acp.transport.streams import Outgoing, PeerGone

logger = logging.getLogger(__name__)

# One write of a pipe's usual size costs a quarter more a byte than three quarters of it (measured).
GATHER_BYTES = 48 * 1024

# Who may wait does so while more than this is unsent: some seconds of text for a client that reads slowly.
WRITER_BACKLOG = 1024 * 1024

# How long a frame may wait for a loop that never pauses. A person does not see two milliseconds.
MAX_AGE_S = 0.002


class Writer:
    """Queues frames and writes them in order. Made before ``run``; frames may be sent before it too.

    ``broken`` turns true, once and for ever, when nobody can read any more. Then ``on_broken`` is called,
    which must not raise; later frames are dropped, and nobody waits.
    """

    def __init__(self, outgoing: Outgoing) -> None:
        self.broken = False
        self.on_broken: Callable[[], None] | None = None
        self.queued = 0  # bytes ever sent to us
        self.written = 0  # bytes of them that the client's end took
        self._outgoing = outgoing
        self._frames: list[bytes] = []
        self._gathered = 0
        self._refused: memoryview | None = None  # what the pipe would not take of the last piece
        self._lot_refused = ParkingLot()
        self._lot_ready = ParkingLot()
        self._lot_progress = ParkingLot()
        self._lot_broken = ParkingLot()
        self._woke = False

    def send_nowait(self, frame: bytes) -> None:
        """Queue one frame, which has no newline. Dropped when the client is gone."""
        if self.broken:
            return
        size = len(frame) + 1
        self._frames.append(frame)
        self.queued += size
        self._gathered += size
        if self._gathered >= GATHER_BYTES:
            self.flush_nowait()

    def flush_nowait(self) -> None:
        """Write what has gathered, as far as it is taken at once. Never raises."""
        if self._refused is not None or not self._frames:
            return
        self._frames.append(b"")
        piece = b"\n".join(self._frames)
        self._frames.clear()
        self._gathered = 0
        try:
            taken = self._outgoing.send_nowait(piece)
        except Exception as error:  # noqa: BLE001 - the wall: the piece is lost, nothing can follow it
            self._break(error)
            return
        if taken < len(piece):
            self._refused = memoryview(piece)[taken:]
            self._wake(self._lot_refused)
        self._advance(taken)

    @property
    def gathering(self) -> bool:
        """Whether frames wait to be flushed."""
        return bool(self._frames)

    def flush_and_tell_nowait(self) -> bool:
        """Flush, and say whether that woke a task."""
        self._woke = False
        self.flush_nowait()
        return self._woke

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Flush at every pause and write what the pipe refused, until cancelled.

        Cancelled, it flushes once more without waiting. What is to be written for certain is waited for
        with ``drained`` before that.
        """
        instrument = _FlushBeforeWait(self)
        trio.lowlevel.add_instrument(instrument)
        try:
            task_status.started()
            while True:
                if self._refused is None:
                    await self._lot_refused.park()
                else:
                    await self._write_refused(self._refused)
        finally:
            trio.lowlevel.remove_instrument(instrument)
            self.flush_nowait()

    @property
    def behind(self) -> bool:
        """Whether ``ready`` would wait."""
        return self.queued - self.written > WRITER_BACKLOG and not self.broken

    async def ready(self) -> None:
        """Wait while more than ``WRITER_BACKLOG`` bytes are unsent and the client is there."""
        while self.behind:
            await self._lot_ready.park()

    async def drained(self) -> None:
        """Wait until everything is written or the client is gone. Needs ``run``."""
        self.flush_nowait()
        while self.queued > self.written and not self.broken:
            await self._lot_progress.park()

    async def broke(self) -> None:
        """Wait until the client is gone."""
        if not self.broken:
            await self._lot_broken.park()

    async def progress(self) -> None:
        """Wait until the client takes some more bytes, or is gone. Needs ``run``."""
        await self._lot_progress.park()

    async def _write_refused(self, piece: memoryview) -> None:
        try:
            taken = await self._outgoing.send(piece)
        except Exception as error:  # noqa: BLE001 - the wall, as in ``flush_nowait``
            self._break(error)
            await trio.lowlevel.checkpoint()
            return
        rest = piece[taken:]
        self._refused = rest if rest else None
        self._advance(taken)
        self.flush_nowait()

    def _advance(self, taken: int) -> None:
        if not taken:
            return
        self.written += taken
        self._wake(self._lot_progress)
        if self.queued - self.written <= WRITER_BACKLOG:
            self._wake(self._lot_ready)

    def _break(self, error: Exception) -> None:
        if not isinstance(error, PeerGone):
            logger.error("the client's messages cannot be written", exc_info=error)
        self.broken = True
        self._frames.clear()
        self._refused = None
        self._wake(self._lot_ready)
        self._wake(self._lot_progress)
        self._wake(self._lot_broken)
        self._woke = True  # whom ``on_broken`` wakes is not known
        try:
            if self.on_broken is not None:
                self.on_broken()
        except Exception:  # the wall: whoever was just sending has nothing to do with it
            logger.exception("the end of the output could not be reported")

    def _wake(self, lot: ParkingLot) -> None:
        if lot:
            lot.unpark_all()
            self._woke = True


class _FlushBeforeWait(trio.abc.Instrument):
    """Flushes a writer when the event loop is about to wait."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._token = trio.lowlevel.current_trio_token()
        self._clock = trio.lowlevel.current_clock()
        self._gathering_since = 0.0

    def before_io_wait(self, timeout: float) -> None:
        if not self._writer.gathering or not (timeout > 0 or self._due()):
            return
        self._gathering_since = 0.0
        if self._writer.flush_and_tell_nowait():
            self._token.run_sync_soon(_turn_once_more, idempotent=True)

    def _due(self) -> bool:
        """Whether to flush although the loop does not wait: asked once a turn of a busy one."""
        # A clock that jumps when nothing runs asks for no wait although the loop is about to pause.
        if getattr(self._clock, "autojump_threshold", math.inf) < math.inf:
            return True
        now = time.monotonic()
        if not self._gathering_since:
            self._gathering_since = now
        return now - self._gathering_since >= MAX_AGE_S


def _turn_once_more() -> None:
    """Nothing: that it was to be called ends the wait."""
