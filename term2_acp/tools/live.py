"""The output of one running program, on its three ways: the person's terminal, the model, the artifact.

Theory of operation. ``follow`` is one task: it receives, hands every piece to the three ways at once, and
then waits for whichever is behind, the editor or the disk. So a slow one slows the program down by its pipe,
memory stays bounded whatever is written, and the caller's time limit and cancel reach each of its waits.

Rules:

- Keys are taken out before anything else; what may yet be the beginning of one is held back until the end.
- The terminal gets everything, as it comes, up to ``LIVE_BYTES``. Of a longer output it then gets one
  snapshot of head and tail at the end, which replaces what it showed: a replay folds to the same.
- The model gets head and tail, decoded as a whole.
- The artifact is made when the output exceeds what the model gets. A disk that cannot take it is told of, and
  the program goes on. Its file is written in threads, and a thread that nobody waits for any more leaves
  nothing out: the bytes wait in one line, and whoever comes next writes all of it.
"""

import logging
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable

import trio
from attrs import field

from term2_acp.domain.classes import define
from term2_acp.domain.content import Terminal
from term2_acp.domain.events import Event, ExitStatus, TerminalOutput, TerminalUpdate
from term2_acp.domain.ids import TerminalId, new_terminal_id
from term2_acp.redact import ByteStreamRedactor
from term2_acp.store.artifacts import Artifact, artifact_name
from term2_acp.tools.base import ToolContext
from term2_acp.tools.output import HeadAndTail
from term2_acp.tools.targets import counted

logger = logging.getLogger(__name__)

# Bytes of an output that the model gets, about 8,000 tokens. An error is mostly at the end.
MODEL_HEAD_BYTES = 12 * 1024
MODEL_TAIL_BYTES = 20 * 1024

# Bytes that a terminal is shown as they come: all of any output that a person follows. They are journalled.
LIVE_BYTES = 1024 * 1024

# Bytes of the snapshot of a longer output.
SCREEN_HEAD_BYTES = 48 * 1024
SCREEN_TAIL_BYTES = 80 * 1024

# Bytes at which a program is stopped: no person and no model reads as much, and a disk is finite.
MAX_OUTPUT_BYTES = 1024**3

# Seconds between two pieces for the terminal, and bytes that do not wait for them. Ten thousand small writes
# are then some frames, and a person sees no difference.
SHOW_EVERY_S = 0.05
SHOW_BYTES = 64 * 1024

# Bytes of one write to the artifact, which is one trip to a thread.
WRITE_BYTES = 1024 * 1024

# Seconds for the artifact to be closed. Only a disk that hangs needs longer, and nobody waits for that.
CLOSE_DEADLINE_S = 2.0

MORE_FOLLOWS = b"\n[more output follows; its end is shown when the command has ended]\n"


