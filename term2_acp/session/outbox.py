"""The one line in which everything that a client sees of a session stands.

Events, markers and asides go in, and the pump takes them out in the same order. A marker is a callable that
is called when everything before it is journalled and handed to the client: the answer to a prompt, a
permission question, a turn's own wait. That is how "response before the first update", "tool call before
its ask", "journalled before it runs" and "every update before the idle" hold by construction. An aside
belongs to no turn, wherever it stands (``Aside``).

One way in, which never waits: ``put_nowait``. What is bounded in number (admission, markers, last statuses,
the idle) just uses it; the work inside a turn waits for ``room`` before it.

Text is most of the traffic, and each piece is small:

- Adjacent text of one message is merged while it waits. The parts are kept and joined once; adding each
  piece to a string would copy the whole message again for every delta.
- When only text waits, and the pump was done with its last group less than ``TEXT_AGE_S`` ago, it waits for
  the rest of that time or ``TEXT_RUSH`` characters. One journal row and one write then serve many deltas, and
  a person sees no difference. (Not from when that group was taken: where commits are slow or shared by many
  sessions, the time would be over each time, and the pump take whatever little had come.)
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import trio
from attrs import field

from term2_acp.domain.classes import define
from term2_acp.domain.events import AgentMessageChunk, AgentThoughtChunk, Event, Idle
from term2_acp.domain.turn import Failure

# Entries that may wait before the turn does. A turn's burst (a reply with its calls) fits; a client that
# does not read costs this and no more.
LINE_ENTRIES = 512

# Characters of text that may wait, merged or not.
LINE_CHARACTERS = 256 * 1024

# Text that is younger than this waits for company. Below what a person can see, above a journal commit.
TEXT_AGE_S = 0.005

# Characters that do not wait for the age: a frame of this size is worth its write.
TEXT_RUSH = 16 * 1024

Marker = Callable[[], None]


@define(eq=False)
class Admission:
    """The marker that a prompt's response waits for, and the pump's handle on the turn behind it.

    Exactly one of ``answer`` and ``refused`` is called: it is refused when the journal could not take the
    prompt, and the turn then has to leave no trace. ``failed`` says that the journal could not take what
    the turn said later.
    """

    answer: Callable[[], None]
    refused: Callable[[Failure], None]
    failed: Callable[[Failure], None]

    def __call__(self) -> None:
        """The prompt is kept and its turn may be shown."""
        self.answer()


class Aside(NamedTuple):
    """What is said beside the turns. It is kept and shown whole and by itself, or not at all.

    Exactly one of ``said`` and ``refused`` is called, unless the session ends before either: the first when
    the events are kept and shown, the other when the journal could not take them. No turn fails for it.
    """

    events: tuple[Event, ...]
    said: Callable[[], None]
    refused: Callable[[Failure], None]


Chunk = AgentMessageChunk | AgentThoughtChunk
_TEXT: frozenset[type] = frozenset({AgentMessageChunk, AgentThoughtChunk})


@define(eq=False)
class _Run:
    """Text of one message that is still in the line."""

    first: Chunk
    parts: list[str] = field(factory=list)

    def whole(self) -> Chunk:
        return type(self.first)(self.first.message_id, "".join(self.parts))


class Closed(Exception):
    """The outbox takes nothing more: the session is closing."""


class Outbox:
    """See the module. ``merge_text`` is False only where each delta must stay its own update."""

    def __init__(self, *, merge_text: bool = True) -> None:
        self._merge_text = merge_text
        self._line: list[Event | Marker | Aside | _Run] = []
        self._characters = 0
        self._urgent = False
        self._closed = False
        self._done_at = float("-inf")  # when the pump was done with its last group; it has had none
        self._handed_out = False
        self._pump = trio.lowlevel.ParkingLot()
        self._reaching: set[trio.Event] = set()
        self._waiting = trio.lowlevel.ParkingLot()

    # -- in ----------------------------------------------------------------------------------------

    def put_nowait(self, entries: Iterable[Event | Marker | Aside]) -> None:
        """Append entries whatever waits. For what is bounded in number.

        Raises:
            Closed: the session is closing.
        """
        if self._closed:
            raise Closed
        waits = bool(self._line)
        for entry in entries:
            self._append(entry)
        # The first entry wakes a pump that waits for anything; later text leaves it to its few
        # milliseconds of gathering, and what is not text, or a lot of it, ends them.
        if not waits or self._urgent or self._characters >= TEXT_RUSH or len(self._line) >= LINE_ENTRIES:
            self._pump.unpark()

    @property
    def full(self) -> bool:
        """Whether the line is full, and not closed."""
        return (len(self._line) >= LINE_ENTRIES or self._characters >= LINE_CHARACTERS) and not self._closed

    async def room(self) -> None:
        """Wait while the line is full; where there is room, return without a checkpoint."""
        while self.full:
            await self._waiting.park()

    async def reached(self) -> None:
        """Wait until everything put before is journalled and handed to the client.

        Returns, too, when the outbox is closed or abandoned, and nobody will hand it on.
        """
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        out = trio.Event()
        self.put_nowait([out.set])
        self._reaching.add(out)
        try:
            await out.wait()
        finally:
            self._reaching.discard(out)

    def abandon_nowait(self) -> None:
        """Nobody takes from here any more: let go of those who wait for it."""
        self.close_nowait()
        for out in self._reaching:
            out.set()

    def close_nowait(self) -> None:
        """Take nothing more. What waits still comes out, and then ``take`` returns nothing."""
        self._closed = True
        self._pump.unpark_all()
        self._waiting.unpark_all()

    def _append(self, entry: Event | Marker | Aside) -> None:
        if type(entry) not in _TEXT:
            self._urgent = True
            self._line.append(entry)
            return
        chunk: Chunk = entry  # type: ignore[assignment]  # what an ``isinstance`` costs is felt at each delta
        self._characters += len(chunk.text)
        if not (self._merge_text and self._line and self._merge(chunk)):
            self._line.append(chunk)

    def _merge(self, chunk: Chunk) -> bool:
        """Put the chunk to the last of the line, if that is text of its message."""
        last: Any = self._line[-1]
        if type(last) is _Run:
            if last.first.message_id != chunk.message_id or type(last.first) is not type(chunk):
                return False
            last.parts.append(chunk.text)
            return True
        if type(last) is not type(chunk) or last.message_id != chunk.message_id:
            return False
        self._line[-1] = _Run(last, [last.text, chunk.text])
        return True

    # -- out ---------------------------------------------------------------------------------------

    async def take(self) -> list[Event | Marker | Aside]:
        """Wait for entries and take all of them, merged; empty once the outbox is closed and drained.

        For the one pump. Cancelled, nothing is taken.
        """
        if self._handed_out:
            self._done_at = trio.current_time()
        while not self._line and not self._closed:
            await self._pump.park()
        if not self._urgent:
            await self._let_text_gather()
        if not (self._line and isinstance(self._line[-1], Idle)):
            # One turn of the loop more: the end of a call and the next reply's calls, say, come in one
            # burst, and a group that takes both saves a commit and a write. Nothing follows an idle.
            await trio.lowlevel.checkpoint()
        line, self._line = self._line, []
        self._characters = 0
        self._urgent = False
        self._handed_out = True
        self._waiting.unpark_all()
        return [entry.whole() if isinstance(entry, _Run) else entry for entry in line]

    async def _let_text_gather(self) -> None:
        if self._urgent or self._closed or self._characters >= TEXT_RUSH:
            return
        with trio.move_on_at(self._done_at + TEXT_AGE_S) as scope:
            if scope.deadline > trio.current_time():
                await self._pump.park()