class LiveOutput:
    """See the module. A call's ``run`` makes it, and uses its methods in the order in which they stand here.

    ``terminal_id`` is the terminal's, and ``content`` its place in the tool call. ``overflowed``: the program
    has written ``MAX_OUTPUT_BYTES``, and must be stopped.
    """

    def __init__(
        self, context: ToolContext, *, command: str, cwd: str, terminal_id: TerminalId | None = None
    ) -> None:
        assert context.ports is not None, "a program runs for a call"
        self.terminal_id = terminal_id or new_terminal_id()
        self.content = Terminal(self.terminal_id)
        self.overflowed = False
        self._ports = context.ports
        self._publish = context.publish
        self._announced = TerminalUpdate(self.terminal_id, command, cwd)
        self._begun = False
        self._ended = False
        self._redactor = ByteStreamRedactor(context.redactor)
        self._model = HeadAndTail(MODEL_HEAD_BYTES, MODEL_TAIL_BYTES)
        self._screen = HeadAndTail(SCREEN_HEAD_BYTES, SCREEN_TAIL_BYTES)
        self._unshown = bytearray()
        self._live_left = LIVE_BYTES
        self._frozen = False  # the terminal shows no more until the end
        self._due = math.inf  # when the unshown bytes are to be shown
        self._shown_at = -math.inf
        self._whole = _Whole(context, artifact_name(context.ports.tool_call_id))

    @property
    def total(self) -> int:
        """Bytes written so far, as they are kept: without keys."""
        return self._model.total

    @property
    def cut(self) -> bool:
        """Whether the model does not get all of it."""
        return self._model.cut

    @property
    def kept_in(self) -> str | None:
        """The file that has the whole, as far as it could be kept; None where there is none."""
        return self._whole.path if self.cut else None

    async def begin(self) -> None:
        """Show the terminal. Cancelled, it is shown by ``end_nowait``."""
        await self._publish(self._announced)
        self._begun = True

    async def follow(self, receive: Callable[[], Awaitable[bytes]]) -> None:
        """Take what ``receive`` gives until it gives ``b""``, or until ``overflowed``.

        ``receive`` must lose nothing when it is cancelled. Cancelled, this loses nothing that was received;
        what is not shown yet is shown by ``end_nowait``.
        """
        while not self.overflowed:
            data = None
            with trio.CancelScope(deadline=self._due):
                data = await receive()
            if data == b"":
                return
            if data:
                self._take(self._redactor.feed(data))
                self.overflowed = self.total >= MAX_OUTPUT_BYTES
                await self._whole.written()
            if self._due <= trio.current_time():
                await self._show()

    def end_nowait(self, exit_status: ExitStatus) -> None:
        """Show what is left, the snapshot of a long output, and the end. A second time it does nothing.

        The process tree must be gone. Never waits, and is for the way out of a cancelled call too.
        """
        if self._ended:
            return
        self._ended = True
        self._take(self._redactor.flush())
        events: list[Event] = [] if self._begun else [self._announced]
        snapshot = None
        if self._frozen:
            kept = self._screen.kept()
            snapshot = kept.joined(f"{counted(kept.left_out, 'byte')} left out")
        elif self._unshown:
            events.append(TerminalOutput(self.terminal_id, bytes(self._unshown)))
        self._unshown.clear()
        events.append(TerminalUpdate(self.terminal_id, output=snapshot, exit_status=exit_status))
        self._ports.show_nowait(events)

    async def finish(self) -> None:
        """Write what is left of the artifact and close it; at once where there is none.

        No cancel ends this; it takes at most ``CLOSE_DEADLINE_S``.
        """
        if self.cut:
            with trio.move_on_after(CLOSE_DEADLINE_S, shield=True):
                await self._whole.closed()

    def for_model(self) -> str:
        """The output as the model gets it, after ``finish``. Empty where nothing was written."""
        kept = self._model.kept()
        if not kept.left_out:
            return kept.text("")
        whole = self.where_kept()
        if self.kept_in is not None:
            whole += " Commands do not see that file; read_file does, if the person allows it."
        return kept.text(f"{counted(kept.left_out, 'byte')} left out here. {whole}")

    def where_kept(self) -> str:
        """A sentence on where the whole of a cut output is, and what of it is not there; after ``finish``."""
        return self._whole.words(self.total)

    def _take(self, data: bytes) -> None:
        """Hand a piece to the three ways, without waiting for any."""
        if not data:
            return
        self._model.feed(data)
        self._screen.feed(data)
        self._whole.put(data)
        if not self._frozen:
            self._frozen = len(data) > self._live_left
            self._live_left -= len(data)
            self._unshown += MORE_FOLLOWS if self._frozen else data
            soon = self._frozen or len(self._unshown) >= SHOW_BYTES
            self._due = -math.inf if soon else min(self._due, self._shown_at + SHOW_EVERY_S)

    async def _show(self) -> None:
        """Show what is not shown yet, once the editor has read enough."""
        shown = bytes(self._unshown)
        await self._publish(TerminalOutput(self.terminal_id, shown))
        # Not before: cancelled, nothing was shown, and it is all still there for the end.
        del self._unshown[: len(shown)]
        self._shown_at = trio.current_time()
        self._due = math.inf


@define(eq=False)
class _Whole:
    """The artifact of one output: its bytes wait in a line for a thread that writes them.

    Up to the first write, which nobody asks for before the model's bound is exceeded, there is no file.
    """

    _context: ToolContext
    _name: str
    path: str | None = field(default=None, init=False)
    _gathered: bytearray = field(factory=bytearray, init=False)
    _line: deque[bytes] = field(factory=deque, init=False)  # what the threads take from
    _file: Artifact | None = field(default=None, init=False)
    _trouble: str | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)
    _turn: threading.Lock = field(factory=threading.Lock, init=False)

    def put(self, data: bytes) -> None:
        """Take a piece, without waiting."""
        if self._trouble is None and not (self._file is not None and self._file.cut):
            self._gathered += data

    async def written(self) -> None:
        """Wait until the disk has what it can have; at once while that is less than a write is worth."""
        if len(self._gathered) >= WRITE_BYTES:
            self._line_up()
            await self._context.files.in_thread(self._write)

    async def closed(self) -> None:
        """Wait until all of it is written and the file is closed."""
        self._line_up()
        await self._context.files.in_thread(self._close)

    def words(self, total: int) -> str:
        """A sentence on what of ``total`` bytes is where."""
        if self._file is None:
            return f"The whole could not be kept: {self._trouble or 'the disk does not answer'}."
        if self._trouble is None and self._closed and not self._file.cut:
            return f"The whole, {counted(total, 'byte')}, is in {self._file.path}."
        why = self._trouble or ("that is the bound of a session" if self._closed else "the disk is slow")
        first = counted(self._file.size, "byte")
        return f"Only its first {first} could be kept, in {self._file.path}: {why}."

    def _line_up(self) -> None:
        self._line.append(bytes(self._gathered))
        self._gathered.clear()

    def _write(self) -> None:
        """Write the line, in a thread. Threads that were left behind take turns with it."""
        with self._turn:
            if self._trouble is not None:
                return  # nothing may follow a gap
            try:
                if self._file is None:
                    self._file = self._context.artifacts.open(self._name)
                    self.path = self._file.path
                while self._line:
                    self._file.write(self._line[0])
                    self._line.popleft()
            except OSError as error:
                logger.warning("an output cannot be kept: %s", error.strerror)
                self._trouble = error.strerror or type(error).__name__

    def _close(self) -> None:
        self._write()
        with self._turn:
            if self._file is not None:
                self._file.close()
            self._closed = True
